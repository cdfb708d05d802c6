"""How a run behaves: limits, sampling, order of tools. Unset fields fall through: run, then agent, then default."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from mainspring.models import RetryConfig, ThinkingLevel


class Behavior(Struct, frozen=True, kw_only=True):
    """Options of a run. A field left out keeps what the agent, or else the default, says.

    Attributes:
        max_turns: Most model calls of a run; ``None`` is no limit. Default ``None`` (the command sets 50).
        max_total_tokens: Most tokens, prompt and answer of all calls together. Default ``None``.
        max_seconds: Most seconds of wall time. Default ``None``.
        max_cost: Most US dollars; a call whose price is unknown counts nothing. Default ``None``.
        max_output_tokens: Cap of one answer, clamped to the model's. Default 16384.
        temperature: 0 to 2; ``None`` leaves it to the provider. Default ``None``.
        thinking: How much to reason; ``None`` leaves it to the provider. Default ``None``.
        thinking_budget: Exact number of reasoning tokens. Default ``None``.
        tool_execution: ``parallel``: calls of one answer are checked in order and those that allow it run together;
            ``sequential``: one after the other, with abort and steering seen in between. Default ``parallel``.
        tool_concurrency: Most calls that run together. Default 16.
        steering: Whether waiting messages are taken one at a time or all at once. Default ``one``.
        abort_grace: Seconds that a tool gets to end after an abort before it is abandoned. Default 2.
        max_repairs: How many answers in a row may be unusable (cut off, empty, calls that cannot be run) before the run
            fails. Default 3.
        retry: How failed model calls are tried again; ``None`` is not at all. Default: 3 times from 1 to 10 seconds.
        timeout: Seconds for one model call; ``None`` leaves it to the transport. Default ``None``.
    """

    max_turns: int | None | UnsetType = UNSET
    max_total_tokens: int | None | UnsetType = UNSET
    max_seconds: float | None | UnsetType = UNSET
    max_cost: float | None | UnsetType = UNSET
    max_output_tokens: int | None | UnsetType = UNSET
    temperature: float | None | UnsetType = UNSET
    thinking: ThinkingLevel | None | UnsetType = UNSET
    thinking_budget: int | None | UnsetType = UNSET
    tool_execution: Literal["parallel", "sequential"] | UnsetType = UNSET
    tool_concurrency: int | UnsetType = UNSET
    steering: Literal["one", "all"] | UnsetType = UNSET
    abort_grace: float | UnsetType = UNSET
    max_repairs: int | UnsetType = UNSET
    retry: RetryConfig | None | UnsetType = UNSET
    timeout: float | None | UnsetType = UNSET

    def over(self, base: Behavior) -> Behavior:
        """These options, with those of ``base`` where these are unset."""
        return Behavior(**{n: getattr(base if getattr(self, n) is UNSET else self, n) for n in _NAMES})

    def resolved(self) -> Settled:
        """All options with a value: what is still unset gets its default."""
        return Settled(**{n: v for n in _NAMES if (v := getattr(self, n)) is not UNSET})


class Settled(Struct, frozen=True, kw_only=True):
    """The options of `Behavior`, each with its value."""

    max_turns: int | None = None
    max_total_tokens: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None
    max_output_tokens: int | None = 16384
    temperature: float | None = None
    thinking: ThinkingLevel | None = None
    thinking_budget: int | None = None
    tool_execution: Literal["parallel", "sequential"] = "parallel"
    tool_concurrency: int = 16
    steering: Literal["one", "all"] = "one"
    abort_grace: float = 2.0
    max_repairs: int = 3
    retry: RetryConfig | None = RetryConfig()
    timeout: float | None = None


_NAMES = Behavior.__struct_fields__
