"""Lossless conversion of messages to JSON and back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from mainspring.lazy import lazy_function, lazy_re
from mainspring.messages.message import AgentMessage, CustomMessage

if TYPE_CHECKING:
    from mainspring.messages.classic import from_classic_message
else:  # few programs need it
    from_classic_message = lazy_function("mainspring.messages.classic", "from_classic_message")

_encoder = msgspec.json.Encoder()
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


@cache
def _decoder() -> msgspec.json.Decoder[AgentMessage]:
    return msgspec.json.Decoder(AgentMessage)  # takes a while, and not every program decodes messages


def encode_message(message: AgentMessage) -> bytes:
    """Encode a message as JSON; a lone surrogate becomes U+FFFD (UTF-8 cannot encode it)."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError:
        return _encoder.encode(strip_surrogates(msgspec.to_builtins(message)))


_OTHER_NAMES = lazy_re(
    rb'"(?:(?:stop|finish)Reason|errorMessage|(?:media|mime|custom)Type|(?:text|thinking)Signature|tool(?:Use|Call)Id|toolName'
    rb'|isError|rawInput|(?:input|output|reasoning)Tokens|cache(?:Read|Write))"\s*:|:\s*"tool(?:Call|Result)"'
)
"""Names of `mainspring.messages.classic`; in the arguments of a call they are harmless."""


def decode_message(data: bytes | str, custom: dict[str, type] | None = None) -> AgentMessage:
    """Decode a message from JSON. Names in camelCase are accepted, too, and the form of `to_classic_messages`.

    Args:
        data: A result of `encode_message`.
        custom: The type of the data for each ``custom_type``; other data stay plain dicts and lists.

    Raises:
        msgspec.ValidationError: If the text is not a message.
    """
    raw = data.encode(errors="replace") if isinstance(data, str) else data
    if b'"kind"' not in raw or _OTHER_NAMES.search(raw):
        message = _decode_other_names(data)
    else:
        message = _decoder().decode(data)
    if isinstance(message, CustomMessage) and custom and (kind := custom.get(message.custom_type)):
        return msgspec.structs.replace(message, data=msgspec.convert(message.data, kind))
    return message


def encode_messages(messages: Iterable[AgentMessage]) -> bytes:
    """Encode a history (``agent.messages``, ``conversation.messages``) as a JSON array, without loss."""
    return b"[" + b",".join(map(encode_message, messages)) + b"]"


def decode_messages(data: bytes | str, custom: dict[str, type] | None = None) -> list[AgentMessage]:
    """Decode a history from JSON, for ``agent.conversation(history=...)`` or ``Agent(messages=...)``.

    Args:
        data: A result of `encode_messages`, or an array of messages in a form that `decode_message` accepts.
        custom: The type of the data for each ``custom_type``; other data stay plain dicts and lists.

    Raises:
        msgspec.ValidationError: If the text is not an array of messages.
    """
    return [decode_message(bytes(raw), custom) for raw in msgspec.json.decode(data, type=list[msgspec.Raw])]


def _decode_other_names(data: bytes | str) -> AgentMessage:
    decoded = msgspec.json.decode(data)
    if isinstance(decoded, dict):
        decoded = from_classic_message(cast("dict[str, Any]", decoded))
    return msgspec.convert(decoded, cast("type[AgentMessage]", AgentMessage))


def strip_surrogates(value: Any) -> Any:
    """Return the value with every unpaired surrogate replaced by U+FFFD; the same value if it has none."""
    match value:
        case str():
            return value if value.isascii() else value.translate(_SURROGATES)
        case dict():
            return {strip_surrogates(k): strip_surrogates(v) for k, v in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [strip_surrogates(v) for v in cast("list[Any]", value)]
        case _:
            return value
