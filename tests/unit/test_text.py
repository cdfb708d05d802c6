"""Text for display: invisible characters, and writing systems that need some of them."""

import json
import unicodedata

import pytest
from hypothesis import given, strategies as st

from mainspring.text import (
    MAX_MARKS,
    escape_invisible,
    find_invisible,
    suggest_name,
    to_snake_case,
    truncate_bytes,
    truncate_end,
    truncate_middle,
    truncate_to_fit,
    visible_json,
)
from tests.rows import each_row

HIDDEN = (
    *(0x1B, 0x9B, 0x85, 0x7F, 0x00, 0x07, 0x08, 0x0B, 0x0C, 0x80, 0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x180E),
    *(0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202D, 0x202E, 0x2060, 0x2064, 0x2066, 0x2069, 0x206A, 0x2800),
    *(0x3164, 0xFE00, 0xFE0D, 0xFEFF, 0xFFA0, 0xFFF0, 0xFFF9, 0xD800, 0xDC80, 0x1BCA0, 0x1D159, 0x1D173, 0xE0000),
    *(0xE0001, 0xE0020, 0xE0041, 0xE007F, 0xE0100, 0xE01EF, 0xE0FFF),
)
WRITING = (
    "h\u00e9llo",
    "e\u0301 a\u0323\u0302 o\u031b\u0301",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
    "\u0915\u094d\u200d\u0937 \u0930\u094d\u200c",  # Hindi
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",  # Hebrew with points
    "\u0600 \u06dd",  # Arabic number signs
    "\u0e17\u0e35\u0e48\u0e19\u0e35\u0e48",  # Thai
    "\ud55c\uae00 \u65e5\u672c\u3000\u8a9e",
    "\u1820\u180b\u1828",  # Mongolian
    "1\u00a0000\u202f\u20ac",
    "\u2764\ufe0f \u2139\ufe0f \u203c\ufe0f \u2194\ufe0e",
    "1\ufe0f\u20e3 #\ufe0f\u20e3",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f1e9\U0001f1ea",
    "line\n\tindented",
)


@each_row("code", HIDDEN)
@each_row("before", ["", "a", "\u00e9", " ", "\u65e5", "\u0645"])
def test_hidden_characters_are_escaped(code: int, before: str) -> None:
    text = f"{before}{chr(code)}b"
    assert chr(code) not in escape_invisible(text)
    assert chr(code) not in escape_invisible(text, prose=True)
    assert find_invisible(text) == chr(code) or 0xFE00 <= code <= 0xFE0F


@pytest.mark.parametrize("text", WRITING, ids=ascii)
def test_ordinary_writing_is_unchanged(text: str) -> None:
    assert escape_invisible(text, prose=True) == text


@pytest.mark.parametrize(
    "text",
    [
        "pass\u200dword",
        "p\u200cq",
        "a\ufe0f",
        "1\ufe0f2",
        "\u2764\ufe0f\ufe0f",
        "\u0645\u200c\u200c",
        "\u200d",
        "\U0001f468\u200da",
    ],
)
def test_invisible_characters_outside_their_script_are_escaped(text: str) -> None:
    assert "\\" in escape_invisible(text, prose=True)


@pytest.mark.parametrize("mark", ["\u0301", "\u20dd", "\u0e48"])
def test_combining_marks_are_limited(mark: str) -> None:
    for prose in (True, False):
        escaped = escape_invisible("Z" + mark * 30 + "x" + mark, prose=prose)
        assert escaped.count(mark) == MAX_MARKS + 1
    assert escape_invisible(mark * 3, prose=True, before="Z" + mark * 3).count(mark) == 1
    assert escape_invisible(f"{mark}\u200b" * 10, prose=True).count(mark) == MAX_MARKS


def test_a_name_stays_on_one_line() -> None:
    assert escape_invisible("a\nb\tc\r\u2028d\u00a0e") == "a\\nb\\tc\\r\\u2028d\\xa0e"
    assert escape_invisible("a\r\nb\rc\r", prose=True) == "a\nb\\rc"
    assert escape_invisible("x" * 9, limit=5) == "xxxxx… (4 more characters)"


@given(st.text())
def test_escaped_name_is_printable(text: str) -> None:
    escaped = escape_invisible(text)
    assert escaped.isprintable()
    assert not any(unicodedata.category(c)[0] in "CZ" for c in escaped.replace(" ", ""))
    assert escape_invisible(escaped) == escaped


@given(st.text())
def test_escaped_prose_has_no_control_characters(text: str) -> None:
    escaped = escape_invisible(text, prose=True)
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t" for c in escaped)
    assert escape_invisible(escaped, prose=True) == escaped


def test_visible_json_escapes_excess_marks() -> None:
    assert visible_json('"e' + "\u0301" * 6 + 'o\u0301"') == '"e' + "\u0301" * 4 + '\\u0301\\u0301o\u0301"'


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_visible_json_has_the_same_value(text: str) -> None:
    encoded = json.dumps(text, ensure_ascii=False)
    escaped = visible_json(encoded)
    assert json.loads(escaped) == text
    assert "\u202e" not in escaped


@given(st.text(), st.integers(0, 20))
def test_truncated_text_keeps_its_start_and_counts_the_rest(text: str, limit: int) -> None:
    shown = truncate_end(text, limit, "[{more} of {size}]")
    assert shown == (text if len(text) <= limit else f"{text[:limit]}[{len(text) - limit} of {len(text)}]")


@given(st.text(), st.integers(0, 20), st.sampled_from(("…", "...")), st.booleans())
def test_fitted_text_has_at_most_the_limit(text: str, limit: int, mark: str, strip: bool) -> None:
    shown = truncate_to_fit(text, limit, mark, strip=strip)
    assert len(shown) <= limit or shown == text
    if shown != text and limit > len(mark):
        assert text.startswith(shown.removesuffix(mark))
        assert shown.endswith(mark)


@given(st.text(), st.integers(0, 10), st.integers(0, 10))
def test_text_truncated_in_the_middle_keeps_both_ends(text: str, head: int, tail: int) -> None:
    shown = truncate_middle(text, head, tail, "<{more}>")
    more = len(text) - head - tail
    assert shown == (text if more <= 0 else f"{text[:head]}<{more}>{text[head + more :]}")


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 40))
def test_text_truncated_by_bytes_is_the_longest_start_that_fits(text: str, limit: int) -> None:
    shown = truncate_bytes(text, limit)
    assert text.startswith(shown)
    assert len(shown.encode()) <= limit
    assert shown == text or len(text[: len(shown) + 1].encode()) > limit
    lines = truncate_bytes(text, limit, whole_lines=True)
    assert lines == text or lines == shown or (lines.endswith("\n") and "\n" not in shown[len(lines) :])


def test_whole_lines_are_kept_unless_the_first_line_is_too_long() -> None:
    assert truncate_bytes("ab\ncd\n", 5, whole_lines=True) == "ab\n"
    assert truncate_bytes("abcdef\n", 5, whole_lines=True) == "abcde"
    assert truncate_bytes("ab\ncd", 5, whole_lines=True) == "ab\ncd"


def test_fitted_text_loses_blanks_before_the_mark() -> None:
    assert truncate_to_fit("ab  cdef", 5, strip=True) == "ab…"
    assert truncate_to_fit("ab  cdef", 5) == "ab  …"


@pytest.mark.parametrize(
    ("name", "expected"), [("ToolStart", "tool_start"), ("allowed-tools", "allowed_tools"), (" maxTurns ", "max_turns")]
)
def test_snake_case(name: str, expected: str) -> None:
    assert to_snake_case(name) == expected


def test_closest_name_is_suggested() -> None:
    assert suggest_name("modell", ["mode", "model"]) == "Did you mean 'model'?"
    assert suggest_name("xyz", ["mode"]) == ""
    assert suggest_name("xyz", ["mode"], "Options: mode.") == "Options: mode."
    assert suggest_name("mo", ["model"], cutoff=0.5) == "Did you mean 'model'?"
