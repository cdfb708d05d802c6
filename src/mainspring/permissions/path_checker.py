"""Decide about one path."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from mainspring.lazy import lazy_function
from mainspring.permissions.decisions import PermissionOutcome, Verdict
from mainspring.permissions.path_patterns import PathPattern
from mainspring.permissions.paths import TOO_LONG, ProjectPaths, ResolvedPath, is_too_long
from mainspring.permissions.rule_matcher import RuleMatcher
from mainspring.permissions.rules import PermissionRule
from mainspring.permissions.sensitive_paths import CHANGES_PERMISSIONS, SensitivePaths
from mainspring.shell_analysis import wildcards
from mainspring.text import escape_invisible, fold

if TYPE_CHECKING:
    from mainspring.permissions.suggestions import suggest_path_rules
else:
    suggest_path_rules = lazy_function("mainspring.permissions.suggestions", "suggest_path_rules")

PermissionMode = Literal["defaults", "ask", "allow"]
"""The default for a call that no rule matches.

``defaults``: reading inside the project is allowed, everything else asks. ``ask``: everything asks. ``allow``: everything is
allowed except sensitive paths, which ask in every mode.
"""

GrantKey = tuple[str, str]
"""The key of a grant: a scope and a resource."""


class FileGrant(Struct, frozen=True):
    """The file access that a rule for a command implies.

    Attributes:
        rule: The rule; ``None`` if the mode allows the command.
        reads: Where it covers reading: anywhere, inside the project, or nowhere.
        changes: The same for writing.
        deletes: The same for deleting.
    """

    rule: PermissionRule | None = None
    reads: Literal["anywhere", "inside", "none"] = "none"
    changes: Literal["anywhere", "inside", "none"] = "none"
    deletes: Literal["anywhere", "inside", "none"] = "none"

    def covers(self, scope: str, target: ResolvedPath, place: ProjectPaths) -> bool:
        """Return True if the grant covers a path."""
        reach = {"fs-read": self.reads, "fs-write": self.changes, "fs-delete": self.deletes}.get(scope, "none")
        return reach == "anywhere" or (reach == "inside" and target.is_inside(place))


NO_GRANT = FileGrant()


class PathChecker(Struct, frozen=True):
    """Checker of the paths of one call.

    Attributes:
        judge: The rules.
        mode: The default where no rule matches.
        sensitive: Paths that always ask.
        grants: Grants of the session.
        by_tool: Whether rules for the tool apply to its paths; rules for commands do not.
        edits: Whether writing in the project is allowed where no rule decides.
    """

    judge: RuleMatcher
    mode: PermissionMode
    sensitive: SensitivePaths
    grants: Collection[GrantKey]
    by_tool: bool = True
    edits: bool = False

    @property
    def place(self) -> ProjectPaths:
        """The project and the home folder."""
        return self.judge.place

    def check(self, scope: str, target: ResolvedPath, cover: FileGrant = NO_GRANT) -> Verdict:
        """Decide about a path that the call certainly touches."""
        strict = self._restrict(scope, target)
        if strict is not None:
            return strict
        reason = TOO_LONG if is_too_long(target.spelled) else self.sensitive_reason(scope, target)
        if reason:
            return self._sensitive(scope, target, reason)
        rule = self.judge.allow_path_rule(scope, target, include_tool_rules=self.by_tool)
        if rule is None:
            rule = self._rule_without_pattern(scope, target)
        if rule is None and cover.covers(scope, target, self.place):
            rule = cover.rule
        if rule is not None:
            return self._decision(scope, target, "allow", f"the rule {rule.text!r} allows it", rule)
        if cover.covers(scope, target, self.place) or self._is_allowed_by_default(scope, target):
            return self._decision(scope, target, "allow", "the permission mode allows it")
        if self.edits and scope == "fs-write" and target.is_inside(self.place):
            return self._decision(scope, target, "allow", "all edits in this project are allowed for this session")
        return self._decision(scope, target, "ask", self._ask_reason(target), allow=self.suggest_rules(scope, target))

    def check_mention(self, target: ResolvedPath) -> Verdict | None:
        """Decide about a path that only occurs in an argument: None unless it is denied, asked about, or sensitive."""
        strict = self._restrict("fs-read", target)
        if strict is not None:
            return None if strict.outcome == "allow" else strict
        return self._seen_sensitive(target)

    def refused(self, scope: str, target: ResolvedPath) -> Verdict | None:
        """Return the verdict of ignore files and rules that certainly deny or ask.

        Return None if nothing does.
        """
        strict = self._restrict(scope, target)
        return None if strict is None or strict.outcome == "allow" else strict

    def deny_spelling(
        self, target: ResolvedPath, denials: Iterable[tuple[PermissionRule, PathPattern, str]]
    ) -> Verdict | None:
        """Return the verdict of the first rule that denies the spelling of a path of a command; None if no rule does.

        Args:
            target: The path.
            denials: The rules; see `RuleMatcher.path_denials`.
        """
        for rule, pattern, scope in denials:
            if target.matches_loosely(pattern, self.place):
                return self._decision(scope, target, "deny", f"the rule {rule.text!r} denies it", rule)
        return None

    def check_read_restrictions(self, target: ResolvedPath) -> Verdict | None:
        """Return the verdict of ignore files and rules against reading a path.

        Return None if nothing restricts it.
        """
        strict = self._restrict("fs-read", target)
        return None if strict is None or strict.outcome == "allow" else strict

    def check_below(self, scope: str, target: ResolvedPath) -> Verdict | None:
        """Decide about a folder of which a command may change any file: None unless a rule names a path below the folder."""
        rule = self.judge.restrict_below(scope, target)
        if rule is None or self._is_granted(scope, target):
            return None
        return self._decision(scope, target, "ask", f"it contains a path that the rule {rule.text!r} restricts", rule)

    def check_copied(self, target: ResolvedPath) -> Verdict | None:
        """Decide about a file that a command copies with others: None unless it is denied, asked about, or guarded."""
        strict = self._restrict("fs-write", target)
        if strict is not None:
            return None if strict.outcome == "allow" else strict
        full, below = tuple(map(fold, target.real)), tuple(map(fold, target.relative_parts(self.place)))
        if not self.sensitive.is_guarded(full, below):
            return None
        verdict = self._sensitive("fs-write", target, CHANGES_PERMISSIONS)
        return None if verdict.outcome == "allow" else verdict

    def check_possible_path(self, target: ResolvedPath) -> Verdict | None:
        """Decide about a plain word of a command, which may be a path or anything else.

        It asks if ignore files or rules would deny or ask about it as a path.
        """
        rule = self.judge.find_rule_naming(target)
        if (rule is None and not target.hidden) or self._is_granted("fs-read", target):
            return None
        about = target.hidden if rule is None else f"the rule {rule.text!r}"
        return self._decision("fs-read", target, "ask", f"it may be a path that {about} restricts", rule)

    def _seen_sensitive(self, target: ResolvedPath) -> Verdict | None:
        reason = self.sensitive_reason("fs-read", target)
        found = self._sensitive("fs-read", target, reason) if reason else None
        return None if found is None or found.outcome == "allow" else found

    def sensitive_reason(self, scope: str, target: ResolvedPath) -> str:
        """Return why a path always asks; empty if it does not."""
        for parts in dict.fromkeys((target.real, target.lexical)):
            full = tuple(map(fold, parts))
            below = next((parts[len(r) :] for r in self.place.roots if parts[: len(r)] == r), parts)
            reason = self.sensitive.reason(
                full, tuple(map(fold, below)), changes=scope != "fs-read", maybe=not target.path
            )
            if reason:
                return reason
        return ""

    def _restrict(self, scope: str, target: ResolvedPath) -> Verdict | None:
        """Check ignore files and deny and ask rules, and the grants that override an ask rule."""
        if target.hidden:
            return self._decision(scope, target, "deny", f"{target.hidden} excludes it, so no tool may access it")
        for effect in ("deny", "ask"):
            found = self.judge.restrict_scope(effect, scope) or self.judge.restrict_path(
                effect, scope, target, by_tool=self.by_tool
            )
            if found is None:
                continue
            if effect == "deny" and found.certain:
                return self._decision(scope, target, "deny", f"the rule {found.rule.text!r} denies it", found.rule)
            if not found.certain:
                reason = f"the rule {found.rule.text!r} may match it"
                return self._decision(scope, target, "ask", reason, found.rule)
            if self._is_granted(scope, target):
                return self._decision(scope, target, "allow", "it is allowed for this session")
            return self._decision(scope, target, "ask", f"the rule {found.rule.text!r} asks about it", found.rule)
        if self._is_granted(scope, target):
            return self._decision(scope, target, "allow", "it is allowed for this session")
        return None

    def _is_granted(self, scope: str, target: ResolvedPath) -> bool:
        return bool(target.path) and (scope, target.path) in self.grants

    def _sensitive(self, scope: str, target: ResolvedPath, reason: str) -> Verdict:
        rule = self.judge.allow_path_rule(scope, target, literal_only=True, include_tool_rules=self.by_tool)
        if rule is not None:
            return self._decision(scope, target, "allow", f"the rule {rule.text!r} names this exact path", rule)
        narrow = self.suggest_rules(scope, target)[:1]
        return self._decision(scope, target, "ask", f"{reason}, so it always asks", allow=narrow, lasting=True)

    def _rule_without_pattern(self, scope: str, target: ResolvedPath) -> PermissionRule | None:
        """Return the rule without a pattern: for files it covers the project."""
        if not target.is_inside(self.place):
            return None
        by_tool = self.by_tool and scope != "fs-delete"
        return self.judge.allow_scope_rule(scope) or (self.judge.allow_call_rule() if by_tool else None)

    def _is_allowed_by_default(self, scope: str, target: ResolvedPath) -> bool:
        if self.mode == "allow":
            return True
        return self.mode == "defaults" and scope == "fs-read" and target.is_inside(self.place)

    def _ask_reason(self, target: ResolvedPath) -> str:
        if target.unknown:
            return "it is not known which file that is"
        if not target.is_inside(self.place):
            leads = "" if target.real == target.lexical else f" (it leads to /{'/'.join(target.real)})"
            return f"it is outside the project{leads}"
        return "no rule allows it"

    def suggest_rules(self, scope: str, target: ResolvedPath) -> tuple[str, ...]:
        """Return rules that would allow the access, the narrowest first."""
        tool = self.judge.tool if self.by_tool and scope != "fs-delete" else ""
        return suggest_path_rules(tool, scope, target, self.place)

    def _decision(
        self,
        scope: str,
        target: ResolvedPath,
        outcome: PermissionOutcome,
        reason: str,
        rule: PermissionRule | None = None,
        *,
        allow: tuple[str, ...] = (),
        lasting: bool = False,
    ) -> Verdict:
        shown = escape_invisible(target.spelled.translate(_STAND_IN_DISPLAY), limit=500)
        remember = (scope, target.path) if target.path else None
        return Verdict(scope, shown, outcome, reason, rule, allow, remember, lasting)


_STAND_IN_DISPLAY: Mapping[int, str] = {
    ord(wildcards.ANY_TEXT): "…",
    ord(wildcards.ANY_CHAR): "*",
    ord(wildcards.VISIBLE): "*",
    ord(wildcards.HOME): "~",
    ord(wildcards.CWD): ".",
}
