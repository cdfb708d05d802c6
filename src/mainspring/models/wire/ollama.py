"""Ollama's own protocol as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.events import StreamEvent
from mainspring.messages import (
    ImageBlock,
    Message,
    StopReason,
    TextBlock,
    ToolDefinition,
    ToolResultBlock,
    Usage,
    strip_surrogates,
)
from mainspring.models.codec.effort import nearest_effort
from mainspring.models.codec.encoded_history import MessageEncodingCache
from mainspring.models.codec.normalize import (
    EMPTY_PROMPT_TEXT,
    arguments_object,
    new_call_id,
    portable_schema,
    prepare_message,
    split_text_and_images,
)
from mainspring.models.codec.sampling import omitted_options, sampling_fields
from mainspring.models.codec.stream_decoder import StreamDecoder
from mainspring.models.codec.text import TextAndThinking
from mainspring.models.codec.text_markup import MarkupText
from mainspring.models.codec.unsupported import RefusalRules, is_unsupported_parameter, without_named_fields
from mainspring.models.json_values import DECODE_ERRORS, as_dict, convert_loosely, to_json
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.token_limits import output_limit
from mainspring.models.usage import with_cost


class _Function(Struct, frozen=True):
    name: str = ""
    arguments: dict[str, Any] | str | None = None


class _Call(Struct):
    function: _Function = _Function()
    id: str | None = None


class _Message(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Chunk(Struct):
    message: _Message | None = None
    created_at: str | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class OllamaDecoder(StreamDecoder[_Chunk]):
    """Decoder of one response; see `StreamDecoder`. Calls arrive complete."""

    lines = True
    completes_at_done_mark = False

    __slots__ = ("_calls", "_first", "_ids", "_markup", "_prose", "_reason")

    known_reasons = frozenset({"stop", "length", "load", "unload", "tool_calls"})

    def __init__(self, profile: ModelProfile) -> None:
        super().__init__(profile)
        self._first = ""  # time at which the response started, its only identifier
        self._reason = ""
        self._prose = TextAndThinking(self.draft)
        self._markup: MarkupText | None = None
        if profile.ollama.text_markup:
            self._prose = self._markup = MarkupText(self.draft)
        self._calls: list[int] = []
        self._ids: set[str] = set()

    def feed(self, name: str, data: bytes, events: list[StreamEvent]) -> None:
        """Decode one line."""
        try:
            line = _decode(data)
        except DECODE_ERRORS:
            line = self._decode_irregular(name, data)
            if line is None:
                return
        if line.error:
            raise self._errors.reported_by_host(data)
        if not self._started:
            if line.message is None and not line.done:
                return
            self._first = line.created_at or ""
            self._start(events)
        message = line.message
        if message is not None:
            if message.thinking:
                self._prose.add_thinking(message.thinking, events)
            if message.content:
                self._prose.add_text(message.content, events)
            for call in message.tool_calls or ():
                self._call(call, events)
        if line.done:
            self.complete = self.ended = True
            self._reason = line.done_reason or ""
            counts = (max(0, line.prompt_eval_count or 0), max(0, line.eval_count or 0))
            if any(counts):
                self.draft.usage = with_cost(Usage(*counts), self._profile.info)

    def _convert(self, fields: dict[str, Any]) -> _Chunk:
        return convert_loosely(strip_surrogates(fields), _Chunk)

    def _decode_body(self, body: bytes, out: list[StreamEvent]) -> None:
        self.feed("", body, out)

    def _close_blocks(self, out: list[StreamEvent]) -> None:
        if self._markup is not None:
            is_complete = not self._calls and self._reason != "length"
            for name, arguments in self._markup.finish(self.tools, out, is_complete=is_complete):
                self._call(_Call(_Function(name, arguments)), out)
            self.has_unparsed_calls = self._markup.is_unparsed
        self._prose.close(out)
        out.extend([self.draft.close_call(block) for block in self._calls])

    def _stop_reason(self) -> StopReason:
        self._raise_for_reason(self._reason, f"done reason {self._reason}")
        return "max_tokens" if self._reason == "length" else "tool_use" if self._calls else "end_turn"

    def _call(self, call: _Call, out: list[StreamEvent]) -> None:
        self._prose.close(out)
        id = call.id if call.id and call.id not in self._ids else new_call_id(self._first, len(self._calls))
        self._ids.add(id)
        event = self.draft.open_call(id, call.function.name)
        self._calls.append(event.index)
        given = call.function.arguments
        text = given if isinstance(given, str) else to_json(given or {}).decode()
        out += [event, self.draft.arguments(event.index, text)]


_SLOT = "ollama"
_THINK_LEVELS = ("low", "medium", "high")
"""Values of ``think`` for models that support levels."""


_EMPTY = b"," + to_json({"role": "user", "content": EMPTY_PROMPT_TEXT})


def encode_request(request: ModelRequest, profile: ModelProfile) -> bytes:
    """Return the body of a streaming request: options first, conversation last, so that repeated parts are a prefix."""
    history = MessageEncodingCache.get_or_create(request.scratch, _SLOT, _key(profile))
    messages = request.messages if isinstance(request.messages, list) else list(request.messages)
    stored, tail = history.encode(messages, lambda message: _encode_message(message, profile))
    pieces: list[bytes | memoryview] = []
    if request.system and not request.system.isspace():
        pieces.append(b"," + to_json({"role": "system", "content": request.system}))
    pieces += [memoryview(piece) for piece in (stored, tail or (b"" if stored else _EMPTY)) if piece]
    pieces[0] = pieces[0][1:]  # no comma before the first message
    return b"".join((_head(request, profile, history), b',"messages":[', *pieces, b"]}"))


def _encode_message(message: Message, profile: ModelProfile) -> bytes:
    """Encode one message as JSON objects, each with a leading comma."""
    cleaned = prepare_message(
        message, profile.provider, profile.model, vision=profile.info.vision, unreadable=profile.unreadable
    )
    if cleaned is None:
        return b""
    if cleaned.role == "user":
        return b"".join([b"," + to_json(item) for item in _user(cleaned)])
    item: dict[str, Any] = {"role": cleaned.role, "content": cleaned.text}
    if profile.ollama.echo and cleaned.thinking:
        item["thinking"] = cleaned.thinking
    calls = [{"id": c.id, "function": {"name": c.name, "arguments": arguments_object(c)}} for c in cleaned.tool_uses]
    if calls:
        item["tool_calls"] = calls
    return b"," + to_json(item)


def _key(profile: ModelProfile) -> str:
    info, unreadable = profile.info, hash(profile.unreadable)
    return f"{_SLOT}|{info.provider}|{info.id}|{info.vision}|{profile.ollama.echo}|{unreadable}"


def _head(request: ModelRequest, profile: ModelProfile, history: MessageEncodingCache) -> bytes:
    """Encode everything but the messages, without the closing brace; encoded again only after a change."""
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


def _options(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
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
    if request.sampling is not None:
        options |= sampling_fields("ollama", request, dialect.unsupported)
    options |= as_dict(extra.pop("options", None)) or {}
    fields: dict[str, Any] = {"options": options} if options else {}
    if dialect.keep_alive is not None:
        fields["keep_alive"] = dialect.keep_alive
    if request.thinking is not None and dialect.think != "none":
        word = nearest_effort(request.thinking, _THINK_LEVELS, reasons=True)
        fields["think"] = word if dialect.think == "levels" else request.thinking != "off"
    if request.schema is not None and dialect.json_schema:
        fields["format"] = request.schema
    return {**fields, **extra}


def _tool(tool: ToolDefinition) -> bytes:
    cache = vars(tool)
    data = cache.get(_SLOT)
    if data is None:
        function = {"name": tool.name, "description": tool.description, "parameters": portable_schema(tool)}
        data = cache[_SLOT] = to_json({"type": "function", "function": function})
    return data


def _user(message: Message) -> list[dict[str, Any]]:
    """Encode results as one message each, then the user's content with the images of the results, which have no other place."""
    items: list[dict[str, Any]] = []
    texts: list[str] = []
    images: list[str] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            text, shown = split_text_and_images(block)
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


class OllamaProtocol:
    """Ollama's own protocol; stateless."""

    name = "ollama"
    encode = staticmethod(encode_request)
    decoder = OllamaDecoder

    def omitted_options(self, request: ModelRequest, profile: ModelProfile) -> list[str]:
        """Return the options of a request that are not sent."""
        return omitted_options(self.name, request, profile.ollama, ("tool_choice",))

    def url(self, profile: ModelProfile) -> str:
        """Return the URL of a request."""
        return f"{profile.base_url}/api/chat" + (f"?{profile.query}" if profile.query else "")

    def without_rejected(self, profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
        """Return profiles without the field that the server rejected, the most likely first."""
        text = refusal.lower()
        if "think" in text:  # "... does not support thinking", "think value ... is not supported for this model"
            if profile.ollama.think == "levels":
                yield replace(profile, ollama=replace(profile.ollama, think="switch"))
            yield replace(profile, ollama=replace(profile.ollama, think="none", echo=False))
        rules: RefusalRules = ((r"format", {"json_schema": False}),) if is_unsupported_parameter(text) else ()
        yield from without_named_fields(profile, "ollama", text, rules)
