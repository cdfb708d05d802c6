"""The loop: a model is asked, its tools run, it is asked again, until it has answered.

Free functions over explicit data. `agent_loop` needs no Agent: give it a conversation and what to work with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Literal

from mainspring.cancellation import CancelToken
from mainspring.errors import AgentAbortedError, AgentError, AgentProviderError, InvalidResponseError
from mainspring.events import AgentEnd, AgentStart, TurnEnd
from mainspring.loop.history import append_messages, append_tool_results, inject_messages
from mainspring.loop.hooks import (
    AgentAbort,
    RunDone,
    RunPaused,
    SessionEnd,
    SessionStart,
    SystemBefore,
    ToolCallsReceived,
)
from mainspring.loop.model_calls import side_call
from mainspring.loop.result import RunResult
from mainspring.loop.state import LoopConfig, LoopContext, PendingCalls, RunState
from mainspring.loop.tool_calls import ToolCallBatch, fill_missing_results, run_tool_calls
from mainspring.loop.turn import TurnFailed, run_turn
from mainspring.messages import AgentMessage, Message, to_messages
from mainspring.tools.execute import EMPTY_RESPONSE_PROMPT, NOT_RUN_STREAM_ERROR, SKIPPED, TRUNCATED


async def agent_loop(
    prompts: str | AgentMessage | Sequence[AgentMessage],
    context: LoopContext,
    config: LoopConfig,
    signal: CancelToken | None = None,
) -> RunResult:
    """Run a conversation until the model has answered, a limit is reached, or something fails.

    Args:
        prompts: What joins the history first; nothing, to go on from where the history stands.
        context: The conversation. Its history grows; nothing in it is changed.
        config: The model, the hooks, the steps and the limits to work with.
        signal: Set it to abort.

    Returns:
        How the run ended and what it added. A limit ends a run with its status; it does not raise.

    Raises:
        AgentProviderError: If the model failed for good; AgentContextExceededError where the conversation is too long.
        AgentAbortedError: If ``signal`` was set.
    """
    run = RunState(context, config)
    context.side_call = run.side_call = partial(side_call, run)
    context.spend = run.add_usage
    with run.abort_scope(signal):
        async with _RunFinalizer(run):
            await _start_run(run, resumed=bool(context.messages))
            await _run_turns(run, prompts)
    return run.result()


class _RunFinalizer:
    """``async with _Ending(run)``: the same on every way out of a run."""

    __slots__ = ("_cancelling", "_run", "_task")

    def __init__(self, run: RunState) -> None:
        self._run = run

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        run, error = self._run, raised
        if isinstance(raised, TurnFailed):
            error = raised.error
            await _store_partial_message(run, raised.message)
        if run.timed_out and isinstance(error, AgentAbortedError):
            error, run.status = None, "max_seconds"
        error = self._pending_cancellation(error)
        await _finish_run(run, error)
        error = self._pending_cancellation(error)
        if error is not None and error is not raised:
            raise error from None
        return error is None

    def _pending_cancellation(self, error: BaseException | None) -> BaseException | None:
        """A cancellation that came while something was awaited that had to be whole is not lost."""
        late = self._task and self._task.cancelling() > self._cancelling
        return asyncio.CancelledError() if late and not isinstance(error, asyncio.CancelledError) else error


async def _run_turns(run: RunState, prompts: str | AgentMessage | Sequence[AgentMessage]) -> None:
    """Turn after turn, until there is nothing more to answer."""
    await _prompt(run, to_messages(prompts))
    while run.status is None:  # outer: as long as something follows up
        while run.status is None:  # inner: as long as there are results, steering or a policy's word to answer
            _raise_if_aborted(run)
            pending = run.context.pending
            more = await _resume(run, pending) if pending else await _turn(run)
            _raise_if_aborted(run)
            if run.status is None and not await _inject_queued(run, "steer") and not more:
                break
        if run.status is None and not await _inject_queued(run, "follow_up"):
            run.status = "completed"


def _raise_if_aborted(run: RunState) -> None:
    if run.signal.cancelled:
        raise AgentAbortedError(run.signal.reason)


async def _inject_queued(run: RunState, kind: Literal["steer", "follow_up"]) -> bool:
    """Let a waiting message join; at a limit it stays where it waits."""
    getter = run.config.get_steering if kind == "steer" else run.config.get_follow_up
    return run.exceeded_limit() is None and await inject_messages(run, await run.take_queued(kind, getter), kind)


async def _turn(run: RunState) -> bool:
    """One turn: the model's answer, and the results of its calls. Says whether the model must be asked again."""
    limit = run.exceeded_limit()
    if limit is not None:
        run.status = limit
        return False
    message, after = await run_turn(run)
    if message is None:
        return False
    if message.tool_uses:
        more = await _calls(run, message)
    else:
        await append_messages(run, (message,), "assistant")
        run.bus.publish(TurnEnd(run.turn, message, ()))
        more = await _retry_empty_response(run, message)
    if after is not None and after.continue_with and run.status is None:
        await append_messages(run, after.continue_with, "synthetic")
        return True
    return more


async def _calls(run: RunState, message: Message) -> bool:
    """Have the calls answered; a cut-off answer runs nothing, since its arguments may be cut off too."""
    if run.bus.has(ToolCallsReceived):
        await run.emit(ToolCallsReceived(run.id, message))
    if message.stop_reason != "max_tokens":
        return await _run_pending_calls(run, PendingCalls(message))
    config = run.config
    cap = min(filter(None, (config.behavior.max_output_tokens, config.model.info.max_output_tokens)), default=0)
    limit = f" of {cap} tokens" if cap else ""
    await _skip_calls(run, message, TRUNCATED.format(limit=limit))
    _count_invalid_response(run, f"the answer was cut off at the output limit{limit}", "output_limit")
    return True


async def _skip_calls(run: RunState, message: Message, reason: str, answers: ToolCallBatch | None = None) -> None:
    """The calls that have no result get one that says why, and none runs."""
    answers = answers or ToolCallBatch(results={})
    fill_missing_results(run, message, answers, reason)
    await append_tool_results(run, message, answers)


async def _prompt(run: RunState, messages: Sequence[AgentMessage]) -> None:
    """Let the prompt join. Calls that a paused run left are not made any more then: the user has moved on."""
    pending = run.context.pending
    if messages and pending is not None:
        run.context.pending = None
        await _skip_calls(run, pending.message, SKIPPED, ToolCallBatch(results=dict(pending.results)))
    await append_messages(run, messages, "prompt")


async def _resume(run: RunState, pending: PendingCalls) -> bool:
    """Take up the calls that a paused run left."""
    run.context.pending = None
    run.turn_id = run.config.steps.new_id()
    return await _run_pending_calls(run, pending)


async def _run_pending_calls(run: RunState, pending: PendingCalls) -> bool:
    message = pending.message
    answers = ToolCallBatch(results=dict(pending.results), given=pending.answers)
    try:
        await run_tool_calls(run, message, answers)
    except BaseException:
        await append_tool_results(run, message, answers)
        raise
    if answers.paused:
        run.context.pending = PendingCalls(message, answers.results, answers.paused, pending.answers)
        run.status = "paused"
        if run.bus.has(RunPaused):
            await run.emit(RunPaused(run.id, message, answers.results, answers.paused))
        return False
    await append_messages(run, await append_tool_results(run, message, answers), "synthetic")
    if answers.steering:
        await inject_messages(run, answers.steering, "steer")
    if answers.denied:
        run.status = "denied"
    elif answers.valid_calls:
        run.invalid_responses = 0
    elif not answers.steering and not run.signal.cancelled:
        _count_invalid_response(run, "no tool call could be understood", "bad_tool_calls")
    return True


async def _retry_empty_response(run: RunState, message: Message) -> bool:
    """An answer of nothing (or of reasoning only) is no answer: ask again, but not for ever."""
    if message.text.strip():
        run.invalid_responses = 0
        return False
    _count_invalid_response(run, "the model gave neither an answer nor a tool call", "empty")
    await append_messages(run, (Message.user(EMPTY_RESPONSE_PROMPT, timestamp=run.config.steps.now()),), "synthetic")
    return True


def _count_invalid_response(run: RunState, subject: str, reason: str) -> None:
    """Count an answer that led nowhere.

    Raises:
        AgentProviderError: If there were too many in a row.
    """
    run.invalid_responses += 1
    if run.invalid_responses > run.config.behavior.max_repairs:
        model = run.config.model
        text = f"{subject}, {run.invalid_responses} times in a row ({model.provider}:{model.model}); try another model or a simpler task"
        raise AgentProviderError(
            text, cause=InvalidResponseError(text, reason=reason, provider=model.provider, model=model.model)
        )


async def _store_partial_message(run: RunState, message: Message) -> None:
    """What had arrived of a broken-off answer stays on record; its calls get results that say they never ran."""
    if message.tool_uses:
        await _skip_calls(run, message, NOT_RUN_STREAM_ERROR)
    elif message.content:
        await append_messages(run, (message,), "assistant")


async def _start_run(run: RunState, *, resumed: bool) -> None:
    run.bus.publish(AgentStart(run.id))
    if run.bus.has(SessionStart):
        await run.emit(SessionStart(run.id, run.config.agent, resumed))
    if run.config.has_custom_system_prompt and run.bus.has(SystemBefore):
        await run.emit(SystemBefore(run.id, run.context.system))


async def _finish_run(run: RunState, error: BaseException | None) -> None:
    """The same on every way out: the store hears it, then everybody, then the stream ends."""
    stopped = isinstance(error, AgentAbortedError | asyncio.CancelledError)
    if error is not None:
        run.status = "aborted" if stopped else "error"
    assert run.status is not None
    if stopped and run.bus.has(AgentAbort):
        await run.emit(AgentAbort(run.id, run.signal.reason or "cancelled"))
    if run.bus.has(SessionEnd):
        await run.emit(SessionEnd(run.id, run.status, run.turn, run.usage, error))
    run.ended, run.context.side_call, run.context.spend = True, None, None
    if isinstance(error, AgentError):
        error.outcome = run.result()
    if run.bus.has(RunDone):
        await run.emit(RunDone(run.id, run.status, run.turn, run.usage, error))
    run.bus.publish(AgentEnd(run.id, tuple(run.added), run.status, error if isinstance(error, Exception) else None))
