"""Command patterns, which are compared with the words of one simple command, token by token."""

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
"""The token that matches any number of words."""

MatchCertainty = Literal["yes", "maybe", "no"]
"""How certain it is that a deny or ask rule matches a command."""


class CommandPattern(Struct, frozen=True):
    """A compiled command pattern.

    Attributes:
        tokens: Its words, wildcards marked; ``**`` matches any number of words, and so does a ``*`` at the end.
        fixed: Number of words at its beginning without a wildcard.
        unquoted: The text outside quotes.
        problem: Why the pattern is invalid; empty if it is valid.
    """

    tokens: tuple[str, ...]
    fixed: int
    unquoted: str
    problem: str = ""

    @property
    def matches_everything(self) -> bool:
        """Return True if the pattern matches every command."""
        return self.tokens == (ANY_WORDS,)

    @property
    def exact(self) -> bool:
        """Return True if the pattern contains no wildcard."""
        return self.fixed == len(self.tokens)


@lru_cache(2048)
def compile_command_pattern(text: str) -> CommandPattern:
    """Compile a pattern. Never raises; see `CommandPattern.problem`."""
    reader = _PatternTokenizer(text)
    tokens = reader.tokens()
    if reader.open_quote:
        return CommandPattern(
            (), 0, "", f"has an open quote {reader.open_quote}; close it, or put a backslash before it"
        )
    if not tokens:
        return CommandPattern((), 0, "", "has an empty pattern; write the command, for example, 'git status'")
    tokens = [ANY_WORDS if t == wildcards.ANY_TEXT * 2 else t for t in tokens]
    if tokens[-1] == wildcards.ANY_TEXT:
        tokens[-1] = ANY_WORDS
    fixed = next((i for i, t in enumerate(tokens) if t == ANY_WORDS or not wildcards.is_literal(t)), len(tokens))
    return CommandPattern(tuple(tokens), fixed, reader.unquoted)


class _PatternTokenizer:
    """Tokenizer that splits a pattern into words as a shell would, and distinguishes wildcards from quoted characters."""

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
    """Return True if a pattern matches a command literally and with certainty.

    Args:
        pattern: The pattern.
        words: The command.
        uncovered: The positions of words that no wildcard covers, such as options that are not known to be harmless.
        escapes: Tokens of patterns, each with a word that leads outside the token's folder. See `bounds`.
    """

    def surely(token: str, word: Word, number: int) -> bool:
        if token in (wildcards.ANY_TEXT, ANY_WORDS):
            return number not in uncovered and (token == ANY_WORDS or not word.splits)
        if wildcards.is_literal(token):
            return token == word.text and (number > 0 or (token, word.text) not in escapes)
        if number in uncovered and ("=" not in fixed_part(token) or number - 1 in uncovered or "$" in word.text):
            return False  # only an option or a setting that the token names; make expands a "$" in its value
        return word.literal and _covers(token, word.text) and (token, word.text) not in escapes

    return _match_states(pattern.tokens, words, surely)


def bounds(pattern: CommandPattern, words: Sequence[Word]) -> Iterator[tuple[str, str]]:
    """Return the path tokens of a pattern, each with a word that it may cover.

    The word must lead below the token's folder.
    """
    if words and "/" in pattern.tokens[0] and pattern.tokens[0] == words[0].text:
        yield pattern.tokens[0], words[0].text
    for token in pattern.tokens:
        if token == ANY_WORDS or wildcards.is_literal(token):
            continue
        yield from ((token, w.text) for w in words[1:] if _is_path(token, w.text) and _covers(token, w.text))


def fixed_part(token: str) -> str:
    """Return a token up to its first wildcard."""
    return token[: next((i for i, c in enumerate(token) if c in wildcards.WILDCARDS), len(token))]


def _covers(token: str, text: str) -> bool:
    if "://" in fixed_part(token) and not _has_same_origin(token, text):
        return False
    if not _is_path(token, text):
        return wildcards.fullmatch(token, text)
    return wildcards.fullmatch(posixpath.normpath(token), posixpath.normpath(text))


def _has_same_origin(token: str, text: str) -> bool:
    """Return True if a URL has the host that a pattern names; a wildcard at the end of the host covers a path."""
    requested, found = _ORIGIN.match(token), _ORIGIN.match(text)
    if requested is None or found is None:
        return False
    return wildcards.fullmatch(requested[0].rstrip(wildcards.ANY_TEXT), found[0])


def _is_path(token: str, text: str) -> bool:
    """Return True if a token with a wildcard contains a path component, so that it is compared as a path."""
    fixed = fixed_part(token)
    return "/" in token or ("/" in text and bool(fixed) and not _VALUE_FOLLOWS.search(fixed))


_ORIGIN = lazy_re(r"[^/]*://[^/?#\\]*")
"""The part of a URL that names the host."""

_VALUE_FOLLOWS = lazy_re(r"[=:,@]$|^-\w$")
"""The end of a name that any value may follow."""


def may_match_command(pattern: CommandPattern, words: Sequence[Word], *, anywhere: bool = False) -> MatchCertainty:
    """Return whether a pattern of a deny or ask rule may match a command.

    The pattern matches the beginning of a command, and an unknown piece of the command may be the text that it names.

    Args:
        pattern: The pattern.
        words: The command.
        anywhere: Whether a command may begin at each of the words.
    """
    if certainly_matches(pattern, words, anywhere=anywhere):
        return "yes"
    if not any(word.splits or wildcards.has_unknown(word.text) for word in words):
        return "no"
    # The command after an assignment is checked separately.
    begins = [_ASSIGNS.match(word.text) is None for word in (words if anywhere else words[:1])]
    return "maybe" if _match_states(_open_ended(pattern), words, _could_match, begins) else "no"


def certainly_matches(pattern: CommandPattern, words: Sequence[Word], *, anywhere: bool = False) -> bool:
    """Return True if a pattern of a deny or ask rule matches a command without a guess. See `may_match_command`."""
    name = pattern.tokens[0]
    is_plain = name != ANY_WORDS and wildcards.is_literal(name)
    if anywhere and is_plain and fold(name) not in fold("\n".join([word.text for word in words])):
        return False  # much faster than a comparison of each word
    begins = [True] * len(words) if anywhere else (True,)
    return _match_states(_open_ended(pattern), words, _matches_loosely, begins)


def _open_ended(pattern: CommandPattern) -> tuple[str, ...]:
    return pattern.tokens if pattern.tokens[-1] == ANY_WORDS else (*pattern.tokens, ANY_WORDS)


_ASSIGNS = lazy_re(r"[A-Za-z_]\w*\+?=")

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


def _match_states(
    tokens: tuple[str, ...], words: Sequence[Word], matches_word: _Matches, begins: Sequence[bool] = (True,)
) -> bool:
    """Return True if tokens match words; all positions where a match may begin are followed in one pass.

    Args:
        tokens: The tokens of a pattern.
        words: The words.
        matches_word: Function that compares a token with a word and its number, which is 0 for the first word of a match.
        begins: For the first words, whether a match may begin there.
    """
    guessing = matches_word is _could_match
    takes_the_rest = tokens[-1] == ANY_WORDS and (guessing or matches_word is _matches_loosely)
    first, states = _closure({0}, tokens), set[int]()
    if not words:
        return len(tokens) in first
    for number, word in enumerate(words):
        is_start = number < len(begins) and begins[number]
        if is_start:
            states = states | first
        elif not states and number >= len(begins):
            return False
        following: set[int] = set()
        for i in states:
            if i < len(tokens) and matches_word(tokens[i], word, 0 if is_start and i in first else number):
                following.add(i if tokens[i] == ANY_WORDS else i + 1)
        if guessing and word.splits and states:  # it may expand to no word, or to several
            following |= states
            following |= set(range(min(states, default=0), len(tokens) + 1))
        states = _closure(following, tokens)
        if takes_the_rest and len(tokens) in states:
            return True
    return len(tokens) in states


def _closure(states: set[int], tokens: tuple[str, ...]) -> set[int]:
    found = set(states)
    for start in states:
        i = start
        while i < len(tokens) and tokens[i] == ANY_WORDS:
            i += 1
            found.add(i)
    return found
