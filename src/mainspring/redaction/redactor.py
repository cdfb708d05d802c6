"""The function that redacts secrets in text, and the same for JSON and for lines of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, cast
from urllib.parse import quote

import msgspec

from mainspring.redaction.fields import (
    QUERY_NAMES,
    environment_secrets,
    find_named_values,
    is_secret_value,
    is_stand_in,
    strength_of,
)
from mainspring.redaction.shapes import (
    Span,
    compile_regex,
    find_credentials_in_urls,
    find_logins,
    find_private_keys,
    find_tokens,
    to_lower,
)

REDACTED = "[redacted]"


_MIN_CHARS = 4
_SHORT = 12  # a shorter known value is not searched within words: it may be part of a hash
_BLOCKS = frozenset(
    {"image", "redacted_thinking", "base64", "document", "input_audio", "input_file", "image_url", "media"}
)
_BLOCK_DATA = ("data", "file_data", "image_url", "url")
_SKIPPED_BLOCK_TYPES = frozenset(
    {"signature", "thoughtSignature", "thought_signature", "encrypted_content", "b64_json"}
)
_MEDIA = ("mimeType", "mime_type", "media_type", "mediaType")
_DATA_URI = r";base64,[A-Za-z0-9+/=_-]*"


def redact_environment(text: str, *secrets: str) -> str:
    """Replace every secret in a text with ``[redacted]``.

    Secrets are tokens of known issuers, private keys, passwords in URLs, values with the name of a secret, and the values of
    environment variables with such a name. Other text is unchanged.

    Args:
        text: Any text.
        secrets: More secret values.
    """
    return Redactor.of(values=secrets).text(text)


def redact_value(value: Any) -> Any:
    """Do the same in any JSON-like value; see `Redactor.value`."""
    return Redactor.of().value(value)


def is_secret_name(name: str) -> bool:
    """Return True if a variable, a header, or a URL parameter with this name contains a secret."""
    return bool(strength_of(name)) or name.lower() in QUERY_NAMES


_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""Replacements of `html.escape`; that module takes a millisecond to load."""


class Redactor:
    """Redactor that knows secret values, in addition to those that it recognizes by shape or name.

    Args:
        values: Values that are secret in any text.
        likely: Values that are probably secret: a short one is replaced only if it is a separate word.
    """

    def __init__(self, values: Iterable[str] = (), likely: Iterable[str] = ()) -> None:
        self._values: tuple[str, ...] = ()
        self._likely = frozenset(value for value in likely if len(value) < _SHORT)
        self.add([*values, *likely])

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ, values: Iterable[str] = ()) -> Self:
        """Create a redactor that knows the secrets of an environment.

        Args:
            environ: The environment.
            values: More secret values.
        """
        return cls(values, environment_secrets(environ))

    def add(self, values: Iterable[str]) -> None:
        """Add secret values."""
        forms = {form for value in values if len(value) >= _MIN_CHARS for form in encoded_forms(value)}
        self._values = tuple(sorted({*self._values, *forms}, key=lambda form: (-len(form), form)))

    def text(self, text: str) -> str:
        """Replace the secrets in a text; a text without secrets is returned unchanged."""
        spans = self.spans(text)
        if not spans:
            return text
        parts: list[str] = []
        at = 0
        for begin, end in spans:
            parts += (text[at:begin], REDACTED)
            at = end
        return "".join(parts) + text[at:]

    def spans(self, text: str) -> list[Span]:
        """Find the secrets in a text.

        Returns:
            The start and end of each, in order, without overlaps.
        """
        low = to_lower(text)
        found = [*self._known(text), *find_tokens(text), *find_private_keys(text)]
        found += [*find_named_values(text, low), *find_logins(text, low)]
        found += [span for span in find_credentials_in_urls(text) if not _is_example(text[slice(*span)])]
        if not found:
            return found
        if ";base64," in text:
            images = [match.span() for match in compile_regex(_DATA_URI).finditer(text)]
            found = [span for span in found if not any(a < span[0] < b for a, b in images)]
        merged: list[Span] = []
        for begin, end in sorted(found):
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        return merged

    def _known(self, text: str) -> Iterator[Span]:
        for value in self._values:
            if value not in text:
                continue
            within_words = value not in self._likely
            at = text.find(value)
            while at >= 0:
                end = at + len(value)
                if within_words or not (_is_in_word(text, at) or text[end : end + 1].isalnum()):
                    yield at, end
                at = text.find(value, end)

    def value(self, value: Any, *, hide: frozenset[str] = frozenset()) -> Any:
        """Replace the secrets in a JSON-like value, including those identified by the name of their field or the option before them.

        Signatures of providers and the bytes of images are unchanged.

        Args:
            value: Strings, lists, dictionaries, and others, which are unchanged.
            hide: Names of fields whose values are all replaced, except references to variables (``${NAME}``).
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            items = self._items(cast("list[Any]", value), hide)
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            fields = cast("dict[Any, Any]", value)
            return {self._key(k): self._field(str(k), v, fields, hide) for k, v in fields.items()}
        return value

    def line(self, line: bytes) -> bytes:
        """Replace the secrets in a line of JSON; a line without secrets is returned unchanged."""
        text = line.decode("utf-8", "surrogatepass")
        if not self._may_hold_secrets(text):
            return line
        before = msgspec.json.decode(line)
        after = self.value(before)
        return line if after == before else msgspec.json.encode(after)

    def _may_hold_secrets(self, text: str) -> bool:
        return bool(self.spans(text)) or any(hint in text for hint in _LISTS)

    def _key(self, key: Any) -> Any:
        return self.text(key) if isinstance(key, str) and len(key) >= 16 else key

    def _items(self, items: Iterable[Any], hide: frozenset[str]) -> list[Any]:
        redacted: list[Any] = []
        option = ""
        for item in items:
            if isinstance(item, str) and option and not item.startswith("-") and _is_argument(option, item):
                redacted.append(_hide_password(item) if option in _LOGINS else REDACTED)
            else:
                redacted.append(self.value(item, hide=hide))
            option = item if isinstance(item, str) and item.startswith("-") and "=" not in item else ""
        return redacted

    def _field(self, name: str, value: Any, fields: Mapping[Any, Any], hide: frozenset[str]) -> Any:
        if name in hide:
            return _hide(value)
        if not isinstance(value, str):
            return self.value(value, hide=hide)
        if is_server_block(name, fields):
            return value
        if name == "value" and isinstance(owner := fields.get("name", fields.get("key")), str):
            name = owner
        strength = strength_of(name)
        if strength and is_secret_value(value, strength, "data"):
            return value if value.startswith("data:") else REDACTED
        return self.text(value)


_LOGINS = ("-u", "--user", "--proxy-user")
_LISTS = ('"-', '"value"')
"""Marks of a JSON line whose secrets are recognizable only by its structure."""


def _is_argument(option: str, value: str) -> bool:
    """Return True if the argument of an option is a secret."""
    if option in _LOGINS:
        return ":" in value and not value.startswith("$") and not value.rpartition(":")[2].isdigit()
    if option in {"-p", "-P", "-w", "-k", "-t"}:
        return any(c.isdigit() for c in value) and is_secret_value(value, "weak", "data")
    if not strength_of(option.lstrip("-")) or value.startswith("id="):
        return False
    return is_secret_value(value, "password", "data") or (len(value) >= _MIN_CHARS and not value.isalpha())


def _hide_password(login: str) -> str:
    return f"{login.partition(':')[0]}:{REDACTED}"


def _hide(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _hide(v) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_hide(v) for v in cast("list[Any]", value)]
    return value if value is None or (isinstance(value, str) and value.startswith("${")) else REDACTED


def _is_example(login: str) -> bool:
    """Return True if the password of a URL is only a placeholder, for example, ``user:password``."""
    password = login.partition(":")[2]
    return len(password) >= 8 and is_stand_in(password)


def is_server_block(name: str, fields: Mapping[Any, Any]) -> bool:
    """Return True if a field is a signature or the bytes of a file, which must stay unchanged."""
    if name in _SKIPPED_BLOCK_TYPES:
        return name != "signature" or "type" in fields or "thinking" in fields
    return name in _BLOCK_DATA and (
        fields.get("type") in _BLOCKS or (name == "data" and any(m in fields for m in _MEDIA))
    )


def _is_in_word(text: str, at: int) -> bool:
    """Return True if a letter or digit comes before, unless it belongs to an escape, for example, in JSON."""
    return text[at - 1 : at].isalnum() and text[max(0, at - 2)] != "\\"


def encoded_forms(secret: str) -> set[str]:
    """Return a secret unchanged, and as written in JSON, in JSON within JSON, in URLs, and in HTML."""
    forms = {secret, quote(secret, safe=""), secret.translate(_HTML)}
    for ascii_only in (False, True):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        forms |= {once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    return forms


def redacted_repr(value: Any, *secret: str) -> str:
    """Format a struct without its secrets; unset fields are omitted.

    Args:
        value: A struct.
        secret: Its fields that contain secrets; of a mapping the names are shown.
    """
    shown: list[str] = []
    for name in value.__struct_fields__:
        given = getattr(value, name)
        if given is None or given == {}:
            continue
        if name in secret and given:
            given = dict.fromkeys(cast("dict[str, Any]", given), REDACTED) if isinstance(given, dict) else REDACTED
        shown.append(f"{name}={given!r}")
    return redact_environment(f"{type(value).__name__}({', '.join(shown)})")


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
    """Redact the body of a response that is not a stream."""
    try:
        before = json.loads(text)
    except ValueError:
        return redactor.text(text)
    after = redactor.value(before)
    return text if after == before else json.dumps(after)


def _redact_joined(redactor: Redactor, events: dict[int, Any]) -> set[int]:
    """Replace the secrets that only several events together contain. Return the lines of the changed events."""
    texts: dict[_Path, list[tuple[int, _Path, str]]] = {}
    for at, event in events.items():
        for key, path, text in _leaves(event, (), ()):
            texts.setdefault((*_stream_key(event), *key), []).append((at, path, text))
    changed: set[int] = set()
    for found in texts.values():
        pieces = [text for _, _, text in found]
        joined = "".join(pieces)
        spans = redactor.spans(joined)
        if not spans or len(set(pieces)) == 1:  # fields that each event repeats are not pieces of one text
            continue
        for (at, path, text), redacted in zip(found, _split_like(spans, joined, pieces), strict=True):
            if redacted != text:
                _set_at_path(events[at], path, redacted)
                changed.add(at)
    return changed


def _split_like(spans: Sequence[Span], joined: str, pieces: Sequence[str]) -> list[str]:
    """Return the redacted text in as many pieces as before: the mask is in the piece in which the secret begins."""
    parts: list[str] = []
    begin = 0
    for piece in pieces:
        end, piece_text = begin + len(piece), ""
        at = begin
        for first, last in spans:
            if last <= begin or first >= end:
                continue
            piece_text += joined[at : max(at, first)] + (REDACTED if first >= begin else "")
            at = min(end, last)
        parts.append(piece_text + joined[at:end])
        begin = end
    return parts


def _stream_key(event: Any) -> _Path:
    """Return the key of the streams within a stream: kind of event, block, item."""
    if not isinstance(event, dict):
        return ()
    given = cast("dict[str, Any]", event)
    return tuple([str(given.get(name, "")) for name in ("type", "index", "item_id", "output_index", "content_index")])


def _leaves(value: Any, key: _Path, path: _Path) -> Iterator[tuple[_Path, _Path, str]]:
    """Return every string in a value with its parent and position: one of several calls has its number in ``index``."""
    if isinstance(value, str):
        yield key, path, value
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            if not is_server_block(name, cast("dict[str, Any]", value)):
                yield from _leaves(inner, (*key, name), (*path, name))
    elif isinstance(value, list):
        for at, inner in enumerate(cast("list[Any]", value)):
            number = cast("dict[str, Any]", inner).get("index", at) if isinstance(inner, dict) else at
            yield from _leaves(inner, (*key, f"{number}"), (*path, at))


def _set_at_path(value: Any, path: _Path, text: str) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = text
