"""Slash commands in print mode."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.app.chat.command_results import Table
from mainspring.app.printing.chat_commands import CHAT_COMMANDS, PROMPT_COMMANDS
from mainspring.app.printing.print_mode import run_prompt
from mainspring.app.run.options import LaunchOptions, WorkspaceOptions
from mainspring.errors import ConfigError
from mainspring.events import Event, Notice
from tests.e2e.servers.chat import ChatServer
from tests.helpers.git import git
from tests.unit.app.chat.harness import chatting


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[ChatServer]:
    with ChatServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdefghij")
        yield server


async def run(folder: Path, prompt: str) -> tuple[str, list[str]]:
    """Return the response to a prompt, and the notices."""
    events: list[Event] = []
    place = WorkspaceOptions(cwd=str(folder))
    outcome = await run_prompt(LaunchOptions(prompt=prompt, place=place, save=False), events.append)
    return outcome.text, [event.text for event in events if isinstance(event, Notice)]


async def test_table_lists_the_commands_of_the_chat(tmp_path: Path, home: Path) -> None:
    async with chatting(tmp_path, home) as chat:
        shown = (await chat.slash("/help")).shown
    assert isinstance(shown, Table)
    names = {row[0].removeprefix("/") for row in shown.rows if row[0].startswith("/") and ":" not in row[0]}
    assert names - {"help"} == {*PROMPT_COMMANDS, *CHAT_COMMANDS}, (
        "the loop answers /help, with the commands of extensions"
    )


async def test_command_of_the_chat_is_rejected_and_other_text_is_sent(tmp_path: Path, server: ChatServer) -> None:
    for name in CHAT_COMMANDS:
        with pytest.raises(ConfigError, match=f"/{name} is a command of the chat and does not work with -p"):
            await run(tmp_path, f" /{name} x")
    assert server.requests == []
    for prompt in ("/etc/hosts: what is it?", "/exports/model.csv", "/nothing like it", "/v1/model fails"):
        server.script.append("ok")
        assert await run(tmp_path, prompt) == ("ok", [])
        assert prompt in str(server.requests[-1]["messages"][-1])
    server.script.append("ok")
    assert await run(tmp_path, "/compcat") == (
        "ok",
        ["Unknown command: /compcat. Did you mean /compact? It was sent as text."],
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path


async def test_commands_that_send_a_prompt_run(repository: Path, server: ChatServer) -> None:
    server.script += ["reviewed", "written", "used"]
    (repository / "new.py").write_text("x = 1\n")

    assert (await run(repository, "/review"))[0] == "reviewed"
    assert "+x = 1" in str(server.requests[0]["messages"])
    assert {tool["function"]["name"] for tool in server.requests[0]["tools"]} <= {
        "read_file",
        "grep",
        "glob",
        "list_files",
    }
    assert (await run(repository, "/init"))[0] == "written"
    assert "Write AGENTS.md." in str(server.requests[1]["messages"][-1])
    (repository / "AGENTS.md").write_text("x\n")
    with pytest.raises(ConfigError, match=r"AGENTS\.md exists: use /init improve or /init replace"):
        await run(repository, "/init")
    assert (await run(repository, "/skill:create-skill for tests"))[0] == "used"
    assert "for tests" in str(server.requests[2]["messages"])
    assert "create-skill" in str(server.requests[2]["messages"])
    with pytest.raises(ConfigError, match="Unknown prompt: /mcp:a:b"):
        await run(repository, "/mcp:a:b")


async def test_command_of_an_extension_replaces_a_replaceable_one(
    repository: Path, home: Path, server: ChatServer
) -> None:
    (home / ".agent" / "extensions").mkdir(parents=True)
    (home / ".agent" / "extensions" / "own.py").write_text(
        "async def extension(api):\n"
        "    for name in ('review', 'diff'):\n"
        "        api.register_command(name, lambda arguments: f'own {arguments}', description='x')\n"
    )
    for line in ("/review a", "/diff a"):
        assert (await run(repository, line))[0] == "own a"
    assert server.requests == []


async def test_called_commands_are_not_reported_as_unknown_and_attach_mentioned_files(
    repository: Path, server: ChatServer
) -> None:
    server.script += ["reviewed", "used"]
    with pytest.raises(ConfigError, match="No uncommitted changes and no commits"):
        await run(repository, "/review")
    (repository / "new.py").write_text("x = 1\n")
    assert await run(repository, "/Review") == ("reviewed", [])
    assert await run(repository, "/skill:create-skill see @new.py") == ("used", [])
    assert "x = 1" in str(server.requests[1]["messages"])
    with pytest.raises(ConfigError, match="Skill not found: s"):
        await run(repository, "/skill:s")


async def test_response_without_a_run_is_an_error_if_a_schema_is_given(repository: Path, server: ChatServer) -> None:
    git(repository, "commit", "-q", "--allow-empty", "-m", "empty")
    assert (await run(repository, "/review HEAD"))[0].startswith("No changes in")
    options = LaunchOptions(
        prompt="/review HEAD", place=WorkspaceOptions(cwd=str(repository)), save=False, schema={"type": "object"}
    )
    with pytest.raises(ConfigError, match="No changes in .* so --schema has no output"):
        await run_prompt(options, lambda event: None)
