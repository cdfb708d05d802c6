"""Files and processes: the port that tools use, and the environments that stand behind it."""

from mainspring.env.explain import explain
from mainspring.env.local import LocalEnv
from mainspring.env.memory import MemoryEnv
from mainspring.env.protocol import (
    DirEntry,
    ExecutionEnv,
    FileKind,
    FileStat,
    Output,
    OutputLimits,
    ProcessResult,
    Stream,
    Walk,
    WalkEntry,
)

__all__ = [
    "DirEntry",
    "ExecutionEnv",
    "FileKind",
    "FileStat",
    "LocalEnv",
    "MemoryEnv",
    "Output",
    "OutputLimits",
    "ProcessResult",
    "Stream",
    "Walk",
    "WalkEntry",
    "explain",
]
