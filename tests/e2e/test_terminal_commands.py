"""Starting a chat with a prompt, picking a session, and commands of the chat, in a real terminal."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.servers.chat import call
from tests.e2e.terminal import TerminalChat, chat, open_chat
from tests.requires import on_posix, on_tmux

pytestmark = [pytest.mark.slow, on_posix, on_tmux]

__all__ = ["chat"]


def test_chat_starts_with_a_quoted_prompt(chat: TerminalChat) -> None:
    terminal = chat.begin("'fix the tests'", script=["Fixed."])
    screen = terminal.wait("Fixed.")
    assert "> fix the tests" in screen
    terminal.send(":q")
    terminal.wait("ready$")
    terminal.keys("C-u", f"clear; {chat.command} '/help quit'", "Enter")
    terminal.wait("/quit")
    terminal.wait(lambda screen: "test-model" in screen.split("\n")[-1])
    terminal.send("exit")
    terminal.wait("ready$")


def test_resume_without_a_name_opens_the_list_of_sessions(chat: TerminalChat) -> None:
    chat.begin("'remember the apples'", script=["Apples noted."]).wait("Apples noted.")
    chat.end()
    chat.begin("'remember the pears'", script=["Pears noted."]).wait("Pears noted.")
    chat.end()
    terminal = chat.begin("--resume")
    terminal.wait("remember the pears")
    terminal.type("apples")
    terminal.wait_gone("remember the pears")
    terminal.keys("Enter")
    terminal.wait("Apples noted.")
    chat.end()


def test_running_command_moves_to_the_background_with_a_key(chat: TerminalChat) -> None:
    folder = chat.terminal.folder
    command = "echo begun; until [ -e go ]; do sleep 0.05; done; echo finished"
    script = [call("shell", command=command), "It runs on.", "It has ended."]
    terminal = chat.begin("--allow", "shell", script=script)
    terminal.send("Start it")
    terminal.wait("\n    begun")
    terminal.keys("C-b")
    screen = terminal.wait("It runs on.")
    assert "the user moved the command to the background as job1" in screen
    terminal.send("/jobs")
    terminal.wait("running for")
    (folder / "go").touch()
    terminal.wait("It has ended.")
    terminal.send("/jobs job1")
    terminal.wait("finished")
    chat.end()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_diff_todos_and_sessions_fit_the_screen(tmp_path: Path, home: Path, columns: int) -> None:
    todos = [
        {"content": "Read the code", "status": "completed"},
        {"content": "Write the parser", "status": "in_progress"},
    ]
    for opened in open_chat(tmp_path, home, columns):
        folder = opened.terminal.folder
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        (folder / "new.txt").write_text("first line\nsecond line\n")
        terminal = opened.begin(script=[call("todo_write", todos=todos), "Half done."])
        terminal.send("Go")
        terminal.wait("Half done.")
        screen = terminal.wait(lambda s: "Todos: 1 of 2 done\n  > Write the parser" in s)
        assert screen.index("Half done.") < screen.index("Todos: 1 of 2 done")
        terminal.send("/diff")
        screen = terminal.wait("+ second line")
        assert "new.txt (new) +2 -0" in screen
        terminal.send("/sessions")
        screen = terminal.wait("Half done.")
        terminal.wait("just now, 1 prompt")
        terminal.keys("Escape")
        assert all(len(line) <= columns for line in terminal.screen().splitlines())
        opened.end()
