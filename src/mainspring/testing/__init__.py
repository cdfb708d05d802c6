"""What tests of agents need: a model that follows a script, an environment in memory, recorders.

They are what our own tests use. The pytest fixtures are in `mainspring.testing.pytest_plugin`, for whoever asks for them.
"""

from mainspring.env import MemoryEnv
from mainspring.testing.scripted_model import Call, Reply, ScriptedModel
from mainspring.testing.steps import RecordedSteps, RecordingSteps, ReplayError, Step
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
