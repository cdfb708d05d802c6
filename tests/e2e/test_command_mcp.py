"""``mainspring mcp`` as a process, with a server that is a small program."""

import json
from pathlib import Path

import pytest

from tests.e2e.command import Command, command
from tests.e2e.mcp_server import write_server

__all__ = ["command"]


@pytest.mark.covers("MCP-04")
def test_mcp_server_is_added_listed_and_removed(command: Command, tmp_path: Path) -> None:
    added = command.run("mcp", "add", "little", "--", *write_server(tmp_path))
    listed = command.run("mcp", "list", "--json")
    removed = command.run("mcp", "remove", "little")

    assert (added.code, listed.code, removed.code) == (0, 0, 0), added.err + listed.err + removed.err
    [little] = json.loads(listed.out)["servers"]
    assert (little["name"], little["state"], little["cost"]["tools"]) == ("little", "ready", 3)
    assert json.loads((command.home / ".agent" / "mcp.json").read_text(encoding="utf-8")) == {"mcpServers": {}}
