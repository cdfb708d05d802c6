"""Runs of a chat: started by a message, steered, aborted, and followed by the next queued message."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from mainspring.agent import Agent
from mainspring.app.chat.agent_settings import ModeSwitch
from mainspring.app.chat.approvals import ApprovalManager
from mainspring.app.chat.command_results import Text
from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.event_views import find_subagent, format_error
from mainspring.app.chat.events import ChatEvent, CommandEnd, WorkingChange
from mainspring.app.chat.message_queue import (
    MESSAGE_ID_PREFIX,
    MessageNotSentError,
    MessageQueue,
    QueuedMessage,
    build_message,
    create_queued_message,
)
from mainspring.app.chat.status import StatusReporter
from mainspring.app.chat.tool_display import is_denied, one_line
from mainspring.app.compose.conversation import OpenConversation
from mainspring.app.compose.plan_mode import build_plan_prompt, save_answer_as_plan
from mainspring.app.providers.weights import ensure_weights
from mainspring.app.run.events import Progress
from mainspring.cancellation import CancelToken
from mainspring.errors import AgentAbortedError, AgentError, ConfigError, ModelError
from mainspring.events import AgentEnd, AgentStart, ErrorInfo, Event, Notice, ToolExecutionEnd
from mainspring.loop import Deny, RunResult
from mainspring.loop.hooks import PromptSubmitted
from mainspring.messages import Message
from mainspring.models import ModelProvider
from mainspring.permissions import RuleSource, parse_rule
from mainspring.redaction import redact_environment
from mainspring.tools.support.background import ON_COMPLETION_KEY

RunTrigger = Literal["prompt", "queue", "command", "follow_up"]
"""Why a run starts; ``follow_up``: a background command ended."""

STOPPED_BY_USER = "Stopped by the user"
"""Reason of an abort for which the client named none."""


class RunOverrides(Struct, frozen=True, kw_only=True):
    """Settings for one run only.

    Attributes:
        model: The model.
        tools: Names of the only available tools; None for all.
        allow: Rules that allow tool calls.
        unknown_command: Reply to a message that is an unknown slash command, unless a handler of `input` changes or handles it.
    """

    model: ModelProvider | None = None
    tools: tuple[str, ...] | None = None
    allow: tuple[str, ...] = ()
    unknown_command: str = ""


_NO_OVERRIDES = RunOverrides()

_ORDER_LAST = 900


class RunController:
    """The runs of a chat, one at a time.

    Args:
        current: The conversation.
        queue: The messages that start or steer runs.
        approvals: The decisions about the calls of a run.
        mode: The mode of the agent.
        status: Reports the start and the end of a run.
        publish: Publishes an event of the chat.
        tasks: The tasks of the chat.
        is_offline: Whether no model may be downloaded.
    """

    def __init__(
        self,
        current: CurrentConversation,
        queue: MessageQueue,
        approvals: ApprovalManager,
        mode: ModeSwitch,
        status: StatusReporter,
        publish: Callable[[ChatEvent], None],
        tasks: asyncio.TaskGroup,
        is_offline: bool,
    ) -> None:
        self._current = current
        self._queue = queue
        self._approvals = approvals
        self._mode = mode
        self._status = status
        self._publish = publish
        self._tasks = tasks
        self._is_offline = is_offline
        self._overrides: dict[str, RunOverrides] = {}  # of queued messages
        self._is_running = False
        self._is_closed = False
        self._signal: CancelToken | None = None
        self._task: asyncio.Task[None] | None = None
        self._denied: list[str] = []
        self._problems = 0

    @property
    def is_running(self) -> bool:
        """Whether a run is in progress."""
        return self._is_running

    @property
    def is_closed(self) -> bool:
        """Whether no further run starts."""
        return self._is_closed

    async def attach(self, conversation: OpenConversation) -> None:
        """Report the problems of the session, and wake the agent when a background command ends."""
        self._problems = 0
        self._publish_session_problems()
        agent = conversation.agent
        agent.extra = {**agent.extra, ON_COMPLETION_KEY: self._on_background_command}

    # --- starting and stopping --------------------------------------------------------------------------------------

    def start(
        self, message: QueuedMessage | None, trigger: RunTrigger = "prompt", overrides: RunOverrides = _NO_OVERRIDES
    ) -> None:
        """Start a run; with no message, resume the tool calls of the last run that still wait for approval."""
        self._is_running = True
        self._signal = signal = CancelToken()
        if message is not None:
            self._queue.mark_sending(message)
        self._task = self._tasks.create_task(self._run(message, trigger, signal, overrides))

    def start_or_queue(self, message: QueuedMessage, overrides: RunOverrides) -> None:
        """Start a run with overrides, or queue its message while another run is in progress."""
        if self._is_running:
            self._queue.add(message)
            self._overrides[message.id] = overrides
        else:
            self.start(message, "command", overrides)

    def steer(self, message: QueuedMessage) -> None:
        """Show a message to the agent in its next turn. It can be edited and removed until then."""
        self._queue.add(message)
        self._current.agent.steer(Message.user(message.text or " ", id=message.id))

    def start_next_queued(self) -> None:
        """Start a run with the next queued message, unless a run is in progress."""
        if self._is_running or self._is_closed:
            return
        message = self._queue.remove_next()
        if message is not None:
            self.start(message, "queue", self._overrides.pop(message.id, _NO_OVERRIDES))

    def execute_plan(self, name: str) -> None:
        """Leave plan mode and start a run that executes a plan. Reads the file, so it blocks briefly.

        Args:
            name: The file of the plan; empty for the last plan.

        Raises:
            ConfigError: If the plan does not exist or a run is in progress.
        """
        if self._is_running:
            raise ConfigError("A run is in progress. Stop it before you execute a plan.")
        conversation = self._current.conversation
        plan = conversation.plan
        notices: list[str] = []
        text = build_plan_prompt(
            name or (plan.state.file if plan is not None else ""),
            conversation.env.cwd,
            lambda report: notices.append(report.text) if isinstance(report, Notice) else None,
        )
        self._mode.set("default")
        for notice in notices:
            self._publish(Notice(notice))
        self.start(create_queued_message(text), "command")

    def abort(self, reason: str) -> None:
        """Abort the run. Each of its tool calls still gets a result, and each question is settled."""
        if self._signal is not None:
            self._queue.set_paused(True)
            self._signal.cancel(reason or STOPPED_BY_USER)

    def abort_subagent(self, id: str, reason: str) -> bool:
        """Abort a subagent; the run continues. Return False if it is not running."""
        subagent = find_subagent(self._current.agent.children, id)
        if subagent is not None:
            subagent.abort(reason or STOPPED_BY_USER)
        return subagent is not None

    def close(self, reason: str) -> None:
        """Abort the run and start no further one."""
        self._is_closed = True
        self.abort(reason)

    async def wait_finished(self) -> None:
        """Wait until the run is over."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def warm_up(self) -> None:
        """Read skills and connect to servers, as the first run would."""
        if not self._is_running:
            await self._current.agent.warmup(wait_for_late=False)

    def _on_background_command(self, text: str) -> None:
        if self._is_running:
            self._current.agent.follow_up(text)
        elif not self._is_closed:
            self.start(create_queued_message(text), "follow_up")

    # --- a run ------------------------------------------------------------------------------------------------------

    async def _run(
        self, message: QueuedMessage | None, trigger: RunTrigger, signal: CancelToken, overrides: RunOverrides
    ) -> None:
        started = time.monotonic()
        self._approvals.start_run()
        self._denied.clear()
        if message is not None:
            self._publish(message.to_event(trigger))
        run_id = message.id if message is not None else ""
        self._publish(AgentStart(run_id))
        self._status.publish()
        result = await self._run_safely(message, signal, overrides)
        self._settle_unsent(message, result)
        if self._mode.mode == "plan" and result.status == "completed":
            await save_answer_as_plan(
                self._current.conversation.plan, result.text, self._report, execute="/mode execute"
            )
        self._publish_session_problems()
        await self._status.refresh_after_run(result.usage)
        self._queue.requeue_steering()
        agent = self._current.agent
        for steering in agent.cancel_steering():
            if not steering.id.startswith(MESSAGE_ID_PREFIX):  # for example, of an extension: stays for the next run
                agent.steer(steering)
        self._is_running, self._signal = False, None
        self._mode.save_change()
        if result.status != "completed":
            self._queue.set_paused(True)
        self._status.publish()
        self._publish(WorkingChange(""))
        self._publish(
            AgentEnd(
                run_id,
                (),
                result.status,
                result.text,
                stats=replace(result.stats, seconds=round(time.monotonic() - started, 3)),
                denied=tuple(self._denied),
                error=_describe_failure(result.error),
            )
        )
        self.start_next_queued()

    async def _run_safely(
        self, message: QueuedMessage | None, signal: CancelToken, overrides: RunOverrides
    ) -> RunResult:
        """Run the agent and turn each error into a result, so that the chat continues."""
        forget = self._current.agent.bus.subscribe(self._count_denied)
        try:
            return await self._run_agent(message, signal, overrides)
        except asyncio.CancelledError:
            if not signal.cancelled or self._is_closed:
                raise
            return RunResult(status="aborted", error=AgentAbortedError(signal.reason))
        except AgentAbortedError as error:
            return RunResult(status="aborted", error=error)
        except Exception as error:
            redacted = redact_environment(format_error(error))
            if isinstance(error, AgentError) and redacted == str(error):
                return RunResult(status="error", error=error)
            failure = AgentError(redacted)
            failure.__cause__ = error
            return RunResult(status="error", error=failure)
        finally:
            forget()

    async def _run_agent(
        self, message: QueuedMessage | None, signal: CancelToken, overrides: RunOverrides
    ) -> RunResult:
        conversation = self._current.conversation
        agent = conversation.agent
        await ensure_weights(conversation.choice.model, self._report, signal, offline=self._is_offline)
        prompt: Sequence[Message] = ()
        if message is not None:
            prompt = (await build_message(message, conversation, self._approvals.ask, self._publish),)
        options: dict[str, Any] = {"signal": signal, "behavior": self._mode.run_options(), "raise_errors": False}
        if overrides.model is not None:
            options["model"] = overrides.model
        if overrides.tools is not None:
            options["tools"] = agent.tools.subset(
                [name for name in overrides.tools if agent.tools.get(name) is not None]
            )
        rules = [parse_rule(text, "allow", RuleSource("user", "this command")) for text in overrides.allow]
        with (
            conversation.permissions.temporary_rules(*rules),
            _reject_command(agent, prompt, overrides.unknown_command),
        ):
            result = await agent.run(prompt, **options)
            while result.status == "paused" and (edits := self._approvals.pop_edited_inputs()):
                agent.answer(edits)  # the run resumes with the same calls, some of them with other arguments
                result = _merge_results(result, await agent.run(**options))
            if result.status == "aborted" and agent.pending is not None:
                # Aborted between the approval of an edited call and the call: deny it, so that no later run makes it.
                agent.answer(Deny(signal.reason or STOPPED_BY_USER, stop=True))
                options["signal"] = CancelToken()
                await agent.run(**options)
        return result

    def _settle_unsent(self, message: QueuedMessage | None, result: RunResult) -> None:
        """Settle a message that did not join the conversation.

        If a handler of `input` handled or blocked it, show the reply. If the run failed, requeue the message, so that it is not lost.
        """
        if message is None or self._queue.mark_sent(message.id) is None:
            return
        if isinstance(result.error, MessageNotSentError):
            return  # the client returns the text to the user
        if any(each.id == message.id for each in self._current.agent.messages):
            return
        match result.status:
            case "completed":
                self._publish(CommandEnd(message.id, "input", Text(result.text) if result.text else None))
            case "denied":
                self._publish(CommandEnd(message.id, "input", None, result.text))
            case _:
                self._queue.add(message, first=True)
                self._queue.set_paused(True)

    def _count_denied(self, event: object) -> None:
        if isinstance(event, ToolExecutionEnd) and is_denied(event):
            self._denied.append(one_line(event.result.text))

    def _report(self, report: Event) -> None:
        match report:
            case Notice():
                self._publish(report)
            case Progress(text=text, fraction=share, last=last):
                self._publish(WorkingChange("" if last else f"{text} {share:.0%}"))
            case _:
                pass

    def _publish_session_problems(self) -> None:
        session = self._current.session
        if session is not None:
            for problem in session.problems[self._problems :]:
                self._publish(Notice(str(problem), "warn"))
            self._problems = len(session.problems)


@contextmanager
def _reject_command(agent: Agent, prompt: Sequence[Message], reply: str) -> Generator[None]:
    """Reply to a message that is an unknown slash command, in place of a run, unless a handler of `input` changes it."""
    if not reply:
        yield
        return

    def reject(hook: PromptSubmitted) -> None:
        if not hook.is_decided and hook.text in [message.text for message in prompt]:
            hook.handled, hook.reply = True, reply

    detach = agent.on(PromptSubmitted, reject, order=_ORDER_LAST)
    try:
        yield
    finally:
        detach()


def _merge_results(first: RunResult, second: RunResult) -> RunResult:
    """Merge the results of the two parts of a run that was resumed."""
    stats = replace(
        second.stats,
        turns=first.turns + second.turns,
        usage=first.usage + second.usage,
        seconds=first.stats.seconds + second.stats.seconds,
    )
    return replace(second, messages=(*first.messages, *second.messages), stats=stats)


def _describe_failure(error: BaseException | None) -> ErrorInfo | None:
    """Return what failed; None for a run that was aborted."""
    if error is None or isinstance(error, AgentAbortedError):
        return None
    message = redact_environment(str(error)) or type(error).__name__
    cause = getattr(error, "cause", None) or error.__cause__
    return ErrorInfo.from_exception(cause if isinstance(cause, ModelError) else error, message)
