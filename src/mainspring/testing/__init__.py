"""What tests of agents need: a model that follows a script, an environment in memory, recorders.

They are what our own tests use. The pytest fixtures are in `mainspring.testing.plugin`, for whoever asks for them.
"""

from mainspring.env import MemoryEnv
from mainspring.models.scripted import Call, Reply, ScriptedModel
from mainspring.testing.record import RecordedSteps, RecordingSteps, ReplayError, Step
from mainspring.testing.tape import Tape, TapeMode

__all__ = [
    "Call",
    "MemoryEnv",
    "RecordedSteps",
    "RecordingSteps",
    "ReplayError",
    "Reply",
    "ScriptedModel",
    "Step",
    "Tape",
    "TapeMode",
]
