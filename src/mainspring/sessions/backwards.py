"""The lines of a file from its end, without reading the rest of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

BLOCK = 64 * 1024


def lines_back(file: BinaryIO, block: int = BLOCK) -> Iterator[tuple[int, bytes]]:
    """Position and line, with its end where it has one, newest first. As much is in memory as the longest line takes.

    Args:
        file: The file; where it stands does not matter, and is changed.
        block: Bytes of one read.
    """
    start = file.seek(0, os.SEEK_END)
    later: list[bytes] = []  # what is known of the line that the block before ends in, its end first
    while start:
        size = min(block, start)
        start -= size
        file.seek(start)
        data = file.read(size)
        end = len(data)
        if later and data.endswith(b"\n"):  # then what was read before is a line of its own
            yield start + size, b"".join(reversed(later))
            later = []
        while (cut := data.rfind(b"\n", 0, end - 1 if not later else end)) >= 0:
            yield start + cut + 1, data[cut + 1 : end] + b"".join(reversed(later))
            end, later = cut + 1, []
        later.append(data[:end])
    if later:
        yield 0, b"".join(reversed(later))
