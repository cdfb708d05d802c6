"""Fall back to the next model if a model is unavailable."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ErrorCode, ModelError
from mainspring.events import StreamEvent
from mainspring.lazy import lazy_function
from mainspring.models.errors import classify_exception
from mainspring.models.port import ModelBase, ModelInfo, ModelProvider, ModelRequest
from mainspring.models.retry import read_until_content

if TYPE_CHECKING:
    from mainspring.models.registry import create_model
else:
    create_model = lazy_function("mainspring.models.registry", "create_model")

DEFAULT_FALLBACK_CODES = frozenset({ErrorCode.RATE_LIMITED, ErrorCode.NETWORK_ERROR, ErrorCode.TIMEOUT})
"""Overload, insufficient credit, and outages: another provider may still respond."""


class FallbackEvent(Struct, frozen=True):
    """A change from one model to the next.

    Attributes:
        failed: Model that is unavailable.
        error: Cause of the failure.
        next: Model that is called next.
    """

    failed: ModelProvider
    error: ModelError
    next: ModelProvider


class FallbackModel(ModelBase):
    """A `ModelProvider` with several models: if one is unavailable, the next one receives the same request.

    Only before the first content: a later failure is raised, so no content is sent twice. A model that failed is skipped for
    a while, so that a conversation does not wait for the outage at every turn. The message contains the model that responded
    (``provider``, ``model``), and ``on_fallback`` is called for each change.

    Args:
        models: Models, or their names (``provider:model``), in the order in which they are called.
        on: Error codes for which the next model is called, or a function that decides.
        on_fallback: Callback for each change; may be async.
        cool_down: Seconds for which a failed model is skipped, unless its host sends a delay.
        clock: Function that returns the time in seconds.

    Raises:
        ProviderConfigError: If a model cannot be created from its name.
    """

    def __init__(
        self,
        models: Sequence[ModelProvider | str],
        *,
        on: Collection[ErrorCode] | Callable[[ModelError], bool] = DEFAULT_FALLBACK_CODES,
        on_fallback: Callable[[FallbackEvent], Any] | None = None,
        cool_down: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not models:
            raise ValueError("A fallback requires at least one model.")
        self._models = tuple([create_model(model) if isinstance(model, str) else model for model in models])
        self._fallback_on = on
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
        """ID of the first model."""
        return self._models[0].model

    @property
    def info(self) -> ModelInfo:
        """Facts about the first model that apply to every model: the smallest window, vision if all support it."""
        infos = [model.info for model in self._models]
        windows = [info.context_window for info in infos if info.context_window]
        return replace(
            infos[0],
            context_window=min(windows, default=None),
            vision=all(info.vision for info in infos),
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Send the request to the first available model.

        Raises:
            ModelError: The error of the last model; its notes contain the errors of the others.
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
                given_up.append(f"{self._models[index].provider}:{self._models[index].model} failed before: {failure}")
                await self._notify(FallbackEvent(self._models[index], failure, self._models[order[at + 1]]))

    async def aclose(self) -> None:
        """Close all models."""
        for model in self._models:
            await model.aclose()

    def _order(self) -> list[int]:
        """Return all models: the available ones first, each group in the given order."""
        now = self._clock()
        return sorted(range(len(self._models)), key=lambda index: self._unavailable_until[index] > now)

    def _should_fall_back(self, failure: ModelError) -> bool:
        return self._fallback_on(failure) if callable(self._fallback_on) else failure.code in self._fallback_on

    async def _notify(self, change: FallbackEvent) -> None:
        result = self._on_fallback(change) if self._on_fallback else None
        if isinstance(result, Awaitable):
            await result
