"""Reads a shell line into the simple commands, assignments and redirections in it, wherever they stand.

The parser is tree-sitter's for bash. It forgives much that a shell does not, and reads a few things otherwise than a shell
does; whatever is not understood for certain becomes a doubt, and a line with a doubt is never allowed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from mainspring.policies.permissions.arithmetic import Arithmetic
from mainspring.policies.permissions.text import named, odd_character
from mainspring.policies.permissions.words import Word, WordReader, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_LENGTH = 20_000
"""Longer lines are not analysed."""

MAX_PARTS = 300
"""Lines with more commands and redirections are not analysed."""

RESERVED = frozenset(
    "! { } [[ ]] (( )) if then else elif fi for while until do done case esac in select function time coproc".split()
) - {"time"}
"""Words that a shell reads as its grammar; as a command's name they show that it was read otherwise here."""


class Assignment(Struct, frozen=True):
    """``NAME=value``, before a command or alone."""

    name: str
    value: Word
    text: str


class Command(Struct, frozen=True):
    """A simple command.

    Attributes:
        words: Its name and arguments.
        assignments: What stands before it; alone if there are no words.
        text: Its source.
        fed: The text of a here-document that it reads, if that is known.
    """

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    text: str = ""
    fed: str | None = None


class Redirect(Struct, frozen=True):
    """A redirection to or from a file."""

    target: Word
    writes: bool
    text: str


class Line(Struct):
    """What a line holds, in the order of its source.

    Attributes:
        parts: Commands and redirections.
        doubts: Why it cannot be judged; empty if it can.
        functions: Names that it defines as functions.
    """

    parts: list[Command | Redirect] = field(default_factory=list[Command | Redirect])
    doubts: list[str] = field(default_factory=list[str])
    functions: list[str] = field(default_factory=list[str])


def read_line(text: str) -> Line:
    """Read a line. Never raises."""
    line = Line()
    problem = _unreadable(text)
    if problem:
        line.doubts.append(problem)
        return line
    import tree_sitter

    source = text.encode()
    root = tree_sitter.Parser(_bash()).parse(source).root_node
    reader = _Reader(source, line)
    if root.has_error:
        line.doubts.append("it cannot be parsed")
    try:
        reader.visit(root)
        reader.finish(root)
    except RecursionError:
        line.doubts.append("it is nested too deeply")
    return line


@cache
def _bash() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def _unreadable(text: str) -> str:
    if len(text) > MAX_LENGTH:
        return f"it is longer than {MAX_LENGTH} characters"
    odd = odd_character(text)
    if odd:
        return f"it holds the character {named(odd)}, which cannot be seen"
    if _DESCRIPTOR.search(text):
        return "it opens a file under a name of its own"
    if _JOINED.search(text):
        return "it holds a backslash at the end of a line in the middle of a word"
    return ""


_JOINED = re.compile(r"\S\\\n\S")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DESCRIPTOR = re.compile(r"\{\w+\}[<>]")
_DELIMITER = re.compile(r"\\?[\w.-]+|'[^'\n]+'|\"[\w. -]+\"")
_DIGITS = re.compile(r"(?<![^\s;&|()<>])\d+$")
_BLANKS = re.compile(r"(?:[ \t\n]|\\\n)*")
_HIDDEN = re.compile(r"(?<!\\)(?:\\\\)*(`|\$[({\[]|[<>]\()")
_KEYWORDS = RESERVED - {"[[", "]]", "((", "))"}
_METACHARACTERS = frozenset(("", " ", "\t", "\n", ";", "&", "|", "(", ")", "<", ">"))
_QUOTED = frozenset(("command_substitution", "process_substitution", "string", "expansion", "arithmetic_expansion"))
_STATEMENTS = frozenset(
    ("command", "redirected_statement", "do_group", "list", "pipeline", "subshell", "function_definition")
)
_CONTAINERS = frozenset(
    (
        "program", "list", "pipeline", "subshell", "do_group", "if_statement", "elif_clause", "else_clause", "while_statement",
        "negated_command", "case_statement", "case_item", "for_statement", "variable_assignments", "process_substitution",
    )
)  # fmt: skip
_OPAQUE_LEAVES = frozenset(("raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_start", "heredoc_end"))
_REDIRECTS = frozenset(("file_redirect", "heredoc_redirect", "herestring_redirect"))
_WRITES = frozenset((">", ">>", ">|", "&>", "&>>", ">&"))


class _Reader:
    """Walks the syntax tree of one line."""

    def __init__(self, source: bytes, line: Line) -> None:
        self.source = source
        self.line = line
        self.words = WordReader(self.inside, self.doubt)
        self.arithmetic = Arithmetic()

    def doubt(self, reason: str) -> None:
        if reason not in self.line.doubts:
            self.line.doubts.append(reason)

    def finish(self, root: Node) -> None:
        """What can be said only at the end."""
        outside = self.source[: root.start_byte] + self.source[root.end_byte :]
        if not _BLANKS.fullmatch(outside.decode("utf-8", "replace")):
            self.doubt("a part of it was not understood")
        if self.arithmetic.unsafe():
            self.doubt("it computes with values that are not plain numbers, which can run commands")
        if len(self.line.parts) > MAX_PARTS:
            self.doubt(f"it holds more than {MAX_PARTS} commands")

    # --- statements -------------------------------------------------------------------------------------------------

    def visit(self, node: Node) -> None:
        """A statement, or something that holds statements."""
        kind = node.type
        if kind in _CONTAINERS:
            self._for_variable(node)
            self._children(node)
        elif kind == "command":
            self._command(node)
        elif kind == "redirected_statement":
            self._redirected(node)
        elif kind in _REDIRECTS:
            self._surplus(self._redirect(node)[0])
        else:
            self._other(node)

    def _other(self, node: Node) -> None:
        match node.type:
            case "command_substitution":
                self._substitution(node)
            case "variable_assignment":
                self._emit((), (self._assignment(node),), text_of(node))
            case "declaration_command" | "unset_command":
                self._declaration(node)
            case "function_definition":
                self.line.functions.append(text_of(node.named_children[0]))
                self._children(node)
            case "test_command":
                self._test(node)
            case "compound_statement" if node.children and node.children[0].type == "{":
                self._children(node)
            case "compound_statement" | "c_style_for_statement":
                self._computes(node)
            case "comment":
                self._comment(node)
            case _:
                self._word_or_doubt(node)

    def _computes(self, node: Node) -> None:
        """``((...))`` and ``for ((...))``; only the body of the latter holds statements."""
        self._gaps(node)
        for child in node.children:
            if child.type in ("do_group", "compound_statement"):
                self.visit(child)
            else:
                self.arithmetic.expression(child)
                self.inside(child)

    def _test(self, node: Node) -> None:
        """``[ ... ]`` and ``[[ ... ]]``; without blanks inside, a shell takes it for the name of a command."""
        first, last = node.children[0], node.children[-1]
        inner = self.source[first.end_byte : last.start_byte].decode("utf-8", "replace")
        if not inner[:1].isspace() or not inner[-1:].isspace() or (first.type == "[" and "\n" in inner):
            self.doubt("it holds brackets that a shell takes for the name of a command")
        if self._ended_early(node, double=first.type == "[["):
            self.doubt("it holds an operator inside brackets that ends the command there")
        self.arithmetic.test(node)
        self.inside(node)

    def _ended_early(self, node: Node, *, double: bool) -> bool:
        """Whether something inside brackets ends the command for a shell, though the parser takes it for an operator."""
        if node.type in _QUOTED:
            return False
        if not node.children and not node.is_named:
            ends = set("&|;") if double else set("&|;<>()")
            return not (double and node.type in ("&&", "||")) and not ends.isdisjoint(node.type)
        return any(self._ended_early(c, double=double) for c in node.children)

    def _word_or_doubt(self, node: Node) -> None:
        if node.is_named:
            self.words.read(node)

    def _children(self, node: Node) -> None:
        self._gaps(node)
        for child in node.children:
            if child.is_named:
                self.visit(child)

    def _gaps(self, node: Node) -> None:
        """Nothing but blanks may stand between the parts of a statement."""
        end = node.start_byte
        for child in node.children:
            between = self.source[end : child.start_byte].decode("utf-8", "replace")
            if not _BLANKS.fullmatch(between):
                self.doubt("a part of it was not understood")
            end = child.end_byte
            if child.type in _KEYWORDS and not self._apart(child):
                self.doubt(f"it holds {child.type!r} in the middle of a word")

    def _apart(self, node: Node) -> bool:
        """Whether a word of the grammar stands by itself, as a shell requires."""
        before = self.source[node.start_byte - 1 : node.start_byte].decode("latin-1")
        after = self.source[node.end_byte : node.end_byte + 1].decode("latin-1")
        return before in _METACHARACTERS and after in _METACHARACTERS

    def _for_variable(self, node: Node) -> None:
        if node.type != "for_statement":
            return
        name = node.child_by_field_name("variable")
        values = [text_of(n) for n in node.children_by_field_name("value")]
        if name is not None:
            self.arithmetic.assign(text_of(name), None if not values else " ".join(values).replace(" ", "_0"))
            self._emit((), (Assignment(text_of(name), Word("", ""), f"{text_of(name)}="),), f"{text_of(name)}=")

    def _substitution(self, node: Node) -> None:
        if "`" in text_of(node)[:2] and "\\" in text_of(node):
            self.doubt("it holds a backslash inside backticks; use $(...) instead")
        self._children(node)

    def _comment(self, node: Node) -> None:
        before = self.source[max(0, node.start_byte - 2) : node.start_byte].decode("latin-1")
        if before and (before[-1] not in " \t\n;&|()" or before[:-1] == "\\"):
            self.doubt("it holds a '#' that may or may not begin a comment")

    # --- commands ---------------------------------------------------------------------------------------------------

    def _command(self, node: Node, more: tuple[Word, ...] = (), fed: str | None = None) -> None:
        words: list[Word] = []
        assignments: list[Assignment] = []
        end, previous = node.start_byte, ""
        for child in node.children:
            between = self.source[end : child.start_byte].decode("utf-8", "replace")
            end = child.end_byte
            kind = child.type
            if kind in _REDIRECTS:
                self._timed(words)
                surplus, text = self._redirect(child)
                words += surplus
                fed = fed if text is None else text
            elif kind == "variable_assignment":
                assignments.append(self._assignment(child))
            elif kind in ("subshell", "function_definition"):
                self.doubt("it holds a '(' in the middle of a command")
                self.visit(child)
            else:
                if previous and not (" " in between or "\t" in between):
                    self.doubt("it holds words that cannot be told apart")
                words += self.words.read(child)
            previous = kind
            if not _BLANKS.fullmatch(between) or "\n" in between.replace("\\\n", ""):
                self.doubt("a part of it was not understood")
        if more:
            self._timed(words)
        self._emit((*words, *more), tuple(assignments), text_of(node), fed)

    def _timed(self, words: list[Word]) -> None:
        """Behind ``time`` and a redirection, a shell looks for no options any more."""
        if len(words) == 1 and words[0].text == "time":
            self.doubt("it holds a redirection right behind 'time'")

    def _emit(
        self, words: tuple[Word, ...], assignments: tuple[Assignment, ...], text: str, fed: str | None = None
    ) -> None:
        if words and words[0].text in RESERVED:
            self.doubt(f"it holds {words[0].text!r} where a command should be")
        self.arithmetic.command(words)
        self.line.parts.append(Command(words, assignments, text, fed))

    def _assignment(self, node: Node) -> Assignment:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and name.type != "variable_name":
            self.inside(name)
            self.arithmetic.expression(name)
        word = Word("", "") if value is None else self.words.one(value)
        plain = "" if name is None else text_of(name).partition("[")[0]
        if not _NAME.fullmatch(plain):
            self.doubt("it holds an assignment that a shell takes for a command")
        self.arithmetic.assign(plain, word.text if word.literal else None)
        return Assignment(plain, word, text_of(node))

    def _declaration(self, node: Node) -> None:
        """``export``, ``declare`` and the like: assignments, and options that may change what names mean."""
        words: list[Word] = []
        assignments: list[Assignment] = []
        end = -1
        for child in node.children:
            if child.start_byte == end:
                self.doubt("it holds words that cannot be told apart")
            end = child.end_byte
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child))
            elif child.type == "variable_name":
                assignments.append(Assignment(text_of(child), Word("", ""), text_of(child)))
            else:
                words += self.words.read(child)
        harmless = len(words) == 1 and words[0].text in ("export", "local", "declare", "typeset", "readonly")
        self._emit(() if harmless and assignments else tuple(words), tuple(assignments), text_of(node))

    # --- redirections -----------------------------------------------------------------------------------------------

    def _redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        surplus: list[Word] = []
        fed: str | None = None
        self._gaps(node)
        for child in node.children:
            if child.type in _REDIRECTS:
                more, text = self._redirect(child)
                surplus += more
                fed = fed if text is None else text
            elif child != body and child.is_named:
                self.visit(child)
        if body is not None and body.type == "command":
            self._command(body, tuple(surplus), fed)
            return
        self._surplus(surplus)
        if body is not None:
            self.visit(body)

    def _surplus(self, words: list[Word]) -> None:
        if words:
            self.doubt("it holds words after a redirection that belong to no command")

    def _redirect(self, node: Node) -> tuple[list[Word], str | None]:
        """Note a redirection; the words behind it that belong to the command, and the text that it feeds."""
        if node.type == "heredoc_redirect":
            return self._heredoc(node)
        words: list[Word] = []
        operator, end = "", -1
        if _DIGITS.search(self.source[max(0, node.start_byte - 20) : node.start_byte].decode("latin-1")):
            self.doubt("it holds a number right before a redirection")
        for child in node.children:
            if child.type == "file_descriptor":
                if not text_of(child).isdigit():
                    self.doubt("it holds words that cannot be told apart")
                continue
            if not child.is_named:
                operator = operator or child.type
                continue
            if child.start_byte == end:
                self.doubt("it holds words that cannot be told apart")
            end = child.end_byte
            words += self.words.read(child)
        if node.type == "herestring_redirect":
            fed = words[0].text + "\n" if len(words) == 1 and words[0].literal else None
            return [], fed
        if not words:
            return [], None  # closes a descriptor
        target = words[0]
        if not (operator in (">&", "<&") and (target.text.isdigit() or target.text.rstrip("-").isdigit())):
            self.line.parts.append(Redirect(target, operator in _WRITES, text_of(node)))
        if operator not in _WRITES and operator not in ("<", "<&"):
            self.doubt(f"it holds the redirection {operator!r}, which is not understood")
        return words[1:], None

    def _heredoc(self, node: Node) -> tuple[list[Word], str | None]:
        words: list[Word] = []
        start = body = end = None
        for child in node.children:
            match child.type:
                case "heredoc_start":
                    start = child
                case "heredoc_body":
                    body = child
                case "heredoc_end":
                    end = child
                case "file_redirect" | "herestring_redirect":
                    words += self._redirect(child)[0]
                case "word" | "string" | "raw_string" | "number" | "concatenation" | "simple_expansion" | "expansion":
                    words += self.words.read(child)
                case _ if child.is_named:
                    self.visit(child)
                case _:
                    pass
        if start is None or body is None or end is None:
            self.doubt("it holds a here-document without an end")
            return words, None
        return words, self._document(start, body, end, tabs=text_of(node).startswith("<<-"))

    def _document(self, start: Node, body: Node, end: Node, *, tabs: bool) -> str | None:
        """Check that a here-document ends where a shell would end it; its text, if nothing in it is evaluated."""
        spelled = text_of(start)
        delimiter = re.sub(r"['\"\\]", "", spelled)
        region = self.source[body.start_byte : end.start_byte].decode("utf-8", "replace")
        lines = region.split("\n")
        after = self.source[end.end_byte : end.end_byte + 1]
        before_end = lines.pop().lstrip("\t") if tabs else lines.pop()
        if before_end or text_of(end).rstrip("\n") != delimiter or after not in (b"", b"\n"):
            self.doubt("it holds a here-document whose end is not clear")
        if not _DELIMITER.fullmatch(spelled):
            self.doubt("it holds a here-document whose delimiter is not plain")
        if not delimiter or any(row.lstrip("\t ").startswith(delimiter) for row in lines):
            self.doubt("it holds a here-document whose end is not clear")
        if spelled != delimiter:
            return "\n".join(row.lstrip("\t") if tabs else row for row in lines) + "\n"
        self.inside(body)
        plain, at = "", body.start_byte
        for child in body.named_children:
            if child.type != "heredoc_content":
                plain += self.source[at : child.start_byte].decode("utf-8", "replace") + " "
                at = child.end_byte
        plain += self.source[at : end.start_byte].decode("utf-8", "replace")
        if _HIDDEN.search(re.sub(r"[<>]\(", "", plain)):
            self.doubt("it holds a here-document with a substitution that is not understood; quote its delimiter")
        return None if body.named_children or "$" in plain else "\n".join(lines) + "\n"

    # --- inside words -----------------------------------------------------------------------------------------------

    def inside(self, node: Node) -> None:
        """Judge the commands inside a word, an expansion or an expression; nothing evaluated may go unseen."""
        kind = node.type
        if kind in _STATEMENTS:
            self.visit(node)
            return
        if kind == "command_substitution":
            self._substitution(node)
            return
        if kind == "process_substitution":
            self._children(node)
            return
        if kind in ("arithmetic_expansion", "subscript"):
            self.arithmetic.expression(node)
        elif kind == "expansion":
            self.arithmetic.expansion(node)
        if not node.children:
            if kind not in _OPAQUE_LEAVES and node.is_named and _HIDDEN.search(text_of(node)):
                self.doubt("it holds a substitution that is not understood")
            return
        if kind == "variable_assignment":
            self._emit((), (self._assignment(node),), text_of(node))
            return
        for child in node.children:
            self.inside(child)
