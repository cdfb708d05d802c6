"""What is known of calls, as attributes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from mainspring.errors import AgentProviderError, ErrorCode, ModelError
from mainspring.messages import Message, ToolResultBlock, Usage
from mainspring.telemetry import conventions as c

if TYPE_CHECKING:
    from mainspring.models import ModelProvider, ModelRequest

Value: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]

_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What a kind of error looks like; anything else that a tool or a host calls its code may be a sentence about the conversation."""


def provider_name(name: str) -> str:
    """The conventions' name of a provider."""
    return c.PROVIDER_NAMES.get(name, name)


def model_attributes(provider: str, model: str) -> Attributes:
    """Who is asked."""
    return {c.PROVIDER: provider_name(provider), c.REQUEST_MODEL: model}


def server_attributes(model: ModelProvider) -> Attributes:
    """Where the model is, where it is asked over HTTP."""
    url = getattr(getattr(model, "profile", None), "base_url", None)
    if not isinstance(url, str):
        return {}
    parts = urlsplit(url)
    if not parts.hostname:
        return {}
    return {c.SERVER_ADDRESS: parts.hostname, c.SERVER_PORT: parts.port or (80 if parts.scheme == "http" else 443)}


def request_attributes(request: ModelRequest) -> Attributes:
    """Options of a request."""
    made: Attributes = {c.REQUEST_STREAM: True}
    if request.max_output_tokens is not None:
        made[c.REQUEST_MAX_TOKENS] = request.max_output_tokens
    if request.temperature is not None:
        made[c.REQUEST_TEMPERATURE] = float(request.temperature)
    if request.stop:
        made[c.REQUEST_STOP] = tuple(request.stop)
    if request.schema is not None:
        made[c.OUTPUT_TYPE] = "json"
    if request.session_id:
        made[c.CONVERSATION_ID] = request.session_id
    return made


def usage_attributes(usage: Usage) -> Attributes:
    """Tokens and money. The conventions count cached tokens in with the input, and reasoning in with the output."""
    made: Attributes = {c.USAGE_INPUT: usage.prompt_tokens, c.USAGE_OUTPUT: usage.output_tokens}
    for name, count in (
        (c.USAGE_CACHE_READ, usage.cache_read),
        (c.USAGE_CACHE_WRITE, usage.cache_write),
        (c.USAGE_REASONING, usage.reasoning_tokens),
    ):
        if count:
            made[name] = count
    if usage.cost is not None and usage.total_tokens:
        made[c.COST] = usage.cost.total
    return made


def response_attributes(message: Message) -> Attributes:
    """What came back."""
    made: Attributes = usage_attributes(message.usage) if message.usage else {}
    if message.stop_reason:
        made[c.FINISH_REASONS] = (c.STOP_REASONS.get(message.stop_reason, message.stop_reason),)
    if message.model:
        made[c.RESPONSE_MODEL] = message.model
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
