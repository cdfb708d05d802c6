"""Chat Completions as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mainspring.lazy import lazy_function
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.openai_chat.decode import ChatDecoder
from mainspring.models.wire.openai_chat.encode import encode_request

if TYPE_CHECKING:
    from mainspring.models.codec.chat_rejections import profiles_without_rejected
    from mainspring.models.codec.sampling import omitted_options
else:
    omitted_options = lazy_function("mainspring.models.codec.sampling", "omitted_options")
    profiles_without_rejected = lazy_function("mainspring.models.codec.chat_rejections", "profiles_without_rejected")


class ChatCompletionsProtocol:
    """Chat Completions; stateless."""

    name = "chat_completions"
    encode = staticmethod(encode_request)
    decoder = ChatDecoder

    def without_rejected(self, profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
        """Return profiles without the field that the host rejected, the most likely first."""
        return profiles_without_rejected(profile, refusal)

    def omitted_options(self, request: ModelRequest, profile: ModelProfile) -> list[str]:
        """Return the options of a request that are not sent."""
        return omitted_options(self.name, request, profile.dialect)

    def url(self, profile: ModelProfile) -> str:
        """Return the URL of a request."""
        return f"{profile.base_url}/chat/completions" + (f"?{profile.query}" if profile.query else "")
