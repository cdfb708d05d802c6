"""Tools: what they are, how arguments are checked, and the built-in ones (`mainspring.tools.builtin`)."""

from mainspring.tools.arguments.parse import ParsedArguments, parse_arguments
from mainspring.tools.define import LazyTool, define_tool, tool
from mainspring.tools.execute import error_result, failure, output_bytes, run_tool, told, without_images
from mainspring.tools.registry import ToolRegistry, wire_names
from mainspring.tools.response import (
    AssistRequest,
    ErrorResponse,
    SuccessResponse,
    ToolResponse,
    error_response,
    success_response,
    to_tool_response,
)
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
    "AssistRequest",
    "Attachment",
    "ErrorResponse",
    "Execute",
    "LazyTool",
    "ParsedArguments",
    "Scope",
    "SuccessResponse",
    "Tool",
    "ToolContext",
    "ToolErrorCode",
    "ToolOutput",
    "ToolRegistry",
    "ToolResponse",
    "ToolResult",
    "as_result",
    "define_tool",
    "error_response",
    "error_result",
    "failure",
    "output_bytes",
    "told",
    "parse_arguments",
    "run_tool",
    "success_response",
    "to_tool_response",
    "tool",
    "wire_names",
    "without_images",
]
