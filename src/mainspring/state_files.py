"""A text file replaced whole or not at all, for the program's own files (settings, memory, tokens)."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path


def resolve_project_file(file: Path, folder: Path) -> Path:
    """Where a file of our own in a project's folder really is. A repository brings its links along, so that one which leads out of
    it must not decide what is written.

    Args:
        file: The file, or a folder of such files.
        folder: The folder that it belongs to; links may lead anywhere in the repository around it.

    Raises:
        PermissionError: If it is, or lies behind, a link out of the project.
    """
    real = Path(os.path.realpath(folder))
    project = next((p for p in (real, *real.parents) if os.path.lexists(p / ".git")), real)
    target = Path(os.path.realpath(file))
    if not target.is_relative_to(project):
        raise PermissionError(
            errno.EPERM,
            f"a link in the project leads out of it, to {target}; change that file by hand, or take the link away",
        )
    return target


def write_text_atomically(target: Path, text: str, *, private: bool = True) -> None:
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


def make_private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for their owner only.

    Raises:
        OSError: If that is not possible.
    """
    missing: list[Path] = []
    while not folder.is_dir():
        missing.append(folder)
        if folder.parent == folder:
            break
        folder = folder.parent
    for path in reversed(missing):
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if not path.is_dir():
                raise
