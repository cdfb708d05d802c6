"""States of files and their records in a session, and the plugin that records files before and after a tool changes them."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from mainspring.env import ExecutionEnv, RealPath, explain
from mainspring.env.beneath import PathChangedError
from mainspring.errors import single_conversation_error
from mainspring.loop import Plugin
from mainspring.loop.hooks import BeforeToolRun, ToolFinished
from mainspring.permissions import Permissions
from mainspring.sessions.blob_store import BlobStore
from mainspring.sessions.entries import CustomEntry

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.sessions.session import Session
    from mainspring.tools import Access, Tool

BEFORE, AFTER, UNCOVERED, REWOUND = "file_before", "file_after", "file_uncovered", "rewind"
"""Types of the custom entries."""


MAX_SNAPSHOT_BYTES = 32 * 1024 * 1024
"""Maximum bytes of a stored file. A larger file is reported as not covered."""


TOO_LARGE = f"it is larger than {MAX_SNAPSHOT_BYTES >> 20} MiB"
"""The reason why the content of such a file is not stored."""


class FileState(Struct, frozen=True, omit_defaults=True):
    """The state of a file.

    Attributes:
        sha256: Its content. ``None`` if the file did not exist.
        skipped: Why the content was not stored, if it was not.
    """

    sha256: str | None = None
    skipped: str = ""

    @property
    def exists(self) -> bool:
        """True if the file existed."""
        return self.sha256 is not None or bool(self.skipped)


class FileSnapshot(Struct, frozen=True, omit_defaults=True):
    """The state of a file before or after a call."""

    path: str
    state: FileState
    call: str = ""


class UntrackedCommand(Struct, frozen=True, omit_defaults=True):
    """A call that may have changed unknown files."""

    tool: str
    what: str = ""


class RewindRecord(Struct, frozen=True, omit_defaults=True):
    """A rewind: its target entry, the abandoned leaf, and whether it included files and conversation.

    ``failed`` names an earlier record whose rewind did not happen.
    """

    target: str | None
    left: str
    files: bool
    conversation: bool
    failed: str = ""


_MOVED = "its path contains a link to another place"


async def read_file_state(env: ExecutionEnv, path: str, blobs: BlobStore | None) -> FileState:
    """Read the current state of a file.

    Args:
        env: The environment.
        path: Its real path when it was recorded.
        blobs: Where its content is stored. ``None`` only hashes it.

    Raises:
        OSError: If it exists and cannot be read.
    """
    if await env.realpath(path) != path:  # Writing there would change another file.
        return FileState(skipped=_MOVED)
    try:
        status = await env.stat(RealPath(path))
    except PathChangedError:
        return FileState(skipped=_MOVED)
    except (FileNotFoundError, NotADirectoryError):
        return FileState()
    if status.kind != "file":
        return FileState(skipped=f"it is a {status.kind}")
    if status.size > MAX_SNAPSHOT_BYTES:
        return FileState(skipped=TOO_LARGE)
    data = await env.read_bytes(RealPath(path))
    if blobs is None:
        return FileState(hashlib.sha256(data).hexdigest())
    return FileState(await asyncio.to_thread(blobs.put, data))


def decode_record(custom_type: str, data: Any) -> FileSnapshot | UntrackedCommand | RewindRecord | None:
    """Decode the record of a custom entry. ``None`` for other or damaged entries."""
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
    """Stores the contents of files before a tool changes them, so that `rewind` can restore them.

    A tool declares its files (``access``). The files that a command changes are unknown: the command is recorded and reported before a
    rewind, unless it is known to only read. If a content cannot be stored, the tool still runs, and the file is not covered.

    Args:
        session: The session of the records. The order relative to the session's plugin does not matter.
        blobs: Where contents are stored. By default, in the session's store.
    """

    def __init__(self, session: Session, blobs: BlobStore | None = None) -> None:
        self.session = session
        self.blobs = blobs or session.blobs
        self._paths: dict[str, list[str]] = {}
        self._unruled = Permissions()

    def install(self, agent: CoreAgent) -> None:
        """See `Plugin`."""
        self._agent = agent
        agent.on(BeforeToolRun, self._on_tool_start)
        agent.on(ToolFinished, self._on_tool_after)

    def for_child(self) -> Plugin:
        """Return this plugin: changes by a subagent are recorded in the same session."""
        return FileSnapshots(self.session, self.blobs)

    def for_conversation(self) -> Plugin:
        """Raise ConfigError: the data belong to one conversation."""
        raise single_conversation_error("FileSnapshots")

    async def _on_tool_start(self, hook: BeforeToolRun) -> None:
        tool = self._agent.tools.get(hook.name)
        if tool is None:
            return
        touched = _written_paths(tool, hook)
        changes = [a.resource for a in touched if a.scope in {"fs-write", "fs-delete"}]
        if (
            not changes
            and any(a.scope == "shell-run" for a in touched)
            and not await self._is_readonly_command(tool, hook)
        ):
            what = next(a.resource for a in touched if a.scope == "shell-run")
            note = UntrackedCommand(hook.name, " ".join(what.split())[:_WORDS])
            self.session.journal.record(CustomEntry, custom_type=UNCOVERED, data=msgspec.to_builtins(note))
        self._paths[hook.call_id] = []
        for path in dict.fromkeys(changes):
            try:
                real = await self._agent.env.realpath(path)
            except OSError:
                continue  # The tool will report the error.
            self._paths[hook.call_id].append(real)
            await self._record(BEFORE, real, hook.call_id)

    async def _is_readonly_command(self, tool: Tool, hook: BeforeToolRun) -> bool:
        """Return True if a command changes nothing, as permissions judge it without rules."""
        decision = await self._unruled.decide(hook.name, hook.input, env=self._agent.env, definition=tool)
        return decision.outcome == "allow"

    async def _on_tool_after(self, hook: ToolFinished) -> None:
        for path in self._paths.pop(hook.call_id, ()):
            await self._record(AFTER, path, hook.call_id)

    async def _record(self, kind: str, path: str, call: str) -> None:
        try:
            state = await read_file_state(self._agent.env, path, self.blobs)
        except OSError as error:
            state = FileState(skipped=explain(error))
        data = msgspec.to_builtins(FileSnapshot(path, state, call))
        self.session.journal.record(CustomEntry, custom_type=kind, data=data)


def _written_paths(tool: Tool, hook: BeforeToolRun) -> list[Access]:
    return [] if tool.access is None else list(tool.access(hook.input))
