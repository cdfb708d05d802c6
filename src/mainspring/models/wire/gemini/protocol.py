"""Gemini as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from mainspring.models.port import ModelRequest
from mainspring.models.profile import Profile
from mainspring.models.wire.gemini.decode import GeminiDecoder
from mainspring.models.wire.gemini.encode import encode_request
from mainspring.models.wire.gemini.options import without_refused


class Gemini:
    """The protocol; it has no state."""

    name = "gemini"

    def url(self, profile: Profile) -> str:
        """Where a request goes."""
        model = quote(profile.model, safe="/-._~:@")
        path = model if "/" in model else f"models/{model}"
        query = f"&{profile.query}" if profile.query else ""
        return f"{profile.base_url}/{path}:streamGenerateContent?alt=sse{query}"

    def encode(self, request: ModelRequest, profile: Profile) -> bytes:
        """The body of a request; whether it streams is a matter of the URL."""
        return encode_request(request, profile)

    def decoder(self, profile: Profile) -> GeminiDecoder:
        """A decoder for one answer."""
        return GeminiDecoder(profile)

    def without(self, profile: Profile, refusal: str) -> Iterator[Profile]:
        """Profiles that leave out what the host refused, the most likely first."""
        return without_refused(profile, refusal)
