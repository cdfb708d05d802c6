"""How much tools may give back in one turn before the model is told to sum up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.loop.hooks import BudgetExceeded, ToolAfter, ToolResultsAfter, TurnAfter
from mainspring.messages import Message

if TYPE_CHECKING:
    from mainspring.loop import HookBus

TEXT = (
    "[Tool output budget exceeded: {bytes} bytes returned in this turn (cap: {cap}). Summarize the salient findings before "
    "calling more tools.]"
)


class ToolOutputBudget:
    """Adds up the bytes of results as the model gets them, and speaks up where a turn has too many.

    Args:
        cap: Bytes that a turn may give back.
        bus: Hears of each turn beyond.
    """

    def __init__(self, cap: int, bus: HookBus) -> None:
        self._cap = cap
        self._bus = bus
        self._bytes = 0
        self._turn, self._turn_id = 0, ""

    def turn(self, hook: TurnAfter) -> None:
        """The handler of `turn:after`."""
        self._turn = hook.turn

    def after(self, hook: ToolAfter) -> None:
        """The handler of `tool:after`."""
        self._bytes += hook.output_bytes
        self._turn_id = hook.turn_id

    async def results(self, hook: ToolResultsAfter) -> None:
        """The handler of `tool-results:after`."""
        size, self._bytes = self._bytes, 0
        if size <= self._cap:
            return
        hook.follow.append(Message.user(TEXT.format(bytes=size, cap=self._cap)))
        if self._bus.has(BudgetExceeded):
            await self._bus.emit(BudgetExceeded(self._turn, self._turn_id, size, self._cap))
