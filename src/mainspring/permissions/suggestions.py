"""Suggest rules that would allow a call that asks, the narrowest first.

Each is tested before it is suggested.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_function, lazy_re
from mainspring.permissions.command_patterns import compile_command_pattern, matches_exactly
from mainspring.permissions.paths import ProjectPaths, ResolvedPath
from mainspring.permissions.rules import names_line, parse_rule
from mainspring.shell_analysis import wildcards
from mainspring.text import find_invisible

if TYPE_CHECKING:
    from mainspring.shell_analysis.programs import uncovered
    from mainspring.shell_analysis.syntax import AnalyzedCommand
else:  # the tables of programs are needed only for commands
    uncovered = lazy_function("mainspring.shell_analysis.programs", "uncovered")

MAX_RULE_CHARS = 300
"""Maximum length of a suggested rule; users would not read a longer one."""

_SAFE = lazy_re(r"[A-Za-z0-9_@%+=:,./{}^-]+")


def suggest_path_rules(tool: str, scope: str, target: ResolvedPath, place: ProjectPaths) -> tuple[str, ...]:
    """Suggest rules for a path.

    Args:
        tool: The tool to name; empty for a rule for the scope.
        scope: How the path is used.
        target: The resolved path.
        place: The project and the home folder.
    """
    head = tool or f"scope:{scope}"
    if not target.path:
        return ()
    inside = target.is_inside(place)
    name = "/".join(target.relative_parts(place)) if inside else "/" + "/".join(target.real)
    narrow = f"{head}({name or '.'})"
    return _valid(narrow, f"{head}(**)" if inside else "")


def suggest_command_rules(tool: str, unit: AnalyzedCommand) -> tuple[str, ...]:
    """Suggest rules for a simple command: the exact command, and the command with any arguments if that allows little more."""
    if unit.unknown:
        return ()
    words = [w.text for w in unit.words]
    if not all(w.literal and not w.splits for w in unit.words):
        known = next(i for i, w in enumerate(unit.words) if not w.literal or w.splits)
        if known < max(unit.fixed, 1):
            return ()
        return _valid_for_command(unit, f"{tool}({quote(words[:known])} *)")
    length = max(unit.fixed, min(2, len(words)) if _has_subcommand(words) else 1, *(n + 1 for n in uncovered(unit)))
    wide = f"{tool}({quote(words[:length])} *)" if length < len(words) else ""
    return _valid_for_command(unit, f"{tool}({quote(words)})", wide)


def line_rules(tool: str, line: str) -> tuple[str, ...]:
    """Suggest the rule for a line that cannot be parsed: the exact line."""
    rules = _valid(f"{tool}({line.strip()})")
    return rules if rules and names_line(line.strip()) else ()


def suggest_argument_rules(tool: str, argument: str) -> tuple[str, ...]:
    """Suggest rules for a call that does not declare what it touches."""
    narrow = f"{tool}({argument})" if argument and "*" not in argument and "?" not in argument else ""
    return _valid(narrow, tool)


def suggest_host_rules(tool: str, host: str) -> tuple[str, ...]:
    """Suggest rules for a host."""
    return _valid(f"{tool}({host})" if tool else f"scope:network({host})")


def quote(words: list[str]) -> str:
    """Quote words as a command pattern that matches exactly them."""
    return " ".join(_quoted(w) for w in words)


def _quoted(word: str) -> str:
    if word and _SAFE.fullmatch(word):
        return word
    if word.startswith(wildcards.HOME):
        return "~" + (_quoted(word[1:]) if word[1:] else "")
    if "'" not in word:
        return f"'{word}'"
    return "".join(f"\\{c}" if not _SAFE.fullmatch(c) else c for c in word)


def _has_subcommand(words: list[str]) -> bool:
    return len(words) > 1 and re.fullmatch(r"[a-z][a-z0-9:-]*", words[1]) is not None


def _valid(*rules: str) -> tuple[str, ...]:
    found: list[str] = []
    for rule in rules:
        if not rule or len(rule) > MAX_RULE_CHARS or find_invisible(rule) or "\n" in rule:
            continue
        try:
            parse_rule(rule, "allow")
        except ConfigError:
            continue
        found.append(rule)
    return tuple(found)


def _valid_for_command(unit: AnalyzedCommand, *rules: str) -> tuple[str, ...]:
    """Return the rules that are valid and allow the command."""
    found: list[str] = []
    for rule in _valid(*rules):
        pattern = compile_command_pattern(rule.partition("(")[2][:-1])
        if pattern.fixed >= max(unit.fixed, 1) and matches_exactly(pattern, unit.words, uncovered(unit)):
            found.append(rule)
    return tuple(found)
