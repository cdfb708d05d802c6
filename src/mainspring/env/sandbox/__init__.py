"""Sandboxes of the operating system for programs and files: bubblewrap, Landlock, or Seatbelt. Submodules are loaded on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.env.sandbox.backend import SandboxBackend as SandboxBackend, SandboxReport as SandboxReport
    from mainspring.env.sandbox.bubblewrap import Bubblewrap as Bubblewrap
    from mainspring.env.sandbox.env import BACKENDS as BACKENDS, SandboxEnv as SandboxEnv, find_backend as find_backend
    from mainspring.env.sandbox.landlock import Landlock as Landlock
    from mainspring.env.sandbox.policy import SandboxPolicy as SandboxPolicy
    from mainspring.env.sandbox.seatbelt import Seatbelt as Seatbelt

lazy_exports(
    __name__,
    {
        "policy": "SandboxPolicy",
        "bubblewrap": "Bubblewrap",
        "env": "BACKENDS find_backend SandboxEnv",
        "landlock": "Landlock",
        "backend": "SandboxBackend SandboxReport",
        "seatbelt": "Seatbelt",
    },
)
