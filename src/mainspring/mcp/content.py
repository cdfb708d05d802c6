"""Convert the content of MCP servers to results and messages of an agent."""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from mainspring.mcp.types import Answer, McpContentBlock, PromptMessage
from mainspring.messages import ImageBlock, Message, TextBlock
from mainspring.tools import Attachment, ToolErrorCode, ToolOutput, ToolResult

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that models accept."""
_MAX_IMAGE_CHARS = 5_000_000
"""Maximum number of characters of an image that every provider accepts."""
_MAX_PARTS = 1_000
"""Maximum number of parts of a result; if there are more, consecutive texts are joined."""
NO_OUTPUT = "(no output)"


def tool_result(answer: Answer, server: str, tool: str) -> ToolResult:
    """Convert the response of a call to a result: all parts in order; unsupported parts become notes, and attachments."""
    blocks, attachments = to_model_blocks(answer.content)
    structured = answer.structured
    has_text = any(isinstance(b, TextBlock) for b in blocks)
    if structured is not None and not (has_text and (not structured or _is_shown(structured, blocks))):
        blocks.append(TextBlock(json.dumps(structured, ensure_ascii=False, indent=2)))
    details: dict[str, Any] = {"server": server, "tool": tool}
    if structured is not None:
        details["structured"] = structured
    return ToolResult(
        output=_output(blocks),
        metadata=details,
        attachments=tuple(attachments),
        is_error=answer.is_error,
        code=ToolErrorCode.UNKNOWN if answer.is_error else None,
    )


def _is_shown(structured: Mapping[str, Any], blocks: Sequence[TextBlock | ImageBlock]) -> bool:
    """Return True if the texts repeat the structured content: whole, or its only value, which may have a text for each item."""
    texts = [block.text.strip() for block in blocks if isinstance(block, TextBlock)]
    expected: list[Any] = [structured, *structured.values()] if len(structured) == 1 else [structured]
    values: list[Any] = [texts]
    for text in texts:
        values.append(text)
        with suppress(ValueError, RecursionError):
            values.append(json.loads(text))
    with suppress(ValueError, RecursionError):
        values.append([json.loads(text) for text in texts])
    return any(value in values for value in expected)


def _output(blocks: Sequence[TextBlock | ImageBlock]) -> ToolOutput:
    visible_blocks = [b for b in blocks if not isinstance(b, TextBlock) or b.text.strip()]
    if not visible_blocks:
        return NO_OUTPUT
    if len(visible_blocks) > _MAX_PARTS:
        visible_blocks = _merge_text_blocks(visible_blocks)
    if len(visible_blocks) == 1 and isinstance(visible_blocks[0], TextBlock):
        return visible_blocks[0].text
    return tuple(visible_blocks)


def _merge_text_blocks(blocks: Sequence[TextBlock | ImageBlock]) -> list[TextBlock | ImageBlock]:
    """Join consecutive text blocks."""
    merged: list[TextBlock | ImageBlock] = []
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            lines.append(block.text)
            continue
        merged += [TextBlock("\n".join(lines)), block] if lines else [block]
        lines = []
    return [*merged, TextBlock("\n".join(lines))] if lines else merged


def to_model_blocks(content: Iterable[McpContentBlock]) -> tuple[list[TextBlock | ImageBlock], list[Attachment]]:
    """Return content blocks for a model, and attachments for unsupported content."""
    blocks: list[TextBlock | ImageBlock] = []
    attachments: list[Attachment] = []
    for block in content:
        match block.get("type"):
            case "text":
                blocks.append(TextBlock(str(block.get("text", ""))))
            case "image" | "audio":
                blocks.append(_convert_media(block, "", attachments))
            case "resource_link":
                blocks.append(TextBlock(_describe_link(block)))
            case "resource":
                blocks.append(_convert_embedded(cast("McpContentBlock", block.get("resource") or {}), attachments))
            case other:
                blocks.append(TextBlock(f"[content of the unknown type {str(other)[:100]!r}]"))
    return blocks, attachments


def _convert_media(block: McpContentBlock, name: str, attachments: list[Attachment]) -> TextBlock | ImageBlock:
    kind = str(block.get("mimeType") or "application/octet-stream").lower()
    data = "".join(str(block.get("data") or "").split())  # some servers break it into lines
    if kind == "image/jpg":
        kind = "image/jpeg"
    if kind in _IMAGES and _is_base64(data):
        if len(data) <= _MAX_IMAGE_CHARS:
            return ImageBlock(kind, data)
        size = f"{len(data) * 3 // 4} bytes, which is more than models take"
        attachments.append(Attachment(name or kind.replace("/", "."), kind, data=data))
        return TextBlock(f"[{name + ': ' if name else ''}{kind}, {size}]")
    if data and not _is_base64(data):
        return TextBlock(
            f"[{name + ': ' if name else ''}{kind[:100]}: its data cannot be read, since they are not base64]"
        )
    attachments.append(Attachment(name or kind.replace("/", "."), kind, data=data))
    return TextBlock(f"[{name + ': ' if name else ''}{kind}, {len(data) * 3 // 4} bytes; it cannot be shown here]")


def _is_base64(data: str) -> bool:
    """Return True for valid base64 that models accept; a request with any other data is rejected as a whole."""
    try:
        return bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        return False


def _describe_link(block: McpContentBlock) -> str:
    kind = f", {block['mimeType']}" if block.get("mimeType") else ""
    about = f": {block['description']}" if block.get("description") else ""
    return f"[resource {block.get('title') or block.get('name')}, {block.get('uri')}{kind}]{about}"


def _convert_embedded(resource: McpContentBlock, attachments: list[Attachment]) -> TextBlock | ImageBlock:
    uri = str(resource.get("uri", ""))
    if isinstance(resource.get("text"), str):
        return TextBlock(f"[resource {uri}]\n{resource['text']}")
    return _convert_media({"mimeType": resource.get("mimeType"), "data": resource.get("blob")}, uri, attachments)


def prompt_to_messages(messages: Iterable[PromptMessage]) -> list[Message]:
    """Convert a filled-in prompt to messages for a history."""
    converted: list[Message] = []
    for message in messages:
        blocks = to_model_blocks(message.content)[0]
        if message.role == "assistant":
            text = "\n".join(b.text for b in blocks if isinstance(b, TextBlock))
            converted.append(Message(role="assistant", content=(TextBlock(text),)))
        else:
            converted.append(Message(role="user", content=tuple(blocks)))
    return converted
