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
"""What a kind of error looks like; anything else that a tool or a host calls its code may be a sentence about the conversation."""


def provider_name(name: str) -> str:
    """The conventions' name of a provider."""
    return conventions.PROVIDER_NAMES.get(name, name)


def model_attributes(provider: str, model: str) -> Attributes:
    """Who is asked."""
    return {conventions.PROVIDER: provider_name(provider), conventions.REQUEST_MODEL: model}


def server_attributes(model: ModelProvider) -> Attributes:
    """Where the model is, where it is asked over HTTP."""
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
    """Options of a request."""
    made: Attributes = {conventions.REQUEST_STREAM: True}
    if request.max_output_tokens is not None:
        made[conventions.REQUEST_MAX_TOKENS] = request.max_output_tokens
    if request.temperature is not None:
        made[conventions.REQUEST_TEMPERATURE] = float(request.temperature)
    if request.stop:
        made[conventions.REQUEST_STOP] = tuple(request.stop)
    if request.schema is not None:
        made[conventions.OUTPUT_TYPE] = "json"
    if request.session_id:
        made[conventions.CONVERSATION_ID] = request.session_id
    return made


def usage_attributes(usage: Usage) -> Attributes:
    """Tokens and money. The conventions count cached tokens in with the input, and reasoning in with the output."""
    made: Attributes = {conventions.USAGE_INPUT: usage.prompt_tokens, conventions.USAGE_OUTPUT: usage.output_tokens}
    for name, count in (
        (conventions.USAGE_CACHE_READ, usage.cache_read),
        (conventions.USAGE_CACHE_WRITE, usage.cache_write),
        (conventions.USAGE_REASONING, usage.reasoning_tokens),
    ):
        if count:
            made[name] = count
    if usage.cost is not None and usage.total_tokens:
        made[conventions.COST] = usage.cost.total
    return made


def response_attributes(message: Message) -> Attributes:
    """What came back."""
    made: Attributes = usage_attributes(message.usage) if message.usage else {}
    if message.stop_reason:
        made[conventions.FINISH_REASONS] = (conventions.STOP_REASONS.get(message.stop_reason, message.stop_reason),)
    if message.model:
        made[conventions.RESPONSE_MODEL] = message.model
    return made


def error_type(error: BaseException) -> str:
    """A word for what went wrong, out of few."""
    cause = error.cause if isinstance(error, AgentProviderError) and error.cause is not None else error
    if isinstance(cause, ModelError):
        if cause.status is not None and cause.code is ErrorCode.UNKNOWN:
            return str(cause.status)
        return cause.code.value
    return type(cause).__qualname__


def safe_error_description(error: BaseException) -> str:
    """The same with what else is known of it by word or number: nothing that quotes what was said, as an error's own text may."""
    cause = error.cause if isinstance(error, AgentProviderError) and error.cause is not None else error
    kind = error_type(error)
    if not isinstance(cause, ModelError):
        return kind
    known = [cause.reason] if _WORD.fullmatch(cause.reason) else []
    if cause.status is not None:
        known.append(f"HTTP {cause.status}")
    return f"{kind} ({', '.join(known)})" if known else kind


def result_error(block: ToolResultBlock, raised: BaseException | None) -> str:
    """The same for a tool call: the code of its result, or what the tool raised."""
    details: Any = block.details
    code: object = cast("dict[str, Any]", details).get("code") if isinstance(details, dict) else None
    if isinstance(code, str) and code != "UNKNOWN" and _WORD.fullmatch(code):
        return code
    return error_type(raised) if raised is not None else "UNKNOWN"


_LARGE = 1 << 18  # characters of a text that are checked for secrets; of longer ones the rest is left out


class Cleaner:
    """Takes secrets out of text, and what is beyond the limit.

    Args:
        limit: Characters that stay.
        redactor: Takes secrets out.
    """

    def __init__(self, limit: int, redactor: Redactor) -> None:
        self._redactor = redactor
        self._limit = limit

    def text(self, text: str) -> str:
        """Redact a text, and cut it off at the limit; afterwards, since half a key has no shape."""
        clean = self._redactor.text(text[: max(_LARGE, 2 * self._limit)])
        return clean if len(clean) <= self._limit else f"{clean[: self._limit]}…"

    def line(self, text: str) -> str:
        """Redact the first line of an error, and shorten it."""
        return self._redactor.text(text[:_LARGE]).partition("\n")[0][:500]

    def value(self, value: Any) -> Any:
        """Redact whatever JSON can hold; one that is too long becomes text."""
        clean = self._redactor.value(msgspec.to_builtins(value, enc_hook=str, str_keys=True))
        text = _json(clean)
        return clean if len(text) <= self._limit else f"{text[: self._limit]}…"


class ContentEncoder:
    """Messages as JSON text. What was converted once is kept: a long conversation goes along with each of its requests."""

    def __init__(self, cleaner: Cleaner) -> None:
        self.cleaner = cleaner
        self._kept: dict[int, tuple[Message, str]] = {}

    def messages(self, messages: Iterable[Message]) -> str:
        """Input messages."""
        return f"[{','.join([self._message(m) for m in messages])}]"

    def answer(self, message: Message) -> str:
        """Output messages."""
        reason = message.stop_reason or "end_turn"
        made = {
            "role": "assistant",
            "parts": self._parts(message.content),
            "finish_reason": STOP_REASONS.get(reason, reason),
        }
        return _json([made])

    def request_attributes(self, system: str, tools: Sequence[ToolDefinition]) -> dict[str, str]:
        """What a request has beside its messages. Tools by their names only: their schemas are large, and always the same."""
        made: dict[str, str] = {}
        if system:
            made[SYSTEM_INSTRUCTIONS] = _json([{"type": "text", "content": self.cleaner.text(system)}])
        if tools:
            made[TOOL_DEFINITIONS] = _json([{"type": "function", "name": t.name} for t in tools])
        return made

    def value(self, value: Any) -> str:
        """Arguments of a call."""
        clean = self.cleaner.value(value)
        return clean if isinstance(clean, str) else _json(clean)

    def _message(self, message: Message) -> str:
        known = self._kept.get(id(message))
        if known is None or known[0] is not message:
            role = "tool" if message.tool_results else message.role
            made = _json({"role": role, "parts": self._parts(message.content)})
            self._kept[id(message)] = known = (message, made)
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
