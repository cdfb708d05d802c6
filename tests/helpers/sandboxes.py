"""The sandbox backends that tests can use on this machine."""

from collections.abc import Callable

from mainspring.env.sandbox import Bubblewrap, Landlock, SandboxBackend
from tests.requires import skip_missing

LAYERS: dict[str, Callable[[], SandboxBackend]] = {"bubblewrap": Bubblewrap, "landlock": Landlock}


def layer(name: str) -> SandboxBackend:
    """Return a sandbox backend; skip the test with the reason if it does not work."""
    found = LAYERS[name]()
    if problem := found.unavailable_reason():
        skip_missing(f"a sandbox that works here: {problem}")
    return found
