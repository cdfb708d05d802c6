"""Durable runs from outside: started, looked at, answered and followed by a process that does none of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from mainspring.app.run_service.engine import durable_engine
from mainspring.app.run_service.schemas import WaitingView
from mainspring.durable import DurableRun, DurableRuns, FeedItem, RunInfo, RunState
from mainspring.durable.engine import OVER, not_over
from mainspring.durable.feed import (
    Asked,
    Attempt,
    CallBegan,
    CallDone,
    FeedEvent,
    MessageDone,
    Retry,
    RunEnded,
    Text,
    encode_event,
)
from mainspring.errors_actions import DurableError

__all__ = [
    "Asked",
    "Attempt",
    "CallBegan",
    "CallDone",
    "DurableError",
    "DurableRun",
    "DurableRuns",
    "FeedEvent",
    "FeedItem",
    "KnownRun",
    "MessageDone",
    "Retry",
    "RunEnded",
    "RunInfo",
    "RunReport",
    "RunState",
    "Text",
    "delete_runs",
    "encode_event",
    "open_runs",
    "report_of",
    "reports",
]


class KnownRun(RunInfo, frozen=True, kw_only=True):
    """A run, as people are told of it.

    Attributes:
        status: In a word how far it is: ``waiting``, ``running``, ``paused`` for an answer to a call, ``failed``, ``cancelled``; or how
            one that is done ended: ``completed``, ``error``, ``aborted``, or the limit that it reached.
    """

    status: str


class RunReport(Struct, frozen=True, kw_only=True):
    """A run and what is to be said about it."""

    run: KnownRun
    waiting: Sequence[WaitingView] = ()


@asynccontextmanager
async def open_runs(url: str, *, version: str = "1") -> AsyncGenerator[DurableRuns]:
    """The runs in a database.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
        version: Of the code that runs are started under.

    Raises:
        ConfigError: If what it needs is not installed.
    """
    engine = durable_engine(url, version=version)
    try:
        yield DurableRuns(engine)
    finally:
        await engine.aclose()


async def delete_runs(runs: DurableRuns, run_ids: Sequence[str]) -> None:
    """Delete runs that are over; none of them if one is not.

    Raises:
        DurableError: If there is no such run, or it is not over.
    """
    for run_id in run_ids:
        info = await runs.run(run_id).info()
        if info.state not in OVER:
            raise not_over(info)
    for run_id in dict.fromkeys(run_ids):
        await runs.delete(run_id)


async def report_of(run: DurableRun) -> RunReport:
    """A run, with the calls that wait for an answer.

    Raises:
        DurableError: If there is no such run.
    """
    return await _report(run, await run.info())


async def reports(runs: DurableRuns, limit: int) -> Sequence[RunReport]:
    """The same of runs, the newest first."""
    return await asyncio.gather(*[_report(runs.run(info.id), info) for info in await runs.list(limit=limit)])


async def _report(run: DurableRun, info: RunInfo) -> RunReport:
    calls = await run.pending() if info.state == "running" else ()
    status, error = "paused" if calls else info.state, info.error
    if info.state == "done":
        with suppress(DurableError):  # deleted meanwhile, or of another version
            result = await run.result()
            status, error = result.status, str(result.error or "")
    fields: dict[str, Any] = {**asdict(info), "error": error, "status": status}
    return RunReport(run=KnownRun(**fields), waiting=[WaitingView.of(call) for call in calls])
