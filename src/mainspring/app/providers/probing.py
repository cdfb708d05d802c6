"""Whether the hosts of models answer: asked all at once, for a short time, without a key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from mainspring.errors import ModelError
from mainspring.models import HttpModel, Timeouts
from mainspring.models.transport.default import shared_transport

SECONDS = 5.0
"""How long a host may take."""


class Reached(Struct, frozen=True):
    """Whether a host answered.

    Attributes:
        base_url: Where it was asked.
        status: What it answered; ``None`` where it did not.
        error: Why it did not.
    """

    base_url: str
    status: int | None = None
    error: ModelError | None = None


async def probe(base_url: str, *, seconds: float = SECONDS) -> Reached:
    """Whether a host answers at all: any status will do, and no key is sent."""
    limits = Timeouts(seconds, seconds, seconds, seconds)
    headers = {"accept": "application/json"}
    try:
        async with (
            asyncio.timeout(seconds),
            shared_transport().open("GET", f"{base_url}/models", headers, b"", limits) as answer,
        ):
            return Reached(base_url, answer.status)
    except ModelError as error:
        return Reached(base_url, error=error)
    except TimeoutError:
        return Reached(base_url, error=ModelError(f"{base_url} does not answer within {seconds:g} s", reason="timeout"))


async def probe_all(models: Iterable[HttpModel], *, seconds: float = SECONDS) -> dict[str, Reached]:
    """What each host answered, by base URL; each is asked once."""
    urls = sorted({model.profile.base_url for model in models})
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(probe(url, seconds=seconds)) for url in urls]
    return {task.result().base_url: task.result() for task in tasks}
