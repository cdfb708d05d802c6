"""Marks: what is kept of an item of the answer, in the signature of its block, so that it can go back as it came.

A mark is JSON behind a prefix that no other protocol uses, so that nobody takes it for its own.
"""

from __future__ import annotations

import json
from typing import Any

from mainspring.models.json_values import as_object, to_json

_PREFIX = "responses:"


def make_mark(**fields: Any) -> str | None:
    """A mark of the fields that are not ``None``; ``None`` if nothing is left."""
    kept = {name: value for name, value in fields.items() if value is not None}
    return _PREFIX + to_json(kept).decode() if kept else None


def read_mark(signature: str | None) -> dict[str, Any] | None:
    """The fields of a mark; ``None`` if the text is none."""
    if signature is None or not signature.startswith(_PREFIX):
        return None
    try:
        return as_object(json.loads(signature.removeprefix(_PREFIX)))
    except (ValueError, RecursionError):
        return None
