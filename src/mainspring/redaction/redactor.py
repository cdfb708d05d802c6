"""The one function that takes secrets out of text, and the same for JSON and for lines of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, cast
from urllib.parse import quote

import msgspec

from mainspring.redaction.fields import (
    QUERY_NAMES,
    find_named_values,
    is_secret_value,
    is_stand_in,
    secret_values,
    strength_of,
)
from mainspring.redaction.shapes import (
    Span,
    compiled,
    find_credentials_in_urls,
    find_logins,
    find_private_keys,
    find_tokens,
    to_lower,
)

MASK = "[redacted]"

_SHORTEST = 4
_SHORT = 12  # a known value that is shorter is not looked for within words: it may be part of a hash
_BLOCKS = frozenset(
    {"image", "redacted_thinking", "base64", "document", "input_audio", "input_file", "image_url", "media"}
)
_BLOCK_DATA = ("data", "file_data", "image_url", "url")
_OPAQUE = frozenset({"signature", "thoughtSignature", "thought_signature", "encrypted_content", "b64_json"})
_MEDIA = ("mimeType", "mime_type", "media_type", "mediaType")
_DATA_URI = r";base64,[A-Za-z0-9+/=_-]*"


def redact(text: str, *secrets: str) -> str:
    """Replace every secret in a text with ``[redacted]``.

    Secrets are tokens of known issuers, private keys, passwords in URLs, values that have the name of a secret, and the values of
    the environment's variables that have such a name. Other text is unchanged.

    Args:
        text: Any text.
        secrets: Further values that are secret.
    """
    return Redactor.of(values=secrets).text(text)


def redact_value(value: Any) -> Any:
    """Do the same in whatever JSON can hold; see `Redactor.value`."""
    return Redactor.of().value(value)


def is_secret_name(name: str) -> bool:
    """Return True if a variable, a header, or a parameter of a URL that has this name holds a secret."""
    return bool(strength_of(name)) or name.lower() in QUERY_NAMES


_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""As `html.escape` writes them; that module takes a millisecond to load."""


class Redactor:
    """Knows values that are secret, in addition to those that show it by their shape or name.

    Args:
        values: Values that are secret, in whatever text they are.
        likely: Values that are probably secret: a short one is replaced only where it is a word of its own.
    """

    def __init__(self, values: Iterable[str] = (), likely: Iterable[str] = ()) -> None:
        self._values: tuple[str, ...] = ()
        self._likely = frozenset(value for value in likely if len(value) < _SHORT)
        self.add([*values, *likely])

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ, values: Iterable[str] = ()) -> Self:
        """Create one that knows the secrets of an environment.

        Args:
            environ: The environment.
            values: Further values that are secret.
        """
        return cls(values, secret_values(environ))

    def add(self, values: Iterable[str]) -> None:
        """Add values that are secret."""
        forms = {form for value in values if len(value) >= _SHORTEST for form in forms_of(value)}
        self._values = tuple(sorted({*self._values, *forms}, key=lambda form: (-len(form), form)))

    def text(self, text: str) -> str:
        """Replace the secrets in a text; one without any is returned unchanged."""
        spans = self.spans(text)
        if not spans:
            return text
        parts: list[str] = []
        at = 0
        for begin, end in spans:
            parts += (text[at:begin], MASK)
            at = end
        return "".join(parts) + text[at:]

    def spans(self, text: str) -> list[Span]:
        """Find the secrets in a text.

        Returns:
            Where each begins and ends, in order; none overlap.
        """
        low = to_lower(text)
        found = [*self._known(text), *find_tokens(text), *find_private_keys(text)]
        found += [*find_named_values(text, low), *find_logins(text, low)]
        found += [span for span in find_credentials_in_urls(text) if not _is_example(text[slice(*span)])]
        if not found:
            return found
        if ";base64," in text:
            images = [match.span() for match in compiled(_DATA_URI).finditer(text)]
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
        """Replace the secrets in a JSON-like value, also those that show by the name of their field or the option before them.

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
        """Replace the secrets in a line of JSON; one without any is returned unchanged."""
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
        made: list[Any] = []
        option = ""
        for item in items:
            if isinstance(item, str) and option and not item.startswith("-") and _is_argument(option, item):
                made.append(_hide_password(item) if option in _LOGINS else MASK)
            else:
                made.append(self.value(item, hide=hide))
            option = item if isinstance(item, str) and item.startswith("-") and "=" not in item else ""
        return made

    def _field(self, name: str, value: Any, fields: Mapping[Any, Any], hide: frozenset[str]) -> Any:
        if name in hide:
            return _hide(value)
        if not isinstance(value, str):
            return self.value(value, hide=hide)
        if is_opaque(name, fields):
            return value
        if name == "value" and isinstance(owner := fields.get("name", fields.get("key")), str):
            name = owner
        strength = strength_of(name)
        if strength and is_secret_value(value, strength, "data"):
            return value if value.startswith("data:") else MASK
        return self.text(value)


_LOGINS = ("-u", "--user", "--proxy-user")
_LISTS = ('"-', '"value"')
"""What a line of JSON contains where secrets show only by its structure."""


def _is_argument(option: str, value: str) -> bool:
    """Whether the argument of an option is a secret."""
    if option in _LOGINS:
        return ":" in value and not value.startswith("$") and not value.rpartition(":")[2].isdigit()
    if option in {"-p", "-P", "-w", "-k", "-t"}:
        return any(c.isdigit() for c in value) and is_secret_value(value, "weak", "data")
    if not strength_of(option.lstrip("-")) or value.startswith("id="):
        return False
    return is_secret_value(value, "password", "data") or (len(value) >= _SHORTEST and not value.isalpha())


def _hide_password(login: str) -> str:
    return f"{login.partition(':')[0]}:{MASK}"


def _hide(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _hide(v) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_hide(v) for v in cast("list[Any]", value)]
    return value if value is None or (isinstance(value, str) and value.startswith("${")) else MASK


def _is_example(login: str) -> bool:
    """Whether the password of a URL only stands in for one, as in ``user:password``."""
    password = login.partition(":")[2]
    return len(password) >= 8 and is_stand_in(password)


def is_opaque(name: str, fields: Mapping[Any, Any]) -> bool:
    """Whether a field is a signature or the bytes of a file, which must stay as they are."""
    if name in _OPAQUE:
        return name != "signature" or "type" in fields or "thinking" in fields
    return name in _BLOCK_DATA and (
        fields.get("type") in _BLOCKS or (name == "data" and any(m in fields for m in _MEDIA))
    )


def _is_in_word(text: str, at: int) -> bool:
    """Whether a letter or digit comes before, other than that of an escape as in JSON."""
    return text[at - 1 : at].isalnum() and text[max(0, at - 2)] != "\\"


def forms_of(secret: str) -> set[str]:
    """A secret as it is, and as it is written in JSON, in JSON within JSON, in URLs, and in HTML."""
    forms = {secret, quote(secret, safe=""), secret.translate(_HTML)}
    for ascii_only in (False, True):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        forms |= {once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    return forms


def masked_repr(value: Any, *secret: str) -> str:
    """Format a struct without its secrets; fields that are not set are left out.

    Args:
        value: A struct.
        secret: Its fields that hold secrets; of a mapping the names stay.
    """
    shown: list[str] = []
    for name in value.__struct_fields__:
        given = getattr(value, name)
        if given is None or given == {}:
            continue
        if name in secret and given:
            given = dict.fromkeys(cast("dict[str, Any]", given), MASK) if isinstance(given, dict) else MASK
        shown.append(f"{name}={given!r}")
    return redact(f"{type(value).__name__}({', '.join(shown)})")
