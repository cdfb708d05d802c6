"""No writing to a file that the model has not read, or that has changed since."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainspring.env import RealPath
from mainspring.env.paths import shown
from mainspring.loop.hooks import ToolPermit, ToolStart, ToolTransform
from mainspring.messages import AgentMessage
from mainspring.policies.reads.state import FileRead, ReadState, Version, versions

if TYPE_CHECKING:
    from mainspring.env import ExecutionEnv

MOST_HASHED = 64 << 20
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

    def __init__(self, state: ReadState, history: Callable[[], Sequence[AgentMessage]], env: ExecutionEnv) -> None:
        self._state = state
        self._history = history
        self._env = env
        self._written: dict[str, list[str]] = {}
        self._coming: tuple[str, tuple[str, ...]] = ("", ())

    def permit(self, hook: ToolPermit) -> None:
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
            known = {await self._place(path) for path in earlier}
            for path in paths:
                # What an earlier call of the same answer is about to read or write is known when this one's turn comes.
                text = "" if await self._place(path) in known else await self._refusal(path)
                if text:
                    self._written.pop(hook.call_id, None)
                    return text
            return ""

        if paths:
            hook.before_asking(refusal)

    async def start(self, hook: ToolStart) -> None:
        """The handler of `tool:start`."""
        for path in self._written.pop(hook.call_id, ()):
            refusal = await self._refusal(path)
            if refusal:
                hook.block = refusal
                return

    def transform(self, hook: ToolTransform) -> None:
        """The handler of `tool:transform`: what a call wrote or showed is known from now on."""
        facts = hook.result.metadata
        for version in versions(facts, hook.input):
            self._state.note(hook.call_id, version)
        path = facts.get("path")
        if isinstance(path, str) and "hash" not in facts and not hook.result.is_error:  # an image, or binary
            self._state.note(hook.call_id, Version(path, FileRead(None), is_read=True))

    async def _place(self, path: str) -> str:
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
        known, name = self._state.known(real), shown(real, self._env.cwd)
        if known is None:
            return f"{name} was not read in this conversation. Read it first, then make the call again."
        if known.hash is None or stat.size > MOST_HASHED:
            changed = known.mtime_ns is not None and known.mtime_ns != stat.mtime_ns
        else:
            changed = await self._hash(real) != known.hash
        return f"{name} has changed since you last saw it. Read it again, then make the call again." if changed else ""

    async def _hash(self, path: RealPath) -> str:
        data = await self._env.read_bytes(path)
        return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
