"""Secrets that a stream spells in pieces, as in the answers of models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from mainspring.redaction.redactor import MASK, Redactor, is_opaque
from mainspring.redaction.shapes import Span

_DATA = "data:"
_Path = tuple[str | int, ...]


def redact_stream(redactor: Redactor, text: str) -> str:
    """Replace the secrets in the body of a response.

    In a stream of server-sent events, the pieces of one text are checked together.

    Args:
        redactor: Finds the secrets.
        text: The body.
    """
    lines = text.split("\n")
    events: dict[int, Any] = {}
    for at, line in enumerate(lines):
        if line.startswith(_DATA):
            try:
                events[at] = json.loads(line.removeprefix(_DATA))
            except ValueError:
                continue
    if not events:
        return _redact_body(redactor, text)
    changed = _redact_joined(redactor, events)
    for at, line in enumerate(lines):
        if at not in events:
            lines[at] = redactor.text(line)
        elif (event := redactor.value(events[at])) != events[at] or at in changed:
            lines[at] = f"{_DATA} {json.dumps(event)}"
    return "\n".join(lines)


def _redact_body(redactor: Redactor, text: str) -> str:
    """The body of a response that is no stream."""
    try:
        before = json.loads(text)
    except ValueError:
        return redactor.text(text)
    after = redactor.value(before)
    return text if after == before else json.dumps(after)


def _redact_joined(redactor: Redactor, events: dict[int, Any]) -> set[int]:
    """Replace the secrets that only several events together contain; the lines of the events that were changed."""
    texts: dict[_Path, list[tuple[int, _Path, str]]] = {}
    for at, event in events.items():
        for key, path, text in _leaves(event, (), ()):
            texts.setdefault((*_which(event), *key), []).append((at, path, text))
    changed: set[int] = set()
    for found in texts.values():
        pieces = [text for _, _, text in found]
        whole = "".join(pieces)
        spans = redactor.spans(whole)
        if not spans or len(set(pieces)) == 1:  # what each event repeats is no text that goes on
            continue
        for (at, path, text), made in zip(found, _in_pieces(spans, whole, pieces), strict=True):
            if made != text:
                _put(events[at], path, made)
                changed.add(at)
    return changed


def _in_pieces(spans: Sequence[Span], whole: str, pieces: Sequence[str]) -> list[str]:
    """The redacted text in as many pieces as before: the mask is in the piece in which the secret begins."""
    made: list[str] = []
    begin = 0
    for piece in pieces:
        end, kept = begin + len(piece), ""
        at = begin
        for first, last in spans:
            if last <= begin or first >= end:
                continue
            kept += whole[at : max(at, first)] + (MASK if first >= begin else "")
            at = min(end, last)
        made.append(kept + whole[at:end])
        begin = end
    return made


def _which(event: Any) -> _Path:
    """What tells the streams within a stream apart: kind of event, block, item."""
    if not isinstance(event, dict):
        return ()
    given = cast("dict[str, Any]", event)
    return tuple([str(given.get(name, "")) for name in ("type", "index", "item_id", "output_index", "content_index")])


def _leaves(value: Any, key: _Path, path: _Path) -> Iterator[tuple[_Path, _Path, str]]:
    """Every text in it, with what it belongs to and where it stands: one of several calls has its number in ``index``."""
    if isinstance(value, str):
        yield key, path, value
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            if not is_opaque(name, cast("dict[str, Any]", value)):
                yield from _leaves(inner, (*key, name), (*path, name))
    elif isinstance(value, list):
        for at, inner in enumerate(cast("list[Any]", value)):
            number = cast("dict[str, Any]", inner).get("index", at) if isinstance(inner, dict) else at
            yield from _leaves(inner, (*key, f"{number}"), (*path, at))


def _put(value: Any, path: _Path, text: str) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = text
