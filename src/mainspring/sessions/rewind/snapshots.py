"""What a file was like at a moment, and the records of that in a session.

The plug that notes what files are like before and after a tool changes them.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from mainspring.env import ExecutionEnv, RealPath, explain
from mainspring.env.beneath import PathChangedError
from mainspring.loop import Plugin
from mainspring.loop.hooks import BeforeToolRun, ToolFinished
from mainspring.permissions import Permissions
from mainspring.sessions.blob_store import BlobStore

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.sessions.session import Session
    from mainspring.tools import Access, Tool


BEFORE, AFTER, UNCOVERED, REWOUND = "file_before", "file_after", "file_uncovered", "rewind"
"""Types of the custom entries."""


MAX_FILE_BYTES = 32 * 1024 * 1024
"""Bytes of a file that is kept; a larger one is told as not covered."""


TOO_LARGE = f"it is larger than {MAX_FILE_BYTES >> 20} MiB"
"""Why the content of such a file was not kept."""


class FileState(Struct, frozen=True, omit_defaults=True):
    """What a file was like.

    Attributes:
        sha256: Its content; ``None`` where there was no file.
        skipped: Why the content was not kept, if it was not.
    """

    sha256: str | None = None
    skipped: str = ""

    @property
    def exists(self) -> bool:
        """Whether there was a file."""
        return self.sha256 is not None or bool(self.skipped)


class FileSnapshot(Struct, frozen=True, omit_defaults=True):
    """A file beside a call: what it was like before, or after."""

    path: str
    state: FileState
    call: str = ""


class UntrackedCommand(Struct, frozen=True, omit_defaults=True):
    """A call that may have changed files nobody can name."""

    tool: str
    what: str = ""


class RewindRecord(Struct, frozen=True, omit_defaults=True):
    """Somebody went back: to which entry, from which leaf, and whether files and conversation did.

    ``failed`` names an earlier record of this kind that came to nothing.
    """

    target: str | None
    left: str
    files: bool
    conversation: bool
    failed: str = ""


_MOVED = "a link leads elsewhere from there"


async def read_file_state(env: ExecutionEnv, path: str, blobs: BlobStore | None) -> FileState:
    """What a file is like now.

    Args:
        env: Where it is.
        path: Its real path, as it was when it was noted.
        blobs: Where its content is kept; ``None`` only names it.

    Raises:
        OSError: If it is there and cannot be read.
    """
    if await env.realpath(path) != path:  # writing there would change another file
        return FileState(skipped=_MOVED)
    try:
        status = await env.stat(RealPath(path))
    except PathChangedError:
        return FileState(skipped=_MOVED)
    except (FileNotFoundError, NotADirectoryError):
        return FileState()
    if status.kind != "file":
        return FileState(skipped=f"it is a {status.kind}")
    if status.size > MAX_FILE_BYTES:
        return FileState(skipped=TOO_LARGE)
    data = await env.read_bytes(RealPath(path))
    if blobs is None:
        return FileState(hashlib.sha256(data).hexdigest())
    return FileState(await asyncio.to_thread(blobs.put, data))


def decode_record(custom_type: str, data: Any) -> FileSnapshot | UntrackedCommand | RewindRecord | None:
    """The record of a custom entry; ``None`` if it is none of these, or damaged."""
    kind = {BEFORE: FileSnapshot, AFTER: FileSnapshot, UNCOVERED: UntrackedCommand, REWOUND: RewindRecord}.get(
        custom_type
    )
    if kind is None:
        return None
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError:
        return None


_WORDS = 200


class FileSnapshots(Plugin):
    """Keeps the contents of files from before a tool changes them, so that `rewind` can bring them back.

    Which files those are a tool says itself (``access``). What a command changes nobody can know: that it ran is noted, and
    told before a rewind, unless it is known to only read. Where a content cannot be kept the tool runs all the same, and the file counts as not covered.

    Args:
        session: Where it is noted; put this plug before or after the session's own, as you like.
        blobs: Where contents are kept; by default beside the session's store.
    """

    def __init__(self, session: Session, blobs: BlobStore | None = None) -> None:
        self.session = session
        self.blobs = blobs or session.blobs
        self._paths: dict[str, list[str]] = {}
        self._unruled = Permissions()

    def install(self, agent: CoreAgent) -> None:
        """See `Plug`."""
        self._agent = agent
        agent.on(BeforeToolRun, self._start)
        agent.on(ToolFinished, self._after)

    def for_child(self) -> Plugin:
        """What a sub-agent changes is noted in the same session."""
        return FileSnapshots(self.session, self.blobs)

    async def _start(self, hook: BeforeToolRun) -> None:
        tool = self._agent.tools.get(hook.name)
        if tool is None:
            return
        touched = _written_paths(tool, hook)
        changes = [a.resource for a in touched if a.scope in {"fs-write", "fs-delete"}]
        if not changes and any(a.scope == "shell-run" for a in touched) and not await self._only_reads(tool, hook):
            what = next(a.resource for a in touched if a.scope == "shell-run")
            note = UntrackedCommand(hook.name, " ".join(what.split())[:_WORDS])
            self.session.journal.note(UNCOVERED, msgspec.to_builtins(note))
        self._paths[hook.call_id] = []
        for path in dict.fromkeys(changes):
            try:
                real = await self._agent.env.realpath(path)
            except OSError:
                continue  # the tool will say so
            self._paths[hook.call_id].append(real)
            await self._note(BEFORE, real, hook.call_id)

    async def _only_reads(self, tool: Tool, hook: BeforeToolRun) -> bool:
        """Whether a command changes nothing, as permissions judge it where there is no rule."""
        decision = await self._unruled.decide(hook.name, hook.input, env=self._agent.env, definition=tool)
        return decision.outcome == "allow"

    async def _after(self, hook: ToolFinished) -> None:
        for path in self._paths.pop(hook.call_id, ()):
            await self._note(AFTER, path, hook.call_id)

    async def _note(self, kind: str, path: str, call: str) -> None:
        try:
            state = await read_file_state(self._agent.env, path, self.blobs)
        except OSError as error:
            state = FileState(skipped=explain(error))
        self.session.journal.note(kind, msgspec.to_builtins(FileSnapshot(path, state, call)))


def _written_paths(tool: Tool, hook: BeforeToolRun) -> list[Access]:
    return [] if tool.access is None else list(tool.access(hook.input))
