"""Output on the terminal."""

import io
import os

import pytest

from mainspring.app.cli.console import Console, one_line, visible_row
from mainspring.text import escape_invisible, visible_json


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("\x1b]52;c;ZXZpbA==\x07", "\\x1b]52;c;ZXZpbA==\\x07"),
        ("\x1b[2J\x9b31m", "\\x1b[2J\\x9b31m"),
        ("a\rb\r\n", "a\\rb\n"),
        ("abc\u202edef\u200b", "abc\\u202edef\\u200b"),
        ("\x08\x7f\x00", "\\x08\\x7f\\x00"),
        ("日本 é 👩\u200d💻", "日本 é 👩\u200d💻"),
        ("[bold]no markup[/bold]", "[bold]no markup[/bold]"),
    ],
)
def test_control_characters_are_escaped(text: str, escaped: str) -> None:
    assert escape_invisible(text, prose=True) == escaped


def test_escape_sequence_in_chunks_is_harmless() -> None:
    out = Terminal()
    console = Console(out, io.StringIO(), {})

    for piece in ("\x1b", "]0;title", "\x07"):
        console.answer(piece)

    assert "\x1b" not in out.getvalue()


def test_pipe_gets_the_answer_unchanged() -> None:
    out = io.StringIO()

    Console(out, io.StringIO(), {}).answer("a\x1b[31mb")

    assert out.getvalue() == "a\x1b[31mb"


def test_info_lines_are_dim_only_on_a_capable_terminal() -> None:
    def print_info(environ: dict[str, str], err: io.StringIO) -> str:
        Console(io.StringIO(), err, environ).info("x")
        return err.getvalue()

    assert print_info({}, Terminal()) == "\x1b[2mx\x1b[0m\n"
    assert print_info({"NO_COLOR": "1"}, Terminal()) == "x\n"
    assert print_info({"TERM": "dumb"}, Terminal()) == "x\n"
    assert print_info({}, io.StringIO()) == "x\n"


def test_info_line_after_partial_output_starts_a_new_line() -> None:
    out, err = Terminal(), Terminal()
    console = Console(out, err, {"NO_COLOR": "1"})

    console.answer("half")
    console.info("tool")
    console.answer("rest")
    console.end_answer()

    assert out.getvalue() == "half\nrest\n"


def test_other_output_ends_a_progress_line() -> None:
    err = Terminal()
    console = Console(io.StringIO(), err, {"NO_COLOR": "1"})

    console.progress("1 %")
    console.progress("2 %")
    console.info("x")

    assert err.getvalue() == "\r1 %\r2 %\nx\n"


def test_progress_without_a_terminal_prints_every_tenth() -> None:
    err = io.StringIO()
    console = Console(io.StringIO(), err, {})

    for percent in range(0, 31, 3):
        console.progress(f"{percent} %", percent / 100)
    console.progress("done", last=True)

    assert err.getvalue() == "0 %\n12 %\n21 %\n30 %\ndone\n"


def test_closed_stderr_is_ignored() -> None:
    err = io.StringIO()
    err.close()
    console = Console(io.StringIO(), io.StringIO(), {})
    console._err = err

    console.fail("x")


def test_names_in_json_of_a_file_have_no_invisible_characters() -> None:
    out = io.StringIO()

    Console(out, io.StringIO(), {}).write_json(["\x9b31m\u202e é 名"])

    assert out.getvalue() == '["\\u009b31m\\u202e é 名"]\n'


def test_visible_json_keeps_the_value() -> None:
    assert visible_json('"\x9b31m\u202e é"') == '"\\u009b31m\\u202e é"'


def test_one_line_joins_and_truncates() -> None:
    assert one_line("a\n  b\x1b") == "a b\\x1b"
    assert one_line("x" * 300) == "x" * 197 + "..."


def test_broken_pipe_is_silent_on_close() -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8") as out:
        console = Console(out, io.StringIO(), {})
        with pytest.raises(BrokenPipeError):
            console.answer("x")
        console.close()


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "a\tb", "a\r\nb", "a\u2028b", "a\u202eb", "a\u3164b"])
def test_row_is_one_line_in_a_pipe(name: str) -> None:
    out = io.StringIO()
    Console(out, io.StringIO(), {}).row(f"* {name} model")

    row = out.getvalue()
    assert row.endswith(" model\n")
    assert row.count("\n") == 1
    assert row.removesuffix("\n").isprintable()
    assert "\u3164" not in row
    assert row == visible_row(f"* {name} model") + "\n"


def test_combining_marks_are_counted_across_chunks() -> None:
    out = Terminal()
    console = Console(out, io.StringIO(), {})
    for _ in range(20):
        console.answer("\u0301")
    console.answer("❤")
    console.answer("\ufe0f")

    assert out.getvalue().count("\u0301") == 4
    assert out.getvalue().endswith("❤\ufe0f")


def test_list_is_json_or_rows_or_a_note() -> None:
    def write(rows: list[str], *, as_json: bool) -> tuple[str, str]:
        out, err = io.StringIO(), io.StringIO()
        Console(out, err, {}).write_list(rows, rows, "Nothing yet.", as_json=as_json)
        return out.getvalue(), err.getvalue()

    assert write(["a", "b"], as_json=False) == ("a\nb\n", "")
    assert write(["a"], as_json=True) == ('["a"]\n', "")
    assert write([], as_json=True) == ("[]\n", "")
    assert write([], as_json=False) == ("", "Nothing yet.\n")
