"""What a line may go on with."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from mainspring.app.chat.command_results import Candidate
from mainspring.app.chat.slash.registry import COMMANDS, SlashCommands
from mainspring.app.chat.state import ChatState
from mainspring.errors import MainspringError
from mainspring.lazy import lazy_re

MAX_CANDIDATES = 50
"""Completions that are offered at once."""

_MOST_FILES = 20_000
_CACHE_SECONDS = 5.0
_MENTION = lazy_re(r'(?:^|(?<=[\s(\["\'{]))@("?)([^\s"]*)$')


class Completer:
    """Completes lines.

    Args:
        room: The chat.
        slashes: Its commands.
    """

    def __init__(self, room: ChatState, slashes: SlashCommands) -> None:
        self._room = room
        self._slashes = slashes
        self._files: tuple[float, str, tuple[str, ...]] = (0.0, "", ())

    async def complete(self, line: str) -> tuple[Candidate, ...]:
        """What may stand at the end of a line; what was typed in full comes first."""
        mention = _MENTION.search(line)
        if mention is not None:
            found = _rank_matches(mention[2], [(path, "") for path in await self._paths()])
            quote = mention[1]
            return tuple([Candidate(f"@{quote}{path}{quote}", mention.start(), about) for path, about in found])
        if not line.startswith("/"):
            return ()
        name, space, typed = line[1:].partition(" ")
        if not space:
            if name.startswith("mcp:"):
                await self._slashes.refresh()
            found = _rank_matches(name, sorted(self._slashes.names().items()))
            return tuple([Candidate(f"/{each}", 0, about) for each, about in found])
        command = COMMANDS.get(name.lower())
        if command is None or command.complete is None:
            return ()
        try:
            offered = await command.complete(self._slashes.seat)
        except MainspringError:  # nothing to choose from
            return ()
        start = len(line) - len(typed.lstrip())
        return tuple([Candidate(each, start, about) for each, about in _rank_matches(typed.strip(), offered)])

    async def _paths(self) -> tuple[str, ...]:
        """The files and folders of the project that ignore files leave in; looked for again only after a while."""
        env = self._room.conversation.env
        since, cwd, paths = self._files
        if cwd == env.cwd and time.monotonic() - since < _CACHE_SECONDS:
            return paths
        walk = await env.walk(env.cwd, limit=_MOST_FILES)
        paths = tuple([f"{entry.path}/" if entry.kind == "directory" else entry.path for entry in walk.entries])
        self._files = (time.monotonic(), env.cwd, paths)
        return paths


def _rank_matches(typed: str, offered: Iterable[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Those that fit what was typed: the very one, those that begin with it, those that hold it."""
    head = "./" if typed.startswith("./") else ""
    wanted = typed.removeprefix("./").lower()
    ranks: list[tuple[int, int, str, str]] = []
    for text, about in offered:
        lower = text.lower()
        last = lower.rstrip("/").rpartition("/")[2]
        if lower == wanted:
            rank = 0
        elif lower.startswith(wanted):
            rank = 1
        elif last.startswith(wanted):
            rank = 2
        elif wanted in lower:
            rank = 3
        else:
            continue
        ranks.append((rank, lower.count("/"), text, about))
    return [(head + text, about) for _, _, text, about in sorted(ranks, key=lambda r: r[:3])[:MAX_CANDIDATES]]
