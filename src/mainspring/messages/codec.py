"""Lossless conversion of messages to JSON and back."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec

from mainspring.messages.message import AgentMessage, CustomMessage

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


def decode_message(data: bytes | str, custom: dict[str, type] | None = None) -> AgentMessage:
    """Decode a message from JSON.

    Args:
        data: A result of `encode_message`.
        custom: The type of the data for each ``custom_type``; other data stay plain dicts and lists.

    Raises:
        msgspec.ValidationError: If the text is not a message.
    """
    message = _decoder().decode(data)
    if isinstance(message, CustomMessage) and custom and (kind := custom.get(message.custom_type)):
        return msgspec.structs.replace(message, data=msgspec.convert(message.data, kind))
    return message


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
