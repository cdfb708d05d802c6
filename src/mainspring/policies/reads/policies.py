"""Policies for files that the model has read.

A write to a file is denied if the model has not read the file, or if the file has changed since. A file that is read again,
unchanged, is not sent again. Lines of a file that has changed since are removed from requests.

The metadata of a tool result contains the version of the file: ``path`` (the real path) and ``hash`` of the whole file, with
``first_line`` if it shows lines; or ``files``, a list of such entries. The metadata is stored with the result in the history
and in sessions, so the state is restored when a session is resumed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from mainspring.env import RealPath
from mainspring.env.paths import display_path
from mainspring.lazy import lazy_function
from mainspring.loop.hooks import (
    BeforeToolRun,
    ContextTransform,
    PermissionCheck,
    ToolBefore,
    ToolTransform,
    TurnBefore,
)
from mainspring.loop.policy import (
    ORDER_COMPACTION,
    ORDER_GUARDS,
    ORDER_READ_TRACKING,
    ORDER_SHORTEN_CONTEXT,
    PolicyContext,
    PolicyHandlers,
)
from mainspring.messages import AgentMessage, Message, ToolResultBlock, ToolUseBlock
from mainspring.options import AgentSetting, Options, option
from mainspring.prompt_tags import find_attached_files
from mainspring.tools import LazyTool, ToolRegistry

if TYPE_CHECKING:
    from mainspring.env import ExecutionEnv, FileStat
    from mainspring.tools.support.text_files import decode_text
else:
    decode_text = lazy_function("mainspring.tools.support.text_files", "decode_text")


class ReadOptions(Options, page="run-options.md#reads"):
    """Options of file reads."""

    dedup_reads: bool = option(
        default=True, doc="Whether a second read of an unchanged file returns a note instead of the content."
    )
    require_read_before_edit: bool = option(
        default=False,
        doc="Whether a tool may write to a file only after it was read, and unchanged since.",
        setting=AgentSetting(
            default=True,
            flag="--read-before-edit",
            doc="Write to an existing file only if the model has read it and it is unchanged since",
        ),
    )
    elide_stale_reads: bool = option(
        default=False, doc="Whether requests leave out the content of files that have changed since."
    )
    read_line_numbers: bool = option(
        default=True,
        doc="Whether the lines of a read file start with their number, unless the call specifies it.",
        setting=AgentSetting(),
    )


def read_handlers(options: ReadOptions, run: PolicyContext) -> PolicyHandlers:
    """Return the handlers for file reads."""
    env = run.agent.env
    reads = run.conversation_state(FileReadState, lambda: FileReadState(env.cwd))
    if options.elide_stale_reads:
        stale = run.conversation_state(ClearStaleReads, lambda: ClearStaleReads(run.history, env.cwd))
        yield ORDER_SHORTEN_CONTEXT, {ContextTransform: stale.on_context_transform}
    if options.require_read_before_edit:
        guard = ReadBeforeEdit(reads, run.history, env)
        # Before an approval is requested for a call that would not run.
        yield ORDER_COMPACTION, {PermissionCheck: guard.on_tool_permit}
        yield ORDER_GUARDS, {BeforeToolRun: guard.start}
        yield ORDER_READ_TRACKING, {ToolTransform: guard.on_tool_transform}
    if not options.read_line_numbers:
        yield ORDER_GUARDS, {ToolBefore: partial(omit_line_numbers, run.agent.tools)}
    # Without a tool that names files nothing is ever read, so its calls can skip these handlers.
    names_files = any(isinstance(tool, LazyTool) or tool.path_params for tool in run.tools)
    if options.dedup_reads and names_files and not run.provider_manages_context():
        dedup = UnchangedReads(reads, run.history, env.cwd)
        yield ORDER_READ_TRACKING, {TurnBefore: dedup.before, ToolTransform: dedup.on_tool_transform}


def omit_line_numbers(tools: ToolRegistry, hook: ToolBefore) -> None:
    """Turn off the line numbers of a tool that has the parameter, unless the call sets it. A handler of `tool:before`."""
    tool = tools.get(hook.name)
    if tool is not None and "line_numbers" in tool.input_schema.get("properties", {}):
        hook.input = {"line_numbers": False, **hook.input}


SliceKey = tuple[str | None, int | None, int | None, int | None]
"""A slice of a version of a file: hash, offset, limit, maximum bytes."""


class FileVersion(Struct, frozen=True):
    """A version of a file, and the part of it that a call requested.

    Attributes:
        hash: SHA-256 of the whole file; ``None`` if it was too long to read to its end.
        mtime_ns: Time of its last change in nanoseconds, if known.
        offset: Argument of the call.
        limit: Argument of the call.
        max_bytes: Argument of the call.
    """

    hash: str | None
    mtime_ns: int | None = None
    offset: int | None = None
    limit: int | None = None
    max_bytes: int | None = None

    @property
    def slice_key(self) -> SliceKey:
        """Return the key that two equal reads share."""
        return self.hash, self.offset, self.limit, self.max_bytes


class FileFact(Struct, frozen=True):
    """The facts about one file in a result; ``is_read`` if it shows lines of the file."""

    path: str
    read: FileVersion
    is_read: bool


UNCHANGED_KEY = "unchanged"
"""Key in the metadata of a result that only reports an unchanged file."""


DELETED_HASH = ""
"""Hash of a deleted file: the model does not know any later content at that path."""


def file_facts(details: Any, arguments: Mapping[str, Any]) -> Iterator[FileFact]:
    """Return the facts about files in the metadata of a result."""
    if not isinstance(details, Mapping):
        return
    facts = cast("Mapping[str, Any]", details)
    files: Any = facts.get("files")
    part = [arguments.get(name) for name in ("offset", "limit", "max_bytes")]
    for one in cast("list[Any]", files) if isinstance(files, list) else (facts,):
        fact: Mapping[str, Any] = cast("Mapping[str, Any]", one) if isinstance(one, Mapping) else {}
        path = fact.get("path")
        if isinstance(path, str) and "hash" in fact:
            known = DELETED_HASH if fact.get("action") == "D" else fact["hash"]
            yield FileFact(path, FileVersion(known, fact.get("mtime_ns"), *part), "first_line" in fact)


class HistoryCursor:
    """Follows a history that usually grows: returns where the new part begins, and detects another history."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: list[AgentMessage] = []

    def advance(self, messages: Sequence[AgentMessage]) -> int | None:
        """Return the index where the new part begins.

        Return ``None`` if the previous messages are not all present any more.
        """
        at = len(self._seen)
        if messages[:at] == self._seen:  # compares identities, at the speed of C
            self._seen.extend(messages[at:])
            return at
        self._seen = list(messages)
        return None


def iter_results(
    messages: Sequence[AgentMessage], start: int, end: int | None = None
) -> Iterator[tuple[int, ToolResultBlock, ToolUseBlock | None]]:
    """Yield the results with metadata from an index on: index, result, and its call."""
    for i in range(start, len(messages) if end is None else end):
        message = messages[i]
        if not isinstance(message, Message) or message.role != "user":
            continue
        for block in message.content:
            if type(block) is ToolResultBlock and block.details is not None:
                before = messages[i - 1] if i else None
                calls = before.tool_uses if isinstance(before, Message) else ()
                yield i, block, next((c for c in calls if c.id == block.tool_use_id), None)


class FileReadState:
    """The files that one conversation has read, by folder and path.

    The state comes from the history, which is walked once as it grows; a call whose result is not in the history yet is recorded
    separately. The state lives as long as its agent, and drops facts that the history drops.

    Args:
        cwd: The folder that relative paths start at.
    """

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._trail = HistoryCursor()
        self._known: dict[tuple[str, str], FileVersion] = {}
        self._noted: dict[tuple[str, str], tuple[str, FileVersion]] = {}
        self._shown: dict[tuple[str, SliceKey], str] = {}

    def update(self, messages: Sequence[AgentMessage]) -> None:
        """Add the new part of the history."""
        start = self._trail.advance(messages)
        if start is None:
            for seen in (self._known, self._noted, self._shown):
                seen.clear()
        for _, block, call in iter_results(messages, start or 0):
            for version in file_facts(block.details, call.input if call else {}):
                key = (self._cwd, version.path)
                self._known[key] = version.read
                if self._noted.get(key, ("",))[0] == block.tool_use_id:
                    del self._noted[key]
                if version.is_read and UNCHANGED_KEY not in block.details:
                    self._shown[version.path, version.read.slice_key] = block.tool_use_id

    def note(self, call_id: str, version: FileFact) -> None:
        """Record the facts of a call that has just finished."""
        self._noted[self._cwd, version.path] = (call_id, version.read)

    def known(self, path: str) -> FileVersion | None:
        """Return the version of a file that the model knows; ``None`` if it knows none."""
        key = (self._cwd, path)
        noted = self._noted.get(key)
        return noted[1] if noted else self._known.get(key)

    def find_earlier_read(self, version: FileFact) -> str | None:
        """Return the last call that showed this part of this version of a file."""
        return None if version.read.hash is None else self._shown.get((version.path, version.read.slice_key))


MAX_HASHED_BYTES = 64 << 20
"""Size in bytes above which a file is compared by modification time only."""


_MAX_INLINE_BYTES = 256 << 10
"""Size up to which hashing takes less time than a thread."""


class ReadBeforeEdit:
    """Denies a call that would overwrite or delete an existing file whose current version the model does not know.

    The check runs right before the tool, so that a read and edits in one response work. The call declares the files that it writes
    or deletes as ``fs-write`` and ``fs-delete`` (`Tool.access`); a file that does not exist yet may be written.

    Args:
        state: The files that the model knows.
        history: Returns the conversation.
        env: The environment of the tools.
    """

    def __init__(self, state: FileReadState, history: Callable[[], Sequence[AgentMessage]], env: ExecutionEnv) -> None:
        self._state = state
        self._history = history
        self._env = env
        self._written: dict[str, list[str]] = {}
        self._coming: tuple[str, tuple[str, ...]] = ("", ())

    def on_tool_permit(self, hook: PermissionCheck) -> None:
        """Handle `tool:permit`: record the files to write or delete.

        No approval is requested for a call that would not run.
        """
        if hook.tool.access is None:
            return
        access = tuple(hook.tool.access(hook.input))
        # A tool with a preview does not edit what the model believes to be in the file: it reads the file, or replaces all of it.
        paths = (
            [a.resource for a in access if a.scope in ("fs-write", "fs-delete")] if hook.tool.preview is None else []
        )
        if paths:
            self._written[hook.call_id] = paths
        earlier = self._coming[1] if self._coming[0] == hook.turn_id else ()
        touched = [a.resource for a in access if a.scope in ("fs-read", "fs-write", "fs-delete")]
        self._coming = (hook.turn_id, (*earlier, *touched))

        async def refusal() -> str:
            known = {await self._resolve_path(path) for path in earlier}
            for path in paths:
                # The results of earlier calls in the same response are known when the tool starts.
                text = "" if await self._resolve_path(path) in known else await self._refusal(path)
                if text:
                    self._written.pop(hook.call_id, None)
                    return text
            return ""

        if paths:
            hook.add_precheck(refusal)

    async def start(self, hook: BeforeToolRun) -> None:
        """Handle `tool:start`."""
        for path in self._written.pop(hook.call_id, ()):
            refusal = await self._refusal(path)
            if refusal:
                hook.block = refusal
                return

    async def on_tool_transform(self, hook: ToolTransform) -> None:
        """Handle `tool:transform`: record the files that a call wrote or showed; runs after the hooks for results."""
        await self._accept_changes_of_hooks(hook)
        facts = hook.result.metadata
        for version in file_facts(facts, hook.input):
            self._state.note(hook.call_id, version)
        path = facts.get("path")
        if isinstance(path, str) and "hash" not in facts and not hook.result.is_error:  # an image, or binary
            self._state.note(hook.call_id, FileFact(path, FileVersion(None), is_read=True))

    async def _accept_changes_of_hooks(self, hook: ToolTransform) -> None:
        """Update the hashes of written files that hooks for the result, such as formatters, have changed, and note it."""
        result, changed = hook.result, dict[str, str]()
        for fact in file_facts(result.metadata, hook.input):
            if fact.is_read or not fact.read.hash:
                continue
            try:
                found = await self._hash(RealPath(fact.path))
            except OSError:
                continue
            if found != fact.read.hash:
                changed[fact.path] = found
        if changed and isinstance(result.output, str):
            names = ", ".join([display_path(path, self._env.cwd) for path in changed])
            hook.result = replace(
                result,
                output=f"{result.output}\n{CHANGED_BY_HOOK_NOTE.format(names=names)}",
                metadata=_with_hashes(result.metadata, changed),
            )

    async def _resolve_path(self, path: str) -> str:
        try:
            return await self._env.realpath(path)
        except (OSError, ValueError):
            return path

    async def _refusal(self, path: str) -> str:
        try:
            real = RealPath(await self._env.realpath(path))
            stat = await self._env.stat(real)
        except OSError:
            return ""  # a new file, or an error that the tool itself reports
        if stat.kind != "file":
            return ""
        self._state.update(self._history())
        known, name = self._state.known(real), display_path(real, self._env.cwd)
        if known is None and not stat.size:
            return ""  # an empty file has nothing to read
        try:
            if known is not None and not await self._is_changed(known, real, stat):
                return ""
            if stat.size <= MAX_HASHED_BYTES and await self._is_shown(real):
                return ""
        except OSError:
            return ""  # an error that the tool itself reports
        if known is None:
            return f"{name} was not read in this conversation. Read it first, then make the call again."
        return f"{name} has changed since you last saw it. Read it again, then make the call again."

    async def _is_changed(self, known: FileVersion, real: RealPath, stat: FileStat) -> bool:
        if known.hash is None or stat.size > MAX_HASHED_BYTES:
            return known.mtime_ns is not None and known.mtime_ns != stat.mtime_ns
        return await self._hash(real) != known.hash

    async def _is_shown(self, real: RealPath) -> bool:
        """Return True if a message after the last read or write of the file contains its whole current text.

        The text is that of a file attached to a prompt, or in the result of another call that names the file, for example,
        ``cat`` in the shell.
        """
        document = await asyncio.to_thread(decode_text, await self._env.read_bytes(real))
        if document is None or document.damage:
            return False
        text = document.text.replace("\r\n", "\n")
        history, name = self._history(), os.path.basename(real)
        for i in range(len(history) - 1, -1, -1):
            message = history[i]
            if not isinstance(message, Message) or message.role != "user":
                continue
            for path, attached in find_attached_files(message.text):
                if (
                    attached.replace("\r\n", "\n").strip("\r") == text.removesuffix("\n")
                    and await self._resolve_path(path) == real
                ):
                    return True
            for _, block, call in iter_results(history, i, i + 1):
                if any(fact.path == real for fact in file_facts(block.details, {})):
                    return False
                if call and name in str(call.input) and _has_lines(block.text.replace("\r\n", "\n"), text.strip("\n")):
                    return True
        return False

    async def _hash(self, path: RealPath) -> str:
        import hashlib

        data = await self._env.read_bytes(path)
        if len(data) <= _MAX_INLINE_BYTES:
            return hashlib.sha256(data).hexdigest()
        return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())


CHANGED_BY_HOOK_NOTE = "[A hook or the editor changed this right after the call: {names}. It is not exactly what you wrote; read it again before you rely on its lines.]"


def _with_hashes(metadata: Mapping[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
    """Return metadata of a result with other hashes of some files."""
    files: Any = metadata.get("files")
    updated = {**metadata, "hash": hashes[metadata["path"]]} if metadata.get("path") in hashes else dict(metadata)
    if isinstance(files, list):
        facts = cast("list[Mapping[str, Any]]", files)
        updated["files"] = [{**f, "hash": hashes[f["path"]]} if f.get("path") in hashes else f for f in facts]
    return updated


def _has_lines(text: str, lines: str) -> bool:
    """Return True if a text contains these whole lines."""
    return bool(lines.strip()) and f"\n{lines}\n" in f"\n{text}\n"


UNCHANGED_NOTE = "Unchanged: {name} has not changed since you read these lines. They are in the earlier result; do not read them again."


class UnchangedReads:
    """Replaces lines that the model already has with a one-line notice.

    The tool has run, so permissions were checked and the file was read. The earlier result must cover the same version of the
    file, and must be unchanged in the request that made the call: if it was compacted, removed, or changed, the lines are sent.

    Args:
        state: The files that the model knows.
        history: Returns the conversation.
        cwd: Folder for relative names in texts.
    """

    def __init__(self, state: FileReadState, history: Callable[[], Sequence[AgentMessage]], cwd: str) -> None:
        self._state = state
        self._history = history
        self._cwd = cwd
        self._sent: Sequence[Message] = ()

    def before(self, hook: TurnBefore) -> None:
        """Handle `turn:before`; runs after the handlers of the application."""
        self._sent = hook.request.messages

    def on_tool_transform(self, hook: ToolTransform) -> None:
        """Handle `tool:transform`; runs after the handlers of the application."""
        result = hook.result
        for version in file_facts(result.metadata, hook.input):
            if not version.is_read or result.is_error or not isinstance(result.output, str):
                continue
            self._state.update(self._history())
            earlier = self._state.find_earlier_read(version)
            if earlier and self._is_in_request(earlier, result.output):
                text = UNCHANGED_NOTE.format(name=display_path(version.path, self._cwd))
                hook.result = replace(result, output=text, metadata={**result.metadata, UNCHANGED_KEY: earlier})

    def _is_in_request(self, call_id: str, text: str) -> bool:
        """Return True if the request contained this result of that call.

        The request is only searched if the result may be in it.
        """
        for message in reversed(self._sent):
            for block in message.tool_results if message.role == "user" else ():
                if block.tool_use_id == call_id:
                    return block.content == text
        return False


STALE_NOTE = "[Left out: {name} has changed since it was read here. Read it again if you need its lines.]"


class ClearStaleReads:
    """Replaces outdated lines of a file with a notice. The history itself is unchanged.

    A read is stale once a later result has another version of the file: an edit by the model, or a read that found a change.
    A removed result stays removed, so the prompt's prefix is stable between changes. Each message is checked once.

    Args:
        history: Returns the conversation.
        cwd: Folder for relative names in texts.
    """

    def __init__(self, history: Callable[[], Sequence[AgentMessage]], cwd: str) -> None:
        self._history = history
        self._cwd = cwd
        self._trail = HistoryCursor()
        self._fresh_reads: dict[str, list[tuple[int, str, FileFact]]] = {}
        self._stale: dict[int, dict[str, str]] = {}
        self._cleared: dict[int, tuple[AgentMessage, AgentMessage]] = {}

    def on_context_transform(self, hook: ContextTransform) -> None:
        """Handle `context:transform`; runs before the handlers of the application."""
        history = self._history()
        self._scan_new_messages(history)
        if len(hook.messages) != len(history):
            return  # an earlier handler reordered the messages
        for i, texts in self._stale.items():
            message = hook.messages[i]
            cleared = self._cleared.get(i)
            if cleared is None or cleared[0] is not message:
                cleared = self._cleared[i] = (message, _replace_results(message, texts))
            hook.messages[i] = cleared[1]

    def _scan_new_messages(self, history: Sequence[AgentMessage]) -> None:
        start = self._trail.advance(history)
        if start is None:
            for seen in (self._fresh_reads, self._stale, self._cleared):
                seen.clear()
        for i, block, call in iter_results(history, start or 0):
            for version in file_facts(block.details, call.input if call else {}):
                reads = self._fresh_reads.setdefault(version.path, [])
                for at, call_id, earlier in reads:
                    if earlier.read.hash != version.read.hash:
                        self._mark_stale(at, call_id, version.path)
                reads[:] = [r for r in reads if r[2].read.hash == version.read.hash]
                if version.is_read:
                    reads.append((i, block.tool_use_id, version))

    def _mark_stale(self, at: int, call_id: str, path: str) -> None:
        self._stale.setdefault(at, {})[call_id] = STALE_NOTE.format(name=display_path(path, self._cwd))
        self._cleared.pop(at, None)


def _replace_results(message: AgentMessage, texts: dict[str, str]) -> AgentMessage:
    """Return the message with other texts for some results."""
    if not isinstance(message, Message):
        return message
    content = [
        replace(b, content=texts[b.tool_use_id]) if isinstance(b, ToolResultBlock) and b.tool_use_id in texts else b
        for b in message.content
    ]
    return replace(message, content=tuple(content))
