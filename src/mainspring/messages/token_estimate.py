"""Token estimates of a conversation: the last reported usage plus an estimate of later messages.

Exact counts need each model's own tokenizer. The usage that a provider reports is exact, free, and at most one turn old, so
only the newest messages are estimated; each report calibrates the number of characters per token.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.messages import (
    AgentMessage,
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)

CHARS_PER_TOKEN = 4.0
"""English text and code with current tokenizers; the initial value until a provider reports usage."""

IMAGE_TOKENS = 1600
"""Approximate cost of a large image; small images cost less."""

_MIN_CHARS_PER_TOKEN, _MAX_CHARS_PER_TOKEN = 1.2, 6.0
_MESSAGE_OVERHEAD = 4
_encode = msgspec.json.Encoder(enc_hook=str).encode


def estimate_tokens(messages: Sequence[AgentMessage], chars_per_token: float = CHARS_PER_TOKEN) -> int:
    """Return the approximate number of tokens in messages.

    Args:
        messages: The messages; application messages count as zero, since models do not see them.
        chars_per_token: Number of characters per token.
    """
    chars, images, count = 0, 0, 0
    for message in messages:
        if not isinstance(message, Message):
            continue
        count += 1
        for block in message.content:
            more, pictures = _size(block)
            chars += more
            images += pictures
    return round(chars / chars_per_token) + images * IMAGE_TOKENS + count * _MESSAGE_OVERHEAD


def estimate_overhead(system: str, tools: Sequence[ToolDefinition], chars_per_token: float = CHARS_PER_TOKEN) -> int:
    """Return the approximate number of tokens in the system prompt and the tools, which every request contains."""
    chars = len(system) + sum(len(t.name) + len(t.description) + len(_encode(t.input_schema)) for t in tools)
    return round(chars / chars_per_token)


class TokenEstimator:
    """Estimates the length of a conversation, and learns from reported usage.

    Attributes:
        chars_per_token: Number of characters per token, as calibrated so far.
    """

    def __init__(self) -> None:
        self.chars_per_token = CHARS_PER_TOKEN

    def tokens(self, messages: Sequence[AgentMessage], start: int = 0, *, overhead: int = 0) -> int:
        """Return the number of tokens in a request with these messages.

        Args:
            messages: The history.
            start: Index of the first message whose usage applies: earlier reports describe another history.
            overhead: Tokens of system prompt and tools, used until usage is reported.
        """
        for i in range(len(messages) - 1, start - 1, -1):
            message = messages[i]
            if isinstance(message, Message) and message.role == "assistant" and message.usage:
                reported = message.usage.total_tokens
                if reported and message.stop_reason not in {"error", "aborted"}:
                    return reported + estimate_tokens(messages[i + 1 :], self.chars_per_token)
        return overhead + estimate_tokens(messages, self.chars_per_token)

    def calibrate(self, char_count: int, tokens: int) -> None:
        """Calibrate with a prompt of ``char_count`` characters and ``tokens`` tokens; short prompts are ignored."""
        if char_count >= 2000 and tokens > 0:
            seen = min(max(char_count / tokens, _MIN_CHARS_PER_TOKEN), _MAX_CHARS_PER_TOKEN)
            self.chars_per_token += (seen - self.chars_per_token) / 2


def count_characters(messages: Sequence[AgentMessage]) -> int:
    """Return the number of characters that a model reads, without images."""
    return sum(_size(block)[0] for m in messages if isinstance(m, Message) for block in m.content)


def has_images(messages: Sequence[AgentMessage]) -> bool:
    """Return True if any message contains an image."""
    return any(_size(block)[1] for m in messages if isinstance(m, Message) for block in m.content)


def _size(block: ContentBlock) -> tuple[int, int]:
    match block:
        case TextBlock():
            return len(block.text), 0
        case ThinkingBlock():
            return len(block.thinking), 0
        case RedactedThinkingBlock():
            return len(block.data) // 2, 0
        case ImageBlock():
            return 0, 1
        case ToolUseBlock():
            return len(block.name) + len(block.raw_input or _encode(block.input)), 0
        case ToolResultBlock():
            if isinstance(block.content, str):
                return len(block.content), 0
            images = sum(isinstance(b, ImageBlock) for b in block.content)
            return sum(len(b.text) for b in block.content if isinstance(b, TextBlock)), images
