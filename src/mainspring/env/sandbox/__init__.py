"""Programs and files held by the operating system: bubblewrap, Landlock or Seatbelt, whichever works. Its parts are loaded on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.env.sandbox.backend import SandboxProvider as SandboxProvider
    from mainspring.env.sandbox.backend import SandboxState as SandboxState
    from mainspring.env.sandbox.bubblewrap import Bubblewrap as Bubblewrap
    from mainspring.env.sandbox.env import LAYERS as LAYERS
    from mainspring.env.sandbox.env import SandboxEnv as SandboxEnv
    from mainspring.env.sandbox.env import find_provider as find_provider
    from mainspring.env.sandbox.landlock import Landlock as Landlock
    from mainspring.env.sandbox.policy import Box as Box
    from mainspring.env.sandbox.seatbelt import Seatbelt as Seatbelt

__all__, __getattr__ = exports(
    __name__,
    {
        "policy": "Box",
        "bubblewrap": "Bubblewrap",
        "env": "LAYERS find_provider SandboxEnv",
        "landlock": "Landlock",
        "backend": "SandboxProvider SandboxState",
        "seatbelt": "Seatbelt",
    },
)
