"""Runs of a chat: begun by what is said, steered, stopped, and followed by what waits.

Carrying out a plan.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.chat.event_translation import find_child
from mainspring.app.chat.events import Notice, RunFinished, RunStarted, UserText, Working
from mainspring.app.chat.message_queue import SAID, Said, message_of, said
from mainspring.app.chat.state import Room
from mainspring.app.compose.plan_mode import keep_answer, plan_text
from mainspring.app.providers.weights import prepare
from mainspring.app.run.events import Notice as Told
from mainspring.app.run.events import Progress, Report
from mainspring.cancellation import CancelToken
from mainspring.errors import AgentAbortedError, AgentError, ConfigError, MainspringError, ModelError
from mainspring.events import ToolExecutionEnd
from mainspring.loop import Deny, RunResult
from mainspring.messages import AgentMessage, Message
from mainspring.models import ModelProvider
from mainspring.permissions import Origin, parse_rule
from mainspring.redaction import redact
from mainspring.tools import ToolErrorCode

Source = Literal["prompt", "queue", "command", "notice"]
"""Why a run begins."""


class Once(Struct, frozen=True, kw_only=True):
    """What holds for one run only.

    Attributes:
        model: Who answers.
        tools: Names of the only tools that it gets; ``None`` for all.
        allow: Rules that allow.
    """

    model: ModelProvider | None = None
    tools: tuple[str, ...] | None = None
    allow: tuple[str, ...] = ()


_ALWAYS = Once()


class Runs:
    """The runs of a chat, one at a time.

    Args:
        room: The chat.

    Attributes:
        once: For texts that wait what holds for their run only, by their ids.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self.once: dict[str, Once] = {}
        self._signal: CancelToken | None = None
        self._task: asyncio.Task[None] | None = None
        self._denied = 0
        self._problems = 0
        room.wake = self.wake

    # --- what is said -----------------------------------------------------------------------------------------------

    def begin(self, text: Said | None, source: Source = "prompt", once: Once = _ALWAYS) -> None:
        """Begin a run; with ``None`` go on where the last one was left."""
        room = self._room
        room.running = True
        self._signal = signal = CancelToken()
        if text is not None:
            room.waiting.going(text)
        self._task = room.spawn(self._run(text, source, signal, once))

    def steer(self, text: Said) -> None:
        """Have the run see this at its next step. It can be changed and taken back until then."""
        self._room.waiting.add(text)
        self._room.conversation.agent.steer(Message.user(text.text or " ", id=text.id))

    def proceed(self) -> None:
        """Say what waits next, if nothing goes on."""
        room = self._room
        if room.running or room.closing:
            return
        text = room.waiting.next()
        if text is not None:
            self.begin(text, "queue", self.once.pop(text.id, _ALWAYS))

    def abort(self, reason: str) -> None:
        """Stop the run. It ends in order: every call gets a result, every question is settled."""
        if self._signal is not None:
            self._room.waiting.hold(True)
            self._signal.cancel(reason or "the user stopped it")

    async def ended(self) -> None:
        """Wait until the run that goes on is over."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    def abort_child(self, id: str, reason: str) -> bool:
        """Stop a sub-agent; the run goes on. Says whether there is one."""
        child = find_child(self._room.conversation.agent.children, id)
        if child is not None:
            child.abort(reason or "the user stopped it")
        return child is not None

    def wake(self, text: str) -> None:
        """A command in the background has ended: the agent is told, and begins anew where nothing goes on."""
        room = self._room
        if room.running:
            room.conversation.agent.follow_up(text)
        elif not room.closing:
            self.begin(said(text), "notice")

    # --- a run ------------------------------------------------------------------------------------------------------

    async def _run(self, text: Said | None, source: Source, signal: CancelToken, once: Once) -> None:
        room = self._room
        started = time.monotonic()
        room.approvals.begin()
        self._denied = 0
        if text is not None:
            room.tell(UserText(text.text, source, len(text.attachments), text.id))
        room.tell(RunStarted(text.id if text is not None else ""))
        room.status_changed()
        result = await self._result(text, signal, once)
        self._put_back(text)
        if room.mode == "plan" and result.status == "completed":
            await keep_answer(room.conversation.plan, result.text, self._report)
        self._tell_problems()
        cost = result.usage.cost
        room.unpriced = room.unpriced or (cost is None and result.usage.total_tokens > 0)
        await room.run_over()
        room.waiting.all_queued()
        for message in room.conversation.agent.withdraw():
            if not message.id.startswith(SAID):  # of an extension, say: it waits for the next run
                room.conversation.agent.steer(message)
        room.running, self._signal = False, None
        room.mode_changed()
        if result.status != "completed":
            room.waiting.hold(True)
        room.status_changed()
        error, hint = _failed(result.error)
        room.tell(Working(""))
        room.tell(
            RunFinished(
                status=result.status,
                text=result.text,
                error=error,
                hint=hint,
                turns=result.turns,
                tokens=result.usage.total_tokens,
                cost=None if cost is None else round(cost.total, 6),
                seconds=round(time.monotonic() - started, 3),
                denied=self._denied,
            )
        )
        self.proceed()

    async def _result(self, text: Said | None, signal: CancelToken, once: Once) -> RunResult:
        """How the run ended, whatever happens in it."""
        room = self._room
        agent = room.conversation.agent
        forget = agent.bus.observe(self._count)
        try:
            return await self._to_the_end(text, signal, once)
        except asyncio.CancelledError:
            if not signal.cancelled or room.closing:
                raise
            return RunResult(status="aborted", error=AgentAbortedError(signal.reason))
        except AgentAbortedError as error:
            return RunResult(status="aborted", error=error)
        except Exception as error:  # whatever fails, the chat goes on
            if isinstance(error, AgentError):
                return RunResult(status="error", error=error)
            known = isinstance(error, MainspringError | OSError)
            failed = AgentError(redact(str(error) if known else f"{type(error).__name__}: {error}"))
            failed.__cause__ = error
            return RunResult(status="error", error=failed)
        finally:
            forget()

    async def _to_the_end(self, text: Said | None, signal: CancelToken, once: Once) -> RunResult:
        room = self._room
        conversation = room.conversation
        agent = conversation.agent
        offline = room.options.ask.place.offline
        await prepare(conversation.choice.model, self._report, signal, offline=offline)
        prompt: Sequence[AgentMessage] = ()
        if text is not None:
            prompt = (await message_of(text, conversation, room.tell),)
        given: dict[str, Any] = {"signal": signal, "behavior": room.behavior(), "raise_errors": False}
        if once.model is not None:
            given["model"] = once.model
        if once.tools is not None:
            given["tools"] = agent.tools.only([name for name in once.tools if agent.tools.get(name) is not None])
        rules = [parse_rule(text, "allow", Origin("user", "this command")) for text in once.allow]
        with conversation.permissions.during(*rules):
            result = await agent.run(prompt, **given)
            while result.status == "paused" and (edits := room.approvals.take_edits()):
                agent.answer(edits)  # the same calls, some with other arguments: the run goes on where it stood
                result = _joined(result, await agent.run(**given))
            if result.status == "aborted" and agent.pending is not None:
                # Stopped between the yes to a changed call and the call: it gets its result, and no later run makes it.
                agent.answer(Deny(signal.reason or "the user stopped it", stop=True))
                given["signal"] = CancelToken()
                await agent.run(**given)
        return result

    def _put_back(self, text: Said | None) -> None:
        """What never joined the conversation waits again: it is not lost because a run could not begin."""
        room = self._room
        if text is not None and room.waiting.joined(text.id) is not None and not self._handled(text):
            room.waiting.add(text, first=True)
            room.waiting.hold(True)

    def _handled(self, text: Said) -> bool:
        """Whether it is in the history under this name."""
        return any(message.id == text.id for message in self._room.conversation.agent.messages)

    def _count(self, event: object) -> None:
        if isinstance(event, ToolExecutionEnd):
            details: Any = event.result.details
            facts = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
            self._denied += facts.get("code") == ToolErrorCode.PERMISSION_DENIED

    def _report(self, report: Report) -> None:
        match report:
            case Told(text=text):
                self._room.tell(Notice(text))
            case Progress(text=text, share=share, last=last):
                self._room.tell(Working("" if last else f"{text} {share:.0%}"))
            case _:
                pass

    def _tell_problems(self) -> None:
        session = self._room.conversation.session
        if session is not None:
            for problem in session.problems[self._problems :]:
                self._room.tell(Notice(str(problem), "warn"))
            self._problems = len(session.problems)


def _joined(first: RunResult, more: RunResult) -> RunResult:
    """Two parts of one run."""
    stats = replace(
        more.stats,
        turns=first.turns + more.turns,
        usage=first.usage + more.usage,
        seconds=first.stats.seconds + more.stats.seconds,
    )
    return replace(more, messages=(*first.messages, *more.messages), stats=stats)


def _failed(error: BaseException | None) -> tuple[str, str]:
    """What failed, and what to do about it."""
    if error is None or isinstance(error, AgentAbortedError):
        return "", ""
    cause = getattr(error, "cause", None) or error.__cause__
    again = isinstance(cause, ModelError) and cause.retryable
    return redact(str(error)) or type(error).__name__, "the same may succeed later; send it again" if again else ""


def begin_plan(room: Room, runs: Runs, name: str) -> None:
    """Leave plan mode and carry out a plan: the file named, or the last one. Blocks for a short read.

    Raises:
        ConfigError: If there is none, or a run goes on.
    """
    if room.running:
        raise ConfigError("a run goes on; stop it before a plan is carried out")
    plan = room.conversation.plan
    wanted = name or (plan.state.file if plan is not None else "")
    notes: list[str] = []
    text = plan_text(
        wanted,
        room.conversation.env.cwd,
        lambda report: notes.append(report.text) if isinstance(report, Told) else None,
    )
    room.set_mode("build")
    for note in notes:
        room.tell(Notice(note))
    runs.begin(said(text), "command")
