"""Anthropic Messages as a `WireProtocol`."""

from __future__ import annotations

from mainspring.models.codec.sampling import omitted_options
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.anthropic.decode import AnthropicDecoder
from mainspring.models.wire.anthropic.encode import encode_request
from mainspring.models.wire.anthropic.options import (
    profiles_without_rejected,
    thinking_options,
    unsupported_options,
)


class AnthropicProtocol:
    """Anthropic Messages; stateless."""

    name = "messages"
    encode = staticmethod(encode_request)
    decoder = AnthropicDecoder
    without_rejected = staticmethod(profiles_without_rejected)

    def omitted_options(self, request: ModelRequest, profile: ModelProfile) -> list[str]:
        """Return the options of a request that are not sent."""
        unsupported = unsupported_options(request, profile.messages, thinking_options(request, profile))
        return omitted_options(self.name, request, profile.messages, unsupported)

    def url(self, profile: ModelProfile) -> str:
        """Return the URL of a request; the base URL may end with the version."""
        return f"{profile.base_url.removesuffix('/v1')}/v1/messages" + (f"?{profile.query}" if profile.query else "")
