"""Rules against what a call touches: which of them are about it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.permissions.command_patterns import (
    CommandPattern,
    MatchCertainty,
    bounds,
    compile_command_pattern,
    matches_exactly,
    may_match,
)
from mainspring.permissions.path_patterns import PathPattern, compile_path_pattern
from mainspring.permissions.paths import ProjectPaths, ResolvedPath
from mainspring.permissions.portable import relative_program
from mainspring.permissions.rules import FILE_TOOLS, Effect, Rule, RuleSet, names_line
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.programs import uncovered
from mainspring.shell_analysis.references import normalize_host
from mainspring.shell_analysis.syntax import Word, program_name
from mainspring.text import fold

if TYPE_CHECKING:
    from mainspring.shell_analysis.syntax import AnalyzedCommand

EDIT_TOOLS = frozenset(("edit", "multi_edit", "apply_patch"))
"""Tools that show what a file holds while they change it."""

_ASSIGNS = lazy_re(r"[A-Za-z_]\w*\+?=")
_PIECE = lazy_re(r"[^\s'\"`()\[\]{};|&<>,=!$\x00-\x03]+")
_GIT_VALUED = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"))


class RuleMatch(Struct, frozen=True):
    """A rule that is about something; ``certain`` is false if only an unknown piece may make it so."""

    rule: Rule
    certain: bool = True


class RuleMatcher(Struct, frozen=True):
    """The rules that count for one tool, as questions.

    Attributes:
        rules: All rules.
        tool: Name of the tool that is called.
        place: The project and the home folder.
    """

    rules: RuleSet
    tool: str
    place: ProjectPaths

    # --- rules that tighten -----------------------------------------------------------------------------------------

    def restrict_call(self, effect: Effect) -> RuleMatch | None:
        """A rule about every call of the tool."""
        for rule in self.rules.with_effect(effect):
            if rule.tool and rule.pattern is None and self._named(rule):
                return RuleMatch(rule)
        return None

    def restrict_scope(self, effect: Effect, scope: str) -> RuleMatch | None:
        """A rule about everything of a scope."""
        for rule in self.rules.with_effect(effect):
            if rule.scope == scope and rule.pattern is None:
                return RuleMatch(rule)
        return None

    def restrict_path(
        self, effect: Effect, scope: str, target: ResolvedPath, *, by_tool: bool = True
    ) -> RuleMatch | None:
        """A rule about a path, by whatever tool it is touched."""
        guess: RuleMatch | None = None
        for rule in self.rules.with_effect(effect):
            named = by_tool and self._named(rule)
            if rule.pattern is None or not (named or self._applies_to_path_scope(rule, scope)):
                continue
            pattern = compile_path_pattern(rule.pattern)
            if target.matches_loosely(pattern, self.place):
                return RuleMatch(rule)
            if guess is None and not target.path and self._guess(pattern, target):
                guess = RuleMatch(rule, certain=False)
        return guess

    def has_read_restrictions(self) -> bool:
        """Whether a rule is against reading some paths."""
        rules = (*self.rules.with_effect("deny"), *self.rules.with_effect("ask"))
        return any(rule.pattern is not None and self._applies_to_path_scope(rule, "fs-read") for rule in rules)

    def find_rule_naming(self, target: ResolvedPath) -> Rule | None:
        """A rule against reading a path that names more of it than wildcards."""
        for rule in (*self.rules.with_effect("deny"), *self.rules.with_effect("ask")):
            if rule.pattern is None or not self._applies_to_path_scope(rule, "fs-read"):
                continue
            pattern = compile_path_pattern(rule.pattern)
            if pattern.has_literal_part and target.matches_loosely(pattern, self.place):
                return rule
        return None

    def restrict_command(self, effect: Effect, unit: AnalyzedCommand) -> RuleMatch | None:
        """A rule about a command or about one that it runs."""
        guess: RuleMatch | None = None
        for rule in self.rules.with_effect(effect):
            if rule.pattern is None or not (rule.scope == "shell-run" or self._named(rule)):
                continue
            pattern = compile_command_pattern(rule.pattern)
            if pattern.problem:  # a rule that cannot be read about commands is about all of them
                return RuleMatch(rule)
            for inner in unit.walk():
                answers = [_concerns(pattern, form) for form in _iter_forms(inner)]
                if "yes" in answers:
                    return RuleMatch(rule)
                if guess is None and (
                    "maybe" in answers or (inner.unknown and inner.scan) or _occurs_in_code(pattern, inner)
                ):
                    guess = RuleMatch(rule, certain=False)
        return guess

    def restrict_host(self, effect: Effect, host: str) -> RuleMatch | None:
        """A rule about a host."""
        for rule in self.rules.with_effect(effect):
            about = rule.scope == "network" or self._named(rule)
            if rule.pattern is not None and about and matches_host(rule.pattern, host):
                return RuleMatch(rule)
        return None

    def restrict_argument(self, effect: Effect, argument: str) -> RuleMatch | None:
        """A rule about a call that does not say what it touches."""
        for rule in self.rules.with_effect(effect):
            if rule.tool and rule.pattern is not None and self._named(rule):
                if wildcards.fullmatch(fold(wildcards.encode_wildcards(rule.pattern)), fold(argument)):
                    return RuleMatch(rule)
        return None

    # --- rules that loosen ------------------------------------------------------------------------------------------

    def allow_call_rule(self) -> Rule | None:
        """A rule that allows every call of the tool."""
        return next(
            (r for r in self.rules.with_effect("allow") if r.tool and r.pattern is None and self._named(r)), None
        )

    def allow_scope_rule(self, scope: str) -> Rule | None:
        """A rule that allows everything of a scope."""
        return next((r for r in self.rules.with_effect("allow") if r.scope == scope and r.pattern is None), None)

    def allow_path_rule(
        self, scope: str, target: ResolvedPath, *, exactly: bool = False, by_tool: bool = True
    ) -> Rule | None:
        """A rule that allows a path.

        Args:
            scope: What is done with it.
            target: Where it leads.
            exactly: Whether the rule has to name the very path, without a wildcard.
            by_tool: Whether rules about the tool count; for the files of a command only those about scopes do.
        """
        for rule in self.rules.with_effect("allow"):
            if rule.pattern is None or not (rule.scope == scope or (by_tool and self._named(rule))):
                continue
            pattern = compile_path_pattern(rule.pattern)
            literal_needed = exactly or (scope == "fs-delete" and rule.scope is None)
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
    ) -> Rule | None:
        """The rule that allows a command, or the first of those that allow what it runs.

        Args:
            unit: The command.
            free: Identities of commands that need no rule.
            escapes: Paths of patterns, each with a word that leads elsewhere. See `path_bounds`.
            at_root: Whether it runs in the project's folder. In another folder a relative path is another file, so that a rule which
                names a program by one does not allow it.
        """
        own = self._pattern_for(unit, escapes, at_root=at_root)
        if own is not None:
            rule, pattern = own
            if unit.needs != "both" or pattern.exact:
                return rule
        if not unit.inner or unit.needs == "self" or (unit.needs == "both" and own is None):
            return None
        found = [
            self.allow_command_rule(inner, free, escapes, at_root=at_root)
            for inner in unit.inner
            if id(inner) not in free
        ]
        if any(rule is None for rule in found):
            return None
        return found[0] if found else (own[0] if own else None)

    def allows_line(self, source: str) -> Rule | None:
        """A rule that names a whole line, to the letter."""
        line = source.strip()
        for rule in self.rules.with_effect("allow"):
            if rule.pattern == line and (rule.scope == "shell-run" or self._named(rule)) and names_line(line):
                return rule
        return None

    def _pattern_for(
        self, unit: AnalyzedCommand, escapes: Container[tuple[str, str]], *, at_root: bool
    ) -> tuple[Rule, CommandPattern] | None:
        found = [
            (rule, pattern)
            for rule, pattern in self._patterns(unit)
            if matches_exactly(pattern, unit.words) and (at_root or not relative_program(rule))
        ]
        if not found:
            return None
        exempt = uncovered(unit)
        return next((each for each in found if matches_exactly(each[1], unit.words, exempt, escapes)), None)

    def _patterns(self, unit: AnalyzedCommand) -> Iterator[tuple[Rule, CommandPattern]]:
        """The patterns that may allow a command, if it is what they name."""
        if unit.unknown or unit.fed:  # its words do not say what it runs
            return
        for rule in self.rules.with_effect("allow"):
            if rule.pattern is not None and (rule.scope == "shell-run" or self._named(rule)):
                pattern = compile_command_pattern(rule.pattern)
                if not names_line(rule.pattern) and not pattern.problem and pattern.fixed >= max(unit.fixed, 1):
                    yield rule, pattern

    def path_bounds(self, unit: AnalyzedCommand) -> Iterator[tuple[str, str]]:
        """The paths of patterns that may cover words of a command: each word has to lead below the path."""
        for inner in unit.walk():
            for _, pattern in self._patterns(inner):
                yield from bounds(pattern, inner.words)

    def why_not_covered(self, unit: AnalyzedCommand) -> str:
        """Why a rule that seems to allow a command does not; empty if no rule does."""
        for inner in unit.walk():
            for rule, pattern in self._patterns(inner):
                if matches_exactly(pattern, inner.words):
                    exempt = uncovered(inner)
                    what = next((exempt[n] for n in exempt if not matches_exactly(pattern, inner.words, (n,))), "")
                    missing = what or "a path that leads out of the folder that it names"
                    return f"the rule {rule.text!r} does not cover {missing}"
        return ""

    def allow_any_command_rule(self) -> Rule | None:
        """A rule that allows every command."""
        for rule in self.rules.with_effect("allow"):
            if rule.scope == "shell-run" or self._named(rule):
                if rule.pattern is None or compile_command_pattern(rule.pattern).anything:
                    return rule
        return None

    def allow_host_rule(self, host: str) -> Rule | None:
        """A rule that allows a host."""
        for rule in self.rules.with_effect("allow"):
            about = rule.scope == "network" or self._named(rule)
            if rule.pattern is not None and about and matches_host(rule.pattern, host):
                return rule
        return None

    def allow_argument_rule(self, argument: str) -> Rule | None:
        """A rule that allows a call that does not say what it touches."""
        for rule in self.rules.with_effect("allow"):
            if rule.tool and rule.pattern is not None and self._named(rule):
                if wildcards.fullmatch(wildcards.encode_wildcards(rule.pattern), argument):
                    return rule
        return None

    # --- which rules are meant --------------------------------------------------------------------------------------

    def _named(self, rule: Rule) -> bool:
        return bool(rule.tool) and wildcards.fullmatch(wildcards.encode_wildcards(rule.tool), self.tool)

    def _applies_to_path_scope(self, rule: Rule, scope: str) -> bool:
        """Whether a rule that tightens is about paths touched in such a way, whatever the tool."""
        means = rule.scope or FILE_TOOLS.get(rule.tool)
        if means == "fs-read" and scope == "fs-write" and self.tool in EDIT_TOOLS:
            return True
        return means == scope or (means == "fs-write" and scope == "fs-delete")

    def _guess(self, pattern: PathPattern, target: ResolvedPath) -> bool:
        known = any(c not in wildcards.WILDCARDS for c in target.spelled)
        return known and target.matches_loosely(pattern, self.place, maybe=True)


def matches_host(pattern: str, host: str) -> bool:
    """Whether a pattern is about a host: ``example.com`` is that host alone, ``*.example.com`` those below it, and
    ``domain:example.com`` both.
    """
    start, colon, domain = pattern.partition(":")
    whole = bool(colon) and start.casefold() == "domain"
    pattern, host = normalize_host(domain.strip() if whole else pattern).rstrip("."), host.casefold().rstrip(".")
    if ":" not in pattern.rpartition("]")[2]:
        name, colon, port = host.rpartition(":")
        host = name.rstrip(".") if colon and port.isdigit() else host
    marked = wildcards.encode_wildcards(pattern)
    return wildcards.fullmatch(marked, host) or (whole and wildcards.fullmatch(f"{wildcards.ANY_TEXT}.{marked}", host))


def _concerns(pattern: CommandPattern, words: Sequence[Word]) -> MatchCertainty:
    answer = may_match(pattern, words)
    if answer == "maybe" and words and _ASSIGNS.match(words[0].text):
        return "no"  # what follows the assignment is asked about by itself
    return answer


def _occurs_in_code(pattern: CommandPattern, unit: AnalyzedCommand) -> bool:
    """Whether code among the arguments seems to hold a command that a pattern names."""
    if not unit.code:
        return False
    for text in (form for word in unit.words for form in _iter_spellings(word.text)):
        pieces = _PIECE.findall(text)
        if len(pieces) > 1:
            told = [Word(piece, piece) for piece in pieces]
            if any(may_match(pattern, told[start:]) == "yes" for start in range(len(told))):
                return True
    return False


def _iter_forms(unit: AnalyzedCommand) -> Iterable[tuple[Word, ...]]:
    """The forms of a command in which rules that tighten look for what they name."""
    words = unit.words
    yield words
    if words and words[0].literal and program_name(words[0].text) == "git":
        yield _without_global_options(words)
    if unit.scan:
        for start in range(1, len(words)):
            yield words[start:]
        for word in words[1:]:
            if word.literal and " " in word.text:
                yield from (tuple(Word(t, t) for t in form.split()) for form in _iter_spellings(word.text))


def _iter_spellings(text: str) -> Iterable[str]:
    """A word that may hold a command, and what it would hold behind an option in the same word."""
    yield text
    if text.startswith("--"):
        yield text.partition("=")[2]
    elif text.startswith("-"):
        yield from (text[end:] for end in (2, 3, 4))


def _without_global_options(words: tuple[Word, ...]) -> tuple[Word, ...]:
    i = 1
    while i < len(words) and words[i].text.startswith("-"):
        i += 2 if words[i].text in _GIT_VALUED else 1
    return (words[0], *words[i:])
