"""Shared parts of the Responses tests: encoded responses and decoded requests."""

import json
from collections.abc import Sequence
from typing import Any

from mainspring.events import Done, StreamEvent
from mainspring.messages import ContentBlock, Message
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import ModelProfile, ResponsesCapabilities
from mainspring.models.wire.openai_responses import ResponsesDecoder, encode_request


def profile(dialect: ResponsesCapabilities = ResponsesCapabilities(), **facts: Any) -> ModelProfile:
    info = ModelInfo(facts.pop("model", "m1"), facts.pop("provider", "host"), **facts)
    return ModelProfile(info, "http://host/v1", responses=dialect)


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def added(at: int, type: str, **fields: Any) -> dict[str, Any]:
    return event("output_item.added", output_index=at, item={"type": type, "id": f"i{at}", **fields})


def done(at: int, type: str, **fields: Any) -> dict[str, Any]:
    return event("output_item.done", output_index=at, item={"type": type, "id": f"i{at}", **fields})


def delta(kind: str, at: int, text: str, **fields: Any) -> dict[str, Any]:
    return event(f"{kind}.delta", output_index=at, item_id=f"i{at}", delta=text, **fields)


def completed(*output: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    return event(status, response={"id": "resp_1", "status": status, "output": list(output), **fields})


def text_item(text: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "id": "i0",
        "content": [{"type": "output_text", "text": text}],
        **fields,
    }


def sse(*objects: dict[str, Any] | str) -> bytes:
    texts = [value if isinstance(value, str) else json.dumps(value) for value in objects]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def read(body: bytes, using: ModelProfile | None = None) -> list[StreamEvent]:
    """Return the events of a response, or raise its error."""
    reader = ResponseReader(ResponsesDecoder(using or profile()))
    events = [*reader.feed(body), *reader.finish()]
    if reader.error is not None:
        raise reader.error
    return events


def message(*objects: dict[str, Any] | str, using: ModelProfile | None = None) -> Message:
    """Return the message of a streamed response."""
    last = read(sse(*objects), using)[-1]
    assert isinstance(last, Done)
    return last.message


def whole(answer: dict[str, Any], using: ModelProfile | None = None) -> Message:
    """Return the message of an unstreamed response."""
    last = read(json.dumps(answer).encode(), using)[-1]
    assert isinstance(last, Done)
    return last.message


def calls(of: Message) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, c.input if c.raw_input is None else c.raw_input) for c in of.tool_uses]


def body(messages: Sequence[Message], using: ModelProfile | None = None, **fields: Any) -> dict[str, Any]:
    """Return the decoded body of a request."""
    return json.loads(encode_request(ModelRequest(messages, **fields), using or profile()))


def assistant(*blocks: ContentBlock, model: str = "m1") -> Message:
    return Message("assistant", blocks, provider="host", model=model)
