"""Asking a model, for the turn itself and beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import cast

from mainspring.cancellation import cancel_scope
from mainspring.errors import AgentError, ModelError
from mainspring.events import Done, StreamEvent
from mainspring.loop.hooks import UsageUpdate
from mainspring.loop.state import RunState
from mainspring.messages import Message, Usage
from mainspring.models import ModelProvider, ModelRequest, RetryInfo, retry_stream

Events = AsyncGenerator[StreamEvent, None]


def call_model(
    run: RunState, model: ModelProvider, request: ModelRequest, on_retry: Callable[[RetryInfo], None] | None
) -> Events:
    """Make a model call, with the run's retries; ``on_retry`` hears of them. The caller closes what this gives."""
    steps, retry = run.config.steps, run.config.behavior.retry

    def call() -> Events:
        return cast("Events", steps.model(model, request))

    if retry is None:
        return call()
    return retry_stream(call, retry, sleep=steps.sleep, on_retry=on_retry, signal=run.signal)


async def side_call(
    run: RunState, purpose: str, request: ModelRequest, *, model: ModelProvider | None = None
) -> Message:
    """See `SideCall`."""
    limit = "over" if run.ended else run.exceeded_limit(turns=False)
    if limit:
        reason = "the run is over" if run.ended else f"the run has reached its limit ({limit})"
        raise AgentError(f"no model can be asked for {purpose!r}: {reason}")
    model = model or run.config.model
    event: StreamEvent | None = None
    try:
        async with cancel_scope(run.signal), aclosing(call_model(run, model, request, None)) as events:
            async for event in events:
                if type(event) is Done:
                    return event.message
    finally:
        usage = (event.partial.usage if event else None) or Usage.zero()
        run.add_usage(usage, purpose)
        if run.bus.has(UsageUpdate):
            await run.emit(UsageUpdate(run.turn, usage, run.usage, purpose))
    raise empty_response_error(model)


def empty_response_error(model: ModelProvider) -> ModelError:
    """The failure of a stream that ended before its answer did."""
    return ModelError("the model's stream ended without an answer", reason="stream_cut", provider=model.provider)
