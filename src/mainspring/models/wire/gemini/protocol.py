"""Gemini as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.gemini.decode import GeminiDecoder
from mainspring.models.wire.gemini.encode import encode_request, profiles_without_rejected


class GeminiProtocol:
    """The protocol; it has no state."""

    name = "gemini"

    def url(self, profile: ModelProfile) -> str:
        """Where a request goes."""
        model = quote(profile.model, safe="/-._~:@")
        path = model if "/" in model else f"models/{model}"
        query = f"&{profile.query}" if profile.query else ""
        return f"{profile.base_url}/{path}:streamGenerateContent?alt=sse{query}"

    def encode(self, request: ModelRequest, profile: ModelProfile) -> bytes:
        """The body of a request; whether it streams is a matter of the URL."""
        return encode_request(request, profile)

    def decoder(self, profile: ModelProfile) -> GeminiDecoder:
        """A decoder for one answer."""
        return GeminiDecoder(profile)

    def without_rejected(self, profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
        """Profiles that leave out what the host refused, the most likely first."""
        return profiles_without_rejected(profile, refusal)
