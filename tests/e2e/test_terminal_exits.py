"""The terminal is restored after any exit."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.servers.chat import Reply, call
from tests.e2e.terminal import Terminal, TerminalChat, chat, open_chat
from tests.requires import on_linux, on_posix, on_tmux

pytestmark = [on_posix, on_tmux, on_linux]

__all__ = ["chat"]


def check_restored(terminal: Terminal, stty: str, modes: str) -> None:
    """Check that the shell has its terminal back."""
    terminal.wait(lambda screen: screen.split("\n")[-1].startswith("ready$"))
    assert terminal.stty() == stty
    assert terminal.modes == modes
    assert terminal.cursor_visible
    terminal.paste("echo pasted")  # bracketed paste is off: no ~ and no brackets
    terminal.wait("ready$ echo pasted")
    terminal.keys("C-u")


def _show_prompt(terminal: Terminal) -> None:
    """Press Enter if there is no prompt: on a busy machine, the shell may write it before the rows of the chat are erased, and it with them."""
    try:
        terminal.wait(lambda screen: screen.split("\n")[-1].startswith("ready$"))
    except AssertionError:
        terminal.keys("Enter")


@pytest.mark.covers("CLI-19")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_terminal_is_restored_after_a_kill(chat: TerminalChat, number: signal.Signals) -> None:
    terminal = chat.terminal
    stty, modes = terminal.stty(), terminal.modes
    todos = call("todo_write", todos=[{"content": "Read the code", "status": "in_progress"}])
    chat.begin(script=[todos, Reply(text="It goes on\n\nand on", stall=True)])
    terminal.send("Go")
    terminal.wait("and on")
    terminal.wait("Todos: 0 of 1 done")
    os.kill(terminal.pid_of("-m mainspring"), number)
    if number == signal.SIGKILL:
        _show_prompt(terminal)
    check_restored(terminal, stty, modes)
    _, arrived, below = terminal.screen().partition("\nand on\n")
    assert arrived, terminal.screen()
    if number == signal.SIGKILL:
        return  # on a busy machine, the shell may write first: then the rows above the input stay
    assert not [word for word in ("Working", "Todos:", "test-model", "\n> ") if word in f"\n{below}"], below


@pytest.mark.covers("CLI-19")
def test_terminal_is_restored_after_suspend_editor_and_failure(chat: TerminalChat) -> None:
    terminal = chat.terminal
    stty, modes = terminal.stty(), terminal.modes
    editor = terminal.folder / "editor"
    editor.write_text('#!/bin/sh\ncat "$1" > seen.txt\nprintf "from the editor\\nin two lines" > "$1"\n')
    editor.chmod(0o755)
    terminal.send(f"export EDITOR={editor}; set -m")
    chat.begin(script=["Thanks."])
    terminal.type("a draft")
    terminal.keys("C-g")
    terminal.wait("> from the editor\n  in two lines")
    assert (terminal.folder / "seen.txt").read_text() == "a draft"

    terminal.keys("C-z")
    terminal.wait(lambda screen: screen.rstrip().endswith("ready$"))
    assert terminal.stty() == stty
    terminal.send("fg")
    terminal.wait("> from the editor\n  in two lines")
    terminal.keys("Enter")
    terminal.wait("Thanks.")
    terminal.keys("C-d")
    check_restored(terminal, stty, modes)

    settings = Path(terminal.folder.parent) / "broken"
    settings.mkdir()
    (settings / "settings.json").write_text("{ broken")
    terminal.keys(f"MAINSPRING_HOME={settings} {chat.command}; echo code $?", "Enter")
    terminal.wait("code 2")
    assert "settings.json" in terminal.full_output()
    check_restored(terminal, stty, modes)


@pytest.fixture
def narrow(tmp_path: Path, home: Path) -> Iterator[TerminalChat]:
    yield from open_chat(tmp_path, home, 24, 12, NO_COLOR="1", LC_ALL="C")


@pytest.mark.covers("CLI-01")
def test_narrow_terminal_without_color_and_utf8(narrow: TerminalChat) -> None:
    terminal = narrow.begin(
        script=[Reply(text="Caf\u00e9 \u2014 \u201cquoted\u201d \u65e5\n\n- \x1b]0;evil\x07item\x1b[31m red", pieces=9)]
    )
    terminal.send("Go")
    screen = terminal.wait("red")
    assert 'Caf? - "quoted" ?' in screen
    assert "- item red" in screen
    assert not re.search(r"\x1b\[(?:3[0-8]|9[0-7]|4[0-8])", terminal.styled())
    assert "evil" not in terminal.run("display-message", "-p", "#{pane_title}")
    narrow.end()


@pytest.fixture
def dumb(tmp_path: Path, home: Path) -> Iterator[TerminalChat]:
    yield from open_chat(tmp_path, home, TERM="dumb")


@pytest.mark.covers("CLI-01")
def test_dumb_terminal_uses_line_mode(dumb: TerminalChat) -> None:
    terminal = dumb.terminal
    dumb.server.script = [call("shell", command="echo done-$((1+1))"), "It is done."]
    terminal.keys("C-u", f"clear; {dumb.command}", "Enter")
    terminal.wait(lambda screen: screen.split("\n")[-1] == ">")
    terminal.keys("Do it", "Enter")
    terminal.wait("Your choice")
    terminal.keys("y", "Enter")
    screen = terminal.wait("It is done.")
    assert "done-2" in screen
    terminal.keys("/quit", "Enter")
    terminal.wait("ready$")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_unsent_input_returns_in_the_next_chat(chat: TerminalChat, number: signal.Signals) -> None:
    terminal = chat.begin()
    terminal.type("a first line")
    terminal.keys("M-Enter")
    terminal.paste("\n".join(map(str, range(20))))
    terminal.wait("[pasted 20 lines]")
    os.kill(terminal.pid_of("mainspring"), number)
    assert "The next chat in this folder starts with it." in terminal.wait("ready$")
    terminal = chat.begin(script=["One."])
    terminal.wait("[pasted 21 lines]")
    terminal.keys("Enter")
    terminal.wait("One.")
    assert chat.server.requests[-1]["messages"][-1]["content"].startswith("a first line\n0\n1\n2")
    chat.end()
    chat.begin().wait(lambda screen: "a first line" not in screen)


@pytest.mark.parametrize("flags", ["", "--screen-reader"])
def test_chat_in_a_deleted_folder_without_its_path_is_refused(chat: TerminalChat, flags: str) -> None:
    terminal = chat.terminal
    terminal.keys(
        f"mkdir gone; cd gone; rmdir ../gone; clear; env -u PWD {chat.command} {flags}; echo code $?", "Enter"
    )
    screen = terminal.wait("code 2")
    assert "Error: The current folder no longer exists. Use --cwd DIR to choose another fold" in screen


def test_command_without_a_terminal_prints_usage(chat: TerminalChat) -> None:
    terminal = chat.terminal
    terminal.keys(f"{chat.command} 2>&1 | cat", "Enter")
    terminal.wait("No prompt. Use -p PROMPT")
    terminal.keys(f"{chat.command} < /dev/null; echo code $?", "Enter")
    terminal.wait("code 2")
