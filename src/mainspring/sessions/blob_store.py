"""File contents by hash: each is stored once, readable by its owner only, outside of any project."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mainspring.state_files import make_private_folder, write_atomically


class BlobStore:
    """A store of contents. Blocking: call it in a thread.

    Args:
        folder: The folder, created with the first content. ``None`` stores the contents in memory.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._memory: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        """Store a content. Returns its name, the SHA-256 in hexadecimal.

        Raises:
            OSError: If it cannot be stored.
        """
        name = hashlib.sha256(data).hexdigest()
        if self.folder is None:
            self._memory[name] = data
            return name
        path = self._path(self.folder, name)
        if not path.exists():
            make_private_folder(path.parent)
            write_atomically(path, data)
        return name

    def get(self, name: str) -> bytes | None:
        """Return a content by its name. ``None`` if it is missing or does not match its name."""
        if self.folder is None:
            return self._memory.get(name)
        try:
            data = self._path(self.folder, name).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == name else None

    @staticmethod
    def _path(folder: Path, name: str) -> Path:
        return folder / name[:2] / name[2:]
