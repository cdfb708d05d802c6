"""Gemini: generateContent, streamed; used by Google's developer API and by Vertex AI."""

from mainspring.models.wire.gemini.decode import GeminiDecoder
from mainspring.models.wire.gemini.encode import encode_message, encode_request
from mainspring.models.wire.gemini.protocol import GeminiProtocol

__all__ = ["GeminiDecoder", "GeminiProtocol", "encode_message", "encode_request"]
