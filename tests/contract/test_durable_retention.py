"""What every engine does alike with runs that are over: deleted as a whole, or tried again where they were."""

import asyncio
from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from mainspring import Agent
from mainspring.durable import DurableClient, DurableRun, DurableSteps, DurableWorker, Engine, RunState
from mainspring.durable.dbos.engine import DbosEngine
from mainspring.durable.feed import RunEnded
from mainspring.env.memory import MemoryEnv
from mainspring.errors import DurableError
from mainspring.loop import CoreAgent
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from tests.contract.test_durable_engines import Reopen, World, finish, reopen, said, until

__all__ = ["reopen"]
pytestmark = pytest.mark.covers("BYD-31")


def traces(engine: Engine, run_id: str) -> list[str]:
    """Where in the database a run is named, or one of its sub-agents."""
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


def spawning() -> World:
    return World(
        ScriptedCall("spawn", {"task": "count"}),
        ScriptedCall("hold", {"key": "child"}),
        "Counted: 3.",
        "The child says 3.",
        "Once more.",
    )


async def test_a_run_is_deleted_with_all_that_was_kept_of_it(reopen: Reopen) -> None:
    world = spawning()
    world.let_go("child")
    agent = world.agent(world.tool("hold", holds=True), subagents=True)
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.", run_id="parent")
        await run.follow_up("and then?")
        near = await agents.start("a", "Near.", run_id="parent.near")
        await finish(run)
        near_ended = (await finish(near)).text
        assert isinstance(agents.engine, DbosEngine) is bool(traces(agents.engine, "parent"))
        await agents.delete(run.id)
        with pytest.raises(DurableError, match="Unknown run: parent"):
            await agents.delete(run.id)
        with pytest.raises(DurableError, match="Unknown run: parent"):
            await finish(run)
        assert [info.id for info in await agents.list()] == ["parent.near"]
        assert await agents.engine.feed.read("parent") == []
        assert [item async for item in run.events()] == []
        assert (await finish(near)).text == near_ended, "a run whose name begins alike stays"
        await agents.delete(near.id)
        assert traces(agents.engine, "parent") == []


async def test_a_name_is_free_once_its_run_is_deleted(reopen: Reopen) -> None:
    world = World("One.", "Two.")
    async with DurableWorker(await reopen(), {"a": world.agent()}) as agents:
        run = await agents.start("a", "First.", run_id="r")
        await finish(run)
        await run.steer("too late")
        await agents.delete("r")
        again = await finish(await agents.start("a", "Second.", run_id="r"))
    assert again.text == "Two."
    assert [m.text for m in world.model.requests[1].messages] == ["Second."], "nothing of the first run joined"


async def test_a_run_that_is_not_over_is_never_deleted(reopen: Reopen) -> None:
    world = World(ScriptedCall("hold", {"key": "a"}), "Done.")
    agent = world.agent(world.tool("hold", holds=True, idempotent=True))
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.", run_id="r")
        waiting = await super(DurableWorker, agents).start("b", "Go.", run_id="w")
        await world.held("a")
        for going, state in ((run, "running"), (waiting, "waiting")):
            with pytest.raises(DurableError, match=f"is {state}. Only finished runs can be deleted"):
                await agents.delete(going.id)
        with pytest.raises(DurableError, match="Runs that are running cannot be deleted"):
            await agents.prune(0, ["done", "running"])
        assert await agents.prune(0) == 0
        world.let_go("a")
        assert (await finish(run)).text == "Done."
        await waiting.cancel()
        assert await agents.prune(0, dry_run=True) == 2
        assert await agents.prune(0) == 2
        assert await agents.list() == []


async def test_old_runs_are_deleted_and_young_ones_and_other_states_stay(reopen: Reopen) -> None:
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
        assert await until(lambda: agents.prune(0.05, ["failed"])) == 1
        assert await states() == ["done", "done"]
        assert await agents.prune(0, dry_run=True) == 2
        assert await until(lambda: agents.prune(0.05)) == 2
        assert await states() == []


async def test_what_still_works_at_a_run_that_was_deleted_leaves_nothing(reopen: Reopen) -> None:
    world = World(ScriptedCall("hold", {"key": "a"}), "Done.")
    agent = world.agent(world.tool("hold", holds=True, idempotent=True))
    engine = await reopen()
    async with DurableWorker(engine, {"a": agent}) as agents:
        run = await agents.start("a", "Go.", run_id="r-gone")
        await world.held("a")
        await run.cancel()
        await agents.delete(run.id)
        world.let_go("a")
        if isinstance(engine, DbosEngine):
            await until(lambda: said(not engine.active_attempts))
        assert await agents.engine.feed.read(run.id) == []
        assert traces(engine, run.id) == []
    assert len(world.model.requests) == 1


async def test_who_waits_for_a_run_that_is_deleted_is_told(reopen: Reopen) -> None:
    engine = await reopen()
    await DurableClient(engine).start("a", "Go.", run_id="r")
    waiting = asyncio.ensure_future(finish(DurableRun(engine, "r")))
    assert not (await asyncio.wait([waiting], timeout=0.2))[0], "it waits"
    other = await reopen()
    await DurableRun(other, "r").cancel()
    await other.delete("r")
    with pytest.raises(DurableError, match="Run r was deleted|cancelled"):
        await waiting


async def test_a_run_that_failed_is_tried_again_where_it_was(reopen: Reopen) -> None:
    world = World(ScriptedCall("write", {"key": "a"}), ScriptedCall("hold", {"key": "b"}), "Done.")
    tools = (world.tool(), world.tool("hold", holds=True, idempotent=True))
    async with DurableWorker(await reopen(), {"a": world.agent(*tools)}) as agents:
        run = await agents.start("a", "Go.")
        await world.held("b")
        with pytest.raises(DurableError, match="is running. Only failed and cancelled runs"):
            await run.retry()

    def other(steps: DurableSteps) -> CoreAgent:
        return Agent(ScriptedModel("never", model="another"), execution=MemoryEnv({}), steps=steps)

    async with DurableWorker(await reopen(), {"a": other}) as agents:
        with pytest.raises(DurableError, match="started by other code"):
            await finish(agents.run(run.id))
        assert "started by other code" in (await run.info()).error
        assert "started by other code" in (await agents.list(state="failed"))[0].error
    world.let_go("b")
    async with DurableWorker(await reopen(), {"a": world.agent(*tools)}) as agents:
        await agents.run(run.id).retry()
        result = await finish(agents.run(run.id))
        told = [item.event async for item in agents.run(run.id).events()]
        with pytest.raises(DurableError, match="is done, regardless of its result"):
            await agents.run(run.id).retry()
    assert (result.status, result.text) == ("completed", "Done.")
    assert world.done == ["write a", "hold b", "hold b"]
    assert len(world.model.requests) == 3
    assert isinstance(told[-1], RunEnded)
    assert told[-1].status == "completed"


async def test_a_run_that_was_cancelled_is_tried_again_where_it_was(reopen: Reopen) -> None:
    world = World(ScriptedCall("write", {"key": "a"}), ScriptedCall("hold", {"key": "b"}), "Done.")
    agent = world.agent(world.tool(), world.tool("hold", holds=True, idempotent=True))
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.")
        await world.held("b")
        await run.cancel()
        with pytest.raises(DurableError, match="cancelled"):
            await finish(run)
        world.let_go("b")
        await run.retry()
        result = await finish(run)
    assert result.text == "Done."
    assert world.done.count("write a") == 1
    assert len(world.model.requests) == 3
