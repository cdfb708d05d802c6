"""Anthropic Messages as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.anthropic.decode import AnthropicDecoder
from mainspring.models.wire.anthropic.encode import encode_request
from mainspring.models.wire.anthropic.options import profiles_without_rejected


class AnthropicProtocol:
    """Anthropic Messages; stateless."""

    name = "messages"

    def url(self, profile: ModelProfile) -> str:
        """Return the URL of a request; the base URL may end with the version."""
        return f"{profile.base_url.removesuffix('/v1')}/v1/messages" + (f"?{profile.query}" if profile.query else "")

    def encode(self, request: ModelRequest, profile: ModelProfile) -> bytes:
        """Return the body of a streaming request."""
        return encode_request(request, profile)

    def decoder(self, profile: ModelProfile) -> AnthropicDecoder:
        """Return a decoder for one response."""
        return AnthropicDecoder(profile)

    def without_rejected(self, profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
        """Return profiles without the field that the host rejected, the most likely first."""
        return profiles_without_rejected(profile, refusal)
