"""Runs asynchronous tests without a plugin of pytest."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any


def in_event_loop(
    create: str, close: str
) -> Callable[[Callable[[Any, Any], Awaitable[None]]], Callable[[Any, Path], None]]:
    """Return a decorator for tests that get an object, each in a separate event loop.

    Args:
        create: Name of the method that returns the object for a folder; it may be asynchronous.
        close: Name of the asynchronous method that closes it.
    """

    def decorate(check: Callable[[Any, Any], Awaitable[None]]) -> Callable[[Any, Path], None]:
        def test(self: Any, tmp_path: Path) -> None:
            created = getattr(self, create)(tmp_path)

            async def run() -> None:
                subject = await created if asyncio.iscoroutine(created) else created
                try:
                    await check(self, subject)
                finally:
                    await getattr(self, close)(subject)

            asyncio.run(run())

        test.__doc__ = check.__doc__
        return test

    return decorate
