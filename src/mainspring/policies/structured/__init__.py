"""Structured output: a run ends in a value that fits a schema, and its tools can be used until then."""

from mainspring.policies.structured.plug import OUTPUT_TOOL, StructuredOutput
from mainspring.policies.structured.target import Target

__all__ = ["OUTPUT_TOOL", "StructuredOutput", "Target"]
