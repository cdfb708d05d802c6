"""Places where a shell computes: a value there that is no plain number is evaluated, and can run commands.

``x='a[$(id)]'; echo $((x))`` runs ``id``. So a line that computes with names it sets to anything but numbers, or with what
other commands print, cannot be judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards

if TYPE_CHECKING:
    from tree_sitter import Node

    from mainspring.shell_analysis.words import Word

_NUMBER = lazy_re(r"[-+]?\d+")
_BINARY = frozenset("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o ] )".split())
_COMPARISONS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_PLAIN = frozenset(("variable_name", "special_variable_name"))
_NAMES = _PLAIN | {"word", "string", "string_content", "number"}
_EVALUATED_PLAIN = lazy_re(r"[\w\s.#@+*/%<>=!&|?:,^~()-]*|\[\[?|\]\]?|\"\"")
_EVALUATING = frozenset(
    "let unset read mapfile readarray getopts printf test [ [[ declare typeset local export readonly".split()
)
_NAME = lazy_re(r"[A-Za-z_]\w*")
_ASSIGNMENT = lazy_re(r"([A-Za-z_]\w*)(?:\[.*\])?\+?=", re.DOTALL)


class Arithmetic:
    """Collects what a line computes with, and what it sets names to."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._set: set[str] = set()
        self._unknown = False
        self._splitting: set[str] = set()  # what a test may take for an option and a name: [ $x ] with x='-v a[...]'
        self._odd: set[str] = set()  # what is set to something that can be evaluated so

    def unsafe(self) -> bool:
        """Whether anything it computes with may be something other than a number."""
        return self._unknown or not self._used.isdisjoint(self._set) or not self._splitting.isdisjoint(self._odd)

    def assign(self, name: str, value: str | None) -> None:
        """A name is set to a value, ``None`` if that is not known."""
        if value is None or not _NUMBER.fullmatch(value):
            self._set.add(name)
            if value is None or "[" in value:
                self._odd.add(name)

    def command(self, words: Iterable[Word]) -> None:
        """A command that sets names, or that evaluates its arguments as names."""
        listed = tuple(words)
        for word in listed:  # behind `time` and the like a shell may see an assignment where the parser sees a word
            found = _ASSIGNMENT.match(word.text)
            if found:
                self.assign(found[1], word.text[found.end() :])
        for start, word in enumerate(listed):  # behind `command`, `builtin`, `time` and the like, too
            if word.text in _EVALUATING:
                self._evaluating(word, listed[start + 1 :])

    def _evaluating(self, name: Word, arguments: tuple[Word, ...]) -> None:
        if name.text == "printf":
            first = arguments[0] if arguments else name
            if first.text.startswith("-v") and first.text != "-v" or not wildcards.is_literal(first.text[:1]):
                self._unknown = True  # -v and a name in one word, or perhaps
            arguments = arguments[1:2] if first.text == "-v" else ()
        elif name.text in ("test", "[", "[["):
            self._test_words(arguments)
            if not any(word.text in ("-v", "-R") for word in arguments):
                return
        for word in arguments:
            target = word.text.partition("=")[0]
            if not wildcards.is_literal(target) or "[" in target or name.text == "let":
                self._unknown = True  # a name with an index is computed, and so is what is in a name that is not known
            self._set.update(_NAME.findall(target))

    def _test_words(self, words: tuple[Word, ...]) -> None:
        """``test`` as a command: an option that is not known may be ``-v``."""
        known = [word.literal for word in words]
        self._splitting.update(n for word in words if word.splits for n in _NAME.findall(word.source))
        pairs = zip(words, known, words[1:], known[1:], strict=False)
        if any(not a and b.text not in _BINARY and (not k or "[" in b.text) for _, a, b, k in pairs):
            self._unknown = True

    def _splits(self, node: Node) -> None:
        """What stands in brackets without quotes, and may become an option and a name."""
        for child in node.children:
            if child.type == "command_substitution":
                self._unknown = True
            elif child.type in ("simple_expansion", "expansion"):
                self._splitting.update(_NAME.findall((child.text or b"").decode("utf-8", "replace")))
            elif child.type not in ("string", "process_substitution"):
                self._splits(child)

    def test(self, node: Node) -> None:
        """``[ ... ]`` or ``[[ ... ]]``: its comparisons of numbers, and ``-v``."""
        double = bool(node.children) and node.children[0].type == "[["
        if not double:
            self._splits(node)
        for part in _descendants(node):
            if part.type != "test_operator":
                continue
            operator = (part.text or b"").decode()
            if operator in ("-v", "-R") or (double and operator in _COMPARISONS):
                self.expression(part.parent or node)

    def expression(self, node: Node) -> None:
        """An arithmetic expression, or the index of an array in one."""
        if node.type == "subscript":
            index = node.child_by_field_name("index")
            if index is None or index.text in (b"@", b"*"):
                return
            node = index
        for part in _descendants(node):
            text = (part.text or b"").decode("utf-8", "replace")
            if part.type in ("command_substitution", "raw_string", "ansi_c_string", "translated_string"):
                self._unknown = True
            elif part.type == "special_variable_name" or (part.type == "variable_name" and text.isdigit()):
                self._unknown = self._unknown or text not in ("#", "?", "$", "!")
            elif part.type in _NAMES and not part.children:
                self._used.update(_NAME.findall(text))
                if part.type not in _PLAIN and not _EVALUATED_PLAIN.fullmatch(text):
                    self._unknown = True  # quotes and backslashes are gone when it is evaluated

    def expansion(self, node: Node) -> None:
        """``${...}``: an offset is computed, ``@P`` and ``!name`` evaluate what they find."""
        kinds = [c.type for c in node.children]
        if "@" in kinds or "!" in kinds:
            self._unknown = True
        if "=" in kinds or ":=" in kinds:
            self._set.update((c.text or b"").decode() for c in node.children if c.type == "variable_name")
        if ":" in kinds:
            self.expression(node)


def _descendants(node: Node) -> Iterable[Node]:
    todo = [node]
    while todo:
        current = todo.pop()
        yield current
        todo += current.children
