"""Messages, their blocks, and token usage: the types that all other layers share."""

from mainspring.messages.codec import decode_message, encode_message, strip_surrogates
from mainspring.messages.content import (
    ContentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.messages.message import (
    AgentMessage,
    CustomMessage,
    Message,
    Role,
    StopReason,
    convert_to_llm,
    image_placeholder,
    sanitize_stored_tool_results,
    to_finish_reason,
    to_messages,
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
    "ToolDefinition",
    "ToolResultBlock",
    "ToolUseBlock",
    "Usage",
    "to_finish_reason",
    "convert_to_llm",
    "decode_message",
    "encode_message",
    "image_placeholder",
    "sanitize_stored_tool_results",
    "strip_surrogates",
    "to_messages",
    "utc_now",
]
