"""The head of a Markdown file: ``---``, fields in YAML, ``---``, and then the text."""

from __future__ import annotations

import re
from typing import Any, cast

_FENCE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:[ \t]*(.*)")


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The fields of a Markdown file's head and the text behind it; no fields where there is no head.

    Scalars are text whatever YAML takes them for (``no``, ``1.10``). A head that is no valid YAML is read line by line, as
    ``description: Use when: ...`` is common and invalid.
    """
    head = _FENCE.match(text)
    if head is None:
        return {}, text.removeprefix("\ufeff")
    fields = _yaml(head[1])
    return (_lines(head[1]) if fields is None else fields), text[head.end() :]


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


def _lines(text: str) -> dict[str, Any]:
    """Top-level ``key: value`` lines, with a line further in as the continuation of the one before."""
    fields: dict[str, Any] = {}
    last = ""
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is not None:
            last = found[1]
            fields[last] = found[2].strip().strip("\"'")
        elif last and line[:1] in (" ", "\t") and line.strip():
            fields[last] = f"{fields[last]} {line.strip()}".strip()
    return fields
