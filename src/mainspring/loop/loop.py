"""The agent loop: call the model, execute the tool calls of its response, and repeat until a response has none.

Read this file from top to bottom: `_run_to_end` opens a `run_scope`; `run_loop` takes turns and injects queued messages;
`take_turn` calls the model (`model_calls.py`); `execute_tool_calls` runs its tool calls (`tool_calls.py`). These are functions
over explicit data and need no agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal

from mainspring.cancellation import CancelToken, cancel_scope
from mainspring.errors import AgentAbortedError, AgentError, AgentProviderError, InvalidResponseError
from mainspring.events import AgentEnd, AgentStart, ErrorInfo, TurnEnd, TurnStart, UsageUpdate
from mainspring.loop.hooks import (
    RunPaused,
    SessionEnd,
    SessionStart,
    ToolCallsReceived,
    TurnAfter,
    is_order_of_done,
)
from mainspring.loop.model_calls import call_model, prepare_request, side_call
from mainspring.loop.result import LoopRun, RunResult
from mainspring.loop.state import LoopConfig, LoopContext, PendingCalls, RunState
from mainspring.loop.tool_calls import ToolCallBatch
from mainspring.messages import AgentMessage, Message, Usage, to_messages
from mainspring.tools.execute import CONTINUE_PROMPT, EMPTY_RESPONSE_PROMPT, MISSING_CALL_PROMPT, SKIPPED, TRUNCATED


def agent_loop(
    prompts: str | AgentMessage | Sequence[AgentMessage],
    context: LoopContext,
    config: LoopConfig,
    signal: CancelToken | None = None,
) -> LoopRun:
    """Run a conversation until the model has responded, a limit is reached, or something fails.

    Await the run for its result, or iterate over it for its events: ``async for event in agent_loop(...)``.

    Args:
        prompts: Messages to append to the history first; none to continue from the history.
        context: The conversation. Its history grows; no message in it changes.
        config: The model, the hooks, the steps, and the limits to work with.
        signal: Set it to abort the run.

    Returns:
        How the run ended and what it added. A limit ends a run with its status instead of an exception.

    Raises:
        AgentProviderError: If the model failed; AgentContextExceededError if the conversation is too long.
        AgentAbortedError: If ``signal`` was set.
    """
    signal = signal or CancelToken()
    return LoopRun(config.bus, signal, _run_to_end(prompts, context, config, signal))


async def _run_to_end(
    prompts: str | AgentMessage | Sequence[AgentMessage],
    context: LoopContext,
    config: LoopConfig,
    signal: CancelToken | None,
) -> RunResult:
    run = RunState(context, config)
    async with run_scope(run, signal):
        await _start_run(run)
        await run_loop(run, to_messages(prompts))
    return run.result()


@asynccontextmanager
async def run_scope(run: RunState, signal: CancelToken | None) -> AsyncGenerator[None]:
    """Let a run be aborted, and finish it the same way on every path out: completed, failed, aborted, or cancelled."""
    context, error = run.context, None
    context.side_call = run.side_call = partial(side_call, run)
    context.spend, context.redirect = run.add_usage, run.redirect
    task = asyncio.current_task()
    cancellations = task.cancelling() if task else 0

    def prefer_cancellation(error: BaseException | None) -> BaseException | None:
        # Hooks that store something delay a cancellation until they have finished; the caller must still get it.
        is_cancelled = task is not None and task.cancelling() > cancellations
        return asyncio.CancelledError() if is_cancelled and not isinstance(error, asyncio.CancelledError) else error

    with run.abort_scope(signal):
        try:
            yield
        except BaseException as raised:
            error = raised
        # The time limit aborts a run but does not fail it. Every other error fails the run, even after the limit.
        if run.timed_out and isinstance(error, AgentAbortedError):
            error, run.status = None, "max_seconds"
        error = await _finish_run(run, prefer_cancellation(error))
        error = prefer_cancellation(error)
    if error is not None:
        raise error


async def _start_run(run: RunState) -> None:
    if run.bus.is_heard(AgentStart):
        await run.notify(_agent_start(run))
    if run.bus.has(SessionStart):
        context, has_own_system = run.context, run.config.has_custom_system_prompt
        resumed = bool(context.messages)
        await run.emit(SessionStart(run.id, run.config.agent, resumed, context.system, has_own_system=has_own_system))


async def _finish_run(run: RunState, error: BaseException | None) -> BaseException | None:
    """Set the status, then emit the last hook, then publish the last event.

    Returns:
        The failure of the run: the given one, or that of a handler that found the result unusable.
    """
    is_aborted = isinstance(error, AgentAbortedError | asyncio.CancelledError)
    if error is not None:
        run.status = "aborted" if is_aborted else "error"
    assert run.status is not None
    reason = (run.signal.reason or "cancelled") if is_aborted else ""
    turn_range = _turn_range(run) if run.bus.has(SessionEnd) else None
    if run.bus.has(SessionEnd):
        end = _session_end(run, error, reason, turn_range)
        await run.emit(end, only=lambda order, _: not is_order_of_done(order))
        run.status, error = end.status, end.error
    run.has_ended = True
    run.context.side_call = run.context.spend = run.context.redirect = None
    if isinstance(error, AgentError):
        error.outcome = run.result()
    if run.bus.has(SessionEnd):
        end = _session_end(run, error, reason, turn_range)
        await run.emit(end, only=lambda order, _: is_order_of_done(order))
    if run.bus.is_heard(AgentEnd):
        await run.notify(_agent_end(run, error))
    return error


def _agent_start(run: RunState) -> AgentStart:
    config, context = run.config, run.context
    return AgentStart(
        run.id,
        agent=config.agent,
        model=f"{config.model.provider}:{config.model.model}",
        session_id=config.session_id,
        cwd=config.env.cwd,
        resumed=len(context.messages),
        tools=context.tools.active,
        system=context.system if config.has_custom_system_prompt else "",
    )


def _session_end(
    run: RunState, error: BaseException | None, reason: str, turn_range: tuple[int, int] | None
) -> SessionEnd:
    assert run.status is not None
    result = run.result()
    end = SessionEnd(
        run.id, run.status, run.turn, run.usage, error, reason, output=result.output_or_none, stats=result.stats
    )
    end.turn_range = turn_range
    return end


def _turn_range(run: RunState) -> tuple[int, int] | None:
    """Return the positions, among the messages of the conversation, of the first and the last one that the run added."""
    added = {message.id for message in run.added}
    turns = [message for message in run.context.messages if isinstance(message, Message)]
    places = [place for place, turn in enumerate(turns) if turn.id in added]
    return (places[0], places[-1]) if places else None


def _agent_end(run: RunState, error: BaseException | None) -> AgentEnd:
    result = run.result()
    return AgentEnd(
        run.id,
        result.messages,
        result.status,
        text=result.text,
        output_error=result.output_error,
        stats=result.stats,
        denied=tuple(run.denied),
        error=ErrorInfo.from_exception(error) if isinstance(error, Exception) else None,
        exception=None if isinstance(error, asyncio.CancelledError) else error,
    )


async def run_loop(run: RunState, prompts: Sequence[AgentMessage]) -> None:
    """Append the prompts, then take turns until the run has a status."""
    pending = run.context.pending
    if prompts and pending is not None:
        # The user moved on after a pause: the tool calls that waited for an approval do not run.
        run.context.pending = None
        await run.append_skipped_calls(pending.message, SKIPPED, pending.results)
    await run.append_messages(prompts, "prompt")
    if pending is None and not prompts and _ends_with_answer(run) and run.exceeded_limit() is None:
        # A model continues only after a user message, and many hosts reject a request that ends with the assistant.
        if not await _inject_queued(run, "steer") and not await _inject_queued(run, "follow_up"):
            prompt = Message.user(CONTINUE_PROMPT, timestamp=run.config.steps.now())
            await run.append_messages((prompt,), "synthetic")

    while run.status is None:
        # Inner loop: take turns while the model has tool results or steering messages to respond to.
        while run.status is None:
            run.raise_if_aborted()
            must_respond = await take_turn(run)
            run.raise_if_aborted()
            if run.status is None and not await _inject_queued(run, "steer") and not must_respond:
                break
        # The run would stop here; a follow-up message starts the inner loop again.
        if run.status is None and not await _inject_queued(run, "follow_up"):
            run.status = "completed"


def _ends_with_answer(run: RunState) -> bool:
    """Return True if the history ends with a response of the model that was not interrupted."""
    last = run.context.messages[-1] if run.context.messages else None
    if not isinstance(last, Message) or last.role != "assistant" or last.tool_uses:
        return False
    return last.stop_reason not in ("error", "aborted", "pause_turn")


async def _inject_queued(run: RunState, kind: Literal["steer", "follow_up"]) -> bool:
    """Inject the next queued messages, if any.

    At a limit they stay in their queue for the next run.
    """
    if run.exceeded_limit() is not None:
        return False
    read = run.config.get_steering if kind == "steer" else run.config.get_follow_up
    return await run.inject_messages(await run.take_queued(kind, read), kind)


async def take_turn(run: RunState) -> bool:
    """Take one turn: call the model and execute the tool calls of its response.

    Returns:
        True if the model must respond again, for example to tool results.
    """
    steps, bus = run.config.steps, run.bus

    # A paused run left tool calls: they need their results before the model is called again.
    pending = run.context.pending
    if pending is not None:
        run.context.pending = None
        run.turn_id = steps.new_id()
        return await execute_tool_calls(run, pending)

    limit = run.exceeded_limit()
    if limit is not None:
        run.status = limit
        return False

    # Build the request. A handler may stop the run here; then the turn does not count.
    run.turn += 1
    run.turn_id = steps.new_id()
    async with cancel_scope(run.signal):
        request = await prepare_request(run)
    if request is None:
        run.turn -= 1
        return False

    # Call the model.
    await run.notify(TurnStart(run.turn, run.turn_id))
    message = await call_model(run, request)
    usage = message.usage or Usage.zero()
    run.add_usage(usage)
    run.turn_usage.append(usage)
    if bus.is_heard(UsageUpdate):
        await run.notify(UsageUpdate(run.turn, usage, run.usage))
    continue_with: str | Sequence[AgentMessage] = ()
    if bus.has(TurnAfter):
        after = await run.emit(TurnAfter(run.turn, run.turn_id, message, usage, dict(run.tool_counts)))
        continue_with = after.continue_with

    # Execute its tool calls, or append its text.
    if message.tool_uses:
        if bus.has(ToolCallsReceived):
            await run.emit(ToolCallsReceived(run.id, message))
        if message.stop_reason == "max_tokens":
            await _skip_truncated_calls(run, message)
            must_respond = True
        else:
            must_respond = await execute_tool_calls(run, PendingCalls(message))
    else:
        await run.append_messages((message,), "assistant")
        await run.notify(TurnEnd(run.turn, message, ()))
        must_respond = await _repeat_empty_response(run, message)

    # A handler of `turn:after` may continue the run with more messages.
    if continue_with and run.status is None:
        await run.append_messages(continue_with, "synthetic")
        return True
    return must_respond


async def execute_tool_calls(run: RunState, pending: PendingCalls) -> bool:
    """Execute the tool calls of a message that have no result yet, and append the message with all results.

    Returns:
        True if the model must respond to the results, False if the run pauses.
    """
    message = pending.message
    batch = ToolCallBatch(run, message, dict(pending.results), pending.answers)
    try:
        await batch.execute()
    except BaseException:
        # The run is being cancelled, and each call has a result now: store them together before the run ends.
        await run.append_tool_results(message, batch.results)
        raise

    # Some calls need an approval: the run ends as paused, and the next run continues with these calls.
    if batch.pauses:
        run.context.pending = PendingCalls(message, batch.results, batch.pauses, pending.answers)
        run.status = "paused"
        if run.bus.has(RunPaused):
            await run.emit(RunPaused(run.id, message, batch.results, batch.pauses))
        return False

    # Append the results, then what handlers add to them, then the steering messages that skipped the remaining calls.
    await run.append_messages(await run.append_tool_results(message, batch.results), "synthetic")
    if batch.steering:
        await run.inject_messages(batch.steering, "steer")

    if batch.ends_run:
        run.status = "denied"
    elif batch.has_valid_call:
        run.invalid_responses = 0
    elif not batch.steering and not run.signal.cancelled:
        _count_invalid_response(run, "The model sent no valid tool call", "bad_tool_calls")
    return True


async def _skip_truncated_calls(run: RunState, message: Message) -> None:
    """Run no tool call of a response that reached the output limit: their arguments may be cut off, too."""
    config = run.config
    limits = (config.behavior.max_output_tokens, config.model.info.max_output_tokens)
    max_tokens = min(filter(None, limits), default=0)
    limit = f" of {max_tokens} tokens" if max_tokens else ""
    await run.append_skipped_calls(message, TRUNCATED.format(limit=limit))
    _count_invalid_response(run, f"The response was cut off at the output limit{limit}", "output_limit")


async def _repeat_empty_response(run: RunState, message: Message) -> bool:
    """Return True if the model must respond again: no text, a call that is missing, or a pause of the host.

    Reasoning that used the whole output limit would use it again: such a response ends the run. A text whose announced call
    is missing again is the response: some hosts announce one with every text.
    """
    if message.stop_reason == "pause_turn":
        return True
    has_text = bool(message.text.strip())
    lacks_call = message.stop_reason == "tool_use" and run.invalid_responses == 0 < run.config.behavior.max_repairs
    if (has_text and not lacks_call) or message.stop_reason == "max_tokens":
        run.invalid_responses = 0
        return False
    _count_invalid_response(run, "The model sent neither text nor a tool call", "empty")
    text = MISSING_CALL_PROMPT if has_text else EMPTY_RESPONSE_PROMPT
    prompt = Message.user(text, timestamp=run.config.steps.now())
    await run.append_messages((prompt,), "synthetic")
    return True


def _count_invalid_response(run: RunState, what: str, reason: str) -> None:
    """Count an invalid response.

    Raises:
        AgentProviderError: If too many in a row were invalid.
    """
    run.invalid_responses += 1
    if run.invalid_responses > run.config.behavior.max_repairs:
        model = run.config.model
        text = (
            f"{what} {run.invalid_responses} times in a row ({model.provider}:{model.model}). "
            "Try another model or a simpler task."
        )
        raise AgentProviderError(
            text, cause=InvalidResponseError(text, reason=reason, provider=model.provider, model=model.model)
        )
