"""One model call: build the request, stream the response, and repeat or report a failed call.

`call_model` makes the call of a turn. `side_call` makes a call outside the conversation. Both use the retries of the run, and both
count their usage.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast, get_args

from msgspec.structs import replace

from mainspring.cancellation import cancel_scope
from mainspring.errors import (
    AgentAbortedError,
    AgentContextExceededError,
    AgentError,
    AgentProviderError,
    ContextExceededError,
    ModelError,
)
from mainspring.events import (
    Done,
    ErrorInfo,
    Event,
    MessageEnd,
    MessageStart,
    ModelCallRetry,
    Notice,
    StreamError,
    StreamEvent,
    ToolsChange,
    TurnEnd,
    UsageUpdate,
)
from mainspring.lazy import lazy_function
from mainspring.loop.hooks import (
    ContextTransform,
    ModelErrorHook,
    SystemTransform,
    TurnAfter,
    TurnBefore,
)
from mainspring.loop.state import LoopConfig, LoopContext, RunState
from mainspring.messages import Message, ToolDefinition, Usage
from mainspring.messages.message import ensure_unique_call_ids
from mainspring.models import ModelProvider, ModelRequest, RetryInfo, retry_stream
from mainspring.models.retry import as_provider_error
from mainspring.tools.execute import NOT_RUN_STREAM_ERROR

if TYPE_CHECKING:
    from mainspring.loop.partial_response import shorten_partial_content
    from mainspring.models.continuation import continue_stream
    from mainspring.models.token_limits import estimate_stopped_usage
else:
    shorten_partial_content = lazy_function("mainspring.loop.partial_response", "shorten_partial_content")
    continue_stream = lazy_function("mainspring.models.continuation", "continue_stream")
    estimate_stopped_usage = lazy_function("mainspring.models.token_limits", "estimate_stopped_usage")

logger = logging.getLogger("mainspring")

_STREAM_EVENTS: tuple[type[Event], ...] = get_args(StreamEvent)

MAX_HOOK_RETRIES = 3
"""Maximum number of times that handlers of `model:error` may repeat a request in one turn: a compaction and a smaller one."""

_WINDOW_UNIT = 1024
_FULL_SHARE = 0.9  # The output limit is lowered to fit into the window, with a margin.


async def prepare_request(run: RunState) -> ModelRequest | None:
    """Prepare the request of a turn.

    Returns:
        The request; ``None`` if a handler of `turn:before` stopped the run, whose status is set then.
    """
    config, context, bus = run.config, run.context, run.bus

    # Select the messages: handlers first, then the application's own function.
    selected = None
    if bus.has(ContextTransform):
        hook = ContextTransform(list(context.messages), run.turn, run.turn_id)
        hook.replace = run.compact
        selected = (await run.emit(hook)).messages
    if config.transform_context is not None:
        candidates = list(context.messages) if selected is None else selected
        try:
            transformed = config.transform_context(candidates, run.signal)
            selected = await transformed if inspect.isawaitable(transformed) else transformed
        except Exception:
            logger.exception("transform_context failed; the request continues without it")

    # Convert them to messages that the model understands.
    if selected is None and run.model_messages is not None:
        messages = tuple(run.model_messages)
    else:
        converted = config.convert_to_llm(context.messages if selected is None else selected)
        messages = tuple(run.without_unseen_images(await converted if inspect.isawaitable(converted) else converted))

    system = context.system
    if bus.has(SystemTransform):
        system = (await run.emit(SystemTransform(system, run.turn, run.turn_id))).system
    behavior = config.behavior
    request = ModelRequest(
        messages=messages,
        system=system,
        tools=context.tools.specs,
        max_output_tokens=behavior.max_output_tokens,
        temperature=behavior.temperature,
        thinking=behavior.thinking,
        thinking_budget=behavior.thinking_budget,
        timeout=behavior.timeout,
        session_id=config.session_id or None,
        scratch=context.scratch,
    )
    if bus.has(TurnBefore):
        before = await run.emit(TurnBefore(run.turn, run.turn_id, request, dict(run.tool_counts)))
        request, run.status = before.request, before.stop
    if request.tools is not run.tools:
        await _report_tools(run, request.tools)
    return request if run.status is None else None


async def _report_tools(run: RunState, tools: Sequence[ToolDefinition]) -> None:
    """Publish how the tools differ from those of the request before."""
    before, now = [tool.name for tool in run.tools], [tool.name for tool in tools]
    run.tools = tools
    change = ToolsChange(
        tuple([name for name in now if name not in before]), tuple([name for name in before if name not in now])
    )
    if change.added or change.removed:
        await run.notify(change)


async def call_model(run: RunState, request: ModelRequest) -> Message:
    """Call the model; handlers of `model:error` may repeat a failed call with another history.

    Returns:
        The complete response, with a unique ID for each tool call.

    Raises:
        AgentProviderError: If the model failed; AgentContextExceededError if the conversation is too long.
        AgentAbortedError: If the run was aborted; asyncio.CancelledError if it was cancelled.
    """
    attempt = 0
    while True:
        try:
            message = await _stream_response(run, request)
        except Exception as raised:
            error = as_provider_error(raised)
            attempt += 1
            repeated = await prepare_request(run) if await _should_retry(run, error, attempt) else None
            usage = estimate_stopped_usage(request, error.partial, run.config.model.info)
            if repeated is None and run.signal.cancelled:  # while a handler worked, for example on a summary
                await _fail_turn(run, None, error.partial, AgentAbortedError(run.signal.reason), usage)
            if repeated is None:
                await _fail_turn(run, error, error.partial, error, usage)
            run.add_usage(usage)
            request = repeated
        else:
            full = _full_window_error(run, message) if message.stop_reason == "max_tokens" else None
            attempt += 1
            repeated = await prepare_request(run) if full and await _should_retry(run, full, attempt) else None
            if repeated is None:
                return ensure_unique_call_ids(message, run.config.steps.new_id)
            request = repeated
            run.add_usage(message.usage or Usage.zero())


def _full_window_error(run: RunState, message: Message) -> ContextExceededError | None:
    """Return the error of a response that has only reasoning because the context window was full, so that it is compacted.

    If the window is unknown, a total of a multiple of 1024 tokens below the output limit shows it.
    """
    usage, info = message.usage, run.config.model.info
    if usage is None or message.text.strip() or message.tool_uses:
        return None
    limit = min(filter(None, (run.config.behavior.max_output_tokens, info.max_output_tokens)), default=None)
    if limit is not None and usage.output_tokens >= limit:
        return None
    window, total = info.context_window, usage.total_tokens
    if window is None and _is_round(total) and not _is_round(usage.output_tokens):
        window = round(total / _WINDOW_UNIT) * _WINDOW_UNIT
    if window is None or total < window * _FULL_SHARE:
        return None
    return ContextExceededError(
        f"The response ended before its first word because the context window is full (context window: {window} tokens).",
        reason="overflow",
        provider=info.provider,
        model=info.id,
    )


def _is_round(tokens: int) -> bool:
    """Return True if a number of tokens is a multiple of 1024, except for a token or two that a server may reserve."""
    return tokens > _WINDOW_UNIT and (tokens + 2) % _WINDOW_UNIT <= 4


async def _stream_response(run: RunState, request: ModelRequest) -> Message:
    """Stream one response and publish its events.

    Raises:
        ModelError: If the call failed after its retries.
        AgentAbortedError: If the run was aborted; asyncio.CancelledError if it was cancelled.
    """
    model, bus, steps = run.config.model, run.bus, run.config.steps
    run.call_started = steps.elapsed()

    def publish_retry(retry: RetryInfo) -> None:
        error = ErrorInfo.from_exception(retry.error)
        bus.publish(
            ModelCallRetry(
                retry.attempt, retry.max_retries, retry.delay, error, retry.error, continues=retry.mid_stream
            )
        )

    if bus.is_heard(MessageStart):
        await run.notify(MessageStart(Message("assistant", provider=model.provider, model=model.model)))
    # If nothing listens, a delta costs only the loop iteration.
    is_heard = any(map(bus.is_heard, _STREAM_EVENTS))
    event: StreamEvent | None = None
    try:
        async with cancel_scope(run.signal), aclosing(_open_stream(run, model, request, publish_retry)) as events:
            async for event in events:
                if type(event) is Done:
                    break
                if is_heard and (unfinished := bus.start_event(event)) is not None:
                    await run.await_handlers(unfinished)
    except (AgentAbortedError, asyncio.CancelledError) as stopped:
        # An abort that arrives after the last event leaves a complete response.
        if type(event) is not Done:
            partial = event.partial if event else None
            usage = estimate_stopped_usage(request, partial, model.info, is_aborted=True)
            await _fail_turn(run, None, partial, stopped, usage)
    if type(event) is not Done:
        raise _incomplete_stream_error(model)

    message = replace(event.message, id=steps.new_id(), timestamp=steps.now())
    await run.notify(Done(event.reason, message))
    await run.notify(MessageEnd(message, seconds=steps.elapsed() - run.call_started))
    return message


async def _should_retry(run: RunState, error: ModelError, attempt: int) -> bool:
    """Return True if a handler of `model:error` repeats the request.

    Store the shorter history that it may provide.
    """
    if attempt > MAX_HOOK_RETRIES or not run.bus.has(ModelErrorHook):
        return False
    before = tuple(run.context.messages)
    hook = await run.emit(ModelErrorHook(run.turn, run.turn_id, error, before, attempt))
    if not hook.should_retry:
        return False
    if hook.messages is not before:
        await run.compact(hook.messages, error.code.value)
    return True


async def _fail_turn(
    run: RunState, error: ModelError | None, partial: Message | None, raised: BaseException, usage: Usage
) -> NoReturn:
    """Report a failed or aborted call: an error event, `turn:after` without usage, the partial message, `TurnEnd`, the exception."""
    bus, config = run.bus, run.config
    reason = "error" if error else "aborted"
    text = str(error) if error else run.signal.reason or "cancelled"
    partial = partial or Message("assistant", provider=config.model.provider, model=config.model.model)
    message = replace(
        partial,
        content=shorten_partial_content(partial.content),
        usage=usage if usage.total_tokens else partial.usage,
        stop_reason=reason,
        error=text,
        id=config.steps.new_id(),
        timestamp=config.steps.now(),
    )
    if error is not None and error.partial is not None:
        error.partial = replace(error.partial, content=message.content)  # the result of the run refers to the error
    if message.usage:
        run.add_usage(message.usage)
        run.turn_usage.append(message.usage)
    info = ErrorInfo.from_exception(error) if error is not None else None
    await run.notify(StreamError(reason, message, info, error))
    await run.notify(MessageEnd(message, seconds=config.steps.elapsed() - run.call_started, error=info))
    if isinstance(error, ContextExceededError):
        raised = AgentContextExceededError(text, cause=error)
    elif error is not None:
        raised = AgentProviderError(text, cause=error)
    if bus.has(TurnAfter):
        await run.emit(TurnAfter(run.turn, run.turn_id, message, Usage(), dict(run.tool_counts), raised))

    # The part that arrived is stored; its tool calls get results because they will not run.
    if message.tool_uses:
        await run.append_skipped_calls(message, NOT_RUN_STREAM_ERROR)
    else:
        if message.content:
            await run.append_messages((message,), "assistant")
        if error is not None:  # an aborted run ends without it
            await run.notify(TurnEnd(run.turn, message, ()))
    raise raised from None


async def side_call(
    run: RunState, purpose: str, request: ModelRequest, *, model: ModelProvider | None = None
) -> Message:
    """Call a model outside the conversation; see `SideModelCall`."""
    if run.has_ended:
        raise AgentError(f"Cannot call a model for {purpose!r}: the run has ended.")
    limit = run.exceeded_limit(turns=False)
    if limit:
        raise AgentError(f"Cannot call a model for {purpose!r}: the run has reached its limit ({limit}).")
    model = model or run.config.model
    event: StreamEvent | None = None
    is_aborted = False
    try:
        async with cancel_scope(run.signal), aclosing(_open_stream(run, model, request, None)) as events:
            async for event in events:
                if type(event) is Done:
                    return event.message
    except (AgentAbortedError, asyncio.CancelledError):
        is_aborted = True
        raise
    finally:
        if type(event) is Done:
            usage = event.message.usage or Usage.zero()
        else:
            partial = event.partial if event else None
            usage = estimate_stopped_usage(request, partial, model.info, is_aborted=is_aborted)
        run.add_usage(usage, purpose)
        if run.has_ended:  # no event follows the end of the run
            if run.config.add_late_usage is not None:
                run.config.add_late_usage(usage)
        elif run.bus.is_heard(UsageUpdate):
            await run.notify(UsageUpdate(run.turn, usage, run.usage, purpose))
    raise _incomplete_stream_error(model)


async def call_outside_run(
    config: LoopConfig,
    purpose: str,
    request: ModelRequest,
    *,
    on_usage: Callable[[Usage], object],
    model: ModelProvider | None = None,
) -> Message:
    """Call a model outside of any run, with the retries of the options.

    Args:
        config: The model, and the options.
        purpose: The use of the call, for errors.
        request: The request.
        on_usage: Called once with the usage, also if the call fails or is cancelled.
        model: The model (default: that of the configuration).

    Raises:
        ModelError: If the call failed.
    """
    run = RunState(LoopContext(), config)
    try:
        return await side_call(run, purpose, request, model=model)
    finally:
        on_usage(run.usage)


def _open_stream(
    run: RunState, model: ModelProvider, request: ModelRequest, on_retry: Callable[[RetryInfo], None] | None
) -> AsyncGenerator[StreamEvent, None]:
    """Open the stream of a model call, with the retries of the run.

    The caller closes the stream.
    """
    steps, retry = run.config.steps, run.config.behavior.retry
    if request.warn is None:
        request.warn = lambda text: run.bus.publish(Notice(text, "warn"))

    def open_request(request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        return cast("AsyncGenerator[StreamEvent, None]", steps.model(model, request))

    if retry is None:
        return open_request(request)
    return retry_stream(
        lambda: open_request(request),
        retry,
        partial(
            continue_stream,
            open_request,
            request,
            model.info,
            on_cut=partial(_add_cut_usage, run),
            can_continue=partial(_can_continue, run),
        ),
        sleep=steps.sleep,
        on_retry=on_retry,
        signal=run.signal,
    )


def _can_continue(run: RunState, usage: Usage) -> bool:
    """Return False if a limit of the run forbids the call that would continue a response."""
    limit = run.exceeded_limit(turns=False, more=usage)
    if limit:
        run.bus.publish(Notice(f"The response is not continued: the run has reached its limit ({limit}).", "warn"))
    return limit is None


async def _add_cut_usage(run: RunState, usage: Usage) -> None:
    """Count a call whose response was cut off and is continued by the next call."""
    run.add_usage(usage, "interrupted")
    if run.bus.is_heard(UsageUpdate):
        await run.notify(UsageUpdate(run.turn, usage, run.usage, "interrupted"))


def _incomplete_stream_error(model: ModelProvider) -> ModelError:
    return ModelError(
        "The model's stream ended before its response was complete.", reason="stream_cut", provider=model.provider
    )
