"""Anthropic Messages as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.models.port import ModelRequest
from mainspring.models.profile import Profile
from mainspring.models.wire.anthropic.decode import MessagesDecoder
from mainspring.models.wire.anthropic.encode import encode_request
from mainspring.models.wire.anthropic.unsupported import without_refused


class AnthropicMessages:
    """The protocol; it has no state."""

    name = "messages"

    def url(self, profile: Profile) -> str:
        """Where a request goes; the base URL may end with the version or not."""
        return f"{profile.base_url.removesuffix('/v1')}/v1/messages" + (f"?{profile.query}" if profile.query else "")

    def encode(self, request: ModelRequest, profile: Profile) -> bytes:
        """The body of a streaming request."""
        return encode_request(request, profile)

    def decoder(self, profile: Profile) -> MessagesDecoder:
        """A decoder for one answer."""
        return MessagesDecoder(profile)

    def without(self, profile: Profile, refusal: str) -> Iterator[Profile]:
        """Profiles that leave out what the host refused, the most likely first."""
        return without_refused(profile, refusal)
