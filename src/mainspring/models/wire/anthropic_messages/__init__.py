"""Anthropic Messages."""
from mainspring.models.wire.anthropic_messages.decode import MessagesDecoder

__all__ = ["MessagesDecoder"]
