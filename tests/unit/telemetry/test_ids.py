"""Callbacks get the IDs of the real spans."""

from typing import Any

import pytest

from mainspring import Agent
from mainspring.callbacks import AgentCallbacks
from mainspring.env import MemoryEnv
from mainspring.events import SpanContext
from mainspring.telemetry import Telemetry, Tracing, install_tracing
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import tool
from tests.unit.telemetry.recorder import Recorder

pytestmark = pytest.mark.usefixtures("no_blocking")


@tool
async def look(key: str) -> str:
    """Look."""
    return key


def make_callbacks(contexts: dict[str, SpanContext]) -> AgentCallbacks:
    def record_span(name: str) -> Any:
        return lambda span, *_: contexts.setdefault(name, span)

    return AgentCallbacks(
        on_agent_start=record_span("agent"),
        on_llm_start=record_span("llm"),
        on_tool_start=record_span("tool"),
        on_tool_end=record_span("tool end"),
    )


@pytest.mark.covers("TEL-08")
@pytest.mark.parametrize("late", [False, True])
async def test_callbacks_get_the_ids_of_the_spans(late: bool) -> None:
    recorder, contexts = Recorder(), dict[str, SpanContext]()
    agent = Agent(
        ScriptedModel(ScriptedCall("look", {"key": "a"}), "done"),
        execution=MemoryEnv(),
        tools=[look],
        callbacks=make_callbacks(contexts),
        plugs=[] if late else [Tracing(recorder.telemetry)],
    )
    if late:
        install_tracing(agent, recorder.telemetry)

    await agent.run("go")

    run, chat, call, _ = [s.context for s in recorder.spans]
    assert run
    assert chat
    assert call
    trace_id, run_id = f"{run.trace_id:032x}", f"{run.span_id:016x}"
    assert contexts["agent"] == SpanContext(trace_id, run_id, None)
    assert contexts["llm"] == SpanContext(trace_id, f"{chat.span_id:016x}", run_id)
    assert contexts["tool"] == contexts["tool end"] == SpanContext(trace_id, f"{call.span_id:016x}", run_id)


@pytest.mark.covers("TEL-08")
async def test_ids_are_generated_without_telemetry() -> None:
    contexts = dict[str, SpanContext]()
    agent = Agent(ScriptedModel("done"), execution=MemoryEnv(), callbacks=make_callbacks(contexts))

    await agent.run("go")

    assert len(contexts["agent"].trace_id) == 32
    assert len(contexts["agent"].span_id) == 16
    assert contexts["agent"].parent_span_id is None
    assert contexts["llm"].parent_span_id == contexts["agent"].span_id


@pytest.mark.covers("TEL-01")
async def test_disabled_telemetry_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    contexts, tracing = dict[str, SpanContext](), Tracing(Telemetry(environ={"OTEL_SDK_DISABLED": "true"}))
    agent = Agent(ScriptedModel("done"), execution=MemoryEnv(), callbacks=make_callbacks(contexts), plugs=[tracing])

    await agent.run("go")

    assert contexts["llm"].parent_span_id == contexts["agent"].span_id
    assert [r for r in caplog.records if r.levelname != "INFO"] == []


async def test_calls_have_generated_ids_without_an_id_generator() -> None:
    recorder, contexts = Recorder(), dict[str, SpanContext]()
    assert recorder.telemetry.signals is not None
    recorder.telemetry.signals.ids = None
    agent = Agent(
        ScriptedModel(ScriptedCall("look", {"key": "a"}), "done"),
        execution=MemoryEnv(),
        tools=[look],
        callbacks=make_callbacks(contexts),
        plugs=[Tracing(recorder.telemetry)],
    )

    await agent.run("go")

    assert contexts["tool"].parent_span_id == contexts["agent"].span_id
    assert contexts["tool"].trace_id == contexts["agent"].trace_id
