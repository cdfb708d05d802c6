"""Messages, their blocks, and token usage: the vocabulary that every other layer speaks."""

from mainspring.messages.codec import decode_message, encode_message, strip_surrogates
from mainspring.messages.content import (
    ContentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)
from mainspring.messages.message import (
    AgentMessage,
    CustomMessage,
    Message,
    Role,
    StopReason,
    as_messages,
    classic_stop_reason,
    convert_to_llm,
    image_marker,
    sanitize_stored_tool_results,
    utc_now,
)
from mainspring.messages.usage import Cost, Usage

__all__ = [
    "AgentMessage",
    "ContentBlock",
    "Cost",
    "CustomMessage",
    "ImageBlock",
    "Message",
    "RedactedThinkingBlock",
    "Role",
    "StopReason",
    "TextBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolSpec",
    "ToolUseBlock",
    "Usage",
    "as_messages",
    "classic_stop_reason",
    "convert_to_llm",
    "decode_message",
    "encode_message",
    "image_marker",
    "sanitize_stored_tool_results",
    "strip_surrogates",
    "utc_now",
]
