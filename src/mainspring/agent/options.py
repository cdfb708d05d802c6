"""The less common options of an agent and the options of a run, with their types and their validation.

An invalid value is reported before anything runs: later it would fail far from its origin, or have no effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, cast

from mainspring.errors import ConfigError, ProviderConfigError, check_option_names
from mainspring.lazy import lazy_class, lazy_function
from mainspring.loop import CoreAgent, LoopOptions
from mainspring.models import ModelProvider, ProviderConfig, ThinkingLevel, create_model, default_registry
from mainspring.models.auth.credentials import ApiKeyProvider, bind_provider
from mainspring.policies.budgets import Ledger
from mainspring.run_options import RunOptions as Behavior
from mainspring.text import find_closest
from mainspring.tools import LazyTool, Tool
from mainspring.tools.define import to_tool

if TYPE_CHECKING:  # a caller that passes one has imported it
    from mainspring.callbacks import AgentCallbacks
    from mainspring.cancellation import CancelToken
    from mainspring.env import ExecutionEnv
    from mainspring.extensions import Extension, Extensions
    from mainspring.loop import Hooks, Plugin, Steps
    from mainspring.loop.state import ContextTransformer, MessageConverter
    from mainspring.loop.steps import QueueReader
    from mainspring.mcp import McpConnector, McpPlug, McpServerConfig
    from mainspring.memory import Memory
    from mainspring.messages import AgentMessage
    from mainspring.permissions import Permissions
    from mainspring.policies.disclosure import Disclosure, LoadMode
    from mainspring.sessions import Session
    from mainspring.skills import Skill, SkillsConfig, SkillsPlug
    from mainspring.subagents import AgentDefinition, Subagents
    from mainspring.tools.toolset import Toolset, ToolSource

    SkillsOption = SkillsPlug | SkillsConfig | str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Skill]
    DisclosureOption = Disclosure | LoadMode
    SubagentsOption = Subagents | Iterable[AgentDefinition] | bool
    McpServersOption = McpPlug | McpServerConfig | Mapping[str, Any] | Iterable[McpServerConfig | Mapping[str, Any]]
else:
    Toolset = lazy_class("mainspring.tools.toolset", "Toolset")


class AgentOptions(TypedDict, total=False):
    """Options of an `Agent`.

    Attributes:
        provider: Name of the provider, if ``model`` is only a model ID; or the `ModelProvider` itself.
        name: Name of the agent.
        behavior: Limits and options for all runs.
        execution: Environment of the tools: an `ExecutionEnv`, or a folder. Default: the current folder.
        session: Storage of the conversation. Default: only in memory.
        permissions: Permissions of the tools. Without them every call is allowed.
        memory: Memory of earlier conversations, read-only or writable; see `Memory`.
        skills: Skills that it can activate when a task needs them: folders of them, a `SkillsConfig`, or `Skills` with further
            options.
        tool_disclosure: Whether the model gets tools of MCP servers immediately (``eager``) or by name, until it searches for them
            (``lazy``); or a `Disclosure` with further options. A server's own setting takes precedence. Default: eager.
        mcp_servers: Servers of the Model Context Protocol whose tools it gets: a list of configurations, a mapping by name, or `Mcp`
            with further options.
        mcp_connector: Replacement for the official MCP SDK; for tests.
        subagents: Whether it may start subagents; or which kinds, or a `Subagents` with further options. Default: none.
        extensions: Functions that extend it, or an `Extensions` with further options.
        callbacks: Functions that are notified of its actions.
        plugs: Further plugins, after those of the options.
        hooks: Handlers for the agent's lifetime, by hook.
        messages: Initial history.
        steps: Side effects of runs; for durable engines, recording, and tests.
        ledger: A `Ledger` that agents share, or the `ledger` of another agent: spending is added to it, too, and its limit applies.
        tool_aliases: The alias of a tool for the model, by the tool's own name.
        eager: Whether to prepare the first run now, in the background; see `CoreAgent.warmup`.
        convert: Conversion of the history to model messages.
        transform: Transformation of the history for a request.
        get_steering: Returns messages to inject at the next tool boundary, in addition to those of `Agent.steer`.
        get_follow_up: Returns messages to inject when a run would stop, in addition to those of `Agent.follow_up`.
        extra: Passed to every tool.
        get_api_key: Returns the API key of a provider by name, for each request; ``None`` leaves the key of the model.
    """

    provider: ModelProvider | str | None
    name: str
    behavior: Behavior | None
    execution: ExecutionEnv | str | os.PathLike[str] | None
    session: Session | None
    permissions: Permissions | None
    memory: Memory | None
    skills: SkillsOption | None
    mcp_servers: McpServersOption | None
    mcp_connector: McpConnector | None
    tool_disclosure: DisclosureOption | None
    subagents: SubagentsOption | None
    extensions: Extensions | Iterable[Extension] | None
    callbacks: AgentCallbacks | None
    plugs: Iterable[Plugin]
    hooks: Hooks | None
    messages: str | Iterable[AgentMessage]
    steps: Steps | None
    ledger: Ledger | None
    tool_aliases: Mapping[str, str] | None
    eager: bool
    convert: MessageConverter
    transform: ContextTransformer | None
    get_steering: QueueReader | None
    get_follow_up: QueueReader | None
    extra: Mapping[str, Any] | None
    get_api_key: ApiKeyProvider | None


class ConversationOptions(TypedDict, total=False):
    """Options of `Agent.conversation`.

    Attributes:
        session: Storage of the conversation, with its earlier messages. Default: only in memory.
        history: Earlier messages, for example from `decode_messages`.
        ledger: A `Ledger` that conversations share: spending is added to it, too, and its limit applies.
        plugs: Further plugins for this conversation only.
    """

    session: Session | None
    history: str | Iterable[AgentMessage]
    ledger: Ledger | None
    plugs: Iterable[Plugin]


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
    tools: Iterable[ToolSource] | None
    hooks: Hooks | None
    signal: CancelToken | None


class RunOptions(StreamOptions, total=False):
    """Options of `Agent.run`.

    Attributes:
        raise_errors: Whether to raise a failure. If not, the result contains it.
    """

    raise_errors: bool


def validate_agent_options(options: AgentOptions, **given: Any) -> None:
    """Validate the options of an agent.

    Args:
        options: The options.
        **given: Values of options with a separate parameter, or that replace those in ``options``.

    Raises:
        TypeError: If an option is unknown.
        ConfigError: If a value is invalid.
    """
    names = ("model", "deps_type", "output_type", "system", "tools", "handoffs", *AgentOptions.__optional_keys__)
    check_option_names("Agent", options, names, _find_option_for_agent)
    _validate("Agent", {**options, **given})


def validate_run_options(options: Mapping[str, Any]) -> None:
    """Validate the options of a run.

    Raises:
        TypeError: If an option is unknown.
        ConfigError: If a value is invalid.
    """
    if options:
        check_option_names("a run", options, ("deps", *RunOptions.__optional_keys__), _find_option_for_run)
        _validate("a run", options)


_find_run_option_name = lazy_function("mainspring.other_names", "find_run_option_name")


def _find_option_for_agent(name: str) -> str:
    if name == "deps":
        return "Pass the dependencies to each run, and their type to the agent: Agent(..., deps_type=Db), agent.run(..., deps=db)."
    return _find_run_option(name)


def _find_option_for_run(name: str) -> str:
    if name == "output_type":
        return "It is an option of the agent: Agent(..., output_type=...). For one run, use behavior=RunOptions(schema=...)."
    if name in ("history", "message_history", "messages", "session"):
        option = "session" if name == "session" else "history"
        return f"A conversation has it: agent.conversation({option}=...).run(...)."
    if name in AgentOptions.__optional_keys__:
        return f"It is an option of the agent: Agent(..., {name}=...)."
    return _find_run_option(name)


def _find_run_option(name: str) -> str:
    name = _find_run_option_name(name)
    if name in Behavior.declared:
        return f"Use behavior=RunOptions({name}=...)."
    near = find_closest(name, (*AgentOptions.__optional_keys__, *Behavior.declared))
    return f"Did you mean behavior=RunOptions({near}=...)?" if near in Behavior.declared else ""


def normalize_tools(given: Iterable[Any]) -> list[Tool | LazyTool]:
    """Convert functions to tools and return all tools, those of toolsets, too.

    Raises:
        ConfigError: If a value is neither.
        TypeError: If a function cannot be a tool; the text contains the reason.
    """
    found: list[Tool | LazyTool] = []
    for each in given:
        if isinstance(each, LazyTool):
            found.append(each)
        elif isinstance(each, Toolset):
            found.extend(cast("Toolset", each))
        elif isinstance(each, CoreAgent):
            raise ConfigError(f"tools contains the agent {each.name!r}. Pass it as a tool: tools=[agent.as_tool()].")
        elif isinstance(each, Tool) or callable(each):
            found.append(to_tool(cast("Tool", each)))
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
    "system": (lambda v: v is None or isinstance(v, str) or callable(v), "a text, or a function that returns it"),
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
        raise ConfigError(f"behavior must be a RunOptions(...), not {type(behavior).__name__}.")
    if problems := behavior.find_problems():
        raise ConfigError(f"behavior: {'; '.join(problems)}.")
    return behavior


def add_output_type(output_type: Any, behavior: Behavior | None) -> Behavior:
    """Return the options with the output type as their schema."""
    behavior = validate_behavior(behavior) or Behavior()
    if output_type is str:
        return behavior
    if behavior.schema is not None:
        raise ConfigError("Set either output_type of the agent or schema of its behavior, not both.")
    return Behavior(schema=output_type).merged_with(behavior)


def validate_deps(deps: Any, kind: Any) -> None:
    """Validate the dependencies of a run.

    Raises:
        ConfigError: If they are missing, or of another type than the agent's ``deps_type``.
    """
    if kind in (None, Any):
        return
    name = getattr(kind, "__name__", str(kind))
    if deps is None and isinstance(kind, type):
        raise ConfigError(
            f"This agent has deps_type={name}, so every run needs dependencies. Pass them: agent.run(..., deps={name}(...))."
        )
    with suppress(TypeError):  # a protocol, or list[int], whose instances cannot be recognized
        if not isinstance(deps, kind):
            raise ConfigError(f"deps must be of the agent's deps_type, {name}, not {type(deps).__name__}.")


def resolve_model(
    model: ModelProvider | str | None,
    provider: ModelProvider | str | None = None,
    get_api_key: ApiKeyProvider | None = None,
    *,
    needs_key: bool = True,
) -> ModelProvider:
    """Return the model, created from its name if necessary.

    Without ``needs_key``, a missing key is an error of the first request.

    Raises:
        ProviderConfigError: If the model cannot be created, for example without its key.
        ConfigError: If no model is named, or the provider is given twice.
    """
    if provider is not None and not isinstance(provider, str):
        if model is not None:
            raise ConfigError("Pass either model or a ModelProvider as provider, not both.")
        return provider
    if isinstance(model, str) or model is None:
        try:
            return _create_model(model, provider)
        except ProviderConfigError as error:
            if error.reason != "missing_key" or (needs_key and get_api_key is None):
                raise
            # An agent of a module may never run, or only with another model in a test.
            source = partial(_read_late_key, model, provider) if get_api_key is None else get_api_key
            return _create_model(model, provider, bind_provider(source, error.provider or ""))
    if provider:
        raise ConfigError(f"The model already has the provider {model.provider}. Remove provider={provider!r}.")
    return model


def _read_late_key(model: str | None, provider: str | None) -> str:
    """Raise the error of a missing key: a key that was set since may not belong to the host of the model."""
    created = _create_model(model, provider)
    raise ProviderConfigError(
        f"The API key of {created.provider} was set after this agent was created. Set it before you create the agent.",
        reason="missing_key",
        provider=created.provider,
    )


def _create_model(model: str | None, provider: str | None, api_key: Any = None) -> ModelProvider:
    if provider:
        return default_registry().build(ProviderConfig(provider=provider, model=model, api_key=api_key))
    spec = (model or os.environ.get("AGENT_MODEL", "")).strip()
    if not spec:
        raise ConfigError(
            'No model. Pass one, for example Agent("openai:gpt-5-mini"), or set AGENT_MODEL=provider:model.'
        )
    return create_model(spec, api_key=api_key)
