"""Parse a shell line into a syntax tree, if bash, dash, and zsh all read the line in the same way.

The language is small on purpose: simple commands of literal words, quotes, plain wildcards, ``$NAME``, ``$(...)``, pipes, lists,
redirections to files, groups, ``if``, ``for``, ``while``, and ``until``. Everything else raises `NotUnderstoodError`, which names the
construct. The parser never guesses: it rejects every character that it does not handle.
"""

from __future__ import annotations

from mainspring.lazy import lazy_re
from mainspring.shell_analysis.lexer import ENDS, Lexer, uses
from mainspring.shell_analysis.syntax import Block, Loop, Node, NotUnderstoodError, Redirection, Simple, Spelling
from mainspring.text import code_point, find_invisible

MAX_LINE_CHARS = 20_000
"""Maximum length of a line; longer lines are rejected."""

MAX_NESTING = 25

_ASSIGNMENT = lazy_re(r"([A-Za-z_][A-Za-z0-9_]*)(=|\+=|\[)")
_REDIRECT = lazy_re(r"([0-9]?)(<<<|<<-?|<>|<&|>&|>>|>\||[<>])|(&>>?)")
_NOT_FILES = {"<<<": "a here-string", "<<-": "'<<-'", "<>": "'<>'", "<&": "'<&'"}
_COPIED_DESCRIPTOR = lazy_re(r"(?:[0-9]|-)(?=[ \t\n;&|)]|\Z)")
_DELIMITER = lazy_re(r"'([A-Za-z_][A-Za-z0-9_]*)'|\"([A-Za-z_][A-Za-z0-9_]*)\"")
_CONTROL = frozenset("if then elif else fi for do done while until { } !".split())
_OTHER_RESERVED = frozenset(
    "case esac in select function time coproc [[ ]] repeat foreach end nocorrect noglob always - declare typeset local export readonly "
    "float integer let".split()
)
"""Reserved words of some shell, and words that change how zsh reads the words after them."""

_NESTED = "it is nested too deeply"
_ASSIGNMENT_NAME = lazy_re(r"[A-Za-z_][A-Za-z0-9_]*(?=[ \t])")


def parse(text: str, *, hides_dotfiles: bool = True) -> Block:
    """Parse a line.

    Args:
        text: The line.
        hides_dotfiles: Whether its wildcards match no name that begins with a dot, the default of shells.

    Raises:
        NotUnderstoodError: If it uses a construct outside the language.
    """
    if len(text) > MAX_LINE_CHARS:
        raise NotUnderstoodError(f"it is longer than {MAX_LINE_CHARS} characters")
    odd = find_invisible(text)
    if odd:
        raise NotUnderstoodError(f"it contains the invisible character {code_point(odd)}")
    return _Parser(text, hides_dotfiles=hides_dotfiles).line()


class _Parser(Lexer):
    """Parser of one line."""

    def __init__(self, text: str, *, hides_dotfiles: bool = True) -> None:
        super().__init__(text, hides_dotfiles=hides_dotfiles)
        self.nesting = 0

    def line(self) -> Block:
        self._newlines()
        if self.at == len(self.text):
            return Block(())
        block = self.read_list(frozenset())
        if self.at < len(self.text):
            raise self._unexpected()
        if self.documents:
            raise uses("a here-document without an end")
        return block

    # --- lists and pipelines ----------------------------------------------------------------------------------------

    def read_list(self, ends: frozenset[str]) -> Block:
        """Read commands up to a parenthesis, one of some reserved words, or the end."""
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
            items.append(Block((item,), kind="background") if separator == "&" else item)
            if not separator:
                break
        if not items:
            raise uses("an empty list of commands")
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
                raise uses("'|&'")
            self.at += 1
            self._newlines()
            items.append(self._command())
            if any(not redirect.writes for redirect in items[-1].redirects):
                raise uses("a pipe and a redirection for the same input, both of which zsh reads")
        return items[0] if len(items) == 1 else Block(tuple(items), kind="pipe")

    # --- commands ---------------------------------------------------------------------------------------------------

    def _command(self) -> Node:
        if self._char() == "(":
            if self._char(1) in ("(", ")"):
                raise uses("'((...))'" if self._char(1) == "(" else "'()'")
            self.at += 1
            body = self.read_list(frozenset())
            self._take(")")
            return Block((body,), self._redirects(), "subshell")
        keyword = self._keyword()
        if keyword in _CONTROL:
            return self._compound(keyword)
        if keyword in _OTHER_RESERVED and keyword != "time":
            raise uses(f"{keyword!r}")
        return self._simple()

    def _compound(self, keyword: str) -> Node:
        if keyword not in ("if", "for", "while", "until", "{"):
            raise uses(f"{keyword!r} where a command should be")
        self._expect(keyword)
        if keyword == "for":
            return self._text_purpose()
        if keyword == "{":
            body = self.read_list(frozenset("}"))
            self._expect("}")
            return Block((body,), self._redirects())
        items: list[Node] = [self.read_list(frozenset(("then", "do")))]
        if keyword == "if":
            self._expect("then")
            items.append(self.read_list(frozenset(("elif", "else", "fi"))))
            while self._keyword() == "elif":
                self._expect("elif")
                items.append(self.read_list(frozenset(("then",))))
                self._expect("then")
                items.append(self.read_list(frozenset(("elif", "else", "fi"))))
            if self._keyword() == "else":
                self._expect("else")
                items.append(self.read_list(frozenset(("fi",))))
            self._expect("fi")
        else:
            self._expect("do")
            items.append(self.read_list(frozenset(("done",))))
            self._expect("done")
        return Block(tuple(items), self._redirects(), "loose" if keyword == "if" else "loop")

    def _text_purpose(self) -> Node:
        self._blanks()
        name = _ASSIGNMENT_NAME.match(self.text, self.at)
        if name is None:
            raise uses("a 'for' without a plain name")
        self.at = name.end()
        self._blanks()
        self._expect("in")
        values: list[Spelling] = []
        while True:
            self._blanks()
            if self._char() in ("", *ENDS):
                break
            values.append(self._word())
        if not values or self._char() not in (";", "\n"):
            raise uses("a 'for' without a list of words")
        if self._char() == ";":
            self.at += 1
        self._newlines()
        self._expect("do")
        body = self.read_list(frozenset(("done",)))
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
                if not words or len(words) == 1 and words[0].source == "time":  # zsh reads a reserved word there
                    raise uses("a redirection before the name of a command")
            elif self._char() in ("", *ENDS):
                break
            elif not words and (found := _ASSIGNMENT.match(self.text, self.at)) is not None:
                assignments.append(self._assignment(found[1], found[2]))
            else:
                words.append(self._word(tested=bool(words) and words[0].source in ("[", "test")))
            end = self.at
        if self._char() == "(":
            raise uses("a function definition, or parentheses right after a word")
        if not words and not assignments:
            raise self._unexpected()
        return Simple(self.text[start:end], tuple(assignments), tuple(words), tuple(redirects))

    def _assignment(self, name: str, operator: str) -> tuple[str, Spelling]:
        if operator != "=":
            raise uses("an array assignment" if operator == "[" else "'+='")
        self.at += len(name) + 1
        if self._char() == "(":
            raise uses("an array assignment")
        value = Spelling("", ()) if self._char() in ("", *ENDS) else self._word(assigned=True)
        return name, value

    # --- redirections -----------------------------------------------------------------------------------------------

    def _redirects(self) -> tuple[Redirection, ...]:
        """Read the redirections after a compound command, which nothing else may follow."""
        found: list[Redirection] = []
        while True:
            self._blanks()
            if not self._redirection(found):
                break
        if self._char() not in ("", "\n", ";", "&", "|", ")"):
            raise uses("a word right after a compound command")
        return tuple(found)

    def _redirection(self, redirections: list[Redirection]) -> bool:
        """Read the redirection at this position, if any."""
        match = _REDIRECT.match(self.text, self.at)
        if match is None:
            return False
        start, operator = self.at, match[2] or match[3]
        if operator[0] == "<" and any(not redirect.writes for redirect in redirections):
            raise uses("two redirections of the input, both of which zsh reads")
        self.at = match.end()
        if operator in _NOT_FILES:
            raise uses(_NOT_FILES[operator])
        if operator == "<<":
            self._document(match[1], redirections)
        elif operator == ">&":
            copied = _COPIED_DESCRIPTOR.match(self.text, self.at)
            if copied is None:
                raise uses("'>&' with something other than one digit or '-'")
            self.at = copied.end()
        else:
            target = self._file(operator)
            redirections.append(Redirection(self.text[start : self.at], operator != "<", target))
            if match[3]:
                self._after_both(operator, target)
        return True

    def _file(self, operator: str) -> Spelling:
        """Read the file of a redirection."""
        if self._char() == "(":
            raise uses("process substitution")
        self._blanks()
        if self._char() in ("<", ">") and self._char(1) == "(":
            raise uses("process substitution")
        if self._char() in ("", "!", "-", *ENDS):
            raise uses(f"{operator!r} without a plain file name")
        target = self._word()
        if target.splits or self._char() in ("<", ">", "("):
            raise uses("a redirection to a pattern, or one with another right after it")
        return target

    def _after_both(self, operator: str, target: Spelling) -> None:
        """Check that ``&>`` ends its command, so that dash, which reads ``& >``, runs the same commands."""
        if target.source[0] in "0123456789" or target.source == "p":
            raise uses(f"{operator!r} with a name that may be read as a file descriptor")
        self._blanks()
        if self._char() not in ("", "\n", ";", "&", "|", ")") or _REDIRECT.match(self.text, self.at):
            raise uses(f"words after {operator!r}, which dash reads as a command; use '> file 2>&1'")

    def _document(self, descriptor: str, redirections: list[Redirection]) -> None:
        """Read ``<<'EOF'``; its text begins after the end of the line."""
        delimiter = _DELIMITER.match(self.text, self.at)
        if delimiter is None:
            raise uses("a here-document with an unquoted delimiter")
        if descriptor or self.text[delimiter.end() : delimiter.end() + 1] not in ("\n", " ", ";", "|", "&"):
            raise uses("a here-document with something right before or after it")
        redirections.append(Redirection(f"<<{delimiter[0]}", False))
        self.documents.append((delimiter[1] or delimiter[2], redirections[-1]))
        self.at = delimiter.end()
