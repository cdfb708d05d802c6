"""Messages, their blocks, and token usage: the types that all other layers share."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports
from mainspring.messages.codec import (
    decode_message,
    decode_messages,
    encode_message,
    encode_messages,
    strip_surrogates,
)
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
from mainspring.messages.usage import UNKNOWN_COST, Cost, Usage

if TYPE_CHECKING:
    from mainspring.messages.classic import (
        ToolResultMessage as ToolResultMessage,
        split_tool_results as split_tool_results,
        to_classic_messages as to_classic_messages,
    )

__all__ = [
    "UNKNOWN_COST",
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
    "ToolResultMessage",
    "ToolUseBlock",
    "Usage",
    "to_finish_reason",
    "convert_to_llm",
    "decode_message",
    "decode_messages",
    "encode_message",
    "encode_messages",
    "image_placeholder",
    "sanitize_stored_tool_results",
    "split_tool_results",
    "strip_surrogates",
    "to_classic_messages",
    "to_messages",
    "utc_now",
]

lazy_exports(__name__, {"classic": "ToolResultMessage split_tool_results to_classic_messages"})
