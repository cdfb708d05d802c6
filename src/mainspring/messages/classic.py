"""Conversion to and from messages with a separate role for tool results, and with camelCase names.

In this form a tool result is a message of the role ``toolResult``, a call is a block of the type ``toolCall``, and times are
milliseconds since 1970. Other programs store sessions in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.messages.content import ImageBlock, TextBlock, ToolResultBlock
from mainspring.messages.message import (
    OTHER_STOP_REASONS,
    AgentMessage,
    Message,
    to_finish_reason,
)
from mainspring.messages.usage import Usage


class ToolResultMessage(Struct, frozen=True, kw_only=True, eq=False):
    """A tool result as a separate message.

    Attributes:
        tool_call_id: ID of the call.
        tool_name: Name of the tool.
        content: Text and images.
        details: Data for applications.
        is_error: Whether the call failed.
        timestamp: Time of creation, in UTC.
    """

    tool_call_id: str
    tool_name: str
    content: tuple[TextBlock | ImageBlock, ...]
    details: Any = None
    is_error: bool = False
    timestamp: datetime

    @property
    def role(self) -> Literal["toolResult"]:
        """Return ``toolResult``."""
        return "toolResult"

    @property
    def text(self) -> str:
        """Return all text blocks, joined."""
        return "".join([block.text for block in self.content if isinstance(block, TextBlock)])


def split_tool_results(messages: Iterable[AgentMessage]) -> list[AgentMessage | ToolResultMessage]:
    """Return the messages with each tool result as a separate message; other messages are the same objects."""
    split: list[AgentMessage | ToolResultMessage] = []
    for message in messages:
        if not message.tool_results or not isinstance(message, Message):
            split.append(message)
            continue
        split += [
            ToolResultMessage(
                tool_call_id=block.tool_use_id,
                tool_name=block.name,
                content=(TextBlock(block.content),) if isinstance(block.content, str) else block.content,
                details=block.details,
                is_error=block.is_error,
                timestamp=message.timestamp,
            )
            for block in message.tool_results
        ]
        rest = tuple([block for block in message.content if not isinstance(block, ToolResultBlock)])
        if rest:
            split.append(replace(message, content=rest))
    return split


def to_classic_messages(messages: Iterable[AgentMessage]) -> list[dict[str, Any]]:
    """Return the messages as JSON values with camelCase names; application messages are omitted."""
    return [
        _tool_result_to_json(message) if isinstance(message, ToolResultMessage) else _message_to_json(message)
        for message in split_tool_results(messages)
        if isinstance(message, Message | ToolResultMessage)
    ]


def _tool_result_to_json(message: ToolResultMessage) -> dict[str, Any]:
    details = {} if message.details is None else {"details": msgspec.to_builtins(message.details, enc_hook=str)}
    return {
        "role": "toolResult",
        "toolCallId": message.tool_call_id,
        "toolName": message.tool_name,
        "content": [_block_to_json(block) for block in message.content],
        **details,
        "isError": message.is_error,
        "timestamp": _to_milliseconds(message.timestamp),
    }


def _message_to_json(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.role, "content": [_block_to_json(block) for block in message.content]}
    if message.usage is not None:
        fields["usage"] = _usage_to_json(message.usage)
    if message.stop_reason is not None:
        fields["stopReason"] = to_finish_reason(message.stop_reason)
    if message.error is not None:
        fields["errorMessage"] = message.error
    for name in ("provider", "model", "id"):
        if value := getattr(message, name):
            fields[name] = value
    return {**fields, "timestamp": _to_milliseconds(message.timestamp)}


def _block_to_json(block: Struct) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(block)
    match fields["type"]:
        case "text" | "thinking" as kind if "signature" in fields:
            fields[f"{kind}Signature"] = fields.pop("signature")
        case "image":
            fields["mimeType"] = fields.pop("media_type")
        case "tool_use":
            fields["type"], fields["arguments"] = "toolCall", fields.pop("input", {})
            if "raw_input" in fields:
                fields["rawInput"] = fields.pop("raw_input")
        case _:
            pass
    return fields


def _usage_to_json(usage: Usage) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": usage.total_tokens,
    }
    if usage.reasoning_tokens:
        fields["reasoningTokens"] = usage.reasoning_tokens
    if cost := usage.cost:
        fields["cost"] = {
            "input": cost.input,
            "output": cost.output,
            "cacheRead": cost.cache_read,
            "cacheWrite": cost.cache_write,
            "total": cost.total,
        }
    return fields


def _to_milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


# --- reading ------------------------------------------------------------------------------------------------------------

_NAMES = {
    "stopReason": "stop_reason",
    "errorMessage": "error",
    "mediaType": "media_type",
    "mimeType": "media_type",
    "mime_type": "media_type",
    "textSignature": "signature",
    "thinkingSignature": "signature",
    "toolUseId": "tool_use_id",
    "toolCallId": "tool_use_id",
    "tool_call_id": "tool_use_id",
    "toolName": "name",
    "tool_name": "name",
    "isError": "is_error",
    "rawInput": "raw_input",
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheRead": "cache_read",
    "cacheWrite": "cache_write",
    "reasoningTokens": "reasoning_tokens",
    "customType": "custom_type",
}
_STOP_REASONS = {"stop": "end_turn", **{other: own for own, other in OTHER_STOP_REASONS.items() if other != "stop"}}


def from_classic_message(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON value of a message in the form of `encode_message`; names in both casings are accepted.

    Fields that the form does not need are not changed, so that a decoder reports what is invalid.
    """
    fields = _rename(value)
    fields.setdefault("kind", "custom" if "custom_type" in fields else "message")
    if isinstance(fields.get("timestamp"), int | float):
        fields["timestamp"] = _from_milliseconds(fields["timestamp"])
    if fields["kind"] != "message":
        return fields
    if isinstance(fields.get("stop_reason"), str):
        fields["stop_reason"] = _STOP_REASONS.get(fields["stop_reason"], fields["stop_reason"])
    if isinstance(fields.get("usage"), dict):
        fields["usage"] = _usage_from_json(fields["usage"])
    content = fields.get("content")
    blocks: Any = [{"type": "text", "text": content}] if isinstance(content, str) else _blocks_from_json(content)
    if fields.get("role") in ("toolResult", "tool_result"):
        names = ("tool_use_id", "name", "is_error", "details")
        result = {name: fields.pop(name) for name in names if name in fields}
        fields["role"], blocks = "user", [{"type": "tool_result", **result, "content": blocks}]
    fields["content"] = blocks
    return fields


def _rename(value: Mapping[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): each for name, each in value.items()}


def _from_milliseconds(number: float) -> Any:
    try:
        return datetime.fromtimestamp(number / 1000, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return number


def _blocks_from_json(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [
        _block_from_json(cast("dict[str, Any]", block)) if isinstance(block, dict) else block
        for block in cast("list[Any]", content)
    ]


def _block_from_json(value: dict[str, Any]) -> dict[str, Any]:
    fields = _rename(value)
    if fields.get("type") == "toolCall":
        fields["type"], fields["input"] = "tool_use", fields.pop("arguments", {})
    if fields.get("type") == "tool_result":
        fields["content"] = _blocks_from_json(fields.get("content", ""))
    return fields


def _usage_from_json(value: dict[str, Any]) -> dict[str, Any]:
    fields = _rename(value)
    for short, name in (("input", "input_tokens"), ("output", "output_tokens")):
        if short in fields:
            fields[name] = fields.pop(short)
    if isinstance(fields.get("cost"), dict):
        fields["cost"] = _rename(fields["cost"])
    return fields
