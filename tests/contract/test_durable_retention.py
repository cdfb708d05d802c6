"""The common behavior of engines for finished runs: they are deleted completely, or retried where they stopped."""

import asyncio
from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from mainspring import Agent
from mainspring.durable import DurableClient, DurableRun, DurableSteps, DurableWorker, Engine, RunState
from mainspring.durable.dbos.engine import DbosEngine
from mainspring.env.memory import MemoryEnv
from mainspring.errors import DurableError
from mainspring.events import AgentEnd
from mainspring.loop import CoreAgent
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from tests.contract.test_durable_engines import Reopen, World, reopen, return_value, wait_for, wait_for_result

__all__ = ["reopen"]
pytestmark = pytest.mark.covers("BYD-31")


def find_tables(engine: Engine, run_id: str) -> list[str]:
    """Return the tables of the database that contain the ID of a run or of its subagents."""
    if not isinstance(engine, DbosEngine):
        return []
    url = sa.make_url(engine.url)
    database = sa.create_engine(url if url.drivername == "sqlite" else url.set(drivername="postgresql+psycopg"))
    found: list[str] = []
    with database.connect() as connection:
        for schema in (None,) if url.drivername == "sqlite" else ("public", "dbos"):
            for name in sa.inspect(connection).get_table_names(schema=schema):
                table = sa.Table(name, sa.MetaData(), autoload_with=connection, schema=schema)
                rows = connection.execute(sa.select(table)).all()
                if any(run_id in str(value) for row in rows for value in row):
                    found.append(name)
    database.dispose()
    return found


def create_spawning_world() -> World:
    return World(
        ScriptedCall("spawn", {"task": "count"}),
        ScriptedCall("hold", {"key": "child"}),
        "Counted: 3.",
        "The child says 3.",
        "Once more.",
    )


async def test_delete_removes_a_run_and_all_its_data(reopen: Reopen) -> None:
    world = create_spawning_world()
    world.release("child")
    agent = world.agent(world.tool("hold", blocking=True), subagents=True)
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.", run_id="parent")
        await run.follow_up("and then?")
        near = await agents.start("a", "Near.", run_id="parent.near")
        await wait_for_result(run)
        near_ended = (await wait_for_result(near)).text
        assert isinstance(agents.engine, DbosEngine) is bool(find_tables(agents.engine, "parent"))
        await agents.delete(run.id)
        with pytest.raises(DurableError, match="Unknown run: parent"):
            await agents.delete(run.id)
        with pytest.raises(DurableError, match="Unknown run: parent"):
            await wait_for_result(run)
        assert [info.id for info in await agents.list()] == ["parent.near"]
        assert await agents.engine.feed.read("parent") == []
        assert [item async for item in run.events()] == []
        assert (await wait_for_result(near)).text == near_ended, "a run with the same ID prefix is not deleted"
        await agents.delete(near.id)
        assert find_tables(agents.engine, "parent") == []


async def test_run_id_can_be_reused_after_delete(reopen: Reopen) -> None:
    world = World("One.", "Two.")
    async with DurableWorker(await reopen(), {"a": world.agent()}) as agents:
        run = await agents.start("a", "First.", run_id="r")
        await wait_for_result(run)
        await run.steer("too late")
        await agents.delete("r")
        again = await wait_for_result(await agents.start("a", "Second.", run_id="r"))
    assert again.text == "Two."
    assert [m.text for m in world.model.requests[1].messages] == ["Second."], "no message of the first run joined"


async def test_unfinished_run_is_never_deleted(reopen: Reopen) -> None:
    world = World(ScriptedCall("hold", {"key": "a"}), "Done.")
    agent = world.agent(world.tool("hold", blocking=True, idempotent=True))
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.", run_id="r")
        waiting = await super(DurableWorker, agents).start("b", "Go.", run_id="w")
        await world.wait_for_call("a")
        for active, state in ((run, "running"), (waiting, "waiting")):
            with pytest.raises(DurableError, match=f"is {state}. Only finished runs can be deleted"):
                await agents.delete(active.id)
        with pytest.raises(DurableError, match="Runs that are running cannot be deleted"):
            await agents.prune(0, ["done", "running"])
        assert await agents.prune(0) == 0
        world.release("a")
        assert (await wait_for_result(run)).text == "Done."
        await waiting.cancel()
        assert await agents.prune(0, dry_run=True) == 2
        assert await agents.prune(0) == 2
        assert await agents.list() == []


async def test_prune_deletes_old_runs_in_the_given_states(reopen: Reopen) -> None:
    world = World(*["Done."] * 4)

    def broken(steps: DurableSteps) -> CoreAgent:
        raise RuntimeError("its tools are gone")

    async with DurableWorker(await reopen(), {"a": world.agent(), "broken": broken}) as agents:
        runs = [await agents.start(name, "Go.") for name in ("a", "a", "broken")]
        for run in runs:
            await agents.engine.wait_until_ended(run.id)

        async def states() -> Sequence[RunState]:
            return sorted([info.state for info in await agents.list()])

        assert await agents.prune(3600) == 0
        assert await states() == ["done", "done", "failed"]
        assert await wait_for(lambda: agents.prune(0.05, ["failed"])) == 1
        assert await states() == ["done", "done"]
        assert await agents.prune(0, dry_run=True) == 2
        assert await wait_for(lambda: agents.prune(0.05)) == 2
        assert await states() == []


async def test_step_of_a_deleted_run_stores_nothing(reopen: Reopen) -> None:
    world = World(ScriptedCall("hold", {"key": "a"}), "Done.")
    agent = world.agent(world.tool("hold", blocking=True, idempotent=True))
    engine = await reopen()
    async with DurableWorker(engine, {"a": agent}) as agents:
        run = await agents.start("a", "Go.", run_id="r-gone")
        await world.wait_for_call("a")
        await run.cancel()
        await agents.delete(run.id)
        world.release("a")
        if isinstance(engine, DbosEngine):
            await wait_for(lambda: return_value(not engine.active_attempts))
        assert await agents.engine.feed.read(run.id) == []
        assert find_tables(engine, run.id) == []
    assert len(world.model.requests) == 1


async def test_waiting_for_a_deleted_run_raises(reopen: Reopen) -> None:
    engine = await reopen()
    await DurableClient(engine).start("a", "Go.", run_id="r")
    waiting = asyncio.ensure_future(wait_for_result(DurableRun(engine, "r")))
    assert not (await asyncio.wait([waiting], timeout=0.2))[0], "the call waits"
    other = await reopen()
    await DurableRun(other, "r").cancel()
    await other.delete("r")
    with pytest.raises(DurableError, match="Run r was deleted|cancelled"):
        await waiting


async def test_failed_run_can_be_retried_where_it_stopped(reopen: Reopen) -> None:
    world = World(ScriptedCall("write", {"key": "a"}), ScriptedCall("hold", {"key": "b"}), "Done.")
    tools = (world.tool(), world.tool("hold", blocking=True, idempotent=True))
    async with DurableWorker(await reopen(), {"a": world.agent(*tools)}) as agents:
        run = await agents.start("a", "Go.")
        await world.wait_for_call("b")
        with pytest.raises(DurableError, match="is running. Only failed and cancelled runs"):
            await run.retry()

    def other(steps: DurableSteps) -> CoreAgent:
        return Agent(ScriptedModel("never", model="another"), execution=MemoryEnv({}), steps=steps)

    async with DurableWorker(await reopen(), {"a": other}) as agents:
        with pytest.raises(DurableError, match="started by other code"):
            await wait_for_result(agents.run(run.id))
        assert "started by other code" in (await run.info()).error
        assert "started by other code" in (await agents.list(state="failed"))[0].error
    world.release("b")
    async with DurableWorker(await reopen(), {"a": world.agent(*tools)}) as agents:
        await agents.run(run.id).retry()
        result = await wait_for_result(agents.run(run.id))
        published = [item.event async for item in agents.run(run.id).events()]
        with pytest.raises(DurableError, match="is done, regardless of its result"):
            await agents.run(run.id).retry()
    assert (result.status, result.text) == ("completed", "Done.")
    assert world.done == ["write a", "hold b", "hold b"]
    assert len(world.model.requests) == 3
    assert isinstance(published[-1], AgentEnd)
    assert published[-1].status == "completed"


async def test_cancelled_run_can_be_retried_where_it_stopped(reopen: Reopen) -> None:
    world = World(ScriptedCall("write", {"key": "a"}), ScriptedCall("hold", {"key": "b"}), "Done.")
    agent = world.agent(world.tool(), world.tool("hold", blocking=True, idempotent=True))
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.")
        await world.wait_for_call("b")
        await run.cancel()
        with pytest.raises(DurableError, match="cancelled"):
            await wait_for_result(run)
        world.release("b")
        await run.retry()
        result = await wait_for_result(run)
    assert result.text == "Done."
    assert world.done.count("write a") == 1
    assert len(world.model.requests) == 3
