"""Reads and atomic writes of the program's own files (settings, memory, tokens)."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path


def read_regular_file(file: Path, limit: int = -1) -> bytes:
    """Read a file of settings, state, or instructions. A FIFO or a device is an error: reading it could block forever.

    Args:
        file: The file; links are followed.
        limit: Maximum number of bytes to read; -1 for all.

    Raises:
        OSError: If it cannot be read, or is not a regular file.
    """
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(file))
    with file.open("rb") as stream:
        return stream.read(limit)


def resolve_project_file(file: Path, folder: Path) -> Path:
    """Return the real path of our own file in a project's folder. A repository may contain links, and a link out of the repository
    must not redirect a write.

    Args:
        file: The file, or a folder of such files.
        folder: The folder that it belongs to; links may lead anywhere in the repository around it.

    Raises:
        PermissionError: If it is a link out of the project, or is inside one.
    """
    real = Path(os.path.realpath(folder))
    project = next((p for p in (real, *real.parents) if os.path.lexists(p / ".git")), real)
    target = Path(os.path.realpath(file))
    if not target.is_relative_to(project):
        raise PermissionError(
            errno.EPERM,
            f"A link in the project leads out of it, to {target}. Change that file by hand, or remove the link.",
        )
    return target


def write_text_atomically(target: Path, text: str, *, private: bool = True) -> None:
    """Write a text as UTF-8; see `write_atomically`."""
    write_atomically(target, text.encode(), private=private)


def write_atomically(target: Path, data: bytes, *, private: bool = True) -> None:
    """Write a file through a temporary file next to it, so that readers and crashes never leave a partial file.

    Args:
        target: The file, links resolved; its folder must exist.
        data: Its new content.
        private: Whether only its owner may read it; else it keeps its mode, or gets 0644 as a new file.

    Raises:
        OSError: If it cannot be written; then it is unchanged.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if not private:
            os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o644)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, for their owner only.

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


def user_home(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return ``$MAINSPRING_HOME``, else ``~/.agent``. ``None`` without a home directory."""
    environ = os.environ if environ is None else environ
    given = environ.get("MAINSPRING_HOME", "").strip()
    if given:
        return Path(os.path.abspath(os.path.expanduser(given)))
    base = environ.get("HOME", "").strip() or _account_home()
    return Path(base) / ".agent" if os.path.isabs(base) else None


def _account_home() -> str:
    """Return the home directory if HOME is not set, or is empty: an empty HOME would make it the root folder."""
    if os.name != "posix" or os.environ.get("HOME") != "":
        return os.path.expanduser("~")
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # A container with a user that has no account.
        return ""
