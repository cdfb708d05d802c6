"""Reports of a terminal never become text, keys, or commands."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress

from mainspring.app.chat.commands import Prompt, Steer
from mainspring.app.tui.terminal_reports import FOCUS_IN, FOCUS_OUT, ReportFilter
from tests.unit.app.tui.harness import open_tui
from tests.unit.app.tui.test_app import start_run

REPORTS = {
    "focus": "\x1b[I\x1b[O",
    "OSC 4": "\x1b]4;1;rgb:cccc/0000/0000\x1b\\",
    "OSC 10 with BEL": "\x1b]10;rgb:e4e4/e4e4/e4e4\a",
    "OSC 11": "\x1b]11;rgb:1414/1414/1414\x1b\\",
    "OSC 52": "\x1b]52;c;Z28gb24=\a",
    "title": "\x1b]lmy window\x1b\\",
    "kitty press": "\x1b[103;5u",
    "kitty release": "\x1b[105;1:3u",
    "kitty text": "\x1b[97;;97u",
    "kitty escape": "\x1b[27u",
    "kitty arrow release": "\x1b[1;1:3A",
    "kitty flags": "\x1b[?1u",
    "DA1": "\x1b[?62;22c",
    "DA2": "\x1b[>41;354;0c",
    "DA3": "\x1bP!|00000000\x1b\\",
    "status": "\x1b[0n",
    "cursor": "\x1b[12;40R",
    "cursor with page": "\x1b[?12;40;1R",
    "DECRPM": "\x1b[?2026;2$y",
    "DECRQSS": "\x1bP1$r0m\x1b\\",
    "XTVERSION": "\x1bP>|ghostty 1.2.0\x1b\\",
    "XTGETTCAP": "\x1bP1+r544e=787465726d\x1b\\",
    "mouse": "\x1b[<35;40;12M",
    "mouse release": "\x1b[<0;3;4m",
    "mouse of X10": "\x1b[M@!!",
    "mouse of urxvt": "\x1b[32;3;4M",
    "window size": "\x1b[8;24;80t",
    "color scheme": "\x1b[?997;1n",
    "modifyOtherKeys": "\x1b[27;5;105~",
    "kitty graphics": "\x1b_Gi=1;OK\x1b\\",
    "PM": "\x1b^private\x1b\\",
    "SOS": "\x1bXstring\x1b\\",
    "unknown": "\x1b[99;99;99z",
}


class Keyboard:
    """A filter whose keys are collected, with a clock that a test moves."""

    def __init__(self) -> None:
        self.presses: list[KeyPress] = []
        self.now = 0.0
        self.filter = ReportFilter(Vt100Parser(self.presses.append), lambda: self.now)

    def keys(self, *pieces: str) -> list[str]:
        """Feed pieces and return the keys without focus events."""
        for piece in pieces:
            self.filter.feed(piece)
        self.filter.flush()
        return [str(press.key) for press in self.presses if press.key not in (FOCUS_IN, FOCUS_OUT)]


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_report_is_removed_however_it_arrives(report: str) -> None:
    assert Keyboard().keys(f"a{report}b") == ["a", "b"]
    assert Keyboard().keys("a", *report, "b") == ["a", "b"]
    for at in range(1, len(report)):
        assert Keyboard().keys(f"a{report[:at]}", f"{report[at:]}b") == ["a", "b"]
    assert Keyboard().keys(report * 3) == []


LONG_STRINGS = ("PM", "SOS")
"""Reports that no terminal sends, and whose start is typed with Alt."""


@pytest.mark.parametrize("seconds", [0.5, 10])
@pytest.mark.parametrize("name", [name for name in REPORTS if name not in LONG_STRINGS])
def test_report_is_removed_after_a_pause_within_it(name: str, seconds: float) -> None:
    for report in re.findall(r"\x1b\[[IO]|.+", REPORTS[name], re.DOTALL):
        for at in range(2, len(report)):
            keyboard = Keyboard()
            keyboard.keys(f"a{report[:at]}")
            keyboard.now += seconds
            keyboard.keys(report[at:])
            assert keyboard.keys("b") == ["a", "b"], (report[:at], report[at:])


@pytest.mark.parametrize("name", [name for name in REPORTS if name not in LONG_STRINGS])
def test_report_after_a_lone_escape_does_not_become_text(name: str) -> None:
    for report in re.findall(r"\x1b\[[IO]|.+", REPORTS[name], re.DOTALL):
        keyboard = Keyboard()
        assert keyboard.keys("\x1b") == ["Keys.Escape"]
        keyboard.now += 4
        assert keyboard.keys(report[1:]) == ["Keys.Escape"]
        assert keyboard.keys("b") == ["Keys.Escape", "b"]


def test_text_long_after_an_escape_is_text() -> None:
    keyboard = Keyboard()
    keyboard.keys("\x1b")
    keyboard.now += 6
    assert keyboard.keys("[1;2R") == ["Keys.Escape", *"[1;2R"]


@pytest.mark.parametrize("start", ["\x1b[", "\x1b]", "\x1bP", "\x1b_"])
@pytest.mark.parametrize("typed", ["hello", "\r", "\x03"])
def test_keys_after_a_start_of_a_report_are_passed_on(start: str, typed: str) -> None:
    keyboard = Keyboard()
    assert keyboard.keys(start) == []
    pressed = keyboard.keys(*typed)
    assert pressed == ["Keys.Escape", start[1], *Keyboard().keys(typed)]


@pytest.mark.parametrize("coordinates", ["\udcc8", "\xe9"])
def test_mouse_report_of_x10_has_three_bytes(coordinates: str) -> None:
    report = f"\x1b[M@{coordinates}"
    report += "!" * (6 - len(report.encode("utf-8", "surrogateescape")))
    assert Keyboard().keys(f"a{report}b") == ["a", "b"]
    assert Keyboard().keys("a\x1b[M", "\x03") == ["a", "Keys.ControlC"]


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("\x1b[A\x1bOB", ["Keys.Up", "Keys.Down"]),
        ("\x1b[1;5C\x1b[3~\x1b[Z", ["Keys.ControlRight", "Keys.Delete", "Keys.BackTab"]),
        ("\x1b[15~\x1bOP\x1b[[A", ["Keys.F5", "Keys.F1", "Keys.F1"]),
        ("\x1b\r", ["Keys.Escape", "Keys.ControlM"]),
        ("\x1b[13;2u", ["Keys.Escape", "Keys.ControlM"]),
        ("\x1b[1;1:1A", []),
        ("\x1b\x1b[A", ["Keys.Escape", "Keys.Up"]),
        ("\x1b", ["Keys.Escape"]),
        ("\x1b_word", ["Keys.Escape", *"_word"]),
        ("\x1bf\x1b\x7f", ["Keys.Escape", "f", "Keys.Escape", "Keys.ControlH"]),
        ("\x03\x1b]11;rgb:\x03x", ["Keys.ControlC", "Keys.ControlC", "x"]),
        ("\x1b\x1b]11;rgb:0/0/0\x1b\\", ["Keys.Escape"]),
    ],
)
def test_keys_are_passed_on(typed: str, keys: list[str]) -> None:
    assert Keyboard().keys(typed) == keys
    assert Keyboard().keys(*typed) == keys


def test_report_without_an_end_does_not_swallow_later_keys() -> None:
    keyboard = Keyboard()
    assert keyboard.keys("\x1b]11;rgb:") == []
    keyboard.now += 3
    assert keyboard.keys("hello") == [*"hello"]


@given(st.text(st.sampled_from("ab\r\n\x1b[]20M~;m"), max_size=60), st.lists(st.integers(1, 9), max_size=30))
def test_paste_is_complete_however_it_arrives(text: str, sizes: list[int]) -> None:
    text = text.replace("\x1b[201~", "")
    data = f"\x1b[200~{text}\x1b[201~z"
    pieces: list[str] = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    keyboard = Keyboard()
    keyboard.keys(*pieces, data)
    assert [press.data for press in keyboard.presses] == [text, "z"]


def test_paste_without_an_end_does_not_swallow_later_keys() -> None:
    keyboard = Keyboard()
    keyboard.keys("\x1b[200~pasted\nte", "xt")
    keyboard.now += 3
    keyboard.keys("\r")
    keyboard.keys("\x03")
    assert [press.data for press in keyboard.presses] == ["pasted\ntext", "\r", "\x03"]
    keyboard.keys("\x1b[201~z")
    assert keyboard.presses[-1].data == "z", "the end that came late is not text"


@pytest.mark.parametrize("rest", ["1~", "t\x1b[201~", "a long rest of the paste\x1b[201~"])
def test_paste_may_pause(rest: str) -> None:
    keyboard = Keyboard()
    keyboard.keys("\x1b[200~pasted\x1b[20" if rest == "1~" else "\x1b[200~pasted")
    keyboard.now += 3
    keyboard.keys(rest)
    text = "pasted" + rest.removesuffix("\x1b[201~").removesuffix("1~")
    assert [press.data for press in keyboard.presses] == [text]


@pytest.mark.parametrize("busy", [False, True])
async def test_reports_do_nothing_in_the_chat(tmp_path: Path, busy: bool) -> None:
    opened = tmp_path / "opened"
    editor = tmp_path / "editor.sh"
    editor.write_text(f"#!/bin/sh\ntouch {opened}\n")
    editor.chmod(0o755)
    async with open_tui(tmp_path, EDITOR=str(editor), VISUAL=str(editor)) as tui:
        if busy:
            start_run(tui)
            await tui.wait_for(lambda: "Working" in tui.drawn)
        for report in REPORTS.values():
            await tui.type_text("a")
            tui.keys(report)
        await tui.type_text("b")
        tui.keys("\r")
        sent = await tui.next_command(Steer if busy else Prompt)
        assert isinstance(sent, Prompt | Steer)
        assert sent.text == "a" * len(REPORTS) + "b"
        assert tui.chat.commands == []
        assert not opened.exists()


def test_paste_is_not_read_again_with_each_piece() -> None:
    """The parser of keys searches all of a paste for its end with each piece: 4 MB took ten seconds."""

    class Counter(Vt100Parser):
        fed = 0

        def feed(self, data: str) -> None:
            self.fed += len(data)
            super().feed(data)

    presses: list[KeyPress] = []
    counter = Counter(presses.append)
    reports = ReportFilter(counter)
    for piece in ("\x1b[200~", *["x" * 100] * 100, "\x1b[201~", "z"):
        reports.feed(piece)
    reports.flush()
    assert [press.data for press in presses] == ["x" * 10_000, "z"]
    assert counter.fed == 1
