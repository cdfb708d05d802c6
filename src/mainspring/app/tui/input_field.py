"""The input: its history on disk, completion, and placeholders for pastes."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History, ThreadedHistory
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from mainspring.app.chat.command_results import Candidate
from mainspring.app.tui.paste import PasteStore
from mainspring.app.tui.safe_text import strip_emoji_modifiers, to_one_row
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.redaction import redact_environment

MAX_ENTRIES = 1_000
MAX_INPUT_BYTES = 64 << 10
"""Longer entries are not stored."""

_MAX_FILE_BYTES = 2 << 20


class HistoryFile:
    """A file of entries, one JSON string per line, oldest first.

    Each entry is one write to the end of the file, so that concurrent sessions lose nothing. Old entries are dropped by
    replacing the file when a session starts. A lock file keeps the two apart.

    Args:
        path: The file. Its folder is created with the first entry.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[str]:
        """Return the entries, oldest first. Unreadable files and lines are skipped."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _MAX_FILE_BYTES))
                lines = file.read().split(b"\n")
        except OSError:
            return []
        return list(_entries(lines))[-MAX_ENTRIES:]

    def add(self, text: str) -> bool:
        """Add an entry. Return False if it was not stored."""
        line = _to_line(text)
        return bool(text.strip()) and len(line) <= MAX_INPUT_BYTES and _append(self._path, line)

    @property
    def _drafts(self) -> Path:
        """The file of the drafts."""
        return self._path.with_suffix(".drafts")

    def add_draft(self, text: str) -> bool:
        """Store an input that was not sent, of any length. Return False if it was not stored."""
        return bool(text.strip()) and _append(self._drafts, _to_line(text))

    def pop_draft(self) -> str:
        """Remove the latest draft and return it, or return an empty string. Earlier ones stay for the next call."""
        path = self._drafts
        if not path.exists():
            return ""
        try:
            with lock_directory(path.parent):
                drafts = list(_entries(path.read_bytes().split(b"\n")))
                _replace(path, drafts[:-1])
        except (OSError, LockTimeoutError):
            return ""
        return drafts[-1] if drafts else ""

    def trim(self) -> None:
        """Drop the oldest entries of a large file."""
        try:
            with lock_directory(self._path.parent):
                if self._path.stat().st_size > _MAX_FILE_BYTES // 2 or self._lines() > 2 * MAX_ENTRIES:
                    _replace(self._path, self.read())
        except (OSError, LockTimeoutError):
            return

    def _lines(self) -> int:
        return self._path.read_bytes().count(b"\n")


def _to_line(text: str) -> bytes:
    return json.dumps(redact_environment(text)).encode() + b"\n"


def _append(path: Path, line: bytes) -> bool:
    """Add a line to a file. Return False if it was not stored, since that must not stop the user."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (
            lock_directory(path.parent),
            open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file,
        ):
            os.fchmod(file.fileno(), 0o600)
            file.write(line)
    except (OSError, LockTimeoutError):
        return False
    return True


def _replace(path: Path, entries: list[str]) -> None:
    """Replace a file; without entries, remove it."""
    if not entries:
        path.unlink(missing_ok=True)
        return
    with NamedTemporaryFile("wb", dir=path.parent, prefix=".history-", delete=False) as file:
        file.writelines(json.dumps(text).encode() + b"\n" for text in entries)
    os.replace(file.name, path)


def open_history(home: Path, cwd: Path) -> HistoryFile:
    """Return the history of a project.

    Args:
        home: The folder of the user, for example ``~/.agent``.
        cwd: The project.
    """
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in cwd.name)[:40]
    return HistoryFile(home / "history" / f"{name}-{sha256(str(cwd).encode()).hexdigest()[:12]}.jsonl")


def _entries(lines: Iterable[bytes]) -> Iterable[str]:
    last = None
    for line in lines:
        try:
            entry = json.loads(line) if line else None
        except ValueError:
            continue
        if isinstance(entry, str) and entry and entry != last:
            last = entry
            yield entry


_MAX_COMPLETED_CHARS = 2_000
_MAX_CANDIDATES = 100
_MAX_PATH_CHARS = 400
_OPEN_MENTION = re.compile(r'(?:^|(?<=\s))@(?:"[^"\n]*|[^\s"]*)$')

CompleteInput = Callable[[str], Awaitable[tuple[Candidate, ...]]]


class _InputHistory(History):
    """Earlier inputs of the file and of this session."""

    def __init__(self, file: HistoryFile) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        self._file.trim()
        return reversed(self._file.read())

    def store_string(self, string: str) -> None:
        """Do nothing: the app stores inputs with pastes in full."""


class ChatCompleter(Completer):
    """Requests completions from the chat.

    Args:
        complete: Returns completions of a line.
    """

    def __init__(self, complete: CompleteInput) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing, since completions are asynchronous."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield the completions at the cursor."""
        line = completion_context(document)
        if line is None:
            return
        for candidate in (await self._complete(line))[:_MAX_CANDIDATES]:
            yield Completion(
                candidate.text,
                start_position=candidate.start - len(line),
                display=to_one_row(candidate.text.strip() or candidate.text, 60),
                display_meta=to_one_row(candidate.detail, 80),
            )


def completion_context(document: Document) -> str | None:
    """Return the text whose end can be completed: a command, or one line of a longer text."""
    before = document.text_before_cursor
    if before.startswith("/") or "\n" not in before:
        return before if len(before) <= _MAX_COMPLETED_CHARS else None
    line = document.current_line_before_cursor
    return line if len(line) <= _MAX_COMPLETED_CHARS and not line.startswith("/") else None


def should_autocomplete(text: str) -> bool:
    """Return True if completions are shown automatically: for commands and files."""
    if text.startswith("/"):
        return len(text) <= _MAX_COMPLETED_CHARS
    return _OPEN_MENTION.search(text[-_MAX_PATH_CHARS:]) is not None


class _InputBuffer(Buffer):
    """A buffer whose history contains the inputs that start with the typed text, or all of them if none does."""

    def _history_matches(self, i: int) -> bool:
        typed = self.history_search_text
        if not typed or self._working_lines[i].startswith(typed):
            return True
        *earlier, _draft = self._working_lines
        return not any(line.startswith(typed) for line in earlier)


def create_input_buffer(file: HistoryFile, complete: CompleteInput) -> Buffer:
    """Create the buffer of the input.

    Args:
        file: Earlier inputs.
        complete: Returns completions of a line.
    """
    buffer: Buffer

    def should_complete() -> bool:
        return should_autocomplete(buffer.document.text_before_cursor[-_MAX_COMPLETED_CHARS - 1 :])

    buffer = _InputBuffer(
        multiline=True,
        history=ThreadedHistory(_InputHistory(file)),
        enable_history_search=True,
        completer=ChatCompleter(complete),
        complete_while_typing=Condition(should_complete),
    )
    return buffer


class InputProcessor(Processor):
    """Shows labels in place of placeholders, and hides emoji modifiers.

    Args:
        pastes: The contents of placeholders.
    """

    def __init__(self, pastes: PasteStore) -> None:
        self._pastes = pastes

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Transform a line."""
        fragments = transformation_input.fragments
        if all(fragment[1].isascii() for fragment in fragments):
            return Transformation(fragments)
        shown: StyleAndTextTuples = []
        starts = [0]
        for style, text, *_ in fragments:
            for character in text:
                label = self._pastes.label(character) if ord(character) >= 0x100000 else None
                part = label or strip_emoji_modifiers(character)
                shown.append(("class:mark" if label else style, part))
                starts.append(starts[-1] + len(part))
        return Transformation(
            shown,
            source_to_display=lambda at: starts[min(at, len(starts) - 1)],
            display_to_source=lambda at: bisect_right(starts, at) - 1,
        )
