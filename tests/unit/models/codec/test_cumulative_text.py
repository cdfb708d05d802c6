"""Deltas that contain all text so far, and texts that only look like that."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.models import ModelInfo
from mainspring.models.codec.cumulative_text import CumulativeText
from mainspring.models.profile import ChatCapabilities, ModelProfile
from mainspring.models.wire.openai_chat.decode import ChatDecoder

TABLE = "| Name | Size |\n|------|------|\n| a.py | 120 |\n| b.py | 80 |\n"
PROSE = "The quick brown fox jumps over the lazy dog; then it sleeps. 狐狸睡著了。"


def join(deltas: Sequence[str]) -> str:
    filter = CumulativeText()
    return "".join([*map(filter.add, deltas), filter.flush()])


def cumulative(text: str, step: int) -> list[str]:
    return [text[:end] for end in range(step, len(text) + step, step)]


def decode(deltas: Sequence[dict[str, Any]], *, is_own_host: bool = False) -> tuple[str, str]:
    """Return the text and the reasoning of a response."""
    profile = ModelProfile(
        info=ModelInfo("m", "p"), base_url="https://h/v1", dialect=ChatCapabilities(text_markup=not is_own_host)
    )
    decoder, events = ChatDecoder(profile), list[Any]()
    for delta in deltas:
        decoder.feed("", json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode(), events)
    decoder.feed("", b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}', events)
    decoder.finish(events)
    message = events[-1].partial
    streamed = "".join(event.text for event in events if type(event).__name__ == "TextDelta")
    assert streamed == message.text
    return message.text, message.thinking


@pytest.mark.parametrize("text", [TABLE, PROSE])
@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_cumulative_deltas_are_joined_once(text: str, step: int) -> None:
    assert join(cumulative(text, step)) == text


def test_repeated_and_late_deltas_of_a_cumulative_host_add_nothing() -> None:
    deltas = cumulative(PROSE, 5)
    assert join([deltas[0], *[each for delta in deltas[1:] for each in (delta, delta)], deltas[-3]]) == PROSE


@pytest.mark.parametrize(
    "deltas",
    [
        ["a"] * 9,
        ["a", "aa", "aaa", "aaaa", "aaaaa"],
        ["a" * n for n in range(1, 60)],
        ["ha ", "ha ha ", "ha ha ha ", "ha ha ha ha ", "!"],
        ["Hello, world! " * n for n in range(1, 9)],
        ["-" * n for n in (1, 2, 4, 8, 16, 32)],
        ["|", "|-", "|---", "|------|", "|------|------|", "\n"],
        [" ", "  ", "    ", "        ", "x = 1"],
        ["1", "12", "123", "1234", "12345"],
        ["The", "The quick", "\nThe quick brown", "\nThe quick brown fox"],
        ["The\n", "The quick\n", "The quick brown\n", "The quick brown fox\n"],
        ["*", "**", "***", " bold"],
        ["no", "now", "nowhere", " else is like this place"],
        ["Ab", "Abc"],
    ],
)
def test_text_that_repeats_keeps_every_character(deltas: list[str]) -> None:
    assert join(deltas) == "".join(deltas)


@given(st.lists(st.text("abc d\n|-", max_size=6), max_size=12))
def test_incremental_deltas_of_few_characters_are_unchanged(deltas: list[str]) -> None:
    if len(set("".join(deltas))) < 8:
        assert join(deltas) == "".join(deltas)


@given(st.lists(st.text(min_size=1, max_size=30), max_size=12))
def test_incremental_deltas_are_unchanged(deltas: list[str]) -> None:
    longest = max((len(delta) for delta in deltas), default=0)
    is_growing = all(b.startswith(a) for a, b in pairwise(deltas))
    if longest < 16 or not is_growing:
        assert join(deltas) == "".join(deltas)


@given(st.text(min_size=1, max_size=12), st.lists(st.integers(1, 4), min_size=1, max_size=12))
def test_repetition_in_growing_deltas_is_unchanged(unit: str, counts: list[int]) -> None:
    deltas = [unit * sum(counts[: i + 1]) for i in range(len(counts))]
    assert join(deltas) == "".join(deltas)


@given(st.text(min_size=16, max_size=80), st.integers(1, 3))
def test_cumulative_deltas_are_joined_or_left_unchanged(text: str, step: int) -> None:
    deltas = cumulative(text, step)
    assert join(deltas) in (text, "".join(deltas))


def test_text_and_reasoning_of_a_compatible_host_are_joined_once() -> None:
    thoughts = [{"reasoning_content": part} for part in cumulative(PROSE, 6)]
    texts = [{"content": part} for part in cumulative(TABLE, 4)]

    assert decode([*thoughts, *texts]) == (TABLE, PROSE)


def test_held_text_is_added_before_what_follows() -> None:
    assert decode([{"content": "no"}, {"content": "nowhere"}]) == ("nonowhere", "")
    assert decode([{"reasoning": "no"}, {"reasoning": "now"}, {"content": "x"}]) == ("x", "nonow")
    markup = [{"content": part} for part in ("I", "I <b", "think> so")]
    assert decode(markup) == ("II <bthink> so", "")


def test_other_hosts_are_never_filtered() -> None:
    deltas = [{"content": part} for part in cumulative(PROSE, 5)]
    assert decode(deltas, is_own_host=True)[0] == "".join(cumulative(PROSE, 5))
