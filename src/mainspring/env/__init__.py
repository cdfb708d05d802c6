"""Files and processes: the port that tools use, and the environments that stand behind it."""

from mainspring.env.beneath import RealPath
from mainspring.env.confined import ConfinedEnv
from mainspring.env.editor import Buffers, EditorEnv
from mainspring.env.editor_terminal import Terminals
from mainspring.env.jobs import Job, Jobs
from mainspring.env.local import LocalEnv
from mainspring.env.memory import MemoryEnv
from mainspring.env.paths import explain
from mainspring.env.protocol import (
    Connection,
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
    WebAnswer,
)

__all__ = [
    "Buffers",
    "ConfinedEnv",
    "Connection",
    "DirEntry",
    "EditorEnv",
    "ExecutionEnv",
    "FileKind",
    "FileStat",
    "Job",
    "Jobs",
    "LocalEnv",
    "MemoryEnv",
    "Output",
    "OutputLimits",
    "ProcessResult",
    "RealPath",
    "Stream",
    "Terminals",
    "Walk",
    "WalkEntry",
    "WebAnswer",
    "explain",
]
