"""Front matter of a Markdown file: ``---``, fields in YAML, ``---``, and then the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from msgspec import Struct

_FENCE = re.compile(
    r"\A\ufeff?(?:\s|<!--(?:(?!-->).)*-->)*?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:[ \t]*(.*)")
_TABS = re.compile(r"^[ \t]*\t[ \t]*", re.MULTILINE)


class FrontMatter(Struct, frozen=True):
    """The front matter of a file, and the text after it.

    Attributes:
        fields: Its fields; scalars are text regardless of their YAML type (``no``, ``1.10``).
        body: The text after it.
        lines: The line of the file in which each field begins, from 1.
        repaired: Names of fields that are invalid YAML and were read as plain text.
        flaw: Reason why the front matter as a whole is invalid YAML; empty if it is valid.
        flaw_line: The line of that error in the file.
        twice: Names of duplicate fields; the last value applies.
    """

    fields: dict[str, Any]
    body: str
    lines: dict[str, int] = {}
    repaired: tuple[str, ...] = ()
    flaw: str = ""
    flaw_line: int = 0
    twice: tuple[str, ...] = ()


class _YamlError(Struct, frozen=True):
    reason: str
    line: int = 0


def parse_fields_and_body(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields of a Markdown file's front matter and the text after it; no fields without front matter.

    Invalid YAML is read field by field, since ``description: Use when: ...`` is common and invalid.
    """
    head = parse_front_matter(text)
    return ({}, text.removeprefix("\ufeff")) if head is None else (head.fields, head.body)


def parse_front_matter(text: str) -> FrontMatter | None:
    """Return the front matter of a Markdown file; ``None`` if it is missing, or does not end."""
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
    """Return the fields of valid YAML, or the reason why it is invalid."""
    import yaml  # slow: bundled skills have an index of their front matter

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the base loader converts all scalars to text
    try:
        fields = yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return _YamlError(error.problem or error.context or "it cannot be read", mark.line if mark else 0)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return _YamlError(" ".join(str(error).split())[:200])
    if not isinstance(fields, dict):
        return {} if fields in (None, "") else _YamlError("it is not a map of fields")
    return {str(k): v for k, v in cast("dict[Any, Any]", fields).items()}


def _parse_leniently(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Parse each field separately, and return the names of invalid fields, whose values are their plain text."""
    fields: dict[str, Any] = {}
    repaired: list[str] = []
    for key, rest, more in _split_top_level(text):
        field_text = "\n".join((f"{key}: {rest}", *more))
        read = _yaml(field_text)
        if isinstance(read, _YamlError):
            read = _yaml(_TABS.sub("  ", field_text))
        if not isinstance(read, _YamlError) and list(read) == [key]:
            fields[key] = read[key]
        else:
            repaired.append(key)
            first = rest.strip()
            if first[:1] in ("'", '"'):
                first = first.strip("\"'")
            fields[key] = " ".join([first, *[line.strip() for line in more if line.strip()]]).strip()
    return fields, tuple(repaired)


def _split_top_level(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Split the text into top-level ``key: value`` lines with their indented lines and list items."""
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
