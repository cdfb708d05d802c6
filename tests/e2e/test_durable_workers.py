"""Workers as processes: killed under load, stopped for a while, drained, and gone while somebody answers."""

import asyncio
import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mainspring.durable import DurableClient
from mainspring.durable.dbos.engine import DbosEngine
from mainspring.errors import DurableError
from mainspring.loop import RunResult
from mainspring.messages import Message
from tests.e2e.durable_harness import Workers, forking, workers
from tests.helpers.processes import ended, stopped
from tests.requires import on_posix

__all__ = ["forking", "workers"]
pytestmark = [on_posix, pytest.mark.timeout(90), pytest.mark.covers("BYD-31")]


@pytest.fixture
async def client(workers: Workers) -> AsyncIterator[DurableClient]:
    engine = DbosEngine(workers.url, poll=0.05)
    yield DurableClient(engine)
    await engine.aclose()


async def until(ask: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(40):
        while not (found := await ask()):
            await _moment()
    return found


async def _moment() -> None:
    await asyncio.sleep(0.02)


def results(result: RunResult) -> list[str]:
    return [r.text for m in result.messages if isinstance(m, Message) for r in m.tool_results]


async def test_the_runs_of_a_worker_that_is_killed_end_on_another(workers: Workers, client: DurableClient) -> None:
    first = workers.start("first", concurrency=3, pause=0.05, dead_after=2.0)
    await workers.up()
    workers.start("second", concurrency=3, pause=0.05, dead_after=2.0)
    runs = [await client.start("three", f"r{n}", run_id=f"r{n}") for n in range(6)]

    async def both_busy() -> bool:
        going = await client.list(state="running")
        return {"first", "second"} <= {r.worker for r in going}

    await until(both_busy)
    await asyncio.to_thread(workers.kill, first)
    ended = [await run.result(timeout=40) for run in runs]
    assert [r.status for r in ended] == ["completed"] * 6
    assert {(await run.info()).worker for run in runs} >= {"second"}
    assert max(Counter(workers.lines("paid")).values()) == 1
    unknown = [text for r in ended for text in results(r) if "is unknown" in text]
    assert len(unknown) <= 3, "no more than what was under way"


async def answered(url: str, call_id: str, answer: str) -> tuple[int | None, str]:
    """Answer with the command: exit code, and what it said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mainspring", "runs", "answer", "r", call_id, answer, "--url", url),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    told = (await process.communicate())[1].decode()
    return process.returncode, told


@pytest.mark.covers("BYD-29")
async def test_a_question_is_answered_while_no_process_runs(workers: Workers, client: DurableClient) -> None:
    pid = workers.start("before")
    run = await client.start("asking", "r", run_id="r")
    [call] = await until(run.pending)
    await asyncio.to_thread(workers.kill, pid, signal.SIGTERM)
    await client.engine.aclose()
    assert workers.lines("paid") == []
    assert await answered(workers.url, call.call.id, "yes") == (0, "")
    code, told = await answered(workers.url, call.call.id, "no")
    assert (code, "was already answered. The first answer applies." in told) == (1, True)
    workers.start("after")

    async def second() -> Any:
        waiting = await run.pending()
        return waiting if workers.lines("paid") else ()

    [call] = await until(second)
    await run.deny(call.call.id, "not now")
    result = await run.result(timeout=40)
    assert (result.status, result.turns) == ("completed", 3)
    assert workers.lines("paid") == ["r-0"]
    assert results(result)[0] == "paid r-0"
    assert "not now" in results(result)[2]
    assert workers.lines("asked") == ["r 0", "r 1", "r 2"]


async def stop(workers: Workers, pid: int) -> None:
    """Stop a process; on SQLite where it holds no lock, see `test_who_waits_for_the_lock_of_a_file_goes_on`."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: asyncio.to_thread(stopped, pid))
        if not workers.url.startswith("sqlite") or await asyncio.to_thread(unlocked, workers.folder / "runs.db"):
            return
        os.kill(pid, signal.SIGCONT)
        await _moment()


def unlocked(path: Path) -> bool:
    """Whether a database can be written now."""
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        try:
            connection.execute("begin exclusive")
        except sqlite3.OperationalError:
            return False
        return True


async def test_a_worker_that_was_only_stopped_does_nothing_twice(workers: Workers, client: DurableClient) -> None:
    first = workers.start("stopped", pause=0.2, dead_after=2.0)
    run = await client.start("told", "r", run_id="r")
    await until(lambda: asyncio.to_thread(workers.lines, "paid"))
    await stop(workers, first)
    second = workers.start("other", pause=0.2, dead_after=2.0)
    paid = len(workers.lines("paid"))

    async def went_on() -> bool:
        return len(workers.lines("paid")) > paid and (await run.info()).worker == "other"

    await until(went_on)
    os.kill(first, signal.SIGCONT)
    await until(lambda: asyncio.to_thread(lambda: len(workers.lines("paid")) > paid + 2))
    await run.steer("finish")
    result = await run.result(timeout=40)
    assert result.status == "completed"
    assert max(Counter(workers.lines("paid")).values()) == 1
    assert sum("is unknown" in text for text in results(result)) <= 1
    request = Counter(workers.lines("asked"))
    assert sum(times - 1 for times in request.values()) <= 1, "at most the answer that was under way"
    await asyncio.to_thread(workers.kill, second)
    await (await client.start("three", "again")).result(timeout=40)


@pytest.mark.parametrize("workers", ["sqlite"], indirect=True)
async def test_who_waits_for_the_lock_of_a_file_goes_on(workers: Workers, client: DurableClient) -> None:
    """A process that is stopped in the middle of a write keeps the lock of the file: all wait for it, and none fails."""
    workers.start("waits", pause=0.02)
    run = await client.start("told", "r", run_id="r")
    await until(lambda: asyncio.to_thread(workers.lines, "paid"))
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, str(workers.folder / "runs.db")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdout
    assert await holder.stdout.readline() == b"mine\n"
    os.kill(holder.pid, signal.SIGSTOP)
    paid = len(workers.lines("paid"))
    # Longer than any step takes, the waiting of those that write included.
    await asyncio.sleep(1.5)
    assert len(workers.lines("paid")) <= paid + 1
    assert (await run.info()).state == "running", "to read is possible meanwhile"
    holder.kill()
    await until(lambda: asyncio.to_thread(lambda: len(workers.lines("paid")) > paid + 3))
    await run.steer("finish")
    result = await run.result(timeout=40)
    assert result.status == "completed"
    assert not [text for text in results(result) if "is unknown" in text], "no attempt was given up"
    assert max(Counter(workers.lines("paid")).values()) == 1
    await holder.wait()


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
connection.execute("begin immediate")
connection.execute("update mainspring_workers set seen = seen")
print("mine", flush=True)
sys.stdin.read()
"""


async def test_a_worker_that_is_told_to_leave_finishes_its_steps(workers: Workers, client: DurableClient) -> None:
    first = workers.start("leaving", pause=0.3)
    run = await client.start("three", "r", run_id="r")
    await until(lambda: asyncio.to_thread(workers.lines, "paid"))
    await asyncio.to_thread(workers.kill, first, signal.SIGTERM)
    assert (await run.info()).state == "running"
    workers.start("next")
    result = await run.result(timeout=40)
    assert result.status == "completed"
    assert not [text for text in results(result) if "is unknown" in text]
    assert workers.lines("paid") == ["r-0", "r-1", "r-2"]
    assert workers.lines("asked") == ["r 0", "r 1", "r 2", "r 3"]


async def test_a_run_that_kills_its_workers_is_given_up_and_can_be_tried_again(
    workers: Workers, client: DurableClient
) -> None:
    run = await client.start("deadly", "r", run_id="r")
    for death in range(3):
        pid = workers.start("same", max_crashes=3)
        assert await asyncio.to_thread(ended, pid, 40), f"{death}"
    assert len(workers.lines("died")) == 3
    left = workers.start("same", max_crashes=3)
    with pytest.raises(DurableError, match="3 workers crashed with this run.*'model scripted:scripted-1'"):
        await run.result(timeout=40)
    assert "mainspring runs retry r" in (await run.info()).error
    other = await client.start("three", "o", run_id="o")
    assert (await other.result(timeout=40)).status == "completed", "the worker lives, and does other runs"
    (workers.folder / "mended").touch()
    await run.retry()
    result = await run.result(timeout=40)
    assert (result.text, results(result)) == ("Done.", ["lived"])
    assert workers.lines("died")[3:] == [str(left)]
