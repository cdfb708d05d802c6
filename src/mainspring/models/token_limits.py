"""Output limit of a request, from the requested limit, the limit of the model, and the remaining context window."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.messages import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile

_MIN_OUTPUT_TOKENS = 1024  # Below this, a response is useless: let the host report that the conversation is too long.
_WINDOW_MARGIN = 256
_IMAGE_TOKENS = 1500  # Tokens per image; hosts differ, and this is close to the maximum that they count.


def output_limit(request: ModelRequest, profile: ModelProfile) -> int | None:
    """Return the output limit to send, in tokens; ``None`` leaves it to the host."""
    limit = request.max_output_tokens or profile.max_output_tokens
    return None if limit is None else clamp_to_window(limit, request, profile)


def clamp_to_window(limit: int, request: ModelRequest, profile: ModelProfile) -> int:
    """Return an output limit, in tokens, that the model supports and that fits into the remaining context window."""
    info = profile.info
    if info.max_output_tokens:
        limit = min(limit, info.max_output_tokens)
    if info.context_window:
        remaining = info.context_window - estimate_prompt_tokens(request.messages, len(request.system)) - _WINDOW_MARGIN
        limit = min(limit, max(_MIN_OUTPUT_TOKENS, remaining))
    return limit


def estimate_prompt_tokens(messages: Sequence[Message], system_length: int = 0) -> int:
    """Estimate the tokens of a conversation from the usage of the last response and the messages after it."""
    estimated = 0
    for message in reversed(messages):
        if message.usage is not None and message.usage.prompt_tokens:
            return message.usage.total_tokens + estimated
        estimated += sum(map(_estimate_block_tokens, message.content))
    return estimated + system_length // 4


def _estimate_block_tokens(block: object) -> int:
    match block:
        case TextBlock():
            return len(block.text) // 4
        case ThinkingBlock():
            return len(block.thinking) // 4
        case ToolUseBlock():
            return len(str(block.input)) // 4
        case ToolResultBlock(content=str() as text):
            return len(text) // 4
        case ToolResultBlock(content=tuple() as blocks):
            return sum(map(_estimate_block_tokens, blocks))
        case ImageBlock():
            return _IMAGE_TOKENS
        case _:
            return 0
