"""Durable runs from outside: started, looked at, answered and followed by a process that does none of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from mainspring.durable import DurableError, DurableRun, DurableRuns, FeedItem, RunInfo, RunState
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
from mainspring.runtime.serving.engines import durable_engine

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
    "MessageDone",
    "Retry",
    "RunEnded",
    "RunInfo",
    "RunReport",
    "RunState",
    "Text",
    "WaitingReport",
    "delete_runs",
    "encode_event",
    "open_runs",
    "report_of",
]


class WaitingReport(Struct, frozen=True):
    """A call that waits for an answer."""

    id: str
    name: str
    input: dict[str, object]
    reason: str


class RunReport(Struct, frozen=True, kw_only=True):
    """A run and what is to be said about it."""

    run: RunInfo
    waiting: Sequence[WaitingReport] = ()


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
    info = await run.info()
    calls = await run.pending() if info.state == "running" else ()
    return RunReport(run=info, waiting=[WaitingReport(c.call.id, c.call.name, c.call.input, c.reason) for c in calls])
