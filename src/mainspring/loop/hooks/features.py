"""The hooks of what is plugged in: MCP servers and skills. Declared here, so that whoever listens needs neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, TypeVar

from mainspring.loop.hooks.base import checked, text
from mainspring.loop.hooks.run import Hook
from mainspring.loop.hooks.tools import CallHook, ToolAfter, ToolBefore, ToolGate, ToolTransform

T = TypeVar("T", bound=CallHook)


def _copied(kind: type[T], hook: CallHook) -> T:
    """A context of another class with everything that ``hook`` holds."""
    made = kind.__new__(kind)
    for base in type(hook).__mro__:
        for name in getattr(base, "__slots__", ()):
            if hasattr(hook, name):
                setattr(made, name, getattr(hook, name))
    return made


class McpToolGate(ToolGate):
    """`tool:gate` for a call of an MCP server's tool. ``server`` is its name."""

    event = "mcp:tool:gate"
    when = "Right after `tool:gate`, for tools of MCP servers."
    __slots__ = ("server",)
    server: str

    @classmethod
    def of(cls, hook: ToolGate, server: str) -> Self:
        """The same for a call of this server's tool."""
        made = _copied(cls, hook)
        made.server = server
        return made


class McpToolBefore(ToolBefore):
    """`tool:before` for a call of an MCP server's tool. ``server`` is its name."""

    event = "mcp:tool:before"
    when = "Right after `tool:before`, for tools of MCP servers."
    __slots__ = ("server",)
    server: str

    @classmethod
    def of(cls, hook: ToolBefore, server: str) -> Self:
        """The same for a call of this server's tool."""
        made = _copied(cls, hook)
        made.server = server
        return made


class McpToolTransform(ToolTransform):
    """`tool:transform` for a call of an MCP server's tool. ``server`` is its name."""

    event = "mcp:tool:transform"
    when = "Right after `tool:transform`, for tools of MCP servers."
    __slots__ = ("server",)
    server: str

    @classmethod
    def of(cls, hook: ToolTransform, server: str) -> Self:
        """The same for a call of this server's tool."""
        made = _copied(cls, hook)
        made.server = server
        return made


class McpToolAfter(ToolAfter):
    """`tool:after` for a call of an MCP server's tool. ``server`` is its name."""

    event = "mcp:tool:after"
    when = "Right after `tool:after`, for tools of MCP servers."
    __slots__ = ("server",)
    server: str

    @classmethod
    def of(cls, hook: ToolAfter, server: str) -> Self:
        """The same for a call of this server's tool."""
        made = _copied(cls, hook)
        made.server = server
        return made


class McpBootstrapStart(Hook):
    """Connecting to MCP servers begins; ``servers`` are their names."""

    event = "mcp:bootstrap:start"
    when = "At warm-up or the first run, where there are MCP servers."
    __slots__ = ("servers",)

    def __init__(self, servers: tuple[str, ...]) -> None:
        self.servers = servers


class McpBootstrapEnd(Hook):
    """Connecting to MCP servers is over. ``seconds`` it took; ``failed`` are the servers that could not be reached."""

    event = "mcp:bootstrap:end"
    when = "When every MCP server has answered or failed."
    __slots__ = ("failed", "outcome", "seconds", "servers")

    def __init__(self, servers: tuple[str, ...], seconds: float, failed: tuple[str, ...] = ()) -> None:
        self.servers = servers
        self.seconds = seconds
        self.failed = failed
        self.outcome: Literal["ok", "partial", "failed"] = (
            "ok" if not failed else "failed" if len(failed) == len(servers) else "partial"
        )


class McpConnect(Hook):
    """A connection to an MCP server stands; ``tools`` are the names of its tools."""

    event = "mcp:connect"
    when = "For each MCP server, when its tools are known."
    __slots__ = ("seconds", "server", "tools")

    def __init__(self, server: str, tools: tuple[str, ...], seconds: float) -> None:
        self.server = server
        self.tools = tools
        self.seconds = seconds


class McpError(Hook):
    """An MCP server failed: while connecting, or later."""

    event = "mcp:error"
    when = "Whenever an MCP server fails."
    __slots__ = ("error", "server")

    def __init__(self, server: str, error: Exception) -> None:
        self.server = server
        self.error = error


class SkillsResolve(Hook):
    """Skills were looked for; ``skills`` are what was found.

    Skills are resolved once, at warm-up or the first run: a handler added after that misses this.
    """

    event = "skills:resolve"
    when = "At warm-up or the first run, once the folders were read."
    __slots__ = ("skills",)

    def __init__(self, skills: Sequence[Any]) -> None:
        self.skills = skills


class SkillsCatalog(Hook):
    """The list of skills as the model will read it. ``catalog`` may be replaced.

    The list is made once, at warm-up or the first run: a handler added after that misses this.
    """

    event = "skills:catalog"
    mutable = ("catalog",)
    when = "At warm-up or the first run, after `skills:resolve`."
    __slots__ = ("_catalog", "skills")
    catalog: str = checked("_catalog", text)

    def __init__(self, catalog: str, skills: Sequence[Any]) -> None:
        self._catalog = catalog
        self.skills = skills


SkillVia = Literal["model", "explicit", "trigger", "resume"]
"""By what a skill becomes active: the model used it, the host or a person asked for it, a prompt called for it, or the conversation was
taken up again.
"""

SkillReason = Literal["run-end", "explicit", "reset"]
"""Why a skill is no longer active: the run is over, the host said so, or the conversation was forgotten."""


class SkillsActivate(Hook):
    """A skill becomes active; ``via`` says by what: the ``model``, the host (``explicit``), a ``trigger``, or on ``resume``."""

    event = "skills:activate"
    when = "When a skill becomes active."
    __slots__ = ("name", "via")

    def __init__(self, name: str, via: SkillVia) -> None:
        self.name = name
        self.via = via


class SkillsDeactivate(Hook):
    """A skill is no longer active; ``reason`` says why: ``run-end``, ``explicit`` or ``reset``."""

    event = "skills:deactivate"
    kept = True
    when = "When a skill is no longer active: at the end of the run, told so, or forgotten by `reset`."
    __slots__ = ("name", "reason")

    def __init__(self, name: str, reason: SkillReason) -> None:
        self.name = name
        self.reason = reason
