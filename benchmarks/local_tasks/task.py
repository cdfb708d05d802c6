"""What a task is."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Check = Callable[[str, Path], bool]
"""Judges an answer and the folder as the run left it."""


@dataclass(frozen=True)
class Task:
    """One question to a small agent.

    Attributes:
        name: Name.
        question: What is asked.
        check: Whether it ended right.
        allow: Tools that are allowed besides reading, as with ``--allow``.
    """

    name: str
    question: str
    check: Check
    allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskSet:
    """Tasks over the same files."""

    name: str
    files: dict[str, str]
    tasks: tuple[Task, ...]

    def lay(self, folder: Path) -> None:
        """Write the files into a folder."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def says(*patterns: str, never: str = "") -> Check:
    """The answer holds all of these, in any order, and not the other."""

    def check(answer: str, folder: Path) -> bool:
        found = all(re.search(pattern, answer, re.IGNORECASE) for pattern in patterns)
        return found and not (never and re.search(never, answer, re.IGNORECASE))

    return check


def holds(name: str, text: str) -> Check:
    """The file holds this text, but for white space around it."""

    def check(answer: str, folder: Path) -> bool:
        path = folder / name
        return path.is_file() and path.read_text(encoding="utf-8").strip() == text.strip()

    return check
