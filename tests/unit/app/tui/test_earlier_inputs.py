"""Ctrl-R and Esc Esc: earlier inputs and earlier prompts."""

from pathlib import Path

import msgspec

from mainspring import events as run_events
from mainspring.app.chat import events as chat_events
from mainspring.app.chat.command_results import Choice, Picker
from mainspring.app.chat.commands import Abort, Prompt, Slash
from mainspring.app.tui.input_field import HistoryFile
from mainspring.app.tui.styled_text import to_text
from tests.unit.app.tui.harness import TuiHarness, open_tui

KEY = "sk-ant-api03-" + "a1B2" * 20


def _store(folder: Path, *texts: str) -> None:
    file = HistoryFile(folder / "history.jsonl")
    for text in texts:
        file.add(text)


async def _search(tui: TuiHarness, typed: str) -> str:
    tui.keys("\x12")
    await tui.wait_for(lambda: "Earlier inputs" in tui.drawn)
    for key in typed:
        tui.keys(key)
    await tui.wait_for(lambda: f"Filter: {typed}" in tui.drawn)
    return tui.drawn


async def test_search_finds_inputs_of_earlier_sessions_and_inserts_one(tmp_path: Path) -> None:
    _store(tmp_path, "fix the tests", "a first line\nwith a Second one", "run the tests", "fix the tests")
    async with open_tui(tmp_path) as tui:
        await tui.type_text("draft")
        assert "second" not in await _search(tui, "tests")
        assert tui.drawn.index("fix the tests") < tui.drawn.index("run the tests")  # the latest first, once
        assert tui.drawn.count("fix the tests") == 1
        tui.keys("\x12\r")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "run the tests")
        tui.session.screen.buffer.undo()
        assert tui.session.screen.buffer.text == "draft"
        await _search(tui, "second")
        tui.keys("\r")
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "a first line\nwith a Second one")
        assert not tui.chat.commands


async def test_search_is_left_without_a_change(tmp_path: Path) -> None:
    _store(tmp_path, "one")
    async with open_tui(tmp_path) as tui:
        await tui.type_text("draft")
        assert "No matches" in await _search(tui, "zzz")
        tui.keys("\x1b")
        await tui.wait_for(lambda: "Filter" not in tui.drawn)
        tui.keys("\x1b")
        await tui.wait_for(lambda: "Earlier inputs" not in tui.drawn)
        assert tui.session.screen.buffer.text == "draft"


async def test_search_without_a_history_says_so(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.keys("\x12")
        await tui.wait_for(lambda: "No earlier inputs in this project yet." in tui.written)


async def test_search_shows_no_secret(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        await tui.type_text("use it")
        tui.session.screen.buffer.insert_text(f" {KEY}")
        tui.keys("\r")
        await tui.next_command(Prompt)
        await tui.wait_for(lambda: HistoryFile(tmp_path / "history.jsonl").read())
        assert KEY not in await _search(tui, "use it")
        assert KEY not in (tmp_path / "history.jsonl").read_text()


def _hint(tui: TuiHarness) -> str:
    return to_text([tui.session.screen._last_row()])


async def test_escape_twice_lists_the_earlier_prompts(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.keys("\x1b")
        await tui.wait_for(lambda: "Press Esc again to edit an earlier prompt" in _hint(tui))
        tui.keys("\x1b")
        assert await tui.next_command(Slash) == Slash("/rewind list conversation")
        tui.chat.publish(
            chat_events.CommandEnd("1", "rewind", Picker("Edit", (Choice("fix it", "/rewind 1 conversation"),)))
        )
        await tui.wait_for(lambda: "fix it" in tui.drawn)
        tui.keys("\r")
        assert await tui.next_command(Slash) == Slash("/rewind 1 conversation")
        tui.chat.publish(chat_events.SessionChange("rewound", draft="fix it"))
        await tui.wait_for(lambda: tui.session.screen.buffer.text == "fix it")


async def test_escape_twice_does_nothing_else_with_text_or_after_a_stop(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        await tui.type_text("draft")
        for _ in range(3):
            tui.keys("\x1b")
            await tui.wait_for(lambda: not tui.session.screen.app.key_processor.input_queue)
        tui.keys("\x03")
        await tui.wait_for(lambda: not tui.session.screen.buffer.text)
        tui.chat.status = msgspec.structs.replace(tui.chat.status, running=True)
        tui.chat.publish(run_events.AgentStart("r"), chat_events.StatusChange(tui.chat.status))
        await tui.wait_for(tui.session.is_busy)
        tui.keys("\x1b")
        await tui.next_command(Abort)
        tui.chat.status = msgspec.structs.replace(tui.chat.status, running=False)
        tui.chat.publish(run_events.AgentEnd("r", (), "aborted"), chat_events.StatusChange(tui.chat.status))
        await tui.wait_for(lambda: not tui.session.is_busy())
        keys = tui.session.screen.last_key
        tui.keys("\x1b")
        await tui.wait_for(lambda: tui.session.screen.last_key > keys)
        keys = tui.session.screen.last_key
        tui.keys("\x1b")
        await tui.wait_for(lambda: tui.session.screen.last_key > keys)
        assert "Esc again" not in _hint(tui)
        assert not tui.chat.commands


async def test_up_lists_all_inputs_if_none_starts_with_the_draft(tmp_path: Path) -> None:
    _store(tmp_path, "alpha", "beta")
    async with open_tui(tmp_path) as tui:
        buffer = tui.session.screen.buffer
        await tui.wait_for(lambda: buffer.working_index == 2)  # the history is loaded
        for draft, found in (("al", "alpha"), ("other", "beta")):
            await tui.type_text(draft)
            tui.keys("\x1b[A")
            await tui.wait_for(lambda found=found: buffer.text == found)
            tui.keys("\x1b[B")
            await tui.wait_for(lambda draft=draft: buffer.text == draft)
            tui.keys("\x15")
            await tui.wait_for(lambda: not buffer.text)


async def test_message_above_the_limit_stays_in_the_input(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        screen = tui.session.screen
        screen.buffer.insert_text(screen.pastes.text("x" * 10_000_001))
        tui.keys("\r")
        await tui.wait_for(lambda: "The message was not sent: it is 10.0 MB long" in tui.written)
        assert len(screen.buffer.text) == 1
        assert not tui.chat.commands
