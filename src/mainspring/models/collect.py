"""An answer as a whole, out of its events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

from mainspring.errors import InvalidResponseError
from mainspring.events import Done, StreamEvent
from mainspring.models.port import ModelResponse


async def collect(events: AsyncIterator[StreamEvent], provider: str, model: str) -> ModelResponse:
    """Read a stream to its end; it is closed then.

    Args:
        events: The stream of a model.
        provider: Name of its provider, for the error.
        model: Its id.

    Raises:
        ModelError: As the stream does, or if it ends without an answer.
    """
    async with aclosing(cast("AsyncGenerator[StreamEvent, None]", events)) as stream:
        async for event in stream:
            if isinstance(event, Done):
                return ModelResponse(event.message)
    raise InvalidResponseError(f"{provider} gave no answer", reason="empty", provider=provider, model=model)
