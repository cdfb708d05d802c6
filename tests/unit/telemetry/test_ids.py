"""Callbacks are told the ids of the real spans."""

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


def callbacks(told: dict[str, SpanContext]) -> AgentCallbacks:
    def note(name: str) -> Any:
        return lambda span, *_: told.setdefault(name, span)

    return AgentCallbacks(
        on_agent_start=note("agent"), on_llm_start=note("llm"), on_tool_start=note("tool"), on_tool_end=note("tool end")
    )


@pytest.mark.covers("TEL-08")
@pytest.mark.parametrize("late", [False, True])
async def test_ids_are_those_of_the_spans(late: bool) -> None:
    recorder, told = Recorder(), dict[str, SpanContext]()
    agent = Agent(
        ScriptedModel(ScriptedCall("look", {"key": "a"}), "done"),
        execution=MemoryEnv(),
        tools=[look],
        callbacks=callbacks(told),
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
    assert told["agent"] == SpanContext(trace_id, run_id, None)
    assert told["llm"] == SpanContext(trace_id, f"{chat.span_id:016x}", run_id)
    assert told["tool"] == told["tool end"] == SpanContext(trace_id, f"{call.span_id:016x}", run_id)


@pytest.mark.covers("TEL-08")
async def test_without_telemetry_ids_are_made_up() -> None:
    told = dict[str, SpanContext]()
    agent = Agent(ScriptedModel("done"), execution=MemoryEnv(), callbacks=callbacks(told))

    await agent.run("go")

    assert len(told["agent"].trace_id) == 32
    assert len(told["agent"].span_id) == 16
    assert told["agent"].parent_span_id is None
    assert told["llm"].parent_span_id == told["agent"].span_id


@pytest.mark.covers("TEL-01")
async def test_with_telemetry_off_nothing_is_said_of_it(caplog: pytest.LogCaptureFixture) -> None:
    told, tracing = dict[str, SpanContext](), Tracing(Telemetry(environ={"OTEL_SDK_DISABLED": "true"}))
    agent = Agent(ScriptedModel("done"), execution=MemoryEnv(), callbacks=callbacks(told), plugs=[tracing])

    await agent.run("go")

    assert told["llm"].parent_span_id == told["agent"].span_id
    assert [r for r in caplog.records if r.levelname != "INFO"] == []


async def test_a_tracer_without_a_generator_of_ids_leaves_calls_with_ids_of_their_own() -> None:
    recorder, told = Recorder(), dict[str, SpanContext]()
    assert recorder.telemetry.signals is not None
    recorder.telemetry.signals.ids = None
    agent = Agent(
        ScriptedModel(ScriptedCall("look", {"key": "a"}), "done"),
        execution=MemoryEnv(),
        tools=[look],
        callbacks=callbacks(told),
        plugs=[Tracing(recorder.telemetry)],
    )

    await agent.run("go")

    assert told["tool"].parent_span_id == told["agent"].span_id
    assert told["tool"].trace_id == told["agent"].trace_id
