"""Tools: definitions, argument checks, and the built-in tools (`mainspring.tools.builtin`)."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports
from mainspring.tools.define import LazyTool, define_tool, tool
from mainspring.tools.execute import (
    error_result,
    output_bytes,
    replace_images,
    result_from_exception,
    run_tool,
    safe_str,
)
from mainspring.tools.registry import ToolRegistry, provider_tool_names
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
    RunContext,
    Scope,
    Tool,
    ToolContext,
    ToolErrorCode,
    ToolOutput,
    ToolResult,
    to_tool_result,
)

if TYPE_CHECKING:
    from mainspring.tools.arguments.parse import ParsedArguments as ParsedArguments, parse_arguments as parse_arguments
    from mainspring.tools.diagnostics import (
        LanguageServerConfig as LanguageServerConfig,
        with_diagnostics as with_diagnostics,
    )
    from mainspring.tools.interaction import (
        Option as Option,
        Reply as Reply,
        UserInteraction as UserInteraction,
        UserQuestion as UserQuestion,
    )
    from mainspring.tools.support.editing.review import EditHunk as EditHunk, parse_edit_outcomes as parse_edit_outcomes
    from mainspring.tools.toolset import Toolset as Toolset

__all__ = [
    "parse_edit_outcomes",
    "EditHunk",
    "UserQuestion",
    "UserInteraction",
    "Reply",
    "Option",
    "with_diagnostics",
    "LanguageServerConfig",
    "Access",
    "AssistRequest",
    "Attachment",
    "ErrorResponse",
    "Execute",
    "LazyTool",
    "ParsedArguments",
    "RunContext",
    "Scope",
    "SuccessResponse",
    "Tool",
    "ToolContext",
    "ToolErrorCode",
    "ToolOutput",
    "ToolRegistry",
    "ToolResponse",
    "ToolResult",
    "Toolset",
    "define_tool",
    "error_response",
    "error_result",
    "output_bytes",
    "parse_arguments",
    "provider_tool_names",
    "replace_images",
    "result_from_exception",
    "run_tool",
    "safe_str",
    "success_response",
    "to_tool_response",
    "to_tool_result",
    "tool",
]

lazy_exports(
    __name__,
    {
        "support.editing.review": "EditHunk parse_edit_outcomes",
        "interaction": "Option Reply UserInteraction UserQuestion",
        "diagnostics": "LanguageServerConfig with_diagnostics",
        "arguments.parse": "ParsedArguments parse_arguments",
        "toolset": "Toolset",
    },
)
