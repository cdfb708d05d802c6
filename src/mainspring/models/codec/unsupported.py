"""Detect the fields and values that a host rejects, and find supported ones; loaded after a rejection.

An image that a host cannot read must not end its conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mainspring.errors import ModelError
from mainspring.lazy import lazy_re
from mainspring.messages import ImageBlock, Message, ToolResultBlock
from mainspring.models.codec.effort import EFFORTS
from mainspring.models.codec.normalize import image_hash
from mainspring.models.codec.sampling import without_rejected_options
from mainspring.models.profile import ModelProfile

_UNSUPPORTED = lazy_re(
    r"unsupported|not supported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|forbidden|extra|"
    r"additional propert|invalid (field|param|argument|property)|not accept|deprecated|does not take|only supports?"
)
_NO_IMAGES = lazy_re(
    r"(not support|unsupported|not accept|cannot process|only supports?) .{0,60}(image|vision|multimodal)|"
    r"(image|vision)\w* .{0,60}(not supported|unsupported|not enabled|not available)"
)
_LISTED = lazy_re(r"\bsupported (?:levels?|values?|efforts?)(?: are| is)?:?(.*)", re.DOTALL)


def is_unsupported_parameter(text: str) -> bool:
    """Return True if an error text, in lower case, rejects a field itself; a value out of range is the caller's bug."""
    return _UNSUPPORTED.search(text) is not None


def is_images_unsupported(text: str) -> bool:
    """Return True if an error text, in lower case, rejects images in general."""
    return _NO_IMAGES.search(text) is not None


def parse_supported_efforts(text: str) -> tuple[str, ...]:
    """Return the supported thinking levels that an error text, in lower case, lists."""
    listed = _LISTED.search(text)
    return tuple(level for level in EFFORTS if listed and re.search(rf"\b{level}\b", listed[1]))


CAPABILITY_FIELDS = {
    "chat_completions": "dialect",
    "messages": "messages",
    "responses": "responses",
    "gemini": "gemini",
    "ollama": "ollama",
}
"""Field of the profile with the capabilities of each protocol."""

RefusalRules = tuple[tuple[str, dict[str, Any]], ...]
"""Patterns of rejected fields, and the changed capabilities for each."""


def with_capabilities(profile: ModelProfile, protocol: str, change: Mapping[str, Any]) -> ModelProfile:
    """Return the profile with changed capabilities of its protocol."""
    field = CAPABILITY_FIELDS[protocol]
    return replace(profile, **{field: replace(getattr(profile, field), **change)})


def without_named_fields(
    profile: ModelProfile, protocol: str, text: str, rules: RefusalRules
) -> Iterator[ModelProfile]:
    """Return profiles without the options, fields, or images that an error text, in lower case, names."""
    for names in without_rejected_options(protocol, text, getattr(profile, CAPABILITY_FIELDS[protocol])):
        yield with_capabilities(profile, protocol, {"unsupported": names})
    for pattern, change in rules:
        if re.search(pattern, text, re.DOTALL):
            yield with_capabilities(profile, protocol, change)
    if profile.info.vision and is_images_unsupported(text):
        yield replace(profile, info=replace(profile.info, vision=False))


_IMAGE_ERROR = lazy_re(
    r"(invalid|corrupt|malformed|broken|unsupported|could not|couldn't|cannot|can't|unable to|failed to|not a valid)\b.{0,60}\bimage"
    r"|\bimage\w*.{0,60}\b(invalid|corrupt|malformed|broken|unsupported|could not|cannot be|too (large|small|big)|exceeds)",
    re.DOTALL,
)


def without_rejected_images(
    profile: ModelProfile, messages: Sequence[Message], refusal: ModelError
) -> Iterator[ModelProfile]:
    """Return the profile without the newest images, if an error text is about an image.

    Only the newest, because the older ones were accepted before.
    """
    if _IMAGE_ERROR.search(refusal.message.lower()):
        yield from without_newest_images(profile, messages)


def without_newest_images(profile: ModelProfile, messages: Sequence[Message]) -> Iterator[ModelProfile]:
    """Return the profile without the newest images, if there are any."""
    for message in reversed(messages):
        new = {image_hash(image) for image in _images(message)} - profile.unreadable
        if new:
            yield replace(profile, unreadable=profile.unreadable | new)
            return


def has_seen_images(profile: ModelProfile, messages: Sequence[Message]) -> bool:
    """Return True if the model has answered earlier images in this conversation, so that its host accepts images."""
    with_images = [at for at, message in enumerate(messages) if any(_images(message))]
    return len(with_images) > 1 and any(
        message.role == "assistant" and message.provider == profile.provider and message.model == profile.model
        for message in messages[with_images[0] : with_images[-1]]
    )


def _images(message: Message) -> Iterator[ImageBlock]:
    for block in message.content:
        if isinstance(block, ImageBlock):
            yield block
        elif isinstance(block, ToolResultBlock) and not isinstance(block.content, str):
            yield from (inner for inner in block.content if isinstance(inner, ImageBlock))
