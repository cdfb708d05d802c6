"""What the pages say to write into the settings of editors and clients is a command line that this command takes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.cli.serve_options import build_serve_parser

pytestmark = pytest.mark.covers("BYD-23")

DOCS = Path(__file__).resolve().parents[4] / "docs"


def started(page: str) -> list[dict[str, Any]]:
    """The programs that the settings of a page start."""
    blocks = re.findall(r"```json\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    found: list[dict[str, Any]] = []
    for block in blocks:
        for servers in json.loads(block).values():
            found += servers.values()
    return found


@pytest.mark.parametrize(("page", "form", "count"), [("editors.md", "acp", 2), ("mcp-server.md", "mcp", 1)])
def test_settings(page: str, form: str, count: int) -> None:
    programs = started(page)
    assert len(programs) == count
    for program in programs:
        assert program["command"].endswith("mainspring")
        assert program["args"][0] == "serve"
        assert build_serve_parser().parse_args(program["args"][1:]).form == form


@pytest.mark.parametrize("page", ["editors.md", "mcp-server.md", "rpc.md"])
def test_flags_that_a_page_names(page: str) -> None:
    text = (DOCS / page).read_text()
    known = build_serve_parser().format_help()
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert named
    assert {flag for flag in named if flag not in known} == set()
