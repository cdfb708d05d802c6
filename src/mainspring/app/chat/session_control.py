"""Switching between sessions: open, resume, fork, and rewind them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol

from msgspec.structs import replace

from mainspring.app.chat.agent_settings import ModelSwitch, ModeSwitch, NonOwningModel
from mainspring.app.chat.command_results import Changes, Text
from mainspring.app.chat.commands import Rewind
from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.event_views import error_notice, replay_events
from mainspring.app.chat.events import ChatEvent, ReplayEnd, ReplayStart, SessionChange
from mainspring.app.chat.message_queue import MessageQueue
from mainspring.app.chat.shell_messages import list_background_commands
from mainspring.app.chat.status import StatusReporter
from mainspring.app.compose.client_services import ClientServices
from mainspring.app.compose.conversation import OpenConversation, open_conversation
from mainspring.app.providers.select_model import Choice
from mainspring.app.run.options import LaunchOptions
from mainspring.app.workspace.load import session_store
from mainspring.app.workspace.session_summaries import create_fork_title
from mainspring.env.jobs import Job
from mainspring.env.paths import display_path
from mainspring.errors import SessionError
from mainspring.events import Event, FileDiff, Notice
from mainspring.prompt_tags import find_instructions, strip_attachments
from mainspring.redaction import redact_environment
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
from mainspring.sessions.paths import resolve_session_folder
from mainspring.sessions.rewind import RewindPlan, plan_rewind, plan_undo, rewind
from mainspring.text import pluralize
from mainspring.tools.support.editing.diffs import compute_diff, parse_diff

SessionChangeReason = Literal["opened", "resumed", "new", "forked", "rewound", "renamed"]
_KINDS: dict[str, Literal["edit", "create", "delete"]] = {"change": "edit", "create": "create", "delete": "delete"}


class ConversationPart(Protocol):
    """A part of a chat that registers its hooks and listeners with each conversation."""

    async def attach(self, conversation: OpenConversation) -> None:
        """Follow this conversation from now on."""
        ...


class ConversationOpener:
    """Opens a conversation, attaches the parts of the chat to it, and closes the one before.

    Args:
        environ: Environment variables.
        current: Receives the conversation.
        models: The model that continues in the next conversation.
        queue: Messages that move to the next conversation.
        status: Pauses while a conversation is opened.
        create_services: Returns the services of the client without its model.
        publish: Publishes an event of the chat.
        parts: The parts to attach, in order.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        current: CurrentConversation,
        models: ModelSwitch,
        queue: MessageQueue,
        status: StatusReporter,
        create_services: Callable[[], ClientServices],
        publish: Callable[[ChatEvent], None],
        parts: Sequence[ConversationPart],
    ) -> None:
        self._environ = environ
        self._current = current
        self._models = models
        self._queue = queue
        self._status = status
        self._create_services = create_services
        self._publish = publish
        self._parts = parts

    async def open(self, launch: LaunchOptions, *, is_copy: bool = False) -> None:
        """Open a conversation and close the current one. If opening fails, the current one stays open.

        Args:
            launch: Options of the conversation.
            is_copy: Whether its session is a copy, whose stored queue belongs to the original.

        Raises:
            ConfigError: If an option or a setting is invalid.
            SessionError: If the session cannot be opened.
        """
        previous = self._current.conversation if self._current.is_open else None
        jobs = self._current.running_jobs
        services = self._create_services()
        services = replace(services, model=self._models.current or services.model, wrap=self._models.wrap)
        with self._status.paused():  # a status published now would mix both sessions
            conversation = await open_conversation(launch, self._report, self._environ, services)
            self._current.replace(conversation)
            await self._attach(conversation, is_copy=is_copy)
        if previous is not None:
            await self._queue.save(conversation.session)  # before the previous session forgets the messages
            await self._close(previous, moves_on=True)
        if jobs:
            self._publish(Notice(f"Stopped {list_background_commands(jobs)} of the last session.", "warn"))

    async def _attach(self, conversation: OpenConversation, *, is_copy: bool) -> None:
        for part in self._parts:
            await part.attach(conversation)
        await self._queue.attach(conversation, is_copy=is_copy)
        await self._status.attach(conversation)
        if conversation.session is not None:
            await self._report_other_folder(conversation.session.cwd, conversation.env.cwd)

    async def _report_other_folder(self, before: str, now: str) -> None:
        if before != resolve_session_folder(now):
            gone = "" if await asyncio.to_thread(os.path.isdir, before) else ", which no longer exists"
            self._publish(Notice(f"This session was started in {before}{gone}. It continues in {now}."))

    async def close(self) -> None:
        """Close the current conversation and all models."""
        if self._current.is_open:
            await self._close(self._current.conversation)
        await self._models.close_retired()

    async def _close(self, conversation: OpenConversation, *, moves_on: bool = False) -> None:
        await self._queue.save(conversation.session, session_changed=moves_on)
        if moves_on:  # the next conversation uses the model's connections
            conversation.choice = Choice(NonOwningModel(conversation.choice.model), conversation.choice.why)
        await conversation.aclose(self._report)

    def _report(self, report: Event) -> None:
        if isinstance(report, Notice):
            self._publish(report)


class SessionController:
    """Switches to other sessions and to earlier entries of one. Its callers make sure that no run is in progress.

    Args:
        launch: The options that the chat was opened with; they also apply to further sessions.
        current: The conversation.
        opener: Opens another conversation.
        queue: The queued messages.
        mode: The mode, which is saved again after a rewind.
        status: The status, which is measured again after a rewind.
        publish: Publishes an event of the chat.
    """

    def __init__(
        self,
        launch: LaunchOptions,
        current: CurrentConversation,
        opener: ConversationOpener,
        queue: MessageQueue,
        mode: ModeSwitch,
        status: StatusReporter,
        publish: Callable[[ChatEvent], None],
    ) -> None:
        self._launch = launch
        self._current = current
        self._opener = opener
        self._queue = queue
        self._mode = mode
        self._status = status
        self._publish = publish

    async def open_first(self, *, replay: bool) -> None:
        """Open the session that the chat starts with.

        Args:
            replay: Whether the events of a resumed session are published.

        Raises:
            ConfigError: If an option or a setting is invalid.
            SessionError: If the session cannot be opened.
        """
        await self._opener.open(self._launch)
        conversation = self._current.conversation
        await self._publish_session("resumed" if conversation.agent.messages else "opened", replay=replay)
        name = conversation.choice.name
        if notice := conversation.model_notice("chat"):  # the model was not chosen by the user, or has limits
            self._publish(Notice(f"Using {name.spec} ({name.why}). {notice}"))

    async def start_new(self) -> None:
        """Start a new session; the current one stays saved."""
        await self._open(session=None)
        await self._publish_session("new")

    async def resume(self, name: str) -> None:
        """Resume another session.

        Args:
            name: Its ID, title, or file; empty for the most recent other session of the folder.

        Raises:
            SessionError: If the session is not found or is already open.
        """
        place = await asyncio.to_thread(self._find, name)
        current = self._current.session
        if current is not None and place == current.location:
            raise SessionError("This session is already open.")
        await self._open(session=place)
        await self._publish_session("resumed", replay=True)

    async def fork(self, entry: str) -> None:
        """Continue in a copy of the session.

        Args:
            entry: The last entry to copy; empty for all of them.

        Raises:
            SessionError: If the conversation is not saved or the entry is unknown.
        """
        session = self._current.require_session()

        def copy() -> str:
            with session.fork(title=create_fork_title(session)) as forked:
                if entry:
                    forked.branch(_fork_point(forked, entry), "fork")
                forked.save()
                return forked.location

        await self._open(session=await asyncio.to_thread(copy), is_copy=True)
        await self._publish_session("forked", replay=True)

    async def rename(self, title: str) -> None:
        """Change the title of the session.

        Raises:
            SessionError: If the conversation is not saved.
        """
        session = self._current.require_session()
        session.label(title.strip())
        if self._current.agent.messages:
            await session.journal.flush()
        await self._publish_session("renamed")

    async def compact(self, instructions: str) -> Text:
        """Compact the conversation.

        Args:
            instructions: What the summary must keep.
        """
        problems: list[str] = []
        report = await self._current.agent.compact(instructions.strip(), on_problem=problems.append)
        if report is None:
            reason = redact_environment(" ".join(f"{problem.rstrip('.')}." for problem in problems))
            return Text(f"The conversation is unchanged. {reason}")
        return Text(f"Compacted: about {report.tokens_before:,} tokens became {report.tokens_after:,}.")

    # --- rewinding -------------------------------------------------------------------------------------------------

    async def prompts(self) -> list[tuple[TranscriptItem, str | None]]:
        """Return the prompts of the branch, latest first, each with the entry before it.

        Raises:
            SessionError: If the conversation is not saved.
        """
        transcript = await self.read_transcript()
        session = self._current.require_session()
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

    async def rewind(self, command: Rewind) -> Changes:
        """Rewind to before a prompt, or preview it. ``undo`` reverts the last rewind.

        Raises:
            SessionError: If the rewind is not possible; nothing was changed.
        """
        session, env = self._current.require_session(), self._current.conversation.env
        draft, running = "", ""
        if command.to == "undo":
            plan = await plan_undo(session, env)
        else:
            prompts = await self.prompts()
            if not prompts:
                raise SessionError("No prompts to rewind yet.")
            chosen = _find_rewind_point(prompts, command.to)
            command_line, _ = find_instructions(chosen[0].text)
            draft = command_line or strip_attachments(chosen[0].text).strip()
            plan = await plan_rewind(session, env, chosen[1])
            running = _describe_running([job for job in env.jobs.all if job.running], chosen[0].when)
        files, conversation = command.what != "conversation", command.what != "files"
        diffs = await asyncio.to_thread(_rewind_diffs, plan, session, env.cwd) if files else ()
        text = _describe_rewind(plan, files=files, conversation=conversation)
        if command.preview:
            return Changes(f"Would rewind: {text}{running and f'. {running}'}", diffs)
        try:
            done = await rewind(session, env, plan, files=files, conversation=conversation, overwrite=command.force)
        except SessionError as error:
            if command.force or not files or not plan.conflicts:
                raise
            to = command.to or "1"
            hint = f"To overwrite such files, use /rewind {to} force; to rewind only the conversation, use /rewind {to} conversation."
            raise SessionError(f"{str(error).rstrip('.')}. {hint}") from error
        if done.conversation:
            if session.writable:  # the session continues from an older entry, before the stored mode and queue
                self._mode.save()
                self._queue.invalidate(session)
            self._status.measure()
            await self._publish_session("rewound", replay=True, draft=draft)
        return Changes(f"Rewound: {text}. Undo with /rewind undo.{running and f' {running}'}", diffs)

    async def read_transcript(self) -> Transcript:
        """Return the transcript of the session.

        Raises:
            SessionError: If the conversation is not saved or has no messages.
        """
        session = self._current.require_session()
        await session.journal.flush()
        try:
            return await asyncio.to_thread(read_transcript, session.store, session.location)
        except OSError as error:
            raise SessionError(f"Session {session.id} has no messages yet.") from error

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _find(self, name: str) -> str:
        conversation = self._current.conversation
        if name:
            return find_session(name, conversation.env.cwd, home=session_store(conversation.settings)).place
        current = conversation.session.location if conversation.session else ""
        sessions = self.list_sessions()
        place = next((info.place for info in sessions if info.place != current and not info.problem), None)
        if place is None:
            raise SessionError(
                "This folder has no other sessions. Use /sessions all to list the sessions of all folders."
            )
        return place

    def list_sessions(self, *, everywhere: bool = False) -> list[SessionInfo]:
        """Return the sessions of the folder or of all folders, most recent first. Blocks."""
        conversation = self._current.conversation
        store = session_store(conversation.settings)
        return list_sessions(conversation.env.cwd, home=store, everywhere=everywhere) if store else []

    async def _open(self, *, session: str | None, is_copy: bool = False) -> None:
        launch = replace(
            self._launch,
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
        await self._opener.open(launch, is_copy=is_copy)

    async def _publish_session(self, reason: SessionChangeReason, *, replay: bool = False, draft: str = "") -> None:
        conversation = self._current.conversation
        session = conversation.session
        messages = len(conversation.agent.messages)
        changed = SessionChange(
            reason=reason,
            id=session.id if session else "",
            title=session.title if session else "",
            messages=messages,
            place=session.location if session else "",
            draft=draft,
        )
        self._publish(changed)
        self._status.publish()
        if replay:
            await self._replay(messages)
        if self._queue.paused and reason != "renamed":
            self._queue.publish()
        if conversation.agent.pending is not None:
            self._publish(
                Notice(
                    "Tool calls from the last run are waiting for approval. Send an empty prompt to continue.", "warn"
                )
            )

    async def _replay(self, messages: int) -> None:
        self._publish(ReplayStart(messages))
        try:
            transcript = await self.read_transcript() if messages else None
        except SessionError as error:
            self._publish(error_notice(error))
            transcript = None
        current = self._current
        items = transcript.items if transcript else ()
        for event in replay_events(
            items, current.tool_label, load_output=current.load_output if current.full_output else None
        ):
            self._publish(event)
        self._publish(ReplayEnd())


def _fork_point(session: Session, entry: str) -> str:
    """Return the entry, or the one with the results of its tool calls, which a copy must not separate from it."""
    pairs = {e.intent: e.id for e in session.entries() if isinstance(e, PairEntry)}
    return pairs.get(entry, entry)


def _describe_running(jobs: Sequence[Job], since: datetime) -> str:
    """Return a note about the running jobs that started after a prompt, which a rewind does not stop; empty without any."""
    now = datetime.now(since.tzinfo)
    started = [job for job in jobs if now - timedelta(seconds=job.seconds) >= since]
    if not started:
        return ""
    stop = " and ".join(f"/jobs kill {job.id}" for job in started)
    return f"Still running: {list_background_commands([job.command for job in started])}. To stop: {stop}."


def _find_rewind_point(prompts: list[tuple[TranscriptItem, str | None]], to: str) -> tuple[TranscriptItem, str | None]:
    if not to:
        return prompts[0]
    if to.isdecimal() and len(to) < 7:
        number = int(to)
        if not 1 <= number <= len(prompts):
            raise SessionError(f"Cannot rewind {to} prompts: this session has {len(prompts)}.")
        return prompts[number - 1]
    for each in prompts:
        if each[0].id == to:
            return each
    raise SessionError(f"Unknown prompt: {to}. Use /rewind to list the prompts of this branch.")


def _describe_rewind(plan: RewindPlan, *, files: bool, conversation: bool) -> str:
    parts: list[str] = []
    if conversation:
        if plan.returned:
            parts.append(pluralize(plan.returned, "restored message"))
        if plan.messages or not plan.returned:
            parts.append(pluralize(plan.messages, "message"))
    if files:
        parts.append(pluralize(len(plan.restores), "file"))
        parts += [f"{c.path}: {c.reason}" for c in plan.conflicts]
        if plan.uncovered:
            parts.append(f"not undone: changes by {', '.join(plan.uncovered[:5])}")
    return "; ".join(parts) or "nothing"


def _rewind_diffs(plan: RewindPlan, session: Session, cwd: str) -> tuple[FileDiff, ...]:
    """Return the changes of files. Blocks."""
    diffs: list[FileDiff] = []
    for restore in plan.restores:
        name = display_path(restore.path, cwd)
        old, new = (session.blobs.get(s.sha256) if s.sha256 else b"" for s in (restore.current, restore.state))
        text = compute_diff((old or b"").decode("utf-8", "replace"), (new or b"").decode("utf-8", "replace"), name).text
        parsed = parse_diff(text) or (FileDiff(path=name),)
        diffs.append(replace(parsed[0], path=name, change=_KINDS[restore.action]))
    return tuple(diffs)
