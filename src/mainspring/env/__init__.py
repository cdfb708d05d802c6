"""Files and processes: the interface that tools use, and the environments that implement it."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.env.beneath import RealPath as RealPath
    from mainspring.env.confined import ConfinedEnv as ConfinedEnv
    from mainspring.env.container import ContainerEnv as ContainerEnv
    from mainspring.env.editor import EditorBuffers as EditorBuffers
    from mainspring.env.editor import EditorEnv as EditorEnv
    from mainspring.env.editor import TerminalProvider as TerminalProvider
    from mainspring.env.jobs import Job as Job
    from mainspring.env.jobs import JobManager as JobManager
    from mainspring.env.local import LocalEnv as LocalEnv
    from mainspring.env.memory import MemoryEnv as MemoryEnv
    from mainspring.env.paths import explain as explain
    from mainspring.env.protocol import ExecutionEnv as ExecutionEnv
    from mainspring.env.protocol import ProcessConnection as ProcessConnection
    from mainspring.env.sandbox import SandboxEnv as SandboxEnv
    from mainspring.env.sandbox import SandboxPolicy as SandboxPolicy
    from mainspring.env.types import CapturedOutput as CapturedOutput
    from mainspring.env.types import DirEntry as DirEntry
    from mainspring.env.types import FileKind as FileKind
    from mainspring.env.types import FileStat as FileStat
    from mainspring.env.types import HttpResponse as HttpResponse
    from mainspring.env.types import OutputLimits as OutputLimits
    from mainspring.env.types import PathFilter as PathFilter
    from mainspring.env.types import ProcessResult as ProcessResult
    from mainspring.env.types import RunOptions as RunOptions
    from mainspring.env.types import StreamName as StreamName
    from mainspring.env.types import WalkedPath as WalkedPath
    from mainspring.env.types import WalkOptions as WalkOptions
    from mainspring.env.types import WalkResult as WalkResult
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
