"""Chat Completions as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.openai_chat.decode import ChatDecoder
from mainspring.models.wire.openai_chat.encode import encode_request, profiles_without_rejected


class ChatCompletionsProtocol:
    """Chat Completions; stateless."""

    name = "chat_completions"

    def url(self, profile: ModelProfile) -> str:
        """Return the URL of a request."""
        return f"{profile.base_url}/chat/completions" + (f"?{profile.query}" if profile.query else "")

    def encode(self, request: ModelRequest, profile: ModelProfile) -> bytes:
        """Return the body of a streaming request."""
        return encode_request(request, profile)

    def decoder(self, profile: ModelProfile) -> ChatDecoder:
        """Return a decoder for one response."""
        return ChatDecoder(profile)

    def without_rejected(self, profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
        """Return profiles without the field that the host rejected, the most likely first."""
        return profiles_without_rejected(profile, refusal)
