"""Telemetry helpers for applications, and metrics."""

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import NetworkError
from mainspring.messages import Cost, Usage
from mainspring.run_options import RunOptions
from mainspring.telemetry import Telemetry, TelemetryHelpers, Tracing
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool
from tests.unit.telemetry.recorder import Recorder


@pytest.mark.covers("TEL-07", "TEL-13")
def test_helpers_create_spans_and_record_results() -> None:
    recorder = Recorder(sensitive=True)
    helpers = recorder.telemetry.helpers

    with helpers.start_llm_span("openai", "gpt-5-mini", **{"my.tag": "x"}) as span:
        assert trace.get_current_span() is span.span
        helpers.record_token_usage(span, Usage(10, 5))
        with helpers.start_tool_span("look", "c1") as call:
            helpers.record_tool_result(
                call, success=False, result="nothing sk-ant-api03-" + "a1B2" * 10, error="NOT_FOUND"
            )

    assert recorder.tree == [("chat gpt-5-mini", ""), ("execute_tool look", "chat gpt-5-mini")]
    chat, tool = (s.attributes or {} for s in recorder.spans)
    assert chat["gen_ai.usage.input_tokens"] == 10
    assert chat["my.tag"] == "x"
    assert tool["mainspring.tool.success"] is False
    assert tool["error.type"] == "NOT_FOUND"
    assert tool["gen_ai.tool.call.result"] == "nothing [redacted]"
    assert sum(p.sum for p in recorder.metrics["gen_ai.client.token.usage"]) == 15
    assert helpers.tracer is recorder.telemetry.tracer
    assert helpers.meter is recorder.telemetry.meter


@pytest.mark.covers("TEL-07")
def test_tool_span_of_a_helper_has_the_classic_attributes_too() -> None:
    recorder = Recorder(span_names="classic")

    with recorder.telemetry.helpers.start_tool_span("look") as call:
        recorder.telemetry.helpers.record_tool_result(call, success=True)

    attributes = recorder.span("tool.execute").attributes or {}
    assert (attributes["tool.name"], attributes["tool.result.success"]) == ("look", True)
    seconds, milliseconds = attributes["mainspring.tool.duration"], attributes["duration_ms"]
    assert isinstance(seconds, float)
    assert milliseconds == round(seconds * 1000)


def test_exception_is_recorded_and_raised_again() -> None:
    recorder = Recorder(sensitive=True)

    with pytest.raises(ValueError, match="no"), recorder.telemetry.helpers.start_tool_span("look"):
        raise ValueError("no sk-ant-api03-" + "a1B2" * 10)

    span = recorder.span("execute_tool look")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "no [redacted]"
    assert not span.events


@pytest.mark.covers("ERR-07", "TEL-07")
def test_helpers_do_nothing_if_telemetry_is_off() -> None:
    helpers = TelemetryHelpers(Telemetry(environ={"OTEL_SDK_DISABLED": "1"}).signals)

    with helpers.start_llm_span("openai", "m") as span, helpers.start_tool_span("t") as call:
        helpers.record_token_usage(span, Usage(1, 1))
        helpers.record_tool_result(call, success=True, result="x")

    assert span.span is None


@pytest.mark.covers("ERR-07", "TEL-07")
def test_tracer_and_meter_do_nothing_if_telemetry_is_off() -> None:
    telemetry = Telemetry(environ={"OTEL_SDK_DISABLED": "1"})

    @telemetry.tracer.start_as_current_span("decorated")
    def double(n: int) -> int:
        return 2 * n

    with telemetry.tracer.start_as_current_span("mine") as span:
        span.set_attribute("key", 1)
        span.add_event("said")
        assert not span.is_recording()
    telemetry.helpers.tracer.start_span("another").end()
    telemetry.meter.create_counter("count").add(1)
    telemetry.helpers.meter.create_histogram("seconds").record(0.5, {"a": "b"})

    assert double(2) == 4


pytestmark = pytest.mark.usefixtures("no_blocking")


USAGE = Usage(100, 20, cache_read=50, cost=Cost(0.01, 0.02))


@tool
async def look(key: str) -> str:
    """Look."""
    if key == "bad":
        raise ValueError("bad")
    return key


def find_point(points: list[Any], **expected_attributes: Any) -> Any:
    found = [
        p for p in points if all(p.attributes.get(k.replace("__", ".")) == v for k, v in expected_attributes.items())
    ]
    assert len(found) == 1, points
    return found[0]


@pytest.mark.covers("BYD-30", "TEL-13")
async def test_tokens_durations_and_costs_are_measured() -> None:
    recorder = Recorder()
    calls = [ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "bad"})]
    model = ScriptedModel(
        Reply(calls=calls, usage=USAGE, chunk_count=3), Reply("done, all of it", usage=USAGE, chunk_count=4)
    )
    agent = Agent(model, execution=MemoryEnv(), tools=[look], plugs=[Tracing(recorder.telemetry)])

    await agent.run("go")

    metrics = recorder.metrics
    common = {
        "gen_ai__operation__name": "chat",
        "gen_ai__provider__name": "scripted",
        "gen_ai__request__model": "scripted-1",
    }
    tokens = metrics["gen_ai.client.token.usage"]
    assert find_point(tokens, gen_ai__token__type="input", **common).sum == 300
    assert find_point(tokens, gen_ai__token__type="output", **common).sum == 40
    durations = metrics["gen_ai.client.operation.duration"]
    assert find_point(durations, **common).count == 2
    assert find_point(durations, gen_ai__operation__name="invoke_agent").count == 1
    assert find_point(metrics["gen_ai.client.operation.time_to_first_chunk"], **common).count == 2
    assert find_point(metrics["gen_ai.client.operation.time_per_output_chunk"], **common).count == 2
    assert find_point(metrics["mainspring.usage.cost"], **common).value == pytest.approx(0.06)
    tools = metrics["mainspring.tool.duration"]
    assert {p.attributes.get("error.type"): p.count for p in tools} == {None: 1, "ValueError": 1}


async def test_failed_calls_are_measured_by_error_type() -> None:
    recorder = Recorder()
    agent = Agent(ScriptedModel(NetworkError("cut")), plugs=[Tracing(recorder.telemetry)], execution=MemoryEnv())

    await agent.run("go", behavior=RunOptions(retry=None), raise_errors=False)

    durations = recorder.metrics["gen_ai.client.operation.duration"]
    assert {p.attributes["gen_ai.operation.name"]: p.attributes["error.type"] for p in durations} == {
        "chat": "NETWORK_ERROR",
        "invoke_agent": "NETWORK_ERROR",
    }


async def test_unknown_price_records_no_cost() -> None:
    recorder = Recorder()
    model = ScriptedModel(Reply("done", usage=Usage(10, 2)))
    agent = Agent(model, plugs=[Tracing(recorder.telemetry)], execution=MemoryEnv())

    await agent.run("go")

    assert "mainspring.usage.cost" not in recorder.metrics
    assert "mainspring.usage.cost" not in (recorder.span("chat scripted-1").attributes or {})
