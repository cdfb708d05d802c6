"""The ids of the calls in an answer, by which results find their calls."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from mainspring.messages import Message, ToolUseBlock


def ensure_unique_call_ids(message: Message, new_id: Callable[[], str]) -> Message:
    """The message with an id for each of its calls that no other has; the same object where that is so already."""
    ids = [c.id for c in message.tool_uses]
    if not ids or (all(ids) and len(set(ids)) == len(ids)):
        return message
    seen: set[str] = set()
    content = list(message.content)
    for i, block in enumerate(content):
        if isinstance(block, ToolUseBlock):
            if not block.id or block.id in seen:
                content[i] = block = replace(block, id=f"call_{new_id()}")
            seen.add(block.id)
    return replace(message, content=tuple(content))
