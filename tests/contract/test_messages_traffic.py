"""Recorded Anthropic Messages exchanges: decoding matches a reference reader, and encoding matches the recorded requests."""

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
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.replay import decode_exchange, decode_exchange_to_dict
from mainspring.models.wire.anthropic import AnthropicDecoder, encode_request

OWN = Path(__file__).parent / "fixtures" / "messages"


def fixture_files() -> list[Path]:
    return sorted(OWN.glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


# --- the reference reader ----------------------------------------------------------------------------------------------


def events_of(body: str) -> list[dict[str, Any]]:
    """Return the events of the last response, from the last start that a gateway sent up to the end."""
    lines = [line[5:] for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data:")]
    events = [json.loads(line) for line in lines]
    types = [event["type"] for event in events]
    events = events[: types.index("message_stop") + 1] if "message_stop" in types else events
    starts = [i for i, event in enumerate(events) if event["type"] == "message_start"]
    return events[starts[-1] :]


def answer_of(body: str) -> dict[str, Any]:
    """Return the message as the host would send it without streaming."""
    if body.lstrip().startswith("{"):
        return json.loads(body)
    events = events_of(body)
    message: dict[str, Any] = {**events[0]["message"], "usage": dict(events[0]["message"]["usage"])}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in events[1:]:
        kind = event["type"]
        if kind == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            for name in ("text", "thinking", "signature", "content"):
                if name in delta:
                    block[name] = (block.get(name) or "") + delta[name]
            inputs[event["index"]] = inputs.get(event["index"], "") + delta.get("partial_json", "")
        elif kind == "message_delta":
            message["stop_reason"] = event["delta"]["stop_reason"]
            message["usage"].update({k: v for k, v in event["usage"].items() if v})
    for index, text in inputs.items():
        if text:
            blocks[index]["input"] = text
    message["content"] = [blocks[index] for index in sorted(blocks)]
    return message


def decode_arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        value = json.loads(given)
    except ValueError:
        return given
    return value if isinstance(value, dict) else given


# --- the comparison ----------------------------------------------------------------------------------------------------


def find_differences(exchange: dict[str, Any]) -> list[str]:
    """Return where decoding differs from the reference reader."""
    message, error = decode_exchange(exchange)
    response = exchange["response"]
    if response["status"] != 200:
        return [] if error is not None and error.status == response["status"] else [f"error: {error}"]
    answer = answer_of(response["body_text"])
    if answer["stop_reason"] == "refusal":
        rejected = error is not None and error.reason == "content_filter"
        message = error.partial if error is not None else None
        if not rejected or message is None:
            return [f"refusal: {error}"]
    elif error is not None or message is None:
        return [f"error: {error}"]
    content = answer["content"]
    values = answer["usage"]
    usage = message.usage
    assert usage is not None
    calls = [(b["id"], b["name"], decode_arguments(b["input"])) for b in content if b["type"] == "tool_use"]
    stops = {"pause_turn": "end_turn", "compaction": "end_turn", "refusal": None}
    details = values.get("output_tokens_details") or {}
    found: list[str] = []
    for what, ours, theirs in (
        ("text", message.text, "".join(b["text"] for b in content if b["type"] == "text")),
        ("thinking", message.thinking, "".join(b["thinking"] for b in content if b["type"] == "thinking")),
        (
            "signed",
            thinking_signatures(message),
            [b.get("signature") or None for b in content if b["type"] == "thinking"],
        ),
        ("redacted", redacted_data(message), [b["data"] for b in content if b["type"] == "redacted_thinking"]),
        ("calls", decoded_calls(message), calls),
        ("stop", message.stop_reason, stops.get(answer["stop_reason"], answer["stop_reason"])),
        ("input", usage.input_tokens, values["input_tokens"]),
        ("output", usage.output_tokens, values["output_tokens"]),
        ("read", usage.cache_read, values.get("cache_read_input_tokens") or 0),
        ("written", usage.cache_write, values.get("cache_creation_input_tokens") or 0),
        ("reasoning", usage.reasoning_tokens, details.get("thinking_tokens") or 0),
    ):
        if ours != theirs:
            found.append(f"{what}: {ours!r} is not {theirs!r}")
    return found


def thinking_signatures(message: Message) -> list[str | None]:
    return [block.signature for block in message.content if isinstance(block, ThinkingBlock)]


def redacted_data(message: Message) -> list[str]:
    blocks = [block.data for block in message.content if isinstance(block, RedactedThinkingBlock)]
    return [data for data in blocks if not data.startswith("{")]


def decoded_calls(message: Message) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, c.input if c.raw_input is None else c.raw_input) for c in message.tool_uses]


def recorded_exchanges(material: Path) -> list[tuple[str, dict[str, Any]]]:
    index = json.loads((material / "traffic" / "INDEX.json").read_text(encoding="utf-8"))
    files = [entry["file"] for entry in index if entry["api"] == "messages"]
    return [(file, load(material / "traffic" / file)) for file in files]


@pytest.mark.covers("MOD-30", "CAC-08", "STR-12")
def test_recorded_exchanges_decode_like_the_reference_reader(material: Path) -> None:
    exchanges = recorded_exchanges(material)
    wrong = {file: found for file, exchange in exchanges if (found := find_differences(exchange))}

    assert len(exchanges) > 300
    assert wrong == {}


@pytest.mark.covers("MOD-30", "MOD-04", "STR-12")
@pytest.mark.parametrize("path", fixture_files(), ids=lambda path: path.stem)
def test_fixture_exchanges_decode_like_the_reference_reader(path: Path) -> None:
    exchange = load(path)

    assert find_differences(exchange) == []
    assert exchange["origin"]["licence"]
    message, error = decode_exchange(exchange)
    assert error is not None or (message is not None and message.content)


# --- requests ----------------------------------------------------------------------------------------------------------

SERVED = ("server_tool_use", "mcp_tool_use", "compaction")


def find_unsupported_part(body: Any) -> str:
    """Return what messages cannot express in a recorded request; empty if nothing."""
    if not isinstance(body, dict) or not all(isinstance(m, dict) for m in body["messages"]):
        return "no readable body"
    called: set[str] = set()
    for message in body["messages"]:
        called |= {block["id"] for block in blocks_of(message) if block["type"] == "tool_use"}
        if any(b["type"] == "tool_result" and b["tool_use_id"] not in called for b in blocks_of(message)):
            return "result of a call that nobody made"
        if message["role"] == "system":
            return "system message inside the conversation"
        for block in blocks_of(message):
            inner = block.get("content") if block["type"] == "tool_result" else None
            for one in (block, *(inner if isinstance(inner, list) else ())):
                if one["type"] in ("document", "container_upload", "tool_reference"):
                    return one["type"]
                if one["type"] == "image" and one["source"]["type"] != "base64":
                    return "image by reference"
    return ""


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def to_message(recorded_exchanges: dict[str, Any], names: dict[str, str], model: str) -> Message:
    found: list[ContentBlock] = []
    for block in blocks_of(recorded_exchanges):
        kind = block["type"]
        if kind == "text":
            found.append(TextBlock(block["text"]))
        elif kind == "image":
            found.append(ImageBlock(block["source"]["media_type"], block["source"]["data"]))
        elif kind == "thinking":
            found.append(ThinkingBlock(block["thinking"], block["signature"]))
        elif kind == "redacted_thinking":
            found.append(RedactedThinkingBlock(block["data"]))
        elif kind == "tool_use":
            names[block["id"]] = block["name"]
            caller = block.get("caller", {"type": "direct"})
            mark = None if caller["type"] == "direct" else json.dumps(caller)
            found.append(ToolUseBlock(block["id"], block["name"], block["input"], signature=mark))
        elif kind == "tool_result":
            inner = block.get("content") or ""
            if not isinstance(inner, str):
                inner = to_message({"role": "user", "content": inner}, names, model).content
            found.append(
                ToolResultBlock(
                    block["tool_use_id"],
                    names.get(block["tool_use_id"], ""),
                    inner,  # pyright: ignore[reportArgumentType] - results hold text and images only
                    is_error=block.get("is_error") is True,
                )
            )
        else:
            found.append(RedactedThinkingBlock(json.dumps(block)))
    if recorded_exchanges["role"] == "user":
        return Message("user", tuple(found))
    return Message("assistant", tuple(found), provider="anthropic", model=model)


def summarize(messages: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Return roles, blocks, IDs, names, arguments, and images; adjacent messages of one role are joined."""
    found: list[tuple[str, list[Any]]] = []
    for message in messages:
        blocks = [summarize_block(block) for block in blocks_of(message)]
        blocks = [block for block in blocks if block is not None]
        if found and found[-1][0] == message["role"]:
            found[-1][1].extend(blocks)
        elif blocks:
            found.append((message["role"], blocks))
    return found


def summarize_block(block: dict[str, Any]) -> Any:
    kind = block["type"]
    if kind == "text":
        return (kind, block["text"]) if block["text"].strip() else None
    if kind == "image":
        return kind, block["source"]["media_type"], block["source"]["data"]
    if kind == "tool_use":
        caller = block.get("caller", {"type": "direct"})
        return kind, block["id"], block["name"], block["input"], None if caller["type"] == "direct" else caller
    if kind == "tool_result":
        content = block.get("content") or "(no output)"
        inner = content if isinstance(content, str) else [summarize_block(one) for one in content]
        return kind, block["tool_use_id"], inner, block.get("is_error") is True
    return block


def kind_of(seen: Any) -> str:
    return seen["type"] if isinstance(seen, dict) else seen[0]


def encode(body: dict[str, Any]) -> dict[str, Any]:
    """Encode the conversation of a recorded request."""
    names: dict[str, str] = {}
    system = body.get("system") or ""
    text = system if isinstance(system, str) else "\n\n".join(block["text"] for block in system)
    tools = [t for t in body.get("tools") or [] if "input_schema" in t]
    model = body.get("model") or "claude"
    request = ModelRequest(
        [to_message(message, names, model) for message in body["messages"]],
        system=text,
        tools=[ToolDefinition(t["name"], t.get("description") or "", t["input_schema"]) for t in tools],
        max_output_tokens=body["max_tokens"],
    )
    return json.loads(encode_request(request, ModelProfile(ModelInfo(model, "anthropic"), "recorded")))


@pytest.mark.covers("PRV-27", "PRV-28")
def test_encoded_requests_match_recorded_requests(material: Path) -> None:
    compared = 0
    kinds: Counter[str] = Counter()
    for file, exchange in recorded_exchanges(material):
        body = (exchange.get("request") or {}).get("body")
        if body is None or find_unsupported_part(body):
            continue
        ours = encode(body)
        theirs = summarize(body["messages"])
        kinds.update(kind_of(block) for _, blocks in theirs for block in blocks)
        compared += 1
        assert summarize(ours["messages"]) == theirs, file
        assert [t["name"] for t in ours.get("tools", [])] == [
            t["name"] for t in body.get("tools") or [] if "input_schema" in t
        ], file
        assert all(a["role"] != b["role"] for a, b in zip(ours["messages"], ours["messages"][1:], strict=False)), file

    assert compared > 200
    assert kinds["tool_use"] > 50
    assert kinds["tool_result"] > 50
    assert kinds["image"] > 3
    assert kinds["thinking"] > 3


@pytest.mark.covers("PRV-27", "PRV-28")
def test_fixture_requests_keep_their_structure() -> None:
    kinds: Counter[str] = Counter()
    for path in fixture_files():
        body = (load(path).get("request") or {}).get("body")
        if body is not None and not find_unsupported_part(body):
            theirs = summarize(body["messages"])
            kinds.update(kind_of(block) for _, blocks in theirs for block in blocks)
            assert summarize(encode(body)["messages"]) == theirs, path.name

    assert {"text", "image", "tool_use", "tool_result", "thinking", "server_tool_use"} <= set(kinds)


# --- chunk boundaries --------------------------------------------------------------------------------------------------


def decode(body: bytes, cuts: list[int]) -> tuple[list[Any], Message | None, ModelError | None]:
    reader = ResponseReader(AnthropicDecoder(ModelProfile(ModelInfo("m", "host"), "http://host")))
    events: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        events += reader.feed(body[start:end])
    events += reader.finish()
    values = [tuple(getattr(e, f) for f in e.__struct_fields__ if f not in ("draft", "message")) for e in events]
    last = events[-1].partial if events else None
    return [(e.type, *fields) for e, fields in zip(events, values, strict=True)], last, reader.error


STREAMS = [path for path in fixture_files() if not load(path)["response"]["body_text"].lstrip().startswith("{")]


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
    assert [m and m.content for m in (message,)] == [m and m.content for m in (same_message,)]
    assert str(error) == str(same_error)


@pytest.mark.parametrize("path", STREAMS[:3], ids=lambda path: path.stem)
def test_stream_events_are_the_same_with_crlf_line_ends(path: Path) -> None:
    body = load(path)["response"]["body_text"].encode()
    other = body.replace(b"\n", b"\r\n")

    assert decode(other, list(range(1, len(other))))[0] == decode(body, [])[0]


@pytest.mark.covers("STR-13")
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@settings(max_examples=20)
@given(data=st.data())
def test_truncated_stream_never_completes_without_a_stop_reason(path: Path, data: st.DataObject) -> None:
    body = load(path)["response"]["body_text"].encode()
    part = body[: data.draw(st.integers(0, len(body)))]
    stopped = any("message_delta" in event or "message_stop" in event for event in complete_events(part))

    events, _, error = decode(part, [])

    if not stopped:
        assert error is not None
        assert not events or events[-1][0] != "done"


def complete_events(part: bytes) -> Iterator[str]:
    for line in part.decode("utf-8", "ignore").split("\n"):
        try:
            yield json.loads(line.removeprefix("data:"))["type"]
        except (ValueError, TypeError):
            continue


def test_replayed_exchange_has_the_common_fields() -> None:
    answer = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "S"},
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 6},
    }
    response = {"status": 200, "headers": {}, "body_text": json.dumps(answer)}

    assert decode_exchange_to_dict(
        {"provider": "anthropic", "api": "messages", "response": response}, file="f.json"
    ) == {
        "file": "f.json",
        "text": "Looking.",
        "thinking": "Hm.",
        "tool_calls": [{"id": "c1", "name": "look", "arguments": {"at": "x"}}],
        "usage": {
            "input_tokens": 10,
            "output_tokens": 4,
            "cache_read": 6,
            "cache_write": 0,
            "reasoning_tokens": 0,
            "prompt_tokens": 16,
            "total_tokens": 20,
        },
        "stop_reason": "tool_use",
        "error": None,
    }
