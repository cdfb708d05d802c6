"""The engine on DBOS apart from what all engines do: addresses, its place in the process, a database that fails."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from mainspring import Agent
from mainspring.durable import DurableClient, DurableSteps, DurableWorker
from mainspring.durable.dbos.engine import DbosEngine
from mainspring.durable.dbos.tables import FinishedRunFilter
from mainspring.durable.feed import Attempt
from mainspring.env.memory import MemoryEnv
from mainspring.errors import ConfigError, DurableError
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import tool

pytestmark = pytest.mark.covers("BYD-31")


def hello(steps: DurableSteps) -> Agent:
    return Agent(ScriptedModel("Hello."), execution=MemoryEnv({}), steps=steps)


@pytest.mark.parametrize("url", ["runs.db", "mysql://u@h/db", ""])
async def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="sqlite:///PATH or postgresql://"):
        DbosEngine(url)


async def test_a_database_that_cannot_be_reached_is_told_without_the_password(tmp_path: Path) -> None:
    engine = DbosEngine("postgresql://me:hunter2@127.0.0.1:1/db?connect_timeout=1")
    with pytest.raises(DurableError, match="Cannot use the database of durable runs") as told:
        await engine.info("r")
    assert "hunter2" not in str(told.value)
    await engine.aclose()
    engine = DbosEngine(f"sqlite:///{tmp_path}/none/runs.db")
    with pytest.raises(DurableError, match="unable to open database file"):
        await engine.info("r")
    await engine.aclose()


@pytest.mark.covers("BYD-16")
async def test_a_process_has_one_worker_and_any_number_of_clients(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    loop = asyncio.get_running_loop()
    own = ThreadPoolExecutor(1, "own")
    loop.set_default_executor(own)
    many = {f"agent{n}": hello for n in range(3)}
    async with DurableWorker(DbosEngine(url, poll=0.02), many):
        other = DbosEngine(url)
        with pytest.raises(DurableError, match="This process already has a durable worker"):
            await DurableWorker(other, many).__aenter__()
        client = DurableClient(other)
        runs = [await client.start(name, "Hi.") for name in many]
        assert [(await run.result(timeout=15)).text for run in runs] == ["Hello."] * 3
        await other.aclose()
    assert await loop.run_in_executor(None, lambda: 1) == 1
    assert getattr(loop, "_default_executor", own) is own


async def test_a_database_that_fails_for_a_while_ends_no_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    answering, held = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(ScriptedCall("wait"), "Hello.")

    @tool(idempotent=True)
    async def wait() -> str:
        """Wait."""
        held.set()
        await answering.wait()
        return "waited"

    def slow(steps: DurableSteps) -> Agent:
        return Agent(model, tools=[wait], execution=MemoryEnv({}), steps=steps)

    engine = DbosEngine(f"sqlite:///{path}", poll=0.02, heartbeat=0.2, max_crashes=1)
    async with DurableWorker(engine, {"a": slow}) as agents:
        run = await agents.start("a", "Hi.")
        await asyncio.wait_for(held.wait(), 10)
        breaking = sqlite3.connect(path)
        breaking.execute("alter table mainspring_claims rename to away")
        breaking.commit()
        answering.set()
        # The attempt ends when it writes; the run does not.
        async with asyncio.timeout(20):
            while engine.active_attempts:
                await _moment()
        assert (await run.info()).state == "running"
        breaking.execute("alter table away rename to mainspring_claims")
        breaking.commit()
        breaking.close()
        assert (await run.result(timeout=15)).text == "Hello."


async def test_a_worker_that_leaves_has_not_died_of_its_runs(tmp_path: Path) -> None:
    """Twice it leaves in the middle of a call, once it dies, and then one more time."""
    held, free = asyncio.Event(), asyncio.Event()

    @tool(idempotent=True)
    async def wait() -> str:
        """Wait."""
        held.set()
        await free.wait()
        return "waited"

    model = ScriptedModel(ScriptedCall("wait"), "Hello.")

    def slow(steps: DurableSteps) -> Agent:
        return Agent(model, tools=[wait], execution=MemoryEnv({}), steps=steps)

    def worker() -> DbosEngine:
        return DbosEngine(f"sqlite:///{tmp_path}/runs.db", worker="w", poll=0.02, max_crashes=2)

    for _ in range(2):
        held.clear()
        async with DurableWorker(worker(), {"a": slow}) as agents:
            run = await agents.start("a", "Hi.", run_id="r")
            await asyncio.wait_for(held.wait(), 10)
    client = worker()
    await client.open()
    client.tables.claim("r")  # what one leaves that dies
    free.set()
    async with DurableWorker(worker(), {"a": slow}) as agents:
        assert (await agents.run("r").result(timeout=15)).text == "Hello."
    client.tables.claim("next")
    client.tables.claim("next")
    async with DurableWorker(worker(), {"a": slow}) as agents:
        run = await agents.start("a", "Hi.", run_id="next")
        with pytest.raises(DurableError, match="2 workers crashed with this run.*no step finished"):
            await run.result(timeout=15)
    await client.aclose()


async def test_a_letter_that_comes_while_its_run_is_deleted_stays_not_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DbosEngine(f"sqlite:///{tmp_path}/runs.db")
    runs = DurableClient(engine)
    run = await runs.start("a", "Hi.", run_id="r")
    await run.cancel()
    send = engine.tables.send

    def late(run_id: str, topic: str, body: bytes, key: str) -> int:
        assert engine.tables.old.delete("r", FinishedRunFilter(["CANCELLED"]))
        return send(run_id, topic, body, key)

    monkeypatch.setattr(engine.tables, "send", late)
    with pytest.raises(DurableError, match="Unknown run: r"):
        await run.steer("too late")
    assert engine.tables.messages("r", 0) == []
    await engine.aclose()


async def test_tables_of_an_earlier_version_are_widened(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    engine = DbosEngine(url, poll=0.02)
    await engine.open()
    await engine.aclose()
    with closing(sqlite3.connect(tmp_path / "runs.db")) as old:
        old.executescript(
            "alter table mainspring_claims drop column held; drop table mainspring_children;"
            "insert into mainspring_claims (run_id, attempt) values ('r', 7);"
        )
    async with DurableWorker(DbosEngine(url, poll=0.02), {"a": hello}) as agents:
        run = await agents.start("a", "Hi.", run_id="r")
        assert (await run.result(timeout=15)).text == "Hello."
        told = [item.event async for item in run.events()]
    assert isinstance(told[0], Attempt)
    assert told[0].number == 8


async def _moment() -> None:
    await asyncio.sleep(0.01)


def test_a_sqlite_that_is_too_old_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 30, 1))

    with pytest.raises(ConfigError, match="need SQLite 3\\..* or PostgreSQL"):
        DbosEngine(f"sqlite:///{tmp_path / 'runs.db'}")
