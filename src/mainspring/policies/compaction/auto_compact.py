"""Automatic compaction: before the history reaches the model's window, and after the model rejected it as too long.

`compaction_handlers` chooses the handlers of a run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec.structs import replace

from mainspring.errors import ContextExceededError
from mainspring.lazy import lazy_function
from mainspring.loop.hooks import ContextTransform, ModelErrorHook
from mainspring.loop.policy import ORDER_COMPACTION, ORDER_GUARDS, PolicyContext, PolicyHandlers
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
from mainspring.policies.compaction.clear_tool_results import TailCompactor
from mainspring.policies.compaction.options import Compaction, CompactionOptions, Compactor
from mainspring.policies.compaction.summary import SummaryCompactor
from mainspring.policies.compaction.summary_format import is_summary

if TYPE_CHECKING:
    from mainspring.loop.hooks import SideModelCall
    from mainspring.models import ModelProvider
    from mainspring.models.token_refusals import parse_limits
else:
    parse_limits = lazy_function("mainspring.models.token_refusals", "parse_limits")


MIN_FREED_SHARE = 0.05
"""Minimum share of a history that compaction must remove to justify another attempt."""


class OverflowRecovery:
    """Compacts the history after a context overflow, once per turn.

    If that frees too little, the error remains.

    Args:
        compactor: Shortens the history.
    """

    def __init__(self, compactor: Compactor) -> None:
        self._compactor = compactor
        self._turn_id = ""

    async def on_model_error(self, hook: ModelErrorHook) -> None:
        """Handle `model:error`; runs after the handlers of the application."""
        if not isinstance(hook.error, ContextExceededError) or hook.turn_id == self._turn_id:
            return
        self._turn_id = hook.turn_id
        shorter = await self._compactor.compact(hook.messages, reason="overflow", side_call=hook.side_call)
        if shorter and _is_shorter(shorter, hook.messages):
            hook.retry(shorter)


class ResultsFirstCompactor:
    """A `Compactor` that shortens tool results, and asks a model for a summary only if that frees too little.

    Args:
        keep: See `Compaction`.
    """

    def __init__(self, keep: Callable[[AgentMessage], bool] | None = None) -> None:
        self._results = TailCompactor()
        self._summary = SummaryCompactor(Compaction(keep=keep))

    async def compact(
        self, messages: Sequence[AgentMessage], *, reason: str, side_call: SideModelCall | None = None
    ) -> Sequence[AgentMessage] | None:
        """See `Compactor`."""
        shorter = await self._results.compact(messages, reason=reason)
        if shorter is not None and _is_shorter(shorter, messages):
            return shorter
        return await self._summary.compact(messages, reason=reason, side_call=side_call)


def _is_shorter(shorter: Sequence[AgentMessage], messages: Sequence[AgentMessage]) -> bool:
    return history_size(shorter) <= history_size(messages) * (1 - MIN_FREED_SHARE)


def history_size(messages: Sequence[AgentMessage]) -> int:
    """Return the approximate size of a history in characters, images included.

    For comparisons only.
    """
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
"""Maximum number of consecutive compactions that free too little; then compaction stops."""


_MIN_FREED_SHARE = 0.1


class AutoCompact:
    """Compacts the history when it comes near the model's window.

    The length is the last reported usage plus an estimate of the messages added since, tool results included. Only the newest
    messages are read.

    Args:
        compactor: Creates the summary.
        fixed: Returns the system prompt and the tools, used until the provider reports usage.

    Attributes:
        token_meter: Measures conversations.
        blocked_reason: The reason why compaction stopped, once summaries free too little.
    """

    def __init__(self, compactor: SummaryCompactor, fixed: Callable[[], tuple[str, Sequence[ToolDefinition]]]) -> None:
        self.compactor = compactor
        self.token_meter = TokenEstimator()
        self.blocked_reason = ""
        self._fixed = fixed
        self._ineffective_count = 0
        self._last_summary: AgentMessage | None = None
        self._after_turns: set[int] = (
            set()
        )  # Messages from before the compaction: their reported usage describes another history.
        self._learned: Message | None = None
        self._known_windows: dict[str, int] = {}

    def tokens(self, messages: Sequence[AgentMessage]) -> int:
        """Return the approximate number of tokens in a request with this history."""
        start = self._first_valid_index(messages)
        overhead = 0
        if not any(isinstance(m, Message) and m.usage for m in messages[start:]):
            overhead = estimate_overhead(*self._fixed(), self.token_meter.chars_per_token)
        return self.token_meter.tokens(messages, start, overhead=overhead)

    async def on_context_transform(self, hook: ContextTransform, model: ModelProvider) -> None:
        """Handle `context:transform`; runs before all other handlers."""
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
        self._last_summary = shorter[0]
        self._after_turns = {id(m) for m in shorter if id(m) in known}
        freed = before - self.tokens(hook.messages)
        self._ineffective_count = self._ineffective_count + 1 if freed < before * _MIN_FREED_SHARE else 0

    def _first_valid_index(self, messages: Sequence[AgentMessage]) -> int:
        """Return the index of the first message whose reported usage describes this history."""
        if not messages or not is_summary(messages[0]):
            return 0
        summary = messages[0]
        assert isinstance(summary, Message)
        if messages[0] is self._last_summary:
            return next((i for i in range(1, len(messages)) if id(messages[i]) not in self._after_turns), len(messages))
        timestamp = summary.timestamp  # of a resumed session
        return next(
            (i for i in range(1, len(messages)) if isinstance(m := messages[i], Message) and m.timestamp > timestamp),
            len(messages),
        )

    def _calibrate(self, messages: Sequence[AgentMessage]) -> None:
        """Calibrate with the newest reported usage, once, if it covers text only."""
        start = self._first_valid_index(messages)
        for i in range(len(messages) - 1, start, -1):
            message = messages[i]
            if not isinstance(message, Message) or message.role != "assistant":
                continue
            if message.usage and not message.usage.estimated_calls:
                if message is not self._learned and self._learned is None and not has_images(messages[:i]):
                    system, tools = self._fixed()
                    fixed = estimate_overhead(system, tools, 1.0)
                    self.token_meter.calibrate(count_characters(messages[:i]) + fixed, message.usage.prompt_tokens)
                self._learned = message
                return

    def on_context_exceeded(self, hook: ModelErrorHook) -> None:
        """Handle `model:error` before all other handlers: an overflow error may contain the size of the window."""
        error = hook.error
        if isinstance(error, ContextExceededError) and error.model:
            window = parse_limits(error.message).context_window
            if window:
                self._known_windows[error.model] = window

    def on_model_error(self, hook: ModelErrorHook) -> None:
        """Handle `model:error`: explain why an overflow cannot be resolved."""
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
            f"The conversation cannot be compacted enough: {MAX_INEFFECTIVE} summaries in a row freed too little. The system prompt and "
            f"{len(tools)} tools take about {fixed} tokens, the request about {self.tokens(messages)}, and the limit is {limit} tokens "
            f"for {model.model}. Offer fewer tools, keep fewer recent tokens, or use a model with a larger window"
        )


@runtime_checkable
class PreservesMessages(Protocol):
    """A plugin that preserves messages from compaction."""

    def should_preserve(self, message: AgentMessage, /) -> bool:
        """Return True if a message must stay unchanged."""
        ...


def compaction_handlers(options: CompactionOptions, run: PolicyContext) -> PolicyHandlers:
    """Return the handlers that keep the conversation within the model's window."""
    compactor: Compactor | None = None
    compaction = options.compaction
    if compaction is not None and not run.provider_manages_context():
        # Messages that plugins preserve stay unchanged.
        kept = replace(compaction, keep=combine_preserve_checks(run.agent.plugs, compaction.keep))
        auto = run.conversation_state(
            AutoCompact,
            lambda: AutoCompact(SummaryCompactor(kept), lambda: (run.agent.context.system, run.offered_tools())),
            compaction,
        )
        compactor = auto.compactor
        yield (
            ORDER_COMPACTION,
            {
                ContextTransform: partial(auto.on_context_transform, model=run.model),
                ModelErrorHook: auto.on_context_exceeded,
            },
        )
        yield ORDER_GUARDS + 1, {ModelErrorHook: auto.on_model_error}
    if not isinstance(options.on_overflow, str):
        compactor = options.on_overflow
    elif options.on_overflow == "compact":
        compactor = compactor or ResultsFirstCompactor(combine_preserve_checks(run.agent.plugs, None))
    else:
        return
    yield ORDER_GUARDS, {ModelErrorHook: OverflowRecovery(compactor).on_model_error}


def combine_preserve_checks(
    plugs: Iterable[object], keep: Callable[[AgentMessage], bool] | None
) -> Callable[[AgentMessage], bool] | None:
    """Combine the checks of plugins and of ``keep`` for messages that a compaction preserves."""
    request: list[Callable[[AgentMessage], bool]] = [
        p.should_preserve for p in plugs if isinstance(p, PreservesMessages)
    ]
    if not request:
        return keep
    if keep is not None:
        request.append(keep)
    return lambda message: any(each(message) for each in request)
