"""The head of a Markdown file: ``---``, fields in YAML, ``---``, and then the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from msgspec import Struct

_FENCE = re.compile(r"\A\ufeff?\s*?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:[ \t]*(.*)")
_TABS = re.compile(r"^[ \t]*\t[ \t]*", re.MULTILINE)


class Head(Struct, frozen=True):
    """The head of a file, and what stands behind it.

    Attributes:
        fields: Its fields; scalars are text whatever YAML takes them for (``no``, ``1.10``).
        body: The text behind it.
        lines: The line of the file in which each field begins, from 1 on.
        mended: Names of fields that are no valid YAML, or all of them where their order is none, and were read as plain text.
    """

    fields: dict[str, Any]
    body: str
    lines: dict[str, int] = {}
    mended: tuple[str, ...] = ()


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The fields of a Markdown file's head and the text behind it; no fields where there is no head.

    A head that is no valid YAML is read field by field, as ``description: Use when: ...`` is common and invalid.
    """
    head = read_head(text)
    return ({}, text.removeprefix("\ufeff")) if head is None else (head.fields, head.body)


def read_head(text: str) -> Head | None:
    """The head of a Markdown file; ``None`` where there is none, or it does not end."""
    found = _FENCE.match(text)
    if found is None:
        return None
    raw, first = found[1], text.count("\n", 0, found.start(1)) + 1
    lines: dict[str, int] = {}
    for number, line in enumerate(raw.split("\n"), first):
        if (key := _LINE.fullmatch(line.rstrip("\r"))) is not None:
            lines.setdefault(key[1], number)
    fields, mended = _yaml(raw), ()
    if fields is None:
        fields, mended = _by_field(raw)
    return Head(fields, text[found.end() :], lines, mended)


def _yaml(text: str) -> dict[str, Any] | None:
    """The fields of valid YAML; ``None`` for anything else."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # the base loader makes text of all scalars
    try:
        fields = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return {} if fields in (None, "") else None
    return {str(k): v for k, v in cast("dict[Any, Any]", fields).items()}


def _by_field(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields, each read by itself, and which of them are no valid YAML: those are text as it stands there."""
    fields: dict[str, Any] = {}
    mended: list[str] = []
    for key, rest, more in _parts(text):
        whole = "\n".join((f"{key}: {rest}", *more))
        read = _yaml(whole) or _yaml(_TABS.sub("  ", whole))
        if read is not None and list(read) == [key]:
            fields[key] = read[key]
        else:
            mended.append(key)
            fields[key] = " ".join(
                [rest.strip().strip("\"'"), *[line.strip() for line in more if line.strip()]]
            ).strip()
    return fields, tuple(mended)


def _parts(text: str) -> Iterator[tuple[str, str, list[str]]]:
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
