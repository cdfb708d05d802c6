"""Sets of tools that can be combined, renamed, filtered, and made to require approval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from msgspec.structs import replace

from mainspring.errors import ConfigError
from mainspring.tools.define import LazyTool, to_tool
from mainspring.tools.registry import ToolRegistry, validate_tool_name
from mainspring.tools.tool import Tool
from mainspring.type_variables import NeededDepsT

if TYPE_CHECKING:
    from mainspring.tools.define import ToolFunction

    ToolSource: TypeAlias = "Tool[NeededDepsT] | LazyTool | Toolset[NeededDepsT] | ToolFunction[NeededDepsT]"
    """A tool, or something that provides tools, for an agent with these dependencies."""


class Toolset(Generic[NeededDepsT]):
    """Tools in a fixed order. It never changes: each method returns a new set, for ``Agent(tools=...)``.

    Rules of permissions apply to a renamed tool under its new name and its earlier names, so that renaming cannot escape a rule.

    Args:
        tools: Tools and functions; another set can be one of them.

    Raises:
        ConfigError: Two tools have the same name. Use `prefix` or `rename`.
    """

    def __init__(
        self, tools: Iterable[Tool[NeededDepsT] | Toolset[NeededDepsT] | ToolFunction[NeededDepsT]] = ()
    ) -> None:
        registry = ToolRegistry()
        for each in tools:
            found: Iterable[Tool] = each if isinstance(each, Toolset) else [to_tool(each)]
            for one in found:
                registry.add(one)
        self._tools = tuple(registry)

    def __iter__(self) -> Iterator[Tool[NeededDepsT]]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def combine(self, *others: Iterable[Tool[NeededDepsT]]) -> Toolset[NeededDepsT]:
        """Return the tools of this set and of others, in this order."""
        return Toolset([*self, *(each for other in others for each in other)])

    def filter(self, predicate: Callable[[Tool], bool]) -> Toolset[NeededDepsT]:
        """Return the tools for which a function returns True."""
        return Toolset([each for each in self if predicate(each)])

    def prefix(self, prefix: str) -> Toolset[NeededDepsT]:
        """Return the tools with a prefix before each name, for example, ``weather_``."""
        return self.rename({each.name: f"{prefix}{each.name}" for each in self})

    def rename(self, names: Mapping[str, str]) -> Toolset[NeededDepsT]:
        """Return the tools with other names.

        Args:
            names: The new name by the present one; other tools are unchanged.

        Raises:
            ConfigError: A name is unknown, invalid, or a duplicate.
        """
        self._check_names(names)
        for name in names.values():
            validate_tool_name(name)
        return Toolset([_rename(each, names.get(each.name, each.name)) for each in self])

    def require_approval(
        self, *names: str, when: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> Toolset[NeededDepsT]:
        """Return the tools so that calls need an approval, whatever the rules allow.

        With permissions, the user is asked, or the run pauses. Without them, and if no user can be asked, a call is denied.

        Args:
            *names: Names of the tools; all tools if empty.
            when: Function of the arguments that returns True if a call needs an approval. Default: each call does.

        Raises:
            ConfigError: A name is unknown.
        """
        self._check_names(names)
        chosen = names or tuple([each.name for each in self])
        return Toolset(
            [replace(each, requires_approval=when or True) if each.name in chosen else each for each in self]
        )

    def _check_names(self, names: Iterable[str]) -> None:
        known = [each.name for each in self]
        unknown = [each for each in names if each not in known]
        if unknown:
            raise ConfigError(f"Unknown tool: {', '.join(unknown)}. Tools of this set: {', '.join(known)}.")


def _rename(tool: Tool[NeededDepsT], name: str) -> Tool[NeededDepsT]:
    return tool if name == tool.name else replace(tool, name=name, former_names=(*tool.former_names, tool.name))
