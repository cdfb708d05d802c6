"""Encode requests to Chat Completions.

Cache breakpoints, for hosts that forward them to models that support them (OpenRouter), mark the end of three prefixes: the
tools, the system prompt, and the conversation. The cached bytes contain none, so the repeated parts of a request differ only by
their breakpoints.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mainspring.lazy import lazy_function
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
    nine_char_id,
    portable_schema,
    prepare_message,
    split_text_and_images,
)
from mainspring.models.codec.tool_schema import split_description
from mainspring.models.json_values import as_dict, as_list, to_json
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ChatCapabilities, ModelProfile
from mainspring.models.token_limits import output_limit

if TYPE_CHECKING:
    from mainspring.models.codec.sampling import sampling_fields
else:
    sampling_fields = lazy_function("mainspring.models.codec.sampling", "sampling_fields")


def _request_options(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    """Return all fields of the body but model, tools, and messages. No field is null."""
    dialect = profile.dialect
    fields: dict[str, Any] = {}
    if dialect.stream_usage:
        fields["stream_options"] = {"include_usage": True}
    limit = output_limit(request, profile)
    if limit is not None and dialect.max_tokens_field:
        fields[dialect.max_tokens_field] = limit
    if request.temperature is not None and dialect.temperature:
        fields["temperature"] = request.temperature
    if request.stop and dialect.stop:
        fields["stop"] = list(request.stop)
    fields.update(_effort(request, profile))
    if request.session_id and request.cache and dialect.prompt_cache_key:
        fields["prompt_cache_key"] = request.session_id
    if request.schema is not None and dialect.json_schema:
        schema: dict[str, Any] = {"name": "answer", "schema": request.schema}
        if dialect.strict_schema:
            schema["strict"] = True
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.tools and request.tool_choice != "auto":
        choice = request.tool_choice
        named = choice not in ("required", "none")
        fields["tool_choice"] = {"type": "function", "function": {"name": choice}} if named else choice
    if request.sampling is not None:
        fields.update(sampling_fields("chat_completions", request, dialect.unsupported))
    fields.update(request.extra)
    return fields


def _effort(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    dialect = profile.dialect
    if dialect.effort_field == "reasoning" and request.thinking_budget and dialect.efforts:
        return {"reasoning": {"max_tokens": request.thinking_budget}}
    effort = nearest_effort(request.thinking, dialect.efforts, reasons=profile.info.reasoning)
    if effort is None:
        return {}
    return {"reasoning": {"effort": effort}} if dialect.effort_field == "reasoning" else {"reasoning_effort": effort}


_CACHE_CONTROL = {"type": "ephemeral"}
_MARK_JSON = b',"cache_control":{"type":"ephemeral"}'


def with_cache_breakpoint(item: dict[str, Any]) -> dict[str, Any]:
    """Return a message with a breakpoint at its end: on its last part, or on the message if it has no content."""
    content = item.get("content")
    if not content:
        return {**item, "cache_control": _CACHE_CONTROL}
    parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**item, "content": [*parts[:-1], {**parts[-1], "cache_control": _CACHE_CONTROL}]}


def tool_with_cache_breakpoint(tool: bytes) -> bytes:
    """Return an encoded tool with a breakpoint."""
    return tool[:-1] + _MARK_JSON + b"}"


_SLOT = "chat_completions"
_MAX_DESCRIPTION = 1024
"""Maximum number of characters of a tool description; the rest is put into the schema, which has no limit."""


_EMPTY_MESSAGE = b"," + to_json({"role": "user", "content": EMPTY_PROMPT_TEXT})


def encode_request(request: ModelRequest, profile: ModelProfile) -> bytes:
    """Return the body of a streaming request: options first, conversation last, so that repeated parts are a prefix."""
    history = MessageEncodingCache.get_or_create(request.scratch, _SLOT, _key(profile))
    messages = request.messages if isinstance(request.messages, list) else list(request.messages)
    stored, tail = history.encode(messages, lambda message: encode_message(message, profile))
    marked = request.cache and profile.dialect.cache_breakpoints
    pieces: list[bytes | memoryview] = []
    if request.system and not request.system.isspace():
        item = {"role": _system_role(profile.dialect), "content": request.system}
        pieces.append(b"," + to_json(with_cache_breakpoint(item) if marked else item))
    pieces += [memoryview(piece) for piece in (stored, tail or (b"" if stored else _EMPTY_MESSAGE)) if piece]
    if marked and messages:
        cut, end = _last_item_with_breakpoint(messages, profile, pieces[-1])
        pieces[-1:] = [piece for piece in (pieces[-1][: len(pieces[-1]) - cut], end) if piece]
    pieces[0] = pieces[0][1:]  # no comma before the first message
    return b"".join((_head(request, profile, history, has_cache_mark=marked), b',"messages":[', *pieces, b"]}"))


def encode_message(message: Message, profile: ModelProfile) -> bytes:
    """Encode one message as JSON objects, each with a leading comma."""
    return b"".join([b"," + to_json(item) for item in _items(message, profile)])


def _items(message: Message, profile: ModelProfile) -> list[dict[str, Any]]:
    """Return the objects of a message: one, or one per tool result; none if nothing is sent."""
    cleaned = prepare_message(
        message, profile.provider, profile.model, vision=profile.info.vision, unreadable=profile.unreadable
    )
    if cleaned is None:
        return []
    if cleaned.role == "assistant":
        return [_assistant(cleaned, profile.dialect)]
    if cleaned.role == "system":
        return [{"role": _system_role(profile.dialect), "content": cleaned.text}]
    return _user(cleaned, profile.dialect)


def _last_item_with_breakpoint(
    messages: list[Message], profile: ModelProfile, end: bytes | memoryview
) -> tuple[int, bytes]:
    """Return the length of the last item in bytes, and that item with a breakpoint.

    Empty if the last message was repaired: then the breakpoint of this one request is missing.
    """
    item = next((items[-1] for message in reversed(messages) if (items := _items(message, profile))), None)
    plain = b"," + to_json(item)
    if item is None or end[-len(plain) :] != plain:
        return 0, b""
    return len(plain), b"," + to_json(with_cache_breakpoint(item))


def _key(profile: ModelProfile) -> str:
    d, info, unreadable = profile.dialect, profile.info, hash(profile.unreadable)
    return f"{_SLOT}|{info.provider}|{info.id}|{info.vision}|{d.developer_role}|{d.reasoning}|{d.tool_images}|{d.name_results}|{d.short_ids}|{d.empty_content}|{unreadable}"


def _head(
    request: ModelRequest, profile: ModelProfile, history: MessageEncodingCache, *, has_cache_mark: bool
) -> bytes:
    """Encode everything but the messages, without the closing brace; encoded again only after a change."""
    fields = {"model": profile.model, "stream": True, **_request_options(request, profile)}
    own = as_list(fields.pop("tools")) if "tools" in fields else None  # server-side tools, passed by the caller
    tools = list(request.tools)
    known = history.head
    if known is not None and known[0] == (fields, tools, own, has_cache_mark):
        return known[1]
    head = to_json(fields)[:-1]
    if tools or own:
        encoded = [*[_tool(tool) for tool in tools], *map(to_json, own or ())]
        if has_cache_mark:
            encoded[-1] = tool_with_cache_breakpoint(encoded[-1])
        head += b',"tools":[' + b",".join(encoded) + b"]"
    history.head = ((fields, tools, own, has_cache_mark), head)
    return head


def _tool(tool: ToolDefinition) -> bytes:
    cache = vars(tool)
    data = cache.get(_SLOT)
    if data is None:
        about, more = split_description(tool.description, _MAX_DESCRIPTION)
        schema = portable_schema(tool)
        if more:
            schema = {**schema, "description": "\n\n".join(filter(None, (more, schema.get("description"))))}
        function: dict[str, Any] = {"name": tool.name, "description": about, "parameters": schema}
        data = cache[_SLOT] = to_json({"type": "function", "function": function})
    return data


def _system_role(dialect: ChatCapabilities) -> str:
    return "developer" if dialect.developer_role else "system"


def _assistant(message: Message, dialect: ChatCapabilities) -> dict[str, Any]:
    item: dict[str, Any] = {"role": "assistant"}
    text = message.text
    parts = _reasoning(message, dialect, item)
    if dialect.reasoning == "always":
        item.setdefault("reasoning_content", " ")  # An empty text is missing for some hosts.
    if parts:
        item["content"] = [*parts, {"type": "text", "text": text}] if text else parts
    elif text or dialect.empty_content:
        item["content"] = text
    calls = [_call(block, dialect) for block in message.tool_uses]
    if calls:
        item["tool_calls"] = calls
    return item


def _reasoning(message: Message, dialect: ChatCapabilities, item: dict[str, Any]) -> list[dict[str, Any]]:
    """Put the model's own reasoning back into its original field.

    Returns:
        Parts to add to the content, for hosts that have reasoning there.
    """
    parts: list[dict[str, Any]] = []
    if dialect.reasoning == "none":
        return parts
    plain: dict[str, str] = {}
    details: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, RedactedThinkingBlock):
            details += _detail(block.data, None)
        elif isinstance(block, ThinkingBlock) and block.signature:
            if block.signature == "content":
                parts.append({"type": "thinking", "thinking": [{"type": "text", "text": block.thinking}]})
            elif block.signature.startswith("{"):
                details += _detail(block.signature, block.thinking)
            else:
                plain[block.signature] = plain.get(block.signature, "") + block.thinking
    item.update(plain)
    if details:
        item["reasoning_details"] = details
    return parts


def _detail(data: str, text: str | None) -> list[dict[str, Any]]:
    detail = _object(data)
    if detail is None:
        return []
    if text is not None:
        detail["summary" if str(detail.get("type", "")).endswith("summary") else "text"] = text
    return [detail]


def _call(block: ToolUseBlock, dialect: ChatCapabilities) -> dict[str, Any]:
    call: dict[str, Any] = {
        "id": _id(block.id, dialect),
        "type": "function",
        "function": {"name": block.name, "arguments": to_json(arguments_object(block)).decode()},
    }
    extra = _object(block.signature) if block.signature else None
    if extra is not None:
        call["extra_content"] = extra
    return call


def _id(id: str, dialect: ChatCapabilities) -> str:
    return nine_char_id(id) if dialect.short_ids else id


def _object(text: str) -> dict[str, Any] | None:
    """Return the JSON object of a text; control characters are allowed."""
    try:
        return as_dict(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return None


def _user(message: Message, dialect: ChatCapabilities) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    shown: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            items.append(_result(block, dialect, shown))
        elif isinstance(block, TextBlock | ImageBlock):
            shown.append(block)
    if shown:
        items.append({"role": "user", "content": encode_content(shown)})
    return items


def _result(block: ToolResultBlock, dialect: ChatCapabilities, shown: list[ContentBlock]) -> dict[str, Any]:
    if dialect.tool_images:
        text, behind = split_text_and_images(block)
        shown += behind
    else:
        text, _ = split_text_and_images(block, "[an image was left out: this host takes none here]")
    item: dict[str, Any] = {"role": "tool", "tool_call_id": _id(block.tool_use_id, dialect)}
    if dialect.name_results and block.name:
        item["name"] = block.name
    item["content"] = text
    return item


def encode_content(blocks: list[ContentBlock]) -> str | list[dict[str, Any]]:
    """Return the content of a user message: a text, or parts if it contains images."""
    if all(isinstance(b, TextBlock) for b in blocks):
        return "\n".join([b.text for b in blocks if isinstance(b, TextBlock)])
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append({"type": "text", "text": block.text})
        elif isinstance(block, ImageBlock):
            parts.append({"type": "image_url", "image_url": {"url": f"data:{block.media_type};base64,{block.data}"}})
    return parts
