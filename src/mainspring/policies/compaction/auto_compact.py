"""Compact the history: before it reaches the model's window, and after the model refused it as too long."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mainspring.errors import ContextExceededError
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import ContextTransform, ModelErrorHook
from mainspring.loop.option_types import Compactor
from mainspring.messages import (
    AgentMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.messages.token_estimate import TokenEstimator, count_characters, estimate_overhead, has_images
from mainspring.policies.compaction.summary import SummaryCompactor
from mainspring.policies.compaction.summary_format import is_summary

if TYPE_CHECKING:
    from mainspring.models import ModelProvider


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

    async def on_model_error(self, hook: ModelErrorHook) -> None:
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


logger = logging.getLogger("mainspring.compaction")


MAX_INEFFECTIVE = 2
"""How many compactions in a row may free too little before no more are tried."""


_MIN_FREED_SHARE = 0.1


class AutoCompact:
    """Has the history summed up when it comes near the model's window.

    The length is what the provider reported last, and an estimate of what was added since, results of tools included. It costs a
    look at the newest messages and nothing else.

    Args:
        compactor: Makes the summary.
        fixed: Gives system prompt and tools, for as long as nothing was reported.

    Attributes:
        token_meter: Measures conversations.
        blocked_reason: What stands in the way, once summaries free too little.
    """

    def __init__(self, compactor: SummaryCompactor, fixed: Callable[[], tuple[str, Sequence[ToolDefinition]]]) -> None:
        self.compactor = compactor
        self.token_meter = TokenEstimator()
        self.blocked_reason = ""
        self._fixed = fixed
        self._ineffective_count = 0
        self._summarize: AgentMessage | None = None
        self._after_turns: set[int] = (
            set()
        )  # messages that were there when it was made: what they report is of another history
        self._learned: Message | None = None
        self._known_windows: dict[str, int] = {}

    def tokens(self, messages: Sequence[AgentMessage]) -> int:
        """About how many tokens a request with this history has."""
        start = self._first_valid_index(messages)
        overhead = 0
        if not any(isinstance(m, Message) and m.usage for m in messages[start:]):
            overhead = estimate_overhead(*self._fixed(), self.token_meter.chars_per_token)
        return self.token_meter.tokens(messages, start, overhead=overhead)

    async def on_context_transform(self, hook: ContextTransform, model: ModelProvider) -> None:
        """The part of `context:transform`; before all others."""
        window = min(filter(None, (model.info.context_window, self._known_windows.get(model.model))), default=None)
        limit = self.compactor.options.limit(window)
        if limit is None:
            return
        self._calibrate(hook.messages)
        before = self.tokens(hook.messages)
        if before <= limit:
            self._ineffective_count = 0
            return
        if self._ineffective_count >= MAX_INEFFECTIVE:
            if not self.blocked_reason:
                self.blocked_reason = self._describe_blocker(hook.messages, limit, model)
                logger.warning("%s", self.blocked_reason)
            return
        shorter = await self.compactor.compact(
            hook.messages,
            reason="threshold",
            side_call=hook.side_call,
            window=window,
            chars_per_token=self.token_meter.chars_per_token,
        )
        if shorter is None:
            return
        known = {id(m) for m in hook.messages}
        await hook.compact(shorter, "threshold")
        self._summarize = shorter[0]
        self._after_turns = {id(m) for m in shorter if id(m) in known}
        freed = before - self.tokens(hook.messages)
        self._ineffective_count = self._ineffective_count + 1 if freed < before * _MIN_FREED_SHARE else 0

    def _first_valid_index(self, messages: Sequence[AgentMessage]) -> int:
        """The first message whose report is of this history."""
        if not messages or not is_summary(messages[0]):
            return 0
        summary = messages[0]
        assert isinstance(summary, Message)
        if messages[0] is self._summarize:
            return next((i for i in range(1, len(messages)) if id(messages[i]) not in self._after_turns), len(messages))
        made = summary.timestamp  # of a session that was taken up again
        return next(
            (i for i in range(1, len(messages)) if isinstance(m := messages[i], Message) and m.timestamp > made),
            len(messages),
        )

    def _calibrate(self, messages: Sequence[AgentMessage]) -> None:
        """Take in the newest report, once, where it is of texts alone."""
        start = self._first_valid_index(messages)
        for i in range(len(messages) - 1, start, -1):
            message = messages[i]
            if isinstance(message, Message) and message.role == "assistant" and message.usage:
                if message is not self._learned and self._learned is None and not has_images(messages[:i]):
                    system, tools = self._fixed()
                    fixed = estimate_overhead(system, tools, 1.0)
                    self.token_meter.calibrate(count_characters(messages[:i]) + fixed, message.usage.prompt_tokens)
                self._learned = message
                return

    def on_context_exceeded(self, hook: ModelErrorHook) -> None:
        """The other part of `model:error`, before anybody answers it: an overflow may tell the window."""
        error = hook.error
        if isinstance(error, ContextExceededError) and error.model and (window := window_from_error(error.message)):
            self._known_windows[error.model] = window

    def on_model_error(self, hook: ModelErrorHook) -> None:
        """The part of `model:error`: an overflow that nothing helps against says what stands in the way."""
        if (
            isinstance(hook.error, ContextExceededError)
            and self.blocked_reason
            and self.blocked_reason not in hook.error.message
        ):
            hook.error.message = f"{hook.error.message.rstrip('.')}. {self.blocked_reason}"
            hook.error.args = (hook.error.message,)

    def _describe_blocker(self, messages: Sequence[AgentMessage], limit: int, model: ModelProvider) -> str:
        system, tools = self._fixed()
        fixed = estimate_overhead(system, tools, self.token_meter.chars_per_token)
        return (
            f"The conversation cannot be made short enough: {MAX_INEFFECTIVE} summaries in a row freed too little. System prompt and "
            f"{len(tools)} tools take about {fixed} tokens, the whole about {self.tokens(messages)}, and {limit} is what is to "
            f"be used of {model.model}. Offer fewer tools, keep fewer recent tokens, or use a model with a larger window"
        )
