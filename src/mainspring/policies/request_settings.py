"""Settings of each request: sampling, less reasoning in later turns, and the switch for the provider's prompt cache.

The first turns of a run plan; later turns mostly execute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from mainspring.lazy import lazy_function
from mainspring.loop.hooks import TurnBefore
from mainspring.loop.policy import ORDER_REQUEST_DEFAULTS, PolicyContext, PolicyHandlers
from mainspring.options import AgentSetting, Options, is_named_mapping, option

if TYPE_CHECKING:
    from mainspring.models import ModelRequest, ThinkingLevel

_create_sampling_policy: Callable[[Options, PolicyContext], Callable[[TurnBefore], None]] = lazy_function(
    "mainspring.policies.sampling", "create_sampling_policy"
)


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


def _is_flag(value: object) -> bool:
    return value is None or isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(each, str) for each in cast("Sequence[object]", value))


class SamplingOptions(Options, page="run-options.md#sampling"):
    """Options of each request that only some protocols and hosts support."""

    top_p: float | None = option(
        default=None,
        ge=0,
        le=1,
        doc="Probability mass of the tokens to choose from, 0 to 1.",
        setting=AgentSetting(untrusted="any"),
    )
    top_k: int | None = option(
        default=None, ge=1, doc="Number of tokens to choose from.", setting=AgentSetting(untrusted="any")
    )
    seed: int | None = option(
        default=None, ge=0, doc="Seed of the random choice.", setting=AgentSetting(untrusted="any")
    )
    presence_penalty: float | None = option(
        default=None,
        ge=-2,
        le=2,
        doc="Penalty of tokens that occurred, -2 to 2.",
        setting=AgentSetting(untrusted="any"),
    )
    frequency_penalty: float | None = option(
        default=None,
        ge=-2,
        le=2,
        doc="Penalty of tokens by how often they occurred, -2 to 2.",
        setting=AgentSetting(untrusted="any"),
    )
    stop: Sequence[str] = option(
        default=(), doc="Texts that end a response.", check=(_is_texts, "a list of texts"), inherited=False
    )
    tool_choice: str = option(
        default="auto",
        doc="`auto`; `none`: no calls; `required`, or the name of a tool: the first response of a run is a call.",
        check=(lambda value: isinstance(value, str) and bool(value), "auto, none, required, or the name of a tool"),
        inherited=False,
    )
    parallel_tool_calls: bool | None = option(
        default=None,
        doc="Whether a response may contain several tool calls.",
        check=(_is_flag, "True or False"),
        setting=AgentSetting(untrusted="any"),
    )
    extra_body: Mapping[str, Any] | None = option(
        default=None,
        doc="Further fields of the request's body, as the host documents them.",
        check=(lambda value: value is None or is_named_mapping(value, lambda _: True), "a mapping of field names"),
        inherited=False,
    )


def sampling_handlers(options: SamplingOptions, run: PolicyContext) -> PolicyHandlers:
    """Return the handler that sets the sampling options of requests; none if no option is set."""
    if any(name in SamplingOptions.declared or name == "temperature" for name in options.given):
        yield ORDER_REQUEST_DEFAULTS, {TurnBefore: _create_sampling_policy(options, run)}


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
