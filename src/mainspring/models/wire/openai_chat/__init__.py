"""OpenAI Chat Completions: used by OpenAI and by nearly every other host and local server."""

from mainspring.models.wire.openai_chat.decode import ChatDecoder, decode_chat_response
from mainspring.models.wire.openai_chat.encode import encode_message, encode_request
from mainspring.models.wire.openai_chat.protocol import ChatCompletionsProtocol

__all__ = ["ChatCompletionsProtocol", "ChatDecoder", "decode_chat_response", "encode_message", "encode_request"]
