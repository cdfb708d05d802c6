"""The names that `on` takes: of each hook, and of moments that a hook or an event already reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct, structs

from mainspring.errors import ConfigError
from mainspring.events import (
    ContextCompacted,
    Event,
    LimitWarning,
    McpServer,
    McpStartup,
    MessageEnd,
    MessageUpdate,
    OauthRefresh,
    SkillChange,
    SubagentEnd,
    TextDelta,
    ThinkingDelta,
    ToolInputCoerced,
    UsageUpdate,
)
from mainspring.loop.hooks import features, session, tools
from mainspring.loop.hooks.features import SkillsCatalog
from mainspring.loop.hooks.run import Hook, SessionEnd, SessionStart, TurnAfter
from mainspring.loop.hooks.tools import McpToolGate, ToolBefore, ToolFailed, ToolFinished, ToolGate
from mainspring.messages import Message

__all__ = ["ALIASES", "HOOKS", "HOOK_NAMES", "Target", "features", "resolve", "session", "tools"]


class Target(Struct, frozen=True):
    """What a handler is registered for.

    Attributes:
        kind: The class of hooks or events that it gets.
        subagents: Whether it gets those of subagents in place of the agent's own.
        where: Whether it gets a given one (default: all).
        order: Added to its order.
        when: The time at which it is called, for the docs.
    """

    kind: type[Hook] | type[Event]
    subagents: bool = False
    where: Callable[[Any], bool] | None = None
    order: int = 0
    when: str = ""


def _collect_hooks() -> dict[str, type[Hook]]:
    found: dict[str, type[Hook]] = {}
    queue: list[type[Hook]] = [Hook]
    while queue:
        kind = queue.pop()
        queue.extend(kind.__subclasses__())
        if kind.event:
            found[kind.event] = kind
    return dict(sorted(found.items()))


HOOKS: dict[str, type[Hook]] = _collect_hooks()
"""Every hook, by name."""


def _selects_response_text(event: MessageEnd) -> bool:
    message = event.message
    return (
        isinstance(message, Message)
        and message.role == "assistant"
        and message.stop_reason not in ("error", "aborted")
        and bool(message.text)
    )


_FIRST, _LAST = -1_000_000, 1_000_000


def is_order_of_done(order: int) -> bool:
    """Return True for the order of a handler of `agent:done`, which the loop calls when the run has ended."""
    return order > _LAST // 2


ALIASES: dict[str, Target] = {
    "budget:exceeded": Target(
        LimitWarning,
        where=lambda event: event.limit == "tool_output",
        when="Right after `tool-results:after` of a turn whose results exceed the budget.",
    ),
    "budget:warning": Target(
        LimitWarning,
        where=lambda event: not event.exceeded,
        when="Before the first request at or above the share `warn_at` of a limit, once for each limit in a run.",
    ),
    "tool-budget:exceeded": Target(
        LimitWarning,
        where=lambda event: event.limit == "tool_calls",
        when="At `tool:gate`, for each call that exceeds the budget of its tool.",
    ),
    "mcp:bootstrap:start": Target(
        McpStartup,
        where=lambda event: event.seconds is None,
        when="At warm-up or the first run, for each MCP server.",
    ),
    "mcp:bootstrap:end": Target(
        McpStartup,
        where=lambda event: event.seconds is not None,
        when="For each MCP server, when it has connected or failed.",
    ),
    "mcp:connect": Target(
        McpServer, where=lambda event: event.error is None, when="For each MCP server, when its tools are known."
    ),
    "mcp:error": Target(McpServer, where=lambda event: event.error is not None, when="Whenever an MCP server fails."),
    "child:mcp:tool:gate": Target(
        McpToolGate, subagents=True, when="During a subagent's `mcp:tool:gate`, after the subagent's own handlers."
    ),
    "oauth:refresh": Target(
        OauthRefresh, when="When a token was renewed for a request of a run, before the request is sent (again)."
    ),
    "skills:activate": Target(SkillChange, where=lambda event: event.active, when="When a skill becomes active."),
    "skills:deactivate": Target(
        SkillChange,
        where=lambda event: not event.active,
        when="When a skill becomes inactive: at the end of the run, on request, or after `reset`.",
    ),
    "skills:resolve": Target(
        SkillsCatalog, order=_FIRST, when="At warm-up or the first run, after the folders were read."
    ),
    "spawn:complete": Target(
        SubagentEnd,
        where=lambda event: event.error is None,
        when="When a subagent has ended, before its parent gets the response.",
    ),
    "spawn:error": Target(
        SubagentEnd,
        where=lambda event: event.error is not None,
        when="When a subagent failed, was stopped, or could not be created.",
    ),
    "agent:abort": Target(
        SessionEnd,
        where=lambda hook: hook.status == "aborted",
        order=_FIRST,
        when="At the end of a run that was aborted or cancelled, before `session:end`.",
    ),
    "agent:done": Target(SessionEnd, order=_LAST, when="Last, however the run ends."),
    "context:compacted": Target(ContextCompacted, when="Right after the history was replaced."),
    "stream:text": Target(TextDelta, when="For each delta of text when it arrives."),
    "stream:thinking": Target(ThinkingDelta, when="For each delta of reasoning when it arrives."),
    "stream:end": Target(MessageEnd, where=_selects_response_text, when="When a response with text is complete."),
    "system:before": Target(
        SessionStart,
        where=lambda hook: hook.has_own_system,
        order=_LAST,
        when="At the start of a run with its own `system`, after `session:start`.",
    ),
    "usage": Target(UsageUpdate, when="After each model call, before `turn:after`; after each side call."),
    "validation:coerce": Target(ToolInputCoerced, when="When arguments were coerced, before `tool:before`."),
    "child:stream:text": Target(TextDelta, subagents=True, when="For each delta of a subagent's text."),
    "child:stream:thinking": Target(ThinkingDelta, subagents=True, when="For each delta of a subagent's reasoning."),
    "child:stream:end": Target(
        MessageEnd,
        subagents=True,
        where=_selects_response_text,
        when="When a response of a subagent with text is complete.",
    ),
    "child:turn:after": Target(TurnAfter, subagents=True, when="During a subagent's `turn:after`."),
    "child:tool:gate": Target(
        ToolGate, subagents=True, when="During a subagent's `tool:gate`, after the subagent's own handlers."
    ),
    "child:tool:before": Target(ToolBefore, subagents=True, when="During a subagent's `tool:before`."),
    "child:tool:after": Target(ToolFinished, subagents=True, when="During a subagent's `tool:after`."),
    "child:tool:error": Target(ToolFailed, subagents=True, when="During a subagent's `tool:error`."),
}
"""Other names: each is a selection of a hook or an event."""


HOOK_NAMES: tuple[str, ...] = tuple(sorted({*HOOKS, *ALIASES}))
"""Every name that `on` takes."""


def resolve(event: type[Any] | str, *, is_of_subagents: bool = False) -> Target:
    """Return what a hook or an event, by class or name, is.

    Args:
        event: The class or the name.
        is_of_subagents: Whether those of subagents are requested.

    Raises:
        ConfigError: If it is unknown; the text contains the nearest name.
    """
    target = _resolve_name(event) if isinstance(event, str) else _resolve_class(event)
    return structs.replace(target, subagents=True) if is_of_subagents else target


def _resolve_name(name: str) -> Target:
    if name in ALIASES:
        return ALIASES[name]
    if name in HOOKS:
        return Target(HOOKS[name])
    import difflib

    near = difflib.get_close_matches(name, HOOK_NAMES, 1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Hooks: {', '.join(HOOK_NAMES)}"
    raise ConfigError(f"Unknown hook: {name!r}. {hint}")


def _resolve_class(kind: type[Any]) -> Target:
    is_class = isinstance(cast("object", kind), type)  # a decorator without a hook passes the function
    is_event = is_class and issubclass(kind, Event) and kind not in (Event, MessageUpdate)
    if not is_event and HOOKS.get(getattr(kind, "event", "")) is not kind:
        example = "Use the class of one, or the name of a hook: @agent.on(ToolGate), or agent.on(ToolGate, check)."
        raise ConfigError(f"{kind!r:.80} is not a hook or an event. {example}")
    return Target(kind)
