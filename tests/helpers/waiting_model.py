"""A scripted model that waits until a test lets it continue."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from mainspring.cancellation import CancelToken
from mainspring.testing import ScriptedModel


class Gate:
    """Blocks a model until a test opens the gate."""

    def __init__(self) -> None:
        self.reached_limit = asyncio.Event()
        self.open = asyncio.Event()

    async def wait(self, signal: CancelToken | None = None) -> None:
        self.reached_limit.set()
        await self.open.wait()


class WaitingModel(ScriptedModel):
    """A scripted model that waits at a gate before some of its responses.

    Args:
        script: The responses.
        gates: The gate before a response, by the index of the response.
    """

    def __init__(self, *script: Any, gates: dict[int, Gate], **options: Any) -> None:
        super().__init__(*script, **options)
        self.gates = gates

    async def stream(self, request: Any) -> AsyncGenerator[Any]:
        gate = self.gates.get(len(self.requests))
        if gate is not None:
            await gate.wait()
        async for event in super().stream(request):
            yield event
