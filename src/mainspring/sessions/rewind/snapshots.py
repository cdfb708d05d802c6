"""The plug that notes what files are like before and after a tool changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mainspring.env import explain
from mainspring.loop import Plug
from mainspring.loop.hooks import ToolAfter, ToolStart
from mainspring.permissions import Permissions
from mainspring.sessions.blob_store import Blobs
from mainspring.sessions.rewind.state import AFTER, BEFORE, UNCOVERED, FileNote, FileState, Uncovered, state_of

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.sessions.session import Session
    from mainspring.tools import Access, Tool

_WORDS = 200


class FileRecorder(Plug):
    """Keeps the contents of files from before a tool changes them, so that `rewind` can bring them back.

    Which files those are a tool says itself (``access``). What a command changes nobody can know: that it ran is noted, and
    told before a rewind, unless it is known to only read. Where a content cannot be kept the tool runs all the same, and the file counts as not covered.

    Args:
        session: Where it is noted; put this plug before or after the session's own, as you like.
        blobs: Where contents are kept; by default beside the session's store.
    """

    def __init__(self, session: Session, blobs: Blobs | None = None) -> None:
        self.session = session
        self.blobs = blobs or session.blobs
        self._paths: dict[str, list[str]] = {}
        self._unruled = Permissions()

    def install(self, agent: CoreAgent) -> None:
        """See `Plug`."""
        self._agent = agent
        agent.on(ToolStart, self._start)
        agent.on(ToolAfter, self._after)

    def for_child(self) -> Plug:
        """What a sub-agent changes is noted in the same session."""
        return FileRecorder(self.session, self.blobs)

    async def _start(self, hook: ToolStart) -> None:
        tool = self._agent.tools.get(hook.name)
        if tool is None:
            return
        touched = _touched(tool, hook)
        changes = [a.resource for a in touched if a.scope in {"fs-write", "fs-delete"}]
        if not changes and any(a.scope == "shell-run" for a in touched) and not await self._only_reads(tool, hook):
            what = next(a.resource for a in touched if a.scope == "shell-run")
            note = Uncovered(hook.name, " ".join(what.split())[:_WORDS])
            self.session.journal.note(UNCOVERED, msgspec.to_builtins(note))
        self._paths[hook.call_id] = []
        for path in dict.fromkeys(changes):
            try:
                real = await self._agent.env.realpath(path)
            except OSError:
                continue  # the tool will say so
            self._paths[hook.call_id].append(real)
            await self._note(BEFORE, real, hook.call_id)

    async def _only_reads(self, tool: Tool, hook: ToolStart) -> bool:
        """Whether a command changes nothing, as permissions judge it where there is no rule."""
        decision = await self._unruled.decide(hook.name, hook.input, env=self._agent.env, definition=tool)
        return decision.outcome == "allow"

    async def _after(self, hook: ToolAfter) -> None:
        for path in self._paths.pop(hook.call_id, ()):
            await self._note(AFTER, path, hook.call_id)

    async def _note(self, kind: str, path: str, call: str) -> None:
        try:
            state = await state_of(self._agent.env, path, self.blobs)
        except OSError as error:
            state = FileState(skipped=explain(error))
        self.session.journal.note(kind, msgspec.to_builtins(FileNote(path, state, call)))


def _touched(tool: Tool, hook: ToolStart) -> list[Access]:
    return [] if tool.access is None else list(tool.access(hook.input))
