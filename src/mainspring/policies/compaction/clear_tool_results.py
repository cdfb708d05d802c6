"""Removal of old tool results from requests."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.loop.hooks import ContextTransform
from mainspring.loop.policy import ORDER_SHORTEN_CONTEXT, PolicyContext, PolicyHandlers
from mainspring.messages import AgentMessage, ImageBlock, Message, TextBlock, ToolResultBlock
from mainspring.options import Options, option

if TYPE_CHECKING:
    from mainspring.loop.hooks import SideModelCall

CLEAR_THRESHOLD_BYTES = 128 * 1024
"""Maximum number of bytes of tool results in requests."""

KEEP_TURNS = 4
"""Number of turns at the end whose results are never removed."""

MAX_LAST_TURN_RESULT_BYTES = 16 * 1024
"""Maximum bytes of a result in the last turn if the conversation does not fit otherwise; a result that was shortened before loses
half of the rest."""

_NOTE = "\n[... {} bytes left out, since the conversation was too long ...]\n"
_EARLIER_NOTE = lazy_re(re.escape(_NOTE).replace(r"\{\}", r"(\d+)"))


class ToolResultClearingOptions(Options, page="context.md#leave-out-old-results"):
    """Options of the removal of old tool results."""

    compact_strategy: Literal["off", "tail"] = option(
        default="off", doc="`tail` leaves old, long tool results out of requests."
    )
    compact_threshold: int = option(
        default=CLEAR_THRESHOLD_BYTES, ge=0, doc="Bytes of results in the conversation that `tail` allows."
    )
    compact_keep_turns: int = option(
        default=KEEP_TURNS, ge=0, doc="Number of last turns whose results `tail` never leaves out."
    )


def tool_result_clearing_handlers(options: ToolResultClearingOptions, run: PolicyContext) -> PolicyHandlers:
    """Return the handlers that remove old tool results from requests."""
    if options.compact_strategy == "tail":
        threshold, keep_turns = options.compact_threshold, options.compact_keep_turns
        tail = run.conversation_state(
            ToolResultClearing,
            lambda: ToolResultClearing(run.history, threshold=threshold, keep_turns=keep_turns),
            (threshold, keep_turns),
        )

        def clear(hook: ContextTransform) -> None:
            if not run.provider_manages_context():
                tail.on_context_transform(hook)

        yield ORDER_SHORTEN_CONTEXT, {ContextTransform: clear}


class ToolResultClearing:
    """Removes old, long results from requests when they exceed a number of bytes.

    The history is unchanged.

    When the results in requests exceed ``threshold`` bytes, all results before the last ``keep_turns`` turns are removed together
    and stay removed. So the prompt's prefix changes about once per ``threshold`` bytes of new results, not in every turn. Message
    text and images stay. Each message is checked once.

    Args:
        history: Returns the conversation.
        threshold: Maximum number of bytes of results in requests.
        keep_turns: Number of turns at the end that stay unchanged.
    """

    def __init__(
        self,
        history: Callable[[], Sequence[AgentMessage]],
        *,
        threshold: int = CLEAR_THRESHOLD_BYTES,
        keep_turns: int = KEEP_TURNS,
    ) -> None:
        self._history = history
        self._threshold = threshold
        self._keep = max(keep_turns, 0)
        self._reset()

    def _reset(self) -> None:
        self._seen: list[AgentMessage] = []
        self._view: list[AgentMessage] = []  # replacements for the first messages of the history
        self._turns: deque[int] = deque(maxlen=self._keep)
        self._sizes: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def on_context_transform(self, hook: ContextTransform) -> None:
        """Handle `context:transform`; runs before all other handlers."""
        history = self._history()
        if history[: len(self._seen)] != self._seen:  # compares identities, at the speed of C
            self._reset()
        self._add(history)
        if self._bytes > self._threshold:
            self._clear_old()
        count = len(self._view)
        if count and hook.messages[:count] == self._seen[:count]:  # unless another handler reordered the messages
            hook.messages[:count] = self._view

    def _add(self, history: Sequence[AgentMessage]) -> None:
        for i in range(len(self._seen), len(history)):
            message = history[i]
            self._seen.append(message)
            if not isinstance(message, Message):
                continue
            if message.role == "assistant":
                self._turns.append(i)
            elif size := sum(_size(b) for b in message.content if type(b) is ToolResultBlock):
                self._sizes.append((i, size))
                self._bytes += size

    def _clear_old(self) -> None:
        full = len(self._turns) == self._keep
        cut = (self._turns[0] if self._turns else len(self._seen)) if full else 0
        self._view += [clear_results(message) for message in self._seen[len(self._view) : cut]]
        while self._sizes and self._sizes[0][0] < cut:
            self._bytes -= self._sizes.popleft()[1]


class TailCompactor:
    """Shortens a history without a model if it does not fit.

    Removes the tool results before the last turn, and truncates longer results of the last turn in the middle.
    """

    async def compact(
        self, messages: Sequence[AgentMessage], *, reason: str, side_call: SideModelCall | None = None
    ) -> Sequence[AgentMessage] | None:
        """See `Compactor`."""
        calls = [i for i, m in enumerate(messages) if isinstance(m, Message) and m.tool_uses]
        last = calls[-1] if calls else 0
        shorter = [clear_results(m) if i < last else _map_results(m, _truncate) for i, m in enumerate(messages)]
        return None if all(a is b for a, b in zip(messages, shorter, strict=True)) else shorter


def clear_results(message: AgentMessage) -> AgentMessage:
    """Return the message with a placeholder for each result that is longer than it; the same message without such results."""
    return _map_results(message, _placeholder)


def _truncate(block: ToolResultBlock) -> ToolResultBlock:
    size = _size(block)
    limit = size // 2 if _EARLIER_NOTE.search(block.text) else MAX_LAST_TURN_RESULT_BYTES
    if size <= limit:
        return block
    data = block.text.encode("utf-8", "replace")
    head, tail = data[: limit * 3 // 4], data[-(limit // 4) :]
    middle = data[len(head) : len(data) - len(tail)].decode("utf-8", "replace")
    earlier = sum(int(note[1]) - len(note[0]) for note in _EARLIER_NOTE.finditer(middle))
    note = _NOTE.format(len(data) - len(head) - len(tail) + earlier)
    return _with_text(block, head.decode("utf-8", "ignore") + note + tail.decode("utf-8", "ignore"))


def _placeholder(block: ToolResultBlock) -> ToolResultBlock:
    details: Any = block.details
    file = cast("dict[str, Any]", details).get("persisted") if isinstance(details, dict) else None
    file_note = f"; all of it is in {file}" if file else ""
    size = _size(block)
    text = f"[Result of {block.name or 'a tool'} left out to save space: {size} bytes{file_note}. Call it again if you need it.]"
    return block if size <= len(text) else _with_text(block, text)


def _size(block: ToolResultBlock) -> int:
    """Return the bytes of a result's text; images do not count, since their bytes do not determine their cost in tokens."""
    texts = (
        (block.content,)
        if isinstance(block.content, str)
        else tuple([b.text for b in block.content if isinstance(b, TextBlock)])
    )
    return sum(len(t) if t.isascii() else len(t.encode("utf-8", "replace")) for t in texts)


def _with_text(block: ToolResultBlock, text: str) -> ToolResultBlock:
    if isinstance(block.content, str):
        return replace(block, content=text)
    return replace(block, content=(TextBlock(text), *[b for b in block.content if isinstance(b, ImageBlock)]))


def _map_results(message: AgentMessage, change: Callable[[ToolResultBlock], ToolResultBlock]) -> AgentMessage:
    if not isinstance(message, Message) or message.role != "user":
        return message
    content = [change(b) if type(b) is ToolResultBlock else b for b in message.content]
    if all(a is b for a, b in zip(content, message.content, strict=True)):
        return message
    return replace(message, content=tuple(content))
