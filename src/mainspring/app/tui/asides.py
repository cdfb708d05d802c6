"""What a chat tells beside answers and tools, as rows."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.app.chat import events as told
from mainspring.app.tui.collapsed_output import Folds, broken, output_rows
from mainspring.app.tui.event_rows import shown_rows
from mainspring.app.tui.format import tokens
from mainspring.app.tui.safe_text import one_row
from mainspring.app.tui.styled_text import Row, row
from mainspring.counting import counted

_SUMMARY_ROWS = 12
_GREETING = "Say what is to be done. /help shows commands and keys, Ctrl-D leaves."
_LEVELS = {"info": "faint", "warn": "warn", "error": "bad"}


def aside_rows(event: told.ChatEvent, columns: int, markdown: Callable[[str], list[Row]], folds: Folds) -> list[Row]:
    """What to print for an event, broken between words where it is long.

    Args:
        event: The event.
        columns: How wide the screen is.
        markdown: Makes rows of Markdown.
        folds: Keeps what is too long.
    """
    rows = _rows(event, columns, markdown, folds)
    return rows if isinstance(event, told.QuestionAsked | told.CommandDone) else broken(rows, columns)


def _rows(event: told.ChatEvent, columns: int, markdown: Callable[[str], list[Row]], folds: Folds) -> list[Row]:
    match event:
        case told.QuestionAsked():
            return _question(event, columns, markdown)
        case told.QuestionSettled(outcome=outcome):
            return _line("faint", f"    {outcome}")
        case told.Retrying(attempt=attempt, max_retries=most, delay=delay, reason=reason):
            return _line("warn", f"trying again in {delay:.0f} s ({attempt} of {most}): {reason}")
        case told.Compacted():
            return _compacted(event, folds)
        case told.SessionChanged():
            return _session(event)
        case told.CommandDone():
            return _command(event, columns, markdown)
        case told.Refused(reason=reason):
            return _line("warn", reason)
        case _:
            return _line(_LEVELS[event.level], event.text) if isinstance(event, told.Notice) else []


def _line(style: str, text: str) -> list[Row]:
    return output_rows(text, style, "")


def _question(event: told.QuestionAsked, columns: int, markdown: Callable[[str], list[Row]]) -> list[Row]:
    head = [row(("heading", one_row(event.title, columns - 1)))] if event.title else []
    return head + (markdown(event.text) if event.kind == "plan" else broken(_line("", event.text), columns))


def _command(event: told.CommandDone, columns: int, markdown: Callable[[str], list[Row]]) -> list[Row]:
    if event.error:
        return broken(_line("bad", f"/{event.name}: {event.error}" if event.name else event.error), columns)
    return shown_rows(event.shown, columns, markdown) if event.shown is not None else []


def _compacted(event: told.Compacted, folds: Folds) -> list[Row]:
    figures = f" from {tokens(event.before)} to {tokens(event.after)} tokens" if event.before else ""
    summary = folds.fold("summary", output_rows(event.summary, "faint", "  "), _SUMMARY_ROWS)
    return [*_line("warn", f"the conversation was summed up{figures} ({event.reason})"), *summary]


def _session(event: told.SessionChanged) -> list[Row]:
    name = event.title or event.id
    words = {
        "opened": "" if event.messages else _GREETING,
        "resumed": f"goes on with {name} ({counted(event.messages, 'message')})",
        "new": "a new conversation",
        "forked": f"goes on in a copy: {name}",
        "rewound": f"taken back; {counted(event.messages, 'message is', 'messages are')} left",
        "renamed": "",  # the status line shows it
    }
    return _line("faint", words[event.reason])
