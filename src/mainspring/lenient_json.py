r"""Parse JSON beyond the strict grammar, with the offset of every value. Strict JSON is the job of `msgspec`.

`parse_jsonc` reads the files of a user: JSON with comments and trailing commas. An error names its line and column.

`parse_relaxed` reads JSON as models write it, with a fixed, wider grammar, so that no meaning is guessed: in addition, raw
control characters in strings, keys without quotes, single and curly quotes, `True`, `None`, `undefined`, numbers like `.5`,
`1.`, and `1_000`, and backslashes that escape nothing (`"\d+"`, `"C:\Users"`), which are preserved. Every value keeps all
its characters. A text that ends too early differs from an invalid one: its state is `cut`, and its value is the part read.
"""

import re
from typing import Any, Literal, NamedTuple, NoReturn

from msgspec import UNSET, Struct, field

from mainspring.lazy import lazy_re

MAX_DEPTH = 200
"""Maximum depth of a value in the wider grammar."""

ParseStatus = Literal["whole", "cut", "broken"]


class JsonError(ValueError):
    """The text is not valid JSON; ``line`` and ``column`` start at 1."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line, self.column = line_and_column(text, position)


class JsonNode(Struct, eq=False):
    """A value at ``text[start:end]``.

    Attributes:
        start: Offset of the first character.
        value: String, number, boolean, or None; unset if the text ended before the value.
        end: Offset after the last character.
        items: Items of an array.
        members: Members of an object, by key.
        keys: Offset of each key of an object.
    """

    start: int
    value: Any = UNSET
    end: int = 0
    items: list["JsonNode"] | None = None
    members: dict[str, "JsonNode"] | None = None
    keys: dict[str, int] = field(default_factory=dict[str, int])

    def to_python(self) -> Any:
        """Return the value as plain dicts and lists."""
        if self.members is not None:
            return {key: value for key, member in self.members.items() if (value := member.to_python()) is not UNSET}
        if self.items is not None:
            return [value for item in self.items if (value := item.to_python()) is not UNSET]
        return self.value


class ParseResult(NamedTuple):
    """Result of parsing a value in the wider grammar.

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


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """Return the line and column of an offset, starting at 1."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def skip_blanks(text: str, at: int) -> int:
    """Return the offset after blanks and comments of a file.

    Raises:
        JsonError: If a comment has no end.
    """
    reader = _Parser(text, at)
    reader.skip()
    return reader.at


def parse_jsonc(text: str) -> JsonNode:
    """Parse a text with comments and trailing commas.

    Raises:
        JsonError: If it is not valid JSON otherwise.
    """
    reader = _Parser(text)
    reader.skip()
    if not reader.peek():
        raise JsonError("The file is empty. Write {} for no settings.", text, 0)
    node = reader.read_root()
    reader.skip()
    if reader.peek():
        reader.fail(f"Unexpected {reader.describe_char()} after the end of the JSON value.")
    return node


def parse_relaxed(text: str, start: int = 0) -> ParseResult:
    """Parse the value that begins at `start`, after optional blanks, in the wider grammar. Never raises.

    The text after the value is ignored.
    """
    reader = _RelaxedParser(text, start)
    state: ParseStatus = "whole"
    try:
        reader.skip()
        reader.read_root()
    except JsonError:
        state = "cut" if reader.is_cut else "broken"
    except RecursionError:
        state, reader.problem = "broken", f"nested deeper than {MAX_DEPTH} levels"
    value = UNSET if reader.root is None else reader.root.to_python()
    return ParseResult(None if value is UNSET else value, reader.at, state, reader.problem)


_WORDS = {"true": True, "false": False, "null": None}
_STRICT_NUMBER = lazy_re(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_STRICT_STRING = lazy_re(r'"(?:[^"\\\x00-\x1f]|\\.)*')


class _Parser:
    """Parses one text. It fills containers while it reads, so that a text that ends too early leaves a partial value.

    Attributes:
        text: The text.
        at: Offset of the next character.
        root: The value, also while it is read.
        problem: Reason why a value must not be used although it was read.
        is_cut: True if the text ended inside the value.
    """

    blank = lazy_re(r"[ \t\r\n]*")
    comment = lazy_re(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
    comment_starts = ("/*",)
    max_depth = 64

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self.at = start
        self.root: JsonNode | None = None
        self.problem = ""
        self.is_cut = False

    def fail(self, reason: str = "", at: int | None = None) -> NoReturn:
        """Fail at an offset, by default the current one; the text is cut if it ends there."""
        position = self.at if at is None else at
        self.is_cut = self.is_cut or position >= len(self.text)
        raise JsonError(reason, self.text, position)

    def peek(self) -> str:
        """Return the next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def describe_char(self) -> str:
        return repr(self.peek()) if self.at < len(self.text) else "the end of the file"

    def skip(self) -> None:
        """Skip blanks and comments."""
        while True:
            self.at = match_end(self.blank, self.text, self.at)
            end = match_end(self.comment, self.text, self.at)
            if end == self.at:
                break
            self.at = end
        if self.text.startswith(self.comment_starts, self.at):
            self.fail("Unterminated comment. Close it with */.")

    def read_root(self) -> JsonNode:
        """Read the value that begins at the current character."""
        self.root = JsonNode(self.at)
        self._fill(self.root, 0)
        return self.root

    def _fill(self, node: JsonNode, depth: int) -> None:
        first = self.peek()
        if first not in ("{", "["):
            self.read_scalar(node, first)
            node.end = self.at
            return
        if depth > self.max_depth:
            self.fail_depth()
        node.value = None
        self.at += 1
        if first == "{":
            self._fill_object(node, depth)
        else:
            self._fill_array(node, depth)
        self.at += 1
        node.end = self.at

    def _fill_array(self, node: JsonNode, depth: int) -> None:
        node.items = []
        self.skip()
        while self.peek() != "]":
            node.items.append(JsonNode(self.at))
            self._fill(node.items[-1], depth + 1)
            self._skip_comma("]")

    def _fill_object(self, node: JsonNode, depth: int) -> None:
        members = node.members = dict[str, JsonNode]()
        self.skip()
        while self.peek() != "}":
            start = self.at
            key = self.read_key()
            before = members.get(key)
            if before is not None:
                self.check_duplicate(key, start)
            node.keys[key] = start
            self.skip()
            if self.peek() != ":":
                self.fail(f'Expected ":" after the key {key!r}, found {self.describe_char()}.')
            self.at += 1
            self.skip()
            members[key] = JsonNode(self.at)
            self._fill(members[key], depth + 1)
            if before is not None and before.to_python() != members[key].to_python():
                self.problem = self.problem or f"the key {key[:80]!r} is there twice, with different values"
            self._skip_comma("}")

    def _skip_comma(self, closing: str) -> None:
        self.skip()
        if self.peek() == ",":
            self.at += 1
            self.skip()
        elif self.peek() != closing:
            self.fail(f'Expected "," or "{closing}", found {self.describe_char()}.')

    def fail_depth(self) -> NoReturn:
        self.fail(f"More than {self.max_depth} levels deep.")

    def check_duplicate(self, key: str, start: int) -> None:
        self.fail(f"Duplicate key {key!r}.", start)

    def read_key(self) -> str:
        if self.peek() != '"':
            self.fail(f'Expected a key in double quotes or "}}", found {self.describe_char()}.')
        return self._read_strict_string()

    def read_scalar(self, node: JsonNode, first: str) -> None:
        if first == '"':
            node.value = self._read_strict_string()
            return
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                node.value = value
                self.at += len(word)
                return
        match = _STRICT_NUMBER.match(self.text, self.at)
        if match is None:
            hint = " Use double quotes." if first == "'" else ""
            self.fail(f"Expected a value, found {self.describe_char()}.{hint}")
        number = match.group()
        node.value = float(number) if match.group(1) or match.group(2) else int(number)
        self.at = match.end()

    def _read_strict_string(self) -> str:
        start, self.at = self.at, match_end(_STRICT_STRING, self.text, self.at)
        if self.at == len(self.text):
            self.fail("Missing closing quote.", start)
        if self.peek() != '"':
            self.fail("A string cannot contain line breaks or control characters. Write \\n.")
        self.at += 1
        import json

        try:
            return json.loads(self.text[start : self.at])
        except json.JSONDecodeError as error:
            self.fail(error.msg[:1].lower() + error.msg[1:], start + error.pos)


_NUMBER = lazy_re(r"[+-]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?")
_CUT_NUMBER = lazy_re(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = lazy_re(r"[^\W\d][\w$-]*|\$[\w$-]*|[0-9]+(?![\w.+-])")
_AFTER_VALUE = lazy_re(r"\s*(?:[,:}\]#]|/[/*]|\Z)")
_LITERALS = {**_WORDS, "none": None, "undefined": None}
_NOT_NUMBERS = frozenset({"nan", "infinity", "inf"})
_CLOSERS = {'"': '"', "'": "'", "“": "”“", "”": "”", "„": "“”", "‘": "’", "`": "`"}
_PLAIN = {quote: lazy_re(rf"[^\\{re.escape(closers)}]*") for quote, closers in _CLOSERS.items()}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'", "`": "`"}
_HEX = lazy_re(r"[0-9a-fA-F]{4}")
_MAX_DIGITS = 4_000


class _RelaxedParser(_Parser):
    """Parser for the wider grammar.

    A line comment must end with a newline, since it may have swallowed the rest otherwise.
    """

    blank = lazy_re(r"[\s\ufeff\u200b\u200c\u200d\u2060]*")
    comment = lazy_re(r"/\*(?:.*?\*/|.*\Z)|(?://|#)[^\n]*\n", re.DOTALL)
    comment_starts = ("//", "#")
    max_depth = MAX_DEPTH - 1

    def fail_depth(self) -> NoReturn:
        raise RecursionError

    def check_duplicate(self, key: str, start: int) -> None:
        """Accept a duplicate; it is a problem only if the values differ."""

    def read_key(self) -> str:
        if self.peek() in _CLOSERS:
            parts: list[str] = []
            self._read_string(parts)
            return "".join(parts)
        found = _WORD.match(self.text, self.at)
        if not found:
            self.fail()
        self.at = found.end()
        return found[0]

    def read_scalar(self, node: JsonNode, first: str) -> None:
        if first in _CLOSERS:
            parts: list[str] = []
            try:
                self._read_string(parts)
            finally:
                node.value = "".join(parts)
        elif first and first in "+-.0123456789":
            self._read_number(node)
        else:
            node.value = self._read_literal()

    def _read_string(self, parts: list[str]) -> None:
        opening = self.text[self.at]
        self.at += 1
        while True:
            end = match_end(_PLAIN[opening], self.text, self.at)
            parts.append(self.text[self.at : end])
            self.at = end
            char = self.peek()
            if not char:
                self.fail()
            if char == "\\":
                self._read_escape(parts, opening)
                continue
            self.at += 1
            if opening == '"' or _AFTER_VALUE.match(self.text, self.at):
                return
            parts.append(char)  # an apostrophe

    def _read_escape(self, parts: list[str], opening: str) -> None:
        if self.at + 1 >= len(self.text):
            self._fail_cut()
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
            self._fail_cut()
        parts.append("\\u")
        self.at += 2

    def _fail_cut(self) -> NoReturn:
        self.is_cut = True
        self.fail()

    def _read_number(self, node: JsonNode) -> None:
        found = _NUMBER.match(self.text, self.at)
        end = found.end() if found else self.at
        if end >= len(self.text) or (not found and self.at + 1 >= len(self.text)):
            self._fill_cut_number(node)
        if not found or not _AFTER_VALUE.match(self.text, end) or len(found[0]) > _MAX_DIGITS:
            self._find_number_problem(found[0] if found else "")
            self.fail()
        digits = found[0].replace("_", "")
        self.at = end
        if re.fullmatch(r"[+-]?[0-9]+", digits):
            if re.match(r"[+-]?0[0-9]", digits):
                self.fail()  # 0755: octal or not?
            node.value = int(digits)
            return
        node.value = float(digits)
        if node.value - node.value != 0:
            self.problem = self.problem or f"the number {digits[:40]} is too large"

    def _find_number_problem(self, digits: str) -> None:
        if len(digits) > _MAX_DIGITS:
            self.problem = f"a number has more than {_MAX_DIGITS} digits"
        word = _WORD.match(self.text, self.at + 1)
        if word and word[0].lower() in _NOT_NUMBERS:
            self.problem = f"{self.text[self.at]}{word[0]} is not a JSON value"

    def _fill_cut_number(self, node: JsonNode) -> NoReturn:
        """Handle a number at the end of the text: digits may be missing, so only the valid part is stored, for display."""
        found = _CUT_NUMBER.fullmatch(self.text, self.at)
        if found and len(found[0]) <= 300:
            node.value = float(found[0]) if re.search(r"[.eE]", found[0]) else int(found[0])
        self._fail_cut()

    def _read_literal(self) -> Any:
        found = _WORD.match(self.text, self.at)
        if not found:
            self.fail()
        word = found[0].lower()
        if found.end() >= len(self.text) and any(each.startswith(word) for each in _LITERALS):
            self._fail_cut()
        if word in _NOT_NUMBERS:
            self.problem = f"{found[0]} is not a JSON value"
        if word not in _LITERALS or not _AFTER_VALUE.match(self.text, found.end()):
            self.fail()
        self.at = found.end()
        return _LITERALS[word]


def match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the offset after a match at an offset; the same offset if nothing matches."""
    found = pattern.match(text, at)
    return found.end() if found else at
