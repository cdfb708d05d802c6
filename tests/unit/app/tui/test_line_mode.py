import asyncio
import io
import os
import signal

import pytest

from mainspring.app.chat import events as told
from mainspring.app.chat.approvals import choices_for
from mainspring.app.chat.command_results import Screen
from mainspring.app.chat.commands import Abort, Answer, Approve, ChatCommand, Prompt, Slash, Steer
from mainspring.app.tui.line_mode import LineMode
from mainspring.app.tui.theme import Theme
from tests.unit.app.tui.fake_chat import ScriptedChat

ASKED = told.ApprovalAsked(
    "q1",
    "t1",
    "shell",
    "Run",
    "run",
    "ls",
    suggestions=("shell(ls)", "shell(wc)"),
    choices=choices_for(("shell(ls)", "shell(wc)")),
)


@pytest.mark.covers("CLI-01", "CLI-02")
async def test_a_chat_in_lines() -> None:
    chat, out = ScriptedChat(), io.StringIO()
    keyboard, typing = os.pipe()
    mode = LineMode(chat.open, Theme(utf8=False, colors="none", dumb=True), out)
    running = asyncio.create_task(mode.run(keyboard))

    async def after(line: str, command: ChatCommand) -> None:
        os.write(typing, line.encode())
        for _ in range(1000):
            if command in chat.commands:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{command} did not come: {chat.commands}\n{out.getvalue()}")

    async def shows(text: str) -> None:
        for _ in range(1000):
            if text in out.getvalue():
                return
            await asyncio.sleep(0.005)
        raise AssertionError(out.getvalue())

    chat.tell(told.Notice("by the way"))
    await shows("by the way\n> ")
    await after("hello\n", Prompt("hello"))
    chat.tell(told.UserText("hello"), told.RunStarted("r"), told.AnswerText("**Well** \u2014 \x1b[2Jx"))
    chat.tell(ASKED)
    await shows("Your choice")
    assert "Well - x\n" in out.getvalue()
    await after("a 2\n", Approve("q1", "always", rule="shell(ls)"))
    await after("to the left\n", Steer("to the left"))
    os.kill(os.getpid(), signal.SIGINT)
    await after("", Abort("Stopped by the user"))
    chat.tell(told.RunFinished("aborted"), told.QuestionAsked("q2", "input", "Your name?"))
    await shows("Your answer")
    await after("me\n", Answer("q2", (), "me"))
    chat.tell(told.ApprovalSettled("q1", "always"), told.QuestionSettled("q2", "answered"))
    await after("/quit now\n", Slash("/quit now"))
    chat.tell(told.CommandDone("c", "quit", Screen("quit")))
    assert await asyncio.wait_for(running, 5) == 0
    assert out.getvalue().isascii()
    os.close(keyboard)
    os.close(typing)
