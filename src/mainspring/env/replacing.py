"""A text file replaced whole or not at all, for the program's own files (settings, memory, tokens)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_text(target: Path, text: str, *, private: bool = True) -> None:
    """Write a file by way of a temporary one beside it, so that a reader or a crash never meets half of it.

    Args:
        target: The file, links resolved; its folder must exist.
        text: What it holds from then on, as UTF-8.
        private: Whether only its owner may read it; else it keeps its mode, or gets 0644 as a new file.

    Raises:
        OSError: If it cannot be written; then it is as it was.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}-", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if not private:
            os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
