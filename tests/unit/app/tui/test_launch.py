"""Command line options and settings reach the chat and the terminal app."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mainspring.app.chat import Chat, parse_line
from mainspring.app.chat.events import CommandEnd, StatusChange
from mainspring.app.cli.arguments import parse_arguments
from mainspring.app.cli.runner import chat_launch_options
from mainspring.app.tui.chat_client import open_chat
from mainspring.app.tui.launch import apply_settings
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.settings.load import load_settings
from tests.unit.app.tui.harness import open_tui


def test_flags_reach_the_chat() -> None:
    line = (
        "--model openai:m --thinking high --system S --tools read_file,grep --session mine --fork "
        "--max-turns 3 --max-seconds 4 --max-cost 0.5 --max-total-tokens 600 --max-output-tokens 70 --allow shell(ls) --plan "
        "--sandbox landlock --sandbox-network"
    )
    _, given = parse_arguments(line.split())
    ask = chat_launch_options(given)
    assert (ask.model, ask.system, tuple(ask.tools or ())) == ("openai:m", "S", ("read_file", "grep"))
    assert (ask.session, ask.fork, ask.save, ask.plan, ask.continued) == ("mine", True, True, True, False)
    assert ask.agent == {
        "maxTurns": 3, "maxSeconds": 4, "maxCost": 0.5, "maxTotalTokens": 600, "maxTokens": 70, "thinking": "high",
    }  # fmt: skip
    assert "shell" in str(ask.rules)
    assert (ask.sandbox.layer, ask.sandbox.network) == ("landlock", True)
    assert chat_launch_options(parse_arguments(["-c"])[1]).continued
    assert not chat_launch_options(parse_arguments(["--no-session"])[1]).save


@pytest.mark.covers("OPT-03", "CLI-07")
async def test_settings_reach_the_app(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.json").write_text(
        '{"ui": {"theme": "light", "keys": {"unfold": "F2", "fly": "F3"}},'
        ' "notifications": {"when": "always", "ways": ["osc9"], "command": "true", "afterSeconds": 3}}'
    )
    settings = load_settings(str(tmp_path), environ={"MAINSPRING_HOME": str(home)})
    async with open_tui(tmp_path) as tui:
        apply_settings(settings, tui.session)
        how = tui.session.notifier.options
        assert (how.when, tuple(how.channels), how.command, how.after) == ("always", ("osc9",), "true", 3)
        assert tui.session.screen.look.theme == tui.session.transcript.look.theme == "light"
        await tui.wait_for(lambda: "ui.keys.fly: unknown action" in tui.written)
        tui.keys("\x1bOQ")  # F2
        await tui.wait_for(lambda: "No collapsed output" in tui.written)


@pytest.mark.covers("CLI-07", "CLI-11")
async def test_open_chat_uses_settings_and_command_line_options(tmp_path: Path, home: Path) -> None:
    (home / ".agent").mkdir()
    provider = {"compatible": {"baseUrl": "http://127.0.0.1:9/v1"}}
    values = {"model": "compatible:one", "providers": provider, "ui": {"theme": "light"}}
    (home / ".agent" / "settings.json").write_text(json.dumps(values))
    seen: list[Settings] = []

    _, options = parse_arguments(["--no-session", "--model", "compatible:two"])
    async with open_chat(options, str(tmp_path), seen.append) as chat:
        assert isinstance(chat, Chat)
        assert (await chat.send(parse_line("/help", known=("help",)))).refused == ""
        events = [event async for event in _events_until_done(chat)]

    assert [s.config.ui.theme for s in seen] == ["light"]
    assert "/help" in str(events[-1])
    assert [e.status.model for e in events if isinstance(e, StatusChange)][-1] == "compatible:two"


async def _events_until_done(chat: Chat) -> AsyncGenerator[object]:
    async for event in chat.events():
        yield event
        if isinstance(event, CommandEnd):
            return
