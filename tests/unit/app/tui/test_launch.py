"""What the command line and the settings say reaches the chat and its screen."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mainspring.app.chat import Chat, parse_line
from mainspring.app.chat.events import CommandDone, StatusChanged
from mainspring.app.cli.arguments import parse
from mainspring.app.cli.runner import chat_launch_options
from mainspring.app.tui.chat_client import open_chat
from mainspring.app.tui.launch import apply_settings
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.settings.load import load_settings
from tests.unit.app.tui.harness import desk


def test_flags_reach_the_chat() -> None:
    line = (
        "--model openai:m --thinking high --system S --tools read_file,grep --session mine --fork "
        "--max-turns 3 --max-seconds 4 --max-cost 0.5 --max-tokens 600 --max-output-tokens 70 --allow shell(ls) --plan "
        "--sandbox landlock --sandbox-network"
    )
    _, given = parse(line.split())
    ask = chat_launch_options(given)
    assert (ask.model, ask.thinking, ask.system, tuple(ask.tools or ())) == (
        "openai:m",
        "high",
        "S",
        ("read_file", "grep"),
    )
    assert (ask.session, ask.fork, ask.save, ask.plan, ask.continued) == ("mine", True, True, True, False)
    limits = (ask.max_turns, ask.max_seconds, ask.max_cost, ask.max_total_tokens, ask.max_output_tokens)
    assert limits == (3, 4, 0.5, 600, 70)
    assert "shell" in str(ask.rules)
    assert (ask.sandbox.layer, ask.sandbox.network) == ("landlock", True)
    assert chat_launch_options(parse(["-c"])[1]).continued
    assert not chat_launch_options(parse(["--no-session"])[1]).save


@pytest.mark.covers("OPT-03", "CLI-07")
async def test_settings_reach_the_screen(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.json").write_text(
        '{"ui": {"theme": "light", "keys": {"unfold": "F2", "fly": "F3"}},'
        ' "notifications": {"when": "always", "ways": ["osc9"], "command": "true", "afterSeconds": 3}}'
    )
    settings = load_settings(str(tmp_path), environ={"MAINSPRING_HOME": str(home)})
    async with desk(tmp_path) as one:
        apply_settings(settings, one.session)
        how = one.session.notifier.options
        assert (how.when, tuple(how.channels), how.command, how.after) == ("always", ("osc9",), "true", 3)
        assert one.session.screen.look.theme == one.session.transcript.look.theme == "light"
        await one.until(lambda: "ui.keys.fly: unknown action" in one.written)
        one.keys("\x1bOQ")  # F2
        await one.until(lambda: "No collapsed output" in one.written)


@pytest.mark.covers("CLI-07", "CLI-11")
async def test_the_entry_loads_the_settings_and_opens_the_engine_with_what_the_command_line_says(
    tmp_path: Path, home: Path
) -> None:
    (home / ".agent").mkdir()
    provider = {"compatible": {"baseUrl": "http://127.0.0.1:9/v1"}}
    values = {"model": "compatible:one", "providers": provider, "ui": {"theme": "light"}}
    (home / ".agent" / "settings.json").write_text(json.dumps(values))
    seen: list[Settings] = []

    _, options = parse(["--no-session", "--model", "compatible:two"])
    async with open_chat(options, str(tmp_path), seen.append) as chat, asyncio.timeout(20):
        assert isinstance(chat, Chat)
        assert (await chat.send(parse_line("/help", known=("help",)))).refused == ""
        told = [event async for event in _until_done(chat)]

    assert [s.config.ui.theme for s in seen] == ["light"]
    assert "/help" in str(told[-1])
    assert [e.status.model for e in told if isinstance(e, StatusChanged)][-1] == "compatible:two"


async def _until_done(chat: Chat) -> AsyncGenerator[object]:
    async for event in chat.events():
        yield event
        if isinstance(event, CommandDone):
            return
