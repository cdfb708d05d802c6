"""Secrets out of tapes: wherever they stand, in whatever form JSON gives them, and also where a stream spells them out in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from mainspring.redaction import MASK, redact_keys

_DATA = "data:"
_Path = tuple[str | int, ...]


def forms_of(secret: str) -> Iterator[str]:
    """A secret as it is, and as it stands in JSON and in JSON within JSON, with and without letters beyond ASCII."""
    yield secret
    for ascii_only in (False, True):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]


class Masking:
    """Masks secrets; more may become known as a run goes on.

    Args:
        secrets: Values that are secret, beside whatever has the shape of a key.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms: tuple[str, ...] = ()
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """These are secret as well."""
        forms = {*self._forms, *[form for secret in secrets if secret for form in forms_of(secret)]}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def text(self, text: str) -> str:
        """The text without them."""
        return redact_keys(text, *self._forms)

    def value(self, value: Any, *, names: bool = False) -> Any:
        """The same for whatever JSON can hold; with ``names`` also for the names in objects."""
        match value:
            case str():
                return self.text(value)
            case dict():
                given = cast("dict[str, Any]", value)
                return {self.text(k) if names else k: self.value(v, names=names) for k, v in given.items()}
            case list() | tuple():
                return [self.value(v, names=names) for v in cast("list[Any]", value)]
            case _:
                return value

    def stream(self, text: str) -> str:
        """The text of an answer. Where it is a stream of events, pieces that belong together are looked at together."""
        lines = text.split("\n")
        events: dict[int, Any] = {}
        for at, line in enumerate(lines):
            if line.startswith(_DATA):
                try:
                    events[at] = json.loads(line.removeprefix(_DATA))
                except ValueError:
                    continue
        for at in self._joined(events):
            lines[at] = f"{_DATA} {json.dumps(events[at])}"
        made = self.text("\n".join(lines)).split("\n")
        for at, event in events.items() if len(made) == len(lines) else ():
            if not _is_json(made[at].removeprefix(_DATA)):  # as where a secret of digits met those of an escape
                made[at] = f"{_DATA} {json.dumps(self.value(event, names=True))}"
        return "\n".join(made)

    def _joined(self, events: dict[int, Any]) -> set[int]:
        """Mask what only several events together tell; the lines of those that were changed."""
        texts: dict[_Path, list[tuple[int, _Path, str]]] = {}
        for at, event in events.items():
            for key, path, text in _leaves(event, (), ()):
                texts.setdefault((*_which(event), *key), []).append((at, path, text))
        changed: set[int] = set()
        for found in texts.values():
            pieces = [text for _, _, text in found]
            whole = "".join(pieces)
            clean = self.text(whole)
            if clean == whole or len(set(pieces)) == 1:  # what each event repeats is no text that goes on
                continue
            for (at, path, text), made in zip(found, _in_pieces(clean, whole, pieces), strict=True):
                if made != text:
                    _put(events[at], path, made)
                    changed.add(at)
        return changed


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _in_pieces(clean: str, whole: str, pieces: list[str]) -> list[str]:
    """A masked text in as many pieces as before: a mask stands in the piece in which the secret began."""
    spans = _spans(clean, whole)
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
    return made if "".join(made) == clean else [clean, *[""] * (len(pieces) - 1)]


def _spans(clean: str, whole: str) -> list[tuple[int, int]]:
    """From where to where a text was masked."""
    first, *parts = clean.split(MASK)
    spans: list[tuple[int, int]] = []
    begin = len(first)
    for number, part in enumerate(parts, 1):
        end = len(whole) - len(part) if number == len(parts) else whole.find(part, begin + 1)
        spans.append((begin, end))
        begin = end + len(part)
    return spans


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
            yield from _leaves(inner, (*key, name), (*path, name))
    elif isinstance(value, list):
        for at, inner in enumerate(cast("list[Any]", value)):
            number = cast("dict[str, Any]", inner).get("index", at) if isinstance(inner, dict) else at
            yield from _leaves(inner, (*key, f"{number}"), (*path, at))


def _put(value: Any, path: _Path, text: str) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = text
