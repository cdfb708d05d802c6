import asyncio
from pathlib import Path

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from mainspring.app.chat import events as chat_events
from mainspring.app.chat.commands import Answer, Prompt
from mainspring.app.tui.paste import BURST, join_bursts
from tests.unit.app.tui.harness import open_tui

ENTER = KeyPress(Keys.ControlM, "\r")


def key_presses(text: str) -> list[KeyPress]:
    return [ENTER if c == "\r" else KeyPress(c) for c in text]


def test_burst_of_characters_is_joined_and_enter_is_separate() -> None:
    assert join_bursts(key_presses("a" * 40 + "\r" + "b" * 5 + "\r")) == [
        KeyPress(BURST, "a" * 40 + "\n" + "b" * 5),
        ENTER,
    ]


def test_function_keys_are_not_joined() -> None:
    up = KeyPress(Keys.Up, "\x1b[A")

    assert join_bursts([*key_presses("a" * 40), up, *key_presses("b" * 3)]) == [
        KeyPress(BURST, "a" * 40),
        up,
        *key_presses("bbb"),
    ]


def test_normal_typing_is_unchanged() -> None:
    assert join_bursts(key_presses("hello\r")) == key_presses("hello\r")


async def test_large_paste_without_brackets_is_fast_and_complete(tmp_path: Path) -> None:
    text = "".join(f"line {i}\tof a large text\n" for i in range(4_000))
    async with open_tui(tmp_path) as tui:
        before = tui.session.screen.app.render_counter
        for at in range(0, len(text), 1024):
            tui.keys(text[at : at + 1024].replace("\n", "\r"))
            await asyncio.sleep(0)  # the pipe buffer has 64kB
        await tui.wait_for(lambda: len(tui.session.screen.buffer.text) >= len(text))

        assert tui.session.screen.buffer.text == text
        assert tui.session.screen.app.render_counter - before < 200  # not one frame per character
        assert not tui.chat.commands


async def test_line_that_arrives_with_its_enter_is_sent(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.keys("what is to be done here, and by whom?\r")
        sent = await tui.next_command(Prompt)

        assert isinstance(sent, Prompt)
        assert sent.text == "what is to be done here, and by whom?"


@pytest.mark.covers("BYD-04")
@pytest.mark.parametrize("text", ["yes, and then " * 5, "yes"])
async def test_burst_does_not_answer_a_dialog(tmp_path: Path, text: str) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(chat_events.QuestionRequest("q", "confirm", "Go?"))
        await tui.wait_for(tui.session.screen.dialog_takes_keys)
        tui.keys(text)
        await tui.wait_for(lambda: tui.session.screen.buffer.text == text)
        assert not tui.chat.commands


@pytest.mark.parametrize("size", [Size(rows=3, columns=80), Size(rows=24, columns=10)])
async def test_question_takes_no_keys_in_a_window_that_cannot_show_it(
    tmp_path: Path, size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_tui(tmp_path) as tui:
        screen = tui.session.screen
        monkeypatch.setattr(screen.output, "get_size", lambda: size)
        tui.chat.publish(chat_events.QuestionRequest("q", "confirm", "Go?"))
        await tui.wait_for(lambda: screen.dialog)
        screen.end_typing()
        monkeypatch.setattr(screen, "_asked_at", 0.0)
        tui.keys("y")
        await tui.wait_for(lambda: screen.buffer.text == "y")
        assert not tui.chat.commands
        monkeypatch.setattr(screen.output, "get_size", lambda: Size(rows=24, columns=80))
        screen.end_typing()
        tui.keys("y")
        assert await tui.next_command(Answer) == Answer("q", ("yes",))
