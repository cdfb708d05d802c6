"""Spans, metrics, and events that a real receiver gets over OTLP follow the published conventions."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mainspring.telemetry import Telemetry, TelemetryOptions, conventions as names
from tests.contract.telemetry_scenario import run_scenario
from tests.unit.telemetry.receiver import Receiver, attributes

VERSIONS = ("semconv-1.41.1", "semconv-genai-2026-05-11")
CHECKED = {
    "invoke_agent": "gen_ai.invoke_agent.internal",
    "chat": "gen_ai.inference.client",
    "execute_tool": "gen_ai.execute_tool.internal",
}

ABSENT = {
    # Recommended or conditionally required attributes that are missing, with the reason.
    "gen_ai.response.id": "the id of an answer at its provider is not kept in a message",
    "gen_ai.request.top_p": "no request has it",
    "gen_ai.request.top_k": "no request has it",
    "gen_ai.request.seed": "no request has it",
    "gen_ai.request.choice.count": "always one, and then it is left out",
    "gen_ai.request.frequency_penalty": "no request has it",
    "gen_ai.request.presence_penalty": "no request has it",
    "gen_ai.agent.description": "an agent has none",
    "gen_ai.agent.version": "an agent has none",
    "gen_ai.data_source.id": "there is none",
}
CONDITIONAL = {
    # Set only if there is a value; some or all spans of this conversation have none.
    "error.type", "gen_ai.agent.id", "gen_ai.conversation.id", "gen_ai.output.type", "gen_ai.request.temperature",
    "gen_ai.request.stop_sequences", "gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.reasoning.output_tokens", "server.address", "server.port", "gen_ai.response.time_to_first_chunk",
    "gen_ai.response.finish_reasons", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.response.model",
    "gen_ai.request.max_tokens", "gen_ai.tool.description", "gen_ai.output.messages",
}  # fmt: skip
KINDS = {"client": "SPAN_KIND_CLIENT", "internal": "SPAN_KIND_INTERNAL"}
TYPES: dict[str, Any] = {
    "string": str, "enum": str, "int": int, "double": (int, float), "boolean": bool, "string[]": list, "any": str
}  # fmt: skip


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Receiver:
    with Receiver() as receiver:
        options = TelemetryOptions(endpoint=receiver.endpoint, sensitive=True, content="both", close_seconds=60.0)
        telemetry = Telemetry(options, environ={})
        asyncio.run(run_scenario(telemetry, tmp_path_factory.mktemp("mcp")))
        assert telemetry.close()
    return receiver


def load_conventions(material: Path, version: str, what: str) -> dict[str, Any]:
    found = json.loads((material / "otel" / version / f"{what}.json").read_text())
    return {item["id"].partition(":")[2] or item["id"].partition(".")[2]: item for item in found}


def find_differences(material: Path, version: str, spans: list[Any]) -> list[str]:
    """Return where spans differ from the conventions."""
    published = load_conventions(material, version, "spans")
    found: list[str] = []
    for span in spans:
        operation = attributes(span).get("gen_ai.operation.name")
        if operation in CHECKED:
            found += [f"{span['name']}: {what}" for what in _span_differences(span, published[CHECKED[operation]])]
    return sorted(set(found))


def _span_differences(span: Any, convention: Any) -> Iterator[str]:
    facts, by_name = attributes(span), {a["name"]: a for a in convention["attributes"]}
    if span["kind"] != KINDS[convention["span_kind"]]:
        yield f"its kind is {span['kind']}"
    for name, attribute in by_name.items():
        if name not in facts and attribute["requirement_level"] == "required":
            yield f"{name} is missing"
        elif name not in facts and name not in ABSENT and name not in CONDITIONAL:
            yield f"{name} is not told"
    for name, value in facts.items():
        if name.startswith(("mainspring.", "mcp.")):
            continue
        if name not in by_name:
            yield f"{name} is none of the conventions"
        elif not isinstance(value, TYPES[by_name[name]["type"]]):
            yield f"{name} is {type(value).__name__}"
    if facts["gen_ai.operation.name"] not in by_name["gen_ai.operation.name"]["enum"]:
        yield f"{facts['gen_ai.operation.name']} is no operation"
    if (span.get("status", {}).get("code") == "STATUS_CODE_ERROR") != ("error.type" in facts):
        yield "error.type and status do not agree"


@pytest.mark.parametrize("version", VERSIONS)
def test_spans_follow_the_conventions(material: Path, version: str, received: Receiver) -> None:
    assert find_differences(material, version, received.spans) == []


@pytest.mark.covers("TEL-11")
def test_span_tree_is_complete(received: Receiver) -> None:
    by_id = {s["spanId"]: s for s in received.spans}
    tree = sorted(
        (s["name"], by_id[s["parentSpanId"]]["name"] if s.get("parentSpanId") else "") for s in received.spans
    )

    assert tree == [
        ("chat gpt-5-mini", "invoke_agent assistant"),
        ("chat gpt-5-mini", "invoke_agent assistant"),
        ("chat gpt-5-mini", "invoke_agent assistant"),
        ("chat gpt-5-mini", "invoke_agent assistant"),
        ("chat scripted-1", "invoke_agent scout"),
        ("chat scripted-1", "invoke_agent scout"),
        ("execute_tool hang", "invoke_agent assistant"),
        ("execute_tool look", "invoke_agent assistant"),
        ("execute_tool look", "invoke_agent assistant"),
        ("execute_tool look", "invoke_agent assistant"),
        ("execute_tool look", "invoke_agent scout"),
        ("execute_tool mcp__sky__weather", "invoke_agent assistant"),
        ("execute_tool spawn", "invoke_agent assistant"),
        ("initialize", "mcp.bootstrap"),
        ("invoke_agent assistant", ""),
        ("invoke_agent assistant", ""),
        ("invoke_agent scout", "execute_tool spawn"),
        ("mcp.bootstrap", "invoke_agent assistant"),
    ]
    calls = {attributes(s).get("gen_ai.tool.call.id"): attributes(s) for s in received.spans}
    assert [calls[c].get("error.type") for c in ("c1", "c2", "c3", "c4", "c5")] == [
        None, "NOT_FOUND", "PERMISSION_DENIED", None, None
    ]  # fmt: skip
    assert calls["c5"]["mcp.method.name"] == "tools/call"
    assert calls["c6"]["mainspring.tool.success"] is False
    first = next(s for s in received.spans if s["name"] == "chat gpt-5-mini" and s.get("events"))
    assert [e["name"] for e in first["events"]] == ["mainspring.retry"]
    aborted = [s for s in received.spans if attributes(s).get("error.type") == "aborted"]
    assert "invoke_agent assistant" in [s["name"] for s in aborted]


@pytest.mark.parametrize("version", VERSIONS)
def test_metrics_follow_the_conventions(material: Path, version: str, received: Receiver) -> None:
    published = {m["name"]: m for m in json.loads((material / "otel" / version / "metrics.json").read_text())}
    ours = {m["name"]: m for m in received.metrics}

    assert {n for n in ours if not n.startswith("mainspring.")} == {
        names.TOKEN_USAGE[0], names.DURATION[0], names.FIRST_CHUNK[0], names.PER_CHUNK[0], names.MCP_DURATION[0]
    }  # fmt: skip
    for name, metric in ours.items():
        if name.startswith("mainspring."):
            continue
        convention = published[name]
        assert convention["instrument"] == "histogram"
        assert metric["unit"] == convention["unit"]
        by_name = {a["name"]: a for a in convention["attributes"]}
        required = {n for n, a in by_name.items() if a["requirement_level"] == "required"}
        for point in metric["histogram"]["dataPoints"]:
            facts = attributes(point)
            assert required <= facts.keys(), name
            assert {n for n in facts if not n.startswith("mainspring.")} <= by_name.keys(), name
            assert facts.get("gen_ai.token.type") in {None, "input", "output"}


def test_events_follow_the_conventions(material: Path, received: Receiver) -> None:
    published = {e["name"]: e for e in json.loads((material / "otel" / VERSIONS[1] / "events.json").read_text())}

    assert {e["eventName"] for e in received.logs} == {names.DETAILS_EVENT, names.EXCEPTION_EVENT}
    for event in received.logs:
        assert event["eventName"] in published
        assert event["traceId"]
        assert event["spanId"]
        if event["eventName"] == names.EXCEPTION_EVENT:
            assert event["severityNumber"] == "SEVERITY_NUMBER_WARN"
            assert attributes(event)["exception.type"] == "RateLimitedError"


@pytest.mark.parametrize("version", VERSIONS)
def test_content_follows_the_conventions(material: Path, version: str, received: Receiver) -> None:
    schemas = {
        f"gen_ai.{name.replace('-', '.')}" if "-messages" in name else f"gen_ai.{name.replace('-', '_')}": json.loads(
            (material / "otel" / version / f"gen-ai-{name}.json").read_text()
        )
        for name in ("input-messages", "output-messages", "system-instructions")
    }
    definitions = json.loads((material / "otel" / version / "gen-ai-tool-definitions.json").read_text())
    definitions["$defs"]["FunctionToolDefinition"]["properties"]["parameters"] = {}  # would be fetched from the network
    schemas["gen_ai.tool.definitions"] = definitions
    seen: set[str] = set()
    for span in received.spans:
        for name, value in attributes(span).items():
            if name in schemas:
                seen.add(name)
                jsonschema.validate(json.loads(value), schemas[name])

    assert seen == schemas.keys()
