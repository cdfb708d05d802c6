"""Properties of the DBOS engine only: URLs, one worker per process, and database failures."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent
from mainspring.durable import DurableClient, DurableSteps, DurableWorker
from mainspring.durable.dbos.engine import DbosEngine
from mainspring.durable.dbos.tables import FinishedRunFilter
from mainspring.env.memory import MemoryEnv
from mainspring.errors import ConfigError, DurableError
from mainspring.events import AttemptStart
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import tool
from tests.requires import durable_on_sqlite

pytestmark = pytest.mark.covers("BYD-31")


def make_agent(steps: DurableSteps) -> Agent:
    return Agent(ScriptedModel("Hello."), execution=MemoryEnv({}), steps=steps)


@pytest.mark.parametrize("url", ["runs.db", "mysql://u@h/db", ""])
async def test_invalid_database_url_is_rejected(url: str) -> None:
    with pytest.raises(ConfigError, match="sqlite:///PATH or postgresql://"):
        DbosEngine(url)


@durable_on_sqlite
async def test_unreachable_database_error_hides_the_password(tmp_path: Path) -> None:
    engine = DbosEngine("postgresql://me:hunter2@127.0.0.1:1/db?connect_timeout=1")
    with pytest.raises(DurableError, match="Cannot use the database of durable runs") as caught:
        await engine.info("r")
    assert "hunter2" not in str(caught.value)
    await engine.aclose()
    engine = DbosEngine(f"sqlite:///{tmp_path}/none/runs.db")
    with pytest.raises(DurableError, match="unable to open database file"):
        await engine.info("r")
    await engine.aclose()


@pytest.mark.covers("BYD-16")
@durable_on_sqlite
async def test_process_allows_one_worker_and_many_clients(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    loop = asyncio.get_running_loop()
    executor = ThreadPoolExecutor(1, "own")
    loop.set_default_executor(executor)
    many = {f"agent{n}": make_agent for n in range(3)}
    async with DurableWorker(DbosEngine(url, poll=0.02), many):
        other = DbosEngine(url)
        with pytest.raises(DurableError, match="This process already has a durable worker"):
            await DurableWorker(other, many).__aenter__()
        client = DurableClient(other)
        runs = [await client.start(name, "Hi.") for name in many]
        assert [(await run.result(timeout=120)).text for run in runs] == ["Hello."] * 3
        await other.aclose()
    assert await loop.run_in_executor(None, lambda: 1) == 1
    assert getattr(loop, "_default_executor", executor) is executor


@durable_on_sqlite
async def test_temporary_database_failure_does_not_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.db"
    answering, started = asyncio.Event(), asyncio.Event()
    model = ScriptedModel(
        ScriptedCall("wait"), *["Hello."] * 2
    )  # the first attempt may have asked for the response, too

    @tool(idempotent=True)
    async def wait() -> str:
        """Wait."""
        started.set()
        await answering.wait()
        return "waited"

    def make_slow_agent(steps: DurableSteps) -> Agent:
        return Agent(model, tools=[wait], execution=MemoryEnv({}), steps=steps)

    engine = DbosEngine(f"sqlite:///{path}", poll=0.02, heartbeat=0.2, max_crashes=1)
    async with DurableWorker(engine, {"a": make_slow_agent}) as agents:
        run = await agents.start("a", "Hi.")
        await started.wait()
        client = await engine.open()
        resume = client.resume_workflow
        unreleased: list[int] = []  # attempts when the run is resumed

        def record_unreleased(*arguments: Any, **options: Any) -> Any:
            with closing(sqlite3.connect(path)) as connection:
                unreleased.extend(connection.execute("select held from mainspring_claims").fetchone())
            return resume(*arguments, **options)

        monkeypatch.setattr(client, "resume_workflow", record_unreleased)
        breaking = sqlite3.connect(path, timeout=120)
        breaking.execute("alter table mainspring_claims rename to away")
        breaking.commit()
        answering.set()
        # A failed write ends the attempt, but not the run.
        while engine.active_attempts:
            await _pause()
        assert (await run.info()).state == "running"
        breaking.execute("alter table away rename to mainspring_claims")
        breaking.commit()
        breaking.close()
        assert (await run.result(timeout=120)).text == "Hello."
        assert unreleased == [0]


@durable_on_sqlite
async def test_stopped_worker_does_not_count_as_a_crash(tmp_path: Path) -> None:
    """The worker stops twice during a call, crashes once, and the run still completes."""
    started, may_finish = asyncio.Event(), asyncio.Event()

    @tool(idempotent=True)
    async def wait() -> str:
        """Wait."""
        started.set()
        await may_finish.wait()
        return "waited"

    model = ScriptedModel(ScriptedCall("wait"), "Hello.")

    def make_slow_agent(steps: DurableSteps) -> Agent:
        return Agent(model, tools=[wait], execution=MemoryEnv({}), steps=steps)

    def make_engine() -> DbosEngine:
        return DbosEngine(f"sqlite:///{tmp_path}/runs.db", worker="w", poll=0.02, max_crashes=2)

    for _ in range(2):
        started.clear()
        async with DurableWorker(make_engine(), {"a": make_slow_agent}) as agents:
            run = await agents.start("a", "Hi.", run_id="r")
            await started.wait()
    client = make_engine()
    await client.open()
    client.tables.claim("r")  # the claim that a crashed worker leaves
    may_finish.set()
    async with DurableWorker(make_engine(), {"a": make_slow_agent}) as agents:
        assert (await agents.run("r").result(timeout=120)).text == "Hello."
    client.tables.claim("next")
    client.tables.claim("next")
    async with DurableWorker(make_engine(), {"a": make_slow_agent}) as agents:
        run = await agents.start("a", "Hi.", run_id="next")
        with pytest.raises(DurableError, match="2 workers crashed with this run.*no step finished"):
            await run.result(timeout=120)
    await client.aclose()


@durable_on_sqlite
async def test_message_to_a_deleted_run_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = DbosEngine(f"sqlite:///{tmp_path}/runs.db")
    runs = DurableClient(engine)
    run = await runs.start("a", "Hi.", run_id="r")
    await run.cancel()
    send = engine.tables.send

    def delete_then_send(run_id: str, topic: str, body: bytes, key: str) -> int:
        assert engine.tables.old.delete("r", FinishedRunFilter(["CANCELLED"]))
        return send(run_id, topic, body, key)

    monkeypatch.setattr(engine.tables, "send", delete_then_send)
    with pytest.raises(DurableError, match="Unknown run: r"):
        await run.steer("too late")
    assert engine.tables.messages("r", 0) == []
    await engine.aclose()


@durable_on_sqlite
async def test_tables_of_an_earlier_version_are_migrated(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    engine = DbosEngine(url, poll=0.02)
    await engine.open()
    await engine.aclose()
    with closing(sqlite3.connect(tmp_path / "runs.db")) as old:
        old.executescript(
            "alter table mainspring_claims drop column held; drop table mainspring_children;"
            "insert into mainspring_claims (run_id, attempt) values ('r', 7);"
        )
    async with DurableWorker(DbosEngine(url, poll=0.02), {"a": make_agent}) as agents:
        run = await agents.start("a", "Hi.", run_id="r")
        assert (await run.result(timeout=120)).text == "Hello."
        published = [item.event async for item in run.events()]
    assert isinstance(published[0], AttemptStart)
    assert published[0].number == 8


async def _pause() -> None:
    await asyncio.sleep(0.01)


def test_outdated_sqlite_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 30, 1))

    with pytest.raises(ConfigError, match="need SQLite 3\\..* or PostgreSQL"):
        DbosEngine(f"sqlite:///{tmp_path / 'runs.db'}")
