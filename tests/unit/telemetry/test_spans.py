"""The spans of a run: names, nesting, and attributes."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from mainspring import Agent
from mainspring.durable import DurableWorker, MemoryEngine
from mainspring.durable.steps import DurableSteps
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentProviderError, ConfigError, NetworkError, RateLimitedError
from mainspring.events import StreamEvent, StreamStart, UsageUpdate
from mainspring.loop.hooks import BeforeToolRun, ModelErrorHook, ToolGate, TurnAfter
from mainspring.messages import Cost, Message, Usage
from mainspring.models import ModelRequest, RetryConfig
from mainspring.run_options import RunOptions
from mainspring.subagents import AgentDefinition
from mainspring.telemetry import Telemetry, Tracing, install_tracing
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import ToolContext, tool
from tests.unit.telemetry.recorder import Recorder

pytestmark = pytest.mark.usefixtures("no_blocking")

QUICK = RunOptions(retry=RetryConfig(max_retries=2, base_delay_seconds=0.001, max_delay_seconds=0.001, jitter=0.0))
USAGE = Usage(100, 20, cache_read=50, cache_write=10, reasoning_tokens=5, cost=Cost(0.01, 0.02))


@tool
async def look(key: str) -> str:
    """Look something up."""
    with trace.get_tracer("user").start_as_current_span("inside"):
        if key == "bad":
            raise FileNotFoundError("no bad")
        if key == "odd":
            raise ZeroDivisionError("no odd")
        return f"value of {key}"


def make_traced_agent(recorder: Recorder, *script: Any, **options: Any) -> Agent:
    model = script[0] if len(script) == 1 and isinstance(script[0], ScriptedModel) else ScriptedModel(*script)
    options = {"execution": MemoryEnv(), "tools": [look], "name": "worker", **options}
    return Agent(model, plugs=[Tracing(recorder.telemetry)], **options)


@pytest.mark.covers("TEL-02", "TEL-03", "TEL-04", "TEL-06", "TEL-10")
async def test_run_is_one_tree_with_standard_attributes() -> None:
    recorder = Recorder()
    agent = make_traced_agent(
        recorder, Reply(calls=[ScriptedCall("look", {"key": "a"}, "c1")], usage=USAGE), Reply("done", usage=USAGE)
    )

    await agent.run("go")

    assert recorder.tree == [
        ("invoke_agent worker", ""),
        ("chat scripted-1", "invoke_agent worker"),
        ("execute_tool look", "invoke_agent worker"),
        ("chat scripted-1", "invoke_agent worker"),
    ]
    run, chat, call, _ = recorder.spans
    assert (run.kind, chat.kind, call.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL)
    assert dict(chat.attributes or {}) | {"gen_ai.response.time_to_first_chunk": 0} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted-1",
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": 16384,
        "gen_ai.response.model": "scripted-1",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.response.time_to_first_chunk": 0,
        "gen_ai.usage.input_tokens": 160,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 50,
        "gen_ai.usage.cache_creation.input_tokens": 10,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "mainspring.usage.cost": 0.03,
        "mainspring.turn": 1,
        "mainspring.run.id": (run.attributes or {})["mainspring.run.id"],
    }
    facts = call.attributes or {}
    assert facts["gen_ai.tool.name"] == "look"
    assert facts["gen_ai.tool.call.id"] == "c1"
    assert facts["gen_ai.tool.type"] == "function"
    assert facts["gen_ai.tool.description"] == "Look something up."
    assert facts["mainspring.tool.success"] is True
    assert isinstance(facts["mainspring.tool.duration"], float)
    assert (run.attributes or {})["gen_ai.usage.input_tokens"] == 320
    assert (run.attributes or {})["mainspring.run.status"] == "completed"
    assert (run.attributes or {})["mainspring.run.turns"] == 2
    assert {s.status.status_code for s in recorder.spans} == {StatusCode.UNSET}


@pytest.mark.covers("TEL-02")
async def test_classic_span_names_can_be_selected() -> None:
    recorder = Recorder(span_names="classic")

    await make_traced_agent(recorder, ScriptedCall("look", {"key": "a"}), "done").run("go")

    assert recorder.names == ["agent.run", "gen_ai.chat", "tool.execute", "gen_ai.chat"]


@pytest.mark.covers("TEL-02", "TEL-03")
async def test_classic_tool_spans_have_the_classic_attributes_too() -> None:
    recorder, standard = Recorder(span_names="classic"), Recorder()

    for each in (recorder, standard):
        calls = [ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "bad"})]
        await make_traced_agent(each, calls, "done").run("go")

    good, bad = (s.attributes or {} for s in recorder.spans if s.name == "tool.execute")
    assert (good["tool.name"], good["tool.result.success"], bad["tool.result.success"]) == ("look", True, False)
    assert (good["gen_ai.tool.name"], good["mainspring.tool.success"]) == ("look", True)
    seconds, milliseconds = good["mainspring.tool.duration"], good["duration_ms"]
    assert isinstance(seconds, float)
    assert isinstance(milliseconds, int)
    assert milliseconds == round(seconds * 1000)
    classic = {"tool.name", "tool.result.success", "duration_ms"}
    assert not [s.name for s in standard.spans if classic & (s.attributes or {}).keys()]


@pytest.mark.covers("TEL-06")
async def test_parallel_calls_have_separate_spans() -> None:
    recorder, barrier = Recorder(), asyncio.Barrier(3)

    @tool
    async def meet(n: int) -> str:
        """Meet the others."""
        own_span_id = trace.get_current_span().get_span_context().span_id
        await barrier.wait()
        recorder.provider.get_tracer("user").start_span(f"inside {n}").end()
        await barrier.wait()
        assert trace.get_current_span().get_span_context().span_id == own_span_id
        return f"{own_span_id:x}"

    agent = make_traced_agent(
        recorder, [ScriptedCall("meet", {"n": n}, f"c{n}") for n in range(3)], "done", tools=[meet]
    )

    await agent.run("go")

    calls = {(s.attributes or {}).get("gen_ai.tool.call.id"): s.context.span_id for s in recorder.spans if s.context}
    for n in range(3):
        parent = recorder.span(f"inside {n}").parent
        assert parent is not None
        assert parent.span_id == calls[f"c{n}"]
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_tool_in_a_thread_has_the_current_span() -> None:
    recorder = Recorder()

    @tool
    def block() -> str:
        """Block."""
        recorder.provider.get_tracer("user").start_span("inside").end()
        return "ok"

    await make_traced_agent(recorder, ScriptedCall("block"), "done", tools=[block]).run("go")

    assert recorder.parent_of(recorder.span("inside")) == "execute_tool block"


async def test_run_span_is_a_child_of_the_application_span() -> None:
    recorder = Recorder()
    agent = make_traced_agent(recorder, "done")

    with recorder.provider.get_tracer("web").start_as_current_span("GET /answer") as request:
        await agent.run("go")
        assert trace.get_current_span() is request

    assert recorder.tree[1] == ("invoke_agent worker", "GET /answer")


@pytest.mark.covers("BYD-30")
async def test_concurrent_agents_have_separate_traces() -> None:
    recorder = Recorder()

    async def run_worker(n: int) -> None:
        script = [ScriptedCall("look", {"key": str(i)}) for i in range(5)]
        await make_traced_agent(recorder, *script, "done", name=f"w{n}").run("go")

    await asyncio.gather(*[run_worker(n) for n in range(5)])

    for n in range(5):
        run = recorder.span(f"invoke_agent w{n}")
        assert run.context
        inner = [s for s in recorder.spans if s.context and s.context.trace_id == run.context.trace_id and s is not run]
        assert {s.parent.span_id for s in inner if s.parent} == {run.context.span_id}
        assert len(inner) == 11


@pytest.mark.covers("BYD-30")
async def test_subagent_spans_are_children_of_their_calls() -> None:
    recorder = Recorder()

    def respond(request: ModelRequest) -> Any:
        return ScriptedCall("look", {"key": "x"}) if len(request.messages) == 1 else "found"

    spawns = [ScriptedCall("spawn", {"task": f"t{n}", "agent": "scout"}, f"s{n}") for n in range(2)]
    definition = AgentDefinition(name="scout", description="Looks.", model=ScriptedModel(respond, loop=True))
    agent = make_traced_agent(recorder, spawns, "done", subagents=[definition])

    await agent.run("go")

    assert len({s.context.trace_id for s in recorder.spans if s.context}) == 1
    children = [s for s in recorder.spans if s.name == "invoke_agent scout"]
    assert [recorder.parent_of(s) for s in children] == ["execute_tool spawn"] * 2
    assert len({s.parent.span_id for s in children if s.parent}) == 2
    assert len({str((s.attributes or {})["gen_ai.agent.id"]) for s in children}) == 2
    for run in children:
        assert run.context
        inner = [s.name for s in recorder.spans if s.parent and s.parent.span_id == run.context.span_id]
        assert inner == ["chat scripted-1", "execute_tool look", "chat scripted-1"]


async def test_nested_subagent_spans_are_children_of_their_calls() -> None:
    from mainspring.subagents import Subagents

    recorder = Recorder()

    def respond(request: ModelRequest) -> Any:
        names = [t.name for t in request.tools]
        return ScriptedCall("spawn", {"task": "deeper"}) if "spawn" in names and len(request.messages) == 1 else "end"

    agent = make_traced_agent(recorder, ScriptedModel(respond, loop=True), subagents=Subagents(depth=2))

    await agent.run("go")

    runs = [t for t in recorder.tree if t[0].startswith("invoke_agent")]
    assert runs == [
        ("invoke_agent worker", ""),
        ("invoke_agent subagent", "execute_tool spawn"),
        ("invoke_agent subagent", "execute_tool spawn"),
    ]


async def test_subagent_spawned_outside_a_call_is_in_the_run_span() -> None:
    recorder = Recorder()
    agent = make_traced_agent(recorder, "parent done", subagents=True)

    async def spawn_outside(_: UsageUpdate) -> None:
        import contextvars

        task = asyncio.get_running_loop().create_task(
            agent.extra["spawn"]("look around"), context=contextvars.Context()
        )
        await task

    agent.model = ScriptedModel("parent done", "child done")
    agent.on(UsageUpdate, spawn_outside)
    await agent.run("go")

    assert ("invoke_agent subagent", "invoke_agent worker") in recorder.tree


@pytest.mark.covers("TEL-04")
async def test_failed_calls_have_an_error_type() -> None:
    recorder = Recorder()
    calls = [
        ScriptedCall("look", {"key": "bad"}, "raised"),
        ScriptedCall("look", {"key": "odd"}, "crashed"),
        ScriptedCall("nope", {}, "unknown"),
        ScriptedCall("look", {"wrong": 1}, "invalid"),
        ScriptedCall("look", {"key": "secret"}, "blocked"),
        ScriptedCall("look", {"key": "held"}, "held"),
    ]
    agent = make_traced_agent(recorder, calls, "done")
    agent.on(ToolGate, lambda ctx: {"block": "not this"} if ctx.call_id == "blocked" else None)
    agent.on(BeforeToolRun, lambda ctx: {"block": "not now"} if ctx.call_id == "held" else None)

    await agent.run("go")

    by_call = {(s.attributes or {}).get("gen_ai.tool.call.id"): s for s in recorder.spans}
    types = {
        call: (by_call[call].attributes or {})["error.type"]
        for call in ("raised", "crashed", "unknown", "invalid", "blocked")
    }
    assert types == {
        "raised": "NOT_FOUND",
        "crashed": "ZeroDivisionError",
        "unknown": "NOT_FOUND",
        "invalid": "VALIDATION_ERROR",
        "blocked": "PERMISSION_DENIED",
    }
    assert (by_call["held"].attributes or {})["error.type"] == "UNKNOWN"
    assert all(by_call[c].status.status_code is StatusCode.ERROR for c in types)
    assert (by_call["blocked"].attributes or {})["mainspring.tool.success"] is False


async def test_retries_are_span_events() -> None:
    recorder = Recorder()
    agent = make_traced_agent(recorder, RateLimitedError("slow down"), NetworkError("cut"), "done", behavior=QUICK)

    await agent.run("go")

    chat = recorder.span("chat scripted-1")
    assert [(e.name, (e.attributes or {})["error.type"]) for e in chat.events] == [
        ("mainspring.retry", "RATE_LIMITED"),
        ("mainspring.retry", "NETWORK_ERROR"),
    ]
    assert (chat.attributes or {})["mainspring.retries"] == 2
    assert chat.status.status_code is StatusCode.UNSET
    assert [e.event_name for e in recorder.events] == ["gen_ai.client.operation.exception"] * 2


async def test_failed_model_call_sets_errors_on_both_spans() -> None:
    recorder = Recorder()
    agent = make_traced_agent(recorder, RateLimitedError("slow down"), behavior=RunOptions(retry=None))

    with pytest.raises(AgentProviderError):
        await agent.run("go")

    for name in ("chat scripted-1", "invoke_agent worker"):
        span = recorder.span(name)
        assert (span.attributes or {})["error.type"] == "RATE_LIMITED"
        assert span.status.description == "RATE_LIMITED"


async def test_failure_other_than_an_exception_has_an_error_type() -> None:
    class Interruption(BaseException):
        """Neither an Exception nor a cancellation."""

    def interrupt(_: ModelRequest) -> Reply:
        raise Interruption

    recorder = Recorder()

    with pytest.raises(Interruption):
        await make_traced_agent(recorder, interrupt).run("go")

    assert str((recorder.span("invoke_agent worker").attributes or {})["error.type"]).endswith("Interruption")


async def test_retry_by_a_handler_has_its_own_span() -> None:
    recorder = Recorder()
    agent = make_traced_agent(recorder, NetworkError("cut"), "done", behavior=RunOptions(retry=None))
    agent.on(ModelErrorHook, lambda ctx: ctx.retry())

    await agent.run("go")

    assert recorder.names == ["invoke_agent worker", "chat scripted-1", "chat scripted-1"]
    assert [s.status.status_code for s in recorder.spans] == [StatusCode.UNSET, StatusCode.ERROR, StatusCode.UNSET]


async def test_compaction_is_a_span_event_of_the_run() -> None:
    recorder = Recorder()
    agent = make_traced_agent(recorder, NetworkError("cut"), "done", behavior=RunOptions(retry=None))
    agent.on(ModelErrorHook, lambda ctx: ctx.retry("shorter"))

    await agent.run([Message.user("one"), Message.user("two")])

    events = recorder.span("invoke_agent worker").events
    assert [(e.name, dict(e.attributes or {})) for e in events] == [
        ("mainspring.context.compacted", {"reason": "NETWORK_ERROR", "before": 2, "after": 1})
    ]


@pytest.mark.covers("BYD-30")
async def test_spans_are_closed_if_a_run_is_aborted_in_a_tool() -> None:
    recorder = Recorder()

    @tool
    async def hang(ctx: ToolContext) -> str:
        """Hang."""
        agent.abort("enough")
        await asyncio.Event().wait()
        return ""

    agent = make_traced_agent(
        recorder, [ScriptedCall("hang", {}, "a"), ScriptedCall("hang", {}, "b")], "never", tools=[hang]
    )

    with pytest.raises(AgentAbortedError):
        await agent.run("go")

    assert sorted(recorder.names) == [
        "chat scripted-1",
        "execute_tool hang",
        "execute_tool hang",
        "invoke_agent worker",
    ]
    run = recorder.span("invoke_agent worker")
    assert (run.attributes or {})["error.type"] == "aborted"
    assert (run.attributes or {})["mainspring.run.status"] == "aborted"
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.covers("BYD-30")
async def test_spans_are_closed_if_a_run_is_aborted_during_a_response() -> None:
    recorder = Recorder()
    request = asyncio.Event()

    def slow(_: ModelRequest) -> Reply:
        request.set()
        return Reply("slow", delay=30)

    agent = make_traced_agent(recorder, slow)
    run = asyncio.ensure_future(agent.run("go"))
    await request.wait()

    agent.abort()
    with pytest.raises(AgentAbortedError):
        await run

    assert (recorder.span("chat scripted-1").attributes or {})["error.type"] == "aborted"
    assert recorder.span("invoke_agent worker").status.status_code is StatusCode.ERROR


@pytest.mark.covers("BYD-30")
async def test_spans_are_closed_if_the_task_is_cancelled() -> None:
    recorder, begun = Recorder(), asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    run = asyncio.ensure_future(make_traced_agent(recorder, ScriptedCall("hang"), tools=[hang]).run("go"))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert sorted(recorder.names) == ["chat scripted-1", "execute_tool hang", "invoke_agent worker"]


@pytest.mark.covers("BYD-30")
async def test_spans_are_closed_if_the_task_is_cancelled_during_a_response() -> None:
    recorder, begun = Recorder(), asyncio.Event()

    class SilentModel(ScriptedModel):
        """Starts a response and then hangs."""

        async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent]:
            yield StreamStart()
            begun.set()
            await asyncio.Event().wait()

    agent = Agent(SilentModel(), execution=MemoryEnv(), name="worker", plugs=[Tracing(recorder.telemetry)])
    run = asyncio.ensure_future(agent.run("go"))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert sorted(recorder.names) == ["chat scripted-1", "invoke_agent worker"]
    assert (recorder.span("chat scripted-1").attributes or {})["error.type"] == "aborted"


async def test_spans_name_the_model_of_the_run() -> None:
    recorder = Recorder()

    await make_traced_agent(recorder, "never").run("go", model=ScriptedModel("done", provider="gemini", model="g-2"))

    for span in recorder.spans:
        assert (span.attributes or {})["gen_ai.provider.name"] == "gcp.gemini"
        assert (span.attributes or {})["gen_ai.request.model"] == "g-2"


async def test_side_call_is_an_event_and_counted() -> None:
    recorder = Recorder()
    agent = make_traced_agent(recorder, Reply("title", usage=USAGE), Reply("done", usage=USAGE))

    async def request_title(hook: TurnAfter) -> None:
        await hook.side_call("title", ModelRequest([Message.user("Name it")]))

    agent.on(TurnAfter, request_title)
    await agent.run("go")

    event = recorder.span("invoke_agent worker").events[0]
    assert event.name == "mainspring.side_call"
    assert (event.attributes or {})["mainspring.purpose"] == "title"
    assert sum(p.sum for p in recorder.metrics["gen_ai.client.token.usage"]) == 2 * 180


@pytest.mark.covers("TEL-10")
async def test_tracing_can_be_installed_on_an_existing_agent() -> None:
    recorder = Recorder()
    agent = Agent(ScriptedModel("one", "two"), execution=MemoryEnv())
    await agent.run("go")

    tracing = install_tracing(agent, recorder.telemetry)
    await agent.run("again")

    assert recorder.names == ["invoke_agent agent", "chat scripted-1"]
    assert tracing in agent.plugs
    with pytest.raises(ConfigError, match="already traced"):
        install_tracing(agent, recorder.telemetry)
    with pytest.raises(ConfigError, match="belongs to another agent"):
        Agent(ScriptedModel(), execution=MemoryEnv(), plugs=[tracing])


@pytest.mark.covers("TEL-01")
async def test_disabled_telemetry_adds_no_listeners() -> None:
    telemetry = Telemetry(environ={"OTEL_SDK_DISABLED": "true"})
    agent = Agent(ScriptedModel("done"), execution=MemoryEnv(), plugs=[Tracing(telemetry)])
    bare = Agent(ScriptedModel("done"), execution=MemoryEnv())

    assert telemetry.disabled_reason == "OTEL_SDK_DISABLED is set"
    assert not telemetry.on
    assert len(agent.bus._observers) == len(bare.bus._observers)
    assert agent.bus._handlers.keys() == bare.bus._handlers.keys()
    assert (await agent.run("go")).text == "done"
    assert telemetry.close()


@pytest.mark.parametrize("fails", [False, True])
async def test_resumed_run_reports_finished_steps_once(fails: bool) -> None:
    recorder, engine, waiting = Recorder(), MemoryEngine(), asyncio.Event()

    async def stop(key: str) -> str:
        """Read a value."""
        if fails:
            raise FileNotFoundError(key)
        return key

    @tool(idempotent=True)
    async def wait() -> str:
        """Wait."""
        if not waiting.is_set():
            waiting.set()
            await asyncio.Event().wait()
        return "waited"

    calls = [ScriptedCall("stop", {"key": "a"}, "c1")]
    script = ScriptedModel(
        Reply(calls=calls, usage=USAGE),
        Reply(calls=[ScriptedCall("wait", {}, "c2")], usage=USAGE),
        Reply("done", usage=USAGE),
    )

    def make(steps: DurableSteps) -> Agent:
        plugs = [Tracing(recorder.telemetry)]
        return Agent(script, tools=[stop, wait], plugs=plugs, execution=MemoryEnv({}), steps=steps)

    async with DurableWorker(engine, {"one": make}) as agents:
        run = await agents.start("one", "go")
        await waiting.wait()
    async with DurableWorker(engine, {"one": make}):
        assert (await run.result(timeout=120)).text == "done"

    finished = [s for s in recorder.spans if s.name != "invoke_agent agent"]
    names = [s.name for s in finished]
    assert names.count("chat scripted-1") == 3
    assert names.count("execute_tool stop") == 1
    assert sum(p.sum for p in recorder.metrics["gen_ai.client.token.usage"]) == 3 * USAGE.total_tokens
    stops = [p for p in recorder.metrics["mainspring.tool.duration"] if p.attributes["gen_ai.tool.name"] == "stop"]
    assert sum(p.count for p in stops) == 1
