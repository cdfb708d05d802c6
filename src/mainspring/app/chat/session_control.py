"""Other sessions, and other places in one: resumed, begun, forked, rewound."""

from __future__ import annotations

import asyncio
from typing import Literal

from msgspec.structs import replace

from mainspring.app.chat.command_results import Changes
from mainspring.app.chat.commands import Rewind
from mainspring.app.chat.event_translation import replay_events
from mainspring.app.chat.events import Notice, ReplayFinished, ReplayStarted, SessionChanged
from mainspring.app.chat.state import ChatState
from mainspring.app.chat.tool_display import parse_diff
from mainspring.app.chat.types import FileDiff
from mainspring.env.paths import display_path
from mainspring.errors import SessionError
from mainspring.prompt_tags import strip_attachments
from mainspring.sessions import (
    PairEntry,
    Session,
    SessionInfo,
    Transcript,
    TranscriptItem,
    find_session,
    list_sessions,
    read_transcript,
)
from mainspring.sessions.rewind import RewindPlan, plan_rewind, plan_undo, rewind
from mainspring.text import pluralize
from mainspring.tools.support.editing.diff import diff

SessionChangeReason = Literal["opened", "resumed", "new", "forked", "rewound", "renamed"]
_KINDS: dict[str, Literal["edit", "create", "delete"]] = {"change": "edit", "create": "create", "delete": "delete"}


class SessionController:
    """Goes to other sessions, and to other places in one. No run goes on meanwhile.

    Args:
        room: The chat.
    """

    def __init__(self, room: ChatState) -> None:
        self._room = room

    async def opened(self) -> None:
        """Tell of the session that the chat was opened with."""
        messages = self._room.conversation.agent.messages
        name = self._room.conversation.choice.name
        if name.notice:  # a model that nobody asked for, or that cannot do much
            self._room.tell(Notice(f"{name.why}; {name.notice}"))
        await self._tell("resumed" if messages else "opened", replay=self._room.options.replay)

    async def new(self) -> None:
        """Begin anew; the session so far stays on disk."""
        await self._enter(session=None)
        await self._tell("new")

    async def resume(self, name: str) -> None:
        """Go on with another session; an empty name is the folder's last one, but for this.

        Raises:
            SessionError: If there is none.
        """
        place = await asyncio.to_thread(self._find, name)
        current = self._room.conversation.session
        if current is not None and place == current.place:
            raise SessionError("this is that session already")
        await self._enter(session=place)
        await self._tell("resumed", replay=True)

    async def fork(self, entry: str) -> None:
        """Go on in a copy of the session, of all of it or up to an entry.

        Raises:
            SessionError: If nothing is saved, or there is no such entry.
        """
        session = self._session()

        def copy() -> str:
            with session.fork(title=session.title) as made:
                if entry:
                    made.branch(_fork_point(made, entry), "fork")
                made.save()
                return made.place

        await self._enter(session=await asyncio.to_thread(copy), copy=True)
        await self._tell("forked", replay=True)

    async def rename(self, title: str) -> None:
        """Give the session a title.

        Raises:
            SessionError: If nothing is saved.
        """
        session = self._session()
        session.label(title.strip())
        if self._room.conversation.agent.messages:
            await session.journal.flush()
        await self._tell("renamed")

    # --- going back -------------------------------------------------------------------------------------------------

    async def prompts(self) -> list[tuple[TranscriptItem, str | None]]:
        """The prompts of the branch, the last one first, each with the entry that stands before it.

        Raises:
            SessionError: If nothing is saved.
        """
        transcript = await self.transcript()
        session = self._session()
        entries = await asyncio.to_thread(session.entries)
        place = {entry.id: i for i, entry in enumerate(entries)}
        active = [item for item in transcript.items if item.active]
        found: list[tuple[TranscriptItem, str | None]] = []
        for item in active:
            if item.kind == "user" and item.source == "prompt":
                at = place[item.id]
                while at and getattr(entries[at - 1], "run", None) == getattr(entries[at], "run", ""):
                    at -= 1
                first = item is active[0]
                found.append((item, None if first else entries[at].parent))
        return found[::-1]

    async def rewind(self, wanted: Rewind) -> Changes:
        """Go back to before a prompt, or tell what would happen. ``undo`` takes the last rewind back.

        Raises:
            SessionError: If it cannot be done; nothing has changed then.
        """
        room, session = self._room, self._session()
        env = room.conversation.env
        draft = ""
        if wanted.to == "undo":
            plan = await plan_undo(session, env)
        else:
            prompts = await self.prompts()
            if not prompts:
                raise SessionError("there is no prompt yet to go back to")
            chosen = _find_rewind_point(prompts, wanted.to)
            draft = strip_attachments(chosen[0].text).strip()
            plan = await plan_rewind(session, env, chosen[1])
        files, conversation = wanted.what != "conversation", wanted.what != "files"
        diffs = await asyncio.to_thread(_rewind_diffs, plan, session, env.cwd) if files else ()
        text = _describe_rewind(plan, files=files, conversation=conversation)
        if wanted.preview:
            return Changes(f"Would go back: {text}", diffs)
        done = await rewind(session, env, plan, files=files, conversation=conversation, force=wanted.force)
        if done.conversation:
            room.moved()
            await self._tell("rewound", replay=True, draft=draft)
        return Changes(f"Went back: {text}. /rewind undo takes it back.", diffs)

    async def transcript(self) -> Transcript:
        """The session as people read it.

        Raises:
            SessionError: If nothing is saved.
        """
        session = self._session()
        await session.journal.flush()
        try:
            return await asyncio.to_thread(read_transcript, session.store, session.place)
        except OSError as error:
            raise SessionError(f"session {session.id} has nothing in it yet") from error

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _session(self) -> Session:
        session = self._room.conversation.session
        if session is None:
            raise SessionError("this conversation is not saved (--no-session), so that cannot be done")
        return session

    def _find(self, name: str) -> str:
        conversation = self._room.conversation
        home = conversation.settings.home
        folder = home.root if home else None
        if name:
            return find_session(name, conversation.env.cwd, home=folder).place
        current = conversation.session.place if conversation.session else ""
        listed = self.others()
        place = next((info.place for info in listed if info.place != current and not info.problem), None)
        if place is None:
            raise SessionError("there is no other session of this folder; /sessions lists those of all folders")
        return place

    def others(self, *, everywhere: bool = False) -> list[SessionInfo]:
        """The sessions of the folder, or of all folders, last used first. Blocks."""
        conversation = self._room.conversation
        home = conversation.settings.home
        return list_sessions(conversation.env.cwd, home=home.root, everywhere=everywhere) if home else []

    async def _enter(self, *, session: str | None, copy: bool = False) -> None:
        room = self._room
        ask = replace(
            room.options.ask,
            prompt="",
            piped="",
            session=session,
            session_id=None,
            continued=False,
            fork=False,
            plan=False,
            accept_edits=False,
            execute=None,
        )
        await room.enter(ask, copy=copy)

    async def _tell(self, reason: SessionChangeReason, *, replay: bool = False, draft: str = "") -> None:
        room = self._room
        conversation = room.conversation
        session = conversation.session
        messages = len(conversation.agent.messages)
        changed = SessionChanged(
            reason=reason,
            id=session.id if session else "",
            title=session.title if session else "",
            messages=messages,
            place=session.place if session else "",
            draft=draft,
        )
        room.tell(changed)
        room.publish_status()
        if replay:
            await self._replay(messages)
        if room.waiting.held and reason != "renamed":
            room.waiting.changed()
        if conversation.agent.pending is not None:
            room.tell(Notice("calls of the last run wait for an answer; an empty prompt goes on with them", "warn"))

    async def _replay(self, messages: int) -> None:
        room = self._room
        room.tell(ReplayStarted(messages))
        try:
            transcript = await self.transcript() if messages else None
        except SessionError as error:
            room.publish_error(error)
            transcript = None
        for event in replay_events(transcript.items, room.display) if transcript else ():
            room.tell(event)
        room.tell(ReplayFinished())


def _fork_point(session: Session, entry: str) -> str:
    """An entry, or the one with the results of its calls: nothing can go on between the two."""
    pairs = {e.intent: e.id for e in session.entries() if isinstance(e, PairEntry)}
    return pairs.get(entry, entry)


def _find_rewind_point(prompts: list[tuple[TranscriptItem, str | None]], to: str) -> tuple[TranscriptItem, str | None]:
    if not to:
        return prompts[0]
    if to.isdecimal() and len(to) < 7:
        number = int(to)
        if not 1 <= number <= len(prompts):
            raise SessionError(f"this session has {pluralize(len(prompts), 'prompt')}, so one cannot go back {to}")
        return prompts[number - 1]
    for each in prompts:
        if each[0].id == to:
            return each
    raise SessionError(f"there is no prompt {to!r} on this branch; /rewind lists them")


def _describe_rewind(plan: RewindPlan, *, files: bool, conversation: bool) -> str:
    parts: list[str] = []
    if conversation:
        parts.append(pluralize(plan.messages, "message"))
    if files:
        parts.append(pluralize(len(plan.restores), "file"))
        parts += [f"{c.path}: {c.reason}" for c in plan.conflicts]
        if plan.uncovered:
            parts.append(f"not undone: what {', '.join(plan.uncovered[:5])} changed")
    return "; ".join(parts) or "nothing"


def _rewind_diffs(plan: RewindPlan, session: Session, cwd: str) -> tuple[FileDiff, ...]:
    """What becomes of files. Blocks."""
    made: list[FileDiff] = []
    for restore in plan.restores:
        name = display_path(restore.path, cwd)
        old, new = (session.blobs.get(s.sha256) if s.sha256 else b"" for s in (restore.current, restore.state))
        text = diff((old or b"").decode("utf-8", "replace"), (new or b"").decode("utf-8", "replace"), name).text
        found = parse_diff(text) or (FileDiff(path=name),)
        made.append(replace(found[0], path=name, change=_KINDS[restore.action]))
    return tuple(made)
