"""The head of a Markdown file: ``---``, fields in YAML, ``---``, and then the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from msgspec import Struct

_FENCE = re.compile(r"\A\ufeff?\s*?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:[ \t]*(.*)")
_TABS = re.compile(r"^[ \t]*\t[ \t]*", re.MULTILINE)
_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,63}):(?: +(.+))?")
_WORD = r"""(?:"[^"\\]*"|'[^']*'|[A-Za-z0-9_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_][A-Za-z0-9_./-]*)*)"""
_LIST = re.compile(rf"\[{_WORD}(?:, *{_WORD})*\]")
_ITEM = re.compile(_WORD)
_TEXT = re.compile(r"""(?!.*(?:: | #|:$))[A-Za-z0-9(/.$_~].*|"[^"\\]*"|'[^']*'""")


class FrontMatter(Struct, frozen=True):
    """The head of a file, and what stands behind it.

    Attributes:
        fields: Its fields; scalars are text whatever YAML takes them for (``no``, ``1.10``).
        body: The text behind it.
        lines: The line of the file in which each field begins, from 1 on.
        mended: Names of fields that are no valid YAML and were read as plain text.
        flaw: Why the head as a whole is no valid YAML; empty if it is.
        flaw_line: The line of the file where that shows.
        twice: Names of fields that are there more than once; the last counts.
    """

    fields: dict[str, Any]
    body: str
    lines: dict[str, int] = {}
    mended: tuple[str, ...] = ()
    flaw: str = ""
    flaw_line: int = 0
    twice: tuple[str, ...] = ()


class _YamlError(Struct, frozen=True):
    reason: str
    line: int = 0


def parse_fields_and_body(text: str) -> tuple[dict[str, Any], str]:
    """The fields of a Markdown file's head and the text behind it; no fields where there is no head.

    A head that is no valid YAML is read field by field, as ``description: Use when: ...`` is common and invalid.
    """
    head = parse_front_matter(text)
    return ({}, text.removeprefix("\ufeff")) if head is None else (head.fields, head.body)


def parse_front_matter(text: str) -> FrontMatter | None:
    """The head of a Markdown file; ``None`` where there is none, or it does not end."""
    found = _FENCE.match(text)
    if found is None:
        return None
    raw, first = found[1], text.count("\n", 0, found.start(1)) + 1
    lines: dict[str, int] = {}
    twice: list[str] = []
    for number, line in enumerate(raw.split("\n"), first):
        if (key := _LINE.fullmatch(line.rstrip("\r"))) is not None:
            if key[1] in lines and key[1] not in twice:
                twice.append(key[1])
            lines[key[1]] = number
    read, body, again = _yaml(raw), text[found.end() :], tuple(twice)
    if not isinstance(read, _YamlError):
        return FrontMatter(read, body, lines, twice=again)
    fields, repaired = _parse_leniently(raw)
    return FrontMatter(fields, body, lines, repaired, read.reason, first + read.line, again)


def _yaml(text: str) -> dict[str, Any] | _YamlError:
    """The fields of valid YAML, or why it gives none."""
    if (plain := _parse_simple(text)) is not None:
        return plain
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the base loader makes text of all scalars
    try:
        fields = yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return _YamlError(error.problem or error.context or "it cannot be read", mark.line if mark else 0)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return _YamlError(" ".join(str(error).split())[:200])
    if not isinstance(fields, dict):
        return {} if fields in (None, "") else _YamlError("it is no map of fields")
    return {str(k): v for k, v in cast("dict[Any, Any]", fields).items()}


_Lines = list[tuple[int, str]]
"""Lines that are still to be read, the next one last: how far each is set in, and its text."""


def _parse_simple(text: str) -> dict[str, Any] | None:
    """The fields of a head that is as simple as most: texts in one line, maps, lists. It spares them YAML, which is slow to
    load. ``None`` where it is not sure what YAML would say.
    """
    lines: _Lines = []
    for line in reversed(text.split("\n")):
        bare = line.removesuffix("\r").rstrip(" ")
        if not bare.isprintable():
            return None
        if bare:
            inner = bare.lstrip(" ")
            lines.append((len(bare) - len(inner), inner))
    try:
        fields = _map(lines, 0)
    except (ValueError, RecursionError):
        return None
    return None if lines else fields


def _map(lines: _Lines, indent: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    while lines and lines[-1][0] == indent and (found := _ENTRY.fullmatch(lines[-1][1])) is not None:
        lines.pop()
        fields[found[1]] = _value(found[2]) if found[2] else _parse_nested(lines, indent)
    return fields


def _parse_nested(lines: _Lines, indent: int) -> Any:
    """What is set in below a key."""
    deeper, text = lines[-1] if lines else (-1, "")
    if deeper >= indent and text.startswith("- "):
        return _list(lines, deeper)
    return _map(lines, deeper) if deeper > indent else ""


def _list(lines: _Lines, indent: int) -> list[Any]:
    items: list[Any] = []
    while lines and lines[-1][0] == indent and lines[-1][1].startswith("- "):
        text = lines.pop()[1]
        inner = text[2:].lstrip(" ")
        if _ENTRY.fullmatch(inner) is None:
            items.append(_value(inner))
        else:
            lines.append((indent + len(text) - len(inner), inner))
            items.append(_map(lines, lines[-1][0]))
    return items


def _value(text: str) -> str | list[str]:
    """A text or a list of words.

    Raises:
        ValueError: If it is anything else.
    """
    if _LIST.fullmatch(text):
        return [_unquoted(item) for item in _ITEM.findall(text)]
    if _TEXT.fullmatch(text) is None:
        raise ValueError(text)
    return _unquoted(text)


def _unquoted(text: str) -> str:
    return text[1:-1] if text[0] in "\"'" else text


def _parse_leniently(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields, each read by itself, and which of them are no valid YAML: those are text as it stands there."""
    fields: dict[str, Any] = {}
    repaired: list[str] = []
    for key, rest, more in _split_top_level(text):
        whole = "\n".join((f"{key}: {rest}", *more))
        read = _yaml(whole)
        if isinstance(read, _YamlError):
            read = _yaml(_TABS.sub("  ", whole))
        if not isinstance(read, _YamlError) and list(read) == [key]:
            fields[key] = read[key]
        else:
            repaired.append(key)
            fields[key] = " ".join(
                [rest.strip().strip("\"'"), *[line.strip() for line in more if line.strip()]]
            ).strip()
    return fields, tuple(repaired)


def _split_top_level(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """The top-level ``key: value`` lines, with what belongs to each: lines further in, and items of a list."""
    key, rest, more = "", "", list[str]()
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is not None:
            if key:
                yield key, rest, more
            key, rest, more = found[1], found[2], []
        elif line[:1] in ("", " ", "\t") or line.startswith("- "):
            more.append(line)
    if key:
        yield key, rest, more
