"""Rows that wrap between words, and collapsed rows."""

from hypothesis import given, strategies as st

from mainspring.app.tui.safe_text import width
from mainspring.app.tui.styled_text import CollapsedOutput, make_row, output_rows, to_text, wrap_row, wrap_rows


def test_rows_wrap_between_words_and_keep_style_and_indent() -> None:
    rows = wrap_rows([make_row(("bad", "    one two "), ("faint", "three four"))], 16)
    assert to_text(rows) == "    one two\n    three four\n"
    assert rows[1][1:] == make_row(("faint", "three four"))
    assert wrap_row(make_row("one two"), 8) == [make_row("one two")]
    assert (
        to_text(wrap_row(make_row("a " + "path/" * 6 + " b"), 20)) == f"a\n{'path/' * 6}\nb\n"
    )  # stays in one piece, so that it can be copied
    assert to_text(wrap_row(make_row("x" * 25), 21, break_words=True)) == f"{'x' * 20}\nxxxxx\n"
    pair = "\u8aad\u3080"
    wide = wrap_rows([make_row("    [x] see " + pair * 12)], 40)
    assert to_text(wide) == f"    [x] see {pair * 6}\u8aad\n    \u3080{pair * 5}\n"


@given(st.text(alphabet="ab \u65e5\U0001f600", max_size=80), st.integers(12, 40), st.sampled_from(["", "  "]))
def test_wrapped_rows_are_complete_and_fit(text: str, columns: int, indent: str) -> None:
    rows = wrap_row(make_row(text), columns, indent, break_words=True)
    lines = ["".join(part for _, part in each) for each in rows]
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(width(line) < columns for line in lines) or len(rows) == 1


def test_collapse_counts_lines_and_stores_the_original() -> None:
    collapsed = CollapsedOutput()
    rows = output_rows("word " * 100)
    collapsed_rows = collapsed.collapse("it", rows, 5, columns=40)
    assert len(collapsed_rows) == 6
    assert "... 1 more line (Ctrl-O to show)" in to_text(collapsed_rows[-1:])
    assert collapsed.expand_last()[1:-1] == rows
