from mainspring.app.tui.diff_view import diff_rows
from mainspring.app.tui.styled_text import to_text
from mainspring.events import FileDiff, Hunk
from mainspring.tools.support.editing.diffs import parse_diff

DIFF = FileDiff(
    path="src/a.py",
    added=1,
    removed=1,
    hunks=(
        Hunk(0, "@@ -9,3 +9,3 @@ def f():", (" a", "-b\x1b[31m", "+\tc", "\\ No newline")),
        Hunk(1, "@@ -20 +20 @@", ("-x", "+y")),
    ),
    note="line ends become LF",
    left_out=3,
)


def test_diff_has_line_numbers_signs_and_colors() -> None:
    rows = diff_rows([DIFF], 80)
    assert to_text(rows) == (
        "  src/a.py +1 -1\n"
        "     def f():\n"
        "   9   a\n"
        "  10 - b\\x1b[31m\n"
        "  10 +     c\n"
        "     \\  No newline\n"
        "  ...\n"
        "  20 - x\n"
        "  20 + y\n"
        "  line ends become LF\n"
        "  ... 3 more lines\n"
    )
    styles = {style for each in rows for style, text in each if text.startswith(("- ", "+ "))}
    assert styles == {"class:added", "class:removed"}


def test_narrow_window_omits_line_numbers() -> None:
    text = to_text(diff_rows([DIFF], 30))
    assert "@@ -9,3 +9,3 @@" in text
    assert r"  - b\x1b[31m" in text


def test_diff_is_limited_to_max_rows() -> None:
    rows = diff_rows([DIFF], 80, max_rows=4)
    assert len(rows) == 4
    assert "more rows" in to_text(rows)


def test_created_and_deleted_files_are_labeled() -> None:
    assert "(new)" in to_text(diff_rows([FileDiff(path="a", change="create")], 80))
    assert "(deleted)" in to_text(diff_rows([FileDiff(path="a", change="delete")], 80))


def test_long_lines_continue_below_their_text() -> None:
    [diff] = parse_diff("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-return x\n+" + "return line.partition('#')[0].split()\n")
    rows = to_text(diff_rows([diff], 40)).splitlines()
    assert rows[-2:] == ["  1 + return", "      line.partition('#')[0].split()"]
