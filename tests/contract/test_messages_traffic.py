"""Recorded exchanges of Anthropic Messages: what we decode is what a plain reading of the raw body says, what we send has the
shape of what was sent."""

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


def own_exchanges() -> list[Path]:
    return sorted(OWN.glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


# --- the plain reading -------------------------------------------------------------------------------------------------


def events_of(body: str) -> list[dict[str, Any]]:
    """The events of the answer that counts: up to its end, from where a gateway began it for the last time."""
    lines = [line[5:] for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data:")]
    events = [json.loads(line) for line in lines]
    types = [event["type"] for event in events]
    events = events[: types.index("message_stop") + 1] if "message_stop" in types else events
    starts = [i for i, event in enumerate(events) if event["type"] == "message_start"]
    return events[starts[-1] :]


def answer_of(body: str) -> dict[str, Any]:
    """The message as the host would have sent it at once."""
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


def as_arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        value = json.loads(given)
    except ValueError:
        return given
    return value if isinstance(value, dict) else given


# --- the comparison ----------------------------------------------------------------------------------------------------


def disagreements(exchange: dict[str, Any]) -> list[str]:
    """What we decode otherwise than a plain reading does."""
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
    told = answer["usage"]
    usage = message.usage
    assert usage is not None
    calls = [(b["id"], b["name"], as_arguments(b["input"])) for b in content if b["type"] == "tool_use"]
    stops = {"pause_turn": "end_turn", "compaction": "end_turn", "refusal": None}
    details = told.get("output_tokens_details") or {}
    found: list[str] = []
    for what, ours, theirs in (
        ("text", message.text, "".join(b["text"] for b in content if b["type"] == "text")),
        ("thinking", message.thinking, "".join(b["thinking"] for b in content if b["type"] == "thinking")),
        ("signed", signatures(message), [b.get("signature") or None for b in content if b["type"] == "thinking"]),
        ("redacted", redacted(message), [b["data"] for b in content if b["type"] == "redacted_thinking"]),
        ("calls", calls_as_decoded(message), calls),
        ("stop", message.stop_reason, stops.get(answer["stop_reason"], answer["stop_reason"])),
        ("input", usage.input_tokens, told["input_tokens"]),
        ("output", usage.output_tokens, told["output_tokens"]),
        ("read", usage.cache_read, told.get("cache_read_input_tokens") or 0),
        ("written", usage.cache_write, told.get("cache_creation_input_tokens") or 0),
        ("reasoning", usage.reasoning_tokens, details.get("thinking_tokens") or 0),
    ):
        if ours != theirs:
            found.append(f"{what}: {ours!r} is not {theirs!r}")
    return found


def signatures(message: Message) -> list[str | None]:
    return [block.signature for block in message.content if isinstance(block, ThinkingBlock)]


def redacted(message: Message) -> list[str]:
    blocks = [block.data for block in message.content if isinstance(block, RedactedThinkingBlock)]
    return [data for data in blocks if not data.startswith("{")]


def calls_as_decoded(message: Message) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, c.input if c.raw_input is None else c.raw_input) for c in message.tool_uses]


def recordings(material: Path) -> list[tuple[str, dict[str, Any]]]:
    index = json.loads((material / "traffic" / "INDEX.json").read_text(encoding="utf-8"))
    files = [entry["file"] for entry in index if entry["api"] == "messages"]
    return [(file, load(material / "traffic" / file)) for file in files]


@pytest.mark.covers("MOD-30", "CAC-08", "STR-12")
def test_every_recorded_exchange_is_decoded_as_a_plain_reading_says(material: Path) -> None:
    known = recordings(material)
    wrong = {file: found for file, exchange in known if (found := disagreements(exchange))}

    assert len(known) > 300
    assert wrong == {}


@pytest.mark.covers("MOD-30", "MOD-04", "STR-12")
@pytest.mark.parametrize("path", own_exchanges(), ids=lambda path: path.stem)
def test_own_recordings_are_decoded_as_a_plain_reading_says(path: Path) -> None:
    exchange = load(path)

    assert disagreements(exchange) == []
    assert exchange["origin"]["licence"]
    message, error = decode_exchange(exchange)
    assert error is not None or (message is not None and message.content)


# --- requests ----------------------------------------------------------------------------------------------------------

SERVED = ("server_tool_use", "mcp_tool_use", "compaction")


def unsendable(body: Any) -> str:
    """What a recorded request holds that our messages have no word for; empty if nothing."""
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


def as_message(recorded: dict[str, Any], names: dict[str, str], model: str) -> Message:
    found: list[ContentBlock] = []
    for block in blocks_of(recorded):
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
                inner = as_message({"role": "user", "content": inner}, names, model).content
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
    if recorded["role"] == "user":
        return Message("user", tuple(found))
    return Message("assistant", tuple(found), provider="anthropic", model=model)


def shape(messages: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Roles, blocks, ids, names, arguments, images; neighbours of one role are one message."""
    found: list[tuple[str, list[Any]]] = []
    for message in messages:
        blocks = [seen_as(block) for block in blocks_of(message)]
        blocks = [block for block in blocks if block is not None]
        if found and found[-1][0] == message["role"]:
            found[-1][1].extend(blocks)
        elif blocks:
            found.append((message["role"], blocks))
    return found


def seen_as(block: dict[str, Any]) -> Any:
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
        inner = content if isinstance(content, str) else [seen_as(one) for one in content]
        return kind, block["tool_use_id"], inner, block.get("is_error") is True
    return block


def kind_of(seen: Any) -> str:
    return seen["type"] if isinstance(seen, dict) else seen[0]


def sent(body: dict[str, Any]) -> dict[str, Any]:
    """The request that we make of the conversation in a recorded one."""
    names: dict[str, str] = {}
    system = body.get("system") or ""
    text = system if isinstance(system, str) else "\n\n".join(block["text"] for block in system)
    tools = [t for t in body.get("tools") or [] if "input_schema" in t]
    model = body.get("model") or "claude"
    request = ModelRequest(
        [as_message(message, names, model) for message in body["messages"]],
        system=text,
        tools=[ToolDefinition(t["name"], t.get("description") or "", t["input_schema"]) for t in tools],
        max_output_tokens=body["max_tokens"],
    )
    return json.loads(encode_request(request, ModelProfile(ModelInfo(model, "anthropic"), "recorded")))


@pytest.mark.covers("PRV-27", "PRV-28")
def test_requests_have_the_shape_of_the_recorded_ones(material: Path) -> None:
    compared = 0
    kinds: Counter[str] = Counter()
    for file, exchange in recordings(material):
        body = (exchange.get("request") or {}).get("body")
        if body is None or unsendable(body):
            continue
        ours = sent(body)
        theirs = shape(body["messages"])
        kinds.update(kind_of(block) for _, blocks in theirs for block in blocks)
        compared += 1
        assert shape(ours["messages"]) == theirs, file
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
def test_own_recorded_requests_keep_their_shape() -> None:
    kinds: Counter[str] = Counter()
    for path in own_exchanges():
        body = (load(path).get("request") or {}).get("body")
        if body is not None and not unsendable(body):
            theirs = shape(body["messages"])
            kinds.update(kind_of(block) for _, blocks in theirs for block in blocks)
            assert shape(sent(body)["messages"]) == theirs, path.name

    assert {"text", "image", "tool_use", "tool_result", "thinking", "server_tool_use"} <= set(kinds)


# --- cutting -----------------------------------------------------------------------------------------------------------


def read(body: bytes, cuts: list[int]) -> tuple[list[Any], Message | None, ModelError | None]:
    reader = ResponseReader(AnthropicDecoder(ModelProfile(ModelInfo("m", "host"), "http://host")))
    events: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        events += reader.feed(body[start:end])
    events += reader.finish()
    told = [tuple(getattr(e, f) for f in e.__struct_fields__ if f not in ("draft", "message")) for e in events]
    last = events[-1].partial if events else None
    return [(e.type, *fields) for e, fields in zip(events, told, strict=True)], last, reader.error


STREAMS = [path for path in own_exchanges() if not load(path)["response"]["body_text"].lstrip().startswith("{")]


@pytest.mark.covers("STR-05", "STR-06", "STR-07", "STR-08")
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@settings(max_examples=30)
@given(data=st.data())
def test_a_stream_gives_the_same_events_however_it_is_cut(path: Path, data: st.DataObject) -> None:
    body = load(path)["response"]["body_text"].encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))

    whole, message, error = read(body, [])
    events, same_message, same_error = read(body, cuts)

    assert events == whole
    assert [m and m.content for m in (message,)] == [m and m.content for m in (same_message,)]
    assert str(error) == str(same_error)


@pytest.mark.parametrize("path", STREAMS[:3], ids=lambda path: path.stem)
def test_a_stream_with_other_line_ends_gives_the_same_events_byte_by_byte(path: Path) -> None:
    body = load(path)["response"]["body_text"].encode()
    other = body.replace(b"\n", b"\r\n")

    assert read(other, list(range(1, len(other))))[0] == read(body, [])[0]


@pytest.mark.covers("STR-13")
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@settings(max_examples=20)
@given(data=st.data())
def test_a_stream_that_is_cut_off_never_ends_well_before_its_reason_to_stop(path: Path, data: st.DataObject) -> None:
    body = load(path)["response"]["body_text"].encode()
    part = body[: data.draw(st.integers(0, len(body)))]
    stopped = any("message_delta" in event or "message_stop" in event for event in complete_events(part))

    events, _, error = read(part, [])

    if not stopped:
        assert error is not None
        assert not events or events[-1][0] != "done"


def complete_events(part: bytes) -> Iterator[str]:
    for line in part.decode("utf-8", "ignore").split("\n"):
        try:
            yield json.loads(line.removeprefix("data:"))["type"]
        except (ValueError, TypeError):
            continue


def test_the_replayed_form_is_that_of_all_protocols() -> None:
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
