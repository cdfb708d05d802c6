"""The less common options of an agent and the options of a run, with their types and their validation.

An invalid value is reported before anything runs: later it would fail far from its origin, or have no effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_args

from mainspring.errors import ConfigError, check_option_names
from mainspring.loop import ResolvedRunOptions
from mainspring.loop import RunOptions as Behavior
from mainspring.loop.option_types import Budget, Compaction, ToolBudget
from mainspring.models import RetryConfig, ThinkingLevel
from mainspring.policies.budgets import Ledger
from mainspring.tools import LazyTool, Tool, tool

if TYPE_CHECKING:
    from mainspring.cancellation import CancelToken
    from mainspring.loop import Hooks
    from mainspring.loop.state import ContextTransformer, MessageConverter
    from mainspring.mcp import McpPlug, McpServerConfig
    from mainspring.models import ModelProvider

    McpServersOption = McpPlug | McpServerConfig | Mapping[str, Any] | Iterable[McpServerConfig | Mapping[str, Any]]


class AgentOptions(TypedDict, total=False):
    """The less common options of an `Agent`.

    Attributes:
        tool_aliases: The alias of a tool for the model, by the tool's own name.
        eager: Whether to prepare the first run now, in the background; see `CoreAgent.warmup`.
        convert: Conversion of the history to model messages.
        transform: Transformation of the history for a request.
        extra: Passed to every tool.
    """

    tool_aliases: Mapping[str, str] | None
    eager: bool
    convert: MessageConverter
    transform: ContextTransformer | None
    extra: Mapping[str, Any] | None


class StreamOptions(TypedDict, total=False):
    """Options for one run only.

    Attributes:
        model: The model.
        system: The system prompt.
        thinking: The reasoning effort.
        behavior: Limits and options that override those of the agent.
        tools: The complete list of tools.
        hooks: Handlers in addition to those of the agent.
        signal: Aborts the run when set.
    """

    model: ModelProvider | str | None
    system: str | None
    thinking: ThinkingLevel | None
    behavior: Behavior | None
    tools: Iterable[Tool | LazyTool | Callable[..., Any]] | None
    hooks: Hooks | None
    signal: CancelToken | None


class RunOptions(StreamOptions, total=False):
    """Options of `Agent.run`.

    Attributes:
        raise_errors: Whether to raise a failure. If not, the result contains it.
    """

    raise_errors: bool


def validate_agent_options(names: Iterable[str], options: AgentOptions, **given: Any) -> None:
    """Validate the options of an agent.

    Args:
        names: The options with a separate parameter.
        options: The other options.
        **given: Values of the options in ``names``.

    Raises:
        TypeError: If an option is unknown.
        ConfigError: If a value is invalid.
    """
    if options:
        check_option_names("Agent", options, (*names, *AgentOptions.__optional_keys__))
    _validate("Agent", {**given, **options})


def validate_run_options(options: Mapping[str, Any]) -> None:
    """Validate the options of a run.

    Raises:
        TypeError: If an option is unknown.
        ConfigError: If a value is invalid.
    """
    if options:
        check_option_names("a run", options, RunOptions.__optional_keys__)
        _validate("a run", options)


def normalize_tools(given: Iterable[Tool | LazyTool | Callable[..., Any]]) -> list[Tool | LazyTool]:
    """Convert functions to tools and return all tools.

    Raises:
        ConfigError: If a value is neither.
        TypeError: If a function cannot be a tool; the text contains the reason.
    """
    found: list[Tool | LazyTool] = []
    for each in given:
        if isinstance(each, Tool | LazyTool):
            found.append(each)
        elif callable(each):
            found.append(tool(each))
        else:
            raise ConfigError(
                f"tools contains {each!r:.80}, which is not a tool. Pass functions and tools themselves, not their names. "
                "The built-in tools are in mainspring.tools.builtin."
            )
    return found


def _validate(owner: str, mapping: Mapping[str, Any]) -> None:
    for name, value in mapping.items():
        fits, requested = _VALIDATORS.get(name, _ANY_VALUE)
        if not fits(value):
            raise ConfigError(f"{name} of {owner} must be {requested}, not {value!r:.80}.")


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _is_optional_list(value: Any) -> bool:
    return value is None or _is_list(value)


def _is_str(value: Any) -> bool:
    return isinstance(value, str)


def _is_mapping(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


def _is_function(value: Any) -> bool:
    return value is None or callable(value)


def _has_attributes(*names: str) -> Callable[[Any], bool]:
    """Create a check for values of any class: None, or an object with the attributes that are used."""
    return lambda value: value is None or (not isinstance(value, type) and all(hasattr(value, n) for n in names))


_ANY_VALUE: tuple[Callable[[Any], bool], str] = (lambda value: True, "")
_VALIDATORS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": (
        lambda v: isinstance(v, str) or _has_attributes("stream", "provider")(v),
        "'provider:model', or a ModelProvider",
    ),
    "provider": (
        lambda v: isinstance(v, str) or _has_attributes("stream", "provider")(v),
        "a provider's name, or a ModelProvider",
    ),
    "name": (_is_str, "a text"),
    "system": (lambda v: v is None or isinstance(v, str), "a text"),
    "tools": (_is_optional_list, "a list of tools and functions, for example tools=[read_file]"),
    "execution": (
        lambda v: isinstance(v, str | os.PathLike) or _has_attributes("cwd", "realpath")(v),
        "a folder, or an ExecutionEnv such as LocalEnv(...)",
    ),
    "subagents": (
        lambda v: v is None or isinstance(v, bool) or _is_list(v) or _has_attributes("install")(v),
        "True, a list of AgentDefinition(...), or Subagents(...)",
    ),
    "extensions": (
        lambda v: _is_optional_list(v) or _has_attributes("install")(v),
        "a list of functions, or Extensions(...)",
    ),
    "callbacks": (_has_attributes("on_agent_start", "on_permission_request"), "AgentCallbacks(...)"),
    "plugs": (_is_list, "a list of plugs"),
    "hooks": (_is_mapping, "a mapping, for example hooks={ToolGate: check}"),
    "messages": (lambda v: isinstance(v, str) or _is_list(v), "a text, or a list of messages"),
    "steps": (_has_attributes("model", "tool", "sleep"), "Steps, as provided by a Tape or a durable engine"),
    "ledger": (lambda v: v is None or isinstance(v, Ledger), "the ledger of another agent"),
    "tool_aliases": (_is_mapping, "a mapping of tool names to aliases"),
    "eager": (lambda v: isinstance(v, bool), "True or False"),
    "convert": (callable, "a function"),
    "transform": (_is_function, "a function"),
    "extra": (_is_mapping, "a mapping"),
    "signal": (_has_attributes("cancel", "on_cancel"), "a CancelToken"),
    "raise_errors": (lambda v: isinstance(v, bool), "True or False"),
}
"""Checks and descriptions of valid values by option. Other options are checked where they are used."""


_INTEGER_MINIMUMS = {
    "max_turns": 0,
    "max_total_tokens": 0,
    "max_output_tokens": 1,
    "thinking_budget": 0,
    "tool_concurrency": 1,
    "max_repairs": 0,
    "output_retries": 0,
    "repeat_hint": 1,
    "tool_output_budget": 0,
    "compact_threshold": 0,
    "compact_keep_turns": 0,
    "persist_threshold": 0,
}
"""Integer options with their minimum."""


_NUMBER_RANGES = {
    "max_seconds": (0, None),
    "max_cost": (0, None),
    "temperature": (0, 2),
    "abort_grace": (0, None),
    "timeout": (0, None),
    "warn_at": (0, 1),
}
"""Number options with their minimum and maximum."""


_CHOICES: dict[str, tuple[Any, ...]] = {
    "tool_execution": ("parallel", "sequential"),
    "steering": ("one", "all"),
    "thinking": (None, *get_args(ThinkingLevel)),
    "compact_strategy": ("off", "tail"),
}


_STRUCT_TYPES: dict[str, type] = {"retry": RetryConfig, "session_budget": Budget, "compaction": Compaction}


_NESTED_RANGES: dict[type, dict[str, tuple[float, float | None]]] = {
    RetryConfig: {
        "max_retries": (0, None),
        "base_delay_ms": (0, None),
        "max_delay_ms": (0, None),
        "jitter": (0, 1),
        "max_retry_after": (0, None),
    },
    Budget: {"max_cost": (0, None), "max_total_tokens": (0, None), "max_turns": (0, None), "max_seconds": (0, None)},
    Compaction: {"reserve": (0, None), "keep_recent": (0, None), "threshold": (0, None), "keep_important": (0, None)},
    ToolBudget: {"max": (0, None)},
}
"""Numbers within the values of options, with their minimum and maximum; ``None`` is allowed for optional ones."""


_DEFAULTS = ResolvedRunOptions()


def validate_behavior(behavior: Behavior | None) -> None:
    """Validate the options that are set.

    Raises:
        ConfigError: If any have invalid values; the text lists all of them.
    """
    if behavior is None:
        return
    if type(behavior) is not Behavior:
        raise ConfigError(f"behavior must be a Behavior(...), not {type(behavior).__name__}")
    settled = behavior.resolve()
    problems = [
        problem for name in Behavior.__struct_fields__ if (problem := _find_problem(name, getattr(settled, name)))
    ]
    if problems:
        raise ConfigError(f"behavior: {'; '.join(problems)}.")


def _find_problem(name: str, value: Any) -> str:
    """Return the problem with the value of an option; empty if it is valid."""
    default = getattr(_DEFAULTS, name)
    if value is default or (value is None and (default is None or name in ("retry", "max_output_tokens", "warn_at"))):
        return ""
    if name in _INTEGER_MINIMUMS:
        minimum = _INTEGER_MINIMUMS[name]
        good = isinstance(value, int) and not isinstance(value, bool) and value >= minimum
        requested = f"a whole number of at least {minimum}"
    elif name in _NUMBER_RANGES:
        low, high = _NUMBER_RANGES[name]
        good = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= (high or float("inf"))
        requested = f"a number from {low} to {high}" if high else f"a number of at least {low}"
    elif name in _CHOICES:
        good = value in _CHOICES[name]
        requested = " or ".join([repr(c) for c in _CHOICES[name]])
    elif name in _STRUCT_TYPES:
        good = isinstance(value, _STRUCT_TYPES[name])
        requested = f"a {_STRUCT_TYPES[name].__name__}"
    else:
        good, requested = _check_shape(name, value)
    return _find_nested_problem(name, value) if good else f"{name} must be {requested}, not {value!r:.80}"


def _find_nested_problem(name: str, value: Any) -> str:
    """Return the problem within the value of a composite option."""
    if name == "tool_budgets":
        return next((p for tool, each in value.items() if (p := _find_nested_problem(f"{name}[{tool!r}]", each))), "")
    kind = cast("type[Any]", type(value))
    for part, (low, high) in _NESTED_RANGES.get(kind, {}).items():
        given = getattr(value, part)
        if given is None and (kind is Budget or part == "threshold"):
            continue
        number = given if isinstance(given, int | float) and not isinstance(given, bool) else -1
        if not low <= number <= (float("inf") if high is None else high):
            requested = f"a number from {low} to {high}" if high is not None else f"a number of at least {low}"
            return f"{name}: {part} must be {requested}, not {given!r:.80}"
    if kind is ToolBudget and value.on_exceed not in ("block", "steer") and not callable(value.on_exceed):
        return f"{name}: on_exceed must be 'block' or 'steer', or a function, not {value.on_exceed!r:.80}"
    return ""


def _check_shape(name: str, value: Any) -> tuple[bool, str]:
    """Return the expected form of an option if its value does not have it."""
    match name:
        case "tool_budgets":
            requested = "a number of calls, or a ToolBudget, for each tool by its name"
            return _is_mapping_of(
                value, lambda each: isinstance(each, ToolBudget) or (type(each) is int and each >= 0)
            ), requested
        case "dedup_tools":
            return _is_mapping_of(value, callable), "a function for each tool by its name"
        case "persist_dir":
            return isinstance(value, str | os.PathLike), "the path of a folder"
        case "persist_exclude_tools":
            return isinstance(value, Collection) and not isinstance(value, str | bytes), "the names of tools in a tuple"
        case "on_overflow":
            return value in ("compact", "fail") or hasattr(value, "compact"), "'compact' or 'fail', or a Compactor"
        case "thinking_decay":
            return callable(value), "a ThinkingDecay, or a function of turn and budget"
        case _:
            return True, ""


def _is_mapping_of(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and fits(each) for key, each in cast("Mapping[Any, Any]", value).items()
    )
