"""The rarer options of an agent and those of a run, with their types; and whether what an agent is given can be what it is.

A value that cannot be is told in words before anything is done with it: further down it would fail far from where it was written, or
not at all.

Whether the options of a run can be what they are. A value that means nothing is told, before anything is done with it.
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
    """The rarer options of an `Agent`.

    Attributes:
        tool_aliases: By a tool's own name the one under which the model knows it.
        eager: Whether what the first run would get ready is begun now, in the background; see `CoreAgent.warmup`.
        convert: What of the history the model is told.
        transform: What of the history goes into a request.
        extra: Handed to every tool.
    """

    tool_aliases: Mapping[str, str] | None
    eager: bool
    convert: MessageConverter
    transform: ContextTransformer | None
    extra: Mapping[str, Any] | None


class StreamOptions(TypedDict, total=False):
    """What holds for one run only.

    Attributes:
        model: Who is asked.
        system: The system prompt.
        thinking: How much the model reasons.
        behavior: Limits and options, over those of the agent.
        tools: All that the model may call.
        hooks: Handlers, beside those of the agent.
        signal: Set, it stops the run.
    """

    model: ModelProvider | str | None
    system: str | None
    thinking: ThinkingLevel | None
    behavior: Behavior | None
    tools: Iterable[Tool | LazyTool | Callable[..., Any]] | None
    hooks: Hooks | None
    signal: CancelToken | None


class RunOptions(StreamOptions, total=False):
    """The same for `Agent.run`.

    Attributes:
        raise_errors: Whether a failure is raised. If not, the result has it.
    """

    raise_errors: bool


def validate_agent_options(names: Iterable[str], options: AgentOptions, **given: Any) -> None:
    """Check what an agent is given.

    Args:
        names: The options with a parameter of their own.
        options: The rarer ones.
        **given: Values of the others.

    Raises:
        TypeError: If there is no option of a name.
        ConfigError: If a value cannot be what it is.
    """
    if options:
        check_option_names("Agent", options, (*names, *AgentOptions.__optional_keys__))
    _check("Agent", {**given, **options})


def validate_run_options(options: Mapping[str, Any]) -> None:
    """The same for a run.

    Raises:
        TypeError: If there is no option of a name.
        ConfigError: If a value cannot be what it is.
    """
    if options:
        check_option_names("a run", options, RunOptions.__optional_keys__)
        _check("a run", options)


def normalize_tools(given: Iterable[Tool | LazyTool | Callable[..., Any]]) -> list[Tool | LazyTool]:
    """Tools, and functions made into tools.

    Raises:
        ConfigError: If something is neither.
        TypeError: If a function cannot be a tool; the text says why.
    """
    found: list[Tool | LazyTool] = []
    for each in given:
        if isinstance(each, Tool | LazyTool):
            found.append(each)
        elif callable(each):
            found.append(tool(each))
        else:
            raise ConfigError(
                f"tools holds {each!r:.80}, which is no tool; it takes functions and tools themselves, not their names. "
                "Those that come along are in mainspring.tools.builtin"
            )
    return found


def _check(owner: str, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        fits, wanted = _VALIDATORS.get(name, _ANY_VALUE)
        if not fits(value):
            raise ConfigError(f"{name} of {owner} is {value!r:.80}; it can be {wanted}")


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
    """For what may be anybody's own class: whether it is none, or has what is used of it."""
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
    "tools": (_is_optional_list, "a list of tools and functions, as in tools=[read_file]"),
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
    "hooks": (_is_mapping, "a mapping, as in hooks={ToolGate: check}"),
    "messages": (lambda v: isinstance(v, str) or _is_list(v), "a text, or a list of messages"),
    "steps": (_has_attributes("model", "tool", "sleep"), "Steps, as a Tape and durable engines have them"),
    "ledger": (lambda v: v is None or isinstance(v, Ledger), "the ledger of another agent"),
    "tool_aliases": (_is_mapping, "a mapping of a tool's name to another"),
    "eager": (lambda v: isinstance(v, bool), "True or False"),
    "convert": (callable, "a function"),
    "transform": (_is_function, "a function"),
    "extra": (_is_mapping, "a mapping"),
    "signal": (_has_attributes("cancel", "on_cancel"), "a CancelToken"),
    "raise_errors": (lambda v: isinstance(v, bool), "True or False"),
}
"""By option, whether a value can be one, and what one is. An option that is not here is checked where it is taken up."""


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
"""Whole numbers, each with the least that it can be."""


_NUMBER_RANGES = {
    "max_seconds": (0, None),
    "max_cost": (0, None),
    "temperature": (0, 2),
    "abort_grace": (0, None),
    "timeout": (0, None),
    "warn_at": (0, 1),
}
"""Numbers, each with the least and the most that it can be."""


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
"""Numbers within the values of options, each with the least and the most that it can be; ``None`` is none, where it may be left out."""


_DEFAULTS = ResolvedRunOptions()


def validate_behavior(behavior: Behavior | None) -> None:
    """Check what is set of these options.

    Raises:
        ConfigError: If one has a value that it cannot have; the text has all of them.
    """
    if behavior is None:
        return
    if type(behavior) is not Behavior:
        raise ConfigError(f"behavior is a Behavior(...), not {type(behavior).__name__}")
    settled = behavior.resolved()
    problems = [
        problem for name in Behavior.__struct_fields__ if (problem := _find_problem(name, getattr(settled, name)))
    ]
    if problems:
        raise ConfigError(f"behavior: {'; '.join(problems)}")


def _find_problem(name: str, value: Any) -> str:
    """What is wrong with the value of an option; empty if nothing is."""
    default = getattr(_DEFAULTS, name)
    if value is default or (value is None and (default is None or name in ("retry", "max_output_tokens", "warn_at"))):
        return ""
    if name in _INTEGER_MINIMUMS:
        least = _INTEGER_MINIMUMS[name]
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        wanted = f"a whole number from {least} on"
    elif name in _NUMBER_RANGES:
        low, high = _NUMBER_RANGES[name]
        good = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= (high or float("inf"))
        wanted = f"a number from {low} to {high}" if high else f"a number from {low} on"
    elif name in _CHOICES:
        good = value in _CHOICES[name]
        wanted = " or ".join([repr(c) for c in _CHOICES[name]])
    elif name in _STRUCT_TYPES:
        good = isinstance(value, _STRUCT_TYPES[name])
        wanted = f"a {_STRUCT_TYPES[name].__name__}"
    else:
        good, wanted = _check_shape(name, value)
    return _find_nested_problem(name, value) if good else f"{name} is {value!r:.80}; it can be {wanted}"


def _find_nested_problem(name: str, value: Any) -> str:
    """What is wrong within the value of an option that is made of others."""
    if name == "tool_budgets":
        return next((p for tool, each in value.items() if (p := _find_nested_problem(f"{name}[{tool!r}]", each))), "")
    kind = cast("type[Any]", type(value))
    for part, (low, high) in _NESTED_RANGES.get(kind, {}).items():
        given = getattr(value, part)
        if given is None and (kind is Budget or part == "threshold"):
            continue
        number = given if isinstance(given, int | float) and not isinstance(given, bool) else -1
        if not low <= number <= (float("inf") if high is None else high):
            wanted = f"a number from {low} to {high}" if high is not None else f"a number from {low} on"
            return f"{name}: {part} is {given!r:.80}; it can be {wanted}"
    if kind is ToolBudget and value.on_exceed not in ("block", "steer") and not callable(value.on_exceed):
        return f"{name}: on_exceed is {value.on_exceed!r:.80}; it can be 'block' or 'steer', or a function"
    return ""


def _check_shape(name: str, value: Any) -> tuple[bool, str]:
    """Whether the value of an option with a shape of its own has it, and which that is."""
    match name:
        case "tool_budgets":
            wanted = "a number of calls, or a ToolBudget, for each tool by its name"
            return _is_mapping_of(
                value, lambda each: isinstance(each, ToolBudget) or (type(each) is int and each >= 0)
            ), wanted
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
