"""Recorded Gemini exchanges: decoding matches a reference reader, and encoding matches the recorded requests."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.errors import ModelError
from mainspring.messages import (
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import GeminiDialect, ModelProfile
from mainspring.models.replay import decode_exchange
from mainspring.models.wire.gemini import GeminiDecoder, encode_request
from tests.unit.models.wire import changed

OWN = Path(__file__).parent / "fixtures" / "gemini"
APIS = ("generate_content", "stream_generate_content")
FILTERED = {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"}
UNUSABLE = {"MALFORMED_FUNCTION_CALL", "OTHER"}
NUMBERS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY"}


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def recorded_exchanges(material: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in load(material / "traffic" / "INDEX.json"):
        if entry["api"] in APIS:
            yield entry["file"], load(material / "traffic" / entry["file"])


# --- the reference reader ----------------------------------------------------------------------------------------------


def parse_objects(body: str) -> list[dict[str, Any]]:
    if body.lstrip()[0] in "[{":
        value = json.loads(body)
        return value if isinstance(value, list) else [value]
    lines = body.replace("\r\n", "\n").split("\n")
    return [json.loads(line[5:]) for line in lines if line.startswith("data:")]


def parts_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    candidates = [c for o in objects for c in o.get("candidates") or [] if not c.get("index")]
    return [part for c in candidates for part in (c.get("content") or {}).get("parts") or []]


def texts_of(parts: list[dict[str, Any]], *, thought: bool) -> str:
    return "".join(part.get("text") or "" for part in parts if bool(part.get("thought")) is thought)


def calls_of(parts: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    calls: list[tuple[str, dict[str, Any], bool]] = []
    for call in [part["functionCall"] for part in parts if "functionCall" in part]:
        if "name" in call:
            calls.append((call["name"], dict(call.get("args") or {}), True))
        for piece in call.get("partialArgs") or []:
            set_path(calls[-1][1], piece)
    return [(name, args) for name, args, _ in calls]


def set_path(args: dict[str, Any], piece: dict[str, Any]) -> None:
    """Write a piece at its JSON path."""
    value = next((piece[k] for k in ("stringValue", "numberValue", "boolValue", "nullValue") if k in piece), None)
    holder: Any = args
    steps = piece["jsonPath"].removeprefix("$").replace("[", ".[").strip(".").split(".")
    for i, step in enumerate(steps):
        key: Any = int(step[1:-1]) if step.startswith("[") else step
        last = i == len(steps) - 1
        if isinstance(key, int):
            while len(holder) <= key:
                holder.append(None)
        current = holder[key] if isinstance(key, int) else holder.get(key)
        if last:
            holder[key] = current + value if isinstance(current, str) and isinstance(value, str) else value
        else:
            if current is None:
                holder[key] = [] if steps[i + 1].startswith("[") else {}
            holder = holder[key]


def finish_reason(objects: list[dict[str, Any]]) -> str:
    found = [c["finishReason"] for o in objects for c in o.get("candidates") or [] if c.get("finishReason")]
    return str(NUMBERS.get(found[-1], found[-1])) if found else ""


def usage_counts(objects: list[dict[str, Any]]) -> dict[str, int]:
    values = [o["usageMetadata"] for o in objects if (o.get("usageMetadata") or {}).get("totalTokenCount")]
    return values[-1] if values else {}


# --- the comparison ----------------------------------------------------------------------------------------------------


def find_differences(exchange: dict[str, Any]) -> list[str]:
    """Return where decoding differs from the reference reader."""
    message, error = decode_exchange(exchange)
    response = exchange["response"]
    if response["status"] != 200:
        return [] if error is not None and error.status == response["status"] else [f"error: {error}"]
    objects = parse_objects(response["body_text"])
    finish, parts = finish_reason(objects), parts_of(objects)
    if finish in FILTERED or any((o.get("promptFeedback") or {}).get("blockReason") for o in objects):
        return [] if error is not None and error.reason == "content_filter" else [f"not filtered: {error}"]
    if finish in UNUSABLE or any("error" in o for o in objects):
        return [] if error is not None else ["no error"]
    if error is not None or message is None:
        return [f"error: {error}"]
    calls = calls_of(parts)
    counts = usage_counts(objects)
    given = [p["functionCall"]["id"] for p in parts if "id" in p.get("functionCall", {})]
    usage = message.usage
    assert usage is not None
    found: list[str] = []
    for what, ours, theirs in (
        ("text", message.text, texts_of(parts, thought=False)),
        ("thinking", message.thinking, texts_of(parts, thought=True)),
        ("calls", [(c.name, c.input) for c in message.tool_uses], calls),
        ("ids", [id for id in given if id not in [c.id for c in message.tool_uses]], []),
        (
            "signatures",
            [c.signature for c in message.tool_uses if c.signature],
            [p["thoughtSignature"] for p in parts if "functionCall" in p and "thoughtSignature" in p],
        ),
        (
            "images",
            [b.data for b in message.content if isinstance(b, ImageBlock)],
            [p["inlineData"]["data"] for p in parts if "inlineData" in p],
        ),
        (
            "stop",
            message.stop_reason,
            "max_tokens" if finish == "MAX_TOKENS" else "tool_use" if calls else "end_turn",
        ),
        ("total", usage.total_tokens, counts["totalTokenCount"]),
        ("cached", usage.cache_read, counts.get("cachedContentTokenCount", 0)),
        ("prompt", usage.prompt_tokens, counts["promptTokenCount"] + counts.get("toolUsePromptTokenCount", 0)),
        ("reasoning", usage.reasoning_tokens, counts.get("thoughtsTokenCount", 0)),
        ("output", usage.output_tokens - usage.reasoning_tokens, counts.get("candidatesTokenCount", 0)),
    ):
        if ours != theirs:
            found.append(f"{what}: {ours!r} is not {theirs!r}")
    return found


@pytest.mark.covers("MOD-03", "MOD-29", "STR-12")
def test_recorded_exchanges_decode_like_the_reference_reader(material: Path) -> None:
    exchanges = list(recorded_exchanges(material))
    wrong = {file: found for file, exchange in exchanges if (found := find_differences(exchange))}

    assert len(exchanges) > 250
    assert wrong == {}


@pytest.mark.covers("MOD-29", "MOD-04")
@pytest.mark.parametrize("path", sorted(OWN.glob("*.json")), ids=lambda path: path.stem)
def test_fixture_exchanges_decode_like_the_reference_reader(path: Path) -> None:
    exchange = load(path)

    assert find_differences(exchange) == []
    assert exchange["origin"]["licence"]
    message, error = decode_exchange(exchange)
    assert error is not None or (message is not None and message.content)


# --- chunk boundaries --------------------------------------------------------------------------------------------------


def decode(body: bytes, cuts: list[int]) -> tuple[list[Any], Message | None, ModelError | None]:
    reader = ResponseReader(GeminiDecoder(ModelProfile(ModelInfo("m", "host"), "http://host")))
    events: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        events += reader.feed(body[start:end])
    events += reader.finish()
    values = [tuple(getattr(e, f) for f in e.__struct_fields__ if f not in ("draft", "message")) for e in events]
    last = events[-1].partial if events else None
    return [(e.type, *fields) for e, fields in zip(events, values, strict=True)], last, reader.error


STREAMS = [path for path in sorted(OWN.glob("*.json")) if load(path)["api"] == "stream_generate_content"]


@pytest.mark.covers("STR-05", "STR-06", "STR-07", "STR-08")
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@settings(max_examples=30)
@given(data=st.data())
def test_stream_events_do_not_depend_on_chunk_boundaries(path: Path, data: st.DataObject) -> None:
    body = load(path)["response"]["body_text"].encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))

    whole, message, error = decode(body, [])
    events, same_message, same_error = decode(body, cuts)

    assert events == whole
    assert (message and message.content) == (same_message and same_message.content)
    assert str(error) == str(same_error)


@pytest.mark.covers("STR-13")
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@settings(max_examples=20)
@given(data=st.data())
def test_truncated_stream_never_completes_without_a_stop_reason(path: Path, data: st.DataObject) -> None:
    body = load(path)["response"]["body_text"].encode()
    part = body[: data.draw(st.integers(0, len(body)))]

    events, _, error = decode(part, [])

    if b"finishReason" not in part:
        assert error is not None
        assert not events or events[-1][0] != "done"
        assert not any(event[0] == "toolcall_end" for event in events)


ANSWERS = [path for path in sorted(OWN.glob("*.json")) if load(path)["response"]["status"] == 200]


@pytest.mark.covers("RET-21")
@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.stem)
@settings(max_examples=40)
@given(data=st.data())
def test_mutated_response_completes_or_raises_a_model_error(path: Path, data: st.DataObject) -> None:
    objects = parse_objects(load(path)["response"]["body_text"])
    at = data.draw(st.integers(0, len(objects) - 1))
    objects[at] = changed(objects[at], data)
    streamed = "".join(f"data: {json.dumps(value)}\r\n\r\n" for value in objects).encode()

    for body in (streamed, json.dumps(objects).encode()):
        events, message, error = decode(body, [])
        assert error is not None or (events[-1][0] == "done" and message is not None and message.content)


# --- requests ----------------------------------------------------------------------------------------------------------


def get_field(fields: dict[str, Any], name: str) -> Any:
    """Return a field in camel case or snake case."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    return fields.get(name, fields.get(snake))


def to_messages(contents: list[dict[str, Any]]) -> list[Message] | None:
    """Return the messages of a recorded request, or ``None`` if messages cannot express it."""
    messages: list[Message] = []
    number, open_ids = 0, dict[str, list[str]]()
    for content in contents:
        blocks: list[Any] = []
        for part in content["parts"]:
            call, result, blob = (get_field(part, n) for n in ("functionCall", "functionResponse", "inlineData"))
            signature = get_field(part, "thoughtSignature")
            if call is not None:
                number += 1
                id = call.get("id") or f"call_made_{number}"
                open_ids.setdefault(call["name"], []).append(id)
                blocks.append(ToolUseBlock(id, call["name"], call.get("args") or {}, None, signature))
            elif result is not None:
                waiting = open_ids.get(result["name"]) or [result.get("id") or ""]
                id = result.get("id") or waiting[0]
                if id in waiting:
                    waiting.remove(id)
                blocks.append(ToolResultBlock(id, result["name"], json.dumps(result["response"])))
            elif blob is not None:
                if not get_field(blob, "mimeType").startswith("image/"):
                    return None
                blocks.append(ImageBlock(get_field(blob, "mimeType"), blob["data"]))
            elif part.get("thought"):
                blocks.append(ThinkingBlock(part.get("text") or "", signature))
            elif (part.get("text") or "").strip():
                blocks.append(TextBlock(part["text"], signature))
            else:
                return None
        if content.get("role") == "model":
            messages.append(Message.assistant(blocks, provider="gemini", model="m"))
        else:
            messages.append(Message.user(blocks))
    return messages


def summarize(contents: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Return the role and the parts of each turn, without what may differ; adjacent turns of one role are joined."""
    turns: list[tuple[str, list[Any]]] = []
    for content in contents:
        role = content.get("role") or "user"
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        for part in content["parts"]:
            call, result, blob = (get_field(part, n) for n in ("functionCall", "functionResponse", "inlineData"))
            if call is not None:
                turns[-1][1].append(("call", call["name"], call.get("args") or {}, get_field(part, "thoughtSignature")))
            elif result is not None:
                turns[-1][1].append(("result", result["name"]))
            elif blob is not None:
                turns[-1][1].append(("image", get_field(blob, "mimeType"), blob["data"]))
            else:
                turns[-1][1].append(("text", part.get("text") or "", bool(part.get("thought"))))
    return turns


@pytest.mark.covers("MOD-39", "PRV-28")
def test_encoded_requests_match_recorded_requests(material: Path) -> None:
    profile = ModelProfile(ModelInfo("m", "gemini"), "http://host", gemini=GeminiDialect(thinking="budget"))
    seen: Counter[str] = Counter()
    for file, exchange in recorded_exchanges(material):
        body = (exchange.get("request") or {}).get("body") or {}
        contents = body.get("contents")
        if not contents or any(c.get("role") not in ("user", "model", None) for c in contents):
            continue
        messages = to_messages(contents)
        if messages is None:
            seen["not ours"] += 1
            continue
        encode = json.loads(encode_request(ModelRequest(messages), profile))
        if summarize(encode["contents"]) != summarize(contents):
            # The only repair: results in the order of their calls, and only for existing calls.
            assert "result" in str(summarize(contents)), file
            seen["repaired"] += 1
            continue
        seen["same"] += 1
        pairs = [p for c in encode["contents"] for p in c["parts"]]
        calls = [p["functionCall"]["id"] for p in pairs if "functionCall" in p]
        assert [p["functionResponse"]["id"] for p in pairs if "functionResponse" in p] == calls, file

    assert seen["same"] > 200
    assert seen["repaired"] <= 5


# --- tools -------------------------------------------------------------------------------------------------------------

DOCUMENTED: frozenset[str] = frozenset(
    "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf "
    "oneOf properties additionalProperties required propertyOrdering default".split()
)
"""The subset that Google documents for parametersJsonSchema, and ``default``, which was accepted when recorded."""

OPENAPI: frozenset[str] = frozenset(
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties anyOf "
    "propertyOrdering items minimum maximum".split()
)


def find_unsupported(schema: Any, allowed: frozenset[str], place: str = "$") -> list[str]:
    """Return what is outside of a documented subset in a schema."""
    if not isinstance(schema, dict):
        return [] if isinstance(schema, bool) and allowed is DOCUMENTED else [f"{place}: {schema!r}"]
    found = find_schema_errors(schema, allowed, place)
    for name in ("properties", "$defs"):
        for key, inner in (schema.get(name) or {}).items():
            found += find_unsupported(inner, allowed, f"{place}.{name}.{key}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            found += find_unsupported(schema[name], allowed, f"{place}.{name}")
    for name in ("anyOf", "oneOf", "prefixItems"):
        for i, inner in enumerate(schema.get(name) or []):
            found += find_unsupported(inner, allowed, f"{place}.{name}[{i}]")
    return found


def find_schema_errors(schema: dict[str, Any], allowed: frozenset[str], place: str) -> list[str]:
    found = [f"{place}.{k}" for k in schema.keys() - allowed]
    if "$ref" in schema:
        found += [f"{place}: {k} beside $ref" for k in schema if not k.startswith("$")]
    if any(not isinstance(c, str | int | float) or isinstance(c, bool) for c in schema.get("enum") or []):
        found.append(f"{place}.enum")
    if allowed is OPENAPI:
        if not isinstance(schema.get("type", ""), str) or ("type" not in schema and "anyOf" not in schema):
            found.append(f"{place}.type")
        if schema.get("type") == "array" and "items" not in schema:
            found.append(f"{place}.items missing")
    return found


@pytest.mark.parametrize("form", ["json", "openapi"])
def test_real_tool_schemas_stay_in_the_gemini_subset(material: Path, form: Any) -> None:
    tools: list[ToolDefinition] = []
    for path in sorted((material / "mcp" / "tools").glob("*.json")):
        listed = load(path)
        listed = listed if isinstance(listed, list) else listed["tools"]
        tools += [ToolDefinition(tool["name"], tool.get("description") or "", tool["inputSchema"]) for tool in listed]
    profile = ModelProfile(ModelInfo("m", "gemini"), "http://host", gemini=GeminiDialect(tool_schema=form))

    encode = json.loads(encode_request(ModelRequest([Message.user("Hi")], tools=tools), profile))
    declared = encode["tools"][0]["functionDeclarations"]
    field, allowed = ("parametersJsonSchema", DOCUMENTED) if form == "json" else ("parameters", OPENAPI)
    wrong = {d["name"]: found for d in declared if field in d and (found := find_unsupported(d[field], allowed))}

    assert len(declared) == len(tools) > 250
    assert wrong == {}
    for tool, declaration in zip(tools, declared, strict=True):
        values = (declaration.get(field) or {}).get("properties") or {}
        assert list(values) == list(tool.input_schema.get("properties") or {})
