"""What a file was like at a moment, and the records of that in a session."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.env import ExecutionEnv, RealPath
from mainspring.env.beneath import PathChangedError
from mainspring.sessions.blob_store import Blobs

BEFORE, AFTER, UNCOVERED, REWOUND = "file_before", "file_after", "file_uncovered", "rewind"
"""Types of the custom entries."""

LARGEST = 32 * 1024 * 1024
"""Bytes of a file that is kept; a larger one is told as not covered."""

TOO_LARGE = f"it is larger than {LARGEST >> 20} MiB"
"""Why the content of such a file was not kept."""


class FileState(Struct, frozen=True, omit_defaults=True):
    """What a file was like.

    Attributes:
        sha256: Its content; ``None`` where there was no file.
        skipped: Why the content was not kept, if it was not.
    """

    sha256: str | None = None
    skipped: str = ""

    @property
    def exists(self) -> bool:
        """Whether there was a file."""
        return self.sha256 is not None or bool(self.skipped)


class FileNote(Struct, frozen=True, omit_defaults=True):
    """A file beside a call: what it was like before, or after."""

    path: str
    state: FileState
    call: str = ""


class Uncovered(Struct, frozen=True, omit_defaults=True):
    """A call that may have changed files nobody can name."""

    tool: str
    what: str = ""


class RewoundNote(Struct, frozen=True, omit_defaults=True):
    """Somebody went back: to which entry, from which leaf, and whether files and conversation did.

    ``failed`` names an earlier record of this kind that came to nothing.
    """

    target: str | None
    left: str
    files: bool
    conversation: bool
    failed: str = ""


_MOVED = "a link leads elsewhere from there"


async def state_of(env: ExecutionEnv, path: str, blobs: Blobs | None) -> FileState:
    """What a file is like now.

    Args:
        env: Where it is.
        path: Its real path, as it was when it was noted.
        blobs: Where its content is kept; ``None`` only names it.

    Raises:
        OSError: If it is there and cannot be read.
    """
    if await env.realpath(path) != path:  # writing there would change another file
        return FileState(skipped=_MOVED)
    try:
        status = await env.stat(RealPath(path))
    except PathChangedError:
        return FileState(skipped=_MOVED)
    except (FileNotFoundError, NotADirectoryError):
        return FileState()
    if status.kind != "file":
        return FileState(skipped=f"it is a {status.kind}")
    if status.size > LARGEST:
        return FileState(skipped=TOO_LARGE)
    data = await env.read_bytes(RealPath(path))
    if blobs is None:
        return FileState(hashlib.sha256(data).hexdigest())
    return FileState(await asyncio.to_thread(blobs.put, data))


def decode_note(custom_type: str, data: Any) -> FileNote | Uncovered | RewoundNote | None:
    """The record of a custom entry; ``None`` if it is none of these, or damaged."""
    kind = {BEFORE: FileNote, AFTER: FileNote, UNCOVERED: Uncovered, REWOUND: RewoundNote}.get(custom_type)
    if kind is None:
        return None
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError:
        return None
