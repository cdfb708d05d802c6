"""The documentation of editors and clients contains command lines that `mainspring serve` accepts."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.cli.server_options import build_serve_parser

pytestmark = pytest.mark.covers("BYD-23")

DOCS = Path(__file__).resolve().parents[4] / "docs"


SECTIONS = {"editors.md": "# Editors", "mcp.md": "## Serve the agent over MCP", "front-ends.md": "## JSON lines"}
"""The heading of the section about `mainspring serve` on each page."""


def read_section(page: str) -> str:
    """Return the section of a page, up to the next heading of its level."""
    heading = SECTIONS[page]
    text = (DOCS / page).read_text().split(f"{heading}\n")[1]
    return re.split(rf"^{heading.split()[0]} ", text, flags=re.MULTILINE)[0]


def read_programs(page: str) -> list[dict[str, Any]]:
    """Return the programs that the settings of a page start."""
    blocks = re.findall(r"```json\n(.*?)```", read_section(page), re.DOTALL)
    found: list[dict[str, Any]] = []
    for block in blocks:
        for servers in json.loads(block).values():
            found += servers.values()
    return found


@pytest.mark.parametrize(("page", "form", "count"), [("editors.md", "acp", 2), ("mcp.md", "mcp", 1)])
def test_documented_programs_are_valid_serve_commands(page: str, form: str, count: int) -> None:
    programs = read_programs(page)
    assert len(programs) == count
    for program in programs:
        assert program["command"].endswith("mainspring")
        assert program["args"][0] == "serve"
        assert build_serve_parser().parse_args(program["args"][1:]).form == form


@pytest.mark.parametrize("page", SECTIONS)
def test_documented_flags_exist(page: str) -> None:
    text = read_section(page)
    help_text = build_serve_parser().format_help()
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert named
    assert {flag for flag in named if flag not in help_text} == set()
