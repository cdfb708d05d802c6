"""Decode recorded exchanges into one form for all protocols. No I/O; used by ``replay traffic``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mainspring.errors import ModelError
from mainspring.events import Done
from mainspring.messages import Message, Usage
from mainspring.models.codec.protocol import WireDecoder
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.errors import classify_error
from mainspring.models.json_values import as_dict, as_int
from mainspring.models.port import ModelInfo
from mainspring.models.profile import ModelProfile
from mainspring.models.transport.recording import api_for_path
from mainspring.models.wire.anthropic import AnthropicDecoder
from mainspring.models.wire.gemini import GeminiDecoder
from mainspring.models.wire.ollama import OllamaDecoder
from mainspring.models.wire.openai_chat import ChatDecoder
from mainspring.models.wire.openai_responses import ResponsesDecoder

_DECODERS: dict[str, Callable[[ModelProfile], WireDecoder]] = {
    "chat_completions": ChatDecoder,
    "responses": ResponsesDecoder,
    "messages": AnthropicDecoder,
    "generate_content": GeminiDecoder,
    "native_chat": OllamaDecoder,
    "stream_generate_content": GeminiDecoder,
}
"""Decoder of each ``api`` of a recording."""


UNSUPPORTED_API = "unsupported_api"
"""Error reason for a recording of another protocol."""


def supported_apis() -> list[str]:
    """Return the values of ``api`` that can be decoded, sorted."""
    return sorted(_DECODERS)


def decode_exchange_to_dict(exchange: Mapping[str, Any], *, file: str = "") -> dict[str, Any]:
    """Decode one recorded exchange.

    Args:
        exchange: The recording: ``provider``, ``api``, ``request``, ``response`` with ``status``, ``headers``, ``body_text``.
        file: Name of the file, passed through.

    Returns:
        ``file``, ``text``, ``thinking``, ``tool_calls`` (id, name, arguments), ``usage``, ``stop_reason``, and ``error``
        (code, reason, status, message, retryable, retry_after); missing values are empty or ``None``. After an error, the
        other values contain the content received before it.
    """
    return _result(file, *decode_exchange(exchange))


def error_exchange(error: ModelError, *, file: str = "") -> dict[str, Any]:
    """Return the same form for an exchange that could not be read."""
    return _result(file, None, error)


def _result(file: str, message: Message | None, error: ModelError | None) -> dict[str, Any]:
    return {
        "file": file,
        "text": message.text if message else "",
        "thinking": message.thinking if message else "",
        "tool_calls": [
            {"id": c.id, "name": c.name, "arguments": c.input if c.raw_input is None else c.raw_input}
            for c in (message.tool_uses if message else ())
        ],
        "usage": _usage(message.usage) if message and message.usage else None,
        "stop_reason": message.stop_reason if message else None,
        "error": _error(error) if error else None,
    }


def decode_exchange(exchange: Mapping[str, Any]) -> tuple[Message | None, ModelError | None]:
    """Return the message of a recorded exchange and its error.

    Never raises: an exchange of another protocol or an invalid one is an error with the reason ``unsupported_api``.
    """
    provider = str(exchange.get("provider") or "")
    request, response = as_dict(exchange.get("request")) or {}, as_dict(exchange.get("response")) or {}
    api = str(exchange.get("api") or api_for_path(str(request.get("path") or "")))
    status = as_int(response.get("status")) or 200
    make = _DECODERS.get(api)
    if make is None:
        text = f"Unsupported API of a recording: {api!r}. Supported: {', '.join(supported_apis())}."
        failed = status if status >= 300 else None
        return None, ModelError(text, reason=UNSUPPORTED_API, status=failed, provider=provider)
    body = str(response.get("body_text") or "").encode("utf-8", "replace")
    if status >= 300:
        return None, classify_error(status, as_dict(response.get("headers")), body, provider=provider)
    sent = as_dict(request.get("body")) or {}
    reader = ResponseReader(make(ModelProfile(ModelInfo(str(sent.get("model") or ""), provider), "recorded")))
    events = [*reader.feed(body), *reader.finish()]
    if reader.error is not None:
        return reader.error.partial, reader.error
    last = events[-1]
    return (last.message if isinstance(last, Done) else None), None


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "reasoning_tokens": usage.reasoning_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.total_tokens,
    }


def _error(error: ModelError) -> dict[str, Any]:
    return {
        "code": str(error.code),
        "reason": error.reason,
        "category": error.category,
        "status": error.status,
        "retryable": error.retryable,
        "retry_after": error.retry_after,
        "message": error.message,
    }
