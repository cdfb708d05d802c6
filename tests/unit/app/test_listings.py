"""Listings in a pipe: names of files, servers, skills, and models add neither rows nor control sequences."""

import json
from pathlib import Path

import pytest

from mainspring.app.cli.main import main

HOSTILE = "x\nforged row\x1b[2J\r\u202e"


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Path:
    """A project whose commands, skills, servers, and models have hostile names."""
    user = home / ".agent"
    (user / "commands").mkdir(parents=True)
    (user / "commands" / f"{HOSTILE}.md").write_text("Say hello.")
    (user / "commands" / "good.md").write_text(f"---\ndescription: {json.dumps(HOSTILE)}\n---\nSay hello.")
    (user / "skills" / "good").mkdir(parents=True)
    (user / "skills" / "good" / "SKILL.md").write_text(
        f"---\nname: good\ndescription: {json.dumps(HOSTILE)}\n---\nHello."
    )
    (user / "mcp.json").write_text(json.dumps({"mcpServers": {HOSTILE: {"command": HOSTILE}}}))
    settings = {"provider": {"compatible": {"baseUrl": "http://127.0.0.1:9/v1", "models": {HOSTILE: {}}}}}
    (user / "settings.json").write_text(json.dumps(settings))
    folder = tmp_path / HOSTILE
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "command", ["commands", "skills", "mcp", "models", "tools", "sessions --all", "trust", "memory"]
)
def test_names_in_listings_are_escaped_in_a_pipe(
    project: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*command.split(), "--offline", "--cwd", str(project)])

    out = capsys.readouterr().out
    assert not set(out) & {"\x1b", "\r", "\u202e"}
    assert ("forged row" in out) == (command in ("commands", "skills", "mcp"))
    assert not [row for row in out.split("\n") if row.startswith("forged")]
