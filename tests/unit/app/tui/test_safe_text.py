import pytest
from hypothesis import given, strategies as st
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import TransformationInput
from prompt_toolkit.layout.screen import Char

from mainspring.app.tui.input_field import InputProcessor
from mainspring.app.tui.paste import PasteStore
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


@pytest.mark.parametrize(
    ("text", "shown", "columns"),
    [
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f468\U0001f469\U0001f467", 6),
        ("\U0001f44d\U0001f3fd", "\U0001f44d", 2),
        ("\U0001f1e9\U0001f1ea", "\U0001f1e9\U0001f1ea", 2),
        ("\u2764\ufe0f", "\u2764", 1),
        ("e\u0301\u0323", "e\u0301\u0323", 1),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u093f\u0928\u094d\u0926\u0940", 5),
    ],
    ids=["joined", "skin tone", "flag", "variant", "accents", "spacing marks"],
)
def test_input_has_the_width_that_the_terminal_counts(text: str, shown: str, columns: int) -> None:
    """The widths are those of tmux."""
    line = f"a{text}b"
    given = TransformationInput(
        BufferControl(), Document(line), 0, lambda at: at, [("", line)], 80, 24, get_line=lambda _: [("", line)]
    )
    transformed = InputProcessor(PasteStore()).apply_transformation(given)
    assert fragment_list_to_text(transformed.fragments) == f"a{shown}b"
    assert sum(Char(character).width for character in shown) == width(shown) == columns
    assert [transformed.source_to_display(at) for at in (0, 1, len(line) - 1)] == [0, 1, 1 + len(shown)]
    assert transformed.display_to_source(1 + len(shown)) == len(line) - 1


def test_to_one_row_joins_and_truncates() -> None:
    assert to_one_row("a\n  b\tc\x1b[1m", 20) == "a b c"
    assert to_one_row("abcdefgh", 6) == "abc..."
    assert to_one_row("abcdefgh", 2) == "ab"


def test_ascii_fallbacks() -> None:
    assert to_encoding("\u201cquoted\u201d \u2014 \u2022 \u65e5 \u2502") == '"quoted" - * ? |'
    assert to_encoding("\u00fc \u2014", "latin-1") == "\u00fc -"
