"""Compare published JSON Schemas with the types that they are generated from."""

import inspect
import json
from typing import Any


def tidy(schema: str) -> Any:
    """Return a schema with unindented descriptions, because only Python 3.13 removes the indentation of docstrings."""
    return json.loads(schema, object_hook=_unindented)


def _unindented(part: dict[str, Any]) -> dict[str, Any]:
    text = part.get("description")
    return {**part, "description": inspect.cleandoc(text)} if isinstance(text, str) else part
