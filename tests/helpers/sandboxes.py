"""The layers of the sandbox that can be tried on this machine."""

from collections.abc import Callable

from mainspring.env.sandbox import Bubblewrap, Landlock, SandboxBackend
from tests.requires import skip_missing

LAYERS: dict[str, Callable[[], SandboxBackend]] = {"bubblewrap": Bubblewrap, "landlock": Landlock}


def layer(name: str) -> SandboxBackend:
    """The layer; the test is skipped where it does not work, with the reason."""
    found = LAYERS[name]()
    if problem := found.unavailable_reason():
        skip_missing(problem)
    return found
