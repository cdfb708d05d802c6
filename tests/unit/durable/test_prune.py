"""Periodic deletion of old runs."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from mainspring.durable import DurableClient, MemoryEngine, RunState
from mainspring.durable.engine import FINAL_STATES, prune_periodically

pytestmark = pytest.mark.covers("BYD-31")


class FailingEngine(MemoryEngine):
    """Fails on the first call, and signals the third."""

    def __init__(self) -> None:
        super().__init__()
        self.requested_ages: list[float] = []
        self.called_three_times = asyncio.Event()

    async def prune(
        self, older_than: float, states: Sequence[RunState] = FINAL_STATES, *, dry_run: bool = False
    ) -> int:
        self.requested_ages.append(older_than)
        if len(self.requested_ages) == 1:
            raise OSError("the database is away")
        if len(self.requested_ages) == 3:
            self.called_three_times.set()
        return await super().prune(older_than, states, dry_run=dry_run)


async def test_old_runs_are_deleted_periodically_despite_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    engine = FailingEngine()
    runs = DurableClient(engine)
    for name in ("over", "going"):
        await runs.start("a", "Go.", run_id=name)
    await runs.run("over").cancel()
    with caplog.at_level(logging.INFO, "mainspring"):
        task = asyncio.ensure_future(prune_periodically(engine, 0.0, interval_seconds=0.001))
        await engine.called_three_times.wait()
        task.cancel()
        await asyncio.wait([task])
    assert [info.id for info in await runs.list()] == ["going"]
    assert set(engine.requested_ages) == {0.0}
    assert [record.getMessage() for record in caplog.records][:2] == [
        "could not delete old runs; retrying in 0 seconds",
        "deleted 1 old runs",
    ]
