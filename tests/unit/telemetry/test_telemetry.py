"""Spans for an application's own calls."""

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from mainspring.messages import Usage
from mainspring.telemetry import Telemetry, TelemetryHelpers
from tests.unit.telemetry.recorder import Recorder


@pytest.mark.covers("TEL-07", "TEL-13")
def test_helpers_make_spans_and_record_what_came_of_them() -> None:
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


def test_what_is_raised_is_noted_and_goes_on() -> None:
    recorder = Recorder(sensitive=True)

    with pytest.raises(ValueError, match="no"), recorder.telemetry.helpers.start_tool_span("look"):
        raise ValueError("no sk-ant-api03-" + "a1B2" * 10)

    span = recorder.span("execute_tool look")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "no [redacted]"
    assert not span.events


@pytest.mark.covers("ERR-07", "TEL-07")
def test_where_telemetry_is_off_helpers_do_nothing() -> None:
    helpers = TelemetryHelpers(Telemetry(environ={"OTEL_SDK_DISABLED": "1"}).signals)

    with helpers.start_llm_span("openai", "m") as span, helpers.start_tool_span("t") as call:
        helpers.record_token_usage(span, Usage(1, 1))
        helpers.record_tool_result(call, success=True, result="x")

    assert span.span is None


@pytest.mark.covers("ERR-07", "TEL-07")
def test_where_telemetry_is_off_tracer_and_meter_do_nothing() -> None:
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
