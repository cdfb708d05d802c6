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


async def test_large_paste_without_brackets_is_complete_and_drawn_few_times(tmp_path: Path) -> None:
    text = "".join(f"line {i}\tof a large text\n" for i in range(4_000))
    async with open_tui(tmp_path) as tui:
        before = tui.session.screen.app.render_counter
        for at in range(0, len(text), 1024):
            tui.keys(text[at : at + 1024].replace("\n", "\r"))
            await asyncio.sleep(0)  # the pipe buffer has 64kB
        await tui.wait_for(lambda: len(tui.session.screen.buffer.text) >= len(text))

        assert tui.session.screen.buffer.text == text
        assert tui.session.screen.app.render_counter - before < len(text) / 10  # not one frame per character
        assert not tui.chat.commands


async def test_line_that_arrives_with_its_enter_is_sent(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.keys("what is to be done here, and by whom?\r")
        sent = await tui.next_command(Prompt)

        assert isinstance(sent, Prompt)
        assert sent.text == "what is to be done here, and by whom?"


@pytest.mark.covers("BYD-04")
@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("yes, and then " * 5, "yes, and then " * 5),
        ("yes", "yes"),
        ("\ryes", "\nyes"),
        ("\x1b[200~first\x1b[201~y", "firsty"),
    ],
)
async def test_burst_does_not_answer_a_dialog(tmp_path: Path, keys: str, text: str) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(chat_events.QuestionRequest("q", "confirm", "Go?"))
        await tui.wait_for(tui.session.screen.dialog_takes_keys)
        tui.keys(keys)
        await tui.wait_for(lambda: tui.session.screen.buffer.text == text)
        assert not tui.chat.commands


@pytest.mark.covers("BYD-04")
async def test_enter_at_the_end_of_a_burst_does_not_answer_a_dialog(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(chat_events.QuestionRequest("q", "confirm", "Go?"))
        await tui.wait_for(tui.session.screen.dialog_takes_keys)
        tui.keys("a line of text that is long enough for a burst\r")
        await tui.wait_for(lambda: tui.chat.commands)
        assert [type(command) for command in tui.chat.commands] == [Prompt]


@pytest.mark.parametrize("size", [Size(rows=3, columns=80), Size(rows=24, columns=10)])
async def test_question_takes_no_keys_in_a_window_that_cannot_show_it(
    tmp_path: Path, size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_tui(tmp_path) as tui:
        screen = tui.session.screen
        tui.chat.publish(chat_events.QuestionRequest("q", "confirm", "Go?"))
        await tui.wait_for(screen.dialog_takes_keys)
        monkeypatch.setattr(screen.output, "get_size", lambda: size)
        tui.keys("y")
        await tui.wait_for(lambda: screen.buffer.text == "y")
        await tui.wait_for(lambda: "Enla" in tui.written)
        assert not tui.chat.commands
        screen.buffer.reset()
        monkeypatch.setattr(screen.output, "get_size", lambda: Size(rows=24, columns=80))
        screen.set_typing(False)
        tui.keys("y")  # before the first frame that shows the question
        await tui.wait_for(lambda: screen.buffer.text == "y")
        assert not tui.chat.commands
        await tui.wait_for(screen.dialog_takes_keys)
        tui.keys("y")
        assert await tui.next_command(Answer) == Answer("q", ("yes",))

        tui.chat.publish(chat_events.QuestionRequest("q", "input", "Where?"))
        await tui.wait_for(lambda: screen.dialog)
        monkeypatch.setattr(screen.output, "get_size", lambda: size)
        tui.keys("here\r")
        await tui.wait_for(lambda: screen.answer.text == "here")
        assert not tui.chat.commands
        monkeypatch.setattr(screen.output, "get_size", lambda: Size(rows=24, columns=80))
        tui.keys("\r")
        assert await tui.next_command(Answer) == Answer("q", (), "here")
