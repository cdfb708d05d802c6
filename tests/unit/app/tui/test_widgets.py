"""Small parts: numbers, status, keys, menus, notifications, clipboard, editor, and command results."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from mainspring.app.chat.command_results import Changes, Choice, CommandResult, Fields, Picker, Table, Text
from mainspring.app.chat.types import Status
from mainspring.app.tui.dialogs import Menu, MenuItem
from mainspring.app.tui.event_rows import result_rows
from mainspring.app.tui.external_programs import NoClipboardImageError, edit_in_editor, osc52_copy, read_clipboard_image
from mainspring.app.tui.format import format_dollars, format_seconds, format_tokens
from mainspring.app.tui.key_bindings import KEYS, key_table, parse_key, resolve_keys
from mainspring.app.tui.notifications import NotificationOptions, Notifier, NotifyReason
from mainspring.app.tui.status_line import status_row
from mainspring.app.tui.styled_text import to_text
from mainspring.app.workspace.settings import StatusLineSettings
from mainspring.events import FileDiff

PARTS = StatusLineSettings().parts


def test_numbers_are_formatted() -> None:
    assert [format_seconds(v) for v in (0.04, 9.94, 12.7, 185, 7800)] == [
        "0.0s",
        "9.9s",
        "12s",
        "3m 5s",
        "2h 10m",
    ]
    assert [format_tokens(v) for v in (0, 999, 1000, 12_345, 123_456, 1_234_567)] == [
        "0",
        "999",
        "1.0k",
        "12.3k",
        "123k",
        "1.2M",
    ]
    assert [format_dollars(v) for v in (None, 0.0, 0.0042, 1.255)] == ["price unknown", "$0.00", "$0.0042", "$1.25"]


STATUS = Status(
    model="openai:gpt", model_label="GPT", thinking="high", mode="plan", context_used=90_000, context_window=100_000,
    cost=0.5, max_cost=2.0, branch="main", queued=2, children=1, title="my work", cwd="/srv/work/shop/checkout/service",
)  # fmt: skip


@pytest.mark.covers("CLI-01", "OPT-03")
def test_status_line_drops_the_least_important_parts() -> None:
    assert to_text([status_row(STATUS, 200, PARTS)]) == (
        "GPT  thinking high  plan mode  sandbox off  90% of 100k context  .../checkout/service  $0.50 of $2.00  main  1 subagent"
        "  2 queued  my work\n"
    )
    assert to_text([status_row(STATUS, 40, PARTS)]) == "GPT  plan mode  sandbox off  2 queued\n"
    long = msgspec.structs.replace(STATUS, model_label="A model with quite a long name", queued=0, mode="accept_edits")
    assert to_text([status_row(long, 40, PARTS)]) == "A model with quit...  accept edits\n"
    boxed = msgspec.structs.replace(STATUS, sandbox="bubblewrap 0.8.0", cwd="/odd\x1b[2Jname")
    assert "plan mode  sandbox bubblewrap 0.8.0  90%" in to_text([status_row(boxed, 200, PARTS)])
    assert "\x1b" not in to_text([status_row(boxed, 200, PARTS)])
    assert to_text([status_row(STATUS, 5, PARTS)]) == "GPT\n"
    assert ("class:warn", "90% of 100k context") in status_row(STATUS, 200, PARTS)
    assert ("class:status", "79% of 100k context") in status_row(
        msgspec.structs.replace(STATUS, context_used=79_000), 200, PARTS
    )
    partly = msgspec.structs.replace(STATUS, cost=0.25, max_cost=None, has_unknown_prices=True)
    assert "$0.25 + unknown" in to_text([status_row(partly, 200, PARTS)])
    unpriced = msgspec.structs.replace(STATUS, cost=None, tokens=1500, thinking=None)
    assert ".../checkout/service  1.5k tokens  main" in to_text([status_row(unpriced, 200, PARTS)])
    assert to_text([status_row(None, 80, PARTS)]) == "Starting...\n"


@pytest.mark.covers("OPT-03")
def test_keys_can_be_changed() -> None:
    keys, wrong = resolve_keys({"unfold": "Ctrl-T", "stop": "nonsense", "fly": "F1", "editor": "ctrl-x ctrl-e"})
    assert keys["unfold"] == (("c-t",),)
    assert keys["editor"] == (("c-x", "c-e"),)
    assert keys["stop"] == (("escape",),)
    assert [line.split(":")[0] for line in wrong] == ["ui.keys.stop", "ui.keys.fly"]
    written = {"Alt-Up": ("escape", "up"), "Shift-Tab": ("s-tab",), "F12": ("f12",), "ctrl+j": ("c-j",), "x": None}
    written |= {"Alt-x": ("escape", "x"), "Alt-Shift-X": None, "Alt-[": None}
    assert {text: parse_key(text) for text in written} == written
    assert len({key.action for key in KEYS}) == len(KEYS)
    assert ("Ctrl-Z", "Suspend; resume with fg") in key_table({"unfold": "F2"})
    assert "F2" in dict(key_table({"unfold": "F2"}))
    assert "Ctrl-O" not in dict(key_table({"unfold": "F2"}))


def test_menu_scrolls_and_selects() -> None:
    menu = Menu([MenuItem(str(i), f"item {i}") for i in range(30)])
    assert menu.on_key("up") is None
    assert menu.index == 29
    rows = menu.rows(80, 5)
    assert len(rows) == 5
    assert "30 of 30" in to_text(rows)
    assert menu.on_key("enter") == ("29",)
    assert menu.on_key("3") == ("2",)
    several = Menu([MenuItem("a", "a"), MenuItem("b", "b")], multiple=True)
    assert several.on_key("space") is None
    assert "[x] 1  a" in to_text(several.rows(80, 5))
    several.on_key("down")
    several.on_key("space")
    assert several.on_key("enter") == ("a", "b")


def test_details_of_a_menu_are_in_one_column() -> None:
    labels = ("openai:gpt-5-mini", "anthropic:claude-sonnet-4-5-20250929", "local:llama3")
    menu = Menu([MenuItem(label, label, detail="DETAIL") for label in labels], numbered=False)
    for columns in (40, 60, 80, 200):
        shown = to_text(menu.rows(columns, 5)).splitlines()
        assert len({line.index("DETAIL") for line in shown if "DETAIL" in line}) == 1
        assert "anthropic:claude-sonnet-4-5-2" in shown[1]
        assert all(len(line) < columns for line in shown)


class NotificationRecorder:
    def __init__(self, options: NotificationOptions) -> None:
        self.written = ""
        self.commands: list[tuple[str, str, str]] = []
        self.notifier = Notifier(options, self.write, {"PATH": os.environ["PATH"]}, self.run)

    def write(self, text: str) -> None:
        self.written += text

    async def run(self, command: str, environ: Mapping[str, str]) -> None:
        self.commands.append((command, environ["MAINSPRING_EVENT"], environ["MAINSPRING_MESSAGE"]))


@pytest.mark.covers("BYD-24")
@pytest.mark.parametrize(
    ("when", "focused", "idle", "took", "expected"),
    [
        ("unfocused", False, 0, None, True),
        ("unfocused", True, 99, None, False),
        ("unfocused", None, 99, None, True),
        ("unfocused", None, 1, None, False),
        ("unfocused", False, 0, 1.0, False),
        ("unfocused", False, 0, 60.0, True),
        ("always", True, 0, None, True),
        ("never", False, 99, None, False),
    ],
)
async def test_notification_rules(when, focused, idle, took, expected) -> None:
    recorder = NotificationRecorder(
        NotificationOptions(when=when, channels=("bell", "osc9", "osc777"), command="notify")
    )
    recorder.notifier.focused = focused
    assert await recorder.notifier.notify("asking", "may\x1b[31m it;\nrun?", idle=idle, run_seconds=took) is expected
    sequences = "\a\x1b]9;may it; run?\a\x1b]777;notify;Mainspring;may it, run?\a"
    assert recorder.written == (sequences if expected else "")
    assert recorder.commands == ([("notify", "asking", "may it; run?")] if expected else [])


@pytest.mark.covers("BYD-24")
async def test_notification_command_runs(tmp_path: Path) -> None:
    what: NotifyReason = "done"
    command = f'printf "%s %s" "$MAINSPRING_EVENT" "$MAINSPRING_MESSAGE" > {tmp_path}/told'
    notifier = Notifier(
        NotificationOptions(when="always", channels=(), command=command), lambda _: None, {"PATH": os.environ["PATH"]}
    )
    assert await notifier.notify(what, "all $(rm x) good")
    assert (tmp_path / "told").read_text() == "done all $(rm x) good"


def test_clipboard_copy() -> None:
    assert osc52_copy("hi", {}) == "\x1b]52;c;aGk=\a"
    assert osc52_copy("hi", {"STY": "1"}) == "\x1bP\x1b]52;c;aGk=\a\x1b\\"
    assert osc52_copy("x" * 100_000, {}) is None


@pytest.mark.parametrize(
    ("program", "variables", "script"),
    [
        ("wl-paste", {"WAYLAND_DISPLAY": "w"}, 'printf "\\211PNG data"'),
        ("xclip", {"DISPLAY": ":0"}, 'printf "\\211PNG data"'),
        ("pngpaste", {}, 'printf "\\211PNG data"'),
        ("osascript", {}, 'printf "«data PNGf89504E472064617461»\\n"'),
    ],
)
async def test_image_is_read_with_the_program_of_the_desktop(
    tmp_path: Path, program: str, variables: dict[str, str], script: str
) -> None:
    tool = tmp_path / program
    tool.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
    tool.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", **variables}
    assert await read_clipboard_image(environ) == b"\x89PNG data"
    tool.write_text("#!/bin/bash\necho no image >&2; exit 1\n")
    with pytest.raises(NoClipboardImageError, match="No image in the clipboard"):
        await read_clipboard_image(environ)


async def test_missing_clipboard_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoClipboardImageError, match="Install wl-clipboard"):
        await read_clipboard_image({"PATH": str(tmp_path / "none")})


def test_failed_editor_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "ed"
    script.write_text('#!/bin/sh\n[ "$1" = --wait ] || exit 3\ncase "$2" in *.json) printf "new\\n" > "$2";; esac\n')
    script.chmod(0o755)
    environ = {"VISUAL": f"{script} --wait", "PATH": os.environ["PATH"]}
    assert edit_in_editor("old", environ, ".json") == "new"
    with pytest.raises(OSError, match="exited with code 3"):
        edit_in_editor("old", {**environ, "VISUAL": str(script)})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Text("a [b]\x1b[1m", "T"), "T\na [b]\n"),
        (Text("**b**", markdown=True), "<**b**>\n"),
        (Fields((("model", "x"), ("a", "y"))), "model  x\na      y\n"),
        (Table(("id", "name"), (("1", "one\ntwo"),)), "id  name\n1   one two\n"),
        (Table(("id",), (), empty="nothing yet"), "nothing yet\n"),
        (Picker("Pick", (Choice("one", "/a"), Choice("two", "/b", current=True, depth=1))), "Pick\n  one  /a\n* two  /b\n"),
        (Picker("Pick", (Choice("one", "/a", "2h ago, 3 prompts"),)), "Pick\n  one  /a  2h ago, 3 prompts\n"),
        (Changes("undone", (FileDiff(path="a", added=1),)), "undone\n  a +1 -0\n"),
    ],
)  # fmt: skip
def test_command_results_become_rows(given: CommandResult, text: str) -> None:
    assert to_text(result_rows(given, 60, lambda markdown: [[("", f"<{markdown}>")]])) == text


def test_tables_fit_narrow_windows() -> None:
    table = Table(("name", "arguments", "does"), (("/model", "[NAME] " * 6, "which model answers " * 4),))
    assert to_text(result_rows(table, 60, lambda _: [])).count("\n") == 4  # wrapped between words, not truncated
    assert "answers which model answers\n" in to_text(result_rows(table, 60, lambda _: []))
    assert to_text(result_rows(table, 24, lambda _: [])).startswith("/model\n  arguments: [NAME]\n    [NAME]")
    assert "does" not in to_text(result_rows(Table(("name", "does"), (("/model", ""),) * 2), 9, lambda _: []))[9:]
