"""Recorded exchanges of many hosts: decoding matches a reference reader of the raw body."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.errors import ModelError
from mainspring.messages import Message
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo
from mainspring.models.profile import ModelProfile
from mainspring.models.replay import decode_exchange, decode_exchange_to_dict
from mainspring.models.wire.openai_chat import ChatDecoder

OWN = Path(__file__).parent / "fixtures" / "traffic"


def fixture_files() -> list[Path]:
    return sorted(OWN.glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


# --- the reference reader ----------------------------------------------------------------------------------------------


def parse_objects(body: str) -> list[dict[str, Any]]:
    if not body.lstrip().startswith(("data:", ":", "event:")):
        return [json.loads(body)]
    lines = [line[5:].strip() for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def pieces_of(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for value in objects:
        for choice in value.get("choices") or []:
            if choice.get("index", 0) == 0:
                yield choice.get("delta") or choice.get("message") or {}


def text_of(piece: dict[str, Any]) -> str:
    content = piece.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content + (piece.get("refusal") or "")


def thinking_of(piece: dict[str, Any]) -> str:
    plain = piece.get("reasoning_content") or piece.get("reasoning")
    if plain:
        return plain
    if isinstance(piece.get("content"), list):
        parts = [part["thinking"] for part in piece["content"] if part.get("type") == "thinking"]
        return "".join(inner["text"] for part in parts for inner in part)
    return "".join(d.get("text") or d.get("summary") or "" for d in piece.get("reasoning_details") or [])


def calls_of(objects: list[dict[str, Any]]) -> list[tuple[str, str]]:
    calls: dict[Any, list[str]] = {}
    for piece in pieces_of(objects):
        for position, call in enumerate(piece.get("tool_calls") or []):
            key = call.get("index", position)
            if call.get("id") and calls.get(key, [call["id"]])[0] not in ("", call["id"]):
                key = call["id"]
            entry = calls.setdefault(key, [call.get("id") or "", "", ""])
            if "custom" in call:
                entry[1], entry[2] = call["custom"]["name"], json.dumps({"input": call["custom"]["input"]})
                continue
            entry[1] = entry[1] or call["function"].get("name") or ""
            entry[2] += call["function"].get("arguments") or ""
    return [(name, arguments) for _, name, arguments in calls.values()]


def usage_of(objects: list[dict[str, Any]]) -> dict[str, Any] | None:
    values = [u for o in objects for u in (o.get("usage"), (o.get("x_groq") or {}).get("usage")) if u]
    return next((u for u in reversed(values) if u.get("total_tokens")), None)


# --- the comparison ----------------------------------------------------------------------------------------------------


def find_differences(exchange: dict[str, Any]) -> list[str]:
    """Return where decoding differs from the reference reader."""
    message, error = decode_exchange(exchange)
    response = exchange["response"]
    if response["status"] != 200:
        return [] if error is not None and error.status == response["status"] else [f"error: {error}"]
    objects = parse_objects(response["body_text"])
    finish = [c.get("finish_reason") for o in objects for c in o.get("choices") or [] if c.get("finish_reason")]
    if any("error" in o for o in objects) or "content_filter" in finish:
        return [] if error is not None else ["no error"]
    if error is not None or message is None:
        return [f"error: {error}"]
    pieces = list(pieces_of(objects))
    found: list[str] = []
    for what, ours, theirs in (
        ("text", message.text, "".join(map(text_of, pieces))),
        ("thinking", message.thinking, "".join(map(thinking_of, pieces))),
        ("calls", decoded_calls(message), [(n, decode_arguments(a)) for n, a in calls_of(objects)]),
        ("truncated", message.stop_reason == "max_tokens", "length" in finish),
    ):
        if ours != theirs:
            found.append(f"{what}: {ours!r} is not {theirs!r}")
    return found + find_usage_differences(message, usage_of(objects))


def find_usage_differences(message: Message, raw: dict[str, Any] | None) -> list[str]:
    usage = message.usage
    if raw is None:
        return [] if usage is None or usage.total_tokens == 0 else ["usage made up"]
    if usage is None:
        return ["usage lost"]
    audio = (raw.get("prompt_tokens_details") or {}).get("audio_tokens") or 0
    found: list[str] = []
    if usage.total_tokens != raw["total_tokens"]:
        found.append(f"total: {usage.total_tokens} is not {raw['total_tokens']}")
    if usage.prompt_tokens not in (raw["prompt_tokens"], raw["prompt_tokens"] + audio):
        found.append(f"prompt: {usage.prompt_tokens} is not {raw['prompt_tokens']}")
    details = raw.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") or raw.get("cached_tokens") or raw.get("num_cached_tokens") or 0
    if usage.cache_read != min(cached, raw["prompt_tokens"]):
        found.append(f"cached: {usage.cache_read} is not {cached}")
    reasoning = (raw.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    if usage.reasoning_tokens < min(reasoning, usage.output_tokens):
        found.append(f"reasoning: {usage.reasoning_tokens} is not {reasoning}")
    return found


def decoded_calls(message: Message) -> list[tuple[str, Any]]:
    return [(c.name, c.input if c.raw_input is None else c.raw_input) for c in message.tool_uses]


def decode_arguments(arguments: str) -> Any:
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


@pytest.mark.covers("MOD-29")
def test_recorded_exchanges_decode_like_the_reference_reader(material: Path) -> None:
    index = json.loads((material / "traffic" / "INDEX.json").read_text(encoding="utf-8"))
    files = [entry["file"] for entry in index if entry["api"] == "chat_completions"]
    wrong = {file: found for file in files if (found := find_differences(load(material / "traffic" / file)))}

    assert len(files) > 500
    assert wrong == {}


@pytest.mark.covers("MOD-29", "MOD-04")
@pytest.mark.parametrize("path", fixture_files(), ids=lambda path: path.stem)
def test_fixture_exchanges_decode_like_the_reference_reader(path: Path) -> None:
    exchange = load(path)

    assert find_differences(exchange) == []
    assert exchange["origin"]["licence"]
    message, error = decode_exchange(exchange)
    assert error is not None or (message is not None and message.content)


# --- chunk boundaries --------------------------------------------------------------------------------------------------


def decode(body: bytes, cuts: list[int]) -> tuple[list[Any], Message | None, ModelError | None]:
    reader = ResponseReader(ChatDecoder(ModelProfile(ModelInfo("m", "host"), "http://host/v1")))
    events: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        events += reader.feed(body[start:end])
    events += reader.finish()
    values = [tuple(getattr(e, f) for f in e.__struct_fields__ if f not in ("draft", "message")) for e in events]
    last = events[-1].partial if events else None
    return [(e.type, *fields) for e, fields in zip(events, values, strict=True)], last, reader.error


STREAMS = [path for path in fixture_files() if load(path)["response"]["body_text"].lstrip()[:1] not in ("{", "[")]


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
def test_stream_events_are_the_same_byte_by_byte(path: Path) -> None:
    body = load(path)["response"]["body_text"].encode()

    assert decode(body, list(range(1, len(body))))[0] == decode(body, [])[0]


@pytest.mark.covers("STR-13")
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@settings(max_examples=20)
@given(data=st.data())
def test_truncated_stream_never_completes_without_a_stop_reason(path: Path, data: st.DataObject) -> None:
    body = load(path)["response"]["body_text"].encode()
    end = data.draw(st.integers(0, len(body)))
    part = body[:end]
    stopped = b"[DONE]" in part or any(
        choice.get("finish_reason") for value in complete_objects(part) for choice in value.get("choices") or []
    )

    events, _, error = decode(part, [])

    if not stopped:
        assert error is not None
        assert not events or events[-1][0] != "done"
        assert not any(event[0] == "toolcall_end" for event in events)


def complete_objects(part: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in part.split(b"\n"):
        try:
            value = json.loads(line.strip()[5:])
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def test_replayed_exchange_lists_content_calls_and_usage() -> None:
    exchange = {
        "provider": "openai",
        "api": "chat_completions",
        "request": {"body": {"model": "m"}},
        "response": {
            "status": 200,
            "headers": {},
            "body_text": json.dumps(
                {
                    "choices": [
                        {
                            "message": {
                                "content": "Looking.",
                                "reasoning_content": "Hm.",
                                "tool_calls": [
                                    {"id": "c1", "function": {"name": "look", "arguments": '{"at": "x"}'}},
                                    {"id": "c2", "function": {"name": "look", "arguments": '{"at": '}},
                                ],
                            },
                            "finish_reason": "tool_calls",
                        }
                    ],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14},
                }
            ),
        },
    }

    assert decode_exchange_to_dict(exchange, file="f.json") == {
        "file": "f.json",
        "text": "Looking.",
        "thinking": "Hm.",
        "tool_calls": [
            {"id": "c1", "name": "look", "arguments": {"at": "x"}},
            {"id": "c2", "name": "look", "arguments": '{"at": '},
        ],
        "usage": {
            "input_tokens": 10,
            "output_tokens": 4,
            "cache_read": 0,
            "cache_write": 0,
            "reasoning_tokens": 0,
            "prompt_tokens": 10,
            "total_tokens": 14,
        },
        "stop_reason": "tool_use",
        "error": None,
    }


def test_unsupported_api_is_reported_as_an_error() -> None:
    replayed = decode_exchange_to_dict(
        {"provider": "x", "api": "smoke_signals", "response": {"status": 200, "body_text": "{}"}}
    )

    assert replayed["error"]["message"].startswith("Unsupported API of a recording: 'smoke_signals'")
