"""An agent as a tool of another one."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring import Agent, Permissions, RunOptions, ToolContext, ToolGate, tool
from mainspring.durable import DurableSteps, DurableWorker, MemoryEngine
from mainspring.errors import AgentAbortedError
from mainspring.events import ApprovalRequest, SubagentEnd, SubagentStart
from mainspring.loop.hooks import TurnBefore
from mainspring.mcp import InMemoryConnector, McpPlug, McpServerConfig
from mainspring.messages import Cost, ToolDefinition, Usage
from mainspring.permissions.decisions import PermissionRequest
from mainspring.policies.plan_mode import PlanMode
from mainspring.policies.tool_filter import ToolFilter
from mainspring.subagents import Subagents
from mainspring.testing import MemoryEnv, Reply, ScriptedCall, ScriptedModel
from mainspring.tools.toolset import Toolset
from tests.unit.mcp.harness import make_echo_server


@dataclass
class Db:
    name: str = "main"


@dataclass
class Finding:
    facts: list[str]


@tool
async def look(ctx: ToolContext[Db], key: str) -> str:
    """Look something up."""
    return f"{ctx.deps.name}:{key}"


@tool
def write(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


def ask(name: str, task: str = "go") -> ScriptedCall:
    return ScriptedCall(name, {"task": task})


def costly(text: str, dollars: float, *calls: ScriptedCall) -> Reply:
    return Reply(text, calls=calls, usage=Usage(output_tokens=10, cost=Cost(output=dollars)))


def make_writer(*script: Any, **options: Any) -> Agent[Any, Any]:
    """Create an agent that writes when its script does."""
    script = script or (ScriptedCall("write", {"path": "a"}), "Written.")
    return Agent(ScriptedModel(*script, loop=True), name="writer", tools=[write], **options)


def make_front(*script: Any, tools: Any, **options: Any) -> Agent[Any, Any]:
    options.setdefault("execution", MemoryEnv({}))
    return Agent(ScriptedModel(*script), tools=tools, **options)


def outputs(agent: Agent[Any, Any]) -> list[str]:
    return [r.text for m in agent.messages for r in m.tool_results]


def requests(agent: Agent[Any, Any]) -> Any:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests


def last_result(agent: Agent[Any, Any]) -> str:
    """Return the last result that the model of an agent got."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests[-1].messages[-1].tool_results[-1].text


async def test_calls_run_in_parallel_with_their_own_conversation_and_typed_output() -> None:
    model = ScriptedModel(
        costly("", 0.25, ScriptedCall("look", {"key": "a"})),
        costly("", 0.25, ScriptedCall("look", {"key": "b"})),
        costly("", 0.25, ScriptedCall("__output__", {"facts": ["one"]})),
        costly("", 0.25, ScriptedCall("__output__", {"facts": ["two"]})),
    )
    researcher = Agent(model, name="researcher", deps_type=Db, output_type=Finding, tools=[look])
    front = make_front(
        costly("", 0.5, ask("researcher", "first"), ask("researcher", "second")), "Done.",
        tools=[researcher.as_tool(description="Knows facts.")], deps_type=Db,
    )  # fmt: skip
    events: list[Any] = []
    front.subscribe(lambda e: events.append(e) if isinstance(e, SubagentStart | SubagentEnd) else None)
    result = await front.run("go", deps=Db("shop"))

    assert outputs(front) == ['{"facts":["one"]}', '{"facts":["two"]}']
    assert result.cost.total == 1.5
    assert [e.task for e in events if isinstance(e, SubagentStart)] == ["first", "second"]
    assert sorted(s.child_id for s in result.stats.children) == ["researcher-1", "researcher-2"]
    assert {m.tool_results[0].text for r in model.requests[2:] for m in r.messages[-1:]} == {"shop:a", "shop:b"}
    assert [len(r.messages) for r in model.requests] == [1, 1, 3, 3]
    assert researcher.messages == ()
    assert "spawn" not in front.extra


async def test_tool_can_be_called_alone() -> None:
    alone = Agent(ScriptedModel(ScriptedCall("__output__", {"facts": ["x"]})), output_type=Finding).as_tool("find")
    assert (await alone("go")).value == Finding(["x"])


async def test_nested_agents_share_limits_and_ids() -> None:
    inner = Agent(ScriptedModel(costly("deep", 0.5), loop=True), name="inner")

    def make_middle() -> Agent[Any, Any]:
        script = costly("", 0.25, ask("in_inner")), "mid"
        return Agent(ScriptedModel(*script, loop=True), name="middle", tools=Toolset([inner.as_tool()]).prefix("in_"))

    front = make_front(ask("middle"), ask("middle"), "Done.", tools=[make_middle().as_tool()])
    result = await front.run("go")
    assert outputs(front) == ["mid", "mid"]
    assert result.cost.total == 1.5
    ids = [s.child_id for c in result.stats.children for s in (c, *c.children)]
    assert sorted(ids) == ["inner-2", "inner-4", "middle-1", "middle-3"]

    limited = make_front(ask("middle"), "never", tools=[make_middle().as_tool()], behavior=RunOptions(max_cost=0.6))
    assert (await limited.run("go")).status == "max_cost"
    middle = make_middle()
    few = make_front(ask("middle"), "Done.", tools=[middle.as_tool()], subagents=Subagents(limit=1, spawn=False))
    await few.run("go")
    assert "limit of 1 subagents" in last_result(middle)
    assert [t.name for t in few.tools] == ["middle"]


async def test_failure_is_an_error_result() -> None:
    broken = Agent(ScriptedModel(ValueError("no")), name="broken")
    front = make_front(ask("broken"), "Done.", tools=[broken.as_tool()])
    assert (await front.run("go")).text == "Done."
    assert "did not finish" in outputs(front)[0]
    assert front.messages[2].tool_results[0].is_error


async def test_abort_of_the_caller_ends_the_agent() -> None:
    started = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        started.set()
        await asyncio.Event().wait()
        return ""

    slow = Agent(ScriptedModel(ScriptedCall("hang", {})), name="slow", tools=[hang])
    front = make_front(ask("slow"), tools=[slow.as_tool()], behavior=RunOptions(abort_grace=0.1))
    run = asyncio.ensure_future(front.run("go"))
    await started.wait()
    assert [c.name for c in front.children] == ["slow"]
    front.abort()
    with pytest.raises(AgentAbortedError):
        await run
    assert front.children == ()


# --- the rights of the caller ---------------------------------------------------------------------------------------


def start_by_tool(**options: Any) -> tuple[Agent[Any, Any], Agent[Any, Any]]:
    """Return the caller and the agent that writes, as a tool."""
    writer = make_writer()
    return make_front(ask("writer"), "Done.", tools=[writer.as_tool()], **options), writer


def start_by_spawn(**options: Any) -> tuple[Agent[Any, Any], Agent[Any, Any]]:
    front = Agent(
        ScriptedModel(ScriptedCall("spawn", {"task": "go"}), ScriptedCall("write", {"path": "a"}), "Written.", "Done."),
        tools=[write], subagents=True, execution=MemoryEnv({}), **options,
    )  # fmt: skip
    return front, front


def start_by_handoff(**options: Any) -> tuple[Agent[Any, Any], Agent[Any, Any]]:
    writer = make_writer()
    return make_front(ScriptedCall("transfer_to_writer", {}), tools=[], handoffs=[writer], **options), writer


def start_by_nested_tool(**options: Any) -> tuple[Agent[Any, Any], Agent[Any, Any]]:
    writer = make_writer()
    middle = Agent(ScriptedModel(ask("writer"), "mid"), name="middle", tools=[writer.as_tool()])
    return make_front(ask("middle"), "Done.", tools=[middle.as_tool()], **options), writer


STARTS = [start_by_tool, start_by_spawn, start_by_handoff, start_by_nested_tool]
Start = Callable[..., tuple[Agent[Any, Any], Agent[Any, Any]]]


def write_result(writer: Agent[Any, Any]) -> str:
    assert isinstance(writer.model, ScriptedModel)
    found = [r for q in writer.model.requests for m in q.messages for r in m.tool_results if r.name == "write"]
    return found[0].text


@pytest.mark.parametrize("start", STARTS)
async def test_deny_rules_of_the_caller_hold(start: Start) -> None:
    front, writer = start(permissions=Permissions(deny=["write"]))
    await front.run("go")
    assert write_result(writer).startswith("Permission denied")


@pytest.mark.parametrize("start", STARTS)
async def test_approvals_reach_the_approver_of_the_caller(start: Start) -> None:
    asked: list[str] = []

    def answer(request: PermissionRequest) -> bool:
        asked.append(request.tool)
        return False

    front, writer = start(permissions=Permissions(ask=["write"], on_permission_request=answer))
    await front.run("go")
    assert asked == ["write"]
    assert "the user denied it" in write_result(writer)


@pytest.mark.parametrize("start", STARTS)
async def test_gates_plan_mode_and_filters_of_the_caller_hold(start: Start) -> None:
    def gate(hook: ToolGate) -> None:
        hook.block = "no writing" if hook.name == "write" else ""

    def choose(turn: TurnBefore, definition: ToolDefinition) -> bool:
        return definition.name != "write"

    front, writer = start(hooks={ToolGate: gate})
    await front.run("go")
    assert "no writing" in write_result(writer)
    front, writer = start(plugs=[PlanMode()])
    await front.run("go")
    assert "plan" in write_result(writer).lower()
    front, writer = start(plugs=[ToolFilter(choose)])
    await front.run("go")
    assert "not available" in write_result(writer)


async def test_own_rules_apply_in_addition_and_ask_the_same_approver() -> None:
    writer = make_writer(permissions=Permissions(ask=["write"]))
    front = make_front(
        ask("writer"), "Done.", tools=[writer.as_tool()],
        permissions=Permissions(allow=["write", "writer"], on_permission_request=lambda request: True),
    )  # fmt: skip
    await front.run("go")
    assert write_result(writer) == "wrote a"
    front = make_front(ask("writer"), "Done.", tools=Toolset([writer.as_tool()]).require_approval())
    await front.run("go")
    assert "approv" in outputs(front)[0]


async def test_agent_works_in_the_environment_of_the_caller_unless_it_has_its_own() -> None:
    @tool
    async def where(ctx: ToolContext) -> str:
        """Read a file."""
        return (await ctx.env.read_bytes("a.txt")).decode()

    script = (ScriptedCall("where", {}), "ok")
    cases: list[tuple[dict[str, Any], str]] = [({}, "caller"), ({"execution": MemoryEnv({"a.txt": "own"})}, "own")]
    for options, expected in cases:
        reader = Agent(ScriptedModel(*script), name="reader", tools=[where], **options)
        front = make_front(ask("reader"), "Done.", tools=[reader.as_tool()], execution=MemoryEnv({"a.txt": "caller"}))
        await front.run("go")
        assert last_result(reader) == expected


async def test_agent_with_handoffs_is_a_tool_and_a_target_has_agents_as_tools() -> None:
    writer = make_writer()
    desk = Agent(ScriptedModel(ScriptedCall("transfer_to_writer", {})), name="desk", handoffs=[writer])
    front = make_front(ask("desk"), "Done.", tools=[desk.as_tool()])
    await front.run("go")
    assert outputs(front) == ["Written."]

    boss = Agent(ScriptedModel(ask("writer"), "Boss done."), name="boss", tools=[make_writer().as_tool()])
    front = make_front(ScriptedCall("transfer_to_boss", {}), tools=[], handoffs=[boss])
    assert (await front.run("go")).text == "Boss done."
    assert outputs(front)[-1] == "Written."


async def test_durable_run_resumes_an_agent_that_waits_for_its_approval() -> None:
    writer_model = ScriptedModel(ScriptedCall("write", {"path": "a"}), "Written.")
    front_model = ScriptedModel(ask("writer"), "Done.")

    def make(steps: DurableSteps) -> Agent[Any, Any]:
        writer = Agent(writer_model, name="writer", tools=[write])
        permissions = Permissions(ask=["write"], allow=["writer"], unattended="pause")
        return Agent(
            front_model, tools=[writer.as_tool()], permissions=permissions, steps=steps, execution=MemoryEnv({})
        )

    engine = MemoryEngine()
    async with DurableWorker(engine, {"front": make}) as agents:
        run = await agents.start("front", "go")
        async for item in run.events():
            if isinstance(item.event, ApprovalRequest):
                break
        [waiting] = await run.pending()
    assert waiting.agent == "writer-1"
    await run.approve(waiting.id)
    async with DurableWorker(engine, {"front": make}) as agents:
        result = await run.result(timeout=120)
    assert result.text == "Done."
    assert [r.text for r in result.tool_results] == ["Written."]
    assert (len(writer_model.requests), len(front_model.requests)) == (2, 2)


async def test_rules_of_a_handoff_target_hold_in_the_subagents_that_it_starts() -> None:
    writer = make_writer(
        ScriptedCall("spawn", {"task": "go"}), ScriptedCall("write", {"path": "a"}), "Sub done.", "Done.",
        permissions=Permissions(deny=["write"]),
    )  # fmt: skip
    front = make_front(ScriptedCall("transfer_to_writer", {}), tools=[], handoffs=[writer], subagents=True)
    await front.run("go")
    assert write_result(writer).startswith("Permission denied")


# --- limits of the caller -------------------------------------------------------------------------------------------


def nest(**options: Any) -> tuple[Agent[Any, Any], ScriptedModel]:
    """Return an agent that calls an endless one through a third, and the model of the endless one."""
    model = ScriptedModel(costly("", 0.25, ScriptedCall("write", {"path": "a"})), loop=True)
    inner = Agent(model, name="inner", tools=[write], behavior=options.pop("inner_behavior", None))
    middle = Agent(ScriptedModel(ask("inner"), "mid"), name="middle", tools=[inner.as_tool()])
    return make_front(ask("middle"), "Done.", tools=[middle.as_tool()], **options), model


async def test_limits_of_the_caller_end_nested_agents() -> None:
    cases: list[tuple[RunOptions, str, int]] = [
        (RunOptions(max_total_tokens=50), "max_total_tokens", 5),
        (RunOptions(max_cost=1.0), "max_cost", 4),
        (RunOptions(max_turns=4), "max_turns", 2),  # of all three agents together
    ]
    for behavior, status, requests in cases:
        front, model = nest(behavior=behavior)
        result = await front.run("go")
        assert (result.status, len(model.requests)) == (status, requests), behavior

    front, model = nest(inner_behavior=RunOptions(max_turns=2))
    assert (await front.run("go")).text == "Done."
    assert len(model.requests) == 2


async def test_time_limit_of_the_caller_ends_nested_agents() -> None:
    @tool
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    inner = Agent(ScriptedModel(ScriptedCall("hang")), name="inner", tools=[hang])
    middle = Agent(ScriptedModel(ask("inner")), name="middle", tools=[inner.as_tool()])
    front = make_front(ask("middle"), tools=[middle.as_tool()], behavior=RunOptions(max_seconds=0.05, abort_grace=0.05))
    assert (await front.run("go")).status == "max_seconds"
    assert front.children == ()


async def test_tool_budgets_hold_for_the_tools_of_their_agent() -> None:
    front, model = nest(inner_behavior=RunOptions(tool_budgets={"write": 2}, max_turns=4))
    await front.run("go")
    results = [r for m in model.requests[-1].messages for r in m.tool_results]
    assert [r.is_error for r in results] == [False, False, True]

    writer = make_writer()
    front = make_front(
        ask("writer"), ask("writer"), "Done.", tools=[writer.as_tool()], behavior=RunOptions(tool_budgets={"writer": 1})
    )
    await front.run("go")
    assert [r.is_error for m in front.messages for r in m.tool_results] == [False, True]


async def test_spawn_from_code_has_the_rights_of_the_caller() -> None:
    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Delegate."""
        assert ctx.spawn is not None
        return (await ctx.spawn("go", signal=ctx.signal)).output

    script = ScriptedCall("delegate"), ScriptedCall("write", {"path": "a"}), "Sub done.", "Done."
    options: list[dict[str, Any]] = [
        {"permissions": Permissions(deny=["write"], allow=["delegate"])},
        {"plugs": [ToolFilter(lambda turn, definition: definition.name != "write")]},
        {"hooks": {ToolGate: lambda hook: setattr(hook, "block", "no") if hook.name == "write" else None}},
    ]
    for given in options:
        front = make_front(*script, tools=[delegate, write], subagents=True, **given)
        assert (await front.run("go")).text == "Done."
        assert outputs(front) == ["Sub done."]
        assert write_result(front) != "wrote a"


# --- MCP servers ----------------------------------------------------------------------------------------------------


def make_echo_agent(*script: Any, name: str, closed: list[str]) -> Agent[Any, Any]:
    """Create an agent with an MCP server that has the tool ``one``."""

    class WatchedConnector(InMemoryConnector):
        def connect(self, config: McpServerConfig, side: Any) -> Any:
            return watch(super().connect(config, side))

    @asynccontextmanager
    async def watch(connection: Any) -> AsyncGenerator[Any]:
        async with connection as opened:
            yield opened
        closed.append(name)

    connector = WatchedConnector({"s": make_echo_server("one")})
    servers = McpPlug([McpServerConfig(name="s", command="-")], connector=connector)
    return Agent(ScriptedModel(*script), name=name, mcp_servers=servers)


@pytest.mark.parametrize("is_handoff", [False, True])
@pytest.mark.parametrize("is_conversation", [False, True])
async def test_mcp_servers_of_other_agents_are_connected_and_closed(is_handoff: bool, is_conversation: bool) -> None:
    closed: list[str] = []
    echo = make_echo_agent(ScriptedCall("mcp__s__one", {"text": "hi"}), "Echoed.", name="echo", closed=closed)
    if is_handoff:
        front = make_front(ScriptedCall("transfer_to_echo"), tools=[], handoffs=[echo])
    else:
        front = make_front(ask("echo"), "Done.", tools=[echo.as_tool()])
    if is_conversation:
        conversation = front.conversation()
        await conversation.run("go")
        await conversation.shutdown()
        assert closed == []  # the agent serves other conversations
    else:
        await front.run("go")
    assert last_result(echo) == "one: hi"
    assert [t.name for t in requests(echo)[0].request.tools] == ["mcp__s__one"]

    await front.shutdown()
    assert closed == ["echo"]


def test_run_that_blocks_closes_the_servers_of_other_agents() -> None:
    closed: list[str] = []
    script = ScriptedCall("mcp__s__one", {"text": "hi"}), "Echoed."
    inner = make_echo_agent(*script, name="inner", closed=closed)
    target = Agent(ScriptedModel(ask("inner"), "Target done."), name="target", tools=[inner.as_tool()])
    front = make_front(ScriptedCall("transfer_to_target"), tools=[], handoffs=[target])
    assert front.run_sync("go").text == "Target done."
    assert closed == ["inner"]


@pytest.mark.parametrize("options", [{}, {"execution": MemoryEnv({})}])
async def test_conversation_of_each_call_ends_with_the_hook_of_its_session(options: Any) -> None:
    writer = make_writer("One.", **options)
    seen: list[str] = []
    writer.on("session:open", lambda hook: seen.append("open"))
    writer.on("session:shutdown", lambda hook: seen.append(hook.reason))
    calls = [ask("writer"), ask("writer")]
    await Agent(ScriptedModel(calls, "Done."), tools=[writer.as_tool()], execution=MemoryEnv({})).run("go")
    assert sorted(seen) == ["exit", "exit", "open", "open"]
    await writer.as_tool()("go")
    assert seen[4:] == ["open", "exit"]


async def test_session_of_an_aborted_call_ends_too() -> None:
    seen: list[str] = []
    writer = Agent(ScriptedModel(Reply("x", delay=60)), name="writer")
    writer.on("session:open", lambda hook: caller.abort("enough"))
    writer.on("session:shutdown", lambda hook: seen.append(hook.reason))
    caller = Agent(ScriptedModel(ask("writer")), tools=[writer.as_tool()], execution=MemoryEnv({}))
    with pytest.raises(AgentAbortedError, match="enough"):
        await caller.run("go")
    assert seen == ["exit"]


@pytest.mark.parametrize(("own", "of_caller", "calls"), [({}, 1, 1), ({"write": 2}, 1, 1), ({"write": 0}, 1, 0)])
async def test_tool_budgets_of_the_caller_apply_in_each_call(own: Any, of_caller: int, calls: int) -> None:
    write_a = ScriptedCall("write", {"path": "a"})
    writer = make_writer(write_a, write_a, "Written.", behavior=RunOptions(tool_budgets=own))
    caller = Agent(
        ScriptedModel(ask("writer"), "Done."),
        tools=[writer.as_tool()],
        execution=MemoryEnv({}),
        behavior=RunOptions(tool_budgets={"write": of_caller, "writer": 1}),  # known tools: no warning
    )
    result = await caller.run("go")
    assert isinstance(writer.model, ScriptedModel)
    written = [r.text for r in writer.model.requests[-1].messages[-1].tool_results]
    found = [m.tool_results[0].text for m in writer.model.requests[-1].messages if m.tool_results]
    assert [text for text in found if text.startswith("wrote")] == ["wrote a"] * calls, written
    assert result.status == "completed"
    assert writer.behavior.tool_budgets == own


async def test_rules_of_the_caller_may_name_tools_of_an_agent_that_is_its_tool() -> None:
    inner = Agent(ScriptedModel("x"), name="inner", tools=[make_writer().as_tool()])
    permissions = Permissions(allow=["writer", "inner", "write"])
    caller = Agent(ScriptedModel("Done."), tools=[inner.as_tool()], permissions=permissions, execution=MemoryEnv({}))
    await caller.run("go")
    assert permissions.problems == ()
