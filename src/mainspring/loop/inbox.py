"""Messages that wait for a run: steering and follow-ups."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal

from mainspring.messages import AgentMessage


class Inbox:
    """A queue of messages, taken one at a time or all at once. Nothing in it is ever lost: what no run took stays."""

    __slots__ = ("_waiting", "mode")

    def __init__(self, mode: Literal["one", "all"] = "one") -> None:
        self.mode: Literal["one", "all"] = mode
        self._waiting: deque[AgentMessage] = deque()

    def put(self, *messages: AgentMessage) -> None:
        """Add messages at the end."""
        self._waiting.extend(messages)

    def take(self) -> Sequence[AgentMessage]:
        """The next message, or all of them."""
        if not self._waiting:
            return ()
        if self.mode == "one":
            return (self._waiting.popleft(),)
        taken = tuple(self._waiting)
        self._waiting.clear()
        return taken

    def clear(self) -> tuple[AgentMessage, ...]:
        """Empty it; gives what was in it."""
        left = tuple(self._waiting)
        self._waiting.clear()
        return left

    def __len__(self) -> int:
        return len(self._waiting)
