"""The layers of the sandbox that can be tried on this machine."""

from collections.abc import Callable

from mainspring.env.sandbox import Bubblewrap, Landlock, SandboxProvider
from tests.requires import missing

LAYERS: dict[str, Callable[[], SandboxProvider]] = {"bubblewrap": Bubblewrap, "landlock": Landlock}


def layer(name: str) -> SandboxProvider:
    """The layer; the test is skipped where it does not work, with the reason."""
    found = LAYERS[name]()
    if problem := found.problem():
        missing(problem)
    return found
