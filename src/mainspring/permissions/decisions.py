"""Decisions about tool calls, with their reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from mainspring.permissions.rules import PermissionRule

if TYPE_CHECKING:
    from mainspring.tools.support.editing.preview import Preview

PermissionOutcome = Literal["allow", "ask", "deny"]
"""The outcome of a call: ``ask`` means that the user decides."""

READONLY_REASON = "it only reads"
"""Reason for a command that no rule matches and that only reads in the project."""

FREE_REASON = "it does nothing that needs permission"
"""Reason for a builtin such as ``cd``."""

UNTOUCHED_REASON = "it touches nothing"
"""Reason for a call of a tool that declares that it touches nothing."""

_ORDER: dict[PermissionOutcome, int] = {"allow": 0, "ask": 1, "deny": 2}


class Verdict(Struct, frozen=True):
    """The decision about one thing that a call touches.

    Attributes:
        scope: The scope, or ``tool`` for a call that does not declare what it touches.
        resource: The path, command, host, or argument, for display.
        outcome: The decision.
        reason: The reason, in a few words.
        rule: The rule that decided; ``None`` if none did.
        allow: Rules that would allow it, the narrowest first; empty if none would.
        remember: Key of a grant for the session; empty if it cannot be allowed for the session.
        lasting: Whether one approval applies to the whole session: sensitive paths ask once.
    """

    scope: str
    resource: str
    outcome: PermissionOutcome
    reason: str = ""
    rule: PermissionRule | None = None
    allow: tuple[str, ...] = ()
    remember: tuple[str, str] | None = None
    lasting: bool = False


class PermissionDecision(Struct, frozen=True):
    """The decision about a call.

    Attributes:
        tool: Name of the tool.
        outcome: The strictest outcome of the verdicts.
        reason: The reason of the deciding verdict, in a few words.
        rule: The rule that decided; ``None`` if none did.
        verdicts: One verdict for each thing that the call touches, in order.
        paths: The resolved path for each path as spelled in the call; the tool must use the resolved path.
        advice: If the call asks and suggestions were requested: minimal sets of rules, each of which allows the whole call; the
            narrowest set first. Empty if no rules would allow it.
        environment: Variables that the tool must set for the command; the decision relies on them.
    """

    tool: str
    outcome: PermissionOutcome
    reason: str
    rule: PermissionRule | None
    verdicts: tuple[Verdict, ...] = ()
    paths: dict[str, str] = field(default_factory=dict[str, str])
    advice: tuple[tuple[str, ...], ...] = ()
    environment: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def needs_answer(self) -> tuple[Verdict, ...]:
        """Return the verdicts that need an approval."""
        return tuple(v for v in self.verdicts if v.outcome == "ask")

    @property
    def ask_reason(self) -> str:
        """Each reason once, after what it applies to: the commands, or without a command the files."""
        by_reason: dict[str, list[Verdict]] = {}
        for verdict in self.needs_answer:
            by_reason.setdefault(verdict.reason, []).append(verdict)
        parts: list[str] = []
        for reason, same in by_reason.items():
            commands = [v for v in same if v.scope == "shell-run"]
            names = dict.fromkeys(v.resource for v in commands or same)
            parts.append(f"{', '.join(names)}: {reason}")
        return "; ".join(parts)

    @property
    def only_reads(self) -> bool:
        """Return True if the call changes nothing."""
        harmless = (READONLY_REASON, FREE_REASON, UNTOUCHED_REASON)
        return all(v.scope in ("fs-read", "network") or v.reason in harmless for v in self.verdicts)


def combine(
    tool: str, verdicts: list[Verdict], paths: dict[str, str], environment: dict[str, str] | None = None
) -> PermissionDecision:
    """Combine verdicts: the strictest outcome wins, and the first verdict with it provides the reason.

    Args:
        tool: Name of the tool.
        verdicts: One verdict for each thing that the call touches.
        paths: See `PermissionDecision`.
        environment: See `PermissionDecision`; used for calls that are allowed.
    """
    worst = max(verdicts, key=lambda v: _ORDER[v.outcome])
    variables = (environment or {}) if worst.outcome == "allow" else {}
    return PermissionDecision(
        tool, worst.outcome, worst.reason, worst.rule, tuple(verdicts), paths, environment=variables
    )


def strictest(first: PermissionDecision, second: PermissionDecision) -> PermissionDecision:
    """Return the stricter of two decisions about forms of one call, with the paths of the first."""
    if _ORDER[second.outcome] <= _ORDER[first.outcome]:
        return first
    extra = [v for v in second.verdicts if v not in first.verdicts]
    return PermissionDecision(
        first.tool, second.outcome, second.reason, second.rule, (*first.verdicts, *extra), first.paths
    )


SCOPE_VERBS: dict[str, str] = {
    "fs-read": "read",
    "fs-write": "write",
    "fs-delete": "delete",
    "shell-run": "run",
    "network": "connect",
    "tool": "call",
}
"""The verb of each scope."""


class Reply(Struct, frozen=True, kw_only=True):
    """A detailed response to an approval.

    Attributes:
        allow: Whether the call is allowed.
        session: Whether that applies for the rest of the session.
        reason: Reason for the denial, for the model.
        stop: Whether a denial stops the run.
        pause: Whether the run pauses at this call, so that it can resume with other arguments: see `CoreAgent.answer`.
    """

    allow: bool
    session: bool = False
    reason: str = ""
    stop: bool = False
    pause: bool = False


class SessionGrant(Struct, frozen=True):
    """A permission that the user granted for the session.

    Attributes:
        key: Identifies the grant.
        action: The verb; see `PermissionRequest.action`.
        resource: The path, command, host, or argument, for display.
    """

    key: tuple[str, str]
    action: str
    resource: str


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """An approval request for the user. Also readable as a mapping: ``request["scope"]``.

    Attributes:
        scope: The scope of the first thing that needs an approval.
        resource: The path, the whole command line, or the host. Invisible characters are written as escapes.
        action: The verb: ``read``, ``write``, ``delete``, ``run``, ``connect``, ``call``.
        tool: Name of the tool.
        input: The call's arguments (a copy), as they will be used.
        reason: Why the call needs an approval.
        verdicts: Everything in the call that needs an approval; one approval applies to all of it.
        suggestions: Rules that would allow the call from now on: as few and as narrow as possible. Empty if none would.
        wider: Broader rules that would also allow similar calls; the same as ``suggestions`` if none are broader.
        call_id: ID of the call.
        agent: Name of the agent that makes the call; for a subagent, its own name.
        preview: The exact change that the call would make to files; ``None`` if it cannot be computed.
        is_edit: Whether allowing all edits in the project would allow the call.
        is_once: Whether the approval can apply to this call only.
    """

    scope: str
    resource: str
    action: str
    tool: str
    input: dict[str, Any] = field(default_factory=dict[str, Any])
    reason: str = ""
    verdicts: tuple[Verdict, ...] = ()
    suggestions: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()
    call_id: str = ""
    agent: str = ""
    preview: Preview | None = None
    is_edit: bool = False
    is_once: bool = False

    def __getitem__(self, key: str) -> Any:
        if key not in self.__struct_fields__:
            raise KeyError(key)
        return getattr(self, key)
