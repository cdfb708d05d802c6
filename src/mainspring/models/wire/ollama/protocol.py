"""Ollama's own protocol as a `WireProtocol`."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from mainspring.models.codec.unsupported import refuses_field, refuses_images
from mainspring.models.port import ModelRequest
from mainspring.models.profile import Profile
from mainspring.models.wire.ollama.decode import OllamaDecoder
from mainspring.models.wire.ollama.encode import encode_request


class Ollama:
    """The protocol; it has no state."""

    name = "ollama"

    def url(self, profile: Profile) -> str:
        """Where a request goes."""
        return f"{profile.base_url}/api/chat" + (f"?{profile.query}" if profile.query else "")

    def encode(self, request: ModelRequest, profile: Profile) -> bytes:
        """The body of a streaming request."""
        return encode_request(request, profile)

    def decoder(self, profile: Profile) -> OllamaDecoder:
        """A decoder for one answer."""
        return OllamaDecoder(profile)

    def without(self, profile: Profile, refusal: str) -> Iterator[Profile]:
        """Profiles that leave out what the server refused, the most likely first."""
        text = refusal.lower()
        if "think" in text:  # "... does not support thinking", "think value ... is not supported for this model"
            if profile.ollama.think == "levels":
                yield replace(profile, ollama=replace(profile.ollama, think="switch"))
            yield replace(profile, ollama=replace(profile.ollama, think="none", echo=False))
        if "format" in text and refuses_field(text):
            yield replace(profile, ollama=replace(profile.ollama, json_schema=False))
        if profile.info.vision and refuses_images(text):
            yield replace(profile, info=replace(profile.info, vision=False))
