"""Structured output: a run ends with a value that matches a schema, and can use its tools until then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.policies.structured.options import OUTPUT_TOOL as OUTPUT_TOOL
    from mainspring.policies.structured.plug import StructuredOutput as StructuredOutput
    from mainspring.tools.schema.output import OutputSchema as OutputSchema

lazy_exports(
    __name__,
    {
        "options": "OUTPUT_TOOL",
        "plug": "StructuredOutput",
        "mainspring.tools.schema.output": "OutputSchema",
    },
)
