"""How a run behaves: limits, sampling, order of tools. Unset fields fall through: run, then agent, then default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from mainspring.loop.option_types import Budget, CallKeyFunction, Compaction, Compactor, ThinkingDecay, ToolBudget
from mainspring.models import RetryConfig, ThinkingLevel


class RunOptions(Struct, frozen=True, kw_only=True):
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
        max_repairs: How many answers in a row may be unusable (cut off, empty, bad calls) before the run fails. Default 3.
        retry: How failed model calls are tried again; ``None`` is not at all. Default: 3 times from 1 to 10 seconds.
        timeout: Seconds for one model call; ``None`` leaves it to the transport. Default ``None``.
        cache: Whether the provider's prompt cache is steered. Default true.
        schema: What the answer must be: a JSON Schema, or a msgspec, pydantic or dataclass type. Default ``None``: text.
        output_retries: How many answers that do not fit ``schema`` may be followed by another try. Default 2.
        thinking_decay: How reasoning shrinks over a run: see `ThinkingDecay`, or a function of the turn (from 1) and of the
            whole budget in tokens. Clamped to 0 and the whole. Default ``None``.
        session_budget: What all runs of the conversation may spend together, sub-agents included. Default ``None``.
        warn_at: The share of a limit from which on `budget:warning` fires once in a run; ``None``: never. Default 0.8.
        dedup_reads: Whether a file read again, unchanged, comes back as a line that says so. Default true.
        require_read_before_edit: Whether a file must have been read, and must not have changed since, before a tool may
            write to it. Default false.
        elide_stale_reads: Whether what was read of a file that changed since is left out of requests. Default false.
        dedup_tools: Tools of which a call like the one before it gives the same result without being made, each with what
            makes calls alike. Never a tool with side effects. Default: none.
        repeat_hint: After how many turns in a row that brought nothing new the model is told. Default ``None`` (command: 3).
        tool_budgets: How often a tool may be called in a run: a number, or a `ToolBudget`. Default: any number of times.
        tool_output_budget: Bytes of results in one turn from which on the model is told to sum up first. Default ``None``.
        compact_strategy: ``tail`` leaves old, long results of tools out of requests. Default ``off``.
        compact_threshold: Bytes of results in the conversation that ``tail`` lets pass. Default 131072.
        compact_keep_turns: The last turns, whose results ``tail`` never leaves out. Default 4.
        compaction: When and how the conversation is summed up before it reaches the model's window: see `Compaction`. Default
            ``None``: never (the command has it on).
        on_overflow: What happens when the conversation does not fit the model: ``compact`` leaves out and shortens results
            of tools and asks again, once; ``fail`` ends the run; or a `Compactor` of your own. Default ``compact``.
        persist_threshold: Bytes of text from which on a result goes to a file, its preview to the model. Default ``None``.
        persist_dir: The folder for those files, made when needed. Default ``None``: nothing is persisted.
        persist_exclude_tools: Tools whose results stay as they are. Default: none.
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
        """These options, with those of ``base`` where these are unset."""
        return RunOptions(**{n: getattr(base if getattr(self, n) is UNSET else self, n) for n in _NAMES})

    def resolve(self) -> ResolvedRunOptions:
        """All options with a value: what is still unset gets its default."""
        return ResolvedRunOptions(**{n: v for n in _NAMES if (v := getattr(self, n)) is not UNSET})


class ResolvedRunOptions(Struct, frozen=True, kw_only=True):
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
