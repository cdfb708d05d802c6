"""OpenAI Responses: used by OpenAI, Azure, the ChatGPT backend, and a growing number of other hosts."""

from mainspring.models.wire.openai_responses.decode import ResponsesDecoder
from mainspring.models.wire.openai_responses.encode import encode_message, encode_request
from mainspring.models.wire.openai_responses.protocol import ResponsesProtocol

__all__ = ["ResponsesDecoder", "ResponsesProtocol", "encode_message", "encode_request"]
