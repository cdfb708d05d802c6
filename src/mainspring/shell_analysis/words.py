"""The words of a shell command: what each says, as far as it can be known without running it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.text import fold

if TYPE_CHECKING:
    from tree_sitter import Node

PIPE = "/dev/fd/63"
"""What a command gets for ``<(...)`` and ``>(...)``."""

MAX_BRACES = 64
"""Into how many words one word with braces may expand before it counts as unknown."""


class Word(Struct, frozen=True):
    """A word of a command.

    Attributes:
        text: What the command gets, unknown pieces marked (see `globs`).
        source: As it is written.
        splits: Whether it may become several words, or none.
    """

    text: str
    source: str
    splits: bool = False

    @property
    def literal(self) -> bool:
        """Whether all of it is known."""
        return wildcards.is_literal(self.text)


Char = tuple[str, bool]
"""A character, and whether it is quoted."""

_ANSI = lazy_re(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_NAMED = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_DOLLAR = lazy_re(r"\$[\w$?!#@*({\[-]")
_HOME = frozenset(("$HOME", "${HOME}"))
_HERE = frozenset(("$PWD", "${PWD}"))
_FORMS = {
    "simple_expansion": lazy_re(r"\$(?:[A-Za-z_]\w*|[0-9?!#@*$_-])$", re.ASCII),
    "expansion": lazy_re(r"\$\{"),
    "command_substitution": lazy_re(r"\$\(|`"),
    "arithmetic_expansion": lazy_re(r"\$\(\(|\$\["),
    "process_substitution": lazy_re(r"[<>]\("),
    "subscript": lazy_re(r"[A-Za-z_]"),
    "array": lazy_re(r"\("),
}
_PATTERNS = frozenset(("extglob_pattern", "regex", "brace_expression", "translated_string"))
_BARE = frozenset(("word", "number", "variable_name", "test_operator", "file_descriptor", "special_variable_name"))


class WordReader:
    """Turns nodes of the syntax tree into words.

    Args:
        visit: Told of every node inside a word that the shell evaluates, so that the commands in it are judged too.
        doubt: Told what cannot be understood.
    """

    def __init__(self, visit: Callable[[Node], None], doubt: Callable[[str], None]) -> None:
        self._visit = visit
        self._doubt = doubt

    def read(self, node: Node) -> list[Word]:
        """The words that a node stands for: one, or several where braces expand."""
        chars, splits = self._chars(node)
        source = text_of(node)
        expanded = _braces(chars)
        if expanded is None:
            return [Word(wildcards.MANY, source, splits=True)]
        return [_finish(word, source, splits) for word in expanded if word or len(expanded) == 1]

    def one(self, node: Node) -> Word:
        """The word that a node stands for; several count as unknown."""
        words = self.read(node)
        return words[0] if len(words) == 1 else Word(wildcards.MANY, text_of(node), splits=True)

    def _chars(self, node: Node) -> tuple[list[Char], bool]:
        kind, text = node.type, text_of(node)
        match kind:
            case "raw_string":
                return _quoted(text[1:-1]), False
            case "ansi_c_string":
                return self._ansi(text), False
            case "string":
                return self._string(node)
            case "concatenation" | "command_name":
                return self._concatenation(node)
            case _ if kind in _FORMS:
                return self._expansion(node)
            case _ if kind in _BARE or not node.is_named:
                return self._bare(text), False
            case _:
                if kind in _PATTERNS:
                    self._visit(node)
                else:
                    self._doubt(f"it holds something that is not understood ({kind})")
                return [(wildcards.MANY, True)], True

    def _bare(self, text: str) -> list[Char]:
        """A piece without quotes; a blank or a dollar sign in it would mean something."""
        chars = _unescape(text)
        if any(c.isspace() and not quoted for c, quoted in chars):
            self._doubt("it holds words that cannot be told apart")
        plain = "".join("_" if quoted else c for c, quoted in chars)
        if _DOLLAR.search(plain):
            self._doubt("it holds a '$' that is not understood")
        if "`" in plain:
            self._doubt("it holds a substitution that is not understood")
        return chars

    def _expansion(self, node: Node) -> tuple[list[Char], bool]:
        text = text_of(node)
        if text in _HOME:
            return [(wildcards.HOME, True)], False
        if text in _HERE:
            return [(wildcards.HERE, True)], False
        if not _FORMS[node.type].match(text):
            self._doubt("it holds a '$' that is not understood")
        self._visit(node)
        if node.type == "process_substitution":
            return _quoted(PIPE), False
        return [(wildcards.MANY, True)], True

    def _concatenation(self, node: Node) -> tuple[list[Char], bool]:
        chars: list[Char] = []
        splits = False
        end = node.start_byte
        for child in node.children:
            if child.start_byte != end:
                self._doubt("it holds words that cannot be told apart")
            if chars and chars[-1] == ("$", False):
                self._doubt("it holds a '$' that is not understood")
            end = child.end_byte
            more, split = self._chars(child)
            chars += more
            splits = splits or split
        return chars, splits

    def _string(self, node: Node) -> tuple[list[Char], bool]:
        """A text in double quotes; blanks and line ends between the nodes belong to it."""
        source, start = node.text or b"", node.start_byte
        chars: list[Char] = []
        splits, at, plain = False, 1, ""
        for child in node.children[1:-1]:
            between = source[at : child.start_byte - start].decode("utf-8", "replace")
            at = child.end_byte - start
            if child.type == "string_content" or not child.is_named:
                between += text_of(child)
                plain += between
                chars += _quoted(_DOUBLE_QUOTED.sub(_drop_backslash, between))
            else:
                more, _ = self._chars(child)
                chars += _quoted(between) + more
                plain += f"{between} "
                splits = splits or "@" in text_of(child)  # "$@" is a word for each argument
        rest = source[at : len(source) - 1].decode("utf-8", "replace")
        if _DOLLAR.search(_ESCAPED.sub("_", plain + rest)):
            self._doubt("it holds a '$' that is not understood")
        return chars + _quoted(rest), splits

    def _ansi(self, text: str) -> list[Char]:
        def decode(match: re.Match[str]) -> str:
            code = match[1]
            if code[0] in "xuU" and len(code) > 1:
                return _character(int(code[1:], 16))
            if code.isdigit():
                return _character(int(code, 8) & 0xFF)
            if code not in _ANSI_NAMED:
                self._doubt(f"it holds the escape \\{code}, which is not understood")
                return ""
            return _ANSI_NAMED[code]

        if "\\'" in text:
            self._doubt("it holds a quote inside $'...', where some shells end it")
        decoded = _ANSI.sub(decode, text[2:-1])
        if not _MARKS.isdisjoint(decoded):
            self._doubt("it holds an escaped control character")
            return [(wildcards.MANY, True)]
        return _quoted(decoded)


_MARKS = frozenset((wildcards.MANY, wildcards.ONE, wildcards.HOME, wildcards.HERE))


def text_of(node: Node) -> str:
    """The source of a node."""
    return (node.text or b"").decode("utf-8", "replace")


_ESCAPED = lazy_re(r"\\.", re.DOTALL)
_DOUBLE_QUOTED = lazy_re(r"\\([$`\"\\\n])")


def _drop_backslash(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _character(code: int) -> str:
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\x00"


def _quoted(text: str) -> list[Char]:
    return [(c, True) for c in text]


def _unescape(text: str) -> list[Char]:
    chars: list[Char] = []
    escaped = False
    for c in text:
        if escaped:
            chars += [(c, True)] if c != "\n" else []
            escaped = False
        elif c == "\\":
            escaped = True
        else:
            chars.append((c, False))
    return [*chars, ("\\", True)] if escaped else chars


def _finish(chars: list[Char], source: str, splits: bool) -> Word:
    text = ""
    i = 0
    while i < len(chars):
        char, quoted = chars[i]
        i += 1
        if quoted or char not in "*?[~":
            text += char
        elif char == "~":
            piece = _tilde(chars, i, text)
            text += piece
            while piece == wildcards.MANY and i < len(chars) and chars[i][0] != "/":
                i += 1
        elif char == "[":
            closing = next((k for k in range(i + 1, len(chars)) if chars[k] == ("]", False)), None)
            text += char if closing is None else wildcards.ONE
            i = i if closing is None else closing + 1
            splits = splits or closing is not None
        else:
            text += wildcards.ONE
            splits = True
    return Word(text, source, splits)


def _tilde(chars: list[Char], after: int, before: str) -> str:
    if before and before[-1] not in "=:":
        return "~"
    following = chars[after] if after < len(chars) else ("/", False)
    if following[0] in "/:":
        return wildcards.HOME
    if following == ("+", False):
        return wildcards.MANY
    return "~" if following[1] else wildcards.MANY  # the home of somebody else


def _braces(chars: list[Char]) -> list[list[Char]] | None:
    """What braces expand to; ``None`` if that cannot be known."""
    todo, done = [chars], list[list[Char]]()
    while todo:
        word = todo.pop(0)
        span = _first_braces(word)
        if span is None:
            done.append(word)
            continue
        start, end, commas = span
        if not commas:  # a range: {1..9}
            return None
        edges = [start, *commas, end]
        inner = [word[a + 1 : b] for a, b in zip(edges, edges[1:], strict=False)]
        todo = [[*word[:start], *part, *word[end + 1 :]] for part in inner] + todo
        if len(todo) + len(done) > MAX_BRACES:
            return None
    return done


def _first_braces(chars: list[Char]) -> tuple[int, int, list[int]] | None:
    """The first pair of braces that expands: where it begins and ends, and its commas."""
    for start, char in enumerate(chars):
        if char == ("{", False):
            end, commas = _closing(chars, start)
            body = "".join(c if not quoted else "_" for c, quoted in chars[start + 1 : end])
            if end and (commas or ".." in body):
                return start, end, commas
    return None


def _closing(chars: list[Char], start: int) -> tuple[int, list[int]]:
    """Where a brace is closed, 0 if nowhere, and the commas that are its own."""
    depth, commas = 0, list[int]()
    for i in range(start, len(chars)):
        if chars[i] == ("{", False):
            depth += 1
        elif chars[i] == ("}", False):
            depth -= 1
        elif chars[i] == (",", False) and depth == 1:
            commas.append(i)
        if depth == 0:
            return i, commas
    return 0, []


def program(text: str) -> str:
    """The name of a program without its folder and without ``.exe``, folded."""
    name = fold(text.rsplit("/", 1)[-1])
    unknown = name.rfind(wildcards.MANY)  # may hold a slash, so that what stands before it is no part of the name
    if unknown >= 0:
        name = name[unknown:]
    return name.removesuffix(".exe")
