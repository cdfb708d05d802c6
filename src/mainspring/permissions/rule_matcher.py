"""Find the rules that match a tool call."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.lazy import lazy_function, lazy_re
from mainspring.permissions.command_patterns import (
    CommandPattern,
    bounds,
    certainly_matches,
    compile_command_pattern,
    matches_exactly,
    may_match_command,
)
from mainspring.permissions.path_patterns import PathPattern, compile_path_pattern
from mainspring.permissions.paths import ProjectPaths, ResolvedPath
from mainspring.permissions.rules import FILE_TOOLS, Effect, PermissionRule, RuleSet, names_line
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.references import normalize_host
from mainspring.shell_analysis.syntax import Word, program_name, without_global_options
from mainspring.text import fold

if TYPE_CHECKING:
    from mainspring.permissions.portable import relative_program
    from mainspring.shell_analysis.programs import uncovered
    from mainspring.shell_analysis.syntax import AnalyzedCommand
else:  # the tables of programs are needed only for commands
    relative_program = lazy_function("mainspring.permissions.portable", "relative_program")
    uncovered = lazy_function("mainspring.shell_analysis.programs", "uncovered")

EDIT_TOOLS = frozenset(("edit", "multi_edit", "apply_patch"))
"""Tools that show the content of a file while they change it."""

_PIECE = lazy_re(r"[^\s'\"`()\[\]{};|&<>,=!$\x00-\x04]+")


class RuleMatch(Struct, frozen=True):
    """A matching rule; ``certain`` is false if only an unknown piece may make it match."""

    rule: PermissionRule
    certain: bool = True


class RuleMatcher(Struct, frozen=True):
    """Matcher of the rules that apply to one tool.

    Attributes:
        rules: All rules.
        tool: Name of the called tool.
        place: The project and the home folder.
        former_names: Earlier names of the tool; their rules apply, too.
    """

    rules: RuleSet
    tool: str
    place: ProjectPaths
    former_names: tuple[str, ...] = ()

    # --- deny and ask rules -----------------------------------------------------------------------------------------

    def restrict_call(self, effect: Effect) -> RuleMatch | None:
        """Return the deny or ask rule for every call of the tool."""
        for rule in self.rules.with_effect(effect):
            if rule.tool and rule.pattern is None and self._applies_to_tool(rule):
                return RuleMatch(rule)
        return None

    def restrict_scope(self, effect: Effect, scope: str) -> RuleMatch | None:
        """Return the deny or ask rule for everything of a scope."""
        for rule in self.rules.with_effect(effect):
            if rule.scope == scope and rule.pattern is None:
                return RuleMatch(rule)
        return None

    def restrict_path(
        self, effect: Effect, scope: str, target: ResolvedPath, *, by_tool: bool = True
    ) -> RuleMatch | None:
        """Return the deny or ask rule for a path, whichever tool touches it."""
        guess: RuleMatch | None = None
        for rule in self.rules.with_effect(effect):
            named = by_tool and self._applies_to_tool(rule)
            if rule.pattern is None or not (named or self._applies_to_path_scope(rule, scope)):
                continue
            pattern = compile_path_pattern(rule.pattern)
            if target.matches_loosely(pattern, self.place):
                return RuleMatch(rule)
            if guess is None and not target.path and self._may_match_path(pattern, target):
                guess = RuleMatch(rule, certain=False)
        return guess

    def restrict_below(self, scope: str, target: ResolvedPath) -> PermissionRule | None:
        """Return the deny or ask rule that names a path below a folder."""
        for rule in (*self.rules.with_effect("deny"), *self.rules.with_effect("ask")):
            if rule.pattern is not None and self._applies_to_path_scope(rule, scope):
                if target.contains_matches(compile_path_pattern(rule.pattern), self.place):
                    return rule
        return None

    def path_denials(self, scopes: Iterable[str]) -> Iterator[tuple[PermissionRule, PathPattern, str]]:
        """Return the rules that deny some paths that a command uses in one of these ways, each with the first such way."""
        for rule in self.rules.with_effect("deny"):
            scope = next((scope for scope in scopes if self._applies_to_path_scope(rule, scope)), "")
            if rule.pattern is not None and scope:
                yield rule, compile_path_pattern(rule.pattern), scope

    def has_read_restrictions(self) -> bool:
        """Return True if a rule restricts reading some paths."""
        rules = (*self.rules.with_effect("deny"), *self.rules.with_effect("ask"))
        return any(rule.pattern is not None and self._applies_to_path_scope(rule, "fs-read") for rule in rules)

    def find_rule_naming(self, target: ResolvedPath) -> PermissionRule | None:
        """Return a rule against reading a path that names more of it than wildcards."""
        for rule in (*self.rules.with_effect("deny"), *self.rules.with_effect("ask")):
            if rule.pattern is None or not self._applies_to_path_scope(rule, "fs-read"):
                continue
            pattern = compile_path_pattern(rule.pattern)
            if pattern.has_literal_part and target.matches_loosely(pattern, self.place):
                return rule
        return None

    def restrict_command(self, effect: Effect, unit: AnalyzedCommand) -> RuleMatch | None:
        """Return the deny or ask rule for a command or for one that it runs."""
        guess: RuleMatch | None = None
        for rule in self.rules.with_effect(effect):
            if rule.pattern is None or not (rule.scope == "shell-run" or self._applies_to_tool(rule)):
                continue
            pattern = compile_command_pattern(rule.pattern)
            if pattern.problem:  # an invalid deny or ask rule about commands matches all of them
                return RuleMatch(rule)
            for inner in unit.walk():
                answers = [may_match_command(pattern, inner.words, anywhere=inner.scan)]
                answers += [may_match_command(pattern, form) for form in _iter_forms(inner)]
                if "yes" in answers:
                    return RuleMatch(rule)
                if guess is None and (
                    "maybe" in answers or (inner.unknown and inner.scan) or _occurs_in_code(pattern, inner)
                ):
                    guess = RuleMatch(rule, certain=False)
        return guess

    def restrict_host(self, effect: Effect, host: str) -> RuleMatch | None:
        """Return the deny or ask rule for a host."""
        for rule in self.rules.with_effect(effect):
            about = rule.scope == "network" or self._applies_to_tool(rule)
            if rule.pattern is not None and about and matches_host(rule.pattern, host):
                return RuleMatch(rule)
        return None

    def restrict_argument(self, effect: Effect, argument: str) -> RuleMatch | None:
        """Return the deny or ask rule for a call that does not declare what it touches."""
        for rule in self.rules.with_effect(effect):
            if rule.tool and rule.pattern is not None and self._applies_to_tool(rule):
                if wildcards.fullmatch(fold(wildcards.encode_wildcards(rule.pattern)), fold(argument)):
                    return RuleMatch(rule)
        return None

    # --- allow rules ------------------------------------------------------------------------------------------------

    def allow_call_rule(self) -> PermissionRule | None:
        """Return the rule that allows every call of the tool."""
        return next(
            (r for r in self.rules.with_effect("allow") if r.tool and r.pattern is None and self._applies_to_tool(r)),
            None,
        )

    def allow_scope_rule(self, scope: str) -> PermissionRule | None:
        """Return the rule that allows everything of a scope."""
        return next((r for r in self.rules.with_effect("allow") if r.scope == scope and r.pattern is None), None)

    def allow_path_rule(
        self, scope: str, target: ResolvedPath, *, literal_only: bool = False, include_tool_rules: bool = True
    ) -> PermissionRule | None:
        """Return the rule that allows a path.

        Args:
            scope: How the path is used.
            target: The resolved path.
            literal_only: Whether the rule must name the exact path, without a wildcard.
            include_tool_rules: Whether rules for the tool apply; only rules for scopes apply to the files of a command.
        """
        for rule in self.rules.with_effect("allow"):
            if rule.pattern is None or not (
                rule.scope == scope or (include_tool_rules and self._applies_to_tool(rule))
            ):
                continue
            pattern = compile_path_pattern(rule.pattern)
            literal_needed = literal_only or (scope == "fs-delete" and rule.scope is None)
            if target.matches_exactly(pattern, self.place) and (pattern.literal or not literal_needed):
                return rule
        return None

    def allow_command_rule(
        self,
        unit: AnalyzedCommand,
        free: Container[int] = (),
        escapes: Container[tuple[str, str]] = (),
        *,
        at_root: bool = True,
    ) -> PermissionRule | None:
        """Return the rule that allows a command, or the first of those that allow its subcommands.

        Args:
            unit: The command.
            free: Identities of commands that need no rule.
            escapes: Paths of patterns, each with a word that leads outside the path. See `path_bounds`.
            at_root: Whether it runs in the project's folder. In another folder a relative path is another file, so that a rule which
                names a program by a relative path does not allow it.
        """
        own = self._pattern_for(unit, escapes, at_root=at_root)
        if own is not None:
            rule, pattern = own
            if unit.required_rules != "both" or pattern.exact:
                return rule
        if not unit.inner or unit.required_rules == "self" or (unit.required_rules == "both" and own is None):
            return None
        found = [
            self.allow_command_rule(inner, free, escapes, at_root=at_root)
            for inner in unit.inner
            if id(inner) not in free
        ]
        if any(rule is None for rule in found):
            return None
        return found[0] if found else (own[0] if own else None)

    def find_line_rule(self, source: str) -> PermissionRule | None:
        """Return the rule that names a whole line literally."""
        line = source.strip()
        for rule in self.rules.with_effect("allow"):
            if rule.pattern == line and (rule.scope == "shell-run" or self._applies_to_tool(rule)) and names_line(line):
                return rule
        return None

    def _pattern_for(
        self, unit: AnalyzedCommand, escapes: Container[tuple[str, str]], *, at_root: bool
    ) -> tuple[PermissionRule, CommandPattern] | None:
        found = [
            (rule, pattern)
            for rule, pattern in self._patterns(unit)
            if matches_exactly(pattern, unit.words) and (at_root or not relative_program(rule))
        ]
        if not found:
            return None
        exempt = uncovered(unit)
        return next((each for each in found if matches_exactly(each[1], unit.words, exempt, escapes)), None)

    def _patterns(self, unit: AnalyzedCommand) -> Iterator[tuple[PermissionRule, CommandPattern]]:
        """Return the patterns that may allow a command, if they match it."""
        if unit.unknown or unit.fed:  # the command's words do not determine the program that runs
            return
        for rule in self.rules.with_effect("allow"):
            if rule.pattern is not None and (rule.scope == "shell-run" or self._applies_to_tool(rule)):
                pattern = compile_command_pattern(rule.pattern)
                if not names_line(rule.pattern) and not pattern.problem and pattern.fixed >= max(unit.fixed, 1):
                    yield rule, pattern

    def path_bounds(self, unit: AnalyzedCommand) -> Iterator[tuple[str, str]]:
        """Return the paths of patterns that may cover words of a command: each word must lead below the path."""
        for inner in unit.walk():
            for _, pattern in self._patterns(inner):
                yield from bounds(pattern, inner.words)

    def why_not_covered(self, unit: AnalyzedCommand) -> str:
        """Return why a rule that seems to allow a command does not; empty if no rule seems to."""
        for inner in unit.walk():
            for rule, pattern in self._patterns(inner):
                if matches_exactly(pattern, inner.words):
                    exempt = uncovered(inner)
                    what = next((exempt[n] for n in exempt if not matches_exactly(pattern, inner.words, (n,))), "")
                    missing = what or "a path that leads out of the folder that it names"
                    return f"the rule {rule.text!r} does not cover {missing}"
        return ""

    def allow_any_command_rule(self) -> PermissionRule | None:
        """Return the rule that allows every command."""
        for rule in self.rules.with_effect("allow"):
            if rule.scope == "shell-run" or self._applies_to_tool(rule):
                if rule.pattern is None or compile_command_pattern(rule.pattern).matches_everything:
                    return rule
        return None

    def allow_host_rule(self, host: str) -> PermissionRule | None:
        """Return the rule that allows a host."""
        for rule in self.rules.with_effect("allow"):
            about = rule.scope == "network" or self._applies_to_tool(rule)
            if rule.pattern is not None and about and matches_host(rule.pattern, host):
                return rule
        return None

    def allow_argument_rule(self, argument: str) -> PermissionRule | None:
        """Return the rule that allows a call that does not declare what it touches."""
        for rule in self.rules.with_effect("allow"):
            if rule.tool and rule.pattern is not None and self._applies_to_tool(rule):
                if wildcards.fullmatch(wildcards.encode_wildcards(rule.pattern), argument):
                    return rule
        return None

    # --- matching ---------------------------------------------------------------------------------------------------

    def _applies_to_tool(self, rule: PermissionRule) -> bool:
        return bool(rule.tool) and _names_tool(rule.tool, self.tool, self.former_names)

    def _applies_to_path_scope(self, rule: PermissionRule, scope: str) -> bool:
        """Return True if a deny or ask rule applies to paths used in this way, whatever the tool."""
        means = rule.scope or FILE_TOOLS.get(rule.tool)
        if means == "fs-read" and scope == "fs-write" and self.tool in EDIT_TOOLS:
            return True
        return means == scope or (means == "fs-write" and scope == "fs-delete")

    def _may_match_path(self, pattern: PathPattern, target: ResolvedPath) -> bool:
        known = any(c not in wildcards.WILDCARDS for c in target.spelled)
        return known and target.matches_loosely(pattern, self.place, maybe=True)


@lru_cache(1024)
def _names_tool(pattern: str, tool: str, former_names: tuple[str, ...]) -> bool:
    """Return True if the pattern of a tool matches a name of the tool."""
    marked = wildcards.encode_wildcards(pattern)
    return any(wildcards.fullmatch(marked, name) for name in (tool, *former_names))


def matches_host(pattern: str, host: str) -> bool:
    """Return True if a pattern matches a host.

    ``example.com`` is that host alone, ``*.example.com`` its subdomains, and ``domain:example.com`` both.
    """
    start, colon, domain = pattern.partition(":")
    is_domain = bool(colon) and start.casefold() == "domain"
    pattern, host = normalize_host(domain.strip() if is_domain else pattern).rstrip("."), host.casefold().rstrip(".")
    if ":" not in pattern.rpartition("]")[2]:
        name, colon, port = host.rpartition(":")
        host = name.rstrip(".") if colon and port.isdigit() else host
    marked = wildcards.encode_wildcards(pattern)
    return wildcards.fullmatch(marked, host) or (
        is_domain and wildcards.fullmatch(f"{wildcards.ANY_TEXT}.{marked}", host)
    )


def _occurs_in_code(pattern: CommandPattern, unit: AnalyzedCommand) -> bool:
    """Return True if code among the arguments seems to contain a command that a pattern names."""
    is_opaque = unit.scan and unit.fixed == len(unit.words)
    if not unit.code and not is_opaque:
        return False
    may_run = {*range(1, unit.fixed), *uncovered(unit)}  # code, and options that may name a program
    for number, word in enumerate(unit.words):
        for text in _iter_spellings(word.text):
            pieces = _PIECE.findall(text)
            if len(pieces) > 1 or (pieces and number in may_run):
                words = [Word(piece, piece) for piece in pieces]
                if certainly_matches(pattern, words, anywhere=True):
                    return True
    return False


def _iter_forms(unit: AnalyzedCommand) -> Iterable[tuple[Word, ...]]:
    """Return the other forms of a command that deny and ask rules are compared with."""
    words = unit.words
    if words and words[0].literal and program_name(words[0].text) == "git":
        yield without_global_options(words)
    if unit.scan:
        for word in words[1:]:
            if word.literal and " " in word.text:
                yield from (tuple(Word(t, t) for t in form.split()) for form in _iter_spellings(word.text))


def _iter_spellings(text: str) -> Iterable[str]:
    """Return a word that may contain a command, and the text after an option in the same word."""
    yield text
    if text.startswith("--"):
        yield text.partition("=")[2]
    elif text.startswith("-"):
        yield from (text[end:] for end in (2, 3, 4))
