"""OpenAI Responses as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.models.port import ModelRequest
from mainspring.models.profile import Profile
from mainspring.models.wire.openai_responses.decode import ResponsesDecoder
from mainspring.models.wire.openai_responses.encode import encode_request
from mainspring.models.wire.openai_responses.options import without_refused


class Responses:
    """The protocol; it has no state."""

    name = "responses"

    def url(self, profile: Profile) -> str:
        """Where a request goes."""
        return f"{profile.base_url}/responses" + (f"?{profile.query}" if profile.query else "")

    def encode(self, request: ModelRequest, profile: Profile) -> bytes:
        """The body of a streaming request."""
        return encode_request(request, profile)

    def decoder(self, profile: Profile) -> ResponsesDecoder:
        """A decoder for one answer."""
        return ResponsesDecoder(profile)

    def without(self, profile: Profile, refusal: str) -> Iterator[Profile]:
        """Profiles that leave out what the host refused, the most likely first."""
        return without_refused(profile, refusal)
