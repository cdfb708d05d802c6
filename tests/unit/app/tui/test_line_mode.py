import asyncio
import io
import os
import signal

import pytest

from mainspring import events as run_events
from mainspring.app.chat import events as chat_events
from mainspring.app.chat.approvals import choices_for
from mainspring.app.chat.command_results import Screen
from mainspring.app.chat.commands import Abort, Answer, Approve, ChatCommand, Prompt, Slash, Steer
from mainspring.app.tui.line_mode import LineMode
from mainspring.app.tui.theme import Theme
from tests.unit.app.chat import event_builders as make
from tests.unit.app.tui.fake_chat import ScriptedChat

APPROVAL = make.approval(
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
async def test_chat_in_line_mode() -> None:
    chat, out = ScriptedChat(), io.StringIO()
    keyboard, typing = os.pipe()
    mode = LineMode(chat.open, Theme(utf8=False, colors="none", dumb=True), out)
    running = asyncio.create_task(mode.run(keyboard))

    async def type_and_expect(line: str, command: ChatCommand) -> None:
        os.write(typing, line.encode())
        for _ in range(24_000):
            if command in chat.commands:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{command} was not sent: {chat.commands}\n{out.getvalue()}")

    async def wait_for_output(text: str) -> None:
        for _ in range(24_000):
            if text in out.getvalue():
                return
            await asyncio.sleep(0.005)
        raise AssertionError(out.getvalue())

    chat.publish(run_events.Notice("by the way"))
    await wait_for_output("by the way\n> ")
    await type_and_expect("hello\n", Prompt("hello"))
    chat.publish(make.user_text("hello", "prompt"), run_events.AgentStart("r"), make.text("**Well** \u2014 \x1b[2Jx"))
    chat.publish(APPROVAL)
    await wait_for_output("Your choice")
    assert "Well - x\n" in out.getvalue()
    await type_and_expect("a 2\n", Approve("q1", "always", rule="shell(ls)"))
    await type_and_expect("to the left\n", Steer("to the left"))
    os.kill(os.getpid(), signal.SIGINT)
    await type_and_expect("", Abort("Stopped by the user"))
    chat.publish(make.run_end("aborted"), chat_events.QuestionRequest("q2", "input", "Your name?"))
    await wait_for_output("Your answer")
    await type_and_expect("me\n", Answer("q2", (), "me"))
    chat.publish(run_events.ApprovalResult("q1", "always"), chat_events.QuestionResult("q2", "answered"))
    await type_and_expect("/quit now\n", Slash("/quit now"))
    chat.publish(chat_events.CommandEnd("c", "quit", Screen("quit")))
    assert await running == 0
    assert out.getvalue().isascii()
    os.close(keyboard)
    os.close(typing)
