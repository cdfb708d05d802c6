"""Split a shell line into words and the operators between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import takewhile

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.syntax import (
    Block,
    NotUnderstoodError,
    Redirection,
    Simple,
    Spelling,
    Substitution,
    Variable,
)

ENDS = frozenset(" \t\n;&|()<>")
_PLAIN = lazy_re(r"[A-Za-z0-9_./,:@%+-]+")
_PLAIN_WORD = lazy_re(r"[A-Za-z0-9_./,:@%+-]+(?=[ \t\n;)]|\Z)")
_PLAIN_QUOTED = lazy_re(r"[^\"\\$`]+")
_NOT_ASCII = lazy_re(r"[^\x00-\x7f]+")
_SPACES = lazy_re(r"[ \t]*")
_CLASS = lazy_re(r"\[[!^]?[A-Za-z0-9_.][A-Za-z0-9_.-]*\]")
_BRACES = lazy_re(r"\{[A-Za-z0-9_-]*\}")
_KEYWORD = lazy_re(r"(?:[a-z]+|[{}!]|\[\[)(?=[ \t\n;&|()<>]|\Z)")
_COMPARISON = lazy_re(r"==?(?=[ \t])")
_DOLLAR = lazy_re(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|(\?))")
_AFTER_VARIABLE = frozenset(" \t\n;&|)<>\"'/.,-=@%+\\$")
_LONE_DOLLAR = frozenset(" \t\n|)")
_QUOTED_TEXT = lazy_re(r"'[^']*'|\"[^\"]*\"")
_UNSAFE = lazy_re(r"[`\\]|\$[{'\"]")
_BLANK_BYTES = frozenset((0x85, 0xA0))  # spaces for a shell that reads bytes
_CLOSING = frozenset(("fi", "done", "}"))
_WORD_END = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-")


def uses(construct: str) -> NotUnderstoodError:
    """Return the error for a construct outside the supported language."""
    return NotUnderstoodError(f"it uses {construct}")


def _is_balanced(body: str) -> bool:
    """Return True if bash 3.2, which searches for the end of ``$(`` without parsing here-documents, finds the right one."""
    rest, depth = _QUOTED_TEXT.sub("", body), 0
    for char in rest:
        depth += (char == "(") - (char == ")")
        if depth < 0 or char in "'\"":
            return False
    return depth == 0 and _UNSAFE.search(body) is None


def _is_simple(block: Block) -> bool:
    """Return True if a block is one simple command."""
    while block.kind == "list" and not block.redirects and len(block.items) == 1:
        item = block.items[0]
        if not isinstance(item, Block):
            return isinstance(item, Simple)
        block = item
    return False


class Lexer(ABC):
    """Lexer that reads a line from left to right, without backtracking."""

    def __init__(self, text: str, *, hides_dotfiles: bool = True) -> None:
        self.text = text
        self.wildcard = wildcards.VISIBLE if hides_dotfiles else wildcards.ANY_CHAR
        self.at = 0
        self.inside = 0  # nesting depth of $(...)
        self.has_inner_document = False  # whether a here-document was read inside $(...)
        self.documents: list[tuple[str, Redirection]] = []  # here-documents that begin at the next line end

    @abstractmethod
    def read_list(self, ends: frozenset[str]) -> Block:
        """Read commands up to a parenthesis, one of some reserved words, or the end."""

    # --- words ------------------------------------------------------------------------------------------------------

    def _word(self, *, assigned: bool = False, tested: bool = False) -> Spelling:
        text, start = self.text, self.at
        plain = _PLAIN_WORD.match(text, start)
        if plain is not None:
            self.at = plain.end()
            return Spelling(plain[0], (plain[0],))
        if text.startswith("=", start) and not (tested and _COMPARISON.match(text, start)):
            raise uses("a word that begins with '='")
        pieces: list[str | Variable | Substitution] = []
        known, splits = "", False
        while self.at < len(text) and text[self.at] not in ENDS:
            run = _PLAIN.match(text, self.at)
            if run is not None:
                known += run[0]
                self.at = run.end()
                continue
            char = text[self.at]
            if char == '"':
                found = self._double_quoted()
            elif char == "$":
                found = (self._dollar(quoted=False),)
            elif char in "*?[":
                found = (self._wildcard(char, assigned=assigned),)
                splits = splits or found[0] == self.wildcard
            else:
                if char == "=" and not known and not pieces and self.at > start:
                    raise uses("a word that begins with quotes around nothing and '='")
                found = (self._literal(char, start, assigned=assigned),)
            for piece in found:
                if isinstance(piece, str):
                    known += piece
                else:
                    pieces += [known, piece]
                    known = ""
        source = text[start : self.at]
        self._check_end(source)
        return Spelling(source, tuple(p for p in (*pieces, known) if p != "") or ("",), splits)

    def _check_end(self, source: str) -> None:
        """Raise if the text directly after a word may belong to it in some shell."""
        if self._char() in ("<", ">") and (source.isdigit() or source[-1] not in _WORD_END):
            raise uses("a redirection right after a number, a brace, or a quote")
        if self._char() == "&" and self._char(1) == ">":
            raise uses("'&>' right after a word, a part of which some shells read as a file descriptor")

    def _literal(self, char: str, start: int, *, assigned: bool) -> str:
        """Read a piece without quotes, in single quotes, or after a backslash."""
        text, first = self.text, self.at == start
        if char == "'":
            end = text.find("'", self.at + 1)
            if end < 0:
                raise uses("an open quote")
            piece = self._quoted(text[self.at + 1 : end])
            self.at = end + 1
            return piece
        if char == "\\":
            return self._escaped()
        if char == "`":
            raise uses("backquotes")
        if char in "{}":
            return self._braces(assigned=assigned)
        if char == "~":
            return self._tilde(first=first, assigned=assigned)
        if char == "=" and assigned and text[self.at - 1] == ":":
            raise uses("'=' after ':' in an assignment")
        if char in "=!#^]":
            self.at += 1
            return char
        run = _NOT_ASCII.match(text, self.at)
        if run is not None:
            piece = run[0]
            if not _BLANK_BYTES.isdisjoint(piece.encode()):
                piece = "".join(takewhile(lambda c: _BLANK_BYTES.isdisjoint(c.encode()), piece))
            if piece:
                self.at += len(piece)
                return piece
        raise self._unexpected()

    def _escaped(self) -> str:
        char = self._char(1)
        if not char or char == "\n" or not " " <= char <= "~":
            raise uses(
                "a backslash at the end of a line" if char in ("", "\n") else "a backslash before a special character"
            )
        self.at += 2
        return char

    def _braces(self, *, assigned: bool) -> str:
        """Read braces that no shell expands: ``{}``, and those of a revision such as ``HEAD@{1}``."""
        found = _BRACES.match(self.text, self.at)
        before = self.text[self.at - 1 : self.at]
        if found is None or assigned or not (found[0] == "{}" or before in ("@", "^")):
            raise uses("braces that some shells expand; quote them if they are text")
        self.at = found.end()
        return found[0]

    def _tilde(self, *, first: bool, assigned: bool) -> str:
        self.at += 1
        if first and not assigned and self._char() in ("", "/", *ENDS):
            return wildcards.HOME
        if assigned or first or self.text[self.at - 2] in "=:'\"":
            raise uses("'~' in a place where shells expand it in different ways")
        return "~"

    def _wildcard(self, char: str, *, assigned: bool) -> str:
        if assigned:
            raise uses("a wildcard in an assignment")
        if char == "[":
            alone = self._char(1) in ("", *ENDS) and (not self.at or self.text[self.at - 1] in ENDS)
            if alone:
                self.at += 1
                return char
            found = _CLASS.match(self.text, self.at)
            if found is None:
                raise uses("a '[' that is not a plain pattern such as '[abc]'")
            self.at = found.end()
            return self.wildcard
        start = self.at
        while self._char() == char == "*":
            self.at += 1
        if self.at - start > 1 and self.wildcard != wildcards.VISIBLE:
            raise uses("'**', which zsh and some settings of bash expand through folders")
        self.at = max(self.at, start + 1)
        return self.wildcard

    def _double_quoted(self) -> tuple[str | Variable | Substitution, ...]:
        text = self.text
        found: list[str | Variable | Substitution] = []
        self.at += 1
        while True:
            run = _PLAIN_QUOTED.match(text, self.at)
            if run is not None:
                found.append(self._quoted(run[0]))
                self.at = run.end()
            char = self._char()
            if char == '"':
                self.at += 1
                return tuple(found)
            if char == "$":
                found.append(self._dollar(quoted=True))
            elif char == "\\":
                found.append(self._escaped_in_quotes())
            else:
                raise uses("backquotes" if char else "an open quote")

    def _escaped_in_quotes(self) -> str:
        char = self._char(1)
        if not char or char == "\n":
            raise uses("a backslash at the end of a line")
        self.at += 2
        return char if char in '$`"\\' else "\\" + char

    def _quoted(self, piece: str) -> str:
        if self.documents and "\n" in piece:
            raise uses("a quoted line end in the line that begins a here-document")
        return piece

    def _dollar(self, *, quoted: bool) -> str | Variable | Substitution:
        match = _DOLLAR.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
            if not self._ends_variable(braced=match[2] is not None):
                raise uses(f"{match[0]!r} with text right after it that some shells read as a part of it")
            return Variable(match[1] or match[2] or match[3], quoted)
        following = self._char(1)
        if following == "(":
            return self._substitution(quoted=quoted)
        if following == "{":
            raise uses(f"'{self.text[self.at : self.at + 20].split('}')[0]}...', an expansion that transforms a value")
        if following in _LONE_DOLLAR or (quoted and following in '"/') or (not quoted and following in ("", *ENDS)):
            self.at += 1
            return "$"
        raise uses(f"'${following}...'")

    def _ends_variable(self, *, braced: bool) -> bool:
        """Return True if no shell parses the text after a variable as part of it, as zsh does with ``$x[1]`` and ``$x:h``."""
        char = self._char()
        if char == ":":
            return braced or self._char(1) in (*_AFTER_VARIABLE, "") and self._char(1) not in "&"
        return not char or char in _AFTER_VARIABLE or (braced and char.isascii() and char not in "[(")

    def _substitution(self, *, quoted: bool) -> Substitution:
        if self._char(2) == "(":
            raise uses("arithmetic expansion '$((...))'")
        if self.documents:
            raise uses("'$(...)' in the line that begins a here-document")
        self.at += 2
        self.inside += 1
        outer, self.has_inner_document = self.has_inner_document, False
        body = self.read_list(frozenset())
        if self.documents:
            raise uses("a here-document without an end")
        if self.has_inner_document and not _is_simple(body):
            # bash 5.2 parses and prints the commands in $(...) again, and loses a ';' after a here-document.
            raise uses("a here-document next to other commands inside '$(...)', which bash misreads")
        self.has_inner_document = self.has_inner_document or outer
        self.inside -= 1
        self._take(")")
        return Substitution(body, quoted)

    # --- characters -------------------------------------------------------------------------------------------------

    def _char(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.text[at] if at < len(self.text) else ""

    def _keyword(self) -> str:
        found = _KEYWORD.match(self.text, self.at)
        return "" if found is None else found[0]

    def _expect(self, keyword: str) -> None:
        if self._keyword() != keyword:
            raise uses(f"something other than the expected {keyword!r}")
        self.at += len(keyword)
        if keyword not in _CLOSING and self._char() not in (" ", "\t", "\n"):
            raise uses(f"{keyword!r} without a space after it")

    def _take(self, char: str) -> None:
        if self._char() != char:
            raise self._unexpected()
        self.at += 1

    def _unexpected(self) -> NotUnderstoodError:
        return uses(f"{self._char()!r} where a command should be" if self._char() else "an unfinished command")

    def _newlines(self) -> None:
        while True:
            self._blanks()
            if self._char() != "\n":
                return
            self._newline()

    def _blanks(self) -> None:
        """Skip spaces, comments, and line ends after a backslash."""
        text = self.text
        if self.at < len(text) and text[self.at] not in " \t\\#":
            return
        while True:
            found = _SPACES.match(text, self.at)
            self.at = found.end() if found else self.at
            if text.startswith("\\\n", self.at):
                if text[self.at - 1 : self.at] not in (" ", "\t") or self.inside or self.documents:
                    raise uses("a backslash at the end of a line in the middle of a word or of '$(...)'")
                self.at += 2
                found = _SPACES.match(text, self.at)
                self.at = found.end() if found else self.at
                if self._char() in ("", "\n", "#", "\\"):
                    raise uses("a backslash at the end of a line before an empty line or a comment")
                continue
            if self._char() == "#":
                self._comment()
            return

    def _comment(self) -> None:
        before = self.text[self.at - 1 : self.at] if self.at else ""
        if self.inside or before not in ("", " ", "\t", "\n"):
            raise uses("a comment inside '$(...)'" if self.inside else "a '#' that may or may not begin a comment")
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        if self.text[end - 1] == "\\":
            raise uses("a comment that ends with a backslash")
        self.at = end

    def _newline(self) -> None:
        """Skip the end of a line, and the here-documents that begin there."""
        self.at += 1
        for delimiter, document in self.documents:
            end = self.text.find(f"\n{delimiter}\n", self.at - 1)
            if end < 0 and self.text.endswith(f"\n{delimiter}") and len(self.text) - len(delimiter) >= self.at:
                end = len(self.text) - len(delimiter) - 1
            if end < 0:
                raise uses("a here-document without an end")
            body = self.text[self.at : end + 1]
            self.has_inner_document = True
            if self.inside > 1:
                raise uses("a here-document inside nested '$(...)'")
            if self.inside and not _is_balanced(body):
                raise uses(
                    "open quotes, parentheses, or '\\' in a here-document inside '$(...)', which old shells misread"
                )
            document.fed = body
            self.at = min(end + len(delimiter) + 2, len(self.text))
        self.documents.clear()
