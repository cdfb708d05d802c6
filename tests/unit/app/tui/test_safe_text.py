from hypothesis import given, strategies as st

from mainspring.app.tui.safe_text import sanitize, strip_emoji_modifiers, to_encoding, to_one_row, truncate, width
from mainspring.app.tui.styled_text import clip_row, make_row


def test_sequences_are_removed_and_other_controls_escaped() -> None:
    assert sanitize("\x1b[31mred\x1b[0m \x1b]0;title\x07 x\x1b]8;;u\x1b\\y") == "red  xy"
    assert sanitize("\x1b") == "\\x1b"
    assert sanitize("a\x08b\x00") == "a\\x08b\\x00"


def test_carriage_return_keeps_the_last_state_of_a_line() -> None:
    assert sanitize("10%\r50%\r100%\ndone\r\n") == "100%\ndone\n"


@given(st.text())
def test_sanitized_text_has_no_control_characters(text: str) -> None:
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in sanitize(text))


@given(st.text(alphabet="a\u65e5\U0001f600\u0301 \u200d\ufe0f"), st.integers(1, 12))
def test_truncated_line_fits(text: str, columns: int) -> None:
    assert width(truncate(text, columns)) <= columns
    assert width("".join(part for _, part in clip_row(make_row(text), columns))) <= columns


def test_emoji_sequences_become_emoji_of_known_width() -> None:
    assert strip_emoji_modifiers("\U0001f469\u200d\U0001f4bb\ufe0f") == "\U0001f469\U0001f4bb"


def test_to_one_row_joins_and_truncates() -> None:
    assert to_one_row("a\n  b\tc\x1b[1m", 20) == "a b c"
    assert to_one_row("abcdefgh", 6) == "abc..."
    assert to_one_row("abcdefgh", 2) == "ab"


def test_ascii_fallbacks() -> None:
    assert to_encoding("\u201cquoted\u201d \u2014 \u2022 \u65e5 \u2502") == '"quoted" - * ? |'
    assert to_encoding("\u00fc \u2014", "latin-1") == "\u00fc -"
