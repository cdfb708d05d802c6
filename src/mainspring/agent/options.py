"""The less common options of an agent and the options of a run, with their types and their validation.

An invalid value is reported before anything runs: later it would fail far from its origin, or have no effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from mainspring.errors import ConfigError, check_option_names
from mainspring.loop import LoopOptions
from mainspring.models import ThinkingLevel
from mainspring.policies.budgets import Ledger
from mainspring.run_options import RunOptions as Behavior
from mainspring.tools import LazyTool, Tool, tool

if TYPE_CHECKING:
    from mainspring.cancellation import CancelToken
    from mainspring.loop import Hooks
    from mainspring.loop.state import ContextTransformer, MessageConverter
    from mainspring.loop.steps import QueueReader
    from mainspring.mcp import McpPlug, McpServerConfig
    from mainspring.models import ModelProvider
    from mainspring.models.auth.credentials import ApiKeyProvider

    McpServersOption = McpPlug | McpServerConfig | Mapping[str, Any] | Iterable[McpServerConfig | Mapping[str, Any]]


class AgentOptions(TypedDict, total=False):
    """The less common options of an `Agent`.

    Attributes:
        tool_aliases: The alias of a tool for the model, by the tool's own name.
        eager: Whether to prepare the first run now, in the background; see `CoreAgent.warmup`.
        convert: Conversion of the history to model messages.
        transform: Transformation of the history for a request.
        get_steering: Returns messages to inject at the next tool boundary, in addition to those of `Agent.steer`.
        get_follow_up: Returns messages to inject when a run would stop, in addition to those of `Agent.follow_up`.
        extra: Passed to every tool.
        get_api_key: Returns the API key of a provider by name, for each request; ``None`` leaves the key of the model.
    """

    tool_aliases: Mapping[str, str] | None
    eager: bool
    convert: MessageConverter
    transform: ContextTransformer | None
    get_steering: QueueReader | None
    get_follow_up: QueueReader | None
    extra: Mapping[str, Any] | None
    get_api_key: ApiKeyProvider | None


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
    "get_steering": (_is_function, "a function"),
    "get_follow_up": (_is_function, "a function"),
    "get_api_key": (_is_function, "a function"),
    "signal": (_has_attributes("cancel", "on_cancel"), "a CancelToken"),
    "raise_errors": (lambda v: isinstance(v, bool), "True or False"),
}
"""Checks and descriptions of valid values by option. Other options are checked where they are used."""


def validate_behavior(behavior: LoopOptions | None) -> Behavior | None:
    """Validate the options that are set, and return them.

    Raises:
        ConfigError: If any have invalid values; the text lists all of them.
    """
    if behavior is None:
        return None
    if not isinstance(behavior, Behavior):
        raise ConfigError(f"behavior must be a Behavior(...), not {type(behavior).__name__}")
    if problems := behavior.find_problems():
        raise ConfigError(f"behavior: {'; '.join(problems)}.")
    return behavior
