"""Registry of tools by canonical name, and the names of tools on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re
from mainspring.messages import ToolDefinition
from mainspring.tools.tool import Tool

TOOL_NAME_PATTERN = lazy_re(r"[A-Za-z0-9_-]{1,128}")
"""Tool names that every provider accepts; providers with stricter limits shorten names on the wire."""


def validate_tool_name(name: object) -> None:
    """Check that a tool name is valid.

    Raises:
        ConfigError: The name contains characters that not all providers accept.
    """
    if not isinstance(name, str) or not TOOL_NAME_PATTERN.fullmatch(name):
        raise ConfigError(f"Invalid tool name: {name!r:.150}. Use 1 to 128 letters, digits, '_', or '-'.")


class ToolRegistry:
    """Tools by canonical name, in the order of addition.

    Duplicate names are errors, since one tool would silently replace the other. All tools are active unless `set_active`
    restricts them; the model neither sees inactive tools nor can call them.
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
            ConfigError: The name is a duplicate or contains characters that not all providers accept.
        """
        validate_tool_name(tool.name)
        existing = self._tools.get(tool.name)
        if existing is not None:
            places = f" (from {existing.source} and {tool.source})" if existing.source != tool.source else ""
            raise ConfigError(
                f"Duplicate tool name: {tool.name!r}{places}. Rename one of the tools, for example with @tool(name=...)."
            )
        self._tools[tool.name] = tool
        self._specs = None

    def remove(self, name: str) -> None:
        """Remove a tool; an unknown name is ignored."""
        if self._tools.pop(name, None) is not None:
            self._specs = None

    def get(self, name: str) -> Tool | None:
        """Return the active tool with a name."""
        return self._tools.get(name) if self._active is None or name in self._active else None

    def unknown(self, name: str, aliases: Mapping[str, str] | None = None) -> str:
        """Return the message for a call of an unknown tool: similar names, or the available names, as the model knows them."""
        known = [(aliases or {}).get(tool, tool) for tool in self.active]
        import difflib

        near = difflib.get_close_matches(name, known, 3) or known[:20]
        return f"Unknown tool: {name}. " + (f"Did you mean {', '.join(near)}?" if near else "No tools are available.")

    def set_active(self, names: Iterable[str] | None) -> None:
        """Activate only these tools; ``None`` activates all, including tools that are added later.

        Raises:
            ConfigError: A name is unknown.
        """
        active = None if names is None else frozenset(names)
        self._refuse_unknown(active or ())
        self._active, self._specs = active, None

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the tools that the model may call, in order."""
        return tuple([n for n in self._tools if self._active is None or n in self._active])

    @property
    def specs(self) -> tuple[ToolDefinition, ...]:
        """Tool definitions for the model; the same object until the tools change."""
        if self._specs is None:
            self._specs = tuple([self._tools[n].spec for n in self.active])
        return self._specs

    def subset(self, names: Iterable[str]) -> ToolRegistry:
        """Return a registry with only these tools, in the order of this registry.

        Raises:
            ConfigError: A name is unknown.
        """
        requested = set(names)
        self._refuse_unknown(requested)
        return ToolRegistry(t for t in self if t.name in requested)

    def _refuse_unknown(self, names: Iterable[str]) -> None:
        unknown = set(names) - self._tools.keys()
        if unknown:
            raise ConfigError(f"Unknown tool: {', '.join(sorted(unknown))}. Available tools: {', '.join(self._tools)}.")

    def copy(self) -> ToolRegistry:
        """Return an independent registry with the same tools."""
        return ToolRegistry(self)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __len__(self) -> int:
        return len(self._tools)


_MAX_NAME_LENGTH = 64
"""Maximum length of a name that every provider accepts; some accept twice the length."""


def provider_tool_names(tools: Iterable[str], aliases: Mapping[str, str]) -> dict[str, str]:
    """Return the wire name of each tool that has a different name on the wire.

    A name that some provider would not accept (too long, or begins with a digit or ``-``) is replaced by a valid name, which
    is the same after every start.

    Args:
        tools: Canonical names of the tools. Aliases of other tools are ignored.
        aliases: Wire name by canonical name.

    Raises:
        ConfigError: An alias is not a valid tool name, or two tools would have the same name on the wire.
    """
    used: dict[str, str] = {}
    found: dict[str, str] = {}
    for tool in tools:
        wire = aliases.get(tool) or _shorten_name(tool)
        if not TOOL_NAME_PATTERN.fullmatch(wire):
            raise ConfigError(f"Invalid alias of {tool}: {wire!r}. Use 1 to 128 letters, digits, '_', or '-'.")
        if wire in used:
            raise ConfigError(
                f"Tools {used[wire]} and {tool} would both be sent to the model as {wire!r}. Change one alias."
            )
        used[wire] = tool
        if wire != tool:
            found[tool] = wire
    return found


def _shorten_name(name: str) -> str:
    """Return the name in a form that all providers accept."""
    plain = name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"
    if len(plain) <= _MAX_NAME_LENGTH:
        return plain
    import hashlib

    return f"{plain[: _MAX_NAME_LENGTH - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
