"""Recorded exchanges of each protocol and provider: decoding matches a reference reader, encoding the recorded requests."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.errors import ModelError
from mainspring.messages import Message
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.replay import decode_exchange, decode_exchange_to_dict, supported_apis
from tests.contract.traffic import anthropic, gemini, ollama, openai_chat, openai_responses
from tests.contract.traffic.reading import Reading, load
from tests.unit.models.wire import changed

READINGS = [module.READING for module in (openai_chat, openai_responses, anthropic, gemini, ollama)]
Case = tuple[Reading, dict[str, Any]]


def params(cases: list[Case], *, covered: bool = False) -> list[Any]:
    """Return one parameter per exchange; its ID contains the protocol and the provider."""
    return [
        pytest.param(
            reading,
            exchange,
            id=f"{reading.name}-{exchange['provider']}-{exchange['file'].removeprefix(exchange['provider'] + '-')}",
            marks=[pytest.mark.covers(*reading.covers)] if covered else [],
        )
        for reading, exchange in cases
    ]


FIXTURES: list[Case] = [
    (reading, {**load(path), "file": path.stem}) for reading in READINGS for path in reading.fixtures()
]
STREAMS = [(reading, exchange) for reading, exchange in FIXTURES if reading.is_stream(exchange)]
ANSWERS = [(reading, exchange) for reading, exchange in FIXTURES if exchange["response"]["status"] == 200]
FIRST_STREAMS = [case for reading in READINGS for case in [c for c in STREAMS if c[0] is reading][:3]]


def recorded_exchanges(material: Path, reading: Reading) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in load(material / "traffic" / "INDEX.json"):
        if entry["api"] in reading.apis:
            yield entry["file"], load(material / "traffic" / entry["file"])


def test_every_supported_protocol_has_a_reading() -> None:
    assert sorted(api for reading in READINGS for api in reading.apis) == supported_apis()


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: reading.name)
def test_recorded_exchanges_decode_like_the_reference_reader(material: Path, reading: Reading) -> None:
    exchanges = list(recorded_exchanges(material, reading))
    wrong = {file: found for file, exchange in exchanges if (found := reading.find_differences(exchange))}

    assert len(exchanges) > reading.recorded
    assert wrong == {}


@pytest.mark.covers("MOD-04")
@pytest.mark.parametrize(("reading", "exchange"), params(FIXTURES, covered=True))
def test_fixture_exchanges_decode_like_the_reference_reader(reading: Reading, exchange: dict[str, Any]) -> None:
    assert reading.find_differences(exchange) == []
    assert exchange["origin"]["licence"]
    message, error = decode_exchange(exchange)
    assert error is not None or (message is not None and message.content)


# --- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", [r for r in READINGS if r.compare_request], ids=lambda reading: reading.name)
def test_encoded_requests_match_recorded_requests(material: Path, reading: Reading) -> None:
    assert reading.compare_request is not None
    seen: Counter[str] = Counter()
    unlike: dict[str, list[str]] = {}
    for file, exchange in recorded_exchanges(material, reading):
        labels = list(reading.compare_request(exchange))
        seen.update(labels)
        if wrong := [label for label in labels if label.startswith("unlike")]:
            unlike[file] = wrong

    assert unlike == {}
    for label, minimum in reading.request_minimums.items():
        assert seen[label] > minimum, label
    for label, maximum in reading.request_maximums.items():
        assert seen[label] <= maximum, label


@pytest.mark.covers("PRV-27", "PRV-28")
def test_fixture_requests_keep_their_structure() -> None:
    labels = [
        label
        for reading, exchange in FIXTURES
        if reading is anthropic.READING
        for label in anthropic.compare_request(exchange)
    ]

    assert [label for label in labels if label.startswith("unlike messages")] == []
    assert {"text", "image", "tool_use", "tool_result", "thinking", "server_tool_use"} <= set(labels)


# Few examples each: dozens of exchanges make hundreds of them.

# --- streams -----------------------------------------------------------------------------------------------------------


def decode(reading: Reading, body: bytes, cuts: list[int]) -> tuple[list[Any], Message | None, ModelError | None]:
    reader = ResponseReader(reading.new_decoder())
    events: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        events += reader.feed(body[start:end])
    events += reader.finish()
    values = [tuple(getattr(e, f) for f in e.__struct_fields__ if f not in ("draft", "message")) for e in events]
    last = events[-1].partial if events else None
    return [(e.type, *fields) for e, fields in zip(events, values, strict=True)], last, reader.error


@pytest.mark.covers("STR-05", "STR-06", "STR-07", "STR-08", "STR-12")
@pytest.mark.parametrize(("reading", "exchange"), params(STREAMS))
@settings(max_examples=10)
@given(data=st.data())
def test_stream_events_do_not_depend_on_chunk_boundaries(
    reading: Reading, exchange: dict[str, Any], data: st.DataObject
) -> None:
    body = exchange["response"]["body_text"].encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))

    whole, message, error = decode(reading, body, [])
    events, same_message, same_error = decode(reading, body, cuts)

    assert events == whole
    assert (message and message.content) == (same_message and same_message.content)
    assert str(error) == str(same_error)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize(("reading", "exchange"), params(FIRST_STREAMS))
def test_stream_events_are_the_same_byte_by_byte(reading: Reading, exchange: dict[str, Any], line_end: bytes) -> None:
    body = exchange["response"]["body_text"].encode()
    other = body.replace(b"\r\n", b"\n").replace(b"\n", line_end)

    assert decode(reading, other, list(range(1, len(other))))[0] == decode(reading, body, [])[0]


@pytest.mark.covers("STR-13")
@pytest.mark.parametrize(("reading", "exchange"), params(STREAMS))
@settings(max_examples=8)
@given(data=st.data())
def test_truncated_stream_never_completes_without_a_stop_reason(
    reading: Reading, exchange: dict[str, Any], data: st.DataObject
) -> None:
    body = exchange["response"]["body_text"].encode()
    part = body[: data.draw(st.integers(0, len(body)))]

    events, _, error = decode(reading, part, [])

    is_done = bool(events) and events[-1][0] == "done"
    assert is_done == (error is None)
    if not reading.is_complete(part):
        assert not is_done
        assert reading.ends_calls_early or not any(event[0] == "toolcall_end" for event in events)


@pytest.mark.covers("RET-21")
@pytest.mark.parametrize(("reading", "exchange"), params(ANSWERS))
@settings(max_examples=12)
@given(data=st.data())
def test_mutated_response_completes_or_raises_a_model_error(
    reading: Reading, exchange: dict[str, Any], data: st.DataObject
) -> None:
    objects = reading.objects(exchange["response"]["body_text"])
    at = data.draw(st.integers(0, len(objects) - 1))
    objects[at] = changed(objects[at], data)

    for body in (reading.frame(objects), json.dumps(objects).encode(), json.dumps(objects[0]).encode()):
        events, message, error = decode(reading, body, [])
        assert error is not None or (events[-1][0] == "done" and message is not None and message.content)


# --- replay ------------------------------------------------------------------------------------------------------------

COMPLETION = {
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
ANTHROPIC_MESSAGE = {
    "type": "message",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "S"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 6},
}
CALLS = [{"id": "c1", "name": "look", "arguments": {"at": "x"}}, {"id": "c2", "name": "look", "arguments": '{"at": '}]


@pytest.mark.parametrize(
    ("api", "answer", "calls", "cache_read"),
    [("chat_completions", COMPLETION, CALLS, 0), ("messages", ANTHROPIC_MESSAGE, CALLS[:1], 6)],
)
def test_replayed_exchange_lists_content_calls_and_usage(
    api: str, answer: dict[str, Any], calls: list[dict[str, Any]], cache_read: int
) -> None:
    response = {"status": 200, "headers": {}, "body_text": json.dumps(answer)}
    exchange = {"provider": "openai", "api": api, "request": {"body": {"model": "m"}}, "response": response}

    assert decode_exchange_to_dict(exchange, file="f.json") == {
        "file": "f.json",
        "text": "Looking.",
        "thinking": "Hm.",
        "tool_calls": calls,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 4,
            "cache_read": cache_read,
            "cache_write": 0,
            "reasoning_tokens": 0,
            "prompt_tokens": 10 + cache_read,
            "total_tokens": 14 + cache_read,
        },
        "stop_reason": "tool_use",
        "error": None,
    }


def test_unsupported_api_is_reported_as_an_error() -> None:
    replayed = decode_exchange_to_dict(
        {"provider": "x", "api": "smoke_signals", "response": {"status": 200, "body_text": "{}"}}
    )

    assert replayed["error"]["message"].startswith("Unsupported API of a recording: 'smoke_signals'")
