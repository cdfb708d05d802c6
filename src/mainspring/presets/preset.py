"""Presets and their combination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr

from mainspring.errors import ConfigError
from mainspring.events import Event
from mainspring.loop import Handler, Hooks
from mainspring.loop.hooks import resolve
from mainspring.run_options import RunOptions
from mainspring.tools import LazyTool, Tool, tool
from mainspring.tools.builtin import builtin_tools

ToolLike = Tool | LazyTool | Callable[..., Any]
"""A tool, or a plain function that becomes one."""


class Preset(Struct, frozen=True, kw_only=True, eq=False):
    """The shareable options of an agent: data that is independent of any provider, session, machine, or connection.

    ``Agent(model, **preset)`` creates an agent from it; ``Agent(model, **{**preset, "system": "..."})`` overrides an option. A field
    that is not set is not passed, so the agent's own default applies.

    Attributes:
        name: Name of the agent.
        system: System prompt.
        tools: Tools or plain functions; a mapping sets their names.
        tool_aliases: Aliases of tools for the model, by canonical name.
        behavior: Limits and options for all runs.
        mcp_servers: Servers whose tools it gets: a list of configurations with a ``name``, or a mapping by name.
        skills: See the agent's option of that name.
        hooks: Handlers by hook; each entry one or several.
        subagents: See the agent's option of that name.
        eager: Whether the agent warms up before its first run.
    """

    name: str | UnsetType = UNSET
    system: str | UnsetType = UNSET
    tools: Iterable[ToolLike] | Mapping[str, ToolLike] | UnsetType = UNSET
    tool_aliases: Mapping[str, str] | UnsetType = UNSET
    behavior: RunOptions | UnsetType = UNSET
    mcp_servers: Iterable[Any] | Mapping[str, Any] | UnsetType = UNSET
    skills: Any | UnsetType = UNSET
    hooks: Hooks | UnsetType = UNSET
    subagents: Any | UnsetType = UNSET
    eager: bool | UnsetType = UNSET

    def __post_init__(self) -> None:
        # A generator can be read only once, so it is read now: a preset is used many times.
        if self.tools is not UNSET:
            force_setattr(self, "tools", tuple(_iter_tools(self.tools)))
        if self.mcp_servers is not UNSET:
            force_setattr(self, "mcp_servers", tuple(_iter_servers(self.mcp_servers)))
        if self.hooks is not UNSET:
            force_setattr(self, "hooks", _merge_hooks([self.hooks]))

    def keys(self) -> Iterator[str]:
        """Return the names of the options that are set; with `__getitem__` this supports ``**preset``."""
        return iter([n for n in self.__struct_fields__ if getattr(self, n) is not UNSET])

    def __getitem__(self, name: str) -> Any:
        value = getattr(self, name, UNSET) if name in self.__struct_fields__ else UNSET
        if value is UNSET:
            raise KeyError(name)
        return value


def merge_presets(*presets: Preset) -> Preset:
    """Merge presets into one.

    - ``name``, ``system``, ``eager``, ``skills``, ``subagents``: the last preset that sets it wins.
    - ``tools``, ``tool_aliases``, ``behavior``: merged by name (of a tool, an alias, an option); the last wins for each.
    - ``mcp_servers``: all of them; the last of each name wins.
    - ``hooks``: the handlers of all, for each hook in the order of the presets, always as lists.

    Raises:
        ConfigError: If a hook is unknown.
    """
    merged: dict[str, Any] = {}
    for preset in presets:
        for name in preset.keys():
            value = preset[name]
            merged[name] = (
                _MERGE_FUNCTIONS[name](merged[name], value) if name in merged and name in _MERGE_FUNCTIONS else value
            )
    return Preset(**merged)


def _merge_by_name(first: Iterable[Any], second: Iterable[Any], name_of: Callable[[Any], str]) -> tuple[Any, ...]:
    """Merge two lists by name; an entry of the second replaces the entry of the same name in place."""
    named = {name_of(each): each for each in first}
    named.update({name_of(each): each for each in second})
    return tuple(named.values())


def _tool_name(tool: Tool | LazyTool) -> str:
    return tool.name


def _server_name(server: Any) -> str:
    if isinstance(server, Mapping):
        name = cast("Mapping[str, Any]", server).get("name")
    else:
        name = getattr(server, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError('An MCP server needs a name: {"name": "docs", ...}, or a mapping of names to configurations.')
    return name


_MERGE_FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "tools": lambda a, b: _merge_by_name(a, b, _tool_name),
    "tool_aliases": lambda a, b: {**a, **b},
    "behavior": lambda a, b: b.merged_with(a),
    "mcp_servers": lambda a, b: _merge_by_name(a, b, _server_name),
    "hooks": lambda a, b: _merge_hooks([a, b]),
}


def _iter_tools(tools: Iterable[ToolLike] | Mapping[str, ToolLike]) -> Iterator[Tool | LazyTool]:
    if isinstance(tools, Mapping):
        for name, each in cast("Mapping[str, ToolLike]", tools).items():
            created = cast("Tool | LazyTool", each if isinstance(each, Tool | LazyTool) else tool(name=name)(each))
            if created.name != name:
                raise ConfigError(f"The tool at {name!r} is named {created.name!r}. Use its own name as the key.")
            yield created
        return
    for each in tools:
        yield each if isinstance(each, Tool | LazyTool) else tool(each)


def _iter_servers(servers: Iterable[Any] | Mapping[str, Any]) -> Iterator[Any]:
    if isinstance(servers, Mapping):
        for name, server in cast("Mapping[str, Mapping[str, Any]]", servers).items():
            yield {**server, "name": name}
        return
    for server in servers:
        _server_name(server)
        yield server


def _merge_hooks(several: Iterable[Hooks]) -> dict[str | type[Event], list[Handler[Any]]]:
    """Merge the handlers by the name of the hook or the class of the event, always as lists."""
    joined: dict[str | type[Event], list[Handler[Any]]] = {}
    for hooks in several:
        for event, given in hooks.items():
            resolve(event)
            key = event if isinstance(event, str) or issubclass(event, Event) else event.event
            handlers = cast("Iterable[Handler[Any]]", given) if isinstance(given, Iterable) else (given,)
            joined.setdefault(key, []).extend(handlers)
    return joined


_READ_TOOLS = ("read_file", "glob", "grep", "list_files")


_PLAN_SYSTEM_PROMPT = """You are planning, not doing. Read and search as much as you need; you have no tool that changes anything.
End with a plan: what to change, file by file, in the order of the steps, with what could go wrong and how to check that it worked.
Ask where the task leaves a choice that the user would want to make."""


basic = Preset(name="basic", tools=builtin_tools())
"""Return the built-in tools: files, search, shell."""


BUILD_AGENT = Preset(
    name="build",
    tools=builtin_tools(),
    behavior=RunOptions(
        max_turns=200,  # a user who watches can continue a run, but an unnoticed loop must end
        require_read_before_edit=True,  # in a long conversation files often change after the model read them
        compact_strategy="tail",
    ),
)
"""The chat profile that makes changes: all built-in tools. Differences from the defaults of `Behavior`: at most 200 turns, files
are read before they are changed, and old tool results are removed from requests once they exceed 128KiB."""


PLAN_AGENT = Preset(
    name="plan",
    system=_PLAN_SYSTEM_PROMPT,
    tools=[t for t in builtin_tools() if t.name in _READ_TOOLS],
    behavior=RunOptions(max_turns=50, thinking="medium", compact_strategy="tail"),
)
"""The chat profile that plans: tools that read, and a system prompt that asks for a plan. Differences from the defaults of
`Behavior`: at most 50 turns, reasoning effort ``medium``, and old tool results removed like in `BUILD_AGENT`."""
