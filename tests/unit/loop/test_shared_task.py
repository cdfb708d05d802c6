"""Work that several callers wait for together."""

import asyncio

import pytest

from mainspring.loop.shared_task import SharedTask


def test_work_runs_once_per_loop_and_again_only_on_request() -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("done")

    shared = SharedTask(work)

    async def use() -> None:
        assert shared.current is None
        first = shared.start(repeat=True)
        assert shared.start(repeat=True) is first is shared.current
        await first
        assert shared.start(repeat=False) is first
        await shared.start(repeat=True)
        ended = shared.current
        assert shared.clear() is ended
        assert shared.clear() is shared.current is None
        await shared.start(repeat=False)

    for expected in (3, 6):  # the second loop does not see the task of the first one
        asyncio.run(use())
        assert len(done) == expected


async def test_failure_without_a_waiting_caller_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("broken")

    shared = SharedTask(fail)
    task = shared.start(repeat=True)
    await asyncio.wait({task})
    shared.clear()
    del task
    assert caplog.records == []
    with pytest.raises(ValueError, match="broken"):
        await shared.start(repeat=True)
