"""Parse JSON with comments and trailing commas, including positions, so that errors can name the place and edits keep everything else."""

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
    """The text is not valid JSON; ``line`` and ``column`` start at 1."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line, self.column = line_and_column(text, position)


class JsonNode(Struct, eq=False):
    """A value at ``text[start:end]``.

    Attributes:
        value: String, number, boolean, or None.
        start: Offset of the first character.
        end: Offset after the last character.
        items: Items of an array.
        members: Members of an object, by key.
        keys: Offset of each key of an object.
    """

    value: Any
    start: int
    end: int = 0
    items: list[JsonNode] | None = None
    members: dict[str, JsonNode] | None = None
    keys: dict[str, int] = field(default_factory=dict[str, int])

    def to_python(self) -> Any:
        """Return the value as plain dicts and lists."""
        if self.members is not None:
            return {key: member.to_python() for key, member in self.members.items()}
        return self.value if self.items is None else [item.to_python() for item in self.items]


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """Return the line and column of an offset, starting at 1."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def parse_jsonc(text: str) -> JsonNode:
    """Parse a text.

    Raises:
        JsonError: If it is not valid JSON (apart from comments and trailing commas).
    """
    reader = _Parser(text)
    start = reader.skip_whitespace(0)
    if start == len(text):
        raise JsonError("The file is empty. Write {} for no settings.", text, 0)
    node = reader.value(start, 0)
    rest = reader.skip_whitespace(node.end)
    if rest != len(text):
        raise JsonError(f"Unexpected {reader.describe_char(rest)} after the end of the JSON value.", text, rest)
    return node


class _Parser:
    """Parses one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def describe_char(self, at: int) -> str:
        return repr(self.text[at]) if at < len(self.text) else "the end of the file"

    def skip_whitespace(self, at: int) -> int:
        """Return the offset after whitespace and comments."""
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
                    raise JsonError("Unterminated comment. Close it with */.", text, at)
                at = end + 2
            else:
                return at

    def value(self, at: int, depth: int) -> JsonNode:
        text = self.text
        if depth > _MAX_DEPTH:
            raise JsonError(f"More than {_MAX_DEPTH} levels deep.", text, at)
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
        hint = " Use double quotes." if first == "'" else ""
        raise JsonError(f"Expected a value, found {self.describe_char(at)}.{hint}", text, at)

    def string(self, at: int) -> tuple[str, int]:
        text = self.text
        match = _STRING.match(text, at)
        end = match.end() if match else at
        if end == len(text):
            raise JsonError("Missing closing quote.", text, at)
        if text[end] != '"':
            raise JsonError("A string cannot contain line breaks or control characters. Write \\n.", text, end)
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
                raise JsonError(f'Expected a key in double quotes or "}}", found {self.describe_char(at)}.', text, at)
            key, end = self.string(at)
            if key in members:
                raise JsonError(f"Duplicate key {key!r}.", text, at)
            node.keys[key] = at
            at = self.skip_whitespace(end)
            if text[at : at + 1] != ":":
                raise JsonError(f'Expected ":" after the key {key!r}, found {self.describe_char(at)}.', text, at)
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
        """Return the offset after the comma, or at the closing bracket."""
        at = self.skip_whitespace(at)
        if self.text[at : at + 1] == ",":
            return self.skip_whitespace(at + 1)
        if self.text[at : at + 1] != closing:
            raise JsonError(f'Expected "," or "{closing}", found {self.describe_char(at)}.', self.text, at)
        return at


def edit_jsonc(text: str, path: Sequence[str], value: str | None) -> str:
    """Set the value at ``path`` to the JSON text ``value``, or remove it with None, and return the new text.

    Comments, order, layout, and everything else are unchanged.

    Raises:
        JsonError: If the text is not valid JSON, or a value on the path is not an object.
    """
    root = parse_jsonc(text)
    holder = root
    for depth, key in enumerate(path[:-1]):
        if holder.members is None:
            raise JsonError(f"{'.'.join(path[:depth])} is not an object.", text, holder.start)
        if key not in holder.members:
            if value is None:
                return text
            inner = value
            for name in reversed(path[depth + 1 :]):
                inner = f"{{{_quoted(name)}: {inner}}}"
            return _insert(text, holder, key, inner)
        holder = holder.members[key]
    if holder.members is None:
        raise JsonError(f"{'.'.join(path[:-1]) or 'the settings'} is not an object.", text, holder.start)
    old = holder.members.get(path[-1])
    if value is None:
        return text if old is None else _remove(text, holder, path[-1])
    if old is None:
        return _insert(text, holder, path[-1], value)
    return text[: old.start] + value + text[old.end :]


def _quoted(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _insert(text: str, holder: JsonNode, key: str, value: str) -> str:
    """Add a member at the end of an object, in the layout of the previous one."""
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
    if rest.lstrip().startswith("//"):  # a comment about the last member stays next to it
        point += len(rest)
    return f"{text[: last.end]}{'' if has_comma else ','}{text[last.end : point]}{separator}{member}{text[point:]}"


def _remove(text: str, holder: JsonNode, key: str) -> str:
    """Remove a member, with its comma and the line that would be empty."""
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
