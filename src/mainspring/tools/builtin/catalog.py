"""The built-in tools as a list."""

from __future__ import annotations

import sys

from mainspring.tools.names import ALL_TOOL_NAMES, DEFAULT_TOOL_NAMES
from mainspring.tools.tool import Tool


def builtin_tools(*, include_optional: bool = False) -> list[Tool]:
    """Return the built-in tools.

    Args:
        include_optional: Whether to include the optional tools and the samples.
    """
    package = sys.modules[
        __name__.rpartition(".")[0]
    ]  # `builtin` exports the tools; a module-level import would be circular.
    return [getattr(package, name) for name in (ALL_TOOL_NAMES if include_optional else DEFAULT_TOOL_NAMES)]
