"""The hooks of features: MCP servers, skills, budgets, logins, and structured output.

They are declared here, so that a handler does not import the feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, TypeVar

from mainspring.events.types import RunStatus
from mainspring.loop.hooks.base import text, validated_property
from mainspring.loop.hooks.run import Hook
from mainspring.loop.hooks.tools import ToolBefore, ToolCallHook, ToolFinished, ToolGate, ToolTransform

_T = TypeVar("_T", bound=ToolCallHook)


def _copy_hook_as(kind: type[_T], hook: ToolCallHook) -> _T:
    """Copy a context to another class."""
    copy = kind.__new__(kind)
    for base in type(hook).__mro__:
        for name in getattr(base, "__slots__", ()):
            if hasattr(hook, name):
                setattr(copy, name, getattr(hook, name))
    return copy


class McpToolGate(ToolGate):
    """`tool:gate` for a call of an MCP tool. ``server`` is the name of the MCP server."""

    event = "mcp:tool:gate"
    when = "Right after `tool:gate`, for tools of MCP servers."
    __slots__ = ("server",)
    server: str

    @classmethod
    def of(cls, hook: ToolGate, server: str) -> Self:
        """The same for a call of this server's tool."""
        copy = _copy_hook_as(cls, hook)
        copy.server = server
        return copy


class McpToolBefore(ToolBefore):
    """`tool:before` for a call of an MCP tool. ``server`` is the name of the MCP server."""

    event = "mcp:tool:before"
    when = "Right after `tool:before`, for tools of MCP servers."
    __slots__ = ("server",)
    server: str

    @classmethod
    def of(cls, hook: ToolBefore, server: str) -> Self:
        """The same for a call of this server's tool."""
        copy = _copy_hook_as(cls, hook)
        copy.server = server
        return copy


class McpToolTransform(ToolTransform):
    """`tool:transform` for a call of an MCP tool. ``server`` is the name of the MCP server."""

    event = "mcp:tool:transform"
    when = "Right after `tool:transform`, for tools of MCP servers."
    __slots__ = ("server",)
    server: str

    @classmethod
    def of(cls, hook: ToolTransform, server: str) -> Self:
        """The same for a call of this server's tool."""
        copy = _copy_hook_as(cls, hook)
        copy.server = server
        return copy


class McpToolAfter(ToolFinished):
    """`tool:after` for a call of an MCP tool. ``server`` is the name of the MCP server."""

    event = "mcp:tool:after"
    when = "Right after `tool:after`, for tools of MCP servers."
    __slots__ = ("server",)
    server: str

    @classmethod
    def of(cls, hook: ToolFinished, server: str) -> Self:
        """The same for a call of this server's tool."""
        copy = _copy_hook_as(cls, hook)
        copy.server = server
        return copy


class McpBootstrapStart(Hook):
    """Connecting to MCP servers begins; ``servers`` are the names of the servers."""

    event = "mcp:bootstrap:start"
    when = "At warm-up or the first run, if there are MCP servers."
    __slots__ = ("servers",)

    def __init__(self, servers: tuple[str, ...]) -> None:
        self.servers = servers


class McpBootstrapEnd(Hook):
    """All MCP servers have connected or failed.

    ``seconds`` is the duration; ``failed`` are the servers that could not be reached.
    """

    event = "mcp:bootstrap:end"
    when = "When every MCP server has connected or failed."
    __slots__ = ("failed", "status", "seconds", "servers")

    def __init__(self, servers: tuple[str, ...], seconds: float, failed: tuple[str, ...] = ()) -> None:
        self.servers = servers
        self.seconds = seconds
        self.failed = failed
        self.status: Literal["ok", "partial", "failed"] = (
            "ok" if not failed else "failed" if len(failed) == len(servers) else "partial"
        )


class McpConnect(Hook):
    """An MCP server is connected; ``tools`` are the names of its tools."""

    event = "mcp:connect"
    when = "For each MCP server, when its tools are known."
    __slots__ = ("seconds", "server", "tools")

    def __init__(self, server: str, tools: tuple[str, ...], seconds: float) -> None:
        self.server = server
        self.tools = tools
        self.seconds = seconds


class McpError(Hook):
    """An MCP server failed, while connecting or later."""

    event = "mcp:error"
    when = "Whenever an MCP server fails."
    __slots__ = ("error", "server")

    def __init__(self, server: str, error: Exception) -> None:
        self.server = server
        self.error = error


class SkillsResolve(Hook):
    """Skills were searched; ``skills`` are those that were found.

    Skills are resolved once, at warm-up or the first run: a handler that is added later misses this.
    """

    event = "skills:resolve"
    when = "At warm-up or the first run, after the folders were read."
    __slots__ = ("skills",)

    def __init__(self, skills: Sequence[Any]) -> None:
        self.skills = skills


class SkillsCatalog(Hook):
    """The list of skills for the model. ``catalog`` may be replaced.

    The list is made once, at warm-up or the first run: a handler that is added later misses this.
    """

    event = "skills:catalog"
    mutable = ("catalog",)
    when = "At warm-up or the first run, after `skills:resolve`."
    __slots__ = ("_catalog", "skills")
    catalog: str = validated_property("_catalog", text)

    def __init__(self, catalog: str, skills: Sequence[Any]) -> None:
        self._catalog = catalog
        self.skills = skills


SkillActivationSource = Literal["model", "explicit", "trigger", "resume"]
"""Cause of an activation: the model, the application or user (``explicit``), a prompt (``trigger``), or a resumed session."""


SkillReason = Literal["run-end", "explicit", "reset"]
"""Cause of a deactivation: the run ended, the application did it (``explicit``), or the conversation was reset."""


class SkillsActivate(Hook):
    """A skill becomes active.

    ``via`` is the cause: the ``model``, the application (``explicit``), a ``trigger``, or ``resume``.
    """

    event = "skills:activate"
    when = "When a skill becomes active."
    __slots__ = ("name", "via")

    def __init__(self, name: str, via: SkillActivationSource) -> None:
        self.name = name
        self.via = via


class SkillsDeactivate(Hook):
    """A skill was deactivated. ``reason`` is ``run-end``, ``explicit``, or ``reset``."""

    event = "skills:deactivate"
    kept = True
    when = "When a skill becomes inactive: at the end of the run, on request, or after `reset`."
    __slots__ = ("name", "reason")

    def __init__(self, name: str, reason: SkillReason) -> None:
        self.name = name
        self.reason = reason


class BudgetExceeded(Hook):
    """The results of one turn have more ``bytes`` than the ``budget`` (`tool_output_budget`) allows."""

    event = "budget:exceeded"
    when = "Right after `tool-results:after` of a turn whose results exceed the budget."
    __slots__ = ("budget", "bytes", "turn", "turn_id")

    def __init__(self, turn: int, turn_id: str, size: int, budget: int) -> None:
        self.turn = turn
        self.turn_id = turn_id
        self.bytes = size
        self.budget = budget


class ToolBudgetExceeded(Hook):
    """A call exceeded the budget of its tool.

    ``count`` is its number in the run, ``max`` the budget, ``mode`` the effect: ``block`` or ``steer``.
    """

    event = "tool-budget:exceeded"
    when = "At `tool:gate`, for each call that exceeds the budget of its tool."
    __slots__ = ("count", "max", "mode", "name", "turn", "turn_id")

    def __init__(self, turn: int, turn_id: str, name: str, count: int, maximum: int, mode: str) -> None:
        self.turn = turn
        self.turn_id = turn_id
        self.name = name
        self.count = count
        self.max = maximum
        self.mode = mode


class BudgetWarning(Hook):
    """A limit of cost, tokens, turns, or time is near: ``spent`` of ``limit``.

    ``scope`` is ``run`` or ``session``; ``status`` is the status of a run that reaches the limit, such as ``max_cost``.
    """

    event = "budget:warning"
    when = "Before the first request at or above the share `warn_at` of a limit, once for each limit in a run."
    __slots__ = ("limit", "scope", "spent", "status")

    def __init__(self, scope: str, status: RunStatus, spent: float, limit: float) -> None:
        self.scope = scope
        self.status: RunStatus = status
        self.spent = spent
        self.limit = limit


class OAuthRefresh(Hook):
    """The token of a login was renewed. The hook does not contain a token.

    ``provider`` and ``account`` identify the login (``account`` is empty if unknown), ``expires`` is the end of the new token in
    seconds since 1970, or ``None``; ``reason`` is ``expired`` if the old one was about to expire, ``refused`` if the host rejected it.
    """

    event = "oauth:refresh"
    when = "When a token was renewed for a request of a run, before the request is sent (again)."
    __slots__ = ("account", "expires", "provider", "reason")

    def __init__(
        self, provider: str, account: str, expires: float | None, reason: Literal["expired", "refused"]
    ) -> None:
        self.provider = provider
        self.account = account
        self.expires = expires
        self.reason = reason


class OutputHook(Hook):
    """A run with structured output has ended.

    ``output`` is the validated value, or ``None`` with the reason in ``error``; the result of the run is then its text.
    ``attempts`` is the number of outputs that were validated.
    """

    event = "output"
    mutable = ("output",)
    when = "When an output fits the schema, or the last attempt failed."
    __slots__ = ("attempts", "error", "output", "raw")

    def __init__(self, output: Any, raw: Any, attempts: int, error: str = "") -> None:
        self.output = output
        self.raw = raw
        self.attempts = attempts
        self.error = error
