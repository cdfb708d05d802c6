"""Images where there is nobody to see them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mainspring.messages.content import ContentBlock, ImageBlock, TextBlock, ToolResultBlock
from mainspring.messages.message import AgentMessage, Message


def image_marker(block: ImageBlock) -> str:
    """The line of text that stands for an image where the model takes none."""
    return f"[{block.media_type} image left out: this model takes no images]"


def sanitize_stored_tool_results(messages: Sequence[AgentMessage], *, vision: bool = False) -> list[AgentMessage]:
    """A stored history as a model without vision can take it: images in tool results become lines of text.

    Requests are repaired so by themselves; this is for those who hand a stored history to something else. Nothing is changed
    in place.

    Args:
        messages: The history.
        vision: Whether the model takes images; then nothing is left out.

    Returns:
        The messages; those in which nothing had to change are the same objects.
    """
    return list(messages) if vision else [_flattened(message) for message in messages]


def _flattened(message: AgentMessage) -> AgentMessage:
    if not isinstance(message, Message) or not any(map(_shows, message.content)):
        return message
    return replace(message, content=tuple([_flat(b) if isinstance(b, ToolResultBlock) else b for b in message.content]))


def _shows(block: ContentBlock) -> bool:
    return (
        isinstance(block, ToolResultBlock)
        and not isinstance(block.content, str)
        and any(isinstance(part, ImageBlock) for part in block.content)
    )


def _flat(block: ToolResultBlock) -> ToolResultBlock:
    """A result with all of its content as one text."""
    if isinstance(block.content, str):
        return block
    lines = [part.text if isinstance(part, TextBlock) else image_marker(part) for part in block.content]
    return replace(block, content="\n".join(lines))
