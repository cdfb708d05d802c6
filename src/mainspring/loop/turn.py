"""One model call: the request is made, sent and its answer received."""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextlib import aclosing
from typing import NoReturn

from msgspec.structs import replace

from mainspring.cancellation import cancel_scope
from mainspring.errors import (
    AgentAbortedError,
    AgentContextExceededError,
    AgentProviderError,
    ContextExceededError,
    MainspringError,
    ModelError,
)
from mainspring.events import (
    Done,
    MessageEnd,
    MessageStart,
    ModelRetry,
    StreamError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    TurnStart,
)
from mainspring.loop.hooks import (
    ContextTransform,
    ModelErrorHook,
    StreamEnd,
    StreamText,
    StreamThinking,
    SystemTransform,
    TurnAfter,
    TurnBefore,
    UsageUpdate,
)
from mainspring.loop.model_calls import call_model, empty_response_error
from mainspring.loop.state import RunState
from mainspring.messages import Message, Usage
from mainspring.messages.message import ensure_unique_call_ids
from mainspring.models import ModelRequest, RetryInfo
from mainspring.models.retry import as_provider_error

logger = logging.getLogger("mainspring")

MAX_HOOK_RETRIES = 3
"""How often in one turn `model:error` may answer `retry`: enough for a compaction and a smaller one."""


class TurnFailed(MainspringError):
    """The model call failed; ``message`` is what had arrived, ``error`` what ends the run."""

    def __init__(self, message: Message, error: BaseException) -> None:
        super().__init__(str(error))
        self.message = message
        self.error = error


async def run_turn(run: RunState) -> tuple[Message, TurnAfter | None] | tuple[None, None]:
    """Ask the model once.

    Returns:
        Its answer, and what the handlers of `turn:after` said, if there are any. No answer if a handler of `turn:before`
        stopped the run; its status is set then.

    Raises:
        TurnFailed: If there is no complete answer.
    """
    run.turn += 1
    run.turn_id = run.config.steps.new_id()
    async with cancel_scope(run.signal):
        request = await _build_request(run)
    if request is None:
        run.turn -= 1
        return None, None
    run.bus.publish(TurnStart(run.turn, run.turn_id))
    message = await _call_until_answered(run, request)
    message = ensure_unique_call_ids(message, run.config.steps.new_id)
    usage = message.usage or Usage.zero()
    run.add_usage(usage)
    run.turn_usage.append(usage)
    if run.bus.has(UsageUpdate):
        await run.emit(UsageUpdate(run.turn, usage, run.usage))
    if run.bus.has(TurnAfter):
        return message, await run.emit(TurnAfter(run.turn, run.turn_id, message, usage, dict(run.counts)))
    return message, None


async def _call_until_answered(run: RunState, request: ModelRequest) -> Message:
    """The answer, after as many tries as the handlers of `model:error` want."""
    attempt = 0
    while True:
        try:
            return await _stream_response(run, request)
        except Exception as raised:
            error = as_provider_error(raised)
            attempt += 1
            again = await _build_request(run) if await _should_retry(run, error, attempt) else None
            if again is None:
                await _fail_turn(run, error, error.partial, error)
            request = again
            run.add_usage((error.partial and error.partial.usage) or Usage.zero())


async def _build_request(run: RunState) -> ModelRequest | None:
    """History, then transformed, then as the model may see it; with system prompt, tools and options. None if the run is
    to be stopped.
    """
    config, context, bus = run.config, run.context, run.bus
    transformed = None
    if bus.has(ContextTransform):
        hook = ContextTransform(list(context.messages), run.turn, run.turn_id)
        hook.replace = run.compact
        hook = await run.emit(hook)
        transformed = hook.messages
    if config.transform_context is not None:
        chosen = list(context.messages) if transformed is None else transformed
        try:
            answer = config.transform_context(chosen, run.signal)
            transformed = await answer if inspect.isawaitable(answer) else answer
        except Exception:
            logger.exception("the choice of the context failed; the request goes on without it")
    if transformed is None and run.model_messages is not None:
        messages = tuple(run.model_messages)
    else:
        converted = config.convert_to_llm(context.messages if transformed is None else transformed)
        messages = tuple(await converted if inspect.isawaitable(converted) else converted)
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
        before = await run.emit(TurnBefore(run.turn, run.turn_id, request, dict(run.counts)))
        request, run.status = before.request, before.stop
    return request if run.status is None else None


async def _stream_response(run: RunState, request: ModelRequest) -> Message:
    """Stream one answer to whoever listens.

    Raises:
        ModelError: If it failed, after the retries that are allowed.
        TurnFailed: If the run was aborted or cancelled meanwhile.
    """
    config, bus, steps = run.config, run.bus, run.config.steps

    def told(retry: RetryInfo) -> None:
        bus.publish(ModelRetry(retry.attempt, retry.max_retries, retry.delay, retry.error))

    publish = bus.publish if bus.listeners else None
    if publish is not None:
        publish(MessageStart(Message("assistant", provider=config.model.provider, model=config.model.model)))
    hooked = bus.has(StreamText) or bus.has(StreamThinking)
    event: StreamEvent | None = None
    try:
        async with cancel_scope(run.signal), aclosing(call_model(run, config.model, request, told)) as events:
            async for event in events:
                if type(event) is Done:
                    break
                if publish is not None:
                    publish(event)
                if hooked:
                    await _stream_hooks(run, event)
    except (AgentAbortedError, asyncio.CancelledError) as stopped:
        if type(event) is not Done:
            await _fail_turn(run, None, event.partial if event else None, stopped)
    if type(event) is not Done:
        raise empty_response_error(config.model)
    message = replace(event.message, id=steps.new_id(), timestamp=steps.now())
    bus.publish(Done(event.reason, message))
    bus.publish(MessageEnd(message))
    if bus.has(StreamEnd) and message.text:
        await run.emit(StreamEnd(message.text, run.turn_id))
    return message


async def _stream_hooks(run: RunState, event: StreamEvent) -> None:
    bus = run.bus
    if type(event) is TextDelta and bus.has(StreamText):
        await run.emit(StreamText(event.text, run.turn_id))
    elif type(event) is ThinkingDelta and bus.has(StreamThinking):
        await run.emit(StreamThinking(event.thinking, run.turn_id))


async def _should_retry(run: RunState, error: ModelError, attempt: int) -> bool:
    """Whether a handler of `model:error` wants another try; a shorter history then takes the place of the old one."""
    bus = run.bus
    if attempt > MAX_HOOK_RETRIES or not bus.has(ModelErrorHook):
        return False
    before = tuple(run.context.messages)
    hook = await run.emit(ModelErrorHook(run.turn, run.turn_id, error, before, attempt))
    if not hook.should_retry:
        return False
    if hook.messages is not before:
        await run.compact(hook.messages, error.code.value)
    return True


async def _fail_turn(
    run: RunState, error: ModelError | None, partial: Message | None, cause: BaseException
) -> NoReturn:
    """One error event with what had arrived, then `turn:after` with no usage, then out."""
    bus, steps = run.bus, run.config.steps
    reason = "error" if error else "aborted"
    text = str(error) if error else run.signal.reason or "cancelled"
    partial = partial or Message("assistant", provider=run.config.model.provider, model=run.config.model.model)
    message = replace(partial, stop_reason=reason, error=text, id=steps.new_id(), timestamp=steps.now())
    if message.usage:
        run.add_usage(message.usage)
        run.turn_usage.append(message.usage)
    bus.publish(StreamError(reason, message, error))
    bus.publish(MessageEnd(message))
    if isinstance(error, ContextExceededError):
        cause = AgentContextExceededError(str(error), cause=error)
    elif error is not None:
        cause = AgentProviderError(str(error), cause=error)
    if bus.has(TurnAfter):
        await run.emit(TurnAfter(run.turn, run.turn_id, message, Usage(), dict(run.counts), cause))
    raise TurnFailed(message, cause)
