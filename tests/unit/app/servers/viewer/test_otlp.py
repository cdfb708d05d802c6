"""Spans that arrive over OTLP."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from mainspring import Agent
from mainspring.app.servers.viewer.otlp import OtlpDecodeError, decode_spans
from mainspring.env import MemoryEnv
from mainspring.messages import Cost, Usage
from mainspring.telemetry import Tracing
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool
from tests.unit.telemetry.recorder import Recorder

SPAN: dict[str, Any] = {
    "traceId": "0AF7651916CD43DD8448EB211C80319C",
    "spanId": "b7ad6b7169203331",
    "parentSpanId": "00f067aa0ba902b7",
    "name": "chat gpt-5-mini",
    "startTimeUnixNano": "1700000000000000000",
    "endTimeUnixNano": 1700000001500000000,
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.request.model", "value": {"stringValue": "gpt-5-mini"}},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "120"}},
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": 7}},
        {"key": "mainspring.usage.cost", "value": {"doubleValue": 0.25}},
        {"key": "gen_ai.output.messages", "value": {"stringValue": '[{"role":"assistant","parts":[]}]'}},
        {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"boolValue": True}]}}},
        {"key": "map", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": 1}}]}}},
    ],
    "events": [{"name": "mainspring.retry", "timeUnixNano": "1700000000500000000", "attributes": []}],
    "status": {"code": 2, "message": "slow down"},
}


def request(*spans: Any, service: str = "shop") -> bytes:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}).encode()


@pytest.mark.covers("TEL-05", "CLI-17")
def test_json_spans_are_decoded() -> None:
    (received,) = decode_spans(request(SPAN), "application/json; charset=utf-8")

    span = received.span
    assert (received.trace, received.service) == ("0af7651916cd43dd8448eb211c80319c", "shop")
    assert (span.id, span.parent, span.kind) == ("b7ad6b7169203331", "00f067aa0ba902b7", "model")
    assert (span.start, span.end) == (1700000000000.0, 1700000001500.0)
    assert (span.input_tokens, span.output_tokens, span.cost, span.model) == (120, 7, 0.25, "gpt-5-mini")
    assert span.error == "slow down"
    assert span.output == [{"role": "assistant", "parts": []}]
    assert span.attributes["list"] == ["a", True]
    assert span.attributes["map"] == {"k": 1}
    assert [(e.name, e.time) for e in span.events] == [("mainspring.retry", 1700000000500.0)]


@tool
async def look(key: str) -> str:
    """Return the key."""
    return key


@pytest.mark.covers("CLI-17")
async def test_protobuf_and_json_of_a_run_decode_alike() -> None:
    recorder = Recorder(sensitive=True)
    usage = Usage(10, 2, cost=Cost(0.5))
    model = ScriptedModel(
        Reply(calls=[ScriptedCall("look", {"key": "a"}, "c1")], usage=usage), Reply("done", usage=usage)
    )
    await Agent(model, execution=MemoryEnv(), tools=[look], plugs=[Tracing(recorder.telemetry)]).run("go")
    message = encode_spans(recorder.spans)

    received = decode_spans(message.SerializeToString(), "application/x-protobuf")

    spans = {r.span.name: r.span for r in received}
    assert spans["invoke_agent agent"].kind == "agent"
    call = spans["execute_tool look"]
    assert (call.kind, call.call, call.input, call.output) == ("tool", "c1", {"key": "a"}, "a")
    assert call.parent == spans["invoke_agent agent"].id
    assert spans["chat scripted-1"].cost == 0.5
    from google.protobuf.json_format import MessageToDict

    as_json: Any = MessageToDict(message)
    for span in as_json["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            span[name] = base64.b64decode(span.get(name, "")).hex()
    again = decode_spans(json.dumps(as_json).encode(), "application/json")
    assert [r.span for r in again] == [r.span for r in received]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b"\xff\xfe", "application/json"),
        (b'{"resourceSpans": {}}', "application/json"),
        (request({"traceId": "12", "spanId": "b7ad6b7169203331"}), "application/json"),
        (request({**SPAN, "startTimeUnixNano": "soon"}), "application/json"),
        (request({**SPAN, "attributes": [{"key": "x", "value": "text"}]}), "application/json"),
        (b"\xff" * 9, "application/x-protobuf"),
        (b"{}", "text/plain"),
        (b"{}", ""),
    ],
)
def test_data_that_is_not_otlp_is_rejected(data: bytes, kind: str) -> None:
    with pytest.raises(OtlpDecodeError):
        decode_spans(data, kind)


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*SPAN, "resourceSpans", "scopeSpans", "spans", "resource", "value", "key"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(any_json)
def test_any_json_is_decoded_or_rejected(value: Any) -> None:
    for data in (
        json.dumps(value).encode(),
        request(value),
        request({**SPAN, "attributes": value, "events": value}),
    ):
        try:
            decode_spans(data, "application/json")
        except OtlpDecodeError:
            pass


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_rejected(data: bytes) -> None:
    for kind in ("application/x-protobuf", "application/json"):
        try:
            decode_spans(data, kind)
        except OtlpDecodeError:
            pass
