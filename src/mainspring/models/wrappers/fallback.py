"""The next model where one cannot be had."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ErrorCode, ModelError
from mainspring.events import StreamEvent
from mainspring.models.errors import classify_exception
from mainspring.models.port import ModelInfo, ModelProvider, ModelRequest, ModelResponse, collect
from mainspring.models.retry import read_until_content

DEFAULT_FALLBACK_CODES = frozenset({ErrorCode.RATE_LIMITED, ErrorCode.NETWORK_ERROR, ErrorCode.TIMEOUT})
"""Overload, an empty account, an outage: another provider may well answer."""


class FallbackEvent(Struct, frozen=True):
    """One model is given up for the next.

    Attributes:
        failed: The one that could not be had.
        error: Why.
        next: The one that is asked now.
    """

    failed: ModelProvider
    error: ModelError
    next: ModelProvider


class FallbackModel:
    """A `ModelProvider` of several: where one cannot be had, the next is asked with the same request.

    Only until content has been seen: afterwards a failure is raised, and nothing is said twice. A model that failed is passed over
    for a while, so that a conversation does not pay for the outage at every turn. Which one answered stands in the message
    (``provider``, ``model``) and is told to ``on_fallback``.

    Args:
        models: In the order in which they are asked.
        on: The codes of failures for which the next one is asked, or a function that decides.
        on_fallback: Told of each change; may be async.
        cool_down: Seconds for which a model that failed is passed over, if its host does not say how long.
        clock: Gives the time in seconds.
    """

    def __init__(
        self,
        models: Sequence[ModelProvider],
        *,
        on: Collection[ErrorCode] | Callable[[ModelError], bool] = DEFAULT_FALLBACK_CODES,
        on_fallback: Callable[[FallbackEvent], Any] | None = None,
        cool_down: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not models:
            raise ValueError("a fallback needs at least one model")
        self._models = tuple(models)
        self._wrap_socket = on
        self._on_fallback = on_fallback
        self._cool_down = cool_down
        self._clock = clock
        self._unavailable_until = [0.0] * len(models)

    @property
    def provider(self) -> str:
        """Provider of the first model."""
        return self._models[0].provider

    @property
    def model(self) -> str:
        """Id of the first model."""
        return self._models[0].model

    @property
    def info(self) -> ModelInfo:
        """The first model's facts, as far as they hold for whichever answers: the smallest window, vision if all have it."""
        infos = [model.info for model in self._models]
        windows = [info.context_window for info in infos if info.context_window]
        return replace(
            infos[0],
            context_window=min(windows, default=None),
            vision=all(info.vision for info in infos),
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Ask the first model that can be had.

        Raises:
            ModelError: Of the last one that was asked; notes tell why the others could not be had.
        """
        order = self._order()
        given_up: list[str] = []
        for at, index in enumerate(order):
            begun = False
            try:
                stream = cast("AsyncGenerator[StreamEvent, None]", self._models[index].stream(request))
                async with aclosing(stream):
                    head = await read_until_content(stream)
                    begun = True
                    for event in head:
                        yield event
                    async for event in stream:
                        yield event
                return
            except Exception as error:
                failure = classify_exception(error)
                if begun or not self._should_fall_back(failure):
                    raise
                self._unavailable_until[index] = self._clock() + (failure.retry_after or self._cool_down)
                if at + 1 == len(order):
                    for note in given_up:
                        error.add_note(note)
                    raise
                given_up.append(
                    f"{self._models[index].provider}:{self._models[index].model} was asked before: {failure}"
                )
                await self._notify(FallbackEvent(self._models[index], failure, self._models[order[at + 1]]))

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Ask, and get the whole answer.

        Raises:
            ModelError: As `stream`.
        """
        return await collect(self.stream(request), self.provider, self.model)

    async def aclose(self) -> None:
        """Close all of them."""
        for model in self._models:
            await model.aclose()

    def _order(self) -> list[int]:
        """All models: those that are well first, each group in the given order."""
        now = self._clock()
        return sorted(range(len(self._models)), key=lambda index: self._unavailable_until[index] > now)

    def _should_fall_back(self, failure: ModelError) -> bool:
        return self._wrap_socket(failure) if callable(self._wrap_socket) else failure.code in self._wrap_socket

    async def _notify(self, change: FallbackEvent) -> None:
        told = self._on_fallback(change) if self._on_fallback else None
        if isinstance(told, Awaitable):
            await told
