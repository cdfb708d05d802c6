"""The options of structured output."""

from __future__ import annotations

from typing import Any

from mainspring.options import Options, option

OUTPUT_TOOL = "__output__"
"""Name of the tool for the final answer. It exists only in requests, not in a registry."""


class StructuredOutputOptions(Options, page="structured-output.md"):
    """Options of structured output."""

    schema: Any = option(
        default=None,
        doc="The structured output: a JSON Schema, a type, an output function, or a list of them; `None`: text.",
        inherited=False,
    )
    max_output_retries: int = option(
        default=2,
        ge=0,
        doc="Maximum number of retries of an output that does not match `schema`, or that a validator rejects.",
    )
