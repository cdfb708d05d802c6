"""Ollama's own protocol, ``/api/chat``: lines of JSON, with its options and its thinking."""

from mainspring.models.wire.ollama.decode import OllamaDecoder
from mainspring.models.wire.ollama.encode import encode_message, encode_request
from mainspring.models.wire.ollama.protocol import Ollama

__all__ = ["Ollama", "OllamaDecoder", "encode_message", "encode_request"]
