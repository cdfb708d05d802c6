"""OpenAI Responses as a `WireProtocol`."""

from __future__ import annotations

from mainspring.models.codec.sampling import omitted_options
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.openai_responses.decode import ResponsesDecoder
from mainspring.models.wire.openai_responses.encode import encode_request, profiles_without_rejected


class ResponsesProtocol:
    """OpenAI Responses; stateless."""

    name = "responses"
    encode = staticmethod(encode_request)
    decoder = ResponsesDecoder
    without_rejected = staticmethod(profiles_without_rejected)

    def omitted_options(self, request: ModelRequest, profile: ModelProfile) -> list[str]:
        """Return the options of a request that are not sent."""
        return omitted_options(self.name, request, profile.responses, ("stop",))

    def url(self, profile: ModelProfile) -> str:
        """Return the URL of a request."""
        return f"{profile.base_url}/responses" + (f"?{profile.query}" if profile.query else "")
