"""The chat for a screen reader: plain lines, announcements in words, and numbered questions."""

import asyncio
import io
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from mainspring import events as run_events
from mainspring.app.chat import events as chat_events
from mainspring.app.chat.approvals import choices_for
from mainspring.app.chat.command_results import Fields
from mainspring.app.chat.commands import Answer, Approve, Prompt
from mainspring.app.cli.arguments import parse_arguments
from mainspring.app.cli.parser import UsageError
from mainspring.app.tui import start
from mainspring.app.tui.line_mode import LineMode
from mainspring.app.tui.theme import Theme
from mainspring.events import Option
from tests.unit.app.chat import event_builders as make
from tests.unit.app.tui.fake_chat import ScriptedChat

APPROVAL = make.approval(
    "q1", "t1", "shell", "Shell", "run", "ls", suggestions=("shell(ls)",), choices=choices_for(("shell(ls)",))
)


class Spoken:
    """A chat in plain lines."""

    def __init__(self, chat: ScriptedChat, out: io.StringIO, typing: int) -> None:
        self.chat = chat
        self._out = out
        self._typing = typing

    def type(self, line: str) -> None:
        os.write(self._typing, f"{line}\n".encode())

    @property
    def text(self) -> str:
        return self._out.getvalue()

    async def wait_for(self, condition: Callable[[], object]) -> None:
        for _ in range(24_000):
            if condition():
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{self.chat.commands}\n{self.text}")

    async def wait_for_text(self, text: str) -> None:
        await self.wait_for(lambda: text in self.text)


@asynccontextmanager
async def speaking() -> AsyncGenerator[Spoken]:
    chat, out = ScriptedChat(), io.StringIO()
    keyboard, typing = os.pipe()
    running = asyncio.create_task(LineMode(chat.open, Theme(), out, is_spoken=True).run(keyboard))
    try:
        yield Spoken(chat, out, typing)
    finally:
        os.close(typing)
        await running
        os.close(keyboard)


async def test_work_is_announced_in_words_without_redrawing() -> None:
    async with speaking() as spoken:
        await spoken.wait_for_text("Mainspring in : test, default mode, sandbox off.")
        paragraph = "A paragraph that is longer than a row of a terminal with eighty columns, and still one line."
        spoken.chat.publish(
            run_events.AgentStart("r"),
            chat_events.WorkingChange("Thinking"),
            make.thinking("hm"),
            make.tool_start("t1", "shell", "Shell", "ls"),
            make.tool_end("t1", "shell", "Shell", "ls", output="a.txt"),
            make.text(f"{paragraph}\n\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"),
            make.response(paragraph),
            make.run_end("completed"),
        )
        await spoken.wait_for_text("Finished.")
        text = spoken.text
    assert text.index("Working.") < text.index("Running Shell: ls") < text.index("Done: Shell ls") < text.index("A par")
    assert f"\n{paragraph}\n" in text
    assert "---" not in text
    assert "Thinking..." not in text
    for character in "\x1b\r\b│─█░⠋*":
        assert character not in text, repr(character)


async def test_approval_is_a_numbered_question_and_an_empty_line_allows_nothing() -> None:
    async with speaking() as spoken:
        spoken.chat.publish(run_events.AgentStart("r"), APPROVAL)
        await spoken.wait_for_text("Your choice (number, then Enter; esc cancels): ")
        question = spoken.text[spoken.text.index("Run this command?") :]
        assert question.splitlines()[:3] == ["Run this command?", "  ls", "1. Yes"]
        assert "2. Yes, and don't ask again this session" in question
        for wrong in ("", "99", "what"):
            count = spoken.text.count("Your choice")
            spoken.type(wrong)
            await spoken.wait_for(lambda count=count: spoken.text.count("Your choice") > count)
        assert not spoken.chat.commands
        spoken.type("2")
        await spoken.wait_for(lambda: Approve("q1", "session") in spoken.chat.commands)


async def test_question_is_numbered_and_can_be_skipped() -> None:
    options = tuple([Option(f"v{i}", f"Choice {i}", "why") for i in range(1, 12)])
    async with speaking() as spoken:
        spoken.chat.publish(chat_events.QuestionRequest("q1", "select", "Which?", options=options))
        await spoken.wait_for_text("11. Choice 11: why\nYour choice")
        assert "Up/Down" not in spoken.text
        spoken.type("11")
        await spoken.wait_for(lambda: Answer("q1", ("v11",)) in spoken.chat.commands)
        spoken.chat.publish(chat_events.QuestionRequest("q2", "select", "Which one?", options=options))
        await spoken.wait_for_text("Which one?")
        spoken.type("esc")
        await spoken.wait_for(lambda: Answer("q2", declined=True) in spoken.chat.commands)


async def test_changes_of_the_status_are_announced_once() -> None:
    async with speaking() as spoken:
        await spoken.wait_for_text("default mode")
        planning = msgspec.structs.replace(spoken.chat.status, mode="plan", tokens=5)
        spoken.chat.publish(
            chat_events.StatusChange(planning),
            chat_events.StatusChange(msgspec.structs.replace(planning, tokens=9)),
            chat_events.CommandEnd("1", "context", Fields((("used", "██░░  20% of 10"),), "Context")),
        )
        await spoken.wait_for_text("20% of 10")
        assert spoken.text.count("Now: plan mode.") == 1
        assert spoken.text.count("Now:") == 1
        spoken.type("hello")
        await spoken.wait_for(lambda: Prompt("hello") in spoken.chat.commands)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("{}", False),
        ('{"ui": {"screenReader": true}}', True),
        ('{"ui": {"screenReader": false}}', False),
        ('{"ui": {"screenReader": ', False),
    ],
)
def test_setting_of_the_user_starts_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: str, expected: bool
) -> None:
    (tmp_path / "settings.json").write_text(settings)
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path))
    assert start.is_screen_reader_set() == expected


def test_flag_needs_a_chat() -> None:
    with pytest.raises(UsageError, match="--screen-reader"):
        parse_arguments(["-p", "hello", "--screen-reader"])
