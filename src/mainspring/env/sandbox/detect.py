"""Finding the strongest layer that works on this machine."""

from __future__ import annotations

import sys
from functools import cache

from mainspring.env.sandbox.backend import SandboxProvider
from mainspring.env.sandbox.bubblewrap import Bubblewrap
from mainspring.env.sandbox.landlock import Landlock
from mainspring.env.sandbox.seatbelt import Seatbelt
from mainspring.errors import ConfigError

LAYERS = ("bubblewrap", "landlock", "seatbelt")
"""Names of the layers."""


def find_provider(layer: str | None = None) -> SandboxProvider:
    """The strongest layer that works here; it is tried out once for each process. Blocking; 20 to 50 ms the first time.

    Args:
        layer: One of `LAYERS`, if it has to be this one.

    Raises:
        ConfigError: If none works, with what to do for each.
    """
    if layer is not None and layer not in LAYERS:
        raise ConfigError(f"there is no sandbox {layer!r}; there are {', '.join(LAYERS)}")
    names = [layer] if layer else _of_platform()
    if not names:
        raise ConfigError(f"there is no sandbox for {sys.platform}; leave it out, or use a container")
    reasons: list[str] = []
    for name in names:
        provider, problem = _tried(name)
        if problem is None:
            return provider
        reasons.append(problem)
    raise ConfigError(f"no sandbox works here, so nothing was started: {'; '.join(reasons)}")


def _of_platform() -> list[str]:
    if sys.platform == "linux":
        return ["bubblewrap", "landlock"]
    return ["seatbelt"] if sys.platform == "darwin" else []


@cache
def _tried(name: str) -> tuple[SandboxProvider, str | None]:
    provider = _make(name)
    return provider, provider.problem()


def _make(name: str) -> SandboxProvider:
    if name == "bubblewrap":
        return Bubblewrap()
    return Landlock() if name == "landlock" else Seatbelt()
