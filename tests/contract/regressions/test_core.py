"""Known problems of other agents with dispatch, subagents, structured output, event loops, and cancellation that no other test
covers."""

import asyncio
import gc
import http.server
import json
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    Agent,
    AgentAbortedError,
    AgentProviderError,
    Approve,
    ConfigError,
    RunOptions,
    RunResult,
    ToolContext,
    tool,
)
from mainspring.env.memory import MemoryEnv
from mainspring.errors import RateLimitedError
from mainspring.loop.hooks import HOOK_NAMES, PermissionCheck
from mainspring.messages import Message, Usage, encode_message
from mainspring.models import ModelRequest, RetryConfig, create_model
from mainspring.sessions import Session, SessionOptions
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Tool, ToolRegistry, ToolResult
from tests.unit.loop.harness import as_message, assert_results_follow_calls

QUICK = SessionOptions(fsync="never", retry_after=0.0, redact_line=None)
NO_WAIT = RetryConfig(max_retries=1, base_delay_seconds=0, max_delay_seconds=0, jitter=0)


@tool
async def look(key: str = "", ctx: ToolContext | None = None) -> str:
    """Look something up."""
    await asyncio.sleep(0)
    return f"{ctx.agent if ctx else ''}:{key}"


# --- dispatch ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["constructor", "__class__", "__init__", "get", "items", "keys", "None", "__proto__"])
async def test_tool_names_may_be_python_names(name: str) -> None:
    agent = Agent(ScriptedModel(ScriptedCall(name), "ok"), execution=MemoryEnv(), tools=[look])
    await agent.run("go")
    assert results(agent)[0].startswith(f"Unknown tool: {name}")
    custom = Tool(name=name, description="Own.", input_schema={"type": "object"}, execute=look.execute)
    agent = Agent(ScriptedModel(ScriptedCall(name), "ok"), execution=MemoryEnv(), tools=[custom])
    await agent.run("go")
    assert results(agent) == ["agent:"]
    with pytest.raises(ConfigError, match=rf"Duplicate tool name: '{name}' \(from user and extension\)"):
        ToolRegistry(
            [custom, Tool(name=name, description="", input_schema={}, execute=custom.execute, source="extension")]
        )


async def test_repeated_calls_run_until_the_turn_limit() -> None:
    """Each repeated call runs, up to the limits of the run; a hint tells the model that it learns nothing new."""
    model = ScriptedModel(ScriptedCall("look", {"key": "same"}), loop=True)
    behavior = RunOptions(max_turns=30, repeat_hint=3)
    agent = Agent(model, execution=MemoryEnv(), tools=[look], behavior=behavior)
    result = await agent.run("go")
    assert (result.status, result.stats.tool_counts) == ("max_turns", {"look": 30})
    hints = [m for m in agent.messages if isinstance(m, Message) and "returned nothing new" in m.text]
    assert len(hints) == 9


@pytest.mark.parametrize(
    "call",
    [ScriptedCall(""), ScriptedCall("lok"), ScriptedCall("look", {"key": {}}), ScriptedCall("look", raw='{"key": ')],
)
async def test_run_ends_after_repeated_invalid_calls(call: ScriptedCall) -> None:
    """Each invalid call gets a result; four in a row end the run, and a valid call resets the count."""
    agent = Agent(ScriptedModel(call, loop=True), execution=MemoryEnv(), tools=[look])
    with pytest.raises(AgentProviderError, match="The model sent no valid tool call 4 times in a row"):
        await agent.run("go")
    assert len(results(agent)) == 4
    assert_results_follow_calls(agent.messages)
    agent = Agent(
        ScriptedModel(*[call, call, call, ScriptedCall("look")] * 3, "ok"), execution=MemoryEnv(), tools=[look]
    )
    assert (await agent.run("go")).status == "completed"


async def test_tool_context_is_not_in_the_schema_and_is_per_call() -> None:
    seen: dict[str, tuple[str, int]] = {}

    @tool
    async def note(key: str, ctx: ToolContext) -> str:
        """Note."""
        await asyncio.sleep(0)
        seen[key] = (ctx.call_id, id(ctx))
        return key

    assert list(note.input_schema["properties"]) == ["key"]
    many = [ScriptedCall("note", {"key": f"k{n}"}, id=f"c{n}") for n in range(500)]
    agent = Agent(ScriptedModel(many, "ok"), execution=MemoryEnv(), tools=[note])
    await agent.run("go")
    assert results(agent) == [f"k{n}" for n in range(500)]
    assert seen.keys() == {f"k{n}" for n in range(500)}
    assert all(call_id == f"c{key[1:]}" for key, (call_id, _) in seen.items())
    forged = Agent(
        ScriptedModel(ScriptedCall("note", {"key": "k", "ctx": "mine"}), "ok"), execution=MemoryEnv(), tools=[note]
    )
    await forged.run("go")
    assert results(forged) == ["Validation error: tool \"note\": $: unknown property 'ctx'; valid properties: 'key'"]


class _Unprintable:
    def __str__(self) -> str:
        raise ValueError("no text")


def _circular_dict() -> dict[str, Any]:
    circular: dict[str, Any] = {}
    circular["itself"] = circular
    return circular


@pytest.mark.covers("TDF-12", "TDF-06")
@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"metadata": {"path": Path("a/b"), 1: {3}}}, {"path": "a/b", "1": [3]}),
        ({"metadata": {"odd": _Unprintable()}}, None),
        ({"metadata": _circular_dict()}, None),
        ({"metadata": None}, None),
        ({"code": "TIMEOUT"}, {"code": "TIMEOUT"}),
        ({"code": "banana"}, {"code": "UNKNOWN"}),
        ({"is_error": "no", "title": 5}, None),
        ({"output": 5}, None),
        ({"output": ToolResult(output="x")}, None),
    ],
)
async def test_invalid_result_fields_do_not_break_the_run(fields: dict[str, Any], details: Any, tmp_path: Path) -> None:
    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        return ToolResult(**{"output": "x", **fields})

    odd = Tool(name="odd", description="Odd.", input_schema={"type": "object"}, execute=execute)
    session = Session.create(tmp_path, home=tmp_path)
    one = Agent(ScriptedModel(ScriptedCall("odd"), "ok"), execution=MemoryEnv(), tools=[odd], session=session)
    result = await one.run("go")
    session.close()
    assert result.status == "completed"
    block = as_message(one.messages[2]).tool_results[0]
    assert (block.is_error, block.details) == (bool(fields.get("is_error")), details)
    with Session.open(session.location, home=tmp_path, write=False) as read:
        assert [encode_message(m) for m in read.messages] == [encode_message(m) for m in one.messages]
        assert not read.problems


@pytest.mark.covers("BYD-29")
@pytest.mark.parametrize("write", [True, False])
async def test_call_approved_twice_runs_once(write: bool, tmp_path: Path) -> None:
    """The second agent has the same session open, for writing or for reading only."""
    ran: list[str] = []

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return f"paid {to}"

    def agent(session: Session, *script: Any) -> Agent:
        def ask(ctx: PermissionCheck) -> None:
            ctx.pause("may it?")

        return Agent(
            ScriptedModel(*script), execution=MemoryEnv(), tools=[pay], session=session, hooks={PermissionCheck: ask}
        )

    with Session.create(tmp_path, home=tmp_path, id="s", options=QUICK) as session:
        first = agent(session, ScriptedCall("pay", {"to": "Ann"}), "ok")
        assert (await first.run("go")).status == "paused"
        session.save()
        with Session.open(session.location, home=tmp_path, write=write, options=QUICK) as other:
            second = agent(other, "I could not")
            assert second.pending is not None
            second.answer(Approve())
            await second.run()
            assert "the call may be made there, too" in results(second)[0]
        assert ran == []
        first.answer(Approve())
        assert (await first.run()).status == "completed"
    assert ran == ["Ann"]


# --- many agents -------------------------------------------------------------------------------------------------------


class SharedPlugin:
    """A plugin that several agents share."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def install(self, agent: Any) -> None:
        agent.on("tool:after", lambda ctx: self.calls.update([agent.name]))

    def for_child(self) -> None:
        return None


async def test_fifty_agents_share_a_model_without_mixing_results() -> None:
    def answer(request: ModelRequest) -> Any:
        who, turn = request.messages[0].text, sum(m.role == "assistant" for m in request.messages)
        usage = Usage(input_tokens=1, output_tokens=1)
        if turn == 3:
            return Reply(f"bye {who}", usage=usage)
        return Reply(
            calls=[ScriptedCall("look", {"key": f"{who}-{turn}-{n}"}, id=f"c{turn}{n}") for n in range(3)], usage=usage
        )

    model, plug = ScriptedModel(answer, loop=True), SharedPlugin()
    limits = RunOptions(tool_budgets={"look": 9}, dedup_tools={"look": lambda arguments: str(arguments)})
    agents = [
        Agent(model, name=f"a{n}", execution=MemoryEnv(), tools=[look], plugs=[plug], behavior=limits)
        for n in range(50)
    ]
    done = await asyncio.gather(*[agent.run(f"w{n}") for n, agent in enumerate(agents)])
    for n, (agent, result) in enumerate(zip(agents, done, strict=True)):
        assert results(agent) == [f"a{n}:w{n}-{turn}-{i}" for turn in range(3) for i in range(3)]
        assert (result.text, result.usage.total_tokens, result.stats.tool_counts) == (f"bye w{n}", 8, {"look": 9})
    assert plug.calls == {f"a{n}": 9 for n in range(50)}


async def test_run_options_do_not_affect_the_next_run() -> None:
    agent = Agent(ScriptedModel("a", "c"), execution=MemoryEnv(), system="S", tools=[look])
    before = count_handlers(agent)
    await agent.run(
        "go",
        system="T",
        model=ScriptedModel("b", "{}"),
        tools=[],
        thinking="high",
        hooks={"tool:gate": lambda ctx: None},
        behavior=RunOptions(
            schema={"type": "object"},
            tool_budgets={"look": 1},
            compact_strategy="tail",
            thinking_decay=lambda turn, base: 0.0,
            max_turns=2,
        ),
    )
    result = await agent.run("again")
    assert isinstance(agent.model, ScriptedModel)
    request = agent.model.requests[-1].request
    assert (request.system, request.thinking, [t.name for t in request.tools]) == ("S", None, ["look"])
    assert (result.output, count_handlers(agent)) == ("a", before)


async def test_a_thousand_runs_leak_nothing() -> None:
    async def run_once() -> weakref.ref[Agent]:
        agent = Agent(
            ScriptedModel(ScriptedCall("look"), RateLimitedError("slow"), "ok"),
            execution=MemoryEnv(),
            tools=[look],
            behavior=RunOptions(retry=NO_WAIT, tool_budgets={"look": 3}),
        )
        before = count_handlers(agent)
        async with agent.stream("go") as run:
            async for _ in run:
                break
        await agent.run("again", raise_errors=False)
        assert count_handlers(agent) == before
        return weakref.ref(agent)

    await run_once()
    gc.collect()
    files, objects, tasks = count_open_files(), len(gc.get_objects()), len(asyncio.all_tasks())
    references = [await run_once() for _ in range(500)]
    gc.collect()
    assert all(ref() is None for ref in references)
    assert len(asyncio.all_tasks()) == tasks
    assert count_open_files() <= files
    assert len(gc.get_objects()) - objects < 2000


# --- event loops --------------------------------------------------------------------------------------------------------


class _ChatHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        chunk = {"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]}
        body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def chat_url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _ChatHandler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_client_works_across_event_loops(chat_url: str) -> None:
    agent = Agent(create_model("compatible:m", base_url=chat_url, api_key="k"), execution=MemoryEnv())
    assert [agent.run_sync("go").text for _ in range(3)] == ["hello"] * 3

    async def unclosed() -> str:
        return (await agent.run("go")).text

    async def closed() -> str:
        text = await unclosed()
        await agent.model.aclose()
        return text

    assert [asyncio.run(work()) for work in (closed, closed)] == ["hello", "hello"]


async def test_blocking_tool_does_not_block_the_loop_or_an_abort() -> None:
    started, free = threading.Event(), threading.Event()

    @tool
    def heavy() -> str:
        """Block."""
        started.set()
        free.wait()
        return "done"

    agent = Agent(
        ScriptedModel(ScriptedCall("heavy"), "ok"),
        execution=MemoryEnv(),
        tools=[heavy],
        behavior=RunOptions(abort_grace=0.01),
    )
    run = asyncio.ensure_future(agent.run("go"))
    await asyncio.to_thread(started.wait)  # this returns only if the loop continues while the tool blocks
    agent.abort()
    with pytest.raises(AgentAbortedError):
        await run
    assert not free.is_set(), "the abort did not wait for the thread"
    free.set()


async def test_single_failure_is_not_wrapped_in_a_group() -> None:
    broken = ScriptedModel(RateLimitedError("slow down"))
    agent = Agent(broken, execution=MemoryEnv(), behavior=RunOptions(retry=None))
    with pytest.raises(AgentProviderError, match="slow down"):
        async with agent.stream("go") as run:
            await run.result()
    agent = Agent(ScriptedModel("x"), execution=MemoryEnv())
    with pytest.raises(KeyError):
        async with agent.stream("go"):
            raise KeyError("the block's own")


# --- cancellation at every step -----------------------------------------------------------------------------------------


def create_busy_agent(folder: Path, name: str) -> tuple[Agent, Session]:
    """Create an agent that uses parallel tools, a tool that ignores cancellation, a retry, a subagent, and structured output."""

    @tool
    async def stubborn() -> str:
        """Continue despite a cancellation."""
        for _ in range(2):
            try:
                await asyncio.sleep(0.0005)
            except asyncio.CancelledError:
                continue
        return "stubborn"

    async def yield_once(ctx: Any) -> None:
        await asyncio.sleep(0)

    session = Session.create(folder, home=folder, id=name, options=QUICK)
    script = [
        [ScriptedCall("look", {"key": "a"}), ScriptedCall("stubborn"), ScriptedCall("spawn", {"task": "help"})],
        RateLimitedError("slow down"),
        Reply("the child's answer", chunk_count=3),
        [ScriptedCall("look"), ScriptedCall("ghost")],
        ScriptedCall("__output__", {"x": 1}),
        *["end"] * 5,
    ]
    agent = Agent(
        ScriptedModel(*script),
        execution=MemoryEnv(),
        tools=[look, stubborn],
        session=session,
        subagents=True,
        hooks={name: yield_once for name in HOOK_NAMES if not name.startswith(("mcp:", "skills:", "oauth:"))},
        behavior=RunOptions(
            retry=NO_WAIT,
            abort_grace=0.002,
            max_seconds=60,
            schema={"type": "object", "properties": {"x": {"type": "integer"}}},
        ),
    )
    return agent, session


@pytest.mark.covers("AGT-25", "BYD-16")
@pytest.mark.parametrize(
    "way_to_stop", ["cancel", "cancel twice", "abort", "abort and cancel", "cancel and abort", "timeout"]
)
async def test_run_can_be_stopped_at_every_step(way_to_stop: str, tmp_path: Path) -> None:
    loop, ended = asyncio.get_running_loop(), False
    for step in range(1, 1000):
        agent, session = create_busy_agent(tmp_path, f"s{step}")
        before = count_handlers(agent)
        limit = asyncio.timeout(None)

        async def go(agent: Agent = agent, limit: asyncio.Timeout = limit) -> Any:
            async with limit:
                return await agent.run("go")

        task = asyncio.ensure_future(go())
        for _ in range(step):
            await asyncio.sleep(0)
        ended = task.done()
        if not ended:
            for each in way_to_stop.replace("twice", "cancel").replace("and ", "").split():
                if each == "timeout":
                    limit.reschedule(loop.time())
                elif each == "abort":
                    agent.abort()
                else:
                    task.cancel()
        expected: type[BaseException] = AgentAbortedError if way_to_stop == "abort" else asyncio.CancelledError
        if way_to_stop == "timeout":
            expected = TimeoutError
        [outcome] = await asyncio.gather(task, return_exceptions=True)
        if ended or (isinstance(outcome, RunResult) and "cancel" not in way_to_stop):
            assert getattr(outcome, "status", outcome) == "completed", (
                step
            )  # an abort after the end of the run has no effect
        else:
            assert type(outcome) is expected, f"step {step}: {outcome!r}"
        check_consistent(agent, session, before, step)
        assert isinstance(agent.model, ScriptedModel)
        last = await agent.run("again", model=ScriptedModel("fine"), behavior=RunOptions(schema=None))
        assert last.text == "fine", step
        session.close()
        if ended:
            break
    assert ended


def check_consistent(agent: Agent, session: Session, before: dict[str, int], step: int) -> None:
    assert not agent.running, step
    assert not agent.children, step
    assert count_handlers(agent) == before, step
    assert not agent.bus._waiting, step
    assert_results_follow_calls(agent.messages)
    session.save()
    if agent.messages:
        with Session.open(session.location, home=Path(session.location).parent, write=False, options=QUICK) as read:
            assert [encode_message(m) for m in read.messages] == [encode_message(m) for m in agent.messages], step
            assert not read.problems, step


# --- structured output ---------------------------------------------------------------------------------------------------

HOSTILE: list[dict[str, Any]] = [
    {"type": "object", "properties": {"__output__": {"type": "string"}}, "required": ["__output__"]},
    {"type": "object", "properties": {"output": {"$ref": "#"}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "integer"}}},
    {"type": "string", "pattern": "(a+)+$"},
    {"type": "array", "items": {"type": "array", "items": {"type": "array"}}, "uniqueItems": True},
    {"not": {}},
    {"type": "object", "additionalProperties": False},
    {"allOf": [{"type": "object"}, {"type": "array"}]},
    {"enum": []},
    {"type": "object", "patternProperties": {"^(([a-z])+.)+[A-Z]([a-z])+$": {"type": "string"}}},
    {"$ref": "https://nowhere.invalid/schema.json"},
    {"$ref": "#/$defs/missing"},
    {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2000)}},
]


@pytest.mark.covers("AGT-33", "BYD-15")
@pytest.mark.parametrize("schema", HOSTILE, ids=lambda s: str(s)[:40])
async def test_no_output_schema_hangs_or_breaks_a_run(schema: dict[str, Any]) -> None:
    answers = (
        {"x": 1},
        {"output": "a" * 40 + "!"},
        {"output": {"output": {}}},
        {"output": [[[]], [[]]]},
        {"a" * 60: 1},
    )
    model = ScriptedModel(*[ScriptedCall("__output__", answer) for answer in answers], *['{"x": 1}', "words"] * 3)
    agent = Agent(model, execution=MemoryEnv(), tools=[look])
    result = await agent.run("go", behavior=RunOptions(schema=schema, max_output_retries=6), raise_errors=False)
    assert result.output_error or result.stats.output is not None or "null" in str(schema)
    assert_results_follow_calls(agent.messages)


# --- helpers --------------------------------------------------------------------------------------------------------------


def results(agent: Agent) -> list[str]:
    return [r.text for m in agent.messages if isinstance(m, Message) for r in m.tool_results]


def count_handlers(agent: Agent) -> dict[str, int]:
    """Return the number of handlers of each hook."""
    bus = agent.bus
    tables = (bus._handlers, bus._of_subagents)
    return dict(Counter(kind.__name__ for table in tables for kind, found in table.items() for _ in found))


def count_open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
