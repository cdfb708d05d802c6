"""An image that a host cannot read must not end the conversation it is in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from mainspring.errors import ModelError
from mainspring.lazy import lazy_re
from mainspring.messages import ImageBlock, Message, ToolResultBlock
from mainspring.models.codec.normalize import image_key
from mainspring.models.profile import Profile

_UNREADABLE = lazy_re(
    r"(invalid|corrupt|malformed|broken|unsupported|could not|couldn't|cannot|can't|unable to|failed to|not a valid)\b.{0,60}\bimage"
    r"|\bimage\w*.{0,60}\b(invalid|corrupt|malformed|broken|unsupported|could not|cannot be|too (large|small|big)|exceeds)",
    re.DOTALL,
)


def without_images(profile: Profile, messages: Sequence[Message], refusal: ModelError) -> Iterator[Profile]:
    """The profile that leaves out the newest images, if the refusal is about an image.

    The newest, because what was accepted before is not what is refused now.
    """
    if not _UNREADABLE.search(refusal.message.lower()):
        return
    for message in reversed(messages):
        new = {image_key(image) for image in _images(message)} - profile.unreadable
        if new:
            yield replace(profile, unreadable=profile.unreadable | new)
            return


def _images(message: Message) -> Iterator[ImageBlock]:
    for block in message.content:
        if isinstance(block, ImageBlock):
            yield block
        elif isinstance(block, ToolResultBlock) and not isinstance(block.content, str):
            yield from (inner for inner in block.content if isinstance(inner, ImageBlock))
