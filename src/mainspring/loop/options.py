"""Options of a run: limits, sampling, and tool execution.

An unset option falls back to the agent, then to its default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from mainspring.loop.option_types import Budget, CallKeyFunction, Compaction, Compactor, ThinkingDecay, ToolBudget
from mainspring.models import RetryConfig, ThinkingLevel


class RunOptions(Struct, frozen=True, kw_only=True):
    """Options of a run.

    An option that is not set falls back to that of the agent, then to its default.

    Attributes:
        max_turns: Maximum number of model calls of a run; ``None``: no limit. Default ``None`` (the command sets 50).
        max_total_tokens: Maximum number of tokens, input and output of all calls together. Default ``None``.
        max_seconds: Maximum duration in seconds. Default ``None``.
        max_cost: Maximum cost in US dollars; calls without a known price cost nothing. Default ``None``.
        max_output_tokens: Maximum number of tokens of one response, clamped to the model's. Default 16384.
        temperature: 0 to 2; ``None``: the provider's default. Default ``None``.
        thinking: Reasoning effort; ``None``: the provider's default. Default ``None``.
        thinking_budget: Exact number of reasoning tokens. Default ``None``.
        tool_execution: ``parallel``: check the calls of a response in order, then run together those that allow it;
            ``sequential``: run one after the other, with aborts and steering in between. Default ``parallel``.
        tool_concurrency: Maximum number of calls that run together. Default 16.
        steering: Whether a run takes queued messages one at a time or all together. Default ``one``.
        abort_grace: Seconds that a tool has to end after an abort before it is abandoned. Default 2.
        max_repairs: Maximum number of invalid responses in a row (cut off, empty, invalid calls). Default 3.
        retry: How failed model calls are retried; ``None``: never. Default: 3 times after 1 to 10 seconds.
        timeout: Timeout of one model call in seconds; ``None``: that of the transport. Default ``None``.
        cache: Whether to control the provider's prompt cache. Default true.
        schema: The structured output: a JSON Schema, or a msgspec, pydantic, or dataclass type. Default ``None``: text.
        output_retries: Maximum number of retries of an output that does not match ``schema``. Default 2.
        thinking_decay: How reasoning decreases during a run: a `ThinkingDecay`, or a function of the turn (from 1) and the
            whole budget in tokens. Clamped to 0 and the whole. Default ``None``.
        session_budget: Budget of all runs of the conversation together, subagents included. Default ``None``.
        warn_at: Share of a limit at which `budget:warning` fires once in a run; ``None``: never. Default 0.8.
        dedup_reads: Whether a second read of an unchanged file returns a note instead of the content. Default true.
        require_read_before_edit: Whether a tool may write to a file only after it was read, and unchanged since. Default
            false.
        elide_stale_reads: Whether requests leave out the content of files that have changed since. Default false.
        dedup_tools: Tools whose repeated call returns the previous result without running, each with its key of equal
            calls. Never a tool with side effects. Default: none.
        repeat_hint: Number of turns in a row without anything new before the model gets a hint. Default ``None`` (command: 3).
        tool_budgets: Maximum number of calls of a tool in a run: a number, or a `ToolBudget`. Default: no limit.
        tool_output_budget: Bytes of results in one turn from which on the model must summarize first. Default ``None``.
        compact_strategy: ``tail`` leaves old, long tool results out of requests. Default ``off``.
        compact_threshold: Bytes of results in the conversation that ``tail`` allows. Default 131072.
        compact_keep_turns: Number of last turns whose results ``tail`` never leaves out. Default 4.
        compaction: When and how to compact the conversation before it reaches the model's window: a `Compaction`. Default
            ``None``: never (the command turns it on).
        on_overflow: What happens when the conversation is too long for the model: ``compact`` shortens tool results and calls
            the model again, once; ``fail`` fails the run; or a `Compactor` of your own. Default ``compact``.
        persist_threshold: Bytes of text from which on a result is stored in a file and the model gets a preview. Default
            ``None``.
        persist_dir: Folder of those files, created when needed. Default ``None``: nothing is stored.
        persist_exclude_tools: Tools whose results are never stored. Default: none.
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
    cache: bool | UnsetType = UNSET
    schema: Any = UNSET
    output_retries: int | UnsetType = UNSET
    thinking_decay: ThinkingDecay | Callable[[int, int], float] | None | UnsetType = UNSET
    session_budget: Budget | None | UnsetType = UNSET
    warn_at: float | None | UnsetType = UNSET
    dedup_reads: bool | UnsetType = UNSET
    require_read_before_edit: bool | UnsetType = UNSET
    elide_stale_reads: bool | UnsetType = UNSET
    dedup_tools: Mapping[str, CallKeyFunction] | UnsetType = UNSET
    repeat_hint: int | None | UnsetType = UNSET
    tool_budgets: Mapping[str, int | ToolBudget] | UnsetType = UNSET
    tool_output_budget: int | None | UnsetType = UNSET
    compact_strategy: Literal["off", "tail"] | UnsetType = UNSET
    compact_threshold: int | UnsetType = UNSET
    compact_keep_turns: int | UnsetType = UNSET
    compaction: Compaction | None | UnsetType = UNSET
    on_overflow: Literal["compact", "fail"] | Compactor | UnsetType = UNSET
    persist_threshold: int | None | UnsetType = UNSET
    persist_dir: str | None | UnsetType = UNSET
    persist_exclude_tools: tuple[str, ...] | UnsetType = UNSET

    def merged_with(self, base: RunOptions) -> RunOptions:
        """Return these options, and those of ``base`` where these are not set."""
        return RunOptions(**{n: getattr(base if getattr(self, n) is UNSET else self, n) for n in _NAMES})

    def resolve(self) -> ResolvedRunOptions:
        """Return all options with a value: those that are not set get their default."""
        return ResolvedRunOptions(**{n: v for n in _NAMES if (v := getattr(self, n)) is not UNSET})


class ResolvedRunOptions(Struct, frozen=True, kw_only=True):
    """All options of a run, each with its value."""

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
    cache: bool = True
    schema: Any = None
    output_retries: int = 2
    thinking_decay: ThinkingDecay | Callable[[int, int], float] | None = None
    session_budget: Budget | None = None
    warn_at: float | None = 0.8
    dedup_reads: bool = True
    require_read_before_edit: bool = False
    elide_stale_reads: bool = False
    dedup_tools: Mapping[str, CallKeyFunction] = {}
    repeat_hint: int | None = None
    tool_budgets: Mapping[str, int | ToolBudget] = {}
    tool_output_budget: int | None = None
    compact_strategy: Literal["off", "tail"] = "off"
    compact_threshold: int = 131_072
    compact_keep_turns: int = 4
    compaction: Compaction | None = None
    on_overflow: Literal["compact", "fail"] | Compactor = "compact"
    persist_threshold: int | None = None
    persist_dir: str | None = None
    persist_exclude_tools: tuple[str, ...] = ()


_NAMES = RunOptions.__struct_fields__
