"""Settings of each request: less reasoning in later turns, and the switch for the provider's prompt cache.

The first turns of a run plan; later turns mostly execute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.loop.hooks import TurnBefore
from mainspring.loop.policy import ORDER_REQUEST_DEFAULTS, PolicyContext, PolicyHandlers
from mainspring.options import Options, option

if TYPE_CHECKING:
    from mainspring.models import ModelRequest, ThinkingLevel


class ThinkingDecay(Struct, frozen=True):
    """The whole reasoning budget up to turn ``after_turn``, then ``factor`` times that of the previous turn.

    Attributes:
        after_turn: The last turn of a run, from 1, with the whole budget.
        factor: The factor for each later turn. Default 0.5.
        floor: Minimum number of tokens. Default 0.
    """

    after_turn: int
    factor: float = 0.5
    floor: int = 0

    def __call__(self, turn: int, base: int) -> float:
        """Return the budget of a turn for the whole budget ``base``.

        It may be outside 0 to ``base``.
        """
        late = max(0, turn - self.after_turn)
        return base if not late else max(base * self.factor**late, self.floor)


class RequestOptions(Options, page="run-options.md#reasoning"):
    """Options of each request."""

    thinking_decay: ThinkingDecay | Callable[[int, int], float] | None = option(
        default=None,
        doc="How reasoning decreases during a run: a `ThinkingDecay`, or a function of the turn (from 1) and the whole budget "
        "in tokens. Clamped to 0 and the whole.",
        check=(callable, "a ThinkingDecay, or a function of turn and budget"),
    )
    cache: bool = option(default=True, doc="Whether to control the provider's prompt cache.")


def request_handlers(options: RequestOptions, run: PolicyContext) -> PolicyHandlers:
    """Return the handlers for the settings of requests."""
    if options.thinking_decay is not None:
        yield ORDER_REQUEST_DEFAULTS, {TurnBefore: ThinkingDecayPolicy(options.thinking_decay).before}
    if not options.cache:
        yield ORDER_REQUEST_DEFAULTS, {TurnBefore: disable_prompt_cache}


LEVEL_TOKENS: dict[ThinkingLevel, int] = {
    "off": 0,
    "minimal": 1024,
    "low": 4096,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
}
"""Tokens of each level for the decay: 1024 is the minimum of Anthropic, and each further level about doubles."""


class ThinkingDecayPolicy:
    """Sets the reasoning effort of each request before all other handlers.

    An exact budget shrinks to the token. A level becomes the highest level whose tokens (`LEVEL_TOKENS`) still fit, so that it
    works with providers that accept levels only. If neither is set, the provider decides and nothing changes.

    Args:
        decay: The rule: a function of the run's turn (from 1) and of the whole budget in tokens.
    """

    def __init__(self, decay: Callable[[int, int], float]) -> None:
        self._decay = decay

    def before(self, hook: TurnBefore) -> None:
        """Handle `turn:before`."""
        request: ModelRequest = hook.request
        if request.thinking_budget is not None:
            request.thinking_budget = self._remaining_budget(hook.turn, request.thinking_budget)
        elif request.thinking is not None:
            remaining = self._remaining_budget(hook.turn, LEVEL_TOKENS[request.thinking])
            fitting: list[ThinkingLevel] = [level for level, tokens in LEVEL_TOKENS.items() if tokens <= remaining]
            request.thinking = fitting[-1]

    def _remaining_budget(self, turn: int, base: int) -> int:
        return int(max(0, min(self._decay(turn, base), base)))


def disable_prompt_cache(hook: TurnBefore) -> None:
    """Send neither breakpoints nor cache keys. A handler of `turn:before`."""
    hook.request.cache = False
