"""Requests to Gemini bodies."""

from __future__ import annotations

from typing import Any

from mainspring.messages import (
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.codec.encoded_history import MessageBoundary, MessageEncodingCache, merge_at_boundary
from mainspring.models.codec.normalize import (
    EMPTY_PROMPT_TEXT,
    arguments_object,
    portable_schema,
    prepare_message,
    split_text_and_images,
)
from mainspring.models.json_values import as_list, to_json
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.gemini.options import request_options
from mainspring.models.wire.gemini.schema import json_schema, openapi_schema

SLOT = "gemini"
_SKIP_SIGNATURE = "skip_thought_signature_validator"
"""What Google documents as the signature of a call that another model made."""

_MODEL = b',{"role": "model","parts":'
_SEAMS: tuple[MessageBoundary, ...] = ((b"] }", _MODEL + b"["),)
"""Two answers in a row become one: a call may not follow a turn of the model. Two turns of the user may stand in a row."""

_INSIDE, _BEHIND = "[with an image]", "[the image follows]"
"""What the text of a result says of its image."""

_OPENING = b',{"role":"user","parts":[{"text":"Continue."}]}'
"""Stands before a conversation that begins with the model: a call must follow a turn of the user."""


_EMPTY = b"," + to_json({"role": "user", "parts": [{"text": EMPTY_PROMPT_TEXT}]})


def encode_request(request: ModelRequest, profile: ModelProfile) -> bytes:
    """The body of a request: the options first, the conversation last, so that what repeats is a prefix."""
    history = MessageEncodingCache.of(request.scratch, SLOT, _key(profile))
    messages = request.messages if isinstance(request.messages, list) else list(request.messages)
    stored, tail = history.pieces(messages, lambda message: encode_message(message, profile), _SEAMS)
    head = _head(request, profile, history)
    opening = _OPENING if (stored or tail).startswith(_MODEL) else b""
    if not stored and not tail:
        tail = _EMPTY
    cut, tail = merge_at_boundary(stored, tail, _SEAMS)
    conversation = memoryview(stored)[: len(stored) - cut]
    if opening:
        return b"".join((head, opening[1:], conversation, tail, b"]}"))
    return b"".join((head, conversation[1:], tail, b"]}") if stored else (head, tail[1:], b"]}"))


def encode_message(message: Message, profile: ModelProfile) -> bytes:
    """One message as the JSON object it becomes, with a comma before it; empty if nothing of it can be sent."""
    cleaned = prepare_message(
        message,
        profile.provider,
        profile.model,
        vision=profile.info.vision,
        unreadable=profile.unreadable,
        made_images=profile.info.vision,
    )
    if cleaned is None:
        return b""
    if cleaned.role == "assistant":
        parts = _assistant(cleaned, profile)
        return _MODEL + to_json(parts) + b" }" if parts else b""
    parts = _user(cleaned, profile)  # An instruction inside the conversation has no role of its own here.
    return b"," + to_json({"role": "user", "parts": parts}) if parts else b""


def _key(profile: ModelProfile) -> str:
    d, info, unreadable = profile.gemini, profile.info, hash(profile.unreadable)
    return f"{SLOT}|{info.provider}|{info.id}|{info.vision}|{d.echo}|{d.sign_calls}|{d.call_ids}|{d.result_images}|{unreadable}"


def _head(request: ModelRequest, profile: ModelProfile, history: MessageEncodingCache) -> bytes:
    """Everything up to the contents; made anew only when something in it changed."""
    fields = request_options(request, profile)
    tools, system = list(request.tools), request.system
    known = history.head
    made_of = (fields, tools, system, profile.gemini.tool_schema)
    if known is not None and known[0] == made_of:
        return known[1]
    others = as_list(fields.get("tools"))  # tools that Google runs itself
    head = to_json({name: value for name, value in fields.items() if name != "tools"})[:-1]
    parts: list[bytes] = [head[1:]] if len(head) > 1 else []
    if tools or others:
        declared = (
            [b'{"functionDeclarations":[' + b",".join([_tool(tool, profile) for tool in tools]) + b"]}"]
            if tools
            else []
        )
        parts.append(b'"tools":[' + b",".join([*declared, *map(to_json, others)]) + b"]")
    if system and not system.isspace():
        parts.append(b'"systemInstruction":' + to_json({"parts": [{"text": system}]}))
    data = b"{" + b",".join([*parts, b'"contents":['])
    history.head = (made_of, data)
    return data


def _tool(tool: ToolDefinition, profile: ModelProfile) -> bytes:
    form = profile.gemini.tool_schema
    kept = vars(tool)
    data = kept.get(slot := f"{SLOT}|{form}")
    if data is None:
        declaration: dict[str, Any] = {"name": tool.name, "description": tool.description}
        schema = portable_schema(tool)
        if form == "json":
            declaration["parametersJsonSchema"] = json_schema(schema)
        elif schema["properties"]:  # An object without properties is refused here.
            declaration["parameters"] = openapi_schema(schema)
        data = kept[slot] = to_json(declaration)
    return data


def _assistant(message: Message, profile: ModelProfile) -> list[dict[str, Any]]:
    dialect = profile.gemini
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            parts.append(_with_signature({"text": block.text}, block.signature, echo=dialect.echo))
        elif isinstance(block, ThinkingBlock):
            if dialect.echo and (block.thinking or block.signature):
                parts.append(_with_signature({"text": block.thinking, "thought": True}, block.signature, echo=True))
        elif isinstance(block, ToolUseBlock):
            call: dict[str, Any] = {"id": block.id} if dialect.call_ids else {}
            call |= {"name": block.name, "args": arguments_object(block)}
            calls.append(_with_signature({"functionCall": call}, block.signature, echo=dialect.echo))
            parts.append(calls[-1])
        elif isinstance(block, ImageBlock):
            parts.append(_image(block))
    if calls and dialect.sign_calls and not any("thoughtSignature" in call for call in calls):
        calls[0]["thoughtSignature"] = _SKIP_SIGNATURE
    return parts


def _with_signature(part: dict[str, Any], signature: str | None, *, echo: bool) -> dict[str, Any]:
    if signature and echo:
        part["thoughtSignature"] = signature
    return part


def _image(block: ImageBlock) -> dict[str, Any]:
    return {"inlineData": {"mimeType": block.media_type, "data": block.data}}


def _user(message: Message, profile: ModelProfile) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    behind: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            parts.append(_result(block, profile, behind))
        elif isinstance(block, TextBlock):
            behind.append({"text": block.text})
        elif isinstance(block, ImageBlock):
            behind.append(_image(block))
    return parts + behind


def _result(block: ToolResultBlock, profile: ModelProfile, behind: list[dict[str, Any]]) -> dict[str, Any]:
    dialect = profile.gemini
    result: dict[str, Any] = {"id": block.tool_use_id} if dialect.call_ids else {}
    result["name"] = block.name
    text, shown = split_text_and_images(block, _INSIDE if dialect.result_images == "inside" else _BEHIND)
    if dialect.result_images == "behind":
        behind += [_image(part) if isinstance(part, ImageBlock) else {"text": part.text} for part in shown]
    elif shown:
        result["parts"] = [_image(part) for part in shown if isinstance(part, ImageBlock)]
    result["response"] = {"error" if block.is_error else "output": text}
    return {"functionResponse": result}
