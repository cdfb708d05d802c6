"""Files that no tool may touch: those that an ``.agentignore`` file names, in the syntax of ``.gitignore``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from mainspring.env.ignore import compile_rules
from mainspring.text import fold

IGNORE_FILE_NAME = ".agentignore"
"""The file's name, in the project's folder or in any folder below or above it."""

MAX_BYTES = 1 << 20
"""A larger file is no list of names; then its whole folder is left alone."""

CACHE_SECONDS = 1.0
"""How long a file that was read counts as unchanged, so that a search through many folders reads each file once."""

PARENT_CACHE_SECONDS = 30.0
"""The same for files above the project's folder, which hardly ever change."""

_MAX_CACHED = 20_000
_EVERYTHING = "*"

Parts = tuple[str, ...]


@runtime_checkable
class ReadsFiles(Protocol):
    """An environment that can read a file."""

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """The bytes of a regular file."""
        ...


class IgnoreFiles:
    """The ignore files of one environment.

    Git's rules hold: a deeper file decides over one above it, later lines over earlier ones, and what lies in a folder that
    is left out stays left out. Upper and lower case are the same, since on some systems they name the same file.

    Args:
        env: Where the files are; one that cannot read has none.
        root: Components of the project's folder.
        clock: Seconds, for the age of what was read.
    """

    def __init__(self, env: object, root: Parts = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._env = env if isinstance(env, ReadsFiles) else None
        self._root = root
        self._clock = clock
        self._kept: dict[Parts, tuple[float, Any]] = {}

    async def why(self, *forms: Parts) -> str:
        """The ignore file that leaves a path out; empty if none does.

        Args:
            forms: Components of the path from the root: its real one, and as it was spelled.
        """
        if self._env is not None:
            for parts in dict.fromkeys(forms):
                found = await self._file_for(parts)
                if found:
                    return found
        return ""

    async def _file_for(self, parts: Parts) -> str:
        files: list[tuple[int, Any]] = []
        for depth in range(len(parts)):
            rules = await self._rules(parts[:depth])
            if rules is not None:
                files.append((depth, rules))
            for at, spec in reversed(files):
                said = match_rules(spec, parts[at : depth + 1], is_folder=depth + 1 < len(parts))
                if said:
                    return "/" + "/".join((*parts[:at], IGNORE_FILE_NAME))
                if said is not None:
                    break
        return ""

    async def _rules(self, folder: Parts) -> Any:
        now = self._clock()
        kept = self._kept.get(folder)
        above = len(folder) < len(self._root) and self._root[: len(folder)] == folder
        if kept is not None and now - kept[0] < (PARENT_CACHE_SECONDS if above else CACHE_SECONDS):
            return kept[1]
        if len(self._kept) >= _MAX_CACHED:
            self._kept.clear()
        rules = await self._read(folder)
        self._kept[folder] = (now, rules)
        return rules

    async def _read(self, folder: Parts) -> Any:
        assert self._env is not None
        path = "/" + "/".join((*folder, IGNORE_FILE_NAME))
        try:
            data = await self._env.read_bytes(path, limit=MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):  # it is there, and what it says is not known
            return compile_rules([_EVERYTHING])
        return parse_rules(data)


def parse_rules(data: bytes) -> Any:
    """The rules of a file; ``None`` if there are none in it."""
    if len(data) > MAX_BYTES:
        return compile_rules([_EVERYTHING])
    lines = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").splitlines()
    rules = [fold(line) for line in lines if line.strip() and not line.startswith("#")]
    return compile_rules(rules) if rules else None


def match_rules(spec: Any, below: Sequence[str], *, is_folder: bool) -> bool | None:
    """Whether the file's rules leave a path out, keep it, or say nothing; a name at the end may be that of a folder."""
    path = "/".join(fold(part) for part in below)
    if is_folder:
        return spec.check_file(path + "/").include
    return spec.check_file(path).include or spec.check_file(path + "/").include
