"""What tests of agents need: a model that follows a script, an environment in memory, recorders.

They are what our own tests use. The pytest fixtures are in `mainspring.testing.pytest_plugin`, for whoever asks for them.
"""

from mainspring.env import MemoryEnv
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.testing.tape import RecordedStep, RecordingSteps, ReplayError, ReplaySteps, Tape, TapeMode

__all__ = [
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
