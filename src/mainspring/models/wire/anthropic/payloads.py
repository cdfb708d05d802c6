"""The fields of the events of Anthropic Messages that are used, as typed structs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.messages import strip_surrogates
from mainspring.models.codec.text import SurrogateJoiner
from mainspring.models.json_values import as_dict, as_int


class AnthropicDelta(Struct, gc=False):
    """A piece of a block, or what the end of the message adds to it."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    content: str | None = None
    stop_reason: str | None = None
    stop_details: dict[str, Any] | None = None


class Event(Struct, gc=False):
    """One event of a stream."""

    type: str = ""
    index: int | None = None
    delta: AnthropicDelta | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


decode_event = msgspec.json.Decoder(Event).decode
"""The fast way; anything unusual about the types fails, and `LooseEvents` takes over."""

_TEXTS = ("text", "thinking", "partial_json", "signature", "content")


class LenientEventParser:
    """Events out of objects whose fields may have any type; what does not fit is left out, cut characters are mended."""

    __slots__ = ("_halves",)

    def __init__(self) -> None:
        self._halves = SurrogateJoiner()

    def event(self, value: Mapping[str, Any]) -> Event:
        """The event in an object."""
        index = as_int(value.get("index"))
        delta = as_dict(value.get("delta"))
        return Event(
            type=_text(value.get("type")) or "",
            index=index,
            delta=None if delta is None else self._delta(delta, f"{index}"),
            content_block=as_dict(strip_surrogates(value.get("content_block"))),
            message=as_dict(strip_surrogates(value.get("message"))),
            usage=as_dict(value.get("usage")),
            error=value.get("error"),
        )

    def _delta(self, value: Mapping[str, Any], place: str) -> AnthropicDelta:
        texts = {name: self._halves.mended(_text(value.get(name)), f"{place} {name}") for name in _TEXTS}
        return AnthropicDelta(
            type=_text(value.get("type")) or "",
            stop_reason=_text(value.get("stop_reason")),
            stop_details=as_dict(value.get("stop_details")),
            **texts,
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
