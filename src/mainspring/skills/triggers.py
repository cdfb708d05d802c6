"""Finds the skills that a prompt triggers, by name, words, and regular expressions, and ranks them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.skills.skill import Skill

MAX_PROMPT_CHARS = 20_000
"""Maximum characters of a prompt that are searched."""


_BUDGET = 2_000_000
"""Maximum number of steps of a search in the worst case; about a tenth of a second for `re`, less for short texts."""

_LENGTHS = tuple(2**n for n in range(21))
_ENDLESS = 10**12
_MAX_PATTERN_CHARS = 500
_LIST_REQUEST = lazy_re(
    r"(?<!\w)(?:what (?:can|could) you do|what are you able to do|(?:list|show)(?: me)?(?: all| your| the| available)* skills"
    r"|(?:which|what) skills|what are your (?:skills|capabilities))(?!\w)",
    re.IGNORECASE,
)


class TriggerMatch(Struct, frozen=True):
    """A skill that a prompt triggers.

    Attributes:
        skill: The skill.
        is_named: Whether the prompt names it.
        phrase_words: Number of words of the longest matching phrase; 1 for single words, 0 if only a pattern matched.
        trigger_count: Number of matching triggers.
    """

    skill: Skill
    is_named: bool = False
    phrase_words: int = 0
    trigger_count: int = 0


class TriggerMatcher:
    """Matches the triggers of skills against prompts.

    Args:
        skills: The skills.

    Attributes:
        problems: Ignored patterns, and the reasons.
        has_triggers: Whether any skill has triggers.
    """

    def __init__(self, skills: Iterable[Skill]) -> None:
        self.problems: list[str] = []
        self._compiled = [self._compile(skill) for skill in skills]
        self.has_triggers = any(compiled.words or compiled.patterns for compiled in self._compiled)

    def _compile(self, skill: Skill) -> _CompiledTriggers:
        triggers = skill.triggers
        words = tuple(dict.fromkeys(w for t in (*triggers.keywords, *triggers.verbs) if (w := " ".join(t.split()))))
        patterns: list[tuple[re.Pattern[str], int]] = []
        for text in triggers.patterns:
            limit = max_safe_length(text) if len(text) <= _MAX_PATTERN_CHARS else -1
            if limit < 0:
                self.problems.append(f"{skill.name}: the trigger pattern {text[:80]!r} is invalid or takes too long")
                continue
            patterns.append((re.compile(text, re.IGNORECASE), limit))
        triggered = bool(words or patterns)
        return _CompiledTriggers(
            skill, _name_pattern(skill.name, allow_bare_name=triggered), _word_pattern(words), tuple(patterns)
        )

    def find(self, prompt: str) -> list[TriggerMatch]:
        """Return the skills that a prompt triggers, in their original order.

        Keywords and verbs match at word boundaries, ignoring case; a phrase may contain a line break. A skill without triggers matches only
        its name: as ``/name`` or ``$name``, as "the name skill", or, for a name of several words, unchanged.
        """
        text = prompt[:MAX_PROMPT_CHARS]
        hits: list[TriggerMatch] = []
        for compiled in self._compiled:
            is_named = compiled.name.search(text) is not None
            found = (
                {" ".join(m.casefold().split()) for m in compiled.words.findall(text)} if compiled.words else set[str]()
            )
            matched = sum(len(text) <= limit and p.search(text) is not None for p, limit in compiled.patterns)
            if is_named or found or matched:
                phrase_words = max((len(f.split()) for f in found), default=0)
                hits.append(TriggerMatch(compiled.skill, is_named, phrase_words, len(found) + matched))
        return hits


class _CompiledTriggers(Struct, frozen=True):
    skill: Skill
    name: re.Pattern[str]
    words: re.Pattern[str] | None
    patterns: Sequence[tuple[re.Pattern[str], int]]


def asks_for_skills(prompt: str) -> bool:
    """Return True if a prompt asks what is possible: "what can you do", "list skills"."""
    return _LIST_REQUEST.search(prompt[:MAX_PROMPT_CHARS]) is not None


def _word_pattern(words: Sequence[str]) -> re.Pattern[str] | None:
    """Return a pattern for whole words. The longest of several possible matches wins."""
    if not words:
        return None
    each = [r"\s+".join(map(re.escape, word.split())) for word in sorted(words, key=len, reverse=True)]
    return re.compile(rf"(?<!\w)(?:{'|'.join(each)})(?!\w)", re.IGNORECASE)


def _name_pattern(name: str, *, allow_bare_name: bool) -> re.Pattern[str]:
    word = re.escape(name)
    if allow_bare_name or "-" in name:
        return re.compile(rf"(?<![\w-]){word}(?![\w-])", re.IGNORECASE)
    return re.compile(
        rf"(?<![\w/$-])[/$]{word}(?![\w/-])|(?<![\w-]){word} skill(?!\w)|(?<!\w)skill {word}(?![\w-])", re.IGNORECASE
    )


def sort_matches(matches: Iterable[TriggerMatch], last_used: Mapping[str, float], limit: int) -> list[Skill]:
    """Return the best matches.

    A skill that the prompt names comes first, then one with a matching phrase (the more words the better), then one that was used more
    recently, then one with more matching triggers, then by name.

    Args:
        matches: The matches.
        last_used: When a skill was last used, by name. A greater number is later.
        limit: Maximum number of results.
    """

    def key(hit: TriggerMatch) -> tuple[bool, int, float, int, str]:
        phrase_words = hit.phrase_words if hit.phrase_words > 1 else 0
        return (
            not hit.is_named,
            -phrase_words,
            -last_used.get(hit.skill.name, 0.0),
            -hit.trigger_count,
            hit.skill.name,
        )

    return [hit.skill for hit in sorted(matches, key=key)[: max(limit, 0)]]


def max_safe_length(pattern: str) -> int:
    """Return the maximum length of a text that `re.search` can search with this pattern in bounded time.

    `re` needs exponential time for some patterns (`^(a+)+$`), cannot be interrupted, and blocks the whole process. The
    limit comes from an upper bound of the number of ways in which the pattern can match a text; -1 is a bad pattern.
    """
    try:
        tree = _parse(pattern)
    except _UNREADABLE:
        return -1
    return -1 if tree is None else _safe_length(tree)


_UNREADABLE = (re.error, OverflowError, RecursionError, KeyError)


def _parse(pattern: str) -> Any:
    """Return the parse tree; `None` if this Python version does not provide it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `[[` is a literal in today's Python
        re.compile(pattern)
        try:
            parser = import_module("re._parser")
        except ImportError:
            return None
        return parser.parse(pattern)


def _safe_length(tree: Any) -> int:
    """Return the longest text, as a power of two, that `re` can search within the budget."""
    anchored = (
        bool(len(tree)) and str(tree[0][0]) == "AT" and str(tree[0][1]) in {"AT_BEGINNING", "AT_BEGINNING_STRING"}
    )
    size = tree.getwidth()[0] + len(tree)
    limit = 0
    for length in _LENGTHS:
        starts = 1 if anchored else length + 1
        if _ways(tree, length) * (length + size) * starts > _BUDGET:
            break
        limit = length
    return limit


def _ways(items: Iterable[Any], length: int) -> int:
    """Return an upper bound of the number of paths through the expression in a text of a given length."""
    total = 1
    for operation, argument in items:
        match str(operation):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                total *= _repeat_ways(argument, length)
            case "BRANCH":
                total *= sum(_ways(each, length) for each in argument[1])
            case "SUBPATTERN":
                total *= _ways(argument[3], length)
            case "ASSERT" | "ASSERT_NOT":
                total *= 1 + _ways(argument[1], length)
            case "ATOMIC_GROUP":
                total *= _ways(argument, length)
            case "GROUPREF_EXISTS":
                total *= _ways(argument[1], length) + _ways(argument[2] or (), length)
            case _:
                pass
        if total >= _ENDLESS:
            return _ENDLESS
    return total


def _repeat_ways(argument: tuple[int, Any, Any], length: int) -> int:
    low, high, body = argument
    rounds = min(int(high), max(int(low), length // max(1, body.getwidth()[0]) + 1))
    each = _ways(body, length)
    if each == 1:
        return max(1, rounds - int(low) + 1)
    if rounds > 40:
        return _ENDLESS
    return min(_ENDLESS, each**rounds * (rounds - int(low) + 1))
