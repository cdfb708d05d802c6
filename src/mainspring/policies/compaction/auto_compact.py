"""Automatic compaction: before the history reaches the model's window, and after the model rejected it as too long.

`compaction_handlers` chooses the handlers of a run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
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
from mainspring.policies.compaction.summary_format import is_summary

if TYPE_CHECKING:
    from mainspring.loop.hooks import SideModelCall
    from mainspring.models import ModelProvider
    from mainspring.models.token_refusals import parse_limits
    from mainspring.policies.compaction.summary import SummaryCompactor
    from mainspring.policies.compaction.window_report import describe_window
else:  # most runs need no compaction
    SummaryCompactor = lazy_function("mainspring.policies.compaction.summary", "SummaryCompactor")
    describe_window = lazy_function("mainspring.policies.compaction.window_report", "describe_window")
    parse_limits = lazy_function("mainspring.models.token_refusals", "parse_limits")


MIN_FREED_SHARE = 0.05
"""Minimum share of a history that compaction must remove to justify another attempt."""


_MAX_OVERFLOWS = 3  # of one turn


class OverflowRecovery:
    """Compacts the history after a context overflow, up to three times in a turn: each time, less of it stays.

    If that frees too little, the error remains, with what fills the window.

    Args:
        get_compactor: Returns the compactor that shortens the history, or ``None`` to leave it unchanged.
        describe: Describes what fills the window of a history.
    """

    def __init__(
        self,
        get_compactor: Callable[[], Compactor | None],
        describe: Callable[[Sequence[AgentMessage]], str] = lambda _: "",
    ) -> None:
        self._get_compactor = get_compactor
        self._describe = describe
        self._turn_id = ""
        self._attempts_left = 0
        self._problem = ""

    async def on_model_error(self, hook: ModelErrorHook) -> None:
        """Handle `model:error`; runs after the handlers of the application."""
        if not isinstance(hook.error, ContextExceededError) or hook.should_retry:
            return
        if hook.turn_id != self._turn_id:
            self._turn_id, self._attempts_left, self._problem = hook.turn_id, _MAX_OVERFLOWS, ""
        if self._attempts_left and (compactor := self._get_compactor()) is not None:
            self._attempts_left -= 1
            shorter = await compactor.compact(hook.messages, reason="overflow", side_call=hook.side_call)
            self._problem = getattr(compactor, "problem", "")
            if shorter and _is_shorter(shorter, hook.messages):
                hook.retry(shorter)
                return
        _add_to_message(hook.error, self._problem, self._describe(hook.messages))


class _CompactorChain:
    """A `Compactor` that tries several in their order, until one frees enough. A failed summary changes nothing."""

    def __init__(self, *compactors: Compactor) -> None:
        self._compactors = compactors

    @property
    def problem(self) -> str:
        """The reason why the last attempt changed nothing."""
        return next(filter(None, (getattr(each, "problem", "") for each in self._compactors)), "")

    async def compact(
        self, messages: Sequence[AgentMessage], *, reason: str, side_call: SideModelCall | None = None
    ) -> Sequence[AgentMessage] | None:
        """See `Compactor`."""
        for compactor in self._compactors:
            shorter = await compactor.compact(messages, reason=reason, side_call=side_call)
            if shorter is not None and _is_shorter(shorter, messages):
                return shorter
            if getattr(compactor, "has_failed", False):
                break
        return None


def _add_to_message(error: ContextExceededError, *sentences: str) -> None:
    added = [sentence.rstrip(".") for sentence in sentences if sentence and sentence.rstrip(".") not in error.message]
    error.message = ". ".join([error.message.rstrip("."), *added]) + ("." if added else "")
    error.args = (error.message, *error.args[1:])


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
        options: Options of the summaries.
        fixed: Returns the system prompt and the tools, used until the provider reports usage.

    Attributes:
        token_meter: Measures conversations.
        blocked_reason: The reason why compaction stopped, once summaries free too little.
    """

    def __init__(self, options: Compaction, fixed: Callable[[], tuple[str, Sequence[ToolDefinition]]]) -> None:
        self.options = options
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

    @cached_property
    def compactor(self) -> SummaryCompactor:
        """The compactor that creates the summaries."""
        return SummaryCompactor(self.options)

    def tokens(self, messages: Sequence[AgentMessage]) -> int:
        """Return the approximate number of tokens in a request with this history."""
        start = self._first_valid_index(messages)
        overhead = 0
        if not any(isinstance(m, Message) and m.usage for m in messages[start:]):
            overhead = estimate_overhead(*self._fixed(), self.token_meter.chars_per_token)
        return self.token_meter.tokens(messages, start, overhead=overhead)

    async def on_context_transform(self, hook: ContextTransform, model: ModelProvider) -> None:
        """Handle `context:transform`; runs before all other handlers."""
        window = self._window(model)
        limit = self.options.limit(window)
        if limit is None:
            return
        self._calibrate(hook.messages)
        before = self.tokens(hook.messages)
        if before <= limit:
            self._ineffective_count = 0
            return
        if self._ineffective_count >= MAX_INEFFECTIVE:
            if not self.blocked_reason:
                self.blocked_reason = f"The conversation cannot be compacted enough: {MAX_INEFFECTIVE} summaries in a row failed or freed too little."
                logger.warning("%s %s", self.blocked_reason, self.describe(hook.messages, model))
            return
        shorter = await self.compactor.compact(
            hook.messages,
            reason="threshold",
            side_call=hook.side_call,
            window=window,
            chars_per_token=self.token_meter.chars_per_token,
        )
        if shorter is None:
            self._ineffective_count += self.compactor.calls > 0
            return
        known = {id(m) for m in hook.messages}
        await hook.compact(shorter, "threshold")
        self._last_summary = shorter[0]
        self._after_turns = {id(m) for m in shorter if id(m) in known}
        freed = before - self.tokens(hook.messages)
        self._ineffective_count = self._ineffective_count + 1 if freed < before * _MIN_FREED_SHARE else 0

    def describe(self, messages: Sequence[AgentMessage], model: ModelProvider) -> str:
        """Return what fills the window of the model with this history, and what to do."""
        system, tools = self._fixed()
        window = self._window(model)
        return describe_window(system, tools, messages, window=window, chars_per_token=self.token_meter.chars_per_token)

    def _window(self, model: ModelProvider) -> int | None:
        return min(filter(None, (model.info.context_window, self._known_windows.get(model.model))), default=None)

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
        if isinstance(hook.error, ContextExceededError) and self.blocked_reason and not hook.should_retry:
            _add_to_message(hook.error, self.blocked_reason)


@runtime_checkable
class PreservesMessages(Protocol):
    """A plugin that preserves messages from compaction."""

    def should_preserve(self, message: AgentMessage, /) -> bool:
        """Return True if a message must stay unchanged."""
        ...


def compaction_handlers(options: CompactionOptions, run: PolicyContext) -> PolicyHandlers:
    """Return the handlers that keep the conversation within the model's window."""
    auto: AutoCompact | None = None

    def describe(messages: Sequence[AgentMessage]) -> str:
        return describe_window(
            run.agent.context.system, run.offered_tools(), messages, window=run.model.info.context_window
        )

    compaction = options.compaction
    if compaction is not None and not run.provider_manages_context():
        # Messages that plugins preserve stay unchanged.
        kept = replace(compaction, keep=combine_preserve_checks(run.agent.plugs, compaction.keep))
        auto = run.conversation_state(
            AutoCompact,
            lambda: AutoCompact(kept, lambda: (run.agent.context.system, run.offered_tools())),
            compaction,
        )
        describe = partial(auto.describe, model=run.model)
        yield (
            ORDER_COMPACTION,
            {
                ContextTransform: partial(auto.on_context_transform, model=run.model),
                ModelErrorHook: auto.on_context_exceeded,
            },
        )
        yield ORDER_GUARDS - 1, {ModelErrorHook: auto.on_model_error}

    def get_compactor() -> Compactor | None:
        if not isinstance(options.on_overflow, str):
            return options.on_overflow
        if options.on_overflow != "compact":
            return None
        if auto:  # A summary shortens no result of the newest turn.
            return _CompactorChain(auto.compactor, TailCompactor())
        keep = combine_preserve_checks(run.agent.plugs, None)
        return _CompactorChain(TailCompactor(), SummaryCompactor(Compaction(keep=keep)))

    yield ORDER_GUARDS, {ModelErrorHook: OverflowRecovery(get_compactor, describe).on_model_error}


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
