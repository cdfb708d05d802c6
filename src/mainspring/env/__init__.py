"""Files and processes: the interface that tools use, and the environments that implement it."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.env.beneath import RealPath as RealPath
    from mainspring.env.confined import ConfinedEnv as ConfinedEnv
    from mainspring.env.container import ContainerEnv as ContainerEnv
    from mainspring.env.editor import (
        EditorBuffers as EditorBuffers,
        EditorEnv as EditorEnv,
        TerminalProvider as TerminalProvider,
    )
    from mainspring.env.jobs import Job as Job, JobManager as JobManager
    from mainspring.env.local import LocalEnv as LocalEnv
    from mainspring.env.memory import MemoryEnv as MemoryEnv
    from mainspring.env.paths import explain as explain
    from mainspring.env.protocol import ExecutionEnv as ExecutionEnv, ProcessConnection as ProcessConnection
    from mainspring.env.sandbox import SandboxEnv as SandboxEnv, SandboxPolicy as SandboxPolicy
    from mainspring.env.types import (
        CapturedOutput as CapturedOutput,
        DirEntry as DirEntry,
        FileKind as FileKind,
        FileStat as FileStat,
        HttpResponse as HttpResponse,
        OutputLimits as OutputLimits,
        PathFilter as PathFilter,
        ProcessResult as ProcessResult,
        RunOptions as RunOptions,
        StreamName as StreamName,
        WalkedPath as WalkedPath,
        WalkOptions as WalkOptions,
        WalkResult as WalkResult,
    )
    from mainspring.env.wrapper import EnvWrapper as EnvWrapper

lazy_exports(
    __name__,
    {
        "wrapper": "EnvWrapper",
        "sandbox": "SandboxEnv SandboxPolicy",
        "container": "ContainerEnv",
        "beneath": "RealPath",
        "confined": "ConfinedEnv",
        "editor": "EditorBuffers EditorEnv TerminalProvider",
        "jobs": "Job JobManager",
        "local": "LocalEnv",
        "memory": "MemoryEnv",
        "paths": "explain",
        "protocol": "ExecutionEnv ProcessConnection",
        "types": "CapturedOutput DirEntry FileKind FileStat HttpResponse OutputLimits ProcessResult StreamName WalkResult WalkedPath RunOptions WalkOptions PathFilter",
    },
)
