"""Command patterns: compared with the words of one simple command, token by token."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.syntax import Word, program_name
from mainspring.text import fold

ANY_WORDS = "**"
"""The token that stands for any number of words."""

MatchCertainty = Literal["yes", "maybe", "no"]
"""Whether a rule that tightens is about a command, as far as can be known."""


class CommandPattern(Struct, frozen=True):
    """A pattern, taken apart.

    Attributes:
        tokens: Its words, wildcards marked; ``**`` stands for any number of words, and so does a ``*`` at the end.
        fixed: How many words at its beginning it names without a wildcard.
        unquoted: What stood outside quotes.
        problem: What is wrong with it; empty if nothing is.
    """

    tokens: tuple[str, ...]
    fixed: int
    unquoted: str
    problem: str = ""

    @property
    def anything(self) -> bool:
        """Whether it stands for every command."""
        return self.tokens == (ANY_WORDS,)

    @property
    def exact(self) -> bool:
        """Whether it holds no wildcard."""
        return self.fixed == len(self.tokens)


@lru_cache(2048)
def compile_command_pattern(text: str) -> CommandPattern:
    """Take a pattern apart. Never raises; see `CommandPattern.problem`."""
    reader = _PatternTokenizer(text)
    tokens = reader.tokens()
    if reader.open_quote:
        return CommandPattern(
            (), 0, "", f"has an open quote {reader.open_quote}; close it, or put a backslash before it"
        )
    if not tokens:
        return CommandPattern((), 0, "", "has an empty pattern; write the command, as in 'git status'")
    tokens = [ANY_WORDS if t == wildcards.ANY_TEXT * 2 else t for t in tokens]
    if tokens[-1] == wildcards.ANY_TEXT:
        tokens[-1] = ANY_WORDS
    fixed = next((i for i, t in enumerate(tokens) if t == ANY_WORDS or not wildcards.is_literal(t)), len(tokens))
    return CommandPattern(tuple(tokens), fixed, reader.unquoted)


class _PatternTokenizer:
    """Splits a pattern into words, as a shell would, and tells wildcards from quoted characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.unquoted = ""
        self.open_quote = ""

    def tokens(self) -> list[str]:
        found: list[str] = []
        current: str | None = None
        i = 0
        while i < len(self.text):
            char = self.text[i]
            i += 1
            if char.isspace():
                self.unquoted += char
                if current is not None:
                    found.append(current)
                current = None
                continue
            current = current or ""
            if char in "'\"":
                piece, i = self._quoted(char, i)
                current += piece
            elif char == "\\" and i < len(self.text):
                current += self.text[i]
                i += 1
            else:
                self.unquoted += char
                home = char == "~" and not current and self.text[i : i + 1] in ("", "/", " ")
                current += wildcards.HOME if home else wildcards.encode_wildcards(char)
        return found if current is None else [*found, current]

    def _quoted(self, quote: str, i: int) -> tuple[str, int]:
        piece = ""
        while i < len(self.text):
            char = self.text[i]
            i += 1
            if char == quote:
                return piece, i
            if char == "\\" and quote == '"' and self.text[i : i + 1] in ("\\", '"', "$", "`"):
                char = self.text[i : i + 1]
                i += 1
            piece += char
        self.open_quote = quote
        return piece, i


def matches_exactly(
    pattern: CommandPattern,
    words: Sequence[Word],
    uncovered: Container[int] = (),
    escapes: Container[tuple[str, str]] = (),
) -> bool:
    """Whether a pattern is about a command for certain, to the letter.

    Args:
        pattern: The pattern.
        words: The command.
        uncovered: The positions of words that no wildcard covers, such as options that are not known to be harmless.
        escapes: Tokens of patterns, each with a word that leads elsewhere than the token. See `bounds`.
    """

    def surely(token: str, word: Word, number: int) -> bool:
        if token in (wildcards.ANY_TEXT, ANY_WORDS):
            return number not in uncovered and (token == ANY_WORDS or not word.splits)
        if wildcards.is_literal(token):
            return token == word.text and (number > 0 or (token, word.text) not in escapes)
        if number in uncovered and ("=" not in fixed_part(token) or number - 1 in uncovered or "$" in word.text):
            return False  # only an option or a setting that the token names; make expands a "$" in its value
        return word.literal and _covers(token, word.text) and (token, word.text) not in escapes

    return _run(pattern.tokens, words, surely)


def bounds(pattern: CommandPattern, words: Sequence[Word]) -> Iterator[tuple[str, str]]:
    """The tokens of a pattern that are paths, each with a word that it may cover. The word has to lead below the token's folder."""
    if words and "/" in pattern.tokens[0] and pattern.tokens[0] == words[0].text:
        yield pattern.tokens[0], words[0].text
    for token in pattern.tokens:
        if token == ANY_WORDS or wildcards.is_literal(token):
            continue
        yield from ((token, w.text) for w in words[1:] if _is_path(token, w.text) and _covers(token, w.text))


def fixed_part(token: str) -> str:
    """A token up to its first wildcard."""
    return token[: next((i for i, c in enumerate(token) if c in wildcards.WILDCARDS), len(token))]


def _covers(token: str, text: str) -> bool:
    if "://" in fixed_part(token) and not _has_same_origin(token, text):
        return False
    if not _is_path(token, text):
        return wildcards.fullmatch(token, text)
    return wildcards.fullmatch(posixpath.normpath(token), posixpath.normpath(text))


def _has_same_origin(token: str, text: str) -> bool:
    """Return True if an address names the host that a pattern names; a wildcard at the end of the host stands for a path."""
    wanted, found = _ORIGIN.match(token), _ORIGIN.match(text)
    if wanted is None or found is None:
        return False
    return wildcards.fullmatch(wanted[0].rstrip(wildcards.ANY_TEXT), found[0])


def _is_path(token: str, text: str) -> bool:
    """Whether a token with a wildcard is compared as a path: it names a part of one."""
    fixed = fixed_part(token)
    return "/" in token or ("/" in text and bool(fixed) and not _VALUE_FOLLOWS.search(fixed))


_ORIGIN = lazy_re(r"[^/]*://[^/?#\\]*")
"""The part of an address that says which host is meant."""

_VALUE_FOLLOWS = lazy_re(r"[=:,@]$|^-\w$")
"""The end of a name of which any value may follow."""


def may_match(pattern: CommandPattern, words: Sequence[Word]) -> MatchCertainty:
    """Whether a pattern is about a command, for rules that tighten: it names how the command begins, and what is unknown
    in the command may be just what it names.
    """
    tokens = pattern.tokens if pattern.tokens[-1] == ANY_WORDS else (*pattern.tokens, ANY_WORDS)
    if _run(tokens, words, _matches_loosely):
        return "yes"
    return "maybe" if _run(tokens, words, _could_match) else "no"


_Matches = Callable[[str, Word, int], bool]


def _matches_loosely(token: str, word: Word, number: int) -> bool:
    if token == ANY_WORDS:
        return True
    if token == wildcards.ANY_TEXT:
        return not word.splits
    if not word.literal:
        return False
    return wildcards.fullmatch(token, word.text) or (
        number == 0 and wildcards.fullmatch(fold(token), program_name(word.text))
    )


def _could_match(token: str, word: Word, number: int) -> bool:
    if token in (wildcards.ANY_TEXT, ANY_WORDS) or wildcards.may_match(token, word.text):
        return True
    return number == 0 and wildcards.may_match(fold(token), program_name(word.text))


def _run(tokens: tuple[str, ...], words: Sequence[Word], matches_word: _Matches) -> bool:
    guessing = matches_word is _could_match
    states = _closure({0}, tokens)
    for number, word in enumerate(words):
        following: set[int] = set()
        for i in states:
            if i < len(tokens) and matches_word(tokens[i], word, number):
                following.add(i if tokens[i] == ANY_WORDS else i + 1)
        if guessing and word.splits:  # it may be no word at all, or several
            following |= states
            following |= set(range(min(states, default=0), len(tokens) + 1))
        states = _closure(following, tokens)
        if not states:
            return False
    return len(tokens) in states


def _closure(states: set[int], tokens: tuple[str, ...]) -> set[int]:
    found = set(states)
    for start in states:
        i = start
        while i < len(tokens) and tokens[i] == ANY_WORDS:
            i += 1
            found.add(i)
    return found
