"""Attributes of calls, and conversations in the form of the conventions, without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec

from mainspring.errors import AgentProviderError, ErrorCode, ModelError
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
    Usage,
)
from mainspring.redaction import Redactor
from mainspring.telemetry import conventions
from mainspring.telemetry.conventions import STOP_REASONS, SYSTEM_INSTRUCTIONS, TOOL_DEFINITIONS

if TYPE_CHECKING:
    from mainspring.models import ModelProvider, ModelRequest


Value: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]


_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Pattern of an error type; other codes of tools and hosts may be sentences about the conversation."""


def provider_name(name: str) -> str:
    """Return the conventions' name of a provider."""
    return conventions.PROVIDER_NAMES.get(name, name)


def model_attributes(provider: str, model: str) -> Attributes:
    """Return the attributes of the model."""
    return {conventions.PROVIDER: provider_name(provider), conventions.REQUEST_MODEL: model}


def server_attributes(model: ModelProvider) -> Attributes:
    """Return the address of the model's server, if it is called over HTTP."""
    url = getattr(getattr(model, "profile", None), "base_url", None)
    if not isinstance(url, str):
        return {}
    parts = urlsplit(url)
    if not parts.hostname:
        return {}
    return {
        conventions.SERVER_ADDRESS: parts.hostname,
        conventions.SERVER_PORT: parts.port or (80 if parts.scheme == "http" else 443),
    }


def request_attributes(request: ModelRequest) -> Attributes:
    """Return the options of a request."""
    attributes: Attributes = {conventions.REQUEST_STREAM: True}
    if request.max_output_tokens is not None:
        attributes[conventions.REQUEST_MAX_TOKENS] = request.max_output_tokens
    if request.temperature is not None:
        attributes[conventions.REQUEST_TEMPERATURE] = float(request.temperature)
    if request.stop:
        attributes[conventions.REQUEST_STOP] = tuple(request.stop)
    if request.schema is not None:
        attributes[conventions.OUTPUT_TYPE] = "json"
    if request.session_id:
        attributes[conventions.CONVERSATION_ID] = request.session_id
    return attributes


def usage_attributes(usage: Usage) -> Attributes:
    """Return tokens and cost. The conventions include cached tokens in the input, and reasoning in the output."""
    attributes: Attributes = {
        conventions.USAGE_INPUT: usage.prompt_tokens,
        conventions.USAGE_OUTPUT: usage.output_tokens,
    }
    for name, count in (
        (conventions.USAGE_CACHE_READ, usage.cache_read),
        (conventions.USAGE_CACHE_WRITE, usage.cache_write),
        (conventions.USAGE_REASONING, usage.reasoning_tokens),
    ):
        if count:
            attributes[name] = count
    if usage.cost is not None and usage.total_tokens:
        attributes[conventions.COST] = usage.cost.total
    return attributes


def response_attributes(message: Message) -> Attributes:
    """Return the attributes of the response."""
    attributes: Attributes = usage_attributes(message.usage) if message.usage else {}
    if message.stop_reason:
        attributes[conventions.FINISH_REASONS] = (
            conventions.STOP_REASONS.get(message.stop_reason, message.stop_reason),
        )
    if message.model:
        attributes[conventions.RESPONSE_MODEL] = message.model
    return attributes


def error_type(error: BaseException) -> str:
    """Return the type of an error, from a small set of values."""
    cause = error.cause if isinstance(error, AgentProviderError) and error.cause is not None else error
    if isinstance(cause, ModelError):
        if cause.status is not None and cause.code is ErrorCode.UNKNOWN:
            return str(cause.status)
        return cause.code.value
    return type(cause).__qualname__


def safe_error_description(error: BaseException) -> str:
    """Return the type of an error with its codes and numbers: no quotes of the conversation, which an error's text may contain."""
    cause = error.cause if isinstance(error, AgentProviderError) and error.cause is not None else error
    kind = error_type(error)
    if not isinstance(cause, ModelError):
        return kind
    known = [cause.reason] if _WORD.fullmatch(cause.reason) else []
    if cause.status is not None:
        known.append(f"HTTP {cause.status}")
    return f"{kind} ({', '.join(known)})" if known else kind


def result_error(block: ToolResultBlock, raised: BaseException | None) -> str:
    """Return the same for a tool call: the code of its result, or of the exception that it raised."""
    details: Any = block.details
    code: object = cast("dict[str, Any]", details).get("code") if isinstance(details, dict) else None
    if isinstance(code, str) and code != "UNKNOWN" and _WORD.fullmatch(code):
        return code
    return error_type(raised) if raised is not None else "UNKNOWN"


_LARGE = 1 << 18  # maximum characters checked for secrets; the rest of longer texts is omitted


class Cleaner:
    """Redacts secrets in text, and truncates it.

    Args:
        limit: Maximum number of characters.
        redactor: Removes secrets.
    """

    def __init__(self, limit: int, redactor: Redactor) -> None:
        self._redactor = redactor
        self._limit = limit

    def text(self, text: str) -> str:
        """Redact a text, then truncate it; in this order, since half a key would not be recognized."""
        clean = self._redactor.text(text[: max(_LARGE, 2 * self._limit)])
        return clean if len(clean) <= self._limit else f"{clean[: self._limit]}…"

    def line(self, text: str) -> str:
        """Redact the first line of an error, and shorten it."""
        return self._redactor.text(text[:_LARGE]).partition("\n")[0][:500]

    def value(self, value: Any) -> Any:
        """Redact a JSON value; a value that is too long becomes text."""
        clean = self._redactor.value(msgspec.to_builtins(value, enc_hook=str, str_keys=True))
        text = _json(clean)
        return clean if len(text) <= self._limit else f"{text[: self._limit]}…"


class ContentEncoder:
    """Encodes messages as JSON text, with a cache: each request of a long conversation contains all its messages."""

    def __init__(self, cleaner: Cleaner) -> None:
        self.cleaner = cleaner
        self._cached_messages: dict[int, tuple[Message, str]] = {}

    def messages(self, messages: Iterable[Message]) -> str:
        """Encode the input messages."""
        return f"[{','.join([self._message(m) for m in messages])}]"

    def answer(self, message: Message) -> str:
        """Encode the output messages."""
        reason = message.stop_reason or "end_turn"
        encoded = {
            "role": "assistant",
            "parts": self._parts(message.content),
            "finish_reason": STOP_REASONS.get(reason, reason),
        }
        return _json([encoded])

    def request_attributes(self, system: str, tools: Sequence[ToolDefinition]) -> dict[str, str]:
        """Encode the parts of a request other than messages. Tools only by name: their schemas are large, and always the same."""
        attributes: dict[str, str] = {}
        if system:
            attributes[SYSTEM_INSTRUCTIONS] = _json([{"type": "text", "content": self.cleaner.text(system)}])
        if tools:
            attributes[TOOL_DEFINITIONS] = _json([{"type": "function", "name": t.name} for t in tools])
        return attributes

    def value(self, value: Any) -> str:
        """Encode the arguments of a call."""
        clean = self.cleaner.value(value)
        return clean if isinstance(clean, str) else _json(clean)

    def _message(self, message: Message) -> str:
        known = self._cached_messages.get(id(message))
        if known is None or known[0] is not message:
            role = "tool" if message.tool_results else message.role
            encoded = _json({"role": role, "parts": self._parts(message.content)})
            self._cached_messages[id(message)] = known = (message, encoded)
        return known[1]

    def _parts(self, blocks: Iterable[ContentBlock]) -> list[dict[str, Any]]:
        return [self._part(b) for b in blocks]

    def _part(self, block: ContentBlock) -> dict[str, Any]:
        clean: Callable[[str], str] = self.cleaner.text
        match block:
            case TextBlock():
                return {"type": "text", "content": clean(block.text)}
            case ThinkingBlock():
                return {"type": "reasoning", "content": clean(block.thinking)}
            case RedactedThinkingBlock():
                return {"type": "reasoning", "content": ""}
            case ImageBlock():
                return {"type": "image", "mime_type": block.media_type, "base64_length": len(block.data)}
            case ToolUseBlock():
                given = block.input if block.raw_input is None else block.raw_input
                return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": self.cleaner.value(given)}
            case ToolResultBlock():
                return {"type": "tool_call_response", "id": block.tool_use_id, "response": clean(block.text)}


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode("utf-8", "replace")
