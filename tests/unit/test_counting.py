"""Numbers with nouns, and a check that all texts use `pluralize`."""

import re
from pathlib import Path

import pytest

from mainspring.text import pluralize

SOURCE = Path(__file__).parents[2] / "src" / "mainspring"
BY_HAND = re.compile(r"""'' if [^}]+ (?:==|!=|>) 1 else 's'|'s' (?:\* \(|if [^}]+ 1 )""")


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("message",), "0 messages"),
        (1, ("message",), "1 message"),
        (2, ("message",), "2 messages"),
        (1, ("try", "tries"), "1 try"),
        (3, ("run goes on", "runs go on"), "3 runs go on"),
    ],
)
def test_pluralize_picks_the_right_form(number: int, words: tuple[str, ...], text: str) -> None:
    assert pluralize(number, *words) == text


def test_app_code_uses_pluralize() -> None:
    files = [*(SOURCE / "app").rglob("*.py"), *(SOURCE / "runtime").rglob("*.py")]

    assert [str(f) for f in files if BY_HAND.search(f.read_text(encoding="utf-8"))] == []
