"""One model call: the request is made, sent and its answer received."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NoReturn, cast

from msgspec.structs import replace

from mainspring.errors import (
    AgentAbortedError,
    AgentContextExceededError,
    AgentProviderError,
    ContextExceededError,
    MainspringError,
    ModelError,
)
from mainspring.events import (
    ContextCompacted,
    ContextTransform,
    Done,
    MessageEnd,
    MessageStart,
    ModelErrorHook,
    ModelRetry,
    StreamEnd,
    StreamError,
    StreamEvent,
    StreamText,
    StreamThinking,
    SystemTransform,
    TextDelta,
    ThinkingDelta,
    TurnAfter,
    TurnBefore,
    TurnStart,
    UsageUpdate,
)
from mainspring.loop.dispatch import sound_ids
from mainspring.loop.run import Interrupt, Run
from mainspring.messages import Message, Usage
from mainspring.models import ModelRequest, RetryInfo, classify_exception, retry_stream

MODEL_ERROR_ANSWERS = 3
"""How often in one turn `model:error` may answer `retry`: enough for a compaction and a smaller one."""


class TurnFailed(MainspringError):
    """The model call failed; ``message`` is what had arrived, ``error`` what ends the run."""

    def __init__(self, message: Message, error: BaseException) -> None:
        super().__init__(str(error))
        self.message = message
        self.error = error


async def take_turn(run: Run) -> tuple[Message, TurnAfter | None]:
    """Ask the model once.

    Returns:
        Its answer, and what the handlers of `turn:after` said, if there are any.

    Raises:
        TurnFailed: If there is no complete answer.
    """
    bus = run.config.bus
    run.turn += 1
    run.turn_id = run.config.steps.new_id()
    bus.publish(TurnStart(run.turn, run.turn_id))
    attempt = 0
    while True:
        request = await _request(run)
        try:
            message = await _ask(run, request)
            break
        except Exception as raised:
            if isinstance(raised, MainspringError) and not isinstance(raised, ModelError):
                raise
            error = classify_exception(raised)
            attempt += 1
            if not await _answered(run, error, attempt):
                await _fail(run, error, error.partial, error)
    message = sound_ids(run, message)
    usage = message.usage or Usage.zero()
    run.usage += usage
    run.turn_usage.append(usage)
    if bus.has(UsageUpdate):
        await bus.emit(UsageUpdate(run.turn, usage, run.usage))
    if bus.has(TurnAfter):
        return message, await bus.emit(TurnAfter(run.turn, run.turn_id, message, usage, dict(run.counts)))
    return message, None


async def _request(run: Run) -> ModelRequest:
    """History, then transformed, then as the model may see it; with system prompt, tools and options."""
    config, context, bus = run.config, run.context, run.config.bus
    transformed = None
    if bus.has(ContextTransform):
        hook = await bus.emit(ContextTransform(list(context.messages), run.turn, run.turn_id))
        transformed = hook.messages
    if config.transform_context is not None:
        answer = config.transform_context(list(context.messages) if transformed is None else transformed, run.signal)
        transformed = await answer if inspect.isawaitable(answer) else answer
    if transformed is None and run.llm is not None:
        messages = tuple(run.llm)
    else:
        converted = config.convert_to_llm(context.messages if transformed is None else transformed)
        messages = tuple(await converted if inspect.isawaitable(converted) else converted)
    system = context.system
    if bus.has(SystemTransform):
        system = (await bus.emit(SystemTransform(system, run.turn, run.turn_id))).system
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
        request = (await bus.emit(TurnBefore(run.turn, run.turn_id, request, dict(run.counts)))).request
    return request


async def _ask(run: Run, request: ModelRequest) -> Message:
    """Stream one answer to whoever listens.

    Raises:
        ModelError: If it failed, after the retries that are allowed.
        TurnFailed: If the run was aborted or cancelled meanwhile.
    """
    config, bus, steps = run.config, run.config.bus, run.config.steps
    publish = bus.publish if bus.observers else None
    if publish is not None:
        publish(MessageStart(Message("assistant", provider=config.model.provider, model=config.model.model)))
    hooked = bus.has(StreamText) or bus.has(StreamThinking)
    event: StreamEvent | None = None
    try:
        async with Interrupt(run.signal), aclosing(_open(run, request)) as events:
            async for event in events:
                if type(event) is Done:
                    break
                if publish is not None:
                    publish(event)
                if hooked:
                    await _stream_hooks(run, event)
    except (AgentAbortedError, asyncio.CancelledError) as stopped:
        if type(event) is not Done:
            await _fail(run, None, event.partial if event else None, stopped)
    if type(event) is not Done:
        raise ModelError(
            "the model's stream ended without an answer", reason="stream_cut", provider=config.model.provider
        )
    message = replace(event.message, id=steps.new_id(), timestamp=steps.now())
    bus.publish(Done(event.reason, message))
    bus.publish(MessageEnd(message))
    if bus.has(StreamEnd) and message.text:
        await bus.emit(StreamEnd(message.text, run.turn_id))
    return message


def _open(run: Run, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
    config, signal = run.config, run.signal

    def call() -> AsyncGenerator[StreamEvent, None]:
        return cast("AsyncGenerator[StreamEvent, None]", config.steps.model(config.model, request))

    def told(retry: RetryInfo) -> None:
        config.bus.publish(ModelRetry(retry.attempt, retry.max_retries, retry.delay, retry.error))

    if config.behavior.retry is None:
        return call()
    return retry_stream(call, config.behavior.retry, sleep=config.steps.sleep, on_retry=told, signal=signal)


async def _stream_hooks(run: Run, event: StreamEvent) -> None:
    bus = run.config.bus
    if type(event) is TextDelta:
        if bus.has(StreamText):
            await bus.emit(StreamText(event.text, run.turn_id))
    elif type(event) is ThinkingDelta and bus.has(StreamThinking):
        await bus.emit(StreamThinking(event.thinking, run.turn_id))


async def _answered(run: Run, error: ModelError, attempt: int) -> bool:
    """Whether a handler of `model:error` wants another try; a shorter history then takes the place of the old one."""
    bus = run.config.bus
    if attempt > MODEL_ERROR_ANSWERS or not bus.has(ModelErrorHook):
        return False
    before = tuple(run.context.messages)
    hook = await bus.emit(ModelErrorHook(run.turn, run.turn_id, error, before, attempt))
    if not hook.retrying:
        return False
    if hook.messages is not before:
        run.replace(hook.messages)
        if bus.has(ContextCompacted):
            await bus.emit(ContextCompacted(before, hook.messages, error.code.value))
    return True


async def _fail(run: Run, error: ModelError | None, partial: Message | None, cause: BaseException) -> NoReturn:
    """One error event with what had arrived, then `turn:after` with no usage, then out."""
    bus, steps = run.config.bus, run.config.steps
    reason = "error" if error else "aborted"
    text = str(error) if error else run.signal.reason or "cancelled"
    partial = partial or Message("assistant", provider=run.config.model.provider, model=run.config.model.model)
    message = replace(partial, stop_reason=reason, error=text, id=steps.new_id(), timestamp=steps.now())
    if message.usage:
        run.usage += message.usage
        run.turn_usage.append(message.usage)
    bus.publish(StreamError(reason, message, error))
    bus.publish(MessageEnd(message))
    if isinstance(error, ContextExceededError):
        cause = AgentContextExceededError(str(error), cause=error)
    elif error is not None:
        cause = AgentProviderError(str(error), cause=error)
    if bus.has(TurnAfter):
        await bus.emit(TurnAfter(run.turn, run.turn_id, message, Usage(), dict(run.counts), cause))
    raise TurnFailed(message, cause)
