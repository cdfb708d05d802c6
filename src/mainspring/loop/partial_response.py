"""Shorten the part of a response that ended early, to store it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from mainspring.text import truncate_middle

MAX_PARTIAL_CHARS = 256_000
"""Maximum characters of text, reasoning, and arguments of a response that ended early; usual output limits are lower."""
MAX_PARTIAL_IMAGE_CHARS = 8_000_000
"""Maximum length of an image in it, in base64; hosts reject larger ones."""

_LEFT_OUT = "\n[... {more} characters left out ...]\n"
_IMAGE_LEFT_OUT = "[An image of {size} characters was left out.]"


def shorten_partial_content(content: Sequence[ContentBlock]) -> tuple[ContentBlock, ...]:
    """Shorten the longest blocks of a response that ended early: up to 32 MB arrive, and later requests would contain all of it.

    Its tool calls never run, so their arguments can be cut, too. Encrypted reasoning cannot be cut; if too long, it is left out.
    """
    sizes = [_size(block) for block in content]
    limit = _size_limit(sizes)
    shortened = [
        block if size <= limit else _shorten_block(block, limit) for block, size in zip(content, sizes, strict=True)
    ]
    return tuple([block for block in shortened if block is not None])


def _size_limit(sizes: Sequence[int]) -> int:
    """Return the maximum size of a block with which all blocks together fit, so that short ones stay complete."""
    left = MAX_PARTIAL_CHARS
    for shorter, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - shorter)
        if size > share:
            return share
        left -= size
    return MAX_PARTIAL_CHARS


def _size(block: ContentBlock) -> int:
    match block:
        case TextBlock(text=text) | ThinkingBlock(thinking=text) | RedactedThinkingBlock(data=text):
            return len(text)
        case ToolUseBlock():
            return len(_arguments(block))
        case ImageBlock(data=data):
            return 0 if len(data) <= MAX_PARTIAL_IMAGE_CHARS else len(data)
        case _:
            return 0


def _shorten_block(block: ContentBlock, limit: int) -> ContentBlock | None:
    """Return the block in the size; ``None`` if it cannot be cut. A signature is valid only for the complete block."""
    match block:
        case TextBlock(text=text):
            return TextBlock(_shorten(text, limit))
        case ThinkingBlock(thinking=text):
            return ThinkingBlock(_shorten(text, limit))
        case ToolUseBlock(id=id, name=name):
            return ToolUseBlock(id, name, raw_input=_shorten(_arguments(block), limit))
        case ImageBlock(data=data):
            return TextBlock(_IMAGE_LEFT_OUT.format(size=len(data)))
        case _:
            return None


def _shorten(text: str, limit: int) -> str:
    return truncate_middle(text, limit // 2, limit // 2, _LEFT_OUT)


def _arguments(call: ToolUseBlock) -> str:
    if call.raw_input is not None or not call.input:
        return call.raw_input or ""
    return msgspec.json.encode(call.input).decode()
