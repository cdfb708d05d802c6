"""``mainspring mcp`` in this process, with small programs as servers."""

import json
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from mainspring.app.cli.main import main
from tests.e2e.mcp_server import write_server


@dataclass
class CommandResult:
    code: int
    out: str
    err: str


@dataclass
class Command:
    """Runs commands in a folder."""

    folder: Path
    home: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> CommandResult:
        at = arguments.index("--") if "--" in arguments else len(arguments)
        code = main([*arguments[:at], "--cwd", str(self.folder), *arguments[at:]])
        output = self.capture.readouterr()
        return CommandResult(code, output.out, output.err)


@pytest.fixture
def command(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    folder = tmp_path / "project"
    folder.mkdir()
    return Command(folder, home, capsys)


@pytest.fixture
def server(tmp_path: Path) -> list[str]:
    """The command line of a server."""
    return write_server(tmp_path)


@pytest.mark.covers("BYD-11", "MCP-04", "MCP-09")
def test_servers_can_be_added_listed_and_removed(command: Command, server: list[str]) -> None:
    added = command.run("mcp", "add", "little", "--", *server)
    lazy = command.run("mcp", "add", "quiet", "--disclosure", "lazy", "--", *server)
    listed = command.run("mcp", "list", "--json")

    assert (added.code, lazy.code, listed.code) == (0, 0, 0), added.err + lazy.err + listed.err
    found = json.loads(listed.out)
    little, quiet = found["servers"]
    assert (little["name"], little["state"], little["about"]) == ("little", "ready", "little 1.2 2025-06-18")
    assert [t["name"] for t in little["tools"]] == ["mcp__little__tool_0", "mcp__little__tool_1", "mcp__little__tool_2"]
    assert little["cost"]["tools"] == 3
    assert little["cost"]["eager"] == pytest.approx(sum(t["tokens"] for t in little["tools"]), abs=3)
    assert 0 < little["cost"]["lazy"] < little["cost"]["eager"] / 3
    assert (little["disclosure"], quiet["disclosure"]) == ("auto", "lazy")
    assert found["search"] > 0

    shown = command.run("mcp")
    for each in (little, quiet):
        cost = each["cost"]
        output = f"3 tools, about {cost['eager']} tokens in each request ({cost['lazy']} if lazy); {each['disclosure']}"
        assert f"ready    {each['name']:6}  {output}" in shown.out
    now = little["cost"]["eager"] + quiet["cost"]["lazy"] + found["search"]
    eager = little["cost"]["eager"] + quiet["cost"]["eager"]
    assert f"Total: about {now} tokens in each request ({eager} if all servers were eager)" in shown.err
    assert command.run("mcp", "remove", "little").code == 0
    assert [s["name"] for s in json.loads(command.run("mcp", "list", "--no-connect", "--json").out)["servers"]] == [
        "quiet"
    ]


def test_other_content_of_the_file_is_kept(command: Command, server: list[str]) -> None:
    file = command.home / ".agent" / "mcp.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    before = '{\n  // mine\n  "inputs": [1, 2],\n  "mcpServers": {\n    "a": {"command": "x"} // the first\n  }\n}\n'
    file.write_text(before, encoding="utf-8")

    assert command.run("mcp", "add", "b", "https://example.org/mcp", "--header", "X-Key: ${KEY}").code == 0
    text = file.read_text(encoding="utf-8")
    assert "// mine" in text
    assert "// the first" in text
    assert '"inputs": [1, 2]' in text
    assert '"headers":{"X-Key":"${KEY}"}' in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert command.run("mcp", "remove", "b").code == 0
    assert json.loads(command.run("mcp", "list", "--no-connect", "--json").out)["servers"][0]["name"] == "a"


def test_project_servers_need_trust(command: Command, server: list[str]) -> None:
    added = command.run("mcp", "add", "little", "--project", "--", *server)
    assert "mainspring trust" in added.err
    assert (command.folder / ".agent" / "mcp.json").exists()
    before = command.run("mcp", "list", "--json")
    assert json.loads(before.out)["servers"] == []
    assert "trust" in before.err
    command.run("trust")
    assert [s["state"] for s in json.loads(command.run("mcp", "list", "--json").out)["servers"]] == ["ready"]
    wrong = command.run("mcp", "remove", "little")
    assert wrong.code == 2
    assert f"It is in {command.folder / '.agent' / 'mcp.json'}. Add --project." in wrong.err
    assert command.run("mcp", "remove", "little", "--project").code == 0


def list_places(command: Command) -> dict[str, str]:
    listed = command.run("mcp", "list", "--no-connect", "--json")
    return {s["name"]: s["place"] for s in json.loads(listed.out)["servers"]}


def test_plain_file_of_a_trusted_project_is_used_without_one_in_the_agent_folder(command: Command) -> None:
    plain = command.folder / "mcp.json"
    plain.write_text(json.dumps({"servers": {"theirs": {"transport": "stdio", "command": "x"}}}), encoding="utf-8")
    untrusted = command.run("mcp", "list", "--no-connect", "--json")
    assert json.loads(untrusted.out)["servers"] == []
    assert f"The MCP servers in {plain} are not started, because the folder is not trusted" in untrusted.err
    command.run("trust")
    assert list_places(command) == {"theirs": str(plain)}

    assert command.run("mcp", "add", "added", "--project", "--", "y").code == 0
    assert list_places(command) == {"theirs": str(plain), "added": str(plain)}

    own = command.folder / ".agent" / "mcp.json"
    own.parent.mkdir(exist_ok=True)
    own.write_text(json.dumps({"mcpServers": {"ours": {"command": "z"}}}), encoding="utf-8")
    command.run("trust")
    assert list_places(command) == {"ours": str(own)}


def test_remove_names_the_file_of_a_server(command: Command) -> None:
    command.run("mcp", "add", "mine", "--", "x")
    shared = command.folder / ".mcp.json"
    shared.write_text(json.dumps({"mcpServers": {"theirs": {"command": "x", "enabled": False}}}), encoding="utf-8")
    command.run("trust")

    assert f"It is in {shared}. Remove it there." in command.run("mcp", "remove", "theirs").err
    assert "Omit --project" in command.run("mcp", "remove", "mine", "--project").err
    off = command.run("mcp", "test", "theirs")
    assert (off.code, f"MCP server 'theirs' is disabled in {shared}" in off.err) == (1, True)


def test_server_can_be_tested_and_its_logs_are_stored(command: Command, server: list[str]) -> None:
    command.run("mcp", "add", "little", "--", *server)
    command.run("mcp", "add", "broken", "--", sys.executable, "-c", "import sys; sys.exit('no licence')")

    good, bad = command.run("mcp", "test", "little"), command.run("mcp", "test", "broken")
    assert good.code == 0
    assert "little is ready after" in good.out
    assert "Features: tools" in good.out
    assert bad.code == 1
    assert "no licence" in bad.err
    logs = command.run("mcp", "logs", "little", "--json")
    assert any("server is up" in line for line in json.loads(logs.out)["lines"])
    assert "0123456789abcdefghijklmnop" not in logs.out

    tools = command.run("mcp", "tools", "little")
    assert "mcp__little__tool_1  " in tools.out
    assert "Does the thing number 1." in tools.out
    listed = command.run("mcp", "list")
    assert listed.code == 0
    assert "failed   broken" in listed.out
    assert "ready    little" in listed.out


def test_missing_program_is_reported(command: Command) -> None:
    added = command.run("mcp", "add", "bad", "name")
    there = command.run("mcp", "add", "good", "--", sys.executable)

    assert (added.code, there.code) == (0, 0)
    assert "Program 'name' was not found" in added.err
    assert "mainspring mcp remove bad" in added.err
    assert "was not found" not in there.err


@pytest.mark.parametrize(
    ("arguments", "code", "output"),
    [
        (["add"], 2, "requires the NAME"),
        (["add", "x"], 2, "requires a command after --"),
        (["add", "x", "https://a/b", "--", "c"], 2, "takes no arguments"),
        (["add", "x", "ftp://a/b"], 2, "MCP servers use http:// or https://, not ftp://"),
        (["add", "x", "--env", "A", "--", "c"], 2, "Use --env NAME=VALUE"),
        (["add", "x", "--transport", "http", "--", "c"], 2, "requires a url"),
        (["remove", "x"], 2, "has no MCP server 'x'"),
        (["test", "x"], 2, "Unknown MCP server: 'x'"),
        (["logs", "x"], 2, "Unknown MCP server: 'x'"),
        (["login", "x"], 2, "Unknown MCP server: 'x'"),
        (["lst"], 2, "invalid choice"),
    ],
)
def test_usage_errors_change_nothing(command: Command, arguments: list[str], code: int, output: str) -> None:
    done = command.run("mcp", *arguments)

    assert (done.code, output in done.err) == (code, True), done.err
    assert not (command.home / ".agent" / "mcp.json").exists()


def test_existing_name_is_replaced_only_with_force(command: Command, server: list[str]) -> None:
    command.run("mcp", "add", "a", "--", "one")
    again = command.run("mcp", "add", "a", "--", "two")
    assert again.code == 2
    assert "--force" in again.err
    assert command.run("mcp", "add", "a", "--force", "--", "two").code == 0
    assert '"two"' in (command.home / ".agent" / "mcp.json").read_text(encoding="utf-8")


def test_broken_file_is_left_unchanged(command: Command) -> None:
    file = command.home / ".agent" / "mcp.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('{"mcpServers": {', encoding="utf-8")

    done = command.run("mcp", "add", "a", "--", "one")
    assert done.code == 2
    assert "Your changes were not saved" in done.err
    assert file.read_text(encoding="utf-8") == '{"mcpServers": {'


def test_stdio_server_has_no_login(command: Command, server: list[str]) -> None:
    command.run("mcp", "add", "little", "--", *server)
    done = command.run("mcp", "login", "little")
    assert done.code == 2
    assert "has no login" in done.err
    assert command.run("mcp", "logout", "little").code == 0
