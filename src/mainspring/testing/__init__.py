"""Test tools for agents: a model that follows a script, an in-memory environment, recorders.

Mainspring's own tests use them. The pytest fixtures are opt-in, in `mainspring.testing.pytest_plugin`.
"""

from mainspring.env import MemoryEnv
from mainspring.lazy import lazy_exports
from mainspring.testing.scripted_model import Call, Reply, ScriptedCall, ScriptedModel
from mainspring.testing.tape import RecordedStep, RecordingSteps, ReplayError, ReplaySteps, Tape, TapeMode

__all__ = [
    "Call",
    "MemoryEnv",
    "RecordedStep",
    "RecordingSteps",
    "ReplayError",
    "ReplaySteps",
    "Reply",
    "ScriptedCall",
    "ScriptedModel",
    "Tape",
    "TapeMode",
]
lazy_exports(__name__, {})  # an unknown name of another library is an error with advice


def __dir__() -> list[str]:
    return __all__
