"""Typed structs of the fields that are read from Responses responses, and item metadata in signatures.

The signature of a block stores the metadata of its item, so that the item can be sent back unchanged. The metadata is JSON after
a prefix that no other protocol uses, so that no other protocol treats it as its own.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.messages import strip_surrogates
from mainspring.models.codec.text import SurrogateJoiner
from mainspring.models.json_values import as_dict, as_dicts, as_int, to_json


class ResponsesPart(Struct, gc=False):
    """A part of a message or of reasoning."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class OutputItem(Struct, gc=False):
    """One item of the model's output: a message, reasoning, a call, or a server-side item."""

    type: str = ""
    id: str | None = None
    role: str | None = None
    phase: str | None = None
    content: list[ResponsesPart] | str | None = None
    summary: list[ResponsesPart] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | dict[str, Any] | None = None
    input: str | None = None


class Answer(Struct, gc=False):
    """The received part of the complete response."""

    id: str | None = None
    status: str | None = None
    output: list[OutputItem] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    incomplete_details: dict[str, Any] | None = None


class Event(Struct, gc=False):
    """One event of a stream."""

    type: str = ""
    delta: str | dict[str, Any] | None = None
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item: OutputItem | None = None
    response: Answer | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | dict[str, Any] | None = None
    input: str | None = None
    error: Any = None


decode_responses_event = msgspec.json.Decoder(Event).decode
"""Decode an event quickly; it fails for unexpected types, and `LenientEventParser` is used instead."""


decode_response = msgspec.json.Decoder(Answer).decode
"""Decode a response that was not streamed."""


class LenientEventParser:
    """Parses events with fields of any type; invalid fields are ignored."""

    __slots__ = ("_surrogate_joiner",)

    def __init__(self) -> None:
        self._surrogate_joiner = SurrogateJoiner()

    def event(self, value: dict[str, Any]) -> Event:
        """Return the event of an object."""
        place = f"{value.get('type')} {value.get('item_id')} {value.get('output_index')}"
        delta = value.get("delta")
        item, response = as_dict(value.get("item")), as_dict(value.get("response"))
        return Event(
            type=_text(value.get("type")) or "",
            delta=self._surrogate_joiner.join(delta if isinstance(delta, str) else None, place),
            item_id=_text(value.get("item_id")),
            output_index=as_int(value.get("output_index")),
            content_index=as_int(value.get("content_index")),
            summary_index=as_int(value.get("summary_index")),
            item=None if item is None else _item(item),
            response=None if response is None else self.answer(response),
            text=_text(value.get("text")),
            refusal=_text(value.get("refusal")),
            arguments=_arguments(value.get("arguments")),
            input=_text(value.get("input")),
            error=value.get("error"),
        )

    def answer(self, value: dict[str, Any]) -> Answer:
        """Return the response of an object."""
        return Answer(
            id=_text(value.get("id")),
            status=_text(value.get("status")),
            output=[_item(item) for item in as_dicts(value.get("output"))] if "output" in value else None,
            usage=as_dict(value.get("usage")),
            error=value.get("error"),
            incomplete_details=as_dict(value.get("incomplete_details")),
        )


def _item(value: dict[str, Any]) -> OutputItem:
    content = value.get("content")
    return OutputItem(
        type=_text(value.get("type")) or "",
        content=_text(content) if isinstance(content, str) else _parts(content),
        summary=_parts(value.get("summary")),
        arguments=_arguments(value.get("arguments")),
        **{
            name: _text(value.get(name))
            for name in ("id", "role", "phase", "encrypted_content", "call_id", "name", "namespace", "input")
        },
    )


def _parts(value: object) -> list[ResponsesPart]:
    return [
        ResponsesPart(_text(part.get("type")) or "", _text(part.get("text")), _text(part.get("refusal")))
        for part in as_dicts(value)
    ]


def _arguments(value: object) -> str | dict[str, Any] | None:
    if value is None or isinstance(value, str):
        return _text(value)
    return as_dict(value) or json.dumps(value)


def _text(value: object) -> str | None:
    return strip_surrogates(value) if isinstance(value, str) else None


_PREFIX = "responses:"


def encode_item_metadata(**fields: Any) -> str | None:
    """Encode the fields that are not ``None`` as metadata; ``None`` if all are."""
    metadata = {name: value for name, value in fields.items() if value is not None}
    return _PREFIX + to_json(metadata).decode() if metadata else None


def decode_item_metadata(signature: str | None) -> dict[str, Any] | None:
    """Return the fields of metadata; ``None`` if the text is not metadata."""
    if signature is None or not signature.startswith(_PREFIX):
        return None
    try:
        return as_dict(json.loads(signature.removeprefix(_PREFIX)))
    except (ValueError, RecursionError):
        return None
