"""Whether the options of a run can be what they are. A value that means nothing is told, before anything is done with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast, get_args

from mainspring.errors import ConfigError
from mainspring.loop import Behavior, Settled
from mainspring.models import RetryConfig, ThinkingLevel
from mainspring.policies.budgets import Budget, ToolBudget
from mainspring.policies.compaction import Compaction

_COUNTS = {
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

_AMOUNTS = {
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

_KINDS: dict[str, type] = {"retry": RetryConfig, "session_budget": Budget, "compaction": Compaction}

_PARTS: dict[type, dict[str, tuple[float, float | None]]] = {
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

_DEFAULTS = Settled()


def check_behavior(behavior: Behavior | None) -> None:
    """Check what is set of these options.

    Raises:
        ConfigError: If one has a value that it cannot have; the text has all of them.
    """
    if behavior is None:
        return
    if type(behavior) is not Behavior:
        raise ConfigError(f"behavior is a Behavior(...), not {type(behavior).__name__}")
    settled = behavior.resolved()
    problems = [problem for name in Behavior.__struct_fields__ if (problem := _problem(name, getattr(settled, name)))]
    if problems:
        raise ConfigError(f"behavior: {'; '.join(problems)}")


def _problem(name: str, value: Any) -> str:
    """What is wrong with the value of an option; empty if nothing is."""
    default = getattr(_DEFAULTS, name)
    if value is default or (value is None and (default is None or name in ("retry", "max_output_tokens", "warn_at"))):
        return ""
    if name in _COUNTS:
        least = _COUNTS[name]
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        wanted = f"a whole number from {least} on"
    elif name in _AMOUNTS:
        low, high = _AMOUNTS[name]
        good = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= (high or float("inf"))
        wanted = f"a number from {low} to {high}" if high else f"a number from {low} on"
    elif name in _CHOICES:
        good = value in _CHOICES[name]
        wanted = " or ".join([repr(c) for c in _CHOICES[name]])
    elif name in _KINDS:
        good = isinstance(value, _KINDS[name])
        wanted = f"a {_KINDS[name].__name__}"
    else:
        good, wanted = _shape(name, value)
    return _within(name, value) if good else f"{name} is {value!r:.80}; it can be {wanted}"


def _within(name: str, value: Any) -> str:
    """What is wrong within the value of an option that is made of others."""
    if name == "tool_budgets":
        return next((p for tool, each in value.items() if (p := _within(f"{name}[{tool!r}]", each))), "")
    kind = cast("type[Any]", type(value))
    for part, (low, high) in _PARTS.get(kind, {}).items():
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


def _shape(name: str, value: Any) -> tuple[bool, str]:
    """Whether the value of an option with a shape of its own has it, and which that is."""
    match name:
        case "tool_budgets":
            wanted = "a number of calls, or a ToolBudget, for each tool by its name"
            return _by_name(
                value, lambda each: isinstance(each, ToolBudget) or (type(each) is int and each >= 0)
            ), wanted
        case "dedup_tools":
            return _by_name(value, callable), "a function for each tool by its name"
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


def _by_name(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and fits(each) for key, each in cast("Mapping[Any, Any]", value).items()
    )
