"""Requests to Responses bodies."""

from __future__ import annotations

from typing import Any

from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.codec.encoded_history import MessageEncodingCache
from mainspring.models.codec.normalize import (
    EMPTY_PROMPT_TEXT,
    arguments_object,
    portable_schema,
    prepare_message,
    split_text_and_images,
)
from mainspring.models.json_values import as_list, to_json
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile, ResponsesCapabilities
from mainspring.models.wire.openai_responses.options import request_options
from mainspring.models.wire.openai_responses.payloads import decode_item_metadata

SLOT = "responses"
_LONGEST_ID = 64  # of a call or an item; some hosts make longer ones and refuse them


_EMPTY = b"," + to_json({"type": "message", "role": "user", "content": EMPTY_PROMPT_TEXT})


def encode_request(request: ModelRequest, profile: ModelProfile) -> bytes:
    """The body of a streaming request: the options first, the conversation last, so that what repeats is a prefix."""
    dialect = profile.responses
    history = MessageEncodingCache.of(request.scratch, SLOT, _key(profile))
    messages = request.messages if isinstance(request.messages, list) else list(request.messages)
    stored, tail = history.pieces(messages, lambda message: encode_message(message, profile))
    if not stored and not tail:
        tail = _EMPTY
    pieces: list[bytes | bytearray | memoryview] = [_head(request, profile, history)]
    system = request.system if request.system and not request.system.isspace() else ""
    as_message = bool(system) and dialect.system == "message"
    instructions = "" if as_message else system or dialect.instructions
    if instructions:
        pieces += [b',"instructions":', to_json(instructions)]
    pieces.append(b',"input":[')
    if as_message:
        pieces += [to_json(_system(system, dialect)), stored, tail]
    elif stored:
        pieces += [memoryview(stored)[1:], tail]
    else:
        pieces.append(tail[1:])
    pieces.append(b"]}")
    return b"".join(pieces)


def encode_message(message: Message, profile: ModelProfile) -> bytes:
    """One message as the items it becomes, each with a comma before it."""
    cleaned = prepare_message(
        message,
        profile.provider,
        profile.model,
        vision=profile.info.vision,
        unreadable=profile.unreadable,
        longest_id=_LONGEST_ID,
    )
    if cleaned is None:
        return b""
    dialect = profile.responses
    if cleaned.role == "assistant":
        items = _assistant(cleaned, dialect)
    elif cleaned.role == "system":
        items = [_system(cleaned.text, dialect)]
    else:
        items = _user(cleaned, dialect)
    return b"".join([b"," + to_json(item) for item in items])


def _key(profile: ModelProfile) -> str:
    d, info, unreadable = profile.responses, profile.info, hash(profile.unreadable)
    return f"{SLOT}|{info.provider}|{info.id}|{info.vision}|{d.system_role}|{d.reasoning}|{d.item_ids}|{d.store}|{d.tool_images}|{unreadable}"


def _head(request: ModelRequest, profile: ModelProfile, history: MessageEncodingCache) -> bytes:
    """Everything but instructions and input, without the closing brace; made anew only when something in it changed."""
    fields = {"model": profile.model, "stream": True, **request_options(request, profile)}
    own = as_list(fields.pop("tools", None))  # tools that the host has itself, given by the caller
    tools = list(request.tools)
    known = history.head
    if known is not None and known[0] == (fields, tools, own, profile.responses.strict_tools):
        return known[1]
    head = to_json(fields)[:-1]
    if tools or own:
        encoded = [*[_tool(tool, profile.responses) for tool in tools], *map(to_json, own)]
        head += b',"tools":[' + b",".join(encoded) + b"]"
    history.head = ((fields, tools, own, profile.responses.strict_tools), head)
    return head


def _tool(tool: ToolDefinition, dialect: ResponsesCapabilities) -> bytes:
    kept: dict[str, Any] = tool.__dict__  # pyright: ignore[reportAssignmentType]
    slot = f"{SLOT}|{dialect.strict_tools}"
    data = kept.get(slot)
    if data is None:
        fields: dict[str, Any] = {"type": "function", "name": tool.name, "description": tool.description}
        fields["parameters"] = portable_schema(tool)
        if dialect.strict_tools is not None:
            fields["strict"] = dialect.strict_tools
        data = kept[slot] = to_json(fields)
    return data


def _system(text: str, dialect: ResponsesCapabilities) -> dict[str, Any]:
    return {"type": "message", "role": dialect.system_role, "content": text}


def _assistant(message: Message, dialect: ResponsesCapabilities) -> list[dict[str, Any]]:
    """The items of an answer, in the order in which they came.

    Ids of items go back only if all reasoning does: a host that knows which items belong together refuses half of them.
    """
    items: list[dict[str, Any]] = []
    group: list[ThinkingBlock] = []  # parts of one reasoning item
    whole = dialect.item_ids
    for block in message.content:
        mark = decode_item_metadata(block.data if isinstance(block, RedactedThinkingBlock) else _signature(block)) or {}
        match block:
            case ThinkingBlock():
                group.append(block)
                if "part" not in mark:
                    item = _reasoning(group, mark, dialect)
                    whole = whole and item is not None
                    items += [item] if item else []
                    group = []
            case RedactedThinkingBlock():
                items += [mark] if mark.get("type") == "compaction" else []
            case TextBlock():
                items.append(_text(block, mark))
            case ToolUseBlock():
                items.append(_call(block, mark))
            case _:
                pass
    if not whole:
        for item in items:
            if item.get("type") != "compaction":
                item.pop("id", None)
                item.pop("status", None)
    return items


def _signature(block: ContentBlock) -> str | None:
    return block.signature if isinstance(block, ThinkingBlock | TextBlock | ToolUseBlock) else None


def _reasoning(
    group: list[ThinkingBlock], mark: dict[str, Any], dialect: ResponsesCapabilities
) -> dict[str, Any] | None:
    """A reasoning item out of its parts; ``None`` if the host could not take it back."""
    if dialect.reasoning == "none" or mark.get("type") != "reasoning":
        return None
    summary: list[dict[str, str]] = []
    content: list[dict[str, str]] = []
    for block in group:
        if not block.thinking:
            continue
        own = mark if block is group[-1] else decode_item_metadata(block.signature) or {}
        if own.get("raw") or own.get("part") == "raw":
            content.append({"type": "reasoning_text", "text": block.thinking})
        else:
            summary.append({"type": "summary_text", "text": block.thinking})
    encrypted = mark.get("encrypted_content")
    if not (encrypted or content or (dialect.store is not False and mark.get("id"))):
        return None
    item: dict[str, Any] = {"type": "reasoning", **_id(mark), "summary": summary}
    if content:
        item["content"] = content
    if encrypted:
        item["encrypted_content"] = encrypted
    return item


def _id(mark: dict[str, Any]) -> dict[str, Any]:
    id = mark.get("id")
    return {"id": id} if isinstance(id, str) and 0 < len(id) <= _LONGEST_ID else {}


def _text(block: TextBlock, mark: dict[str, Any]) -> dict[str, Any]:
    id = _id(mark)
    nothing: list[Any] = []
    item: dict[str, Any] = {"type": "message", **id, "role": "assistant"}
    item["content"] = [{"type": "output_text", "text": block.text, "annotations": nothing}]
    if id:
        item["status"] = "completed"
    if isinstance(mark.get("phase"), str):
        item["phase"] = mark["phase"]
    return item


def _call(block: ToolUseBlock, mark: dict[str, Any]) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "function_call", **_id(mark), "call_id": block.id, "name": block.name}
    item["arguments"] = to_json(arguments_object(block)).decode()
    if isinstance(mark.get("namespace"), str):
        item["namespace"] = mark["namespace"]
    return item


def _user(message: Message, dialect: ResponsesCapabilities) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    shown: list[TextBlock | ImageBlock] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            items.append(_result(block, dialect, shown))
        elif isinstance(block, TextBlock | ImageBlock):
            shown.append(block)
    if shown:
        items.append({"type": "message", "role": "user", "content": _content(shown)})
    return items


def _result(
    block: ToolResultBlock, dialect: ResponsesCapabilities, shown: list[TextBlock | ImageBlock]
) -> dict[str, Any]:
    output: str | list[dict[str, Any]]
    if isinstance(block.content, str):
        output = block.content
    elif dialect.tool_images:
        output = _content(list(block.content))
    else:
        output, behind = split_text_and_images(block)
        shown += behind
    return {"type": "function_call_output", "call_id": block.tool_use_id, "output": output or "(no output)"}


def _content(blocks: list[TextBlock | ImageBlock]) -> str | list[dict[str, Any]]:
    """Plain text where there is only text, else parts."""
    if not any(isinstance(b, ImageBlock) for b in blocks):
        return "\n".join([b.text for b in blocks if isinstance(b, TextBlock)])
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, ImageBlock):
            parts.append({"type": "input_image", "image_url": f"data:{block.media_type};base64,{block.data}"})
        elif block.text:
            parts.append({"type": "input_text", "text": block.text})
    return parts
