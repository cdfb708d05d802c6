"""The Markdown files of custom commands."""

from __future__ import annotations

import os
from pathlib import Path

from mainspring.errors import ConfigError

COMMANDS = "commands"
MAX_FILES = 1000
"""Files that are read in one folder."""

_MAX_BYTES = 256 << 10


def command_files(folder: Path) -> list[Path]:
    """Return the Markdown files below a folder by name, at most one more than `MAX_FILES`. Links to folders are not followed."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(place, n) for n in sorted(names) if n.endswith(".md") and n.lower() != "readme.md"]
        if len(found) > MAX_FILES:
            return found[: MAX_FILES + 1]
    return found


def command_name(file: Path, folder: Path) -> str:
    """Return the name of the command in a file."""
    return ":".join(file.relative_to(folder).with_suffix("").parts)


def read_command(file: Path) -> str:
    """Read the text of a command.

    Raises:
        ConfigError: If the file is too large, or not UTF-8.
        OSError: If it cannot be read.
    """
    with file.open("rb") as opened:
        data = opened.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"it is larger than {_MAX_BYTES // 1024} KiB")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"it is not UTF-8: {error.reason} at byte {error.start}") from None
