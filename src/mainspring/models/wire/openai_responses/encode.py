"""Encode requests to Responses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mainspring.lazy import lazy_re
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
from mainspring.models.codec.effort import nearest_effort
from mainspring.models.codec.encoded_history import MessageEncodingCache
from mainspring.models.codec.normalize import (
    EMPTY_PROMPT_TEXT,
    arguments_object,
    portable_schema,
    prepare_message,
    split_text_and_images,
)
from mainspring.models.codec.sampling import sampling_fields
from mainspring.models.codec.unsupported import (
    is_unsupported_parameter,
    parse_supported_efforts,
    with_capabilities,
    without_named_fields,
)
from mainspring.models.json_values import as_list, to_json
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile, ResponsesCapabilities
from mainspring.models.token_limits import output_limit
from mainspring.models.wire.openai_responses.payloads import decode_item_metadata

_ENCRYPTED = "reasoning.encrypted_content"


def _request_options(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    """Return all fields of the body but model, instructions, tools, and input. No field is null.

    The protocol has no fields for stop sequences and for an exact number of reasoning tokens; they are not sent.
    """
    dialect = profile.responses
    fields: dict[str, Any] = {}
    if dialect.store is not None:
        fields["store"] = dialect.store
    if dialect.encrypted and dialect.efforts and dialect.store is not True:
        fields["include"] = [_ENCRYPTED]
    limit = output_limit(request, profile)
    if limit is not None and dialect.max_output_tokens:
        fields["max_output_tokens"] = limit
    if request.temperature is not None and dialect.temperature:
        fields["temperature"] = request.temperature
    effort = nearest_effort(request.thinking, dialect.efforts, reasons=profile.info.reasoning)
    if effort is not None:
        fields["reasoning"] = {"effort": effort}
        if dialect.summary and request.thinking != "off":
            fields["reasoning"]["summary"] = dialect.summary
    if request.session_id and request.cache and dialect.prompt_cache_key:
        fields["prompt_cache_key"] = request.session_id
    if request.schema is not None and dialect.json_schema:
        schema: dict[str, Any] = {"type": "json_schema", "name": "answer", "schema": request.schema}
        if dialect.strict_schema:
            schema["strict"] = True
        fields["text"] = {"format": schema}
    if request.tools:
        _call_options(request, profile, fields)
    if request.sampling is not None:
        fields.update(sampling_fields("responses", request, dialect.unsupported))
    return _merge_extra(fields, request.extra)


def _call_options(request: ModelRequest, profile: ModelProfile, fields: dict[str, Any]) -> None:
    choice = request.tool_choice
    if choice != "auto":
        fields["tool_choice"] = choice if choice in ("required", "none") else {"type": "function", "name": choice}
    if profile.responses.parallel_calls is not None:
        fields["parallel_tool_calls"] = profile.responses.parallel_calls


def _merge_extra(fields: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """Merge the caller's own fields, which win; values of ``include`` and ``text`` are combined."""
    include = [*as_list(fields.get("include")), *as_list(extra.get("include"))]
    merged = {**fields, **extra}
    if include:
        merged["include"] = list(dict.fromkeys(include))
    if "text" in fields and isinstance(extra.get("text"), dict):
        merged["text"] = {**fields["text"], **extra["text"]}
    return merged


_REFUSABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"reasoning\.summary|reasoning summar|generate_summary", {"summary": ""}),
    (r"reasoning\.encrypted_content|encrypted content|\binclude\b", {"encrypted": False}),
    (r"reasoning\.effort|\breasoning\b|\beffort\b", {"efforts": ()}),
    (r"prompt_cache_key", {"prompt_cache_key": False}),
    (r"temperature", {"temperature": False}),
    (r"max_output_tokens", {"max_output_tokens": False}),
    (r"parallel_tool_calls", {"parallel_calls": None}),
    (r"\bstore\b", {"store": None}),
    (r"\bstrict\b", {"strict_schema": False, "strict_tools": None}),
    (r"text\.format|json_schema|response_format", {"json_schema": False}),
    (r"\bdeveloper\b", {"system_role": "system"}),
    (r"\binstructions\b|system messages?\b", {"system": "message"}),
    (r"output\b.{0,40}(string|array|list)|input_image|function_call_output", {"tool_images": False}),
)
"""Patterns of rejected fields, and the change for each."""


_ITEM_NOT_FOUND = lazy_re(
    r"required (following|reasoning) item|without its required|item with id .{0,120}not found|items are not persisted"
)
_BAD_REASONING = lazy_re(r"encrypted_content|encrypted content|reasoning item|type 'reasoning'|invalid.{0,40}signature")


def profiles_without_rejected(profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
    """Return profiles without the rejected field, the most likely first; none if the text mentions no field."""
    text = refusal.lower()
    if _ITEM_NOT_FOUND.search(text):
        yield with_capabilities(profile, "responses", {"item_ids": False})
        yield with_capabilities(profile, "responses", {"item_ids": False, "reasoning": "none"})
    elif _BAD_REASONING.search(text) and not is_unsupported_parameter(text):
        yield with_capabilities(profile, "responses", {"reasoning": "none"})
    if "verified" in text and "summar" in text:
        yield with_capabilities(profile, "responses", {"summary": ""})
    if "instructions" in text and re.search(r"required|missing", text):
        yield with_capabilities(profile, "responses", {"instructions": "You are a helpful assistant."})
    if profile.query and re.search(r"api.?version", text):
        parts = [part for part in profile.query.split("&") if not part.lower().startswith("api-version=")]
        yield replace(profile, query="&".join(parts))
    if re.search(r"store.{0,20}(must|should) be (set to )?false", text):
        yield with_capabilities(profile, "responses", {"store": False})
    if not is_unsupported_parameter(text):
        return
    if "effort" in text and (known := parse_supported_efforts(text)):
        yield with_capabilities(profile, "responses", {"efforts": known})
    yield from without_named_fields(profile, "responses", text, _REFUSABLE)


_SLOT = "responses"
_MAX_ID_CHARS = 64  # of a call or an item; some hosts create longer IDs and then reject them


_EMPTY = b"," + to_json({"type": "message", "role": "user", "content": EMPTY_PROMPT_TEXT})


def encode_request(request: ModelRequest, profile: ModelProfile) -> bytes:
    """Return the body of a streaming request: options first, conversation last, so that repeated parts are a prefix."""
    dialect = profile.responses
    history = MessageEncodingCache.get_or_create(request.scratch, _SLOT, _key(profile))
    messages = request.messages if isinstance(request.messages, list) else list(request.messages)
    stored, tail = history.encode(messages, lambda message: encode_message(message, profile))
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
    """Encode one message as items, each with a leading comma."""
    cleaned = prepare_message(
        message,
        profile.provider,
        profile.model,
        vision=profile.info.vision,
        unreadable=profile.unreadable,
        max_id_length=_MAX_ID_CHARS,
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
    return f"{_SLOT}|{info.provider}|{info.id}|{info.vision}|{d.system_role}|{d.reasoning}|{d.item_ids}|{d.store}|{d.tool_images}|{unreadable}"


def _head(request: ModelRequest, profile: ModelProfile, history: MessageEncodingCache) -> bytes:
    """Encode everything but instructions and input, without the closing brace; encoded again only after a change."""
    fields = {"model": profile.model, "stream": True, **_request_options(request, profile)}
    own = as_list(fields.pop("tools", None))  # server-side tools, passed by the caller
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
    cache: dict[str, Any] = tool.__dict__  # pyright: ignore[reportAssignmentType]
    slot = f"{_SLOT}|{dialect.strict_tools}"
    data = cache.get(slot)
    if data is None:
        fields: dict[str, Any] = {"type": "function", "name": tool.name, "description": tool.description}
        fields["parameters"] = portable_schema(tool)
        if dialect.strict_tools is not None:
            fields["strict"] = dialect.strict_tools
        data = cache[slot] = to_json(fields)
    return data


def _system(text: str, dialect: ResponsesCapabilities) -> dict[str, Any]:
    return {"type": "message", "role": dialect.system_role, "content": text}


def _assistant(message: Message, dialect: ResponsesCapabilities) -> list[dict[str, Any]]:
    """Encode the items of a response in their original order.

    Item IDs are sent back only if all reasoning is: a host that knows related items rejects an incomplete set.
    """
    items: list[dict[str, Any]] = []
    group: list[ThinkingBlock] = []  # parts of one reasoning item
    has_all_ids = dialect.item_ids
    for block in message.content:
        mark = decode_item_metadata(block.data if isinstance(block, RedactedThinkingBlock) else _signature(block)) or {}
        match block:
            case ThinkingBlock():
                group.append(block)
                if "part" not in mark:
                    item = _reasoning(group, mark, dialect)
                    has_all_ids = has_all_ids and item is not None
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
    if not has_all_ids:
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
    """Encode a reasoning item from its parts; ``None`` if the host could not accept it."""
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
    return {"id": id} if isinstance(id, str) and 0 < len(id) <= _MAX_ID_CHARS else {}


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
    """Encode content as plain text if possible, else as parts."""
    if not any(isinstance(b, ImageBlock) for b in blocks):
        return "\n".join([b.text for b in blocks if isinstance(b, TextBlock)])
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, ImageBlock):
            parts.append({"type": "input_image", "image_url": f"data:{block.media_type};base64,{block.data}"})
        elif block.text:
            parts.append({"type": "input_text", "text": block.text})
    return parts
