"""Reads a shell line into its syntax tree, if bash, dash, and zsh all read the line in the same way.

The language is small on purpose: simple commands of literal words, quotes, plain wildcards, ``$NAME``, ``$(...)``, pipes, lists,
redirections to files, groups, ``if``, ``for``, ``while``, and ``until``. Everything else raises `NotUnderstoodError`, which names the
construct. Nothing is guessed: a character that is not handled here is not understood.
"""

from __future__ import annotations

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.syntax import (
    Block,
    Loop,
    Node,
    NotUnderstoodError,
    Redirection,
    Simple,
    Spelling,
    Substitution,
    Variable,
)
from mainspring.text import named, odd_character

MAX_LENGTH = 20_000
"""Longer lines are not read."""

MAX_NESTING = 25

_ENDS = frozenset(" \t\n;&|()<>")
_PLAIN = lazy_re(r"[A-Za-z0-9_./,:@%+-]+")
_PLAIN_WORD = lazy_re(r"[A-Za-z0-9_./,:@%+-]+(?=[ \t\n;)]|\Z)")
_PLAIN_QUOTED = lazy_re(r"[^\"\\$`]+")
_SPACES = lazy_re(r"[ \t]*")
_CLASS = lazy_re(r"\[[!^]?[A-Za-z0-9_.][A-Za-z0-9_.-]*\]")
_BRACES = lazy_re(r"\{[A-Za-z0-9_-]*\}")
_ASSIGNMENT = lazy_re(r"([A-Za-z_][A-Za-z0-9_]*)(=|\+=|\[)")
_KEYWORD = lazy_re(r"(?:[a-z]+|[{}!]|\[\[)(?=[ \t\n;&|()<>]|\Z)")
_REDIRECT = lazy_re(r"([0-9]?)(<<<|<<-?|<>|<&|>&|>>|>\||[<>])|(&>>?)")
_COPIED_DESCRIPTOR = lazy_re(r"(?:[0-9]|-)(?=[ \t\n;&|)]|\Z)")
_COMPARISON = lazy_re(r"==?(?=[ \t])")
_DELIMITER = lazy_re(r"'([A-Za-z_][A-Za-z0-9_]*)'|\"([A-Za-z_][A-Za-z0-9_]*)\"")
_DOLLAR = lazy_re(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|(\?))")
_AFTER_VARIABLE = frozenset(" \t\n;&|)<>\"'/.,-=@%+\\$")
_LONE_DOLLAR = frozenset(" \t\n|)")
_QUOTED_TEXT = lazy_re(r"'[^']*'|\"[^\"]*\"")
_UNSAFE = lazy_re(r"[`\\]|\$[{'\"]")
_CONTROL = frozenset("if then elif else fi for do done while until { } !".split())
_CLOSING = frozenset(("fi", "done", "}"))
_OTHER_RESERVED = frozenset(
    "case esac in select function time coproc [[ ]] repeat foreach end nocorrect noglob always - declare typeset local export readonly "
    "float integer let".split()
)
"""Reserved words of some shell, and words that change how zsh reads the words after them."""

_NESTED = "it is nested too deeply"


def parse(text: str) -> Block:
    """Read a line.

    Raises:
        NotUnderstoodError: If it uses something outside the language.
    """
    if len(text) > MAX_LENGTH:
        raise NotUnderstoodError(f"it is longer than {MAX_LENGTH} characters")
    odd = odd_character(text)
    if odd:
        raise NotUnderstoodError(f"it contains the character {named(odd)}, which cannot be seen")
    return _Parser(text).line()


def _uses(construct: str) -> NotUnderstoodError:
    return NotUnderstoodError(f"it uses {construct}")


def _is_balanced(body: str) -> bool:
    """Returns True if bash 3.2, which looks for the end of ``$(`` without knowing here-documents, finds the right one."""
    rest, depth = _QUOTED_TEXT.sub("", body), 0
    for char in rest:
        depth += (char == "(") - (char == ")")
        if depth < 0 or char in "'\"":
            return False
    return depth == 0 and _UNSAFE.search(body) is None


class _Parser:
    """Reads one line from left to right, without going back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.nesting = 0
        self.inside = 0  # in how many $(...)
        self.documents: list[tuple[str, Redirection]] = []  # those that begin at the next line end

    def line(self) -> Block:
        self._newlines()
        if self.at == len(self.text):
            return Block(())
        block = self._list(frozenset())
        if self.at < len(self.text):
            raise self._unexpected()
        if self.documents:
            raise _uses("a here-document without an end")
        return block

    # --- lists and pipelines ----------------------------------------------------------------------------------------

    def _list(self, ends: frozenset[str]) -> Block:
        """Commands up to a parenthesis, one of some reserved words, or the end."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise NotUnderstoodError(_NESTED)
        items: list[Node] = []
        while True:
            self._newlines()
            if self.at >= len(self.text) or self.text[self.at] == ")" or self._keyword() in ends:
                break
            item = self._and_or()
            separator = self._separator()
            items.append(Block((item,), kind="loose") if separator == "&" else item)
            if not separator:
                break
        if not items:
            raise _uses("an empty list of commands")
        self.nesting -= 1
        return items[0] if len(items) == 1 and isinstance(items[0], Block) else Block(tuple(items))

    def _separator(self) -> str:
        self._blanks()
        char = self._char()
        if char == "\n":
            self._newline()
            return char
        if char not in (";", "&") or self._char(1) in (";", "&", "|", "!", ">"):
            return ""
        self.at += 1
        return char

    def _and_or(self) -> Node:
        items = [self._pipeline()]
        kind = "list"
        while True:
            self._blanks()
            operator = self.text[self.at : self.at + 2]
            if operator not in ("&&", "||"):
                break
            kind = "loose" if operator == "||" else kind
            self.at += 2
            self._newlines()
            items.append(self._pipeline())
        return items[0] if len(items) == 1 else Block(tuple(items), kind=kind)

    def _pipeline(self) -> Node:
        self._blanks()
        if self._keyword() == "!":
            self._expect("!")
            self._blanks()
        items = [self._command()]
        while True:
            self._blanks()
            if self._char() != "|" or self._char(1) == "|":
                break
            if self._char(1) == "&":
                raise _uses("'|&'")
            self.at += 1
            self._newlines()
            items.append(self._command())
            if any(not redirect.writes for redirect in items[-1].redirects):
                raise _uses("a pipe and a redirection for the same input, both of which zsh reads")
        return items[0] if len(items) == 1 else Block(tuple(items), kind="pipe")

    # --- commands ---------------------------------------------------------------------------------------------------

    def _command(self) -> Node:
        if self._char() == "(":
            if self._char(1) in ("(", ")"):
                raise _uses("'((...))'" if self._char(1) == "(" else "'()'")
            self.at += 1
            body = self._list(frozenset())
            self._take(")")
            return Block((body,), self._redirects(), "loose")
        keyword = self._keyword()
        if keyword in _CONTROL:
            return self._compound(keyword)
        if keyword in _OTHER_RESERVED and keyword != "time":
            raise _uses(f"{keyword!r}")
        return self._simple()

    def _compound(self, keyword: str) -> Node:
        if keyword not in ("if", "for", "while", "until", "{"):
            raise _uses(f"{keyword!r} where a command should be")
        self._expect(keyword)
        if keyword == "for":
            return self._for()
        if keyword == "{":
            body = self._list(frozenset("}"))
            self._expect("}")
            return Block((body,), self._redirects())
        items: list[Node] = [self._list(frozenset(("then", "do")))]
        if keyword == "if":
            self._expect("then")
            items.append(self._list(frozenset(("elif", "else", "fi"))))
            while self._keyword() == "elif":
                self._expect("elif")
                items.append(self._list(frozenset(("then",))))
                self._expect("then")
                items.append(self._list(frozenset(("elif", "else", "fi"))))
            if self._keyword() == "else":
                self._expect("else")
                items.append(self._list(frozenset(("fi",))))
            self._expect("fi")
        else:
            self._expect("do")
            items.append(self._list(frozenset(("done",))))
            self._expect("done")
        return Block(tuple(items), self._redirects(), "loose")

    def _for(self) -> Node:
        self._blanks()
        name = _ASSIGNMENT_NAME.match(self.text, self.at)
        if name is None:
            raise _uses("a 'for' without a plain name")
        self.at = name.end()
        self._blanks()
        self._expect("in")
        values: list[Spelling] = []
        while True:
            self._blanks()
            if self._char() in ("", *_ENDS):
                break
            values.append(self._word())
        if not values or self._char() not in (";", "\n"):
            raise _uses("a 'for' without a list of words")
        if self._char() == ";":
            self.at += 1
        self._newlines()
        self._expect("do")
        body = self._list(frozenset(("done",)))
        self._expect("done")
        return Loop(name[0], tuple(values), body, self._redirects())

    def _simple(self) -> Simple:
        start = self.at
        assignments: list[tuple[str, Spelling]] = []
        words: list[Spelling] = []
        redirects: list[Redirection] = []
        end = start
        while True:
            self._blanks()
            if self._redirection(redirects):
                if assignments and not words or len(words) == 1 and words[0].source == "time":
                    raise _uses("a redirection before the name of a command")
            elif self._char() in ("", *_ENDS):
                break
            elif not words and (found := _ASSIGNMENT.match(self.text, self.at)) is not None:
                if redirects:
                    raise _uses("a redirection before an assignment")
                assignments.append(self._assignment(found[1], found[2]))
            else:
                words.append(self._word(tested=bool(words) and words[0].source in ("[", "test")))
            end = self.at
        if self._char() == "(":
            raise _uses("a function definition, or parentheses right after a word")
        if not words and (redirects or not assignments):
            raise _uses("a redirection without a command") if redirects else self._unexpected()
        return Simple(self.text[start:end], tuple(assignments), tuple(words), tuple(redirects))

    def _assignment(self, name: str, operator: str) -> tuple[str, Spelling]:
        if operator != "=":
            raise _uses("an array assignment" if operator == "[" else "'+='")
        self.at += len(name) + 1
        if self._char() == "(":
            raise _uses("an array assignment")
        value = Spelling("", ()) if self._char() in ("", *_ENDS) else self._word(assigned=True)
        return name, value

    # --- redirections -----------------------------------------------------------------------------------------------

    def _redirects(self) -> tuple[Redirection, ...]:
        """The redirections after a compound command, which nothing else may follow."""
        found: list[Redirection] = []
        while True:
            self._blanks()
            if not self._redirection(found):
                break
        if self._char() not in ("", "\n", ";", "&", "|", ")"):
            raise _uses("a word right after a compound command")
        return tuple(found)

    def _redirection(self, found: list[Redirection]) -> bool:
        """Read one redirection, if there is one here."""
        match = _REDIRECT.match(self.text, self.at)
        if match is None:
            return False
        start, operator = self.at, match[2] or match[3]
        if operator[0] == "<" and any(not redirect.writes for redirect in found):
            raise _uses("two redirections of the input, both of which zsh reads")
        self.at = match.end()
        if self._char() == "(" and operator in ("<", ">", ">>"):
            raise _uses("process substitution")
        if operator == "<<":
            self._document(match[1], found)
            return True
        if operator in ("<<<", "<<-", "<>"):
            raise _uses({"<<<": "a here-string", "<<-": "'<<-'"}.get(operator, "'<>'"))
        if operator == "<&":
            raise _uses("'<&'")
        if operator == ">&":
            copied = _COPIED_DESCRIPTOR.match(self.text, self.at)
            if copied is None:
                raise _uses(f"{operator!r} with something other than one digit or '-'")
            self.at = copied.end()
            return True
        self._blanks()
        if self._char() in ("", "!", "-", *_ENDS):
            raise _uses(f"{operator!r} without a plain file name")
        target = self._word()
        if target.splits or self._char() in ("<", ">", "("):
            raise _uses("a redirection to a pattern, or one with another right after it")
        found.append(Redirection(self.text[start : self.at], operator != "<", target))
        if match[3]:
            self._blanks()
            if target.source[0] in "0123456789" or target.source == "p":
                raise _uses(f"{operator!r} with a name that may stand for a file descriptor")
            if self._char() not in ("", "\n", ";", "&", "|", ")") or _REDIRECT.match(self.text, self.at):
                raise _uses(f"words after {operator!r}, which dash reads as a command; use '> file 2>&1'")
        return True

    def _document(self, descriptor: str, found: list[Redirection]) -> None:
        """``<<'EOF'``; its text begins after the end of the line."""
        delimiter = _DELIMITER.match(self.text, self.at)
        if delimiter is None:
            raise _uses("a here-document whose delimiter is not quoted")
        if descriptor or self._char_at(delimiter.end()) not in ("\n", " ", ";", "|", "&"):
            raise _uses("a here-document with something right before or after it")
        found.append(Redirection(f"<<{delimiter[0]}", False))
        self.documents.append((delimiter[1] or delimiter[2], found[-1]))
        self.at = delimiter.end()

    def _newline(self) -> None:
        """Pass the end of a line, and the here-documents that begin there."""
        self.at += 1
        for delimiter, document in self.documents:
            end = self.text.find(f"\n{delimiter}\n", self.at - 1)
            if end < 0 and self.text.endswith(f"\n{delimiter}") and len(self.text) - len(delimiter) >= self.at:
                end = len(self.text) - len(delimiter) - 1
            if end < 0:
                raise _uses("a here-document without an end")
            body = self.text[self.at : end + 1]
            if self.inside and not _is_balanced(body):
                raise _uses(
                    "open quotes, parentheses, or '\\' in a here-document inside '$(...)', which old shells misread"
                )
            document.fed = body
            self.at = min(end + len(delimiter) + 2, len(self.text))
        self.documents.clear()

    # --- words ------------------------------------------------------------------------------------------------------

    def _word(self, *, assigned: bool = False, tested: bool = False) -> Spelling:
        text, start = self.text, self.at
        plain = _PLAIN_WORD.match(text, start)
        if plain is not None:
            self.at = plain.end()
            return Spelling(plain[0], (plain[0],))
        if text.startswith("=", start) and not (tested and _COMPARISON.match(text, start)):
            raise _uses("a word that begins with '='")
        pieces: list[str | Variable | Substitution] = []
        known, splits = "", False
        while self.at < len(text) and text[self.at] not in _ENDS:
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
                splits = splits or found[0] == wildcards.ONE
            else:
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
        """Raise if what follows a word right away may belong to it for some shell."""
        if self._char() in ("<", ">") and (source.isdigit() or source[-1] not in _WORD_END):
            raise _uses("a redirection right after a number, a brace, or a quote")
        if source == "}" or source == "{":
            raise _uses("a brace as a word")

    def _literal(self, char: str, start: int, *, assigned: bool) -> str:
        """A piece without quotes, in single quotes, or after a backslash."""
        text, first = self.text, self.at == start
        if char == "'":
            end = text.find("'", self.at + 1)
            if end < 0:
                raise _uses("an open quote")
            piece = self._quoted(text[self.at + 1 : end])
            self.at = end + 1
            return piece
        if char == "\\":
            return self._escaped()
        if char == "`":
            raise _uses("backquotes")
        if char in "{}":
            return self._braces(assigned=assigned)
        if char == "~":
            return self._tilde(first=first, assigned=assigned)
        if char == "=" and assigned and text[self.at - 1] == ":":
            raise _uses("'=' after ':' in an assignment")
        if char in "=!#^]" or not char.isascii():
            if char == "#" and first and not assigned:
                raise _uses("a '#' that may or may not begin a comment")
            self.at += 1
            return char
        raise self._unexpected()

    def _escaped(self) -> str:
        char = self._char(1)
        if not char or char == "\n" or not " " <= char <= "~":
            raise _uses(
                "a backslash at the end of a line" if char in ("", "\n") else "a backslash before a special character"
            )
        self.at += 2
        return char

    def _braces(self, *, assigned: bool) -> str:
        """Braces that no shell expands: ``{}``, and those of a revision as in ``HEAD@{1}``."""
        found = _BRACES.match(self.text, self.at)
        before = self.text[self.at - 1 : self.at]
        if found is None or assigned or not (found[0] == "{}" or before in ("@", "^")):
            raise _uses("braces that some shells expand; quote them if they are text")
        self.at = found.end()
        return found[0]

    def _tilde(self, *, first: bool, assigned: bool) -> str:
        self.at += 1
        if first and not assigned and self._char() in ("", "/", *_ENDS):
            return wildcards.HOME
        if assigned or first or self.text[self.at - 2] in "=:'\"":
            raise _uses("'~' in a place where shells expand it in different ways")
        return "~"

    def _wildcard(self, char: str, *, assigned: bool) -> str:
        if assigned:
            raise _uses("a wildcard in an assignment")
        if char == "[":
            if self._char(1) in ("", *_ENDS) and self.text[self.at - 1 : self.at] in (
                "",
                " ",
                "\t",
                "\n",
                ";",
                "&",
                "|",
                "(",
            ):
                self.at += 1
                return char
            found = _CLASS.match(self.text, self.at)
            if found is None:
                raise _uses("a '[' that is not a plain pattern such as '[abc]'")
            self.at = found.end()
            return wildcards.ONE
        if self.text.startswith("**", self.at):
            raise _uses("'**', which zsh expands through folders")
        self.at += 1
        return wildcards.ONE

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
                raise _uses("backquotes" if char else "an open quote")

    def _escaped_in_quotes(self) -> str:
        char = self._char(1)
        if not char or char == "\n":
            raise _uses("a backslash at the end of a line")
        self.at += 2
        return char if char in '$`"\\' else "\\" + char

    def _quoted(self, piece: str) -> str:
        if self.documents and "\n" in piece:
            raise _uses("a quoted line end in the line that begins a here-document")
        return piece

    def _dollar(self, *, quoted: bool) -> str | Variable | Substitution:
        match = _DOLLAR.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
            if not self._ends_variable(braced=match[2] is not None):
                raise _uses(f"{match[0]!r} with something right after it that some shells take for a part of it")
            return Variable(match[1] or match[2] or match[3], quoted)
        following = self._char(1)
        if following == "(":
            return self._substitution(quoted=quoted)
        if following == "{":
            raise _uses(f"'{self.text[self.at : self.at + 20].split('}')[0]}...', an expansion that transforms a value")
        if following in _LONE_DOLLAR or (quoted and following in '"/') or (not quoted and following in ("", *_ENDS)):
            self.at += 1
            return "$"
        raise _uses(f"'${following}...'")

    def _ends_variable(self, *, braced: bool) -> bool:
        """Whether no shell takes what follows a variable for a part of it, as zsh does with ``$x[1]`` and ``$x:h``."""
        char = self._char()
        if char == ":":
            return braced or self._char(1) in (*_AFTER_VARIABLE, "") and self._char(1) not in "&"
        return not char or char in _AFTER_VARIABLE or (braced and char.isascii() and char not in "[(")

    def _substitution(self, *, quoted: bool) -> Substitution:
        if self._char(2) == "(":
            raise _uses("arithmetic expansion '$((...))'")
        if self.documents:
            raise _uses("'$(...)' in the line that begins a here-document")
        self.at += 2
        self.inside += 1
        body = self._list(frozenset())
        if self.documents:
            raise _uses("a here-document without an end")
        self.inside -= 1
        self._take(")")
        return Substitution(body, quoted)

    # --- characters -------------------------------------------------------------------------------------------------

    def _char(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.text[at] if at < len(self.text) else ""

    def _char_at(self, at: int) -> str:
        return self.text[at : at + 1]

    def _keyword(self) -> str:
        found = _KEYWORD.match(self.text, self.at)
        return "" if found is None else found[0]

    def _expect(self, keyword: str) -> None:
        if self._keyword() != keyword:
            raise _uses(f"something other than {keyword!r} where that should be")
        self.at += len(keyword)
        if keyword not in _CLOSING and self._char() not in (" ", "\t", "\n"):
            raise _uses(f"{keyword!r} with no blank after it")

    def _take(self, char: str) -> None:
        if self._char() != char:
            raise self._unexpected()
        self.at += 1

    def _unexpected(self) -> NotUnderstoodError:
        return _uses(f"{self._char()!r} where a command should be" if self._char() else "an unfinished command")

    def _newlines(self) -> None:
        while True:
            self._blanks()
            if self._char() != "\n":
                return
            self._newline()

    def _blanks(self) -> None:
        """Pass blanks, comments, and line ends after a backslash."""
        text = self.text
        while True:
            found = _SPACES.match(text, self.at)
            self.at = found.end() if found else self.at
            if text.startswith("\\\n", self.at):
                if text[self.at - 1 : self.at] not in (" ", "\t") or self.inside or self.documents:
                    raise _uses("a backslash at the end of a line in the middle of a word or of '$(...)'")
                self.at += 2
                found = _SPACES.match(text, self.at)
                self.at = found.end() if found else self.at
                if self._char() in ("", "\n", "#", "\\"):
                    raise _uses("a backslash at the end of a line before an empty line or a comment")
                continue
            if self._char() == "#":
                self._comment()
            return

    def _comment(self) -> None:
        before = self.text[self.at - 1 : self.at] if self.at else ""
        if self.inside or before not in ("", " ", "\t", "\n", ";"):
            raise _uses("a comment inside '$(...)'" if self.inside else "a '#' that may or may not begin a comment")
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        if self.text[end - 1] == "\\":
            raise _uses("a comment that ends with a backslash")
        self.at = end


_ASSIGNMENT_NAME = lazy_re(r"[A-Za-z_][A-Za-z0-9_]*(?=[ \t])")
_WORD_END = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-")
