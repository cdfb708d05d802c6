"""Old results of tools are what a long conversation can best do without."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from mainspring.loop.hooks import ContextTransform
from mainspring.messages import AgentMessage, ImageBlock, Message, TextBlock, ToolResultBlock

if TYPE_CHECKING:
    from mainspring.loop.hooks import SideModelCall

CLEAR_THRESHOLD_BYTES = 128 * 1024
"""Bytes of results that may stand in requests."""

KEEP_TURNS = 4
"""Turns at the end whose results are never left out."""

MAX_LAST_TURN_RESULT_BYTES = 16 * 1024
"""Bytes of a result in the last turn that stay when the conversation does not fit otherwise."""


class ToolResultClearing:
    """Leaves old, long results out of requests once there are too many bytes of them. The history stays as it is.

    When the results in requests come to more than ``threshold`` bytes, all of those before the last ``keep_turns`` turns go at
    once, and stay out. So the prompt's prefix changes only about once for each ``threshold`` bytes of new results, not in every
    turn. Text of messages and images stay. Each message is looked at once.

    Args:
        history: Gives the conversation.
        threshold: Bytes of results that may stand in requests.
        keep_turns: Turns at the end that are left alone.
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
        self._view: list[AgentMessage] = []  # what stands for the first of them
        self._turns: deque[int] = deque(maxlen=self._keep)
        self._sizes: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def on_context_transform(self, hook: ContextTransform) -> None:
        """The handler of `context:transform`; belongs before all others."""
        history = self._history()
        if history[: len(self._seen)] != self._seen:  # compares identities, at the speed of C
            self._reset()
        self._add(history)
        if self._bytes > self._threshold:
            self._clear_old()
        count = len(self._view)
        if count and hook.messages[:count] == self._seen[:count]:  # unless somebody rearranged them
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
    """Shortens a history without a model, for one that does not fit: results of tools before the last turn are left out,
    longer ones of the last turn are cut in the middle.

    Args:
        clip: Bytes of a result in the last turn that stay.
    """

    def __init__(self, *, clip: int = MAX_LAST_TURN_RESULT_BYTES) -> None:
        self._clip = clip

    async def compact(
        self, messages: Sequence[AgentMessage], *, reason: str, side_call: SideModelCall | None = None
    ) -> Sequence[AgentMessage] | None:
        """See `Compactor`."""
        calls = [i for i, m in enumerate(messages) if isinstance(m, Message) and m.tool_uses]
        last = calls[-1] if calls else 0
        shorter = [clear_results(m) if i < last else self._truncate_results(m) for i, m in enumerate(messages)]
        return None if all(a is b for a, b in zip(messages, shorter, strict=True)) else shorter

    def _truncate_results(self, message: AgentMessage) -> AgentMessage:
        def clip(block: ToolResultBlock) -> ToolResultBlock:
            if _size(block) <= self._clip:
                return block
            data = block.text.encode("utf-8", "replace")
            head, tail = (data[: self._clip * 3 // 4], data[-(self._clip // 4) :])
            note = (
                f"\n[... {len(data) - len(head) - len(tail)} bytes left out, since the conversation was too long ...]\n"
            )
            return _with_text(block, head.decode("utf-8", "ignore") + note + tail.decode("utf-8", "ignore"))

        return _map_results(message, clip)


def clear_results(message: AgentMessage) -> AgentMessage:
    """The message with a line in place of each result that is longer than the line; itself if there is none."""
    return _map_results(message, _placeholder)


def _placeholder(block: ToolResultBlock) -> ToolResultBlock:
    details: Any = block.details
    file = cast("dict[str, Any]", details).get("persisted") if isinstance(details, dict) else None
    kept = f"; all of it is in {file}" if file else ""
    size = _size(block)
    text = (
        f"[Result of {block.name or 'a tool'} left out to save room: {size} bytes{kept}. Call it again if you need it.]"
    )
    return block if size <= len(text) else _with_text(block, text)


def _size(block: ToolResultBlock) -> int:
    """Bytes of the text of a result; images do not count, since they cost a model next to nothing for their bytes."""
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
