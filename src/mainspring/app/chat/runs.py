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

from mainspring.app.chat.event_translation import find_subagent
from mainspring.app.chat.events import Notice, RunFinished, RunStarted, UserText, Working
from mainspring.app.chat.message_queue import MESSAGE_ID_PREFIX, QueuedMessage, build_message, create_queued_message
from mainspring.app.chat.state import ChatState
from mainspring.app.compose.plan_mode import build_plan_prompt, save_answer_as_plan
from mainspring.app.providers.weights import ensure_weights
from mainspring.app.run.events import Notice as Told
from mainspring.app.run.events import Progress, RunEvent
from mainspring.cancellation import CancelToken
from mainspring.errors import AgentAbortedError, AgentError, ConfigError, MainspringError, ModelError
from mainspring.events import ToolExecutionEnd
from mainspring.loop import Deny, RunResult
from mainspring.messages import AgentMessage, Message
from mainspring.models import ModelProvider
from mainspring.permissions import RuleSource, parse_rule
from mainspring.redaction import redact
from mainspring.tools import ToolErrorCode

RunTrigger = Literal["prompt", "queue", "command", "notice"]
"""Why a run begins."""


class RunOverrides(Struct, frozen=True, kw_only=True):
    """What holds for one run only.

    Attributes:
        model: Who answers.
        tools: Names of the only tools that it gets; ``None`` for all.
        allow: Rules that allow.
    """

    model: ModelProvider | None = None
    tools: tuple[str, ...] | None = None
    allow: tuple[str, ...] = ()


_NO_OVERRIDES = RunOverrides()


class RunController:
    """The runs of a chat, one at a time.

    Args:
        room: The chat.

    Attributes:
        once: For texts that wait what holds for their run only, by their ids.
    """

    def __init__(self, room: ChatState) -> None:
        self._room = room
        self.once: dict[str, RunOverrides] = {}
        self._signal: CancelToken | None = None
        self._task: asyncio.Task[None] | None = None
        self._denied = 0
        self._problems = 0
        room.wake = self.wake

    # --- what is said -----------------------------------------------------------------------------------------------

    def begin(
        self, text: QueuedMessage | None, source: RunTrigger = "prompt", once: RunOverrides = _NO_OVERRIDES
    ) -> None:
        """Begin a run; with ``None`` go on where the last one was left."""
        room = self._room
        room.running = True
        self._signal = signal = CancelToken()
        if text is not None:
            room.waiting.going(text)
        self._task = room.spawn(self._run(text, source, signal, once))

    def steer(self, text: QueuedMessage) -> None:
        """Have the run see this at its next step. It can be changed and taken back until then."""
        self._room.waiting.add(text)
        self._room.conversation.agent.steer(Message.user(text.text or " ", id=text.id))

    def start_next_queued(self) -> None:
        """Say what waits next, if nothing goes on."""
        room = self._room
        if room.running or room.closing:
            return
        text = room.waiting.next()
        if text is not None:
            self.begin(text, "queue", self.once.pop(text.id, _NO_OVERRIDES))

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
        child = find_subagent(self._room.conversation.agent.children, id)
        if child is not None:
            child.abort(reason or "the user stopped it")
        return child is not None

    def wake(self, text: str) -> None:
        """A command in the background has ended: the agent is told, and begins anew where nothing goes on."""
        room = self._room
        if room.running:
            room.conversation.agent.follow_up(text)
        elif not room.closing:
            self.begin(create_queued_message(text), "notice")

    # --- a run ------------------------------------------------------------------------------------------------------

    async def _run(
        self, text: QueuedMessage | None, source: RunTrigger, signal: CancelToken, once: RunOverrides
    ) -> None:
        room = self._room
        started = time.monotonic()
        room.approvals.begin()
        self._denied = 0
        if text is not None:
            room.tell(UserText(text.text, source, len(text.attachments), text.id))
        room.tell(RunStarted(text.id if text is not None else ""))
        room.publish_status()
        result = await self._result(text, signal, once)
        self._put_back(text)
        if room.mode == "plan" and result.status == "completed":
            await save_answer_as_plan(room.conversation.plan, result.text, self._report)
        self._publish_session_problems()
        cost = result.usage.cost
        room.unpriced = room.unpriced or (cost is None and result.usage.total_tokens > 0)
        await room.refresh_after_run()
        room.waiting.requeue_steering()
        for message in room.conversation.agent.cancel_steering():
            if not message.id.startswith(MESSAGE_ID_PREFIX):  # of an extension, say: it waits for the next run
                room.conversation.agent.steer(message)
        room.running, self._signal = False, None
        room.save_mode()
        if result.status != "completed":
            room.waiting.hold(True)
        room.publish_status()
        error, hint = _describe_failure(result.error)
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
        self.start_next_queued()

    async def _result(self, text: QueuedMessage | None, signal: CancelToken, once: RunOverrides) -> RunResult:
        """How the run ended, whatever happens in it."""
        room = self._room
        agent = room.conversation.agent
        forget = agent.bus.observe(self._count)
        try:
            return await self._run_agent(text, signal, once)
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

    async def _run_agent(self, text: QueuedMessage | None, signal: CancelToken, once: RunOverrides) -> RunResult:
        room = self._room
        conversation = room.conversation
        agent = conversation.agent
        offline = room.options.ask.place.offline
        await ensure_weights(conversation.choice.model, self._report, signal, offline=offline)
        prompt: Sequence[AgentMessage] = ()
        if text is not None:
            prompt = (await build_message(text, conversation, room.tell),)
        given: dict[str, Any] = {"signal": signal, "behavior": room.behavior(), "raise_errors": False}
        if once.model is not None:
            given["model"] = once.model
        if once.tools is not None:
            given["tools"] = agent.tools.only([name for name in once.tools if agent.tools.get(name) is not None])
        rules = [parse_rule(text, "allow", RuleSource("user", "this command")) for text in once.allow]
        with conversation.permissions.during(*rules):
            result = await agent.run(prompt, **given)
            while result.status == "paused" and (edits := room.approvals.pop_edited_inputs()):
                agent.answer(edits)  # the same calls, some with other arguments: the run goes on where it stood
                result = _merge_results(result, await agent.run(**given))
            if result.status == "aborted" and agent.pending is not None:
                # Stopped between the yes to a changed call and the call: it gets its result, and no later run makes it.
                agent.answer(Deny(signal.reason or "the user stopped it", stop=True))
                given["signal"] = CancelToken()
                await agent.run(**given)
        return result

    def _put_back(self, text: QueuedMessage | None) -> None:
        """What never joined the conversation waits again: it is not lost because a run could not begin."""
        room = self._room
        if text is not None and room.waiting.joined(text.id) is not None and not self._is_in_history(text):
            room.waiting.add(text, first=True)
            room.waiting.hold(True)

    def _is_in_history(self, text: QueuedMessage) -> bool:
        """Whether it is in the history under this name."""
        return any(message.id == text.id for message in self._room.conversation.agent.messages)

    def _count(self, event: object) -> None:
        if isinstance(event, ToolExecutionEnd):
            details: Any = event.result.details
            facts = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
            self._denied += facts.get("code") == ToolErrorCode.PERMISSION_DENIED

    def _report(self, report: RunEvent) -> None:
        match report:
            case Told(text=text):
                self._room.tell(Notice(text))
            case Progress(text=text, share=share, last=last):
                self._room.tell(Working("" if last else f"{text} {share:.0%}"))
            case _:
                pass

    def _publish_session_problems(self) -> None:
        session = self._room.conversation.session
        if session is not None:
            for problem in session.problems[self._problems :]:
                self._room.tell(Notice(str(problem), "warn"))
            self._problems = len(session.problems)


def _merge_results(first: RunResult, more: RunResult) -> RunResult:
    """Two parts of one run."""
    stats = replace(
        more.stats,
        turns=first.turns + more.turns,
        usage=first.usage + more.usage,
        seconds=first.stats.seconds + more.stats.seconds,
    )
    return replace(more, messages=(*first.messages, *more.messages), stats=stats)


def _describe_failure(error: BaseException | None) -> tuple[str, str]:
    """What failed, and what to do about it."""
    if error is None or isinstance(error, AgentAbortedError):
        return "", ""
    cause = getattr(error, "cause", None) or error.__cause__
    again = isinstance(cause, ModelError) and cause.retryable
    return redact(str(error)) or type(error).__name__, "the same may succeed later; send it again" if again else ""


def start_plan(room: ChatState, runs: RunController, name: str) -> None:
    """Leave plan mode and carry out a plan: the file named, or the last one. Blocks for a short read.

    Raises:
        ConfigError: If there is none, or a run goes on.
    """
    if room.running:
        raise ConfigError("a run goes on; stop it before a plan is carried out")
    plan = room.conversation.plan
    wanted = name or (plan.state.file if plan is not None else "")
    notes: list[str] = []
    text = build_plan_prompt(
        wanted,
        room.conversation.env.cwd,
        lambda report: notes.append(report.text) if isinstance(report, Told) else None,
    )
    room.set_mode("build")
    for note in notes:
        room.tell(Notice(note))
    runs.begin(create_queued_message(text), "command")
