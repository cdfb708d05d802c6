"""Recorded exchanges of the Responses protocol: decoding matches a reference reader of the raw body."""

import json
import sys
from collections import Counter
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
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile, ResponsesCapabilities
from mainspring.models.replay import decode_exchange
from mainspring.models.wire.openai_responses import ResponsesDecoder, encode_request
from mainspring.models.wire.openai_responses.payloads import encode_item_metadata

OWN = Path(__file__).parent / "fixtures" / "responses"
FAILED = ("error", "response.failed")


def fixture_files() -> list[Path]:
    return sorted(OWN.glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


# --- the reference reader ----------------------------------------------------------------------------------------------


def parse_objects(body: str) -> list[dict[str, Any]]:
    if not body.lstrip().startswith(("data:", ":", "event:")):
        return [json.loads(body)]
    lines = [line[5:].strip() for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data:")]
    objects = [json.loads(line) for line in lines if line != "[DONE]"]
    ends = [at for at, value in enumerate(objects) if value.get("type", "").endswith((".completed", ".incomplete"))]
    ends = [at for at in ends if "response" in objects[at]]
    return objects[: ends[0] + 1] if ends else objects  # one file contains four responses in a row


def items_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the finished items, sent one by one or with the finished response."""
    done = [value["item"] for value in objects if value.get("type") == "response.output_item.done"]
    last = objects[-1].get("response") or objects[-1]
    return done or last.get("output") or []


def texts(parts: Any) -> str:
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts or [])


def text_of(items: list[dict[str, Any]]) -> str:
    return "".join(texts(item["content"]) for item in items if item.get("role") == "assistant")


def thinking_of(items: list[dict[str, Any]]) -> str:
    reasoning = [item for item in items if item.get("type") == "reasoning"]
    return "".join(texts(item.get("summary")) + texts(item.get("content")) for item in reasoning)


def calls_of(items: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    calls: list[tuple[str, str, Any]] = []
    for item in items:
        if item.get("type") == "function_call":
            calls.append((item["call_id"], item["name"], decode_arguments(item["arguments"])))
        elif item.get("type") == "custom_tool_call":
            calls.append((item["call_id"], item["name"], {"input": item["input"]}))
    return calls


def decode_arguments(arguments: str) -> Any:
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


# --- the comparison ----------------------------------------------------------------------------------------------------


def find_differences(exchange: dict[str, Any]) -> list[str]:
    """Return where decoding differs from the reference reader."""
    message, error = decode_exchange(exchange)
    response = exchange["response"]
    if response["status"] != 200:
        return [] if error is not None and error.status == response["status"] else [f"error: {error}"]
    objects = parse_objects(response["body_text"])
    last = objects[-1].get("response") or objects[-1]
    if any(o.get("type") in FAILED or (o.get("error") and "type" not in o) for o in objects):
        return [] if error is not None else ["no error"]
    if "output" not in last or last.get("status") in ("queued", "in_progress"):
        return [] if error is not None else ["no error for what is no answer"]
    if error is not None or message is None:
        return [f"error: {error}"]
    items = items_of(objects)
    limited = (last.get("incomplete_details") or {}).get("reason") == "max_output_tokens"
    calls = calls_of(items)
    found = [
        f"{what}: {ours!r} is not {theirs!r}"
        for what, ours, theirs in (
            ("text", message.text, text_of(items)),
            ("thinking", message.thinking, thinking_of(items)),
            ("calls", decoded_calls(message), calls),
            ("stop", message.stop_reason, "max_tokens" if limited else "tool_use" if calls else "end_turn"),
        )
        if ours != theirs
    ]
    return found + find_usage_differences(message, last.get("usage"))


def find_usage_differences(message: Message, raw: dict[str, Any] | None) -> list[str]:
    usage = message.usage
    if raw is None or usage is None:
        return [] if raw is None and usage is None else ["usage lost or made up"]
    values = {
        "total": (usage.total_tokens, raw["total_tokens"]),
        "prompt": (usage.prompt_tokens, raw["input_tokens"]),
        "output": (usage.output_tokens, raw["output_tokens"]),
        "cached": (usage.cache_read, (raw.get("input_tokens_details") or {}).get("cached_tokens") or 0),
        "reasoning": (usage.reasoning_tokens, (raw.get("output_tokens_details") or {}).get("reasoning_tokens") or 0),
    }
    return [f"{what}: {ours} is not {theirs}" for what, (ours, theirs) in values.items() if ours != theirs]


def decoded_calls(message: Message) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, c.input if c.raw_input is None else c.raw_input) for c in message.tool_uses]


@pytest.mark.covers("MOD-29", "PRV-10")
def test_recorded_exchanges_decode_like_the_reference_reader(material: Path) -> None:
    index = json.loads((material / "traffic" / "INDEX.json").read_text(encoding="utf-8"))
    files = [entry["file"] for entry in index if entry["api"] == "responses"]
    wrong = {file: found for file in files if (found := find_differences(load(material / "traffic" / file)))}

    sys.stdout.write(f"\nresponses: {len(files)} exchanges, {len(files) - len(wrong)} agree\n")
    assert len(files) > 350
    assert wrong == {}


@pytest.mark.covers("MOD-29", "MOD-04", "PRV-10")
@pytest.mark.parametrize("path", fixture_files(), ids=lambda path: path.stem)
def test_fixture_exchanges_decode_like_the_reference_reader(path: Path) -> None:
    exchange = load(path)

    assert find_differences(exchange) == []
    assert exchange["origin"]["licence"]
    message, error = decode_exchange(exchange)
    assert error is not None or (message is not None and message.content)


# --- requests ----------------------------------------------------------------------------------------------------------


def blocks_of(content: Any) -> list[TextBlock | ImageBlock]:
    if isinstance(content, str):
        return [TextBlock(content)]
    blocks: list[TextBlock | ImageBlock] = []
    for part in content:
        if part["type"] in ("input_text", "output_text", "text"):
            blocks.append(TextBlock(part["text"]))
        elif part["type"] == "input_image" and part["image_url"].startswith("data:"):
            media, _, data = part["image_url"].removeprefix("data:").partition(";base64,")
            blocks.append(ImageBlock(media, data))
        else:
            raise LookupError(part["type"])
    return blocks


def to_messages(items: list[dict[str, Any]]) -> list[Message]:
    """Return a recorded conversation as messages; raise LookupError if messages cannot express it."""
    messages: list[Message] = []
    pending: list[ContentBlock] = []

    def flush_turn() -> None:
        if pending:
            messages.append(Message("assistant", tuple(pending), provider="host", model="m"))
            pending.clear()

    results: list[ContentBlock] = []
    for item in items:
        kind = item.get("type", "message")
        if kind != "function_call_output" and results:
            messages.append(Message("user", tuple(results)))
            results.clear()
        if kind == "reasoning":
            parts = [("summary", part["text"]) for part in item["summary"]]
            parts += [("raw", part["text"]) for part in item.get("content") or []]
            for at, (part, text) in enumerate(parts or [("summary", "")]):
                mark: dict[str, Any] = {"part": part}
                if at >= len(parts) - 1:
                    mark = {k: item[k] for k in ("type", "id", "encrypted_content") if item.get(k)}
                    mark["raw"] = part == "raw" or None
                pending.append(ThinkingBlock(text, encode_item_metadata(**mark)))
        elif kind == "function_call":
            metadata = encode_item_metadata(id=item.get("id"), namespace=item.get("namespace"))
            pending.append(
                ToolUseBlock(item["call_id"], item["name"], json.loads(item["arguments"] or "{}"), None, metadata)
            )
        elif kind == "function_call_output":
            flush_turn()
            output = item["output"]
            results.append(
                ToolResultBlock(
                    item["call_id"], content=output if isinstance(output, str) else tuple(blocks_of(output))
                )
            )
        elif kind == "message" and item["role"] == "assistant":
            pending += [
                TextBlock(b.text, encode_item_metadata(id=item.get("id"), phase=item.get("phase")))
                for b in blocks_of(item["content"])
                if isinstance(b, TextBlock)
            ]
        elif kind == "message":
            flush_turn()
            role = "system" if item["role"] in ("system", "developer") else "user"
            messages.append(Message(role, tuple(blocks_of(item["content"]))))
        else:
            raise LookupError(kind)
    flush_turn()
    return [*messages, Message("user", tuple(results))] if results else messages


def summarize(items: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return kind, role, call, and parts of each item, without the IDs and wording of the recorder."""
    found: list[tuple[Any, ...]] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            role = "system" if item["role"] == "developer" else item["role"]
            content = (
                item["content"] if not isinstance(item["content"], str) else [{"type": "text", "text": item["content"]}]
            )
            if all("text" in p for p in content):  # parts that are only text are one text
                content = [{"type": "text", "text": "\n".join(p["text"] or "" for p in content)}]
            parts = [(p["type"].rpartition("_")[2], p.get("text") or p.get("image_url")) for p in content]
            if role == "assistant" and parts == [("text", None)]:
                continue  # empty text is not sent
            found.append((kind, role, *parts))
        elif kind == "function_call":
            found.append((kind, item["call_id"], item["name"], json.loads(item["arguments"] or "{}")))
        elif kind == "function_call_output":
            output = item["output"]
            parts = (
                output
                if isinstance(output, str)
                else [(p["type"], p.get("text") or p.get("image_url")) for p in output]
            )
            found.append((kind, item["call_id"], parts or "(no output)"))
        else:
            found.append((kind, item.get("encrypted_content"), texts(item["summary"]), texts(item.get("content"))))
    return found


def encode(messages: list[Message]) -> list[dict[str, Any]]:
    dialect = ResponsesCapabilities(store=None)
    profile = ModelProfile(ModelInfo("m", "host"), "http://host/v1", responses=dialect)
    return json.loads(encode_request(ModelRequest(messages), profile))["input"]


def test_encoded_requests_match_recorded_requests(material: Path) -> None:
    index = json.loads((material / "traffic" / "INDEX.json").read_text(encoding="utf-8"))
    same, unlike, unsupported = 0, dict[str, Any](), Counter[str]()
    for entry in index:
        if entry["api"] != "responses":
            continue
        exchange = load(material / "traffic" / entry["file"])
        body = (exchange["request"] or {}).get("body") or {}
        if not isinstance(body, dict) or not isinstance(body.get("input"), list) or "previous_response_id" in body:
            continue
        try:
            messages = to_messages(body["input"])
        except LookupError as error:
            unsupported[str(error)] += 1
            continue
        ours, theirs = summarize(encode(messages)), summarize(body["input"])
        if ours == theirs:
            same += 1
        else:
            unlike[entry["file"]] = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]][:1] or (
                len(ours),
                len(theirs),
            )

    sys.stdout.write(f"\nrequests: {same} alike, {len(unlike)} unlike, not expressible: {dict(unsupported)}\n")
    assert same > 200
    assert unlike == {}


# --- chunk boundaries --------------------------------------------------------------------------------------------------


def decode(body: bytes, cuts: list[int]) -> tuple[list[Any], Message | None, ModelError | None]:
    reader = ResponseReader(ResponsesDecoder(ModelProfile(ModelInfo("m", "host"), "http://host/v1")))
    events: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        events += reader.feed(body[start:end])
    events += reader.finish()
    values = [tuple(getattr(e, f) for f in e.__struct_fields__ if f not in ("draft", "message")) for e in events]
    last = events[-1].partial if events else None
    return [(e.type, *fields) for e, fields in zip(events, values, strict=True)], last, reader.error


STREAMS = [path for path in fixture_files() if load(path)["response"]["body_text"].lstrip()[:1] not in ("{", "[")]


@pytest.mark.covers("STR-05", "STR-06", "STR-07", "STR-08", "STR-12")
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@settings(max_examples=20)
@given(data=st.data())
def test_stream_events_do_not_depend_on_chunk_boundaries(path: Path, data: st.DataObject) -> None:
    body = load(path)["response"]["body_text"].encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))

    whole, message, error = decode(body, [])
    events, same_message, same_error = decode(body, cuts)

    assert events == whole
    assert (message and message.content) == (same_message and same_message.content)
    assert str(error) == str(same_error)


@pytest.mark.parametrize("path", STREAMS[:2], ids=lambda path: path.stem)
def test_stream_events_are_the_same_byte_by_byte(path: Path) -> None:
    body = load(path)["response"]["body_text"].encode()

    assert decode(body, list(range(1, len(body))))[0] == decode(body, [])[0]


@pytest.mark.covers("STR-13")
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@settings(max_examples=15)
@given(data=st.data())
def test_truncated_stream_never_completes(path: Path, data: st.DataObject) -> None:
    body = load(path)["response"]["body_text"].encode()
    part = body[: data.draw(st.integers(0, len(body)))]
    at = max(part.rfind(b'"type":"response.completed"'), part.rfind(b'"type":"response.incomplete"'))
    ended = at >= 0 and part.find(b"\n", at) >= 0

    events, _, error = decode(part, [])

    if not ended and b"[DONE]" not in part:
        assert error is not None or is_complete_json(part)
        assert error is None or not events or events[-1][0] != "done"


def is_complete_json(part: bytes) -> bool:
    """Return True if the last line is complete without its newline."""
    try:
        value = json.loads(part.rstrip().rpartition(b"\n")[2].removeprefix(b"data:"))
    except ValueError:
        return False
    return value.get("type") in ("response.completed", "response.incomplete")
