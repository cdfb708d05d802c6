"""Anthropic Messages: used by Anthropic, by the clouds that host its models, and by several other hosts."""

from mainspring.models.wire.anthropic.decode import AnthropicDecoder
from mainspring.models.wire.anthropic.encode import (
    build_anthropic_system_param,
    encode_message,
    encode_request,
    normalize_message,
)
from mainspring.models.wire.anthropic.protocol import AnthropicProtocol

__all__ = [
    "AnthropicDecoder",
    "AnthropicProtocol",
    "build_anthropic_system_param",
    "encode_message",
    "encode_request",
    "normalize_message",
]
