"""OpenAI Responses as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.openai_responses.decode import ResponsesDecoder
from mainspring.models.wire.openai_responses.encode import encode_request, profiles_without_rejected


class ResponsesProtocol:
    """The protocol; it has no state."""

    name = "responses"

    def url(self, profile: ModelProfile) -> str:
        """Where a request goes."""
        return f"{profile.base_url}/responses" + (f"?{profile.query}" if profile.query else "")

    def encode(self, request: ModelRequest, profile: ModelProfile) -> bytes:
        """The body of a streaming request."""
        return encode_request(request, profile)

    def decoder(self, profile: ModelProfile) -> ResponsesDecoder:
        """A decoder for one answer."""
        return ResponsesDecoder(profile)

    def without_rejected(self, profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
        """Profiles that leave out what the host refused, the most likely first."""
        return profiles_without_rejected(profile, refusal)
