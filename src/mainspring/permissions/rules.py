"""Grammar and sources of permission rules.

```
rule   = tool | tool "(" pattern ")" | "scope:" scope | "scope:" scope "(" pattern ")"
scope  = fs-read | fs-write | fs-delete | shell-run | network
```
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_function, lazy_re
from mainspring.permissions.command_patterns import compile_command_pattern
from mainspring.permissions.path_patterns import compile_path_pattern
from mainspring.shell_analysis import wildcards
from mainspring.text import code_point, escape_invisible, find_invisible, suggest_name
from mainspring.tools import Scope
from mainspring.tools.names import COMMON_ALIASES

if TYPE_CHECKING:
    from mainspring.shell_analysis.commands import analyze
else:  # most rules do not need the analysis of commands, which is slow to import
    analyze = lazy_function("mainspring.shell_analysis.commands", "analyze")

Effect = Literal["allow", "ask", "deny"]
"""The effect of a rule."""

RuleSourceKind = Literal["flag", "code", "project", "user", "default"]
"""The kind of place in which a rule is defined."""

EFFECTS: tuple[Effect, ...] = get_args(Effect)
SCOPES: tuple[Scope, ...] = get_args(Scope)

FILE_TOOLS: Mapping[str, Scope] = {
    "read_file": "fs-read",
    "grep": "fs-read",
    "glob": "fs-read",
    "list_files": "fs-read",
    "write_file": "fs-write",
    "edit": "fs-write",
    "multi_edit": "fs-write",
    "apply_patch": "fs-write",
}
"""Tools whose ask and deny patterns apply to every access to such a path, including by the shell."""

COMMAND_TOOLS = frozenset({"shell"})
"""Tools whose pattern is a command, so that it can be validated before any call."""

URL_TOOLS = frozenset({"fetch"})
"""Tools whose pattern is a host."""

_NAME = lazy_re(r"[A-Za-z0-9_*][A-Za-z0-9_.:*/-]*")
_OPERATOR = lazy_re(r"&&|\|\||[;|&<>\n`]|\$\(")
_WILDCARD = lazy_re(r"[*?]")
_PLAIN_COMMAND = lazy_re(r"[\w./:@%+ -]+")


class RuleSource(Struct, frozen=True):
    """The place in which a rule is defined.

    Attributes:
        kind: A flag of the command, code, the project's settings, the user's settings, or the defaults.
        place: For display: ``--allow``, or a file and the key in it.
        trusted: Whether its allow rules apply. The settings of a project that the user has not trusted may only deny and ask.
    """

    kind: RuleSourceKind = "code"
    place: str = ""
    trusted: bool = True

    def __str__(self) -> str:
        return self.place or self.kind


class PermissionRule(Struct, frozen=True):
    """One rule.

    Attributes:
        effect: The effect of the rule.
        text: The rule as written.
        origin: The source of the rule.
        tool: Name of the tools that it matches, with ``*`` for any characters; empty for a rule for a scope.
        scope: The scope that it matches, if it names one.
        pattern: The text in parentheses; ``None`` if it matches every call.
    """

    effect: Effect
    text: str
    origin: RuleSource = RuleSource()
    tool: str = ""
    scope: Scope | None = None
    pattern: str | None = None

    def __str__(self) -> str:
        return f"{self.effect} {self.text} ({self.origin})"


class RuleSet(Struct, frozen=True, cache_hash=True):
    """Rules of all sources, in the order in which they are searched for the deciding one."""

    rules: tuple[PermissionRule, ...] = ()

    @classmethod
    def build(
        cls,
        *,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        deny: Iterable[str] = (),
        origin: RuleSource | None = None,
    ) -> RuleSet:
        """Parse the three lists of rules of one source.

        Raises:
            ConfigError: If a rule is invalid; the message names the rule, its place, and a correction.
        """
        origin = origin or RuleSource()
        lists: tuple[tuple[Effect, Iterable[str]], ...] = (("allow", allow), ("ask", ask), ("deny", deny))
        for effect, texts in lists:
            value = cast("object", texts)
            if isinstance(value, str) or not isinstance(
                value, Iterable
            ):  # a string would be split into one rule for each letter
                raise ConfigError(
                    f'{effect} must be a list of rules, not {value!r:.80}; for example, {effect}=["read_file(docs/**)"]'
                )
        return cls(tuple(parse_rule(text, effect, origin) for effect, texts in lists for text in texts))

    @classmethod
    def from_settings(
        cls, section: Mapping[str, Any], *, kind: RuleSourceKind, place: str, trusted: bool = True
    ) -> RuleSet:
        """Parse the ``permissions`` section of a settings file: the lists ``allow``, ``ask``, and ``deny``.

        Raises:
            ConfigError: If a key is not a list of strings, or a rule is invalid; the message names file and key.
        """
        rules: list[PermissionRule] = []
        for effect in EFFECTS:
            texts: object = section.get(effect, ())
            if not isinstance(texts, list | tuple):
                raise ConfigError(
                    f'{place}: permissions.{effect} must be a list of rules, for example, ["read_file(docs/**)"]'
                )
            for number, text in enumerate(cast("list[object] | tuple[object, ...]", texts)):
                where = f"{place}: permissions.{effect}[{number}]"
                if not isinstance(text, str):
                    raise ConfigError(
                        f'{where} must be a string, for example, "read_file(docs/**)", not {type(text).__name__}'
                    )
                rules.append(parse_rule(text, effect, RuleSource(kind, where, trusted)))
        return cls(tuple(rules))

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(self.rules + other.rules)

    def __iter__(self) -> Iterator[PermissionRule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def with_effect(self, effect: Effect) -> tuple[PermissionRule, ...]:
        """Return the rules of one effect that apply; allow rules from untrusted places do not."""
        return _rules_with_effect(self, effect)


@lru_cache(32)
def _rules_with_effect(rules: RuleSet, effect: Effect) -> tuple[PermissionRule, ...]:
    return tuple(r for r in rules if r.effect == effect and (effect != "allow" or r.origin.trusted))


def find_unused_rules(rules: RuleSet, tools: Iterable[str]) -> tuple[PermissionRule, ...]:
    """Return the rules that name none of these tools: they may be misspelled, so that a denial denies nothing."""
    known = tuple(tools)
    return tuple(
        rule
        for rule in rules
        if rule.tool and not any(wildcards.fullmatch(wildcards.encode_wildcards(rule.tool), name) for name in known)
    )


def describe_unused_rules(rules: RuleSet, tools: Iterable[str]) -> tuple[str, ...]:
    """Return a notice about each rule that names none of these tools; those for tools of MCP servers, which may not be known yet, are skipped."""
    known = tuple(tools)
    notices: list[str] = []
    for rule in find_unused_rules(rules, known):
        if not rule.tool.startswith("mcp__"):
            alias = COMMON_ALIASES.get(rule.tool.lower(), "")
            hint = f"Did you mean {alias!r}?" if alias else suggest_name(rule.tool.lower(), known)
            place = f" ({rule.origin.place})" if rule.origin.place else ""
            notices.append(
                f"The {rule.effect} rule {rule.text!r}{place} matches no tool and has no effect. {hint}".rstrip()
            )
    return tuple(notices)


def parse_rule(text: str, effect: Effect, origin: RuleSource | None = None) -> PermissionRule:
    """Parse one rule.

    Raises:
        ConfigError: If it is invalid; the message names the rule, its place, and a correction.
    """
    origin = origin or RuleSource()
    rule = text.strip()
    try:
        return _parse(rule, effect, origin)
    except _RuleSyntaxError as error:
        raise ConfigError(f"{origin}: the {effect} rule {escape_invisible(rule)!r} {error}") from None


@lru_cache(1024)
def names_line(pattern: str) -> bool:
    """Return True if the pattern of a rule is a whole line: a command with operators, or a line that cannot be parsed.

    Such a rule allows that exact line and has no wildcards.
    """
    if _PLAIN_COMMAND.fullmatch(pattern):
        return False
    compiled = compile_command_pattern(pattern)
    if _OPERATOR.search(compiled.unquoted):
        return True
    if compiled.problem or _WILDCARD.search(compiled.unquoted):
        return False  # a pattern of words, or a misspelled one
    return analyze(pattern).problem != ""


class _RuleSyntaxError(Exception):
    """A syntax error in a rule, with a correction."""


def _parse(rule: str, effect: Effect, origin: RuleSource) -> PermissionRule:
    if not rule:
        raise _RuleSyntaxError("is empty; write a tool's name, for example, 'read_file', or 'tool(pattern)'")
    odd = find_invisible(rule)
    if odd or "\n" in rule:
        raise _RuleSyntaxError(
            f"contains the invisible character {code_point(odd or chr(10))}; write the rule on one line without it"
        )
    head, parenthesis, rest = rule.partition("(")
    pattern: str | None = None
    if parenthesis:
        if not rest.endswith(")"):
            raise _RuleSyntaxError(
                f"has no closing parenthesis at its end; write '{head.strip()}({rest.rstrip(') ')})'"
            )
        pattern = rest[:-1].strip()
        if not pattern:
            raise _RuleSyntaxError(f"has an empty pattern; write '{head.strip()}' for every call")
    head = head.strip()
    scope = _scope(head, pattern)
    if scope is None and not _NAME.fullmatch(head):
        raise _RuleSyntaxError(_suggest_fix(rule, head))
    _check_pattern(head, scope, pattern, effect)
    if scope is None and head.startswith("mcp__") and "__" not in head[5:] and "*" not in head:
        head += "__*"  # a server name alone means all of its tools, like in other programs
    return PermissionRule(effect, rule, origin, "" if scope else head, scope, pattern)


def _scope(head: str, pattern: str | None) -> Scope | None:
    tail = f"({pattern})" if pattern is not None else ""
    if head in SCOPES:
        raise _RuleSyntaxError(f"names a scope as if it were a tool; write 'scope:{head}{tail}'")
    if not head.lower().startswith("scope:"):
        return None
    name = head[len("scope:") :].strip()
    if name not in SCOPES:
        near = difflib.get_close_matches(name.lower(), SCOPES, 1, 0.4)
        hint = f"write 'scope:{near[0]}{tail}'" if near else f"the scopes are {', '.join(SCOPES)}"
        raise _RuleSyntaxError(f"names an unknown scope; {hint}")
    return name


def _suggest_fix(rule: str, head: str) -> str:
    if " " in head:
        return f"is not a tool's name; for a command write 'shell({rule})'"
    if "(" not in rule and "[" in rule:
        return f"is not a tool's name; a pattern goes in parentheses: '{rule.replace('[', '(').replace(']', ')')}'"
    return "does not begin with a tool's name; write 'tool', 'tool(pattern)', 'scope:fs-write' or 'scope:fs-write(pattern)'"


def _check_pattern(head: str, scope: Scope | None, pattern: str | None, effect: Effect) -> None:
    if pattern is None:
        return
    if scope == "shell-run" or head in COMMAND_TOOLS:
        _check_command(head, pattern, effect)
    elif scope == "network" or head in URL_TOOLS:
        _check_host(head, pattern)
    elif scope or head in FILE_TOOLS:
        problem = compile_path_pattern(pattern).problem
        if problem:
            raise _RuleSyntaxError(problem)


def _check_command(head: str, pattern: str, effect: Effect) -> None:
    if effect == "allow" and names_line(pattern):
        return
    compiled = compile_command_pattern(pattern)
    if compiled.problem:
        raise _RuleSyntaxError(compiled.problem)
    operator = _OPERATOR.search(compiled.unquoted)
    if operator and operator[0] in "<>":
        raise _RuleSyntaxError(
            "contains a redirection; a rule matches one simple command. Remove the file and allow the write separately: "
            "'scope:fs-write(PATH)'"
        )
    if operator:
        raise _RuleSyntaxError(
            f"contains {operator[0]!r}; a rule is matched against each simple command of a line, so write one rule for each, "
            "or quote the character if it is literal"
        )
    first = pattern.split(None, 1)[0]
    if first.endswith(":*"):
        raise _RuleSyntaxError(f"would match only a program called {first[:-1]!r}...; write '{head}({first[:-2]} *)'")
    if effect == "allow" and compiled.fixed == 0 and not compiled.matches_everything:
        raise _RuleSyntaxError(
            f"does not name a program; begin the pattern with one, for example, '{head}(git {pattern})'"
        )


def _check_host(head: str, pattern: str) -> None:
    if "://" in pattern or "/" in pattern:
        host = pattern.partition("://")[2] or pattern
        raise _RuleSyntaxError(
            f"contains a URL; write the host only: '{head}({host.partition('/')[0] or 'example.com'})'"
        )
    if " " in pattern:
        raise _RuleSyntaxError(f"contains a space; write one rule for each host: '{head}({pattern.split()[0]})'")
