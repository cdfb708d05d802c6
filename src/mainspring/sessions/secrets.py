"""Keys do not get into session files: what is surely a secret is masked where lines are written, and only there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, cast

import msgspec

from mainspring.redaction import KEY_MARKS, redact_keys

_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY")
_SHORTEST = 8
_OPAQUE = {"image", "redacted_thinking"}

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def secret_values(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The values of an environment's keys, the longest first."""
    found = {v for name, v in environ.items() if name.upper().endswith(_ENDINGS) and len(v) >= _SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))


class SecretFilter:
    """Masks keys in a line of a session; marks of providers and images, which only look like keys, stay as they are.

    Args:
        values: Values known to be secret, beside those that show it by their shape.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = tuple(sorted({v for v in values if len(v) >= _SHORTEST}, key=len, reverse=True))
        self._marks = (*KEY_MARKS, *[_encoder.encode(v)[1:-1] for v in self._values])

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """One that knows the keys of the environment."""
        return cls(secret_values(environ))

    def __call__(self, line: bytes) -> bytes:
        """The line without secrets; the very same where there are none."""
        for mark in self._marks:
            if mark in line:
                break
        else:
            return line
        before = _decoder.decode(line)
        after = masked(before, lambda text: redact_keys(text, *self._values))
        return line if after == before else _encoder.encode(after)


def masked(value: Any, clean: Callable[[str], str]) -> Any:
    """A decoded line with every text cleaned; marks of providers and the bytes of images stay as they are.

    Args:
        value: What JSON holds.
        clean: Takes the secrets out of a text.
    """
    match value:
        case str():
            return clean(value)
        case list():
            return [masked(item, clean) for item in cast("list[Any]", value)]
        case dict():
            fields = cast("dict[str, Any]", value)
            opaque = {"signature", "data"} if fields.get("type") in _OPAQUE else {"signature"}
            return {k: v if k in opaque and isinstance(v, str) else masked(v, clean) for k, v in fields.items()}
        case _:
            return value
