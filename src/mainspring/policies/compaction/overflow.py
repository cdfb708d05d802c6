"""A conversation that does not fit is made shorter once, and sent again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainspring.errors import ContextExceededError
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import ModelErrorHook
from mainspring.messages import AgentMessage, ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock

if TYPE_CHECKING:
    from mainspring.policies.compaction.port import Compactor

LEAST_FREED = 0.05
"""The share of a history that must go for another try to be worth it."""


_TOLD = lazy_re(
    r"(?:maximum (?:context|prompt) length is|maximum number of tokens allowed \(|token limit:|must be <=|> ?|context size \() ?(\d{3,})"
    r"|(\d{3,}) maximum context length"
)


def told_window(text: str) -> int | None:
    """How many tokens a model takes, where the error of one that got too many tells it."""
    found = _TOLD.search(text)
    return int(found[1] or found[2]) if found else None


class OverflowRecovery:
    """Answers a context overflow with a shorter history, once in a turn; if that frees too little, the error stands.

    Args:
        compactor: Makes the history shorter.
    """

    def __init__(self, compactor: Compactor) -> None:
        self._compactor = compactor
        self._turn_id = ""

    async def failed(self, hook: ModelErrorHook) -> None:
        """The handler of `model:error`; belongs behind those of the application."""
        if not isinstance(hook.error, ContextExceededError) or hook.turn_id == self._turn_id:
            return
        self._turn_id = hook.turn_id
        shorter = await self._compactor.compact(hook.messages, reason="overflow", side_call=hook.side_call)
        if shorter and weight(shorter) <= weight(hook.messages) * (1 - LEAST_FREED):
            hook.retry(shorter)


def weight(messages: Sequence[AgentMessage]) -> int:
    """About how long a history is: characters of its texts, arguments and images. For comparing only."""
    return sum(_weight(block) for m in messages if isinstance(m, Message) for block in m.content)


def _weight(block: object) -> int:
    match block:
        case TextBlock():
            return len(block.text)
        case ImageBlock():
            return len(block.data)
        case ToolUseBlock():
            return len(str(block.input))
        case ToolResultBlock():
            return len(block.content) if isinstance(block.content, str) else sum(_weight(b) for b in block.content)
        case _:
            return 0
