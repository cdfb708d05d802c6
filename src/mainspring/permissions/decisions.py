"""What was decided about a call, and why."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from mainspring.permissions.rules import Rule
from mainspring.tools.support.editing.preview import Preview

Outcome = Literal["allow", "ask", "deny"]
"""What becomes of a call: ``ask`` means that a person decides."""

READONLY_REASON = "it only reads"
"""Why a command is allowed that no rule is about, if all it does is read in the project."""

FREE_REASON = "it does nothing that needs permission"
"""Why a builtin such as ``cd`` is allowed."""

UNTOUCHED_REASON = "it touches nothing"
"""Why a call is allowed whose tool says that it touches nothing."""

_ORDER: dict[Outcome, int] = {"allow": 0, "ask": 1, "deny": 2}


class Verdict(Struct, frozen=True):
    """What was decided about one thing that a call touches.

    Attributes:
        scope: The scope, or ``tool`` for a call that does not say what it touches.
        resource: The path, command, host or argument, for people.
        outcome: What was decided.
        reason: Why, in a few words.
        rule: The rule that decided; ``None`` if none did.
        allow: Rules that would allow it, the narrowest first; empty if none would.
        remember: By which a grant for the session is known; empty if it cannot be granted for the session.
        lasting: Whether one yes holds for the session: sensitive paths are asked about once.
    """

    scope: str
    resource: str
    outcome: Outcome
    reason: str = ""
    rule: Rule | None = None
    allow: tuple[str, ...] = ()
    remember: tuple[str, str] | None = None
    lasting: bool = False


class PermissionDecision(Struct, frozen=True):
    """What was decided about a call.

    Attributes:
        tool: The tool's name.
        outcome: The strictest of the verdicts.
        reason: Why, in a few words: that of the deciding verdict.
        rule: The rule that decided; ``None`` if none did.
        verdicts: Each thing that the call touches, in order.
        paths: For each path as spelled in the call, the real one that was judged; the tool must use that.
        advice: Where it asks and this was wanted: sets of rules each of which is enough for the whole call, and of which no rule can be left out;
            the narrowest set first. Empty if no rules would do.
        environment: Variables that the tool must set for the command; the decision relies on them.
    """

    tool: str
    outcome: Outcome
    reason: str
    rule: Rule | None
    verdicts: tuple[Verdict, ...] = ()
    paths: dict[str, str] = field(default_factory=dict[str, str])
    advice: tuple[tuple[str, ...], ...] = ()
    environment: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def asked(self) -> tuple[Verdict, ...]:
        """The verdicts that need an answer."""
        return tuple(v for v in self.verdicts if v.outcome == "ask")

    @property
    def only_reads(self) -> bool:
        """Whether nothing that the call touches is changed by it."""
        harmless = (READONLY_REASON, FREE_REASON, UNTOUCHED_REASON)
        return all(v.scope in ("fs-read", "network") or v.reason in harmless for v in self.verdicts)


def combine(
    tool: str, verdicts: list[Verdict], paths: dict[str, str], environment: dict[str, str] | None = None
) -> PermissionDecision:
    """Join verdicts: the strictest decides, the first of those names the reason.

    Args:
        tool: The tool's name.
        verdicts: What was decided about each thing that the call touches.
        paths: See `Decision`.
        environment: See `Decision`; it is for calls that are allowed.
    """
    worst = max(verdicts, key=lambda v: _ORDER[v.outcome])
    variables = (environment or {}) if worst.outcome == "allow" else {}
    return PermissionDecision(
        tool, worst.outcome, worst.reason, worst.rule, tuple(verdicts), paths, environment=variables
    )


def strictest(first: PermissionDecision, second: PermissionDecision) -> PermissionDecision:
    """The stricter of two decisions about forms of one call, with the paths of the first."""
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
    """An answer with more in it than yes or no.

    Attributes:
        allow: Whether the call may be made.
        session: Whether that holds for the session.
        reason: Why not, for the model.
        stop: Whether a no ends the run.
        pause: Whether the run is to pause at this call, so that it goes on with other arguments: see `CoreAgent.answer`.
    """

    allow: bool
    session: bool = False
    reason: str = ""
    stop: bool = False
    pause: bool = False


class SessionGrant(Struct, frozen=True):
    """Something that the user allowed for the session.

    Attributes:
        key: Identifies the grant.
        action: The verb, as in `ACTIONS`.
        resource: The path, command, host, or argument, for people.
    """

    key: tuple[str, str]
    action: str
    resource: str


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """What a person is asked. Also readable as a mapping: ``request["scope"]``.

    Attributes:
        scope: The scope of the first thing that needs an answer.
        resource: What it is about: a path, the whole command line, a host. Invisible characters are written as escapes.
        action: The verb: ``read``, ``write``, ``delete``, ``run``, ``connect``, ``call``.
        tool: The tool's name.
        input: The call's arguments (a copy), as they will be used.
        reason: Why it is asked.
        verdicts: Everything in the call that needs an answer; one answer is for all of it.
        suggestions: Rules that would allow it from now on: as few and as narrow as will do. Empty if none would.
        wider: Rules that would allow more of the kind, too; those of ``suggestions`` where there are no wider ones.
        call_id: Id of the call.
        agent: Name of the agent that makes it; a sub-agent's own.
        preview: What the call would do to files, to the byte; ``None`` where that cannot be told.
        is_edit: Whether allowing all edits in the project would allow it.
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

    def __getitem__(self, key: str) -> Any:
        if key not in self.__struct_fields__:
            raise KeyError(key)
        return getattr(self, key)
