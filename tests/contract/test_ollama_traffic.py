"""Recorded exchanges of the native Ollama protocol: decoding matches a reference reader of the raw body."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.messages import Message, ToolResultBlock, ToolUseBlock
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.replay import decode_exchange
from mainspring.models.wire.ollama import OllamaDecoder, encode_request
from tests.unit.models.wire import changed

OWN = Path(__file__).parent / "fixtures" / "ollama"


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def find_differences(exchange: dict[str, Any]) -> list[str]:
    """Return where decoding differs from the reference reader."""
    message, error = decode_exchange(exchange)
    response = exchange["response"]
    if response["status"] != 200:
        return [] if error is not None and error.status == response["status"] else [f"error: {error}"]
    lines = [json.loads(line) for line in response["body_text"].split("\n") if line.strip()]
    if error is not None or message is None or message.usage is None:
        return [f"error: {error}"]
    last = lines[-1]
    said = [line["message"] for line in lines]
    pairs = (
        ("text", message.text, "".join(m.get("content") or "" for m in said)),
        ("thinking", message.thinking, "".join(m.get("thinking") or "" for m in said)),
        (
            "calls",
            [(c.name, c.input) for c in message.tool_uses],
            [(c["function"]["name"], c["function"]["arguments"]) for m in said for c in m.get("tool_calls") or []],
        ),
        ("prompt", message.usage.prompt_tokens, last.get("prompt_eval_count", 0)),
        ("output", message.usage.output_tokens, last.get("eval_count", 0)),
        ("truncated", message.stop_reason == "max_tokens", last.get("done_reason") == "length"),
    )
    return [f"{what}: {ours!r} is not {theirs!r}" for what, ours, theirs in pairs if ours != theirs]


@pytest.mark.covers("OPT-11")
def test_recorded_exchanges_decode_like_the_reference_reader(material: Path) -> None:
    files = [e["file"] for e in load(material / "traffic" / "INDEX.json") if e["api"] == "native_chat"]
    wrong = {file: found for file in files if (found := find_differences(load(material / "traffic" / file)))}

    assert len(files) >= 7
    assert wrong == {}


@pytest.mark.covers("OPT-11")
@pytest.mark.parametrize("path", sorted(OWN.glob("*.json")), ids=lambda path: path.stem)
def test_fixture_exchanges_decode_like_the_reference_reader(path: Path) -> None:
    exchange = load(path)

    assert find_differences(exchange) == []
    assert exchange["origin"]["licence"]


def test_encoded_requests_match_recorded_requests(material: Path) -> None:
    profile = ModelProfile(ModelInfo("m", "ollama"), "http://host")
    calls = 0
    for entry in load(material / "traffic" / "INDEX.json"):
        if entry["api"] != "native_chat":
            continue
        recorded_exchanges = load(material / "traffic" / entry["file"])["request"]["body"]["messages"]
        messages: list[Message] = []
        for item in recorded_exchanges:
            blocks = [
                ToolUseBlock("c1", c["function"]["name"], c["function"]["arguments"])
                for c in item.get("tool_calls", [])
            ]
            calls += len(blocks)
            if item["role"] == "tool":
                messages.append(Message.user([ToolResultBlock("c1", "", item["content"])]))
            elif blocks:
                messages.append(Message.assistant(blocks))
            else:
                messages.append(Message.user(item["content"]))
        encode = json.loads(encode_request(ModelRequest(messages), profile))["messages"]
        for ours, theirs in zip(encode, recorded_exchanges, strict=True):
            assert {k: ours[k] for k in ("role", "content")} == {k: theirs[k] for k in ("role", "content")}
            assert [c["function"] for c in ours.get("tool_calls", [])] == [
                c["function"] for c in theirs.get("tool_calls", [])
            ]
    assert calls == 1


def decode(body: bytes, cuts: list[int]) -> tuple[list[Any], str]:
    reader = ResponseReader(OllamaDecoder(ModelProfile(ModelInfo("m", "host"), "http://host")))
    events: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        events += reader.feed(body[start:end])
    events += reader.finish()
    values = [tuple(getattr(e, f) for f in e.__struct_fields__ if f not in ("draft", "message")) for e in events]
    return [(e.type, *fields) for e, fields in zip(events, values, strict=True)], str(reader.error)


@pytest.mark.parametrize("name", ["streaming", "whole"])
@settings(max_examples=40)
@given(data=st.data())
def test_stream_events_do_not_depend_on_chunk_boundaries(name: str, data: st.DataObject) -> None:
    body = load(OWN / f"{name}.json")["response"]["body_text"].encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))

    assert decode(body, cuts) == decode(body, [])
    part, error = decode(body[: data.draw(st.integers(0, len(body) - 2))], [])
    if not part or part[-1][0] != "done":
        assert error != "None"


@settings(max_examples=100)
@given(data=st.data())
def test_mutated_response_completes_or_raises_a_model_error(data: st.DataObject) -> None:
    call = {"message": {"tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": {"at": "x"}}}]}}
    values = [
        {"created_at": "now", "message": {"thinking": "Hm", "content": "Hi"}},
        call,
        {"done": True, "eval_count": 3},
    ]
    at = data.draw(st.integers(0, 2))
    values[at] = changed(values[at], data)
    events, error = decode("".join(f"{json.dumps(line)}\n" for line in values).encode(), [])

    assert error != "None" or events[-1][0] == "done"
