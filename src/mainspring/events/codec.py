"""The only encoder of events: JSON for every wire, log, and follower."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, cast

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


def encode(value: Any) -> bytes:
    """Encode an event, a struct around one, such as an `Envelope`, or another value as JSON without line breaks.

    Values that JSON cannot represent become text; a lone surrogate becomes U+FFFD.
    """
    part = value
    while True:  # no calls: this runs for every delta, which has nothing to leave out
        has_event, read_fields, defaults, _ = _in_process_fields[part.__class__]
        if read_fields is not None and read_fields(part) != defaults:
            value = without_in_process(value)
            break
        if not has_event:
            break
        part = part.event
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(strip_surrogates(msgspec.to_builtins(value, enc_hook=str)))


def without_in_process(value: Any) -> Any:
    """Return the value without the in-process fields of its event; the same object if it has none."""
    kind: type[Any] = value.__class__
    has_event, values, defaults, changes = _in_process_fields[kind]
    if has_event:
        bare = without_in_process(value.event)
        if bare is not value.event:
            value = structs.replace(value, event=bare)
    if values is not None and values(value) != defaults:
        value = structs.replace(value, **changes)
    return value


_InProcessFields = tuple[bool, Callable[[Any], Any] | None, Any, dict[str, Any]]
"""Whether values of a type contain an event, and how to read and to clear their in-process fields."""


class _InProcessFieldsByType(dict[type[Any], _InProcessFields]):
    def __missing__(self, kind: type[Any]) -> _InProcessFields:
        fields = {field.name: field.default for field in structs.fields(kind)} if issubclass(kind, Struct) else {}
        names: tuple[str, ...] = kind.in_process if issubclass(kind, Event) else ()
        defaults = tuple([fields[name] for name in names])
        self[kind] = found = (
            "event" in fields,
            attrgetter(*names) if names else None,
            defaults if len(names) > 1 else next(iter(defaults), None),
            {name: fields[name] for name in names},
        )
        return found


_in_process_fields = _InProcessFieldsByType()


def schema(union: Any, title: str, description: str = "") -> str:
    """Create the JSON Schema of a union of events, without their in-process fields.

    Args:
        union: The union; or several types by name, which become ``#/$defs/NAME``.
        title: Title of the schema, with the version of the format.
        description: Its description.
    """
    named = cast("dict[str, Any]", union) if isinstance(union, dict) else {}
    roots: list[Any] = list(named.values()) or [cast("Any", union)]
    schemas, definitions = schema_components(roots)
    for name, each in zip(named, schemas, strict=False):
        definitions.setdefault(name, each)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    if description:
        head["description"] = description
    body = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in named]} if named else schemas[0]
    import json

    return json.dumps({**head, **body, "$defs": dict(sorted(definitions.items()))}, indent=2) + "\n"


def schema_components(
    types: Sequence[Any], ref_template: str = "#/$defs/{name}"
) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """Create the JSON Schemas of types of events without in-process fields, and the schemas that they refer to.

    Args:
        types: The types; for example, one union.
        ref_template: Path of a reference, with ``{name}``.
    """
    schemas, definitions = msgspec.json.schema_components(
        types, schema_hook=lambda _: {"type": "null"}, ref_template=ref_template
    )
    for kind in _subclasses(Event):
        properties = definitions.get(kind.__name__, {}).get("properties", {})
        for name in kind.in_process:
            properties.pop(name, None)
    return schemas, unindent_descriptions(definitions)


def unindent_descriptions(schema: Any) -> Any:
    """Return a JSON Schema whose descriptions do not depend on the version of Python or msgspec.

    They are docstrings, and only Python 3.13 and msgspec 0.23 remove their indentation.
    """
    from inspect import cleandoc  # loaded for a schema only

    if isinstance(schema, dict):
        parts = cast("dict[str, Any]", schema)
        return {
            name: cleandoc(part) if name == "description" and isinstance(part, str) else unindent_descriptions(part)
            for name, part in parts.items()
        }
    return [unindent_descriptions(part) for part in cast("list[Any]", schema)] if isinstance(schema, list) else schema


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
