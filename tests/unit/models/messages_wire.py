"""Shared parts of the Anthropic Messages tests: encoded responses and decoded requests."""

import json
from collections.abc import Sequence
from typing import Any

from mainspring.events import Done, StreamEvent
from mainspring.messages import Message
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import AnthropicCapabilities, ModelProfile
from mainspring.models.wire.anthropic import AnthropicDecoder, encode_request


def profile(dialect: AnthropicCapabilities | None = None, **facts: Any) -> ModelProfile:
    info = ModelInfo(facts.pop("model", "m1"), facts.pop("provider", "host"), **facts)
    return ModelProfile(info, "http://host", messages=dialect or AnthropicCapabilities())


def begin(id: str | None = "msg_1", **usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": id, "role": "assistant", "content": [], "usage": usage}}


def start(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [start(index, "text", text=""), *[delta(index, "text", text=piece) for piece in pieces], stop(index)]


def call(index: int, id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    deltas = [delta(index, "input_json", partial_json=piece) for piece in pieces]
    return [start(index, "tool_use", id=id, name=name, input={}), *deltas, stop(index)]


def end(reason: str | None = "end_turn", *, usage: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    message_delta = {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage or {}}
    return [message_delta, {"type": "message_stop"}]


def sse(*events: dict[str, Any] | str) -> bytes:
    lines: list[str] = []
    for event in events:
        body = event if isinstance(event, str) else json.dumps(event)
        name = "" if isinstance(event, str) else f"event: {event['type']}\n"
        lines.append(f"{name}data: {body}\n\n")
    return "".join(lines).encode()


def read(body: bytes, *, using: ModelProfile | None = None) -> list[StreamEvent]:
    """Return the events of a response, or raise its error."""
    reader = ResponseReader(AnthropicDecoder(using or profile()))
    events = [*reader.feed(body), *reader.finish()]
    if reader.error is not None:
        raise reader.error
    return events


def message(*events: dict[str, Any] | str, using: ModelProfile | None = None) -> Message:
    """Return the message of a streamed response."""
    last = read(sse(*events), using=using)[-1]
    assert isinstance(last, Done)
    return last.message


def whole(*, using: ModelProfile | None = None, **fields: Any) -> Message:
    """Return the message of an unstreamed response."""
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn", **fields}
    last = read(json.dumps(answer).encode(), using=using)[-1]
    assert isinstance(last, Done)
    return last.message


def calls(of: Message) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, c.input if c.raw_input is None else c.raw_input) for c in of.tool_uses]


def body(messages: Sequence[Message], using: ModelProfile | None = None, **fields: Any) -> dict[str, Any]:
    """Return the decoded body of a request, without cache markers by default."""
    request = ModelRequest(messages, **{"cache": False, **fields})
    return json.loads(encode_request(request, using or profile()))
