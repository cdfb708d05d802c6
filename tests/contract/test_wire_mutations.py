"""Mutated responses: any input results in a valid message or a model error, whole and at any chunk boundary."""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from mainspring.errors import ModelError
from mainspring.events import Done, StreamEvent
from mainspring.messages import Message
from mainspring.models.codec.protocol import WireDecoder
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.anthropic import AnthropicDecoder
from mainspring.models.wire.gemini import GeminiDecoder
from mainspring.models.wire.ollama import OllamaDecoder
from mainspring.models.wire.openai_chat import ChatDecoder
from mainspring.models.wire.openai_responses import ResponsesDecoder
from tests.contract.test_odd_histories import WIRES
from tests.contract.wire_scenarios import CHAT, GEMINI, MESSAGES, RESPONSES

OLLAMA: Sequence[bytes] = (
    b'{"created_at":"2026","message":{"role":"assistant","thinking":"Hm."},"done":false}\n',
    '{"message":{"role":"assistant","content":"H\u00fc"},"done":false}\n'.encode(),
    b'{"message":{"tool_calls":[{"function":{"name":"look","arguments":{"at":"a.png"}}}]},"done":false}\n',
    b'{"message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":4}\n',
)
DECODERS: dict[str, Callable[[ModelProfile], WireDecoder]] = {
    "chat_completions": ChatDecoder,
    "responses": ResponsesDecoder,
    "messages": AnthropicDecoder,
    "generate_content": GeminiDecoder,
    "stream_generate_content": GeminiDecoder,
    "native_chat": OllamaDecoder,
}
SCENARIOS: dict[str, Sequence[bytes]] = {
    "chat_completions": CHAT.scenario,
    "responses": RESPONSES.scenario,
    "messages": MESSAGES.scenario,
    "generate_content": GEMINI.scenario,
    "native_chat": OLLAMA,
}
PROTOCOLS = tuple(SCENARIOS)
PROFILE = ModelProfile(ModelInfo("m", "p"), "http://h")


def decode(api: str, pieces: Sequence[bytes] | Iterator[bytes]) -> tuple[list[StreamEvent], ModelError | None]:
    reader = ResponseReader(DECODERS[api](PROFILE))
    events = [*chain.from_iterable(map(reader.feed, pieces)), *reader.finish()]
    return events, reader.error


def split(body: bytes, size: int) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(0, len(body), size))


# --- mutations ---------------------------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 3.7, 10**30, -(10**30), 2**63, float("inf"), float("nan"), "", "x", "null", "9" * 5000),
    *("\ud800", "\U0001f600", [], {}, [[]], [{}], [None], [1, "a", None], {"a": 1}, {"text": "t"}, {"error": "boom"}),
)
NAMES = ("id", "index", "type", "error", "delta", "message", "usage", "content", "code", "status", "done")
STRANGE: tuple[bytes, ...] = (
    b'{"error":{"message":"overloaded","type":"overloaded_error"}}',
    b'{"type":"error","error":{"type":"api_error","message":"x"}}',
    *(b'{"error":"told"}', b'{"error":null}', b'{"error":[1]}', b'{"detail":"x"}', b'{"message":"x"}', b'{"type":5}'),
    *(
        b"[DONE]",
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"1",
        b"<html>",
        b"{",
        b"\xff\xfe",
        b'{"choices":[]}',
        b'{"candidates":[]}',
    ),
    *(b'{"a":' * 5000, b"[" * 100_000, b'{"error":' + b"[" * 5000, b'{"object":"error","code":1e999}'),
    b'{"a":' * 700 + b"1" + b"}" * 700,
)
BYTES = (0, 10, 13, 34, 92, 123, 0x80, 0xC3, 0xED, 0xFF)


def find_paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*before, key)
        yield from find_paths(inner, (*before, key))


def mutate_json(data: bytes, dice: random.Random) -> bytes:
    """Return JSON with some values of other types, without some fields, or with more."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        try:
            paths = list(find_paths(value))
        except RecursionError:
            break
        if not paths:
            break
        *way, last = dice.choice(paths)
        holder = value
        for step in way:
            holder = holder[step]
        odd = json.loads(json.dumps(dice.choice(ODD)))
        chance = dice.random()
        if chance < 0.65:
            holder[last] = odd
        elif chance < 0.85:
            del holder[last]
        elif isinstance(holder, list):
            holder.append(odd)
        else:
            holder[dice.choice(NAMES)] = odd
    return json.dumps(value, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass")


def mutate_event(event: bytes, dice: random.Random) -> bytes:
    lines = [
        b"data: " + mutate_json(line[5:].strip(), dice) if line.startswith(b"data:") else line
        for line in event.split(b"\n")
    ]
    return b"\n".join(lines) if any(line.startswith(b"data:") for line in lines) else mutate_json(event, dice)


def mutate_response(body: bytes, dice: random.Random) -> bytes:
    """Return a response with missing, repeated, moved, changed, inserted, or truncated events, or with broken bytes."""
    if not body.lstrip().startswith((b"{", b"[")):
        body = mutate_events(body.replace(b"\r\n", b"\n"), b"\n\n", dice)
    elif body.count(b"\n{"):
        body = mutate_events(body, b"\n", dice)
    else:
        body = mutate_json(body, dice) if dice.random() < 0.8 else dice.choice(STRANGE)
    if body and dice.random() < 0.2:
        at = dice.randrange(len(body))
        body = body[:at] + bytes(dice.choices(BYTES, k=dice.randrange(1, 4))) + body[at + dice.randrange(3) :]
    if dice.random() < 0.1:
        body = body.replace(b"\n", dice.choice((b"\r\n", b"\r")))
    if dice.random() < 0.05:
        body = b"\xef\xbb\xbf" + body
    return body[: dice.randrange(len(body) + 1)] if dice.random() < 0.05 else body


def mutate_events(body: bytes, end: bytes, dice: random.Random) -> bytes:
    events = [event for event in body.split(end) if event]
    for _ in range(dice.choice((1, 1, 2, 4))):
        if not events:
            break
        at, kind = dice.randrange(len(events)), dice.randrange(7)
        if kind == 0:
            del events[at]
        elif kind == 1:
            events.insert(at, events[at])
        elif kind == 2:
            other = dice.randrange(len(events))
            events[at], events[other] = events[other], events[at]
        elif kind == 3:
            head = dice.choice((b"data: ", b"event: error\ndata: ", b"data:", b"event: x\ndata: ", b": "))
            events.insert(at, (head if end == b"\n\n" else b"") + dice.choice(STRANGE))
        elif kind == 4:
            events = events[:at]
        else:
            events[at] = mutate_event(events[at], dice)
    return end.join(events) + (end if dice.random() < 0.8 else b"")


# --- checks ------------------------------------------------------------------------------------------------------------


def check_events(events: list[StreamEvent], error: ModelError | None) -> None:
    """Check that blocks start, grow, and end in order, and that the message is complete, with unique IDs and valid text."""
    state: dict[int, str] = {}
    for event in events:
        kind = event.type
        if kind == "start":
            state = {}  # The connection was lost before any content, and the request was repeated.
        elif kind.endswith("_start"):
            assert cast("Any", event).index not in state
            state[cast("Any", event).index] = "open"
        elif kind.endswith(("_delta", "_end")):
            assert state[cast("Any", event).index] == "open"
            if kind.endswith("_end"):
                state[cast("Any", event).index] = "closed"
    if error is not None:
        assert str(error)
        msgspec.json.encode((error.message, error.partial))
        return
    done = events[-1]
    assert isinstance(done, Done)
    assert set(state.values()) <= {"closed"}
    check_message(done.message)


def check_message(message: Message) -> None:
    assert message.content
    msgspec.json.encode(message)
    ids = [call.id for call in message.tool_uses]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    if message.usage is not None:
        usage = message.usage
        assert min(usage.input_tokens, usage.output_tokens, usage.cache_read, usage.cache_write) >= 0
        assert 0 <= usage.reasoning_tokens <= usage.output_tokens


def summarize_events(events: list[StreamEvent]) -> list[tuple[Any, ...]]:
    return [
        (e.type, *(getattr(e, name, None) for name in ("index", "text", "thinking", "delta", "name"))) for e in events
    ]


def check_mutation(api: str, body: bytes, dice: random.Random) -> None:
    changed = mutate_response(body, dice)
    events, error = decode(api, [changed])
    check_events(events, error)
    size = dice.choice((1, 2, 3, 7, 50) if len(changed) < 20_000 else (333, 5000))
    again, same = decode(api, split(changed, size))
    assert summarize_events(again) == summarize_events(events)
    assert (same and (same.message, same.reason)) == (error and (error.message, error.reason))


@pytest.mark.covers("MOD-04", "RET-21", "STR-08")
@pytest.mark.parametrize("api", PROTOCOLS)
def test_mutated_response_is_a_valid_message_or_a_model_error(api: str) -> None:
    body = b"".join(SCENARIOS[api])
    for seed in range(150):
        check_mutation(api, body, random.Random(seed))


@pytest.mark.parametrize("api", DECODERS)
def test_mutated_recording_is_a_valid_message_or_a_model_error(material: Path, api: str) -> None:
    recorded = sorted((material / "traffic").rglob(f"{api}/*.json"))
    dice = random.Random(7)
    for path in dice.sample(recorded, min(60, len(recorded))):
        exchange = json.loads(path.read_text(encoding="utf-8"))
        body = (exchange["response"].get("body_text") or "").encode()
        if exchange["response"].get("status", 200) < 300 and len(body) < 60_000:
            check_mutation(api, body, dice)


@pytest.mark.covers("RET-21")
@pytest.mark.parametrize("api", PROTOCOLS)
@pytest.mark.parametrize("opening", ['{"a":', "[", '{"error":[', '{"message":{"a":', '{"choices":[{"delta":'])
def test_endless_nesting_is_a_model_error(api: str, opening: str) -> None:
    strange = opening.encode() * 5000
    for body in (strange, b"data: " + strange + b"\n\n", SCENARIOS[api][0] + b"data: " + strange + b"\n\n"):
        _, error = decode(api, [body])

        assert isinstance(error, ModelError)


# --- a long response in small pieces ------------------------------------------------------------------------------------


def measure_seconds(api: str, pieces: Iterator[bytes]) -> float:
    begin = time.process_time()
    decode(api, pieces)
    return time.process_time() - begin


def chat_piece(**call: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).encode() + b"\n\n"


def argument_piece(number: int, **more: Any) -> bytes:
    return chat_piece(index=0, function={"name": "write", "arguments": "xxxxxxxx" if number else '{"a":"'}, **more)


COUNT = 40_000
LONG: dict[str, Callable[[], Iterator[bytes]]] = {
    "blank lines before anything": lambda: repeat(b"\n", COUNT),
    "blanks before anything": lambda: repeat(b" ", COUNT),
    "comments of one line": lambda: repeat(b": ping\n", COUNT),
    "an event of many lines": lambda: repeat(b"data: 1\n", COUNT),
    "lines that end with CR": lambda: repeat(b"data: 1\r", COUNT),
    "an event in small pieces": lambda: chain([b'data: "'], repeat(b"x" * 64, COUNT), [b'"\n\n']),
    "a body in small pieces": lambda: chain([b'{"a":"'], repeat(b"x" * 64, COUNT), [b'"}']),
    "a name with every piece": lambda: map(argument_piece, range(COUNT)),
    "a name and an id with every piece": lambda: (argument_piece(at, id="c") for at in range(COUNT)),
    "many calls": lambda: (
        chat_piece(index=at, id=f"c{at}", function={"name": "n", "arguments": "{}"}) for at in range(COUNT // 4)
    ),
}


@pytest.mark.covers("STR-12")
@pytest.mark.parametrize("what", LONG)
def test_decoding_time_is_linear_in_the_response_length(what: str) -> None:
    assert measure_seconds("chat_completions", LONG[what]()) < 9  # 0.1 to 0.6s here; quadratic code took 10 to 60s


def test_huge_array_index_allocates_no_array() -> None:
    pieces = [{"jsonPath": f"$.a{at}[99999]", "stringValue": "x"} for at in range(500)]
    part = {"functionCall": {"name": "n", "partialArgs": pieces}}
    body = json.dumps({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}).encode()

    events, error = decode("generate_content", [body])

    assert error is None
    assert len(msgspec.json.encode(events[-1].partial)) < 20_000


def nested_call(api: str, depth: int) -> bytes:
    """Return a response with one call whose arguments are nested to a depth."""
    arguments = '{"a":' * depth + "1" + "}" * depth
    text = json.dumps(arguments)
    if api == "chat_completions":
        call = '{"tool_calls":[{"id":"c","function":{"name":"n","arguments":' + text + "}}]}"
        return ('{"choices":[{"message":' + call + ',"finish_reason":"tool_calls"}]}').encode()
    if api == "responses":
        call = '{"type":"function_call","id":"i","call_id":"c","name":"n","arguments":' + text + "}"
        return ('{"status":"completed","output":[' + call + "]}").encode()
    if api == "messages":
        call = '{"type":"tool_use","id":"c","name":"n","input":' + arguments + "}"
        return ('{"content":[' + call + '],"stop_reason":"tool_use"}').encode()
    if api == "native_chat":
        call = '{"function":{"name":"n","arguments":' + arguments + "}}"
        return ('{"message":{"tool_calls":[' + call + ']},"done":true}').encode()
    call = '{"functionCall":{"name":"n","args":' + arguments + "}}"
    return ('{"candidates":[{"content":{"parts":[' + call + ']},"finishReason":"STOP"}]}').encode()


def encode_deep(conversation: list[Message], *, stack_depth: int) -> bytes:
    """Encode a request from deep in the call stack."""
    if stack_depth:
        return encode_deep(conversation, stack_depth=stack_depth - 1)
    encode, profile = WIRES["chat_completions"]
    return encode(ModelRequest(conversation), profile)


@pytest.mark.covers("RET-21")
@pytest.mark.parametrize("api", PROTOCOLS)
def test_nested_call_that_decodes_can_be_encoded(api: str) -> None:
    """The maximum JSON depth depends on the reader and the writer, so our own limit is lower than all of theirs."""
    for depth in (*range(60, 1000, 37), 5000):
        events, error = decode(api, [nested_call(api, depth)])
        if error is not None:
            assert depth > 100
            continue
        message = events[-1].partial
        [call] = message.tool_uses
        assert (call.raw_input is None) == (depth < 100)
        assert encode_deep([Message.user("Go"), message], stack_depth=300)
        assert msgspec.json.encode(message)
