"""Requests to bodies of Ollama's own protocol."""

from __future__ import annotations

from typing import Any

from mainspring.messages import ImageBlock, Message, TextBlock, ToolResultBlock, ToolSpec
from mainspring.models.codec.encoded_history import EncodedHistory
from mainspring.models.codec.normalize import BEGIN, clean, sent_arguments, sent_schema, text_apart
from mainspring.models.codec.unsupported import nearest_effort
from mainspring.models.json_values import as_object, to_json
from mainspring.models.port import ModelRequest
from mainspring.models.profile import Profile
from mainspring.models.token_limits import output_limit

SLOT = "ollama"
_WORDS = ("low", "medium", "high")
"""What ``think`` may be, where a model takes words."""


_EMPTY = b"," + to_json({"role": "user", "content": BEGIN})


def encode_request(request: ModelRequest, profile: Profile) -> bytes:
    """The body of a streaming request: the options first, the conversation last, so that what repeats is a prefix."""
    history = EncodedHistory.of(request.scratch, SLOT, _key(profile))
    messages = request.messages if isinstance(request.messages, list) else list(request.messages)
    stored, tail = history.pieces(messages, lambda message: encode_message(message, profile))
    pieces: list[bytes | memoryview] = []
    if request.system and not request.system.isspace():
        pieces.append(b"," + to_json({"role": "system", "content": request.system}))
    pieces += [memoryview(piece) for piece in (stored, tail or (b"" if stored else _EMPTY)) if piece]
    pieces[0] = pieces[0][1:]  # no comma before the first
    return b"".join((_head(request, profile, history), b',"messages":[', *pieces, b"]}"))


def encode_message(message: Message, profile: Profile) -> bytes:
    """One message as the JSON objects it becomes, each with a comma before it."""
    cleaned = clean(message, profile.provider, profile.model, vision=profile.info.vision, unreadable=profile.unreadable)
    if cleaned is None:
        return b""
    if cleaned.role == "user":
        return b"".join([b"," + to_json(item) for item in _user(cleaned)])
    item: dict[str, Any] = {"role": cleaned.role, "content": cleaned.text}
    if profile.ollama.echo and cleaned.thinking:
        item["thinking"] = cleaned.thinking
    calls = [{"id": c.id, "function": {"name": c.name, "arguments": sent_arguments(c)}} for c in cleaned.tool_uses]
    if calls:
        item["tool_calls"] = calls
    return b"," + to_json(item)


def _key(profile: Profile) -> str:
    info, unreadable = profile.info, hash(profile.unreadable)
    return f"{SLOT}|{info.provider}|{info.id}|{info.vision}|{profile.ollama.echo}|{unreadable}"


def _head(request: ModelRequest, profile: Profile, history: EncodedHistory) -> bytes:
    """Everything but the messages, without the closing brace; made anew only when something in it changed."""
    fields = {"model": profile.model, "stream": True, **_options(request, profile)}
    tools = [] if request.tool_choice == "none" else list(request.tools)
    known = history.head
    if known is not None and known[0] == (fields, tools):
        return known[1]
    head = to_json(fields)[:-1]
    if tools:
        head += b',"tools":[' + b",".join([_tool(tool) for tool in tools]) + b"]"
    history.head = ((fields, tools), head)
    return head


def _options(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    dialect = profile.ollama
    extra = dict(request.extra)
    options: dict[str, Any] = {}
    if dialect.num_ctx is not None:
        options["num_ctx"] = dialect.num_ctx
    limit = output_limit(request, profile)
    if limit is not None:
        options["num_predict"] = limit
    if request.temperature is not None:
        options["temperature"] = request.temperature
    if request.stop:
        options["stop"] = list(request.stop)
    options |= as_object(extra.pop("options", None)) or {}
    fields: dict[str, Any] = {"options": options} if options else {}
    if dialect.keep_alive is not None:
        fields["keep_alive"] = dialect.keep_alive
    if request.thinking is not None and dialect.think != "none":
        word = nearest_effort(request.thinking, _WORDS, reasons=True)
        fields["think"] = word if dialect.think == "levels" else request.thinking != "off"
    if request.schema is not None and dialect.json_schema:
        fields["format"] = request.schema
    return {**fields, **extra}


def _tool(tool: ToolSpec) -> bytes:
    kept = vars(tool)
    data = kept.get(SLOT)
    if data is None:
        function = {"name": tool.name, "description": tool.description, "parameters": sent_schema(tool)}
        data = kept[SLOT] = to_json({"type": "function", "function": function})
    return data


def _user(message: Message) -> list[dict[str, Any]]:
    """Results first, each a message; then what the user says, with the images of the results, which stand nowhere else."""
    items: list[dict[str, Any]] = []
    texts: list[str] = []
    images: list[str] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            text, shown = text_apart(block)
            items.append({"role": "tool", "tool_name": block.name, "tool_call_id": block.tool_use_id, "content": text})
            texts += [part.text for part in shown if isinstance(part, TextBlock)]
            images += [part.data for part in shown if isinstance(part, ImageBlock)]
        elif isinstance(block, TextBlock):
            texts.append(block.text)
        elif isinstance(block, ImageBlock):
            images.append(block.data)
    if texts or images:
        item: dict[str, Any] = {"role": "user", "content": "\n".join(texts)}
        items.append({**item, "images": images} if images else item)
    return items
