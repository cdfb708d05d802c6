"""Continuations that repeat the first part of a response, and texts that only look like that."""

import pytest
from hypothesis import assume, given, strategies as st

from mainspring.models.continuation import continue_text

STORY = (
    "The quick brown fox jumps over the lazy dog while Anna reads a book about planets. Later, nine geese cross the "
    "river near Oxford.\n\nThen they rest; nobody knows why 42 of them left early."
)
CUTS = st.integers(0, len(STORY) - 1)


def join(before: str, text: str) -> str:
    """Return the joined text, and check that the streamed pieces are the same."""
    whole = continue_text(before, text, is_complete=True)
    for end in range(len(text)):
        piece = continue_text(before, text[:end], is_complete=False)
        assert whole.startswith(piece), "what was streamed is never taken back"
    return before + whole


@given(CUTS.filter(lambda cut: cut > 16))
def test_response_that_is_begun_again_appears_once(cut: int) -> None:
    assume(not STORY[cut - 1].isspace() and STORY[cut - 1] not in ".;,")
    assert join(STORY[:cut], STORY) == STORY
    assert join(STORY[:cut], "\n" + STORY) == STORY


WORDS = [at for at in range(1, 90) if STORY[at - 1] == " " and STORY[at].isalnum()]


@given(st.sampled_from(WORDS), st.integers(16, 40))
def test_last_words_that_are_written_again_appear_once(start: int, length: int) -> None:
    cut = start + length
    assume(STORY[cut - 1].isalnum())
    assert join(STORY[:cut], STORY[start:]) == STORY


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ("Hello wor", "Hello world!", "Hello world!"),
        ("Hello world. I am ", "Hello world. I am here.", "Hello world. I am here."),
        ("# Title\n\nFirst point\n", "# Title\n\nFirst point\nSecond point", "# Title\n\nFirst point\nSecond point"),
        (
            "我們今天要去公園看看那隻可愛的小狐狸和",
            "我們今天要去公園看看那隻可愛的小狐狸和狗。",
            "我們今天要去公園看看那隻可愛的小狐狸和狗。",
        ),
    ],
)
def test_clear_repetition_is_left_out(before: str, text: str, expected: str) -> None:
    assert join(before, text) == expected


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("ha ha ha ", "ha ha ha"),
        ("aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaa"),
        ("All work and no play makes Jack a dull boy.\n", "All work and no play makes Jack a dull boy.\n" * 3),
        ("All work and no play makes Jack a dull boy", "All work and no play makes Jack a dull boy" * 3),
        ("We will, we will rock you\n", "We will, we will rock you\n(Sing it)"),
        ("| Name | Size | Path |\n|------|------|", "------|\n| a | 1 | b |"),
        ("- item one\n- item", " two\n- item three"),
        ("The cat sat on the mat.\nThe", " cat sat on the mat.\nThe dog did not."),
        ("The cat sat on the mat.\nThe ", "cat sat on the mat.\nThe dog did not."),
        ("The cat sat on the mat.\nTh", "e cat sat on the mat.\nThe dog did not."),
        ("    return value\n", "    return value\n"),
        ("1", "1 and 12"),
        ("", "Hello world, here I am"),
    ],
)
def test_text_that_may_be_meant_is_kept(before: str, text: str) -> None:
    assert join(before, text) == before + text.removeprefix(before[len(before.rstrip()) :])


@given(st.text("ab \n", min_size=1, max_size=30), st.text("ab \n", max_size=60))
def test_text_of_few_characters_is_kept(before: str, text: str) -> None:
    assert join(before, text) == before + text.removeprefix(before[len(before.rstrip()) :])


@given(
    st.text("abc.\n", min_size=1, max_size=9),
    st.sampled_from([STORY[:30], STORY[60:100]]),
    st.integers(2, 5),
    st.data(),
)
def test_cut_of_a_text_that_repeats_itself_loses_nothing(
    separator: str, unit: str, count: int, data: st.DataObject
) -> None:
    whole = (unit + separator) * count
    cut = data.draw(st.integers(1, len(whole) - 1))
    assume(not whole[cut - 1].isspace())
    # If the response begins again right after a cut within a sentence, or after several lines, a repetition by the model is more likely.
    is_one_line = separator.endswith((".", "\n")) and "\n" not in separator.rstrip()
    assume(cut != len(unit + separator) or is_one_line)
    assert join(whole[:cut], whole[cut:]) == whole


@given(CUTS.filter(lambda cut: cut > 0))
def test_plain_continuation_is_unchanged(cut: int) -> None:
    assume(not (STORY[cut - 1].isspace() and STORY[cut].isspace()))
    assert join(STORY[:cut], STORY[cut:]) == STORY
