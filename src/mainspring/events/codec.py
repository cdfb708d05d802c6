"""The only encoder of events: JSON for every wire, log, and follower."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct, structs

from mainspring.events.base import Event
from mainspring.events.types import RunEvent
from mainspring.messages.codec import strip_surrogates


class Envelope(Struct, frozen=True, omit_defaults=True):
    """An event with its position, for followers and logs.

    Attributes:
        seq: Number of the event, increasing by one.
        time: When it was published.
        event: The event.
        run_id: The run.
        session_id: The session.
    """

    seq: int
    time: datetime
    event: Event
    run_id: str = ""
    session_id: str = ""


class UnknownEventError(ValueError):
    """The data is an event of another version, or no event."""


_encoder = msgspec.json.Encoder(enc_hook=str)


def encode(value: Event | Struct) -> bytes:
    """Encode an event, or a struct around one, such as an `Envelope`, as JSON without line breaks.

    Values that JSON cannot represent become text; a lone surrogate becomes U+FFFD.
    """
    value = without_in_process(value)
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(strip_surrogates(msgspec.to_builtins(value, enc_hook=str)))


def without_in_process(value: Any) -> Any:
    """Return the value without the in-process fields of its event; the same object if there are none."""
    inner = getattr(value, "event", None)
    if isinstance(inner, Event):
        bare = without_in_process(inner)
        return value if bare is inner else structs.replace(value, event=bare)
    if isinstance(value, Event) and value.in_process:
        return structs.replace(value, **_defaults(type(value)))
    return value


@cache
def _defaults(kind: type[Event]) -> dict[str, Any]:
    return {field.name: field.default for field in structs.fields(kind) if field.name in kind.in_process}


def schema(union: Any, title: str, description: str = "") -> str:
    """Create the JSON Schema of a union of events, without their in-process fields.

    Args:
        union: The union.
        title: Title of the schema, with the version of the format.
        description: Its description.
    """
    body = msgspec.json.schema(union, schema_hook=lambda _: {"type": "null"})
    for kind in _subclasses(Event):
        definition = body.get("$defs", {}).get(kind.__name__)
        for name in kind.in_process if definition else ():
            definition["properties"].pop(name, None)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    if description:
        head["description"] = description
    return json.dumps({**head, **body}, indent=2) + "\n"


def _subclasses(kind: type[Event]) -> Iterator[type[Event]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


@cache
def _decoder(union: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(union)


def decode(data: bytes | str, union: Any = RunEvent) -> Any:
    """Decode an event.

    Args:
        data: The output of `encode`.
        union: The union of the possible events.

    Raises:
        UnknownEventError: If the data is not such an event, for example because a newer version wrote it.
    """
    try:
        return _decoder(union).decode(data)
    except msgspec.DecodeError as error:
        raise UnknownEventError(f"Not an event that this version knows: {error}") from None
