"""Tools: what they are, how arguments are checked, and the built-in ones (`mainspring.tools.builtin`)."""

from mainspring.tools.aliases import wire_names
from mainspring.tools.arguments import ParsedArguments, parse_arguments
from mainspring.tools.define import LazyTool, define_tool, tool
from mainspring.tools.outcome import error_result, failure, output_bytes, told
from mainspring.tools.registry import ToolRegistry
from mainspring.tools.running import run_tool
from mainspring.tools.tool import (
    Access,
    Attachment,
    Execute,
    Scope,
    Tool,
    ToolContext,
    ToolErrorCode,
    ToolOutput,
    ToolResult,
    as_result,
)

__all__ = [
    "Access",
    "Attachment",
    "Execute",
    "LazyTool",
    "ParsedArguments",
    "Scope",
    "Tool",
    "ToolContext",
    "ToolErrorCode",
    "ToolOutput",
    "ToolRegistry",
    "ToolResult",
    "as_result",
    "define_tool",
    "error_result",
    "failure",
    "output_bytes",
    "told",
    "parse_arguments",
    "run_tool",
    "tool",
    "wire_names",
]
