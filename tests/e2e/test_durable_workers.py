"""Workers as processes: killed under load, suspended, drained, and absent while an approval is answered."""

import asyncio
import os
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from mainspring.durable import DurableClient
from mainspring.durable.dbos.engine import DbosEngine
from mainspring.errors import DurableError
from mainspring.loop import RunResult
from mainspring.messages import Message
from tests.e2e.durable_harness import Workers, fork_server, workers
from tests.helpers.processes import ended, stopped
from tests.requires import durable_on_sqlite, on_posix

__all__ = ["fork_server", "workers"]
pytestmark = [pytest.mark.slow, on_posix]


@pytest.fixture
async def client(workers: Workers) -> AsyncIterator[DurableClient]:
    engine = DbosEngine(workers.url, poll=0.05)
    yield DurableClient(engine)
    await engine.aclose()


async def wait_for(ask: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(120):
        while not (found := await ask()):
            await _moment()
    return found


async def _moment() -> None:
    await asyncio.sleep(0.02)


def tool_result_texts(result: RunResult) -> list[str]:
    return [r.text for m in result.messages if isinstance(m, Message) for r in m.tool_results]


async def test_runs_of_a_killed_worker_finish_on_another_worker(workers: Workers, client: DurableClient) -> None:
    hold = workers.folder / "hold"
    hold.touch()
    first = workers.start("first", concurrency=3, pause=0.05, dead_after=5.0)
    await workers.wait_until_started()
    workers.start("second", concurrency=3, pause=0.05, dead_after=5.0)
    runs = [await client.start("three", f"r{n}", run_id=f"r{n}") for n in range(6)]

    async def has_both_busy() -> bool:
        running = await client.list(state="running")
        return {"first", "second"} <= {r.worker for r in running}

    await wait_for(has_both_busy)
    await asyncio.to_thread(workers.kill, first)
    hold.unlink()
    ended = [await run.result(timeout=120) for run in runs]
    assert [r.status for r in ended] == ["completed"] * 6
    assert {(await run.info()).worker for run in runs} >= {"second"}
    assert max(Counter(workers.lines("paid")).values()) == 1
    unknown_results = [text for r in ended for text in tool_result_texts(r) if "is unknown" in text]
    assert len(unknown_results) <= 3, "at most the active steps"


async def run_answer_command(url: str, call_id: str, answer: str) -> tuple[int | None, str]:
    """Answer by the command; return the exit code and stderr."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mainspring", "runs", "answer", "r", call_id, answer, "--url", url),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    output = (await process.communicate())[1].decode()
    return process.returncode, output


async def test_approval_is_answered_while_no_worker_runs(workers: Workers, client: DurableClient) -> None:
    pid = workers.start("before")
    run = await client.start("asking", "r", run_id="r")
    [call] = await wait_for(run.pending)
    await asyncio.to_thread(workers.kill, pid, signal.SIGTERM)
    await client.engine.aclose()
    assert workers.lines("paid") == []
    assert await run_answer_command(workers.url, call.call.id, "yes") == (0, "")
    code, output = await run_answer_command(workers.url, call.call.id, "no")
    assert (code, "was already answered. The first answer applies." in output) == (1, True)
    workers.start("after")

    async def second() -> Any:
        waiting = await run.pending()
        return waiting if workers.lines("paid") else ()

    [call] = await wait_for(second)
    await run.deny(call.call.id, "not now")
    result = await run.result(timeout=120)
    assert (result.status, result.turns) == ("completed", 3)
    assert workers.lines("paid") == ["r-0"]
    assert tool_result_texts(result)[0] == "paid r-0"
    assert "not now" in tool_result_texts(result)[2]
    assert workers.lines("requested") == ["r 0", "r 1", "r 2"]


_ROW_LOCKS = """
select pid from pg_locks join pg_database on pg_database.oid = database
where datname = current_database() and locktype = 'relation' and mode <> 'AccessShareLock' and pid <> pg_backend_pid()
"""


async def suspend(workers: Workers, pid: int) -> None:
    """Suspend a process while it holds no lock (see `test_worker_continues_after_waiting_for_a_database_lock`)."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        await wait_for(lambda: asyncio.to_thread(stopped, pid))
        if await asyncio.to_thread(is_unlocked, workers):
            return
        os.kill(pid, signal.SIGCONT)
        await _moment()


def is_unlocked(workers: Workers) -> bool:
    """Return True if no process is writing to the database."""
    if not workers.url.startswith("sqlite"):
        with psycopg.connect(workers.url) as connection:
            return not connection.execute(_ROW_LOCKS).fetchall()
    with closing(sqlite3.connect(workers.folder / "runs.db", timeout=0)) as connection:
        try:
            connection.execute("begin exclusive")
        except sqlite3.OperationalError:
            return False
        return True


async def test_suspended_worker_repeats_no_steps(workers: Workers, client: DurableClient) -> None:
    first = workers.start("stopped", pause=0.2, dead_after=5.0)
    run = await client.start("steered", "r", run_id="r")
    await wait_for(lambda: asyncio.to_thread(workers.lines, "paid"))
    await suspend(workers, first)
    second = workers.start("other", pause=0.2, dead_after=5.0)
    paid = len(workers.lines("paid"))

    async def has_continued() -> bool:
        return len(workers.lines("paid")) > paid and (await run.info()).worker == "other"

    await wait_for(has_continued)
    os.kill(first, signal.SIGCONT)
    await wait_for(lambda: asyncio.to_thread(lambda: len(workers.lines("paid")) > paid + 2))
    await run.steer("finish")
    result = await run.result(timeout=120)
    assert result.status == "completed"
    assert max(Counter(workers.lines("paid")).values()) == 1
    assert sum("is unknown" in text for text in tool_result_texts(result)) <= 1
    requests = Counter(workers.lines("requested"))
    assert sum(times - 1 for times in requests.values()) <= 1, "at most the active response"
    await asyncio.to_thread(workers.kill, second)
    await (await client.start("three", "again")).result(timeout=120)


@durable_on_sqlite
@pytest.mark.parametrize("workers", ["sqlite"], indirect=True)
async def test_worker_continues_after_waiting_for_a_database_lock(workers: Workers, client: DurableClient) -> None:
    """A process that is suspended during a write keeps the lock: all others wait for it, and none fails."""
    workers.start("waits", pause=0.02)
    run = await client.start("steered", "r", run_id="r")
    await wait_for(lambda: asyncio.to_thread(workers.lines, "paid"))
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, str(workers.folder / "runs.db")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdout
    assert await holder.stdout.readline() == b"mine\n"
    os.kill(holder.pid, signal.SIGSTOP)
    paid = len(workers.lines("paid"))
    # Longer than any step takes, including the wait for the lock.
    await asyncio.sleep(1.5)
    assert len(workers.lines("paid")) <= paid + 1
    assert (await run.info()).state == "running", "reading is possible during the lock"
    holder.kill()
    await wait_for(lambda: asyncio.to_thread(lambda: len(workers.lines("paid")) > paid + 3))
    await run.steer("finish")
    result = await run.result(timeout=120)
    assert result.status == "completed"
    assert not [text for text in tool_result_texts(result) if "is unknown" in text], "no attempt was abandoned"
    assert max(Counter(workers.lines("paid")).values()) == 1
    await holder.wait()


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=120, isolation_level=None)
connection.execute("begin immediate")
connection.execute("update mainspring_workers set seen = seen")
print("mine", flush=True)
sys.stdin.read()
"""


async def test_worker_finishes_its_steps_on_sigterm(workers: Workers, client: DurableClient) -> None:
    first = workers.start("leaving", pause=0.3, dead_after=60.0)
    run = await client.start("three", "r", run_id="r")
    await wait_for(lambda: asyncio.to_thread(workers.lines, "paid"))
    await asyncio.to_thread(workers.kill, first, signal.SIGTERM)
    assert (await run.info()).state == "running"
    workers.start("next", dead_after=60.0)
    result = await run.result(timeout=120)
    assert result.status == "completed"
    assert not [text for text in tool_result_texts(result) if "is unknown" in text]
    assert workers.lines("paid") == ["r-0", "r-1", "r-2"]
    assert workers.lines("requested") == ["r 0", "r 1", "r 2", "r 3"]


async def test_run_that_crashes_workers_fails_and_can_be_retried(workers: Workers, client: DurableClient) -> None:
    run = await client.start("deadly", "r", run_id="r")
    for death in range(3):
        pid = workers.start("same", max_crashes=3)
        assert await asyncio.to_thread(ended, pid), f"{death}"
    assert len(workers.lines("died")) == 3
    last_worker = workers.start("same", max_crashes=3)
    with pytest.raises(DurableError, match="3 workers crashed with this run.*'model scripted:scripted-1'"):
        await run.result(timeout=120)
    assert "mainspring runs retry r" in (await run.info()).error
    other = await client.start("three", "o", run_id="o")
    assert (await other.result(timeout=120)).status == "completed", "the worker survives and executes other runs"
    (workers.folder / "fixed").touch()
    await run.retry()
    result = await run.result(timeout=120)
    assert (result.text, tool_result_texts(result)) == ("Done.", ["lived"])
    assert workers.lines("died")[3:] == [str(last_worker)]
