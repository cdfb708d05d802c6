"""Less reasoning as a run goes on: the first turns plan, later ones mostly carry out.

Whether the provider's prompt cache is steered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainspring.loop.hooks import TurnBefore

if TYPE_CHECKING:
    from mainspring.models import ModelRequest, ThinkingLevel


LEVEL_TOKENS: dict[ThinkingLevel, int] = {
    "off": 0,
    "minimal": 1024,
    "low": 4096,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
}
"""Tokens that stand for a level while it decays: 1024 is the least that Anthropic takes, each further step about doubles."""


class ThinkingDecayPolicy:
    """Sets the reasoning of each request, before anybody else sees it.

    An exact budget shrinks to the token. A level becomes the highest level whose tokens (`LEVELS`) still fit, so that it
    works where a provider takes levels only. Where neither is set, the provider decides and nothing happens.

    Args:
        decay: The rule: a function of the run's turn (from 1) and of the whole budget in tokens.
    """

    def __init__(self, decay: Callable[[int, int], float]) -> None:
        self._decay = decay

    def before(self, hook: TurnBefore) -> None:
        """The handler of `turn:before`."""
        request: ModelRequest = hook.request
        if request.thinking_budget is not None:
            request.thinking_budget = self._left(hook.turn, request.thinking_budget)
        elif request.thinking is not None:
            left = self._left(hook.turn, LEVEL_TOKENS[request.thinking])
            fitting: list[ThinkingLevel] = [level for level, tokens in LEVEL_TOKENS.items() if tokens <= left]
            request.thinking = fitting[-1]

    def _left(self, turn: int, base: int) -> int:
        return int(max(0, min(self._decay(turn, base), base)))


def disable_prompt_cache(hook: TurnBefore) -> None:
    """Send neither breakpoints nor cache keys. A handler of `turn:before`."""
    hook.request.cache = False
