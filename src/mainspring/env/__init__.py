"""Files and processes: the interface that tools use, and the environments that implement it."""

from typing import TYPE_CHECKING

from mainspring.env.beneath import RealPath
from mainspring.env.jobs import Job, JobManager
from mainspring.env.local import LocalEnv
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
from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.env.confined import ConfinedEnv as ConfinedEnv
    from mainspring.env.editor import EditorBuffers as EditorBuffers
    from mainspring.env.editor import EditorEnv as EditorEnv
    from mainspring.env.editor import TerminalProvider as TerminalProvider
    from mainspring.env.memory import MemoryEnv as MemoryEnv

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

# Environments that not every program needs are loaded on first use.
_, __getattr__ = lazy_exports(
    __name__,
    {"confined": "ConfinedEnv", "editor": "EditorBuffers EditorEnv TerminalProvider", "memory": "MemoryEnv"},
)
