"""The chat for a screen reader, in a real terminal."""

import json
from pathlib import Path

import pytest

from tests.e2e.servers.chat import call
from tests.e2e.terminal import TerminalChat, chat
from tests.requires import on_posix, on_tmux

pytestmark = [on_posix, on_tmux]

__all__ = ["chat"]


@pytest.mark.parametrize("flag", ["--screen-reader", ""])
def test_flag_and_setting_open_a_chat_of_plain_lines(chat: TerminalChat, home: Path, flag: str) -> None:
    if not flag:
        (home / ".agent").mkdir(exist_ok=True)
        (home / ".agent" / "settings.json").write_text(json.dumps({"ui": {"screenReader": True}}))
    terminal = chat.terminal
    before = terminal.stty()
    chat.server.script = [call("shell", command="touch ran"), "All **done**."]
    terminal.keys("C-u", f"clear; {chat.command} {flag}", "Enter")
    terminal.wait("default mode, sandbox off.")
    terminal.keys("go", "Enter")
    screen = terminal.wait("Your choice (number, then Enter; esc cancels):")
    assert "Run this command?\n  touch ran\n" in screen
    assert "\n1. Yes\n2. Yes, and don't ask again" in screen
    terminal.keys("1", "Enter")
    screen = terminal.wait("Finished.")
    assert "Done: Shell $ touch ran\nAll done.\nFinished.\n" in screen
    assert (terminal.folder / "ran").exists()
    terminal.keys("C-d")
    terminal.wait(lambda shown: shown.splitlines()[-1].endswith("ready$"))
    assert terminal.stty() == before
