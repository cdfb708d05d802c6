"""Programs and files held by the operating system: bubblewrap, Landlock or Seatbelt, whichever works."""

from mainspring.env.sandbox.box import Box
from mainspring.env.sandbox.bubblewrap import Bubblewrap
from mainspring.env.sandbox.detect import LAYERS, find_provider
from mainspring.env.sandbox.env import SandboxEnv
from mainspring.env.sandbox.landlock import Landlock
from mainspring.env.sandbox.provider import SandboxProvider, SandboxState
from mainspring.env.sandbox.seatbelt import Seatbelt

__all__ = [
    "LAYERS",
    "Box",
    "Bubblewrap",
    "Landlock",
    "SandboxEnv",
    "SandboxProvider",
    "SandboxState",
    "Seatbelt",
    "find_provider",
]
