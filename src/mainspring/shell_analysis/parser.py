"""Reads a shell line into the simple commands, assignments and redirections in it, wherever they stand.

The parser is tree-sitter's for bash. It forgives much that a shell does not, and reads a few things otherwise than a shell
does; whatever is not understood for certain becomes a doubt, and a line with a doubt is never allowed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from mainspring.lazy import lazy_re
from mainspring.shell_analysis.ambiguities import Source, leaf_problem, quoted_twice, swallowed, unreadable
from mainspring.shell_analysis.arithmetic import Arithmetic
from mainspring.shell_analysis.line import RESERVED, Assignment, Command, Line, Redirect
from mainspring.shell_analysis.words import Word, WordReader, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_PARTS = 300
"""Lines with more commands and redirections are not analysed."""

TOGETHER = "it holds words that cannot be told apart"

_NAME = lazy_re(r"[A-Za-z_]\w*", re.ASCII)
_PLAIN_FILE = lazy_re(r"[\w./+-]+", re.ASCII)
_CONTAINERS = frozenset(
    (
        "program", "list", "pipeline", "subshell", "do_group", "if_statement", "elif_clause", "else_clause", "while_statement",
        "negated_command", "case_statement", "case_item", "for_statement", "variable_assignments", "process_substitution",
    )
)  # fmt: skip
_LOST_DASH = lazy_re(r"[ \t]+-[ \t]+")
_PLAIN_VALUE = lazy_re(r"['\"]?([\w./+-]+)['\"]?")
_PLAIN_OLD_ARITHMETIC = lazy_re(r"\$\[[\w+*/%-]*\]")
_STATEMENTS = _CONTAINERS | {"command", "redirected_statement", "function_definition"}
_REDIRECTS = frozenset(("file_redirect", "heredoc_redirect", "herestring_redirect"))
_WRITES = frozenset((">", ">>", ">|", "&>", "&>>", ">&"))
_WORDS = frozenset(("word", "string", "raw_string", "number", "concatenation", "simple_expansion", "expansion"))
_DECLARES = frozenset(("export", "local", "declare", "typeset", "readonly", "unset"))


def read_line(text: str) -> Line:
    """Read a line. Never raises."""
    line = Line()
    problem = unreadable(text)
    if problem:
        line.doubts.append(problem)
        return line
    import tree_sitter

    source = text.encode()
    root = tree_sitter.Parser(_bash()).parse(source).root_node
    reader = _Reader(Source(source), line)
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


class _Reader:
    """Walks the syntax tree of one line."""

    def __init__(self, source: Source, line: Line) -> None:
        self.source = source
        self.line = line
        self.words = WordReader(self.inside, self.doubt)
        self.arithmetic = Arithmetic()
        self.piped = 0  # in how many things that are given something to read

    def doubt(self, reason: str) -> None:
        if reason and reason not in self.line.doubts:
            self.line.doubts.append(reason)

    def finish(self, root: Node) -> None:
        """What can be said only at the end."""
        if not self.source.blank_around(root) or swallowed(root):
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
                if not self.source.comment(node):
                    self.doubt("it holds a '#' that may or may not begin a comment")
            case _ if node.is_named:
                self.words.read(node)
            case _:
                pass

    def _children(self, node: Node) -> None:
        self._gaps(node)
        behind = 0
        for child in node.children:
            if child.is_named:
                self.visit(child)
            elif node.type == "pipeline" and child.type in ("|", "|&"):
                behind += 1
                self.piped += 1
        self.piped -= behind

    def _gaps(self, node: Node) -> None:
        """Nothing but blanks may stand between the parts of a statement."""
        end = node.start_byte
        for child in node.children:
            if not self.source.blank(end, child.start_byte):
                self.doubt("a part of it was not understood")
            end = child.end_byte
        torn = self.source.torn(node)
        if torn:
            self.doubt(f"it holds {torn!r} in the middle of a word")

    def _computes(self, node: Node) -> None:
        """``((...))`` and ``for ((...))``; only the body of the latter holds statements."""
        if node.type == "compound_statement":
            self.doubt("it holds '((', which some shells read as commands; use $((...))")
        self._gaps(node)
        for child in node.children:
            if child.type in ("do_group", "compound_statement"):
                self.visit(child)
            else:
                self.arithmetic.expression(child)
                self.inside(child)

    def _test(self, node: Node) -> None:
        """``[ ... ]`` and ``[[ ... ]]``."""
        if not self.source.plain_test(node):
            self.doubt("it holds brackets that a shell may read as commands")
        self.arithmetic.test(node)
        self.inside(node)

    def _for_variable(self, node: Node) -> None:
        name = node.child_by_field_name("variable") if node.type == "for_statement" else None
        if name is not None:
            values = [text_of(n) for n in node.children_by_field_name("value")]
            for value in values or [None]:
                self.arithmetic.assign(text_of(name), value)
            text = f"{text_of(name)}="
            plain = [found[1] for value in values if (found := _PLAIN_VALUE.fullmatch(value))]
            given = [Assignment(text_of(name), Word(value, value), text) for value in plain]
            self._emit((), tuple(given) or (Assignment(text_of(name), Word("", ""), text),), text)

    def _substitution(self, node: Node) -> None:
        if "`" in text_of(node)[:2] and "\\" in text_of(node):
            self.doubt("it holds a backslash inside backticks; use $(...) instead")
        self._children(node)

    # --- commands ---------------------------------------------------------------------------------------------------

    def _command(self, node: Node, more: tuple[Word, ...] = (), fed: str | None = None) -> None:
        words: list[Word] = []
        assignments: list[Assignment] = []
        end, first, given = node.start_byte, True, False
        for child in node.children:
            between = self.source.between(end, child.start_byte)
            if not self.source.blank(end, child.start_byte) or "\n" in between.replace("\\\n", ""):
                self.doubt("a part of it was not understood")
            end = child.end_byte
            kind = child.type
            if kind in _REDIRECTS:
                self._timed(words)
                given = given or _gives(child)
                surplus, text = self._redirect(child)
                words += surplus
                fed = fed if text is None else text
            elif kind == "variable_assignment":
                assignments.append(self._assignment(child))
            elif kind in ("subshell", "function_definition"):
                self.doubt("it holds a '(' in the middle of a command")
                self.visit(child)
            else:
                if not first and not (" " in between or "\t" in between):
                    self.doubt(TOGETHER)
                words += self.words.read(child)
            first = False
        if more:
            self._timed(words)
        self.piped += given
        self._emit((*words, *more), tuple(assignments), text_of(node), fed)
        self.piped -= given

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
        self.line.parts.append(Command(words, assignments, text, fed, self.piped > 0))

    def _assignment(self, node: Node) -> Assignment:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and name.type != "variable_name":
            self.inside(name)
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
        self._gaps(node)
        for child in node.children:
            if child.start_byte == end:
                self.doubt(TOGETHER)
            end = child.end_byte
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child))
            elif child.type == "variable_name":
                assignments.append(Assignment(text_of(child), Word("", ""), text_of(child)))
            else:
                words += self.words.read(child)
        plain = len(words) == 1 and words[0].text in _DECLARES
        self.arithmetic.command(words)
        self._emit(() if plain and assignments else tuple(words), tuple(assignments), text_of(node))

    # --- redirections -----------------------------------------------------------------------------------------------

    def _redirected(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        surplus = self._lost_dash(node)
        fed: str | None = None
        if not surplus:
            self._gaps(node)
        for before, child in zip(node.children, node.children[1:], strict=False):
            if before.type != "heredoc_redirect" and self._line_ends(before.end_byte, child.start_byte):
                self.doubt(TOGETHER)
        for child in node.children:
            if child.type in _REDIRECTS:
                more, text = self._redirect(child)
                surplus += more
                fed = fed if text is None else text
            elif child != body and child.is_named:
                self.visit(child)
        given = any(child.type in _REDIRECTS and _gives(child) for child in node.children)
        self.piped += given
        if body is not None and body.type == "command":
            self._command(body, tuple(surplus), fed)
        else:
            self._surplus(surplus)
            if body is not None:
                self.visit(body)
        self.piped -= given

    def _lost_dash(self, node: Node) -> list[Word]:
        """The last word of a command that a here-document follows, if it is a dash: the parser takes it for a blank."""
        if len(node.children) != 2 or node.children[1].type != "heredoc_redirect":
            return []
        between = self.source.between(node.children[0].end_byte, node.children[1].start_byte)
        return [Word("-", "-")] if _LOST_DASH.fullmatch(between) else []

    def _surplus(self, words: list[Word]) -> None:
        if words:
            self.doubt("it holds words after a redirection that belong to no command")

    def _redirect(self, node: Node) -> tuple[list[Word], str | None]:
        """Note a redirection; the words behind it that belong to the command, and the text that it feeds."""
        if node.type == "heredoc_redirect":
            return self._heredoc(node)
        if self.source.number_before(node):
            self.doubt("it holds a number right before a redirection")
        words: list[Word] = []
        operator, end = "", -1
        self._gaps(node)
        for child in node.children:
            if end >= 0 and self._line_ends(end, child.start_byte):
                self.doubt(TOGETHER)
            if child.type == "file_descriptor":
                self.doubt("" if text_of(child).isdigit() else TOGETHER)
            elif not child.is_named:
                operator = operator or child.type
            else:
                self.doubt(TOGETHER if child.start_byte == end else "")
                end = child.end_byte
                words += self.words.read(child)
        if node.type == "herestring_redirect":
            fed = words[0].text + "\n" if len(words) == 1 and words[0].literal else None
            self.line.pours = self.line.pours or fed is None
            return [], fed
        if words:
            self._target(node, operator, words)
        return words[1:], None

    def _line_ends(self, start: int, end: int) -> bool:
        """Whether a line, and with it a command, ends for a shell in between."""
        return "\n" in self.source.between(start, end).replace("\\\n", "")

    def _target(self, node: Node, operator: str, words: list[Word]) -> None:
        target = words[0]
        if operator in ("&>", "&>>") and (len(words) > 1 or not self.source.last(node)):
            self.doubt("it holds words behind '&>', which some shells read as a command; use '> file 2>&1'")
        if operator in (">&", "<&") and target.literal and target.text.removesuffix("-").isdigit():
            return
        if operator == ">&" and not _PLAIN_FILE.fullmatch(target.text):
            self.doubt("it holds a name behind '>&' that a shell evaluates once more; use '> file 2>&1'")
        if (operator not in _WRITES and operator != "<") or target.text.startswith("-"):
            self.doubt(f"it holds a redirection {operator!r} that is not understood")
        self.line.parts.append(Redirect(target, operator in _WRITES, text_of(node)))

    def _heredoc(self, node: Node) -> tuple[list[Word], str | None]:
        words: list[Word] = []
        start = body = end = None
        operator = node.children[0].type
        self.doubt("" if operator in ("<<", "<<-") else TOGETHER)
        if self.source.number_before(node):
            self.doubt("it holds a number right before a redirection")
        at = node.start_byte
        for child in node.children:
            if child.type not in ("heredoc_body", "heredoc_end") and not self.source.blank(at, child.start_byte):
                self.doubt("a part of it was not understood")
            at = child.end_byte
            if child.type == "heredoc_start":
                start = child
            elif child.type == "heredoc_body":
                body = child
            elif child.type == "heredoc_end":
                end = child
            elif child.type in ("file_redirect", "herestring_redirect"):
                words += self._redirect(child)[0]
            elif child.type in _WORDS:
                self.doubt(TOGETHER if start is not None and child.start_byte == start.end_byte else "")
                words += self.words.read(child)
            elif child.is_named:
                self.visit(child)
        if start is None or body is None or end is None:
            self.doubt("it holds a here-document without an end")
            return words, None
        return words, self._document(start, body, end, tabs=operator == "<<-")

    def _document(self, start: Node, body: Node, end: Node, *, tabs: bool) -> str | None:
        """The text of a here-document, if nothing in it is evaluated."""
        lines, problem = self.source.document(start, body, end, tabs=tabs)
        self.doubt(problem)
        text = "\n".join(lines) + "\n"
        if text_of(start)[0] in "'\"\\":
            return text
        self.inside(body)
        if self.source.document_hides(body, end):
            self.doubt("it holds a here-document with a substitution that is not understood; quote its delimiter")
        self.line.pours = self.line.pours or "$" in text or "`" in text
        return None if body.named_children or "$" in text or "\\" in text else text

    # --- inside words -----------------------------------------------------------------------------------------------

    def inside(self, node: Node) -> None:
        """Judge the commands inside a word, an expansion or an expression; nothing evaluated may go unseen."""
        match node.type:
            case kind if kind in _STATEMENTS or kind in ("command_substitution", "variable_assignment"):
                self.visit(node)
                return
            case "arithmetic_expansion" | "subscript":
                if text_of(node).startswith("$[") and not _PLAIN_OLD_ARITHMETIC.fullmatch(text_of(node)):
                    self.doubt("it holds '$[...]', which is a word for some shells, that may end inside")
                self.arithmetic.expression(node)
            case "expansion":
                self.arithmetic.expansion(node)
                if text_of(node).endswith(":}"):
                    self.doubt("it holds '${...:}', which shells end in different places")
            case "raw_string" | "ansi_c_string" | "translated_string" if quoted_twice(node):
                self.doubt('it holds quotes inside "${...}", which shells do not take for quotes')
            case _:
                pass
        if not node.children:
            self.doubt(leaf_problem(node))
        for child in node.children:
            self.inside(child)


def _gives(redirect: Node) -> bool:
    """Whether a redirection gives a command something to read."""
    return redirect.type != "file_redirect" or any(child.type == "<" for child in redirect.children)
