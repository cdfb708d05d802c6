"""What lists show of a prompt."""

import pytest

from mainspring.sessions.history import prompt_preview


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        ('Fix the typo in @notes.md\n\n<file path="notes.md">\nTeh\n</file>', "Fix the typo in @notes.md"),
        ("Write a message\n\n<stdin>\ndiff --git\n</stdin>", "Write a message"),
        ("two\n lines", "two lines"),
        ("<stdin> is a file", "<stdin> is a file"),
    ],
)
def test_the_headline_is_what_the_person_wrote(prompt: str, shown: str) -> None:
    assert prompt_preview(prompt) == shown
