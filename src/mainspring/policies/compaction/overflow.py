"""A conversation that does not fit is made shorter once, and sent again.

The port of whatever makes a history shorter.

Above: the overflow recovery and the threshold. Below: leaving out results of tools (`TailCompactor`), or a summary by a model.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.errors import ContextExceededError
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import ModelErrorHook
from mainspring.loop.option_types import Compactor
from mainspring.messages import AgentMessage, ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock

MIN_FREED_SHARE = 0.05
"""The share of a history that must go for another try to be worth it."""


_LIMIT_IN_ERROR = lazy_re(
    r"(?:maximum (?:context|prompt) length is|maximum number of tokens allowed \(|token limit:|must be <=|> ?|context size \() ?(\d{3,})"
    r"|(\d{3,}) maximum context length"
)


def window_from_error(text: str) -> int | None:
    """How many tokens a model takes, where the error of one that got too many tells it."""
    found = _LIMIT_IN_ERROR.search(text)
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
        if shorter and history_size(shorter) <= history_size(hook.messages) * (1 - MIN_FREED_SHARE):
            hook.retry(shorter)


def history_size(messages: Sequence[AgentMessage]) -> int:
    """About how long a history is: characters of its texts, arguments and images. For comparing only."""
    return sum(_block_size(block) for m in messages if isinstance(m, Message) for block in m.content)


def _block_size(block: object) -> int:
    match block:
        case TextBlock():
            return len(block.text)
        case ImageBlock():
            return len(block.data)
        case ToolUseBlock():
            return len(str(block.input))
        case ToolResultBlock():
            return len(block.content) if isinstance(block.content, str) else sum(_block_size(b) for b in block.content)
        case _:
            return 0
