"""Previews of prompts in session lists."""

import pytest

from mainspring.sessions.history import prompt_preview


@pytest.mark.parametrize(
    ("prompt", "preview"),
    [
        ('Fix the typo in @notes.md\n\n<file path="notes.md">\nTeh\n</file>', "Fix the typo in @notes.md"),
        ("Write a message\n\n<stdin>\ndiff --git\n</stdin>", "Write a message"),
        ("two\n lines", "two lines"),
        ("<stdin> is a file", "<stdin> is a file"),
    ],
)
def test_prompt_preview_is_the_text_of_the_user(prompt: str, preview: str) -> None:
    assert prompt_preview(prompt) == preview
