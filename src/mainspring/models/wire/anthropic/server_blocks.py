"""Blocks that only the host understands: what its own tools were asked and said, and its summaries of the conversation.

They are no calls of ours and no text, but the model needs them again. So they are kept as redacted reasoning, as the JSON
they came in, and go back to the model that made them in the form they had. Real redacted reasoning is never JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mainspring.messages import ContentBlock, RedactedThinkingBlock, ToolUseBlock
from mainspring.models.json_values import as_dict, to_json
from mainspring.models.message_builder import parse_call

_decode = msgspec.json.Decoder().decode
_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})


def is_server_block(kind: str) -> bool:
    """Whether blocks of this type are kept and sent back; others that are not known are skipped."""
    return kind in _CALLS or kind == "compaction" or kind.endswith("_tool_result")


def encode_server_block(start: Mapping[str, Any], grown: str) -> str:
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


def decode_server_blocks(blocks: Sequence[ContentBlock]) -> dict[int, dict[str, Any]]:
    """The opaque blocks of a message, by position.

    A call of the host's that has no answer beside it is left out, unless calls of ours wait there too: then the answer comes
    with a later message.
    """
    found: dict[int, dict[str, Any]] = {}
    for position, block in enumerate(blocks):
        value = parse_json_object(block.data) if isinstance(block, RedactedThinkingBlock) else None
        if value is not None and "type" in value:
            found[position] = value
    if not found or any(isinstance(block, ToolUseBlock) for block in blocks):
        return found
    answered = {value.get("tool_use_id") for value in found.values()}
    return {at: value for at, value in found.items() if value.get("type") not in _CALLS or value.get("id") in answered}


def parse_json_object(text: str | None) -> dict[str, Any] | None:
    """The JSON object in a text that was kept, if it is one of ours."""
    if not text or not text.startswith("{"):
        return None
    try:
        return as_dict(_decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
