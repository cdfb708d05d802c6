"""Comparing published JSON Schemas with the types that they are made from."""

import inspect
import json
from typing import Any


def tidy(schema: str) -> Any:
    """A schema with its descriptions unindented: Python 3.13 keeps docstrings that way, earlier versions do not."""
    return json.loads(schema, object_hook=_unindented)


def _unindented(part: dict[str, Any]) -> dict[str, Any]:
    text = part.get("description")
    return {**part, "description": inspect.cleandoc(text)} if isinstance(text, str) else part
