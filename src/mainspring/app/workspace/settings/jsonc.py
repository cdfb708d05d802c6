"""Edit JSON with comments and trailing commas in place, so that everything else is unchanged."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mainspring.lenient_json import JsonError, JsonNode, parse_jsonc, skip_blanks


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
    following = skip_blanks(text, last.end)
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
    after = skip_blanks(text, end)
    if text[after : after + 1] == ",":
        end = after + 1
    else:
        names = list(holder.members)
        if names.index(key):
            before = holder.members[names[names.index(key) - 1]].end
            comma = text.index(",", skip_blanks(text, before))
            text = text[:comma] + text[comma + 1 :]
            start, end = start - 1, end - 1
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip() and text[end:].split("\n", 1)[0].strip() == "" and "\n" in text[end:]:
        return text[:line] + text[text.index("\n", end) + 1 :]
    return text[:start] + text[end:]
