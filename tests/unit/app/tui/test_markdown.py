import time

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.app.tui.markdown import MarkdownRenderer
from mainspring.app.tui.safe_text import width
from mainspring.app.tui.streaming_markdown import MarkdownBlock, ResponseRenderer
from mainspring.app.tui.styled_text import to_text
from mainspring.app.tui.theme import Theme


def render(text: str, columns: int = 80, look: Theme | None = None) -> str:
    return to_text(ResponseRenderer(look or Theme(), MarkdownRenderer).render(text, columns))


def test_lists_and_code_are_rendered() -> None:
    text = render("# Head\n\n1. one\n2. two\n\n```py\nx = 1\n```\n\n> quote\n")
    assert text == "Head\n\n 1. one\n 2. two\n\n  x = 1\n\n| quote\n\n"


def test_table_is_rendered() -> None:
    head, rule, row = [line.split() for line in render("| a | b |\n|---|---|\n| 1 | x |\n").split("\n") if line.strip()]
    assert (head, row) == (["a", "b"], ["1", "x"])
    assert set("".join(rule)) == {"-"}  # the padding differs between versions of Rich


def test_html_and_markup_are_plain_text() -> None:
    assert (
        render("a <b>bold</b> </kbd> Vec<String> [red]x[/nope] :smile:")
        == "a <b>bold</b> </kbd> Vec<String> [red]x[/nope] :smile:\n\n"
    )
    assert "<div>" in render("<div>\nx\n</div>")


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b]52;c;aGk=\x07",
        "\x1b[2J",
        "\x9b31m",
        "\x1b]8;;http://x\x1b\\y",
        "\x07",
        "\x1bc",
        "\x1b[",
        "\u202e",
        "\x1bP1;2q",
    ],
)
def test_terminal_sequences_are_removed(hostile: str) -> None:
    text = render(f"a {hostile} b `{hostile}`\n\n```py\n{hostile}\n```\n\n[x](http://h/{hostile})")
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert "\u202e" not in text


@settings(max_examples=60)
@given(
    st.text(alphabet="ab `*_#>-|[]()<>&!\n\t\x1b\x07\r\u65e5\U0001f600\u200d\ufe0f0123.", max_size=80),
    st.integers(4, 60),
)
def test_any_text_can_be_rendered(text: str, columns: int) -> None:
    rows = ResponseRenderer(Theme(), MarkdownRenderer).render(text, columns)
    assert all("\x1b" not in part and "\n" not in part for row in rows for _, part in row)


def test_prose_fits_the_window_with_wide_characters() -> None:
    text = render(
        "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0" * 20 + "\n\n| \u65e5 | b |\n|---|---|\n| x | \U0001f600 |\n", 30
    )
    assert all(width(line) <= 30 for line in text.split("\n"))


def test_no_colors_without_color_support() -> None:
    painter = MarkdownRenderer(Theme(colors="none"), 80)
    rows = painter.rows(MarkdownBlock("# a `b` [c](d)")) + painter.rows(MarkdownBlock("x = 1", "py"))
    assert not any("ansi" in style or "#" in style for row in rows for style, _ in row)


def test_rows_have_no_trailing_blanks() -> None:
    assert all(line == line.rstrip() for line in render("a\n\n- b\n\n```py\nx\n```\n").split("\n"))


@pytest.mark.covers("CLI-01")
def test_cost_per_chunk_does_not_grow_with_the_response() -> None:
    answer = ResponseRenderer(Theme(), MarkdownRenderer)
    paragraph = "Some **words** about `things` that go on for a while, and then some more of them.\n\n- one\n- two\n\n"
    costs: list[float] = []
    for _ in range(3):
        begun = time.process_time()
        for at in range(0, len(paragraph) * 20, 8):
            answer.feed((paragraph * 20)[at : at + 8], 80, 20)
            answer.tail(80, 20)
        costs.append(time.process_time() - begun)
    assert costs[2] < costs[0] * 2 + 0.2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1. First", " 1. First\n\n"),
        ("1.", " 1.\n\n"),
        ("3. Third\n4. Fourth", " 3. Third\n 4. Fourth\n\n"),
        ("9. Nine\n10. Ten", "  9. Nine\n 10. Ten\n\n"),
        ("1. First\n   - deep", " 1. First\n     - deep\n\n"),
        ("- a\n- b", " - a\n - b\n\n"),
    ],
)
def test_message_that_begins_with_a_list_marker_is_shown_whole(text: str, shown: str) -> None:
    answer = ResponseRenderer(Theme(), MarkdownRenderer)
    assert to_text(answer.render(text, 40)) == shown
    streamed = [row for piece in text for row in answer.feed(piece, 40, 10)]
    assert to_text([*streamed, *answer.close(40)]) == shown
