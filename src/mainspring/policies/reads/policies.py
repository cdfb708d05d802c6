"""No writing to a file that the model has not read, or that has changed since.

A file that is read again, unchanged, need not be sent again.

What was read of a file that has changed since is left out of requests.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.env import RealPath
from mainspring.env.paths import display_path
from mainspring.loop.hooks import BeforeToolRun, ContextTransform, PermissionCheck, ToolTransform, TurnBefore
from mainspring.messages import AgentMessage, Message, ToolResultBlock
from mainspring.policies.reads.state import (
    UNCHANGED_KEY,
    FileFact,
    FileReadState,
    FileVersion,
    HistoryCursor,
    file_facts,
    iter_file_results,
)

if TYPE_CHECKING:
    from mainspring.env import ExecutionEnv


MAX_HASHED_BYTES = 64 << 20
"""Bytes of a file beyond which the time of its last change must do."""


class ReadBeforeEdit:
    """Refuses a call that would write to an existing file which the model does not know as it is.

    Looks right before the tool runs, so that a read and edits of one answer chain. What a call writes to is what it
    declares as ``fs-write`` (`Tool.access`); a file that does not exist yet may be written.

    Args:
        state: What the model knows.
        history: Gives the conversation.
        env: Where tools work.
    """

    def __init__(self, state: FileReadState, history: Callable[[], Sequence[AgentMessage]], env: ExecutionEnv) -> None:
        self._state = state
        self._history = history
        self._env = env
        self._written: dict[str, list[str]] = {}
        self._coming: tuple[str, tuple[str, ...]] = ("", ())

    def permit(self, hook: PermissionCheck) -> None:
        """The handler of `tool:permit`: notes what the call writes to. Nobody is asked about a call that would not run."""
        if hook.tool.access is None:
            return
        access = tuple(hook.tool.access(hook.input))
        paths = [a.resource for a in access if a.scope == "fs-write"]
        if paths:
            self._written[hook.call_id] = paths
        earlier = self._coming[1] if self._coming[0] == hook.turn_id else ()
        touched = [a.resource for a in access if a.scope in ("fs-read", "fs-write")]
        self._coming = (hook.turn_id, (*earlier, *touched))

        async def refusal() -> str:
            known = {await self._resolve_path(path) for path in earlier}
            for path in paths:
                # What an earlier call of the same answer is about to read or write is known when this one's turn comes.
                text = "" if await self._resolve_path(path) in known else await self._refusal(path)
                if text:
                    self._written.pop(hook.call_id, None)
                    return text
            return ""

        if paths:
            hook.add_precheck(refusal)

    async def start(self, hook: BeforeToolRun) -> None:
        """The handler of `tool:start`."""
        for path in self._written.pop(hook.call_id, ()):
            refusal = await self._refusal(path)
            if refusal:
                hook.block = refusal
                return

    def transform(self, hook: ToolTransform) -> None:
        """The handler of `tool:transform`: what a call wrote or showed is known from now on."""
        facts = hook.result.metadata
        for version in file_facts(facts, hook.input):
            self._state.note(hook.call_id, version)
        path = facts.get("path")
        if isinstance(path, str) and "hash" not in facts and not hook.result.is_error:  # an image, or binary
            self._state.note(hook.call_id, FileFact(path, FileVersion(None), is_read=True))

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
            return ""  # a new file, or the tool will say what is wrong
        if stat.kind != "file":
            return ""
        self._state.follow(self._history())
        known, name = self._state.known(real), display_path(real, self._env.cwd)
        if known is None:
            return f"{name} was not read in this conversation. Read it first, then make the call again."
        if known.hash is None or stat.size > MAX_HASHED_BYTES:
            changed = known.mtime_ns is not None and known.mtime_ns != stat.mtime_ns
        else:
            changed = await self._hash(real) != known.hash
        return f"{name} has changed since you last saw it. Read it again, then make the call again." if changed else ""

    async def _hash(self, path: RealPath) -> str:
        data = await self._env.read_bytes(path)
        return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())


UNCHANGED_NOTE = "Unchanged: {name} is as it was when you read these lines. They stand in the earlier result; there is no need to read them again."


class UnchangedReads:
    """Puts one line in the place of lines that the model has before it already.

    The tool has run, so permissions were asked and the file was looked at. The earlier result must be of the same version of the
    file, and must stand word for word in the request that made the call: what was compacted, left out or reworded is shown.

    Args:
        state: What the model knows.
        history: Gives the conversation.
        cwd: For names in texts.
    """

    def __init__(self, state: FileReadState, history: Callable[[], Sequence[AgentMessage]], cwd: str) -> None:
        self._state = state
        self._history = history
        self._cwd = cwd
        self._sent: Sequence[Message] = ()

    def before(self, hook: TurnBefore) -> None:
        """The handler of `turn:before`; belongs behind those of the application."""
        self._sent = hook.request.messages

    def transform(self, hook: ToolTransform) -> None:
        """The handler of `tool:transform`; belongs behind those of the application."""
        result = hook.result
        for version in file_facts(result.metadata, hook.input):
            if not version.is_read or result.is_error or not isinstance(result.output, str):
                continue
            self._state.follow(self._history())
            earlier = self._state.shown(version)
            if earlier and self._stands(earlier, result.output):
                text = UNCHANGED_NOTE.format(name=display_path(version.path, self._cwd))
                hook.result = replace(result, output=text, metadata={**result.metadata, UNCHANGED_KEY: earlier})

    def _stands(self, call_id: str, text: str) -> bool:
        """Whether the model was sent this result of that call. Only looked for where there may be one."""
        for message in reversed(self._sent):
            for block in message.tool_results if message.role == "user" else ():
                if block.tool_use_id == call_id:
                    return block.content == text
        return False


STALE_NOTE = "[Left out: {name} has changed since it was read here. Read it again if you need its lines.]"


class ClearStaleReads:
    """Puts a line in the place of lines of a file as they are no more. The history itself stays as it is.

    A read is stale once a later result knows another version of the file: an edit that the model made, or a read that found it
    changed. What is left out stays left out, so between changes the prompt's prefix stays as it is. Looks at each
    message once.

    Args:
        history: Gives the conversation.
        cwd: For names in texts.
    """

    def __init__(self, history: Callable[[], Sequence[AgentMessage]], cwd: str) -> None:
        self._history = history
        self._cwd = cwd
        self._trail = HistoryCursor()
        self._fresh: dict[str, list[tuple[int, str, FileFact]]] = {}
        self._stale: dict[int, dict[str, str]] = {}
        self._made: dict[int, tuple[AgentMessage, AgentMessage]] = {}

    def transform(self, hook: ContextTransform) -> None:
        """The handler of `context:transform`; belongs before those of the application."""
        history = self._history()
        self._follow(history)
        if len(hook.messages) != len(history):
            return  # somebody rearranged the messages before us
        for i, texts in self._stale.items():
            message = hook.messages[i]
            made = self._made.get(i)
            if made is None or made[0] is not message:
                made = self._made[i] = (message, _replace_results(message, texts))
            hook.messages[i] = made[1]

    def _follow(self, history: Sequence[AgentMessage]) -> None:
        start = self._trail.advance(history)
        if start is None:
            for seen in (self._fresh, self._stale, self._made):
                seen.clear()
        for i, block, call in iter_file_results(history, start or 0):
            for version in file_facts(block.details, call.input if call else {}):
                reads = self._fresh.setdefault(version.path, [])
                for at, call_id, earlier in reads:
                    if earlier.read.hash != version.read.hash:
                        self._drop(at, call_id, version.path)
                reads[:] = [r for r in reads if r[2].read.hash == version.read.hash]
                if version.is_read:
                    reads.append((i, block.tool_use_id, version))

    def _drop(self, at: int, call_id: str, path: str) -> None:
        self._stale.setdefault(at, {})[call_id] = STALE_NOTE.format(name=display_path(path, self._cwd))
        self._made.pop(at, None)


def _replace_results(message: AgentMessage, texts: dict[str, str]) -> AgentMessage:
    """The message with other texts for some results."""
    if not isinstance(message, Message):
        return message
    content = [
        replace(b, content=texts[b.tool_use_id]) if isinstance(b, ToolResultBlock) and b.tool_use_id in texts else b
        for b in message.content
    ]
    return replace(message, content=tuple(content))
