"""Files and processes: the interface that tools use, and the environments that implement it."""

from mainspring.env.beneath import RealPath
from mainspring.env.confined import ConfinedEnv
from mainspring.env.editor import EditorBuffers, EditorEnv, TerminalProvider
from mainspring.env.jobs import Job, JobManager
from mainspring.env.local import LocalEnv
from mainspring.env.memory import MemoryEnv
from mainspring.env.paths import explain
from mainspring.env.protocol import ExecutionEnv, ProcessConnection
from mainspring.env.types import (
    CapturedOutput,
    DirEntry,
    FileKind,
    FileStat,
    HttpResponse,
    OutputLimits,
    ProcessResult,
    StreamName,
    WalkedPath,
    WalkResult,
)

__all__ = [
    "CapturedOutput",
    "ConfinedEnv",
    "DirEntry",
    "EditorBuffers",
    "EditorEnv",
    "ExecutionEnv",
    "FileKind",
    "FileStat",
    "HttpResponse",
    "Job",
    "JobManager",
    "LocalEnv",
    "MemoryEnv",
    "OutputLimits",
    "ProcessConnection",
    "ProcessResult",
    "RealPath",
    "StreamName",
    "TerminalProvider",
    "WalkResult",
    "WalkedPath",
    "explain",
]
