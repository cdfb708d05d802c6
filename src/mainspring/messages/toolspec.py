"""What a model is told about a tool: data only, so that the model layer needs no tools."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class ToolSpec(Struct, frozen=True, eq=False, dict=True):
    """Name, description and JSON Schema of the input, as offered to a model."""

    name: str
    description: str
    input_schema: dict[str, Any]
