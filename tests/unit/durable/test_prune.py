"""Old runs are deleted now and then."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from mainspring.durable import DurableClient, MemoryEngine, RunState
from mainspring.durable.engine import FINAL_STATES, prune_periodically

pytestmark = pytest.mark.covers("BYD-31")


class Failing(MemoryEngine):
    """Fails once, and says when it was asked three times."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []
        self.thrice = asyncio.Event()

    async def prune(
        self, older_than: float, states: Sequence[RunState] = FINAL_STATES, *, dry_run: bool = False
    ) -> int:
        self.asked.append(older_than)
        if len(self.asked) == 1:
            raise OSError("the database is away")
        if len(self.asked) == 3:
            self.thrice.set()
        return await super().prune(older_than, states, dry_run=dry_run)


async def test_old_runs_go_again_and_again_and_a_failure_is_no_end(caplog: pytest.LogCaptureFixture) -> None:
    engine = Failing()
    runs = DurableClient(engine)
    for name in ("over", "going"):
        await runs.start("a", "Go.", run_id=name)
    await runs.run("over").cancel()
    with caplog.at_level(logging.INFO, "mainspring"):
        tidying = asyncio.ensure_future(prune_periodically(engine, 0.0, every=0.001))
        async with asyncio.timeout(5):
            await engine.thrice.wait()
        tidying.cancel()
        await asyncio.wait([tidying])
    assert [info.id for info in await runs.list()] == ["going"]
    assert set(engine.asked) == {0.0}
    assert [record.getMessage() for record in caplog.records][:2] == [
        "could not delete old runs; retrying in 0 seconds",
        "deleted 1 old runs",
    ]
