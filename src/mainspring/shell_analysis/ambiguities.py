"""Places where a shell may read a line otherwise than the parser does.

Each check says whether there is one. They err on the side of a doubt, which makes a line ask.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mainspring.lazy import lazy_re
from mainspring.shell_analysis.line import RESERVED
from mainspring.shell_analysis.words import text_of
from mainspring.text import named, odd_character

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_LENGTH = 20_000
"""Longer lines are not analysed."""

_JOINED = lazy_re(r"\S\\\n\S")
_ESCAPED_END = lazy_re(r"(?:^|\n)[ \t]*\\\n|=\\\n|\\[ \t]+(?:\n|$)")
_DESCRIPTOR = lazy_re(r"\{\w+\}[<>]")
_BLANKS = lazy_re(r"(?:[ \t\n]|\\\n)*")
_DIGITS = lazy_re(r"(?<![^\s;&|()<>])\d+$")
_ENDS = lazy_re(r"[ \t]*(?:$|[\n;&|)])")
_DELIMITER = lazy_re(r"\\?[\w.-]+|'[^'\n]+'|\"[\w. -]+\"")
_HIDDEN = lazy_re(r"(?<!\\)(?:\\\\)*(`|\$[({\[]|[<>]\()")
_KEYWORDS = RESERVED - {"[[", "]]", "((", "))"}
_METACHARACTERS = frozenset(("", " ", "\t", "\n", ";", "&", "|", "(", ")", "<", ">"))
_QUOTED = frozenset(("command_substitution", "process_substitution", "string", "expansion", "arithmetic_expansion"))
_NOT_EVALUATED = frozenset(("raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_start", "heredoc_end"))


def unreadable(text: str) -> str:
    """Why a line is not even parsed; empty if it is."""
    if len(text) > MAX_LENGTH:
        return f"it is longer than {MAX_LENGTH} characters"
    odd = odd_character(text)
    if odd:
        return f"it holds the character {named(odd)}, which cannot be seen"
    if _DESCRIPTOR.search(text):
        return "it opens a file under a name of its own"
    if _JOINED.search(text):
        return "it holds a backslash at the end of a line in the middle of a word"
    if _ESCAPED_END.search(text):
        return "it holds a backslash where a line begins, a value begins, or blanks end a line"
    return ""


class Source:
    """The bytes of a line, asked by position."""

    def __init__(self, text: bytes) -> None:
        self._bytes = text

    def between(self, start: int, end: int) -> str:
        """The text from one position to another."""
        return self._bytes[max(0, start) : end].decode("utf-8", "replace")

    def blank(self, start: int, end: int) -> bool:
        """Whether only blanks, line ends and continuations stand there."""
        return _BLANKS.fullmatch(self.between(start, end)) is not None

    def blank_around(self, root: Node) -> bool:
        """Whether nothing stands outside the tree."""
        return self.blank(0, root.start_byte) and self.blank(root.end_byte, len(self._bytes))

    def torn(self, node: Node) -> str:
        """A word of the grammar that is only a part of a word for a shell; empty if there is none."""
        for child in node.children:
            before = self.between(child.start_byte - 1, child.start_byte)
            after = self.between(child.end_byte, child.end_byte + 1)
            if child.type in _KEYWORDS and not (before in _METACHARACTERS and after in _METACHARACTERS):
                return child.type
        return ""

    def comment(self, node: Node) -> bool:
        """Whether a shell takes it for a comment, too."""
        before = self.between(node.start_byte - 2, node.start_byte)
        return not before or (before[-1] in " \t\n;&|()" and before[:-1] != "\\")

    def number_before(self, node: Node) -> bool:
        """Whether a number stands right before a redirection; it is a descriptor for a shell."""
        return _DIGITS.search(self.between(node.start_byte - 20, node.start_byte)) is not None

    def last(self, node: Node) -> bool:
        """Whether a redirection is the last thing in its command."""
        return _ENDS.match(self.between(node.end_byte, len(self._bytes))) is not None

    def plain_test(self, node: Node) -> bool:
        """Whether a shell reads brackets as a test, and up to the same end; some do not know ``[[`` at all."""
        first, last = node.children[0], node.children[-1]
        inner = self.between(first.end_byte, last.start_byte)
        apart = inner[:1].isspace() and inner[-1:].isspace() and "\n" not in inner
        return apart and not any(_ends_command(child) for child in node.children)

    def document(self, start: Node, body: Node, end: Node, *, tabs: bool) -> tuple[list[str], str]:
        """The lines of a here-document, and what is wrong with it; empty if nothing is.

        Args:
            start: Its delimiter, as spelled.
            body: Its text.
            end: Its delimiter at the end.
            tabs: Whether tabs at the beginning of lines are left out.
        """
        delimiter = re.sub(r"['\"\\]", "", text_of(start))
        lines = self.between(body.start_byte, end.start_byte).split("\n")
        before_end = lines.pop().lstrip("\t") if tabs else lines.pop()
        after = self.between(end.end_byte, end.end_byte + 1)
        if not _DELIMITER.fullmatch(text_of(start)):
            return lines, "it holds a here-document whose delimiter is not plain"
        early = any(row.lstrip("\t ").startswith(delimiter) for row in lines)
        if early or before_end or text_of(end).rstrip("\n") != delimiter or after not in ("", "\n"):
            return lines, "it holds a here-document whose end is not clear"
        return [row.lstrip("\t") if tabs else row for row in lines], ""

    def document_hides(self, body: Node, end: Node) -> bool:
        """Whether the text of a here-document holds a substitution that the parser did not see."""
        plain, at = "", body.start_byte
        for child in body.named_children:
            if child.type != "heredoc_content":
                plain += self.between(at, child.start_byte) + " "
                at = child.end_byte
        plain += self.between(at, end.start_byte)
        return _HIDDEN.search(re.sub(r"[<>]\(", "", plain)) is not None


def leaf_problem(node: Node) -> str:
    """What is wrong with the smallest piece of a word; empty if nothing is."""
    text = text_of(node)
    if node.type not in _NOT_EVALUATED and node.is_named and _HIDDEN.search(text):
        return "it holds a substitution that is not understood"
    if node.type in ("regex", "extglob_pattern") and _pattern_ends(node, text):
        return "it holds a pattern that may end earlier than it seems"
    return ""


def _pattern_ends(node: Node, text: str) -> bool:
    """Whether a shell may end a pattern before the parser does."""
    parent = node.parent
    while parent is not None and parent.type not in ("expansion", "command", "test_command", "case_item"):
        parent = parent.parent
    if parent is not None and parent.type == "expansion":
        return "}" in text or "\n" in text
    within = re.sub(r"\\.", "", text)
    return "]]" in within or any(c.isspace() or c in ";&<>" for c in within)


def _ends_command(node: Node) -> bool:
    """Whether something inside brackets ends the command for a shell, though the parser takes it for an operator."""
    if node.type in _QUOTED:
        return False
    if not node.children and not node.is_named:
        return not set("&|;<>()").isdisjoint(node.type)
    return any(_ends_command(child) for child in node.children)


_INERT = lazy_re(r"\$?'[\w .,:/=+-]*'")


def quoted_twice(node: Node) -> bool:
    """Whether single quotes stand inside ``${...}`` in double quotes or a here-document, where they quote nothing.

    ``"${x:-'$(id)'}"`` runs ``id``, and ``"${x:-'}"`` ends there.
    """
    above, expanded = node.parent, False
    while above is not None:
        expanded = expanded or above.type == "expansion"
        if above.type in ("string", "heredoc_body"):
            return expanded and _INERT.fullmatch((node.text or b"").decode("utf-8", "replace")) is None
        if above.type in ("command_substitution", "process_substitution", "command"):
            return False  # quotes begin anew there
        above = above.parent
    return False


def swallowed(root: Node) -> bool:
    """Whether the parser took a piece of a word into an operator, as it does with ``-o`` in ``-o<<X``, or two words for one,
    as in ``$ "a"``.
    """
    todo = [root]
    while todo:
        node = todo.pop()
        if not node.is_named and not node.children and text_of(node).strip() != node.type.strip():
            return True
        if node.type == "translated_string" and text_of(node)[:2] != '$"':
            return True
        todo += node.children
    return False
