"""Gemini as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.gemini.decode import GeminiDecoder
from mainspring.models.wire.gemini.encode import encode_request, profiles_without_rejected


class GeminiProtocol:
    """Gemini; stateless."""

    name = "gemini"

    def url(self, profile: ModelProfile) -> str:
        """Return the URL of a request."""
        model = quote(profile.model, safe="/-._~:@")
        path = model if "/" in model else f"models/{model}"
        query = f"&{profile.query}" if profile.query else ""
        return f"{profile.base_url}/{path}:streamGenerateContent?alt=sse{query}"

    def encode(self, request: ModelRequest, profile: ModelProfile) -> bytes:
        """Return the body of a request; the URL determines whether it streams."""
        return encode_request(request, profile)

    def decoder(self, profile: ModelProfile) -> GeminiDecoder:
        """Return a decoder for one response."""
        return GeminiDecoder(profile)

    def without_rejected(self, profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
        """Return profiles without the field that the host rejected, the most likely first."""
        return profiles_without_rejected(profile, refusal)
