"""The status line that the user configures, and the tokens of a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from mainspring import events as run_events
from mainspring.app.chat import events as chat_events
from mainspring.app.chat.types import Status
from mainspring.app.tui.status_line import status_row
from mainspring.app.tui.styled_text import to_text
from mainspring.app.tui.transcript_view import TokenCounter
from mainspring.app.workspace.settings.load import load_settings
from mainspring.app.workspace.settings.schema import StatusLinePart
from mainspring.messages import Message, TextBlock, Usage
from tests.unit.app.chat import event_builders as make
from tests.unit.app.tui.harness import TuiHarness, open_tui

STATUS = Status(
    model="openai:gpt", model_label="GPT", thinking="high", mode="plan", context_used=90, context_window=100,
    cost=0.5, branch="main", queued=2, children=1, title="my work", cwd="/srv/shop",
)  # fmt: skip


def test_status_line_shows_the_chosen_parts_in_order() -> None:
    parts = ("folder", "branch", "model")
    assert to_text([status_row(STATUS, 80, parts)]) == "/srv/shop  main  GPT  plan mode  2 queued\n"
    assert to_text([status_row(STATUS, 80, ("mode", *parts))]).startswith("plan mode  /srv/shop")
    each = [to_text([status_row(STATUS, 80, (name,))]) for name in get_args(StatusLinePart)]
    assert len(set(each)) == len(each), each  # each name has a part of its own


def test_command_replaces_all_parts_but_the_mode_and_the_queue() -> None:
    row = to_text([status_row(STATUS, 80, ("model",), "anything $0.5")])
    assert row == "plan mode  anything $0.5  2 queued\n"


def _shown(tui: TuiHarness) -> str:
    return to_text([tui.session.status_row(80)])


async def _show(tmp_path: Path, command: str, check: Callable[[str], object], timeout: float = 5.0) -> str:
    async with open_tui(tmp_path) as tui:
        tui.session.set_status_line((), command, timeout)
        tui.chat.publish(chat_events.StatusChange(STATUS))
        await tui.wait_for(lambda: check(_shown(tui)))
        return _shown(tui)


@pytest.mark.covers("OPT-03")
async def test_command_receives_the_status_and_its_first_line_is_shown(tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    command = f"cat > '{seen}'; printf '\\033[31mred\\033[0m line\\nsecond'"
    assert "red line" in await _show(tmp_path, command, lambda row: "red line" in row)
    assert "second" not in await _show(tmp_path, command, lambda row: "red line" in row)
    assert msgspec.convert(json.loads(seen.read_text()), Status) == STATUS


async def test_command_that_hangs_is_killed_and_one_that_fails_shows_the_parts(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    async with open_tui(tmp_path) as tui:
        runs = f"echo x >> '{alive}'"
        tui.session.set_status_line(("model",), f"{runs}; sleep 60 | cat", 0.05)
        tui.chat.publish(chat_events.StatusChange(STATUS))
        await tui.wait_for(alive.exists)
        tui.chat.publish(chat_events.StatusChange(msgspec.structs.replace(STATUS, queued=0)))
        await tui.wait_for(lambda: alive.read_text().count("x") == 2)  # the first one was killed
        assert "GPT" in _shown(tui)
    async with open_tui(tmp_path) as tui:
        tui.session.set_status_line(("model",), f"{runs}; echo output; exit 3", 5.0)
        tui.chat.publish(chat_events.StatusChange(STATUS))
        await tui.wait_for(lambda: alive.read_text().count("x") == 3)
        assert "GPT" in _shown(tui)
        assert "output" not in _shown(tui)


async def test_many_changes_run_the_command_only_for_the_last(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = f"cat >> '{log}'; echo >> '{log}'; tail -1 '{log}' | tr -dc 0-9 | tail -c 3"
    async with open_tui(tmp_path) as tui:
        tui.session.set_status_line((), command, 5.0)
        for count in range(200):
            tui.chat.publish(chat_events.StatusChange(msgspec.structs.replace(STATUS, tokens=count)))
        await tui.wait_for(lambda: log.exists() and '"tokens":199' in log.read_text())
    assert len(log.read_text().splitlines()) <= 4


def test_command_of_an_untrusted_project_is_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / ".agent").mkdir(parents=True)
    (folder / ".agent" / "settings.json").write_text('{"statusLine": {"command": "touch owned"}}')
    environ = {"MAINSPRING_HOME": str(tmp_path / "home")}
    assert load_settings(str(folder), environ=environ).config.status_line.command is None
    trusted = load_settings(str(folder), environ=environ, trusted=True)
    assert trusted.config.status_line.command == "touch owned"


def test_tokens_are_estimated_until_the_usage_is_known() -> None:
    counter = TokenCounter()
    counter.update(run_events.AgentStart("r"))
    assert counter.format() == ""
    counter.update(make.text("x" * 400))
    assert counter.format() == "  ~100 tokens"
    usage = Usage(input_tokens=880, output_tokens=120)
    counter.update(run_events.MessageEnd(Message("assistant", (TextBlock("x" * 400),), usage=usage)))
    assert counter.format() == "  120 tokens"
    counter.update(make.thinking("x" * 40))
    assert counter.format() == "  ~130 tokens"
    counter.update(run_events.MessageEnd(Message("assistant", (TextBlock("x"),))))
    assert counter.format() == "  ~130 tokens"  # a provider without usage: still an estimate
    counter.update(run_events.AgentStart("r2"))
    assert counter.format() == ""


async def test_tokens_are_shown_next_to_the_spinner(tmp_path: Path) -> None:
    async with open_tui(tmp_path) as tui:
        tui.chat.publish(run_events.AgentStart("r"), make.text("x" * 400))
        await tui.wait_for(lambda: "Working...  0.0s  ~100 tokens" in tui.drawn)
