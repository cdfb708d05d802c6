"""What a model that is too small for everything is offered: reading, and what a rule allows by name."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from mainspring.permissions import RuleSet
from mainspring.permissions.rules import FILE_TOOLS
from mainspring.tools import Tool

SMALL_MODEL_TOOLS = ("read_file", "list_files", "grep")
"""What a small model is offered; more only where a rule allows it or the user asks."""


def tools_for_small_model(tools: Sequence[Tool], rules: RuleSet) -> list[Tool]:
    """Of the built-in tools: reading, and what a rule allows."""

    def is_allowed(name: str) -> bool:
        scope = FILE_TOOLS.get(name, "shell-run" if name == "shell" else None)
        return any(r.scope == scope if r.scope else fnmatchcase(name, r.tool) for r in rules.with_effect("allow"))

    return [t for t in tools if t.name in SMALL_MODEL_TOOLS or is_allowed(t.name)]


def is_server_allowed(key: str, rules: RuleSet) -> bool:
    """Whether a rule allows tools of the MCP server whose tools are named ``mcp__KEY__...``."""
    server = f"mcp__{key}__"
    return any(
        r.tool.startswith(server) or fnmatchcase(server, r.tool)
        for r in rules.with_effect("allow")
        if r.tool.startswith("mcp__")
    )


def are_skills_allowed(rules: RuleSet) -> bool:
    """Whether a rule allows tools of skills."""
    return any(r.tool.startswith("skills_") for r in rules.with_effect("allow"))
