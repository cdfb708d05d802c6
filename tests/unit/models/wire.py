"""Shared parts of the Chat Completions tests: encoded responses and decoded requests."""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from mainspring.events import Done, StreamEvent
from mainspring.messages import Message
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ChatCapabilities, ModelProfile
from mainspring.models.wire.openai_chat import ChatDecoder, encode_request


def profile(dialect: ChatCapabilities = ChatCapabilities(), **facts: Any) -> ModelProfile:
    return ModelProfile(
        ModelInfo(facts.pop("model", "m1"), facts.pop("provider", "host"), **facts), "http://host/v1", dialect
    )


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def sse(*objects: dict[str, Any] | str, done: bool = True) -> bytes:
    texts = [value if isinstance(value, str) else json.dumps(value) for value in objects]
    return "".join(f"data: {text}\n\n" for text in [*texts, *(["[DONE]"] if done else [])]).encode()


def read(body: bytes, *, by: int | None = None, using: ModelProfile | None = None) -> list[StreamEvent]:
    """Return the events of a response, or raise its error."""
    reader = ResponseReader(ChatDecoder(using or profile()))
    events: list[StreamEvent] = []
    for start in range(0, len(body), by or max(1, len(body))):
        events += reader.feed(body[start : start + (by or len(body))])
    events += reader.finish()
    if reader.error is not None:
        raise reader.error
    return events


def message(*objects: dict[str, Any] | str, done: bool = True, using: ModelProfile | None = None) -> Message:
    """Return the message of a streamed response."""
    last = read(sse(*objects, done=done), using=using)[-1]
    assert isinstance(last, Done)
    return last.message


def calls(of: Message) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, c.input if c.raw_input is None else c.raw_input) for c in of.tool_uses]


def call(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    return {"function": function, **fields}


def body(messages: Sequence[Message], using: ModelProfile | None = None, **fields: Any) -> dict[str, Any]:
    """Return the decoded body of a request."""
    return json.loads(encode_request(ModelRequest(messages, **fields), using or profile()))


ODD: list[Any] = [None, True, 0, -1, 1.5, "", "x", "\ud800", [], {}, [1], [None], {"text": "y"}, [{}], [[]], 10**30]
"""Values that a host might send in place of the expected ones."""


def changed(value: Any, data: st.DataObject) -> Any:
    """Return a copy of a JSON value with one part replaced, removed, or duplicated."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    if not places:
        return value
    holder, key = data.draw(st.sampled_from(places), label="place")
    match data.draw(st.sampled_from(["other", "missing", "twice"]), label="change"):
        case "missing":
            del holder[key]
        case "twice" if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        case _:
            holder[key] = copy.deepcopy(data.draw(st.sampled_from(ODD), label="value"))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _places(inner)
