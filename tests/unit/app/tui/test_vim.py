"""The keys of vim in the input."""

from pathlib import Path

import msgspec
import pytest

from mainspring import events as run_events
from mainspring.app.chat import events as chat_events
from mainspring.app.chat.command_results import Choice, Picker, UiSetting
from mainspring.app.chat.commands import Abort, Prompt, Slash, Steer
from mainspring.app.tui.launch import apply_settings
from mainspring.app.tui.styled_text import to_text
from mainspring.app.workspace.settings.load import load_settings
from tests.unit.app.tui.harness import TuiHarness, open_tui


def _status(tui: TuiHarness) -> str:
    return to_text([tui.session.status_row(80)])


async def _press(tui: TuiHarness, keys: str, mode: str) -> None:
    tui.keys(keys)
    await tui.wait_for(lambda: _status(tui).startswith(mode))


async def _start_run(tui: TuiHarness) -> None:
    tui.chat.status = msgspec.structs.replace(tui.chat.status, running=True)
    tui.chat.publish(run_events.AgentStart("r1"), chat_events.StatusChange(tui.chat.status))
    await tui.wait_for(tui.session.is_busy)


async def test_text_is_edited_with_vim_commands(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.session.screen.set_vim(True)
        await tui.type_text("one two three")
        assert _status(tui).startswith("INSERT  test")
        await _press(tui, "\x1b", "NORMAL")
        tui.keys("b")
        tui.keys("db")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "one three")
        await _press(tui, "v", "VISUAL")
        await _press(tui, "\x1b", "NORMAL")
        tui.keys("0")
        tui.keys("cw1")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "1 three")
        await tui.type_text("")  # a pause: not a paste
        tui.keys("\r")
        assert await tui.next_command(Prompt) == Prompt("1 three")
        await _press(tui, "\x1b", "NORMAL")
        tui.keys("i")
        await tui.type_text("next")
        await _press(tui, "\x1b", "NORMAL")
        tui.keys("\r")
        assert await tui.next_command(Prompt) == Prompt("next")
        assert _status(tui).startswith("INSERT")


async def test_two_key_command_may_be_typed_slowly(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.session.screen.set_vim(True)
        tui.keys("\x1b[200~one\ntwo\x1b[201~")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "one\ntwo")
        await _press(tui, "\x1b", "NORMAL")
        before = tui.session.screen.last_key
        tui.keys("g")
        await tui.wait_for(lambda: tui.session.screen.last_key > before)
        assert tui.session.screen.app.timeoutlen == pytest.approx(0.5)
        tui.keys("g")
        await tui.wait_for(lambda: tui.session.screen.buffer.cursor_position == 0)


async def test_escape_stops_the_run_only_in_normal_mode(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.session.screen.set_vim(True)
        await _start_run(tui)
        await tui.type_text("wait")
        await _press(tui, "\x1b", "NORMAL")
        assert not tui.chat.commands
        tui.keys("d")
        await tui.wait_for(lambda: tui.session.screen.app.vi_state.operator_func)
        tui.keys("\x1b")  # leaves the operator
        await tui.wait_for(lambda: not tui.session.screen.app.vi_state.operator_func)
        assert not tui.chat.commands
        tui.keys("\x1b")
        assert await tui.next_command(Abort) == Abort("Stopped by the user")
        tui.keys("\r")
        assert await tui.next_command(Steer) == Steer("wait")


async def test_escape_in_a_list_closes_the_list(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.session.screen.set_vim(True)
        tui.chat.publish(chat_events.CommandEnd("1", "model", Picker("Models", (Choice("one", "/model one"),))))
        await tui.wait_for(lambda: "Models" in tui.drawn)
        tui.keys("\x1b")
        await tui.wait_for(lambda: "Models" not in tui.drawn)
        assert _status(tui).startswith("INSERT")


async def test_alt_keys_work_in_both_modes(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.session.screen.set_vim(True)
        await _start_run(tui)
        await tui.type_text("a")
        tui.keys("\x1b\r")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "a\n")
        await _press(tui, "\x1b", "NORMAL")
        tui.keys("\x1b[1;3A")  # Alt-Up: no queued message, and no stop
        tui.keys("\r")
        await tui.next_command(Steer)
        assert not [c for c in tui.chat.commands if isinstance(c, Abort)]


async def test_vim_is_a_setting_and_a_command(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.json").write_text('{"ui": {"editing": "vim"}}')
    settings = load_settings(str(tmp_path), environ={"MAINSPRING_HOME": str(home)})
    async with open_tui(tmp_path) as tui:
        assert not tui.session.screen.vim_mode
        apply_settings(settings, tui.session)
        assert tui.session.screen.vim_mode == "INSERT"
        await tui.type_text("/vim")
        tui.keys("\r")
        assert await tui.next_command(Slash) == Slash("/vim")
        tui.chat.publish(chat_events.CommandEnd("1", "vim", UiSetting("editing", "emacs")))
        await tui.wait_for(lambda: "Editing set to emacs." in tui.written)
        assert not tui.session.screen.vim_mode
