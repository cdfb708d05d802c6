"""What the command line and the settings say reaches the chat and its screen."""

from pathlib import Path

import pytest

from mainspring.app.cli.args import parse
from mainspring.app.cli.frame import ask_options
from mainspring.app.tui.opening import follow_settings
from mainspring.runtime.settings.load import load_settings
from tests.unit.app.tui.desk import desk


def test_flags_reach_the_chat() -> None:
    line = (
        "--model openai:m --thinking high --system S --tools read_file,grep --session mine --fork "
        "--max-turns 3 --max-seconds 4 --max-cost 0.5 --max-tokens 600 --max-output-tokens 70 --allow shell(ls) --plan "
        "--sandbox landlock --sandbox-network"
    )
    _, given = parse(line.split())
    ask = ask_options(given)
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
    assert ask_options(parse(["-c"])[1]).continued
    assert not ask_options(parse(["--no-session"])[1]).save


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
        follow_settings(settings, one.session)
        how = one.session.notifier.how
        assert (how.when, tuple(how.ways), how.command, how.after) == ("always", ("osc9",), "true", 3)
        assert one.session.screen.look.theme == one.session.transcript.look.theme == "light"
        await one.until(lambda: "ui.keys.fly: there is no such action" in one.written)
        one.keys("\x1bOQ")  # F2
        await one.until(lambda: "nothing is folded" in one.written)
