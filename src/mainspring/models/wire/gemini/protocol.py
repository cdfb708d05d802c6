"""Gemini as a `WireProtocol`."""

from __future__ import annotations

from urllib.parse import quote

from mainspring.models.codec.sampling import omitted_options
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.gemini.decode import GeminiDecoder
from mainspring.models.wire.gemini.encode import encode_request, profiles_without_rejected


class GeminiProtocol:
    """Gemini; stateless."""

    name = "gemini"
    encode = staticmethod(encode_request)
    decoder = GeminiDecoder
    without_rejected = staticmethod(profiles_without_rejected)

    def omitted_options(self, request: ModelRequest, profile: ModelProfile) -> list[str]:
        """Return the options of a request that are not sent."""
        return omitted_options(self.name, request, profile.gemini)

    def url(self, profile: ModelProfile) -> str:
        """Return the URL of a request."""
        model = quote(profile.model, safe="/-._~:@")
        path = model if "/" in model else f"models/{model}"
        query = f"&{profile.query}" if profile.query else ""
        return f"{profile.base_url}/{path}:streamGenerateContent?alt=sse{query}"
