"""What the model knows of files, as the conversation tells it.

Tools say in a result's metadata which version of a file it is about: ``path`` (the real one) and ``hash`` of the whole file,
with ``first_line`` where lines of it were shown; or ``files``, a list of such, where there are several. That stays with the result in
the history and in sessions, so what is known is found again whenever a conversation is taken up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from mainspring.messages import AgentMessage, Message, ToolResultBlock, ToolUseBlock

SliceKey = tuple[str | None, int | None, int | None, int | None]
"""A slice of a version of a file: hash, offset, limit, most bytes."""


class FileVersion(Struct, frozen=True):
    """A version of a file, and the part of it that a call asked for.

    Attributes:
        hash: SHA-256 of the whole file; ``None`` where it was too long to read to its end.
        mtime_ns: Time of its last change, in nanoseconds, where it is known.
        offset: As the call said.
        limit: As the call said.
        max_bytes: As the call said.
    """

    hash: str | None
    mtime_ns: int | None = None
    offset: int | None = None
    limit: int | None = None
    max_bytes: int | None = None

    @property
    def part(self) -> SliceKey:
        """What must be the same for two reads to be alike."""
        return self.hash, self.offset, self.limit, self.max_bytes


class FileFact(Struct, frozen=True):
    """What a result says about one file; ``is_read`` where it shows lines of it."""

    path: str
    read: FileVersion
    is_read: bool


UNCHANGED_KEY = "unchanged"
"""Key in the metadata of a result that only says that nothing changed."""


DELETED_HASH = ""
"""Hash of a file that was deleted: whatever lies there later is not what the model knew."""


def file_facts(details: Any, arguments: Mapping[str, Any]) -> Iterator[FileFact]:
    """The files that a result's metadata is about."""
    if not isinstance(details, Mapping):
        return
    facts = cast("Mapping[str, Any]", details)
    files: Any = facts.get("files")
    part = [arguments.get(name) for name in ("offset", "limit", "max_bytes")]
    for one in cast("list[Any]", files) if isinstance(files, list) else (facts,):
        fact: Mapping[str, Any] = cast("Mapping[str, Any]", one) if isinstance(one, Mapping) else {}
        path = fact.get("path")
        if isinstance(path, str) and "hash" in fact:
            known = DELETED_HASH if fact.get("action") == "D" else fact["hash"]
            yield FileFact(path, FileVersion(known, fact.get("mtime_ns"), *part), "first_line" in fact)


class HistoryCursor:
    """Follows a history that mostly grows: tells where the new part begins, and when it is another history."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: list[AgentMessage] = []

    def advance(self, messages: Sequence[AgentMessage]) -> int | None:
        """Where the new part begins; ``None`` where what was seen before is not all there any more."""
        at = len(self._seen)
        if messages[:at] == self._seen:  # compares identities, at the speed of C
            self._seen.extend(messages[at:])
            return at
        self._seen = list(messages)
        return None


def iter_file_results(
    messages: Sequence[AgentMessage], start: int
) -> Iterator[tuple[int, ToolResultBlock, ToolUseBlock | None]]:
    """The results from a message on that bring facts: index, result, and the call right before it."""
    for i in range(start, len(messages)):
        message = messages[i]
        if not isinstance(message, Message) or message.role != "user":
            continue
        for block in message.content:
            if type(block) is ToolResultBlock and block.details is not None:
                before = messages[i - 1] if i else None
                calls = before.tool_uses if isinstance(before, Message) else ()
                yield i, block, next((c for c in calls if c.id == block.tool_use_id), None)


class FileReadState:
    """What was read of files in one conversation, by folder and path.

    Everything comes from the history, which is walked once as it grows; a call whose result is not there yet is noted
    beside it. It lives as long as its agent, and forgets what the history forgets.

    Args:
        cwd: The folder that relative paths start at.
    """

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._trail = HistoryCursor()
        self._known: dict[tuple[str, str], FileVersion] = {}
        self._noted: dict[tuple[str, str], tuple[str, FileVersion]] = {}
        self._shown: dict[tuple[str, SliceKey], str] = {}

    def follow(self, messages: Sequence[AgentMessage]) -> None:
        """Take in what the history has got since."""
        start = self._trail.advance(messages)
        if start is None:
            for seen in (self._known, self._noted, self._shown):
                seen.clear()
        for _, block, call in iter_file_results(messages, start or 0):
            for version in file_facts(block.details, call.input if call else {}):
                key = (self._cwd, version.path)
                self._known[key] = version.read
                if self._noted.get(key, ("",))[0] == block.tool_use_id:
                    del self._noted[key]
                if version.is_read and UNCHANGED_KEY not in block.details:
                    self._shown[version.path, version.read.part] = block.tool_use_id

    def note(self, call_id: str, version: FileFact) -> None:
        """A call that is just over says something about a file."""
        self._noted[self._cwd, version.path] = (call_id, version.read)

    def known(self, path: str) -> FileVersion | None:
        """The version of a file that the model knows; ``None`` if it knows none."""
        key = (self._cwd, path)
        noted = self._noted.get(key)
        return noted[1] if noted else self._known.get(key)

    def shown(self, version: FileFact) -> str | None:
        """The last call that showed this part of this version of a file."""
        return None if version.read.hash is None else self._shown.get((version.path, version.read.part))
