"""A model in whose place another one can be put, also while a run goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from mainspring.events import StreamEvent
from mainspring.models import ModelInfo, ModelProvider, ModelRequest, ModelResponse


class SwitchableModel:
    """Passes every request on to the model of the moment. A `ModelProvider`.

    Args:
        model: The first one.

    Attributes:
        current: The model of the moment; another one holds from the next request on.
    """

    def __init__(self, model: ModelProvider) -> None:
        self.current = model

    @property
    def provider(self) -> str:
        """Name of the provider."""
        return self.current.provider

    @property
    def model(self) -> str:
        """Id of the model."""
        return self.current.model

    @property
    def info(self) -> ModelInfo:
        """What is known about the model."""
        return self.current.info

    @property
    def profile(self) -> Any:
        """What its provider is like, where it says."""
        return getattr(self.current, "profile", None)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        """Ask, and get the answer while it is made.

        Raises:
            ModelError: As the model does.
        """
        async with aclosing(cast("AsyncGenerator[StreamEvent, None]", self.current.stream(request))) as events:
            async for event in events:
                yield event

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Ask, and get the whole answer.

        Raises:
            ModelError: As `stream`.
        """
        return await self.current.complete(request)

    async def aclose(self) -> None:
        """Give back what the model of the moment holds."""
        await self.current.aclose()


class NonOwningModel(SwitchableModel):
    """A model that somebody else closes."""

    async def aclose(self) -> None:
        """Nothing to give back."""
