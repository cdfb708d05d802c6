"""Tools by their canonical names.

Other names of tools at the model.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re
from mainspring.messages import ToolDefinition
from mainspring.tools.tool import Tool

TOOL_NAME_PATTERN = lazy_re(r"[A-Za-z0-9_-]{1,128}")
"""What every provider accepts in a tool's name; providers with tighter limits shorten it on their wire."""


def validate_tool_name(name: object) -> None:
    """Whether a tool can have this name.

    Raises:
        ConfigError: If not: it has characters that no provider accepts.
    """
    if not isinstance(name, str) or not TOOL_NAME_PATTERN.fullmatch(name):
        raise ConfigError(f"tool name {name!r:.150} must be 1 to 128 letters, digits, '_' or '-'")


class ToolRegistry:
    """Tools by canonical name, in the order in which they were added.

    Two tools of one name are refused, since one of them would silently win. All of them are active unless `activate` says
    otherwise; one that is not is there, but the model neither hears of it nor can call it.
    """

    __slots__ = ("_active", "_specs", "_tools")

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._active: frozenset[str] | None = None
        self._specs: tuple[ToolDefinition, ...] | None = None
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        """Add a tool.

        Raises:
            ConfigError: If the name is taken or has characters that no provider accepts.
        """
        validate_tool_name(tool.name)
        taken = self._tools.get(tool.name)
        if taken is not None:
            raise ConfigError(
                f"two tools are named {tool.name!r} (from {taken.source} and {tool.source}); rename or alias one"
            )
        self._tools[tool.name] = tool
        self._specs = None

    def remove(self, name: str) -> None:
        """Take a tool out; an unknown name is no error."""
        if self._tools.pop(name, None) is not None:
            self._specs = None

    def get(self, name: str) -> Tool | None:
        """The tool of that name, if it is active."""
        return self._tools.get(name) if self._active is None or name in self._active else None

    def unknown(self, name: str) -> str:
        """What is said of a call of a tool that is not there: which ones come near, or which there are."""
        near = difflib.get_close_matches(name, self.active, 3) or self.active[:20]
        return f"Unknown tool: {name}. " + (f"Did you mean {', '.join(near)}?" if near else "There are no tools.")

    def set_active(self, names: Iterable[str] | None) -> None:
        """Have just these tools active; ``None`` is all of them, those that are added later too.

        Raises:
            ConfigError: If a name is unknown.
        """
        active = None if names is None else frozenset(names)
        self._refuse_unknown(active or ())
        self._active, self._specs = active, None

    @property
    def active(self) -> tuple[str, ...]:
        """The names of the tools that the model may call, in order."""
        return tuple([n for n in self._tools if self._active is None or n in self._active])

    @property
    def specs(self) -> tuple[ToolDefinition, ...]:
        """What a model is told, the same object until a tool is added or removed."""
        if self._specs is None:
            self._specs = tuple([self._tools[n].spec for n in self.active])
        return self._specs

    def subset(self, names: Iterable[str]) -> ToolRegistry:
        """A registry with just these tools, in this registry's order.

        Raises:
            ConfigError: If a name is unknown.
        """
        requested = set(names)
        self._refuse_unknown(requested)
        return ToolRegistry(t for t in self if t.name in requested)

    def _refuse_unknown(self, names: Iterable[str]) -> None:
        unknown = set(names) - self._tools.keys()
        if unknown:
            raise ConfigError(f"unknown tool {', '.join(sorted(unknown))}; there are {', '.join(self._tools)}")

    def copy(self) -> ToolRegistry:
        """An independent registry with the same tools."""
        return ToolRegistry(self)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)


_MAX_NAME_LENGTH = 64
"""Characters that every host takes in a name; some take twice as many."""


def provider_tool_names(tools: Iterable[str], aliases: Mapping[str, str]) -> dict[str, str]:
    """The aliases that are of use: for each of these tools that has another name at the model, that name. A name that some host
    would not take (too long, or begun by a digit or ``-``) gets one that all take, the same after every start.

    Args:
        tools: The tools' own names. An alias of a tool that is not among them does nothing.
        aliases: By a tool's own name the other one.

    Raises:
        ConfigError: If an alias is no name of a tool, or two tools would have the same name at the model.
    """
    taken: dict[str, str] = {}
    found: dict[str, str] = {}
    for tool in tools:
        wire = aliases.get(tool) or _shorten_name(tool)
        if not TOOL_NAME_PATTERN.fullmatch(wire):
            raise ConfigError(f"the alias {wire!r} of {tool} must be 1 to 128 letters, digits, '_' or '-'")
        if wire in taken:
            raise ConfigError(f"the model would know both {taken[wire]} and {tool} as {wire!r}; change an alias")
        taken[wire] = tool
        if wire != tool:
            found[tool] = wire
    return found


def _shorten_name(name: str) -> str:
    """The name as all hosts take it."""
    plain = name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"
    if len(plain) <= _MAX_NAME_LENGTH:
        return plain
    return f"{plain[: _MAX_NAME_LENGTH - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
