r"""Parse JSON as models write it, with a fixed, wider grammar, so that no meaning is guessed.

In addition to JSON, the grammar accepts raw control characters in strings, trailing commas, comments, keys without
quotes, single and curly quotes, `True`, `None`, `undefined`, numbers like `.5`, `1.`, and `1_000`, and backslashes that
escape nothing (`"\d+"`, `"C:\Users"`), which are preserved. Every value keeps all its characters.

The parser distinguishes a text that ends too early from an invalid text: the first returns the value read so far with
the state `cut`.
"""

import re
from typing import Any, Literal, NamedTuple

from mainspring.lazy import lazy_re

MAX_DEPTH = 200

ParseStatus = Literal["whole", "cut", "broken"]


class ParseResult(NamedTuple):
    """Result of parsing a value.

    Attributes:
        value: Parsed value; the part that was read if the value is incomplete, or `None` if nothing was read.
        end: Index where the value ends, or where parsing stopped.
        state: `whole`, `cut` (the text ended inside the value), or `broken` (not valid in the wider grammar either).
        problem: Reason why the value must not be used although it was read; empty if it may be used.
    """

    value: Any
    end: int
    state: ParseStatus
    problem: str = ""


def parse_value(text: str, start: int = 0) -> ParseResult:
    """Parse the value that begins at `start`, after optional blanks.

    The text after the value is ignored.
    """
    reader = _TolerantParser(text, start)
    state: ParseStatus = "whole"
    try:
        reader.read_root()
    except _TruncatedError:
        state = "cut"
    except _SyntaxError:
        state = "broken"
    except RecursionError:
        state, reader.problem = "broken", f"nested deeper than {MAX_DEPTH} levels"
    return ParseResult(reader.root, reader.at, state, reader.problem)


class _TruncatedError(Exception):
    """The text ended inside a value."""


class _CutNumberError(_TruncatedError):
    """The text ended inside a number."""

    def __init__(self, value: int | float) -> None:
        super().__init__(value)
        self.value = value


class _SyntaxError(Exception):
    """The text does not match the grammar."""


_BLANK = lazy_re(r"[\s\ufeff\u200b\u200c\u200d\u2060]*")
_COMMENT = lazy_re(r"/\*(?:.*?\*/|.*\Z)|(?://|#)[^\n]*(?:\n|\Z)", re.DOTALL)
_NUMBER = lazy_re(r"[+-]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?")
_CUT_NUMBER = lazy_re(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = lazy_re(r"[^\W\d][\w$-]*|\$[\w$-]*|[0-9]+(?![\w.+-])")
_AFTER_VALUE = lazy_re(r"\s*(?:[,:}\]#]|/[/*]|\Z)")
_LITERALS = {"true": True, "false": False, "null": None, "none": None, "undefined": None}
_NOT_NUMBERS = frozenset({"nan", "infinity", "inf"})
_CLOSERS = {'"': '"', "'": "'", "“": "”“", "”": "”", "„": "“”", "‘": "’", "`": "`"}
_PLAIN = {quote: lazy_re(rf"[^\\{re.escape(closers)}]*") for quote, closers in _CLOSERS.items()}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'", "`": "`"}
_HEX = lazy_re(r"[0-9a-fA-F]{4}")
_MAX_DIGITS = 4_000


class _TolerantParser:
    """Parser for the wider grammar.

    It fills containers while it reads, so that cut text leaves a partial value.
    """

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.at = start
        self.root: Any = None
        self.problem = ""
        self._depth = 0

    def read_root(self) -> None:
        self._skip()
        match self._peek():
            case "{":
                self.root = {}
                self._read_object(self.root)
            case "[":
                self.root = []
                self._read_array(self.root)
            case _:
                holder: list[Any] = []
                try:
                    self._read_into(holder)
                finally:
                    self.root = holder[0] if holder else None

    def _peek(self) -> str:
        if self.at >= len(self.text):
            raise _TruncatedError
        return self.text[self.at]

    def _skip(self) -> None:
        """Skip blanks and comments.

        A line comment must end with a newline, since it may have swallowed the rest otherwise.
        """
        while True:
            self.at = _at_end(_BLANK, self.text, self.at)
            found = _COMMENT.match(self.text, self.at)
            if not found:
                return
            if not found[0].startswith("/*") and not found[0].endswith("\n"):
                raise _SyntaxError
            self.at = found.end()

    def _read_object(self, into: dict[str, Any]) -> None:
        self._enter()
        self._skip()
        while self._peek() != "}":
            key = self._read_key()
            self._skip()
            if self._peek() != ":":
                raise _SyntaxError
            self.at += 1
            self._skip()
            before = into.get(key, into)
            self._read_into(into, key)
            if before is not into and before != into[key]:
                self.problem = self.problem or f"the key {key[:80]!r} is there twice, with different values"
            self._parse_separator("}")
        self._leave()

    def _read_array(self, into: list[Any]) -> None:
        self._enter()
        self._skip()
        while self._peek() != "]":
            self._read_into(into)
            self._parse_separator("]")
        self._leave()

    def _enter(self) -> None:
        self.at += 1
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise RecursionError

    def _leave(self) -> None:
        self.at += 1
        self._depth -= 1

    def _parse_separator(self, closing: str) -> None:
        self._skip()
        char = self._peek()
        if char == ",":
            self.at += 1
            self._skip()
            if self._peek() == ",":
                raise _SyntaxError
        elif char != closing:
            raise _SyntaxError

    def _read_into(self, into: Any, key: Any = None) -> None:
        """Read a value and put it into a list, or into an object under a key."""

        def put(value: Any) -> None:
            if key is None:
                into.append(value)
            else:
                into[key] = value

        char = self._peek()
        if char == "{":
            inner: dict[str, Any] = {}
            put(inner)
            self._read_object(inner)
        elif char == "[":
            items: list[Any] = []
            put(items)
            self._read_array(items)
        elif char in _CLOSERS:
            parts: list[str] = []
            try:
                self._read_string(parts)
            except _TruncatedError:
                put("".join(parts))
                raise
            put("".join(parts))
        elif char in "+-.0123456789":
            try:
                put(self._read_number())
            except _CutNumberError as cut:
                put(cut.value)
                raise
        else:
            put(self._read_literal())

    def _read_key(self) -> str:
        if self._peek() in _CLOSERS:
            parts: list[str] = []
            self._read_string(parts)
            return "".join(parts)
        found = _WORD.match(self.text, self.at)
        if not found:
            raise _SyntaxError
        self.at = found.end()
        self._peek()
        return found[0]

    def _read_string(self, parts: list[str]) -> None:
        opening = self.text[self.at]
        plain = _PLAIN[opening]
        self.at += 1
        while True:
            found = plain.match(self.text, self.at)
            end = found.end() if found else self.at
            parts.append(self.text[self.at : end])
            self.at = end
            char = self._peek()
            if char == "\\":
                self._read_escape(parts, opening)
                continue
            self.at += 1
            if opening == '"' or _AFTER_VALUE.match(self.text, self.at):
                return
            parts.append(char)  # an apostrophe

    def _read_escape(self, parts: list[str], opening: str) -> None:
        if self.at + 1 >= len(self.text):
            raise _TruncatedError
        char = self.text[self.at + 1]
        if char == "u":
            self._read_unicode(parts)
            return
        hexadecimal = re.compile("[0-9a-fA-F]{2}").match(self.text, self.at + 2) if char == "x" else None
        if hexadecimal and opening == "'":  # Python writes control characters like this
            parts.append(chr(int(hexadecimal[0], 16)))
            self.at = hexadecimal.end()
            return
        self.at += 2
        if char in _ESCAPES:
            parts.append(_ESCAPES[char])
        elif char.isascii():
            parts.append("\\" + char)
        else:
            parts.append(char)

    def _read_unicode(self, parts: list[str]) -> None:
        found = _HEX.match(self.text, self.at + 2)
        if found:
            parts.append(chr(int(found[0], 16)))
            self.at = found.end()
            return
        rest = self.text[self.at + 2 : self.at + 6]
        if len(rest) < 4 and re.fullmatch(r"[0-9a-fA-F]*", rest):
            raise _TruncatedError
        parts.append("\\u")
        self.at += 2

    def _read_number(self) -> int | float:
        found = _NUMBER.match(self.text, self.at)
        end = found.end() if found else self.at
        if end >= len(self.text) or (not found and self.at + 1 >= len(self.text)):
            self._cut_number()
        if not found or not _AFTER_VALUE.match(self.text, end) or len(found[0]) > _MAX_DIGITS:
            raise self._not_a_number(found[0] if found else "")
        digits = found[0].replace("_", "")
        self.at = end
        if re.fullmatch(r"[+-]?[0-9]+", digits):
            if re.match(r"[+-]?0[0-9]", digits):
                raise _SyntaxError  # 0755: octal or not?
            return int(digits)
        number = float(digits)
        if number - number != 0:
            self.problem = self.problem or f"the number {digits[:40]} is too large"
        return number

    def _not_a_number(self, digits: str) -> Exception:
        if len(digits) > _MAX_DIGITS:
            self.problem = f"a number has more than {_MAX_DIGITS} digits"
        word = _WORD.match(self.text, self.at + 1)
        if word and word[0].lower() in _NOT_NUMBERS:
            self.problem = f"{self.text[self.at]}{word[0]} is not a JSON value"
        return _SyntaxError()

    def _cut_number(self) -> None:
        """Handle a number at the end of the text: digits may be missing, so only the valid part is stored, for display."""
        found = _CUT_NUMBER.fullmatch(self.text, self.at)
        if found and len(found[0]) <= 300:
            raise _CutNumberError(float(found[0]) if re.search(r"[.eE]", found[0]) else int(found[0]))
        raise _TruncatedError

    def _read_literal(self) -> Any:
        found = _WORD.match(self.text, self.at)
        if not found:
            raise _SyntaxError
        word = found[0].lower()
        if found.end() >= len(self.text) and any(each.startswith(word) for each in _LITERALS):
            raise _TruncatedError
        if word in _NOT_NUMBERS:
            self.problem = f"{found[0]} is not a JSON value"
        if word not in _LITERALS or not _AFTER_VALUE.match(self.text, found.end()):
            raise _SyntaxError
        self.at = found.end()
        return _LITERALS[word]


def _at_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
