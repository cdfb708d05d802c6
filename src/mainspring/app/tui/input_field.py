"""The input: text with pastes as signs, completion, earlier inputs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History, ThreadedHistory
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from mainspring.app.chat.command_results import Candidate
from mainspring.app.tui.input_history import HistoryFile
from mainspring.app.tui.paste_placeholders import PasteStore
from mainspring.app.tui.safe_text import to_one_row

_MAX_COMPLETED_CHARS = 2_000
_MOST_CANDIDATES = 100

Complete = Callable[[str], Awaitable[tuple[Candidate, ...]]]


class _InputHistory(History):
    """Earlier inputs: those of the file, then those of this session."""

    def __init__(self, file: HistoryFile) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        self._file.trim()
        return reversed(self._file.read())

    def store_string(self, string: str) -> None:
        """The session writes the file, with pastes in full."""


class ChatCompleter(Completer):
    """Asks the chat for completions.

    Args:
        complete: Gives them.
    """

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """None without waiting."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Those at the cursor."""
        line = completion_context(document)
        if line is None:
            return
        for candidate in (await self._complete(line))[:_MOST_CANDIDATES]:
            yield Completion(
                candidate.text,
                start_position=candidate.start - len(line),
                display=to_one_row(candidate.text.strip() or candidate.text, 60),
                display_meta=to_one_row(candidate.detail, 80),
            )


def completion_context(document: Document) -> str | None:
    """The text whose end may be completed: a command line, or the line of a longer text."""
    before = document.text_before_cursor
    if before.startswith("/") or "\n" not in before:
        return before if len(before) <= _MAX_COMPLETED_CHARS else None
    line = document.current_line_before_cursor
    return line if len(line) <= _MAX_COMPLETED_CHARS and not line.startswith("/") else None


def should_autocomplete(text: str) -> bool:
    """Whether completions are shown without being asked for: for commands and for files."""
    if text.startswith("/"):
        return len(text) <= _MAX_COMPLETED_CHARS
    word = text[-200:].rsplit(maxsplit=1)[-1:] if text and not text[-1].isspace() else []
    return bool(word) and word[0].startswith("@")


def create_input_buffer(file: HistoryFile, complete: Complete) -> Buffer:
    """The buffer that people type in.

    Args:
        file: Where earlier inputs are kept.
        complete: Gives completions.
    """
    buffer: Buffer

    def itself() -> bool:
        return should_autocomplete(buffer.document.text_before_cursor[-_MAX_COMPLETED_CHARS - 1 :])

    buffer = Buffer(
        multiline=True,
        history=ThreadedHistory(_InputHistory(file)),
        enable_history_search=True,
        completer=ChatCompleter(complete),
        complete_while_typing=Condition(itself),
    )
    return buffer


class PlaceholderProcessor(Processor):
    """Shows what signs stand for.

    Args:
        pastes: Knows it.
    """

    def __init__(self, pastes: PasteStore) -> None:
        self._pastes = pastes

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """A line with labels in place of signs."""
        given = transformation_input.fragments
        if not any(ord(max(fragment[1], default=" ")) >= 0x100000 for fragment in given):
            return Transformation(given)
        shown: StyleAndTextTuples = []
        starts = [0]
        for style, text, *_ in given:
            for character in text:
                label = self._pastes.label(character) if ord(character) >= 0x100000 else None
                shown.append(("class:mark", label) if label else (style, character))
                starts.append(starts[-1] + len(label or character))
        return Transformation(
            shown,
            source_to_display=lambda at: starts[min(at, len(starts) - 1)],
            display_to_source=lambda at: bisect_right(starts, at) - 1,
        )
