"""The common behavior of durable engines: a run that is stopped anywhere is resumed, and no finished step is repeated.

Each test has a "process": agents on an engine. Stopping the engine during a step leaves the state of a killed process; the
kills of real processes are in tests/e2e.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest
from dbos import DBOS

from mainspring import Agent, RetryConfig, RunOptions
from mainspring.durable import DurableClient, DurableRun, DurableSteps, DurableWorker, Engine, MemoryEngine
from mainspring.durable.dbos.engine import DbosEngine
from mainspring.durable.dbos.tables import Tables
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentAbortedError, DurableError, RateLimitedError
from mainspring.events import AgentEnd, ApprovalRequest, ApprovalResult, TextDelta, ToolExecutionEnd, ToolExecutionStart
from mainspring.loop import CoreAgent
from mainspring.messages import Message
from mainspring.permissions import Permissions, RuleSet
from mainspring.subagents import AgentDefinition, Subagents
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Tool, tool
from tests.helpers.postgres import Postgres
from tests.requires import durable_on_sqlite

pytestmark = pytest.mark.covers("BYD-31")


class Reopen(Protocol):
    """A new process: an engine on the stored state."""

    async def __call__(self, version: str = "1") -> Engine: ...


class World:
    """The state outside of all processes: the model, and what the tools have done."""

    def __init__(self, *script: Any) -> None:
        self.model = ScriptedModel(*script)
        self.done: list[str] = []
        self.free: set[str] = set()
        self.moved = asyncio.Event()

    def release(self, *keys: str) -> None:
        """Let the blocking calls with these keys finish."""
        self.free |= {*keys}
        self._notify()

    async def wait_for_call(self, key: str) -> None:
        """Wait until the blocking tool has been called with this key."""
        while f"hold {key}" not in self.done:
            await self.moved.wait()

    def _notify(self) -> None:
        self.moved.set()
        self.moved = asyncio.Event()

    def tool(self, name: str = "write", *, idempotent: bool = False, blocking: bool = False) -> Tool:
        """Create a tool that records its calls and may block until it is released."""

        async def work(key: str) -> str:
            self.done.append(f"{'hold' if blocking else name} {key}")
            self._notify()
            while blocking and key not in self.free:
                await self.moved.wait()
            return f"{name} did {key}"

        work.__name__, work.__doc__ = name, f"{name} something."
        return tool(idempotent=idempotent)(work)

    def agent(self, *tools: Tool, **options: Any) -> Callable[[DurableSteps], CoreAgent]:
        return lambda steps: Agent(self.model, tools=tools, execution=MemoryEnv({}), steps=steps, **options)


Make = Callable[[str], Engine]


async def in_memory(request: pytest.FixtureRequest, folder: Path) -> Make:
    engine = MemoryEngine()

    def make(version: str) -> Engine:
        engine.version = version
        return engine

    return make


@cache
def empty_database() -> bytes:
    """Return a database file with all tables, because creating them for each test is slow."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(f"sqlite:///{folder}/runs.db")
        return Path(folder, "runs.db").read_bytes()


@cache
def empty_template(server: Postgres) -> str:
    """Return the name of a template database with all tables."""
    url = server.database()
    prepare(url)
    return url.partition("@/")[2].partition("?")[0]


def prepare(url: str) -> None:
    DBOS.migrate(url)
    tables = Tables(url)
    tables.make()
    tables.close()


def dbos_factory(url: str) -> Make:
    return lambda version: DbosEngine(url, version=version, worker="w", poll=0.02, heartbeat=0.5)


async def on_sqlite(request: pytest.FixtureRequest, folder: Path) -> Make:
    (folder / "runs.db").write_bytes(await asyncio.to_thread(empty_database))
    return dbos_factory(f"sqlite:///{folder / 'runs.db'}")


async def on_postgres(request: pytest.FixtureRequest, folder: Path) -> Make:
    server: Postgres = await asyncio.to_thread(request.getfixturevalue, "postgres")
    return dbos_factory(await asyncio.to_thread(lambda: server.database(empty_template(server))))


ENGINES: list[Any] = [in_memory, pytest.param(on_sqlite, marks=durable_on_sqlite)]
if os.environ.get("TEST_POSTGRES"):  # otherwise PostgreSQL is tested with real workers only
    ENGINES.append(on_postgres)


@pytest.fixture(params=ENGINES, ids=lambda make: make.__name__)
async def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Reopen]:
    make, engines = await request.param(request, tmp_path), list[Engine]()

    async def open_engine(version: str = "1") -> Engine:
        engines.append(make(version))
        return engines[-1]

    yield open_engine
    for engine in engines:
        await engine.aclose()


async def return_value(value: Any) -> Any:
    return value


async def wait_for(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until a result is true and return it."""
    while not (found := await ask()):
        await _moment()
    return found


async def _moment() -> None:
    await asyncio.sleep(0.005)


async def wait_for_result(run: DurableRun) -> Any:
    return await run.result(timeout=120)


async def test_worker_executes_a_run_that_is_found_by_its_id(reopen: Reopen) -> None:
    world = World(ScriptedCall("write", {"key": "a"}), "Done.")
    async with DurableWorker(await reopen(), {"writer": world.agent(world.tool())}) as agents:
        run = await agents.start("writer", "Write a.", run_id="one")
        assert (await agents.start("writer", "Something else.", run_id="one")).id == "one"
        result = await wait_for_result(agents.run("one"))
        info = await run.info()
        with pytest.raises(DurableError, match="belongs to the agent 'writer', not 'other'"):
            await super(DurableWorker, agents).start("other", "x", run_id="one")
        assert [i.id for i in await agents.list(state="done")] == ["one"]
        assert await agents.list(state="running") == []
    assert (result.status, result.text, result.turns) == ("completed", "Done.", 2)
    assert result.messages[2].tool_results[0].text == "write did a"
    assert (info.state, info.agent) == ("done", "writer")
    assert world.done == ["write a"]


async def test_resumed_run_repeats_no_finished_steps(reopen: Reopen) -> None:
    world = World(
        ScriptedCall("write", {"key": "a"}),
        [ScriptedCall("write", {"key": "b"}), ScriptedCall("hold", {"key": "c"})],
        Reply("All done.", thinking="hm"),
    )
    agent = world.agent(world.tool(), world.tool("hold", blocking=True, idempotent=True))
    ended: list[str] = []

    def on_event(run_id: str, event: Any) -> None:
        if isinstance(event, ToolExecutionEnd):
            ended.append(event.result.text)

    async with DurableWorker(await reopen(), {"a": agent}, on_event=on_event) as agents:
        run = await agents.start("a", "Go.", run_id="r")
        await world.wait_for_call("c")
        await wait_for(lambda: return_value("write did b" in ended))
    world.release("a", "b", "c", "100", "child")
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        result = await wait_for_result(agents.run(run.id))
    assert result.text == "All done."
    assert len(world.model.requests) == 3, "two responses were stored"
    assert sorted(world.done) == ["hold c", "hold c", "write a", "write b"], "only the idempotent call ran twice"
    assert [r.text for m in result.messages for r in m.tool_results] == ["write did a", "write did b", "hold did c"]


async def test_interrupted_call_of_unknown_result_is_not_repeated(reopen: Reopen) -> None:
    world = World([ScriptedCall("pay", {"key": "100"}), ScriptedCall("look", {"key": "x"})], "I will look first.")
    agent = world.agent(world.tool("pay", blocking=True), world.tool("look", idempotent=True))
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Pay.")
        await world.wait_for_call("100")
    world.release("a", "b", "c", "100", "child")
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        result = await wait_for_result(agents.run(run.id))
    paid, looked = result.messages[2].tool_results
    assert world.done.count("hold 100") == 1
    assert paid.is_error
    assert "Whether it did its work is unknown" in paid.text
    assert (looked.is_error, looked.text) == (False, "look did x")
    assert result.text == "I will look first."


async def test_failures_and_retries_replay_the_same_way(reopen: Reopen) -> None:
    world = World(
        RateLimitedError("slow down"), ScriptedCall("fail", {"key": "a"}), ScriptedCall("hold", {"key": "b"}), "Done."
    )

    async def fail(key: str) -> str:
        """Fail."""
        world.done.append("fail")
        raise LookupError(f"no {key}")

    retry = RunOptions(retry=RetryConfig(base_delay_seconds=0.001))
    agent = world.agent(tool(fail), world.tool("hold", blocking=True, idempotent=True), behavior=retry)
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.")
        await world.wait_for_call("b")
    world.release("a", "b", "c", "100", "child")
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        result = await wait_for_result(agents.run(run.id))
    assert "LookupError: no a" in result.messages[2].tool_results[0].text
    assert world.done.count("fail") == 1
    assert len(world.model.requests) == 4


async def test_approval_is_accepted_while_no_worker_runs(reopen: Reopen) -> None:
    world = World([ScriptedCall("write", {"key": "a"}), ScriptedCall("write", {"key": "b"})], "Done.")
    rules = RuleSet.build(ask=["write"])

    def create_asking_agent(steps: DurableSteps) -> CoreAgent:
        return Agent(
            world.model,
            tools=[world.tool()],
            execution=MemoryEnv({}),
            steps=steps,
            permissions=Permissions(rules=rules, unattended="pause"),
        )

    async with DurableWorker(await reopen(), {"a": create_asking_agent}) as agents:
        run = await agents.start("a", "Go.")
        waiting = await wait_for(run.pending)
        assert [w.call.input for w in waiting] == [{"key": "a"}, {"key": "b"}]
        assert (await run.info()).state == "paused"
        assert [r.id for r in await agents.list(state="paused")] == [run.id]
        assert await agents.list(state="running") == []
    first, second = waiting
    client = DurableRun(await reopen(), run.id)
    assert (await client.info()).state == "paused", "without a worker"
    with pytest.raises(DurableError, match="No call 'nobody' of run"):
        await client.approve("nobody")
    assert await client.approve(first.call.id, input={"key": "A"})
    assert not await client.deny(first.call.id), "only the first answer applies"
    assert await client.deny(second.call.id, "not b")
    assert world.done == []
    async with DurableWorker(await reopen(), {"a": create_asking_agent}) as agents:
        result = await wait_for_result(agents.run(run.id))
        assert await run.pending() == ()
        assert [r.state for r in await agents.list()] == ["done"]
        assert await agents.list(state="paused") == []
    assert world.done == ["write A"]
    assert (result.status, result.text, result.turns) == ("completed", "Done.", 2)
    assert "not b" in next(r.text for m in result.messages for r in m.tool_results if r.is_error)
    assert len(world.model.requests) == 2


async def test_messages_join_once_and_replay_in_the_same_place(reopen: Reopen) -> None:
    world = World(ScriptedCall("hold", {"key": "a"}), ScriptedCall("hold", {"key": "b"}), "Fine.", "More.")
    agent = world.agent(world.tool("hold", blocking=True, idempotent=True))
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.")
        await world.wait_for_call("a")
        await run.steer("use Celsius")
        await run.follow_up("and then?")
        world.release("a")
        await world.wait_for_call("b")
    await DurableRun(await reopen(), run.id).steer("and hurry")
    world.release("a", "b", "c", "100", "child")
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        result = await wait_for_result(agents.run(run.id))
    texts = [m.text for m in result.messages if isinstance(m, Message) and m.role == "user" and not m.tool_results]
    assert texts == ["Go.", "use Celsius", "and hurry", "and then?"]
    assert result.text == "More."
    assert len(world.model.requests) == 4
    assert any(m.text == "use Celsius" for m in world.model.requests[1].messages if isinstance(m, Message))


async def test_run_can_be_aborted_during_a_step(reopen: Reopen) -> None:
    world = World(ScriptedCall("hold", {"key": "a"}), "never")
    agent = world.agent(world.tool("hold", blocking=True))
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.")
        await world.wait_for_call("a")
        await DurableRun(await reopen(), run.id).abort("enough")
        result = await wait_for_result(run)
    assert result.status == "aborted"
    assert len(result.messages[-1].tool_results) == 1
    assert "enough" in str(result.error)


async def test_subagent_run_resumes_where_it_stopped(reopen: Reopen) -> None:
    world = World(
        ScriptedCall("spawn", {"task": "count"}),
        ScriptedCall("write", {"key": "child"}),
        ScriptedCall("hold", {"key": "child"}),
        "Counted: 3.",
        "The child says 3.",
    )
    agent = world.agent(world.tool(), world.tool("hold", blocking=True, idempotent=True), subagents=True)
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.")
        await world.wait_for_call("child")
    world.release("a", "b", "c", "100", "child")
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        result = await wait_for_result(agents.run(run.id))
        assert [i.id for i in await agents.list()] == [run.id], "subagent runs are not listed"
    assert result.text == "The child says 3."
    assert "Counted: 3." in result.messages[2].tool_results[0].text
    assert len(world.model.requests) == 5, "no response was requested again"
    assert world.done == ["write child", "hold child", "hold child"]


def agent_with_asking_subagents(world: World, *kinds: ScriptedModel) -> Callable[[DurableSteps], CoreAgent]:
    """Create an agent whose subagents, one of each kind, need approval to write."""
    definitions = [AgentDefinition(name=f"kind{n}", model=model) for n, model in enumerate(kinds)]
    permissions = RuleSet.build(ask=["write"])

    def make(steps: DurableSteps) -> CoreAgent:
        return Agent(
            world.model,
            tools=[world.tool()],
            execution=MemoryEnv({}),
            steps=steps,
            permissions=Permissions(rules=permissions, unattended="pause"),
            subagents=Subagents(definitions),
        )

    return make


def spawn_reply(count: int) -> Reply:
    return Reply(calls=[ScriptedCall("spawn", {"task": "write", "agent": f"kind{n}"}) for n in range(count)])


async def test_subagent_approvals_are_answered_while_no_worker_runs(reopen: Reopen) -> None:
    """Two subagents wait with the same call ID; one call is allowed with other arguments, the other is denied."""
    world = World(spawn_reply(2), "Both are back.")
    kinds = [ScriptedModel(ScriptedCall("write", {"key": f"k{n}"}, id="same"), f"Child {n} is done.") for n in range(2)]
    make = agent_with_asking_subagents(world, *kinds)

    async def both_pending() -> Any:
        waiting = await run.pending()
        return waiting if len(waiting) == 2 else ()

    async with DurableWorker(await reopen(), {"a": make}) as agents:
        run = await agents.start("a", "Go.")
        waiting = sorted(await wait_for(both_pending), key=lambda w: w.call.input["key"])
    assert [w.call.input for w in waiting] == [{"key": "k0"}, {"key": "k1"}]
    assert [w.call.id for w in waiting] == [f"{w.agent}/same" for w in waiting]
    client = DurableRun(await reopen(), run.id)
    with pytest.raises(DurableError, match="No call 'same' of run"):
        await client.approve("same")
    await client.approve(waiting[0].call.id, input={"key": "K0"})
    await client.deny(waiting[1].call.id, "not this one")
    assert world.done == []
    async with DurableWorker(await reopen(), {"a": make}) as agents:
        result = await wait_for_result(agents.run(run.id))
        assert await run.pending() == ()
        approvals = [e.event async for e in run.events() if isinstance(e.event, ApprovalRequest | ApprovalResult)]
    assert (result.status, result.text, world.done) == ("completed", "Both are back.", ["write K0"])
    assert [r.text for m in result.messages for r in m.tool_results] == ["Child 0 is done.", "Child 1 is done."]
    assert "not this one" in str(kinds[1].requests[-1])
    assert [len(m.requests) for m in (world.model, *kinds)] == [2, 2, 2], "no request was repeated"
    by_call = {id: [a.type for a in approvals if a.id == id] for id in {a.id for a in approvals}}
    assert sorted(by_call) == sorted(w.id for w in waiting)
    assert all(types == ["approval_request", "approval_result"] for types in by_call.values()), by_call
    decisions = {a.id: (a.decision, a.reason) for a in approvals if isinstance(a, ApprovalResult)}
    assert decisions == {waiting[0].id: ("edit", ""), waiting[1].id: ("deny", "not this one")}


async def test_nested_subagent_can_ask_for_several_approvals(reopen: Reopen) -> None:
    deep = [ScriptedCall("write", {"key": "one"}), ScriptedCall("write", {"key": "two"}), "Deep."]
    world = World(ScriptedCall("spawn", {"task": "a"}), ScriptedCall("spawn", {"task": "b"}), *deep, "Middle.", "Top.")
    permissions = RuleSet.build(ask=["write"])

    def make(steps: DurableSteps) -> CoreAgent:
        plug = Permissions(rules=permissions, unattended="pause")
        tools = [world.tool()]
        return Agent(
            world.model,
            tools=tools,
            execution=MemoryEnv({}),
            steps=steps,
            permissions=plug,
            subagents=Subagents(depth=2),
        )

    run_id = ""
    for key in ("one", "two"):
        async with DurableWorker(await reopen(), {"a": make}) as agents:
            run = agents.run(run_id) if run_id else await agents.start("a", "Go.")
            run_id = run.id

            async def pending_calls(key: str = key, run: DurableRun = run) -> Any:
                return [w for w in await run.pending() if w.call.input == {"key": key}]

            [waiting] = await wait_for(pending_calls)
            assert waiting.agent.count(".") == 1
            await run.approve(waiting.call.id)
    async with DurableWorker(await reopen(), {"a": make}) as agents:
        result = await wait_for_result(agents.run(run_id))
    assert (result.status, result.text, world.done) == ("completed", "Top.", ["write one", "write two"])
    assert len(world.model.requests) == 7


@pytest.mark.parametrize("reopened", [False, True])
async def test_run_with_a_paused_subagent_can_be_aborted(reopen: Reopen, reopened: bool) -> None:
    world = World(spawn_reply(1), "Never said.")
    make = agent_with_asking_subagents(world, ScriptedModel(ScriptedCall("write", {"key": "x"}), "Never said."))

    async def abort_run(agents: DurableWorker) -> Any:
        await agents.run(run.id).abort("enough")
        return await wait_for_result(agents.run(run.id))

    async with DurableWorker(await reopen(), {"a": make}) as agents:
        run = await agents.start("a", "Go.")
        await wait_for(run.pending)
        result = None if reopened else await abort_run(agents)
    if result is None:
        async with DurableWorker(await reopen(), {"a": make}) as agents:
            result = await abort_run(agents)
    assert (result.status, world.done) == ("aborted", [])
    assert len(world.model.requests) == 1
    assert len(result.messages[-1].tool_results) == 1


async def test_run_starts_from_the_history_of_another_run(reopen: Reopen) -> None:
    world = World("One.", "Two.", "Other two.")
    async with DurableWorker(await reopen(), {"a": world.agent()}) as agents:
        one = await wait_for_result(await agents.start("a", "First."))
        two = await wait_for_result(await agents.start("a", "Second.", history=one.messages))
        fork = await wait_for_result(await agents.start("a", "Second, again.", history=one.messages))
    assert (two.text, fork.text) == ("Two.", "Other two.")
    assert [m.text for m in world.model.requests[2].messages if isinstance(m, Message)] == [
        "First.",
        "One.",
        "Second, again.",
    ]


async def test_failed_run_has_a_result_and_a_broken_agent_raises(reopen: Reopen) -> None:
    world = World(RateLimitedError("no", retryable=False))

    def broken(steps: DurableSteps) -> CoreAgent:
        raise RuntimeError("its tools are gone")

    async with DurableWorker(
        await reopen(), {"a": world.agent(), "broken": broken, "other": lambda _: Agent(world.model)}
    ) as agents:
        failed = await wait_for_result(await agents.start("a", "Go."))
        assert (failed.status, str(failed.error)) == ("error", "no")
        for name, reason in (("broken", "its tools are gone"), ("other", "does not use the given steps")):
            with pytest.raises(DurableError, match=reason):
                await wait_for_result(await agents.start(name, "Go."))
        with pytest.raises(DurableError, match="Unknown agent: 'none'. Available: a, broken, other"):
            await agents.start("none", "Go.")
        with pytest.raises(DurableError, match="Unknown run: nothing"):
            await agents.run("nothing").result(timeout=1)
        with pytest.raises(DurableError, match="Unknown run: nothing"):
            await agents.run("nothing").steer("x")


async def test_unreadable_stored_message_fails_the_run(reopen: Reopen) -> None:
    world = World(ScriptedCall("write", {"key": "a"}))
    permissions = Permissions(rules=RuleSet.build(ask=["write"]), unattended="pause")
    engine = await reopen()
    async with DurableWorker(engine, {"a": world.agent(world.tool(), permissions=permissions)}) as agents:
        run = await agents.start("a", "Go.")
        await wait_for(run.pending)
        await engine.send(run.id, "answer", b'{"yes":1}')
        with pytest.raises(DurableError, match="DurableError: This version cannot read the stored steps"):
            await wait_for_result(run)
        last = [item.event async for item in run.events()][-1]
    assert isinstance(last, AgentEnd)
    assert "This version cannot read the stored steps" in str(last.error)


async def test_events_are_published_live_and_only_once(reopen: Reopen) -> None:
    world = World(Reply("Looking.", calls=[ScriptedCall("hold", {"key": "a"})]), "Done.")
    agent = world.agent(world.tool("hold", blocking=True, idempotent=True))
    published: list[str] = []

    def on_event(run_id: str, event: Any) -> None:
        assert run_id == "r"
        if isinstance(getattr(event, "event", event), TextDelta):
            published.append(getattr(event, "event", event).text)
        elif event.type in ("tool_execution_start", "agent_start", "agent_end"):
            published.append(event.type)

    async with DurableWorker(await reopen(), {"a": agent}, on_event=on_event) as agents:
        await agents.start("a", "Go.", run_id="r")
        await world.wait_for_call("a")
    first = list(published)
    published.clear()
    world.release("a", "b", "c", "100", "child")
    async with DurableWorker(await reopen(), {"a": agent}, on_event=on_event) as agents:
        await wait_for_result(agents.run("r"))
    assert first[0] == "agent_start"
    assert "agent_end" in published
    assert "".join(t for t in published if "_" not in t) == "Done."


async def test_run_waits_for_a_matching_worker_and_reports_why(reopen: Reopen) -> None:
    world = World("Old.", "New.")
    agents = {"a": world.agent()}
    async with DurableWorker(await reopen(version="1"), agents) as old:
        elsewhere = await super(DurableWorker, old).start("b", "Go.")
        assert (await elsewhere.info()).error == "no worker that knows the agent 'b' is alive (known agents: a)"
    run = await DurableClient(await reopen(version="1")).start("a", "Go.")
    async with DurableWorker(await reopen(version="2"), agents) as new:
        newer = await wait_for_result(await new.start("a", "Go."))
        info = await run.info()
        assert info.state == "waiting"
        assert info.error == "it was started under version 1, and no worker of that version is alive (alive: 2)"
    async with DurableWorker(await reopen(version="1"), agents):
        older = await wait_for_result(run)
        assert (await run.info()).error == ""
    assert (newer.text, older.text) == ("Old.", "New.")


async def test_changed_agent_under_the_same_version_is_detected(reopen: Reopen) -> None:
    world = World(ScriptedCall("write", {"key": "a"}), ScriptedCall("hold", {"key": "b"}), "never")
    tools = (world.tool(), world.tool("hold", blocking=True, idempotent=True))
    async with DurableWorker(await reopen(), {"a": world.agent(*tools)}) as agents:
        run = await agents.start("a", "Go.")
        await world.wait_for_call("b")
    changed = ScriptedModel("Hello.", model="another", loop=True)

    def other(steps: DurableSteps) -> CoreAgent:
        return Agent(changed, tools=tools, execution=MemoryEnv({}), steps=steps)

    async with DurableWorker(await reopen(), {"a": other}) as agents:
        with pytest.raises(DurableError, match=r"started by other code: it did 'model scripted:scripted-1' where"):
            await wait_for_result(agents.run(run.id))
    assert changed.requests == []


async def test_repeated_call_id_needs_a_new_approval(reopen: Reopen) -> None:
    world = World(
        ScriptedCall("write", {"key": "a"}, id="same"), ScriptedCall("write", {"key": "b"}, id="same"), "Done."
    )
    permissions = Permissions(rules=RuleSet.build(ask=["write"]), unattended="pause")
    agent = world.agent(world.tool(), permissions=permissions)
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.")
        for key in ("a", "b"):

            async def pending_calls(key: str = key) -> bool:
                return [w.call.input for w in await run.pending()] == [{"key": key}]

            await wait_for(pending_calls)
            await run.approve("same")
        result = await wait_for_result(run)
        ended = [item.event async for item in run.events() if isinstance(item.event, ToolExecutionEnd)]
    assert (result.status, world.done) == ("completed", ["write a", "write b"])
    assert [e.call.input for e in ended] == [{"key": "a"}, {"key": "b"}]


async def test_feed_numbers_events_and_supports_waiting(reopen: Reopen) -> None:
    engine = await reopen()
    assert await engine.feed.read("r") == []
    waiting = asyncio.ensure_future(engine.feed.wait("r", 2))
    assert await engine.feed.append("r", [TextDelta(0, "a"), TextDelta(0, "\ud800b")]) == 2
    assert await engine.feed.append("other", [TextDelta(0, "x")]) == 1
    assert not waiting.done()
    numbers = await asyncio.gather(*(engine.feed.append("r", [TextDelta(0, f"c{n}")]) for n in range(8)))
    assert sorted(numbers) == [3, 4, 5, 6, 7, 8, 9, 10]
    await waiting
    items = await engine.feed.read("r", 1, limit=2)
    assert [(item.number, type(item.event)) for item in items] == [(2, TextDelta), (3, TextDelta)]
    assert [item.number for item in await engine.feed.read("r", 3)] == [4, 5, 6, 7, 8, 9, 10]


async def test_followers_get_every_event_once_across_attempts(reopen: Reopen) -> None:
    world = World(Reply("Looking.", calls=[ScriptedCall("hold", {"key": "a"})]), "Done.")
    agent = world.agent(world.tool("hold", blocking=True, idempotent=True))
    async with DurableWorker(await reopen(), {"a": agent}, feed_every=0.01) as agents:
        run = await agents.start("a", "Go.", run_id="r")

        async def has_tool_call() -> bool:
            return any(isinstance(item.event, ToolExecutionStart) for item in await agents.engine.feed.read("r"))

        await wait_for(has_tool_call)
    seen = [item.number for item in await (await reopen()).feed.read("r")]
    world.release("a")
    async with DurableWorker(await reopen(), {"a": agent}, feed_every=0.01) as agents:
        published = [item async for item in agents.run(run.id).events(after=seen[-1])]
        all_events = [item.event for item in await agents.engine.feed.read("r")]
    assert [item.number for item in published] == list(range(seen[-1] + 1, len(all_events) + 1))
    assert [type(e).__name__ for e in all_events if not isinstance(e, TextDelta)] == [
        *("AttemptStart", "MessageEnd", "TurnStart", "MessageEnd", "ToolExecutionStart"),
        *("AttemptStart", "ToolExecutionEnd", "MessageEnd", "TurnStart", "MessageEnd", "AgentEnd"),
    ]
    assert "".join(e.text for e in all_events if isinstance(e, TextDelta)) == "Looking.Done."


async def test_run_can_be_aborted_between_two_workers(reopen: Reopen) -> None:
    world = World(ScriptedCall("write", {"key": "a"}), ScriptedCall("hold", {"key": "b"}), "never")
    agent = world.agent(world.tool(), world.tool("hold", blocking=True, idempotent=True))
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.")
        await world.wait_for_call("b")
    await DurableRun(await reopen(), run.id).abort("enough")
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        result = await wait_for_result(agents.run(run.id))
    assert isinstance(result.error, AgentAbortedError)
    assert (result.status, result.error.reason) == ("aborted", "enough")
    assert result.messages[2].tool_results[0].text == "write did a", "finished steps are stored"
    assert len(world.model.requests) == 2


async def test_draining_worker_finishes_its_steps_and_starts_none(reopen: Reopen) -> None:
    world = World(ScriptedCall("hold", {"key": "a"}), ScriptedCall("write", {"key": "b"}), "Done.")
    agent = world.agent(world.tool("hold", blocking=True), world.tool())
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        run = await agents.start("a", "Go.")
        await world.wait_for_call("a")
        draining = asyncio.ensure_future(agents.drain(10))
        await _moment()
        world.release("a")
        await draining
    assert len(world.model.requests) == 1
    async with DurableWorker(await reopen(), {"a": agent}) as agents:
        result = await wait_for_result(agents.run(run.id))
    assert [r.text for m in result.messages for r in m.tool_results] == ["hold did a", "write did b"]
    assert world.done == ["hold a", "write b"]
