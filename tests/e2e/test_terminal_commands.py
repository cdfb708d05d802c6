"""Starting a chat with a prompt, picking a session, and commands of the chat, in a real terminal."""

import pytest

from tests.e2e.terminal import TerminalChat, chat
from tests.requires import on_posix, on_tmux

pytestmark = [on_posix, on_tmux]

__all__ = ["chat"]


@pytest.mark.covers("CLI-01")
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


@pytest.mark.covers("CLI-01")
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
