"""The rarer options of an agent and those of a run, with their types; and whether what an agent is given can be what it is.

A value that cannot be is told in words before anything is done with it: further down it would fail far from where it was written, or
not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from mainspring.errors import ConfigError, refuse_unknown
from mainspring.policies.budgets import Ledger
from mainspring.tools import LazyTool, Tool, tool

if TYPE_CHECKING:
    from mainspring.cancellation import CancelToken
    from mainspring.loop import Behavior, Hooks
    from mainspring.loop.state import Convert, Transform
    from mainspring.mcp import Mcp, McpServerConfig
    from mainspring.models import ModelProvider, ThinkingLevel

    McpServersOption = Mcp | McpServerConfig | Mapping[str, Any] | Iterable[McpServerConfig | Mapping[str, Any]]
    """The plug itself; one server; servers by their names, or a list of them."""


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
    convert: Convert
    transform: Transform | None
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


def check_agent(names: Iterable[str], options: AgentOptions, **given: Any) -> None:
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
        refuse_unknown("Agent", options, (*names, *AgentOptions.__optional_keys__))
    _check("Agent", {**given, **options})


def check_run(options: Mapping[str, Any]) -> None:
    """The same for a run.

    Raises:
        TypeError: If there is no option of a name.
        ConfigError: If a value cannot be what it is.
    """
    if options:
        refuse_unknown("a run", options, RunOptions.__optional_keys__)
        _check("a run", options)


def tools_of(given: Iterable[Tool | LazyTool | Callable[..., Any]]) -> list[Tool | LazyTool]:
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
        fits, wanted = _KINDS.get(name, _ANYTHING)
        if not fits(value):
            raise ConfigError(f"{name} of {owner} is {value!r:.80}; it can be {wanted}")


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _is_optional_list(value: Any) -> bool:
    return value is None or _is_list(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_map(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


def _is_function(value: Any) -> bool:
    return value is None or callable(value)


def _has(*names: str) -> Callable[[Any], bool]:
    """For what may be anybody's own class: whether it is none, or has what is used of it."""
    return lambda value: value is None or (not isinstance(value, type) and all(hasattr(value, n) for n in names))


_ANYTHING: tuple[Callable[[Any], bool], str] = (lambda value: True, "")
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": (lambda v: isinstance(v, str) or _has("stream", "provider")(v), "'provider:model', or a ModelProvider"),
    "provider": (
        lambda v: isinstance(v, str) or _has("stream", "provider")(v),
        "a provider's name, or a ModelProvider",
    ),
    "name": (_is_text, "a text"),
    "system": (lambda v: v is None or isinstance(v, str), "a text"),
    "tools": (_is_optional_list, "a list of tools and functions, as in tools=[read_file]"),
    "execution": (
        lambda v: isinstance(v, str | os.PathLike) or _has("cwd", "realpath")(v),
        "a folder, or an ExecutionEnv such as LocalEnv(...)",
    ),
    "subagents": (
        lambda v: v is None or isinstance(v, bool) or _is_list(v) or _has("install")(v),
        "True, a list of AgentDefinition(...), or Subagents(...)",
    ),
    "extensions": (lambda v: _is_optional_list(v) or _has("install")(v), "a list of functions, or Extensions(...)"),
    "callbacks": (_has("on_agent_start", "on_permission_request"), "AgentCallbacks(...)"),
    "plugs": (_is_list, "a list of plugs"),
    "hooks": (_is_map, "a mapping, as in hooks={ToolGate: check}"),
    "messages": (lambda v: isinstance(v, str) or _is_list(v), "a text, or a list of messages"),
    "steps": (_has("model", "tool", "sleep"), "Steps, as a Tape and durable engines have them"),
    "ledger": (lambda v: v is None or isinstance(v, Ledger), "the ledger of another agent"),
    "tool_aliases": (_is_map, "a mapping of a tool's name to another"),
    "eager": (lambda v: isinstance(v, bool), "True or False"),
    "convert": (callable, "a function"),
    "transform": (_is_function, "a function"),
    "extra": (_is_map, "a mapping"),
    "signal": (_has("cancel", "on_cancel"), "a CancelToken"),
    "raise_errors": (lambda v: isinstance(v, bool), "True or False"),
}
"""By option, whether a value can be one, and what one is. An option that is not here is checked where it is taken up."""
