"""JSON with comments and trailing commas, read with the place of everything, so that errors can name it and edits keep the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from mainspring.lazy import lazy_re

_GAP = lazy_re(r"[ \t\r\n]*")
_NUMBER = lazy_re(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_STRING = lazy_re(r'"(?:[^"\\\x00-\x1f]|\\.)*')
_WORDS = {"true": True, "false": False, "null": None}
_MAX_DEPTH = 64


class JsonError(ValueError):
    """The text is no JSON; ``line`` and ``column`` count from 1."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line, self.column = line_and_column(text, position)


class JsonNode(Struct, eq=False):
    """A value and where it stands: ``text[start:end]``.

    Attributes:
        value: A string, number, boolean or ``None``.
        start: Offset of its first character.
        end: Offset behind its last character.
        items: For an array, what it holds.
        members: For an object, its members by key.
        keys: For an object, where each key stands.
    """

    value: Any
    start: int
    end: int = 0
    items: list[JsonNode] | None = None
    members: dict[str, JsonNode] | None = None
    keys: dict[str, int] = field(default_factory=dict[str, int])

    def to_python(self) -> Any:
        """The value with plain objects and arrays."""
        if self.members is not None:
            return {key: member.to_python() for key, member in self.members.items()}
        return self.value if self.items is None else [item.to_python() for item in self.items]


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """Line and column of an offset, counted from 1."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def parse_jsonc(text: str) -> JsonNode:
    """The value of a text.

    Raises:
        JsonError: If it is no JSON (comments and trailing commas aside).
    """
    reader = _Parser(text)
    start = reader.skip_whitespace(0)
    if start == len(text):
        raise JsonError("the file is empty; write {} for no settings", text, 0)
    node = reader.value(start, 0)
    rest = reader.skip_whitespace(node.end)
    if rest != len(text):
        raise JsonError(f"nothing may follow the value, but {reader.describe_char(rest)} does", text, rest)
    return node


class _Parser:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def describe_char(self, at: int) -> str:
        return repr(self.text[at]) if at < len(self.text) else "the end of the file"

    def skip_whitespace(self, at: int) -> int:
        """Behind white space and comments."""
        text = self.text
        while True:
            match = _GAP.match(text, at)
            at = match.end() if match else at
            if text.startswith("//", at):
                end = text.find("\n", at)
                at = len(text) if end < 0 else end
            elif text.startswith("/*", at):
                end = text.find("*/", at + 2)
                if end < 0:
                    raise JsonError("this comment does not end; close it with */", text, at)
                at = end + 2
            else:
                return at

    def value(self, at: int, depth: int) -> JsonNode:
        text = self.text
        if depth > _MAX_DEPTH:
            raise JsonError(f"more than {_MAX_DEPTH} levels deep", text, at)
        first = text[at : at + 1]
        if first == "{":
            return self.object(at, depth)
        if first == "[":
            return self.array(at, depth)
        if first == '"':
            value, end = self.string(at)
            return JsonNode(value, at, end)
        for word, value in _WORDS.items():
            if text.startswith(word, at):
                return JsonNode(value, at, at + len(word))
        match = _NUMBER.match(text, at)
        if match:
            number = match.group()
            value = float(number) if match.group(1) or match.group(2) else int(number)
            return JsonNode(value, at, match.end())
        hint = "; use double quotes" if first == "'" else ""
        raise JsonError(f"expected a value, found {self.describe_char(at)}{hint}", text, at)

    def string(self, at: int) -> tuple[str, int]:
        text = self.text
        match = _STRING.match(text, at)
        end = match.end() if match else at
        if end == len(text):
            raise JsonError("this text has no closing quote", text, at)
        if text[end] != '"':
            raise JsonError("a text may not hold line breaks or control characters; write \\n", text, end)
        try:
            return json.loads(text[at : end + 1]), end + 1
        except json.JSONDecodeError as error:
            raise JsonError(error.msg[:1].lower() + error.msg[1:], text, at + error.pos) from None

    def object(self, at: int, depth: int) -> JsonNode:
        text, members = self.text, dict[str, JsonNode]()
        node = JsonNode(None, at, members=members)
        at = self.skip_whitespace(at + 1)
        while text[at : at + 1] != "}":
            if text[at : at + 1] != '"':
                raise JsonError(f'expected a key in double quotes or "}}", found {self.describe_char(at)}', text, at)
            key, end = self.string(at)
            if key in members:
                raise JsonError(f"the key {key!r} stands here twice", text, at)
            node.keys[key] = at
            at = self.skip_whitespace(end)
            if text[at : at + 1] != ":":
                raise JsonError(f'expected ":" after the key {key!r}, found {self.describe_char(at)}', text, at)
            members[key] = self.value(self.skip_whitespace(at + 1), depth + 1)
            at = self.after_comma(members[key].end, "}")
        node.end = at + 1
        return node

    def array(self, at: int, depth: int) -> JsonNode:
        items: list[JsonNode] = []
        node = JsonNode(None, at, items=items)
        at = self.skip_whitespace(at + 1)
        while self.text[at : at + 1] != "]":
            items.append(self.value(at, depth + 1))
            at = self.after_comma(items[-1].end, "]")
        node.end = at + 1
        return node

    def after_comma(self, at: int, closing: str) -> int:
        """Behind the comma, or at the closing bracket."""
        at = self.skip_whitespace(at)
        if self.text[at : at + 1] == ",":
            return self.skip_whitespace(at + 1)
        if self.text[at : at + 1] != closing:
            raise JsonError(f'expected "," or "{closing}", found {self.describe_char(at)}', self.text, at)
        return at


def edit_jsonc(text: str, path: Sequence[str], value: str | None) -> str:
    """The text with the value at ``path`` set to the JSON text ``value``, or taken away with ``None``.

    Comments, order, layout and everything else stay as they are.

    Raises:
        JsonError: If the text is no JSON, or something else than an object is in the way.
    """
    root = parse_jsonc(text)
    holder = root
    for depth, key in enumerate(path[:-1]):
        if holder.members is None:
            raise JsonError(f"{'.'.join(path[:depth])} is no object", text, holder.start)
        if key not in holder.members:
            if value is None:
                return text
            inner = value
            for name in reversed(path[depth + 1 :]):
                inner = f"{{{_quoted(name)}: {inner}}}"
            return _insert(text, holder, key, inner)
        holder = holder.members[key]
    if holder.members is None:
        raise JsonError(f"{'.'.join(path[:-1]) or 'the settings'} is no object", text, holder.start)
    old = holder.members.get(path[-1])
    if value is None:
        return text if old is None else _remove(text, holder, path[-1])
    if old is None:
        return _insert(text, holder, path[-1], value)
    return text[: old.start] + value + text[old.end :]


def _quoted(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _insert(text: str, holder: JsonNode, key: str, value: str) -> str:
    """Add a member at the end of an object, in the layout of the one before it."""
    member = f"{_quoted(key)}: {value}"
    if not holder.members:
        before = text[text.rfind("\n", 0, holder.start) + 1 : holder.start]
        indent = before[: len(before) - len(before.lstrip())]
        inside = text[holder.start + 1 : holder.end - 1].rstrip()
        return f"{text[: holder.start]}{{{inside}\n{indent}  {member}\n{indent}}}{text[holder.end :]}"
    last_key, last = list(holder.members.items())[-1]
    at = holder.keys[last_key]
    line = text.rfind("\n", 0, at) + 1
    lead = text[line:at]
    separator = f"\n{lead}" if line > holder.start and not lead.strip() else " "
    following = _Parser(text).skip_whitespace(last.end)
    has_comma = text[following : following + 1] == ","
    point = following + 1 if has_comma else last.end
    rest = text[point:].split("\n", 1)[0]
    if rest.lstrip().startswith("//"):  # what is said of the last member stays beside it
        point += len(rest)
    return f"{text[: last.end]}{'' if has_comma else ','}{text[last.end : point]}{separator}{member}{text[point:]}"


def _remove(text: str, holder: JsonNode, key: str) -> str:
    """Take a member away, with the comma that belongs to it and the line it leaves empty."""
    assert holder.members is not None
    start, end = holder.keys[key], holder.members[key].end
    reader = _Parser(text)
    after = reader.skip_whitespace(end)
    if text[after : after + 1] == ",":
        end = after + 1
    else:
        names = list(holder.members)
        if names.index(key):
            before = holder.members[names[names.index(key) - 1]].end
            comma = text.index(",", reader.skip_whitespace(before))
            text = text[:comma] + text[comma + 1 :]
            start, end = start - 1, end - 1
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip() and text[end:].split("\n", 1)[0].strip() == "" and "\n" in text[end:]:
        return text[:line] + text[text.index("\n", end) + 1 :]
    return text[:start] + text[end:]
