"""Encode requests to Anthropic Messages.

Messages are encoded once and without cache markers; the markers are inserted between the bytes of a request. The boundaries
of a message contain whitespace, which encoded values do not have, so they cannot occur inside a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

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
from mainspring.models.codec.encoded_history import MessageBoundary, MessageEncodingCache, merge_at_boundary
from mainspring.models.codec.normalize import EMPTY_PROMPT_TEXT, arguments_object, portable_schema, prepare_message
from mainspring.models.json_values import as_list, to_json
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import AnthropicCapabilities, ModelProfile
from mainspring.models.wire.anthropic.options import (
    is_from_same_model,
    request_options,
    thinking_options,
    with_valid_property_names,
)
from mainspring.models.wire.anthropic.payloads import decode_server_blocks, parse_json_object

CACHE_KEY = "anthropic_messages"

_USER = b',{"role": "user","content":['
_USER_END = b"]}"
_ASSISTANT = b',{"role": "assistant","content":['
_ASSISTANT_END = b"] }"
_BOUNDARIES: tuple[MessageBoundary, ...] = ((_USER_END, _USER), (_ASSISTANT_END, _ASSISTANT))
_BEGIN = _USER + to_json({"type": "text", "text": EMPTY_PROMPT_TEXT}) + _USER_END
"""User message in front of a conversation that does not start with the user, as required."""
_CONTINUE_MESSAGE = _USER + b'{"type":"text","text":"Continue."}' + _USER_END
"""User message after a conversation that ends with the assistant, if the host rejects that."""

_MEDIA_TYPES = {"image/jpg": "image/jpeg"} | {
    f"image/{kind}": f"image/{kind}" for kind in ("jpeg", "png", "gif", "webp")
}
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})

BytesLike = bytes | memoryview


def encode_request(request: ModelRequest, profile: ModelProfile) -> bytes:
    """Return the body of a streaming request: options first, conversation last, so that repeated parts are a prefix."""
    history = MessageEncodingCache.get_or_create(request.scratch, CACHE_KEY, _key(profile))
    thinking = thinking_options(request, profile)
    marker = _marker(profile.messages) if request.cache else b""
    head = _head(request, request_options(request, profile, thinking), profile, history, marker)
    prefill = profile.messages.prefill and not thinking.is_on
    messages = request.messages[:-1] if prefill and request.is_continuation else request.messages
    pieces = _conversation(messages, profile, history, prefill=prefill)
    if marker:
        last = pieces[-1]
        end = len(_ASSISTANT_END if last[-len(_ASSISTANT_END) :] == _ASSISTANT_END else _USER_END) + 1
        pieces[-1:] = [last[:-end], marker, last[-end:]]
    return b"".join((head, b',"messages":[', *pieces, b"]}"))


def build_anthropic_system_param(messages: Sequence[Message], system: str = "") -> str:
    """Return the text of all system messages, in order, separated by blank lines; empty if they have none.

    Args:
        messages: Messages of a request.
        system: System prompt of the request, which comes first.
    """
    texts = [system, *[message.text for message in messages if message.role == "system"]]
    return "\n\n".join([text for text in texts if text and not text.isspace()])


def normalize_message(message: Message, profile: ModelProfile | None = None) -> dict[str, Any] | None:
    """Return one message as a plain object.

    Args:
        message: A user or assistant message.
        profile: Model that receives it; by default the model that created it.

    Returns:
        Role and content; ``None`` if the message has no content that can be sent.

    Raises:
        ValueError: A system message: those belong in the field ``system`` (`build_anthropic_system_param`).
    """
    if message.role == "system":
        raise ValueError(
            "Anthropic Messages has no system role: the system prompt belongs in the field `system`. "
            "Use build_anthropic_system_param."
        )
    if profile is None:
        profile = ModelProfile(ModelInfo(message.model or "", message.provider or ""), "")
    content = _content(message, profile)
    return {"role": message.role, "content": content} if content else None


def encode_message(message: Message, profile: ModelProfile) -> bytes:
    """Encode one message as a JSON object with a leading comma; empty if nothing is sent."""
    if message.role == "system":
        return b""
    content = _content(message, profile)
    if not content:
        return b""
    inner = to_json(content)[1:-1]
    if message.role == "assistant":
        return _ASSISTANT + inner + _ASSISTANT_END
    return _USER + inner + _USER_END


def _key(profile: ModelProfile) -> str:
    d, info = profile.messages, profile.info
    return f"{CACHE_KEY}|{info.provider}|{info.id}|{info.vision}|{d.reasoning}|{d.unsigned}|{d.hosted}|{d.tool_images}|{hash(profile.unreadable)}"


def _marker(dialect: AnthropicCapabilities) -> bytes:
    if not dialect.cache:
        return b""
    control = {"type": "ephemeral"} if dialect.cache_ttl == "5m" else {"type": "ephemeral", "ttl": dialect.cache_ttl}
    return b',"cache_control":' + to_json(control)


def _head(
    request: ModelRequest, fields: dict[str, Any], profile: ModelProfile, history: MessageEncodingCache, marker: bytes
) -> bytes:
    """Encode everything but the messages, without the closing brace; encoded again only after a change."""
    tools = list(request.tools)
    system = build_anthropic_system_param(request.messages, request.system)
    parts = ({"model": profile.model, **fields}, tools, system, marker)
    known = history.head
    if known is not None and known[0] == parts:
        return known[1]
    hosted = as_list(fields.pop("tools", None))  # server-side tools, passed as an extra field
    head = to_json({"model": profile.model, **fields})[:-1]
    encoded = [*[_tool(tool) for tool in tools], *map(to_json, hosted)]
    if encoded:
        head += b',"tools":[' + _with_cache_marker(b",".join(encoded), marker) + b"]"
    if system:
        head += b',"system":[' + _with_cache_marker(to_json({"type": "text", "text": system}), marker) + b"]"
    history.head = (parts, head)
    return head


def _with_cache_marker(objects: bytes, marker: bytes) -> bytes:
    """Return the objects with a cache marker in the last one."""
    return objects[:-1] + marker + objects[-1:] if marker else objects


def _tool(tool: ToolDefinition) -> bytes:
    cache: dict[str, Any] = tool.__dict__  # pyright: ignore[reportAssignmentType]
    data = cache.get(CACHE_KEY)
    if data is None:
        item: dict[str, Any] = {"name": tool.name}
        if tool.description:
            item["description"] = tool.description
        item["input_schema"] = with_valid_property_names(portable_schema(tool))
        data = cache[CACHE_KEY] = to_json(item)
    return data


def _conversation(
    messages: Sequence[Message], profile: ModelProfile, history: MessageEncodingCache, *, prefill: bool
) -> list[BytesLike]:
    """Encode the messages: roles alternate, the first is the user's, without a comma before the first."""
    known = messages if isinstance(messages, list) else list(messages)
    begun = _assistant_prefill(known) if prefill else None
    last = b"" if begun is None else encode_message(begun, profile)
    stored, tail = history.encode(
        known if begun is None else known[:-1], lambda message: encode_message(message, profile), _BOUNDARIES
    )
    pieces: list[BytesLike] = [memoryview(stored)] if stored else []
    _add(pieces, tail)
    if last:
        _add(pieces, last)
    elif pieces and pieces[-1][-len(_ASSISTANT_END) :] == _ASSISTANT_END and not _is_paused(known, profile):
        _add(pieces, _CONTINUE_MESSAGE)
    if not pieces or pieces[0][: len(_USER)] != _USER:
        pieces.insert(0, _BEGIN)
    pieces[0] = pieces[0][1:]
    return pieces


def _is_paused(messages: Sequence[Message], profile: ModelProfile) -> bool:
    """Return True if the last message is the model's own and waits for the host's tools: it is sent unchanged."""
    last = messages[-1]
    return last.stop_reason == "pause_turn" and profile.messages.hosted and is_from_same_model(last, profile)


def _assistant_prefill(messages: Sequence[Message]) -> Message | None:
    """Return the final assistant text for the model to continue; it must not end with whitespace."""
    last = messages[-1] if messages else None
    if (
        last is None
        or last.role != "assistant"
        or last.tool_uses
        or last.stop_reason in ("error", "aborted", "pause_turn")
    ):
        return None
    content = list(last.content)
    while content and isinstance(content[-1], ThinkingBlock):
        content.pop()
    words = content.pop() if content else None
    if not isinstance(words, TextBlock) or not words.text.strip():
        return None
    return replace(last, content=(*content, replace(words, text=words.text.rstrip())))


def _add(pieces: list[BytesLike], piece: bytes) -> None:
    if not piece:
        return
    if pieces:
        cut, piece = merge_at_boundary(pieces[-1], piece, _BOUNDARIES)
        if cut:
            pieces[-1] = pieces[-1][:-cut]
    pieces.append(piece)


def _content(message: Message, profile: ModelProfile) -> list[dict[str, Any]]:
    cleaned = prepare_message(
        message, profile.provider, profile.model, vision=profile.info.vision, unreadable=profile.unreadable
    )
    if cleaned is None:
        # It may contain calls of the host's own tools.
        own = profile.messages.hosted and message.role == "assistant" and is_from_same_model(message, profile)
        is_paused = message.stop_reason == "pause_turn"
        return list(decode_server_blocks(message.content, is_paused=is_paused).values()) if own else []
    if cleaned.role == "assistant":
        items = _assistant(cleaned, profile.messages)
        while items and items[-1]["type"] in _THOUGHTS:
            items.pop()  # Thinking must not be the last block of an assistant message.
        return items
    return _user(cleaned, profile.messages)


def _assistant(message: Message, dialect: AnthropicCapabilities) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    opaque = (
        decode_server_blocks(message.content, is_paused=message.stop_reason == "pause_turn") if dialect.hosted else {}
    )
    for position, block in enumerate(message.content):
        match block:
            case TextBlock():
                items.append({"type": "text", "text": block.text})
            case ThinkingBlock():
                if dialect.reasoning and (block.signature or dialect.unsigned):
                    signed = {"signature": block.signature} if block.signature else {}
                    items.append({"type": "thinking", "thinking": block.thinking, **signed})
            case RedactedThinkingBlock():
                if position in opaque:
                    items.append(opaque[position])
                elif dialect.reasoning and not block.data.startswith("{"):
                    items.append({"type": "redacted_thinking", "data": block.data})
            case ToolUseBlock():
                item = {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments_object(block)}
                caller = parse_json_object(block.signature) if dialect.hosted else None
                items.append({**item, "caller": caller} if caller and "type" in caller else item)
            case _:
                items.append({"type": "text", "text": "[result]"})
    return items


def _user(message: Message, dialect: AnthropicCapabilities) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    shown: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            items.append(_result(block, dialect, shown))
        else:
            shown.append(block)
    return items + [_content_block(block) for block in shown if isinstance(block, TextBlock | ImageBlock)]


def _result(block: ToolResultBlock, dialect: AnthropicCapabilities, shown: list[ContentBlock]) -> dict[str, Any]:
    """Encode a tool result. Its images are part of it if the host supports that; no host does for an error."""
    content: Any = block.content
    if not isinstance(content, str):
        images = [b for b in content if isinstance(b, ImageBlock)]
        inside = dialect.tool_images and not block.is_error
        if images and not inside:
            shown += [TextBlock(f"Image from the result of {block.name or block.tool_use_id}:"), *images]
        seen = [b for b in content if (inside or isinstance(b, TextBlock)) and not _is_empty_text(b)]
        content = [_content_block(b) for b in seen]
    item: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": block.tool_use_id,
        "content": content or "(no output)",
    }
    if block.is_error:
        item["is_error"] = True
    return item


def _is_empty_text(block: TextBlock | ImageBlock) -> bool:
    return isinstance(block, TextBlock) and not block.text.strip()


def _content_block(block: TextBlock | ImageBlock) -> dict[str, Any]:
    return {"type": "text", "text": block.text} if isinstance(block, TextBlock) else _image(block)


def _image(block: ImageBlock) -> dict[str, Any]:
    media_type = _MEDIA_TYPES.get(block.media_type.lower())
    if media_type is None:
        return {"type": "text", "text": f"[{block.media_type} image left out: this host takes no such images]"}
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": block.data}}
