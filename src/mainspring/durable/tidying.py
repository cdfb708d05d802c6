"""Deleting old runs now and then, beside other work."""

from __future__ import annotations

import asyncio
import logging

from mainspring.durable.engine import Engine

_log = logging.getLogger(__name__)
_HOUR = 3600.0


async def tidy(engine: Engine, keep: float, *, every: float = _HOUR) -> None:
    """Delete runs that ended more than ``keep`` seconds ago: at once, and then every so many seconds until it is cancelled.

    Any number of workers may do so on one database. Where the database fails, the next time comes.
    """
    while True:
        try:
            count = await engine.prune(keep)
            _log.info("%d old runs were deleted", count)
        except Exception:
            _log.warning("old runs could not be deleted; that is tried again in %.0f seconds", every, exc_info=True)
        await asyncio.sleep(every)
