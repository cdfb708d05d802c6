"""Blocks that only the host understands: what its own tools were asked and said, and its summaries of the conversation.

They are no calls of ours and no text, but the model needs them again. So they are kept as redacted reasoning, as the JSON
they came in, and go back to the model that made them in the form they had. Real redacted reasoning is never JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mainspring.events import parse_call
from mainspring.messages import ContentBlock, RedactedThinkingBlock
from mainspring.models.json_values import as_object, to_json

_decode = msgspec.json.Decoder().decode
_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})


def is_opaque(kind: str) -> bool:
    """Whether blocks of this type are kept and sent back; others that are not known are skipped."""
    return kind in _CALLS or kind == "compaction" or kind.endswith("_tool_result")


def opaque_data(start: Mapping[str, Any], grown: str) -> str:
    """A complete block as text.

    Args:
        start: What it was opened with.
        grown: What its deltas added: the input of a call, or the content of a summary.
    """
    block = dict(start)
    if grown and block.get("type") in _CALLS:
        block["input"] = parse_call("", "", grown).input
    elif grown:
        block["content"] = grown
    return to_json(block).decode()


def sendable(blocks: Iterable[ContentBlock]) -> dict[int, dict[str, Any]]:
    """The opaque blocks of a message that may go back: by position, without calls and results that miss each other."""
    found: dict[int, dict[str, Any]] = {}
    for position, block in enumerate(blocks):
        if isinstance(block, RedactedThinkingBlock) and block.data.startswith("{"):
            value = _parsed(block.data)
            if value is not None:
                found[position] = value
    called = {value.get("id") for value in found.values() if value.get("type") in _CALLS}
    answered = {value.get("tool_use_id") for value in found.values()}
    return {at: value for at, value in found.items() if _is_paired(value, called, answered)}


def _is_paired(block: Mapping[str, Any], called: set[Any], answered: set[Any]) -> bool:
    if block.get("type") in _CALLS:
        return block.get("id") in answered
    return "tool_use_id" not in block or block["tool_use_id"] in called


def _parsed(data: str) -> dict[str, Any] | None:
    try:
        return as_object(_decode(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
