"""Typed structs of the fields that are read from Anthropic Messages events, and server-side blocks.

Server-side blocks (server tool calls and results, compaction summaries) are neither calls nor text, but the model needs them
again. They are stored as redacted reasoning that contains the received JSON, and are sent back to the same model in their
original form. Real redacted reasoning is never JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.messages import ContentBlock, RedactedThinkingBlock, ToolUseBlock, strip_surrogates
from mainspring.models.codec.text import SurrogateJoiner
from mainspring.models.json_values import as_dict, as_int, to_json
from mainspring.models.message_builder import parse_call


class AnthropicDelta(Struct, gc=False):
    """A delta of a block, or the final fields of the message."""

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


decode_anthropic_event = msgspec.json.Decoder(Event).decode
"""Decode an event quickly; it fails for unexpected types, and `LenientEventParser` is used instead."""


_TEXTS = ("text", "thinking", "partial_json", "signature", "content")


class AnthropicEventParser:
    """Parses events with fields of any type; invalid fields are ignored, split characters are joined."""

    __slots__ = ("_joiner",)

    def __init__(self) -> None:
        self._joiner = SurrogateJoiner()

    def event(self, value: Mapping[str, Any]) -> Event:
        """Return the event of an object."""
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
        texts = {name: self._joiner.join(_text(value.get(name)), f"{place} {name}") for name in _TEXTS}
        return AnthropicDelta(
            type=_text(value.get("type")) or "",
            stop_reason=_text(value.get("stop_reason")),
            stop_details=as_dict(value.get("stop_details")),
            **texts,
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


_decode = msgspec.json.Decoder().decode
_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})


def is_server_block(kind: str) -> bool:
    """Return True if blocks of this type are stored and sent back; other unknown blocks are skipped."""
    return kind in _CALLS or kind == "compaction" or kind.endswith("_tool_result")


def encode_server_block(start: Mapping[str, Any], grown: str) -> str:
    """Encode a complete block as text.

    Args:
        start: Object that opened the block.
        grown: Content of its deltas: the input of a call, or the content of a summary.
    """
    block = dict(start)
    if grown and block.get("type") in _CALLS:
        block["input"] = parse_call("", "", grown).input
    elif grown:
        block["content"] = grown
    return to_json(block).decode()


def decode_server_blocks(blocks: Sequence[ContentBlock], *, is_paused: bool = False) -> dict[int, dict[str, Any]]:
    """Return the server-side blocks of a message, by position.

    A server-side call without a result is omitted, unless client-side calls are also pending or the host paused the turn: then
    its result arrives with a later message.
    """
    found: dict[int, dict[str, Any]] = {}
    for position, block in enumerate(blocks):
        value = parse_json_object(block.data) if isinstance(block, RedactedThinkingBlock) else None
        if value is not None and "type" in value:
            found[position] = value
    if not found or is_paused or any(isinstance(block, ToolUseBlock) for block in blocks):
        return found
    answered = {value.get("tool_use_id") for value in found.values()}
    return {at: value for at, value in found.items() if value.get("type") not in _CALLS or value.get("id") in answered}


def parse_json_object(text: str | None) -> dict[str, Any] | None:
    """Return the JSON object of a stored text, if it is a server-side block."""
    if not text or not text.startswith("{"):
        return None
    try:
        return as_dict(_decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
