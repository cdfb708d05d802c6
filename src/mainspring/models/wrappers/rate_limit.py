"""Limit the requests and tokens per minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import cast

from mainspring.events import Done, StreamEvent
from mainspring.models.port import ModelProvider, ModelRequest, ModelWrapper
from mainspring.models.token_limits import estimate_prompt_tokens

_EXPECTED_OUTPUT_TOKENS = 1000  # Token estimate of a response, until the provider reports its usage.

WaitFunction = Callable[[float], Awaitable[object]]
"""Function that waits for a number of seconds."""


class TokenBucket:
    """A token bucket: fills at a steady rate; callers wait in order until it contains enough.

    A request larger than the bucket waits until the bucket is full and leaves it negative.

    Args:
        per_minute: Fill rate and capacity.
        clock: Function that returns the time in seconds.
        sleep: Function that waits.
    """

    def __init__(
        self, per_minute: float, *, clock: Callable[[], float] = time.monotonic, sleep: WaitFunction = asyncio.sleep
    ) -> None:
        if per_minute <= 0:
            raise ValueError("A rate must be greater than 0.")
        self._size = per_minute
        self._rate = per_minute / 60
        self._clock = clock
        self._sleep = sleep
        self._level = per_minute
        self._updated_at = clock()
        self._turn = asyncio.Lock()

    async def acquire(self, amount: float) -> None:
        """Wait until the bucket contains enough, and take the amount."""
        async with self._turn:
            # Tolerate rounding errors: otherwise, the last wait might never end.
            while (missing := min(amount, self._size) - self._refill()) > 1e-6:
                await self._sleep(missing / self._rate)
            self._level -= amount

    def adjust(self, amount: float) -> None:
        """Correct the amount that was taken: a negative amount takes more."""
        self._level = min(self._size, self._refill() + amount)

    def _refill(self) -> float:
        now = self._clock()
        self._level = min(self._size, self._level + (now - self._updated_at) * self._rate)
        self._updated_at = now
        return self._level


class RateLimitedModel(ModelWrapper):
    """A `ModelProvider` that waits instead of exceeding a rate. Share one object between all users of the rate.

    Tokens are estimated before a request and corrected by its usage afterward.

    Args:
        model: The model.
        requests_per_minute: Maximum number of requests; ``None`` is unlimited.
        tokens_per_minute: Maximum number of prompt and output tokens together; ``None`` is unlimited.
        clock: Function that returns the time in seconds.
        sleep: Function that waits.
    """

    def __init__(
        self,
        model: ModelProvider,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: WaitFunction = asyncio.sleep,
    ) -> None:
        super().__init__(model)
        self._requests = TokenBucket(requests_per_minute, clock=clock, sleep=sleep) if requests_per_minute else None
        self._tokens = TokenBucket(tokens_per_minute, clock=clock, sleep=sleep) if tokens_per_minute else None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Wait for the rate limit, then stream the response.

        Raises:
            ModelError: Errors of the model.
        """
        if self._requests is not None:
            await self._requests.acquire(1)
        expected = 0
        if self._tokens is not None:
            expected = _estimate_tokens(request)
            await self._tokens.acquire(expected)
        async with aclosing(cast("AsyncGenerator[StreamEvent, None]", self._model.stream(request))) as stream:
            async for event in stream:
                if self._tokens is not None and isinstance(event, Done) and event.message.usage is not None:
                    self._tokens.adjust(expected - event.message.usage.total_tokens)
                yield event


def _estimate_tokens(request: ModelRequest) -> int:
    answer = min(request.max_output_tokens or _EXPECTED_OUTPUT_TOKENS, _EXPECTED_OUTPUT_TOKENS)
    return estimate_prompt_tokens(request.messages, len(request.system)) + answer
