"""Chat Completions as a `WireProtocol`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_function
from mainspring.models.profile import ModelProfile
from mainspring.models.wire.openai_chat.decode import ChatDecoder
from mainspring.models.wire.openai_chat.encode import encode_request

if TYPE_CHECKING:
    from mainspring.models.codec.chat_rejections import profiles_without_rejected
else:
    profiles_without_rejected = lazy_function("mainspring.models.codec.chat_rejections", "profiles_without_rejected")


class ChatCompletionsProtocol:
    """Chat Completions; stateless."""

    name = "chat_completions"
    encode = staticmethod(encode_request)
    decoder = ChatDecoder
    without_rejected = staticmethod(profiles_without_rejected)

    def url(self, profile: ModelProfile) -> str:
        """Return the URL of a request."""
        return f"{profile.base_url}/chat/completions" + (f"?{profile.query}" if profile.query else "")
