import asyncio
from pathlib import Path

import pytest
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from mainspring.app.chat import events as told
from mainspring.app.chat.commands import Prompt
from mainspring.app.tui.paste import BURST, join_bursts
from tests.unit.app.tui.harness import desk

ENTER = KeyPress(Keys.ControlM, "\r")


def typed(text: str) -> list[KeyPress]:
    return [ENTER if c == "\r" else KeyPress(c) for c in text]


def test_a_run_of_characters_is_one_key_and_its_last_enter_another() -> None:
    assert join_bursts(typed("a" * 40 + "\r" + "b" * 5 + "\r")) == [KeyPress(BURST, "a" * 40 + "\n" + "b" * 5), ENTER]


def test_a_key_that_does_something_stays_where_it_is() -> None:
    up = KeyPress(Keys.Up, "\x1b[A")

    assert join_bursts([*typed("a" * 40), up, *typed("b" * 3)]) == [KeyPress(BURST, "a" * 40), up, *typed("bbb")]


def test_what_a_person_types_stays_as_it_is() -> None:
    assert join_bursts(typed("hello\r")) == typed("hello\r")


async def test_a_large_paste_without_brackets_is_quick_and_whole(tmp_path: Path) -> None:
    text = "".join(f"line {i}\tof a large text\n" for i in range(4_000))
    async with desk(tmp_path) as one:
        before = one.session.screen.app.render_counter
        for at in range(0, len(text), 1024):
            one.keys(text[at : at + 1024].replace("\n", "\r"))
            await asyncio.sleep(0)  # the pipe holds 64 kB
        await one.until(lambda: len(one.session.screen.buffer.text) >= len(text))

        assert one.session.screen.buffer.text == text
        assert one.session.screen.app.render_counter - before < 200  # not one for each of 100,000 characters
        assert not one.chat.commands


async def test_a_line_that_comes_at_once_with_its_enter_is_sent(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.keys("what is to be done here, and by whom?\r")
        sent = await one.command(Prompt)

        assert isinstance(sent, Prompt)
        assert sent.text == "what is to be done here, and by whom?"


@pytest.mark.covers("BYD-04")
async def test_a_burst_answers_no_question(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        one.chat.tell(told.QuestionAsked("q", "confirm", "Go?"))
        await one.until(one.session.screen.dialog_takes_keys)
        one.keys("yes, and then " * 5)
        await one.until(lambda: one.session.screen.buffer.text == "yes, and then " * 5)
        assert not one.chat.commands
