"""Rows for results of slash commands, and for events other than responses and tool calls."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.app.chat import events as chat_events
from mainspring.app.chat.command_results import Changes, CommandResult, Fields, Picker, Table, Text, UiSetting
from mainspring.app.run.error_advice import advise
from mainspring.app.tui.diff_view import diff_rows
from mainspring.app.tui.format import format_tokens
from mainspring.app.tui.safe_text import to_one_row, width
from mainspring.app.tui.styled_text import CollapsedOutput, Row, make_row, output_rows, to_text, wrap_row, wrap_rows
from mainspring.events import ContextCompacted, ModelCallRetry, Notice
from mainspring.text import pluralize

_GAP = 2
_MIN_LAST_COLUMN = 24
_MIN_CELL_COLUMNS = 12
"""Width below which a column is not made narrower."""


def result_rows(result: CommandResult, columns: int, markdown: Callable[[str], list[Row]]) -> list[Row]:
    """Return the rows of a result.

    Args:
        result: The result.
        columns: Width of the screen.
        markdown: Renders Markdown.
    """
    match result:
        case Text(text=text, title=title, markdown=True):
            return _title(title) + markdown(text)
        case Text(text=text, title=title):
            return _title(title) + wrap_rows(output_rows(text, "", ""), columns)
        case Fields(fields=fields, title=title):
            return _title(title) + _table((), fields, columns)
        case Table(columns=heads, rows=rows, title=title, empty=empty):
            body = _table(heads, rows, columns) if rows else _empty_rows(empty, columns)
            return _title(title) + body
        case Picker(title=title, choices=choices, empty=empty):
            listed: list[Row] = []
            for choice in choices:
                label = to_one_row(f"{'  ' * choice.depth}{choice.label}", columns - 3)
                facts = "  ".join(to_one_row(text, 60) for text in (choice.line, choice.detail) if text)
                row = make_row(("chosen", "* ") if choice.current else "  ", label, ("faint", f"  {facts}"))
                listed += wrap_row(row, columns, "    ")
            return _title(title) + (listed or _empty_rows(empty, columns))
        case UiSetting(key=key, value=value):
            return [make_row(("faint", f"{key.capitalize()} set to {value}."))]
        case Changes(text=text, diffs=diffs):
            return wrap_rows(output_rows(text, "", ""), columns) + diff_rows(diffs, columns)
        case _:
            return []


def _empty_rows(text: str, columns: int) -> list[Row]:
    return wrap_rows(output_rows(text or "None", "faint", ""), columns)


def _title(title: str) -> list[Row]:
    return [make_row(("heading", to_one_row(title, 100)))] if title else []


def _table(heads: tuple[str, ...], rows: tuple[tuple[str, ...], ...], columns: int) -> list[Row]:
    """Lay out a table with wrapped cells. On a narrow screen, the cells of a row are stacked."""
    texts = [tuple(to_one_row(cell, 400) for cell in each) for each in rows]
    count = max(map(len, [heads, *texts]))
    sizes = [max(width(each[i]) for each in [heads, *texts] if i < len(each)) for i in range(count)]
    space = columns - 1 - _GAP * (count - 1)
    min_last = min(sizes[-1], max(_MIN_LAST_COLUMN, space // 2))
    while sum(sizes[:-1]) > space - min_last and (widest := max(sizes[:-1], default=0)) > _MIN_CELL_COLUMNS:
        sizes[sizes.index(widest)] -= 1
    sizes[-1] = space - sum(sizes[:-1])
    if count > 1 and sizes[-1] < min(_MIN_LAST_COLUMN, min_last):
        return _stack_columns(heads, texts, columns)
    shown = _lines(heads, sizes, "faint", "faint") if heads else []
    for each in texts:
        shown += _lines(each, sizes, "" if heads else "accent", "")
    return shown


def _lines(cells: tuple[str, ...], sizes: list[int], first: str, rest: str) -> list[Row]:
    """Lay out one row of a table, on as many rows as its longest cell needs."""
    columns = [[to_text([each])[:-1] for each in _cell(cell, size)] for cell, size in zip(cells, sizes, strict=False)]
    shown: list[Row] = []
    for at in range(max(map(len, columns), default=0)):
        parts: Row = []
        for i, lines in enumerate(columns):
            line = lines[at] if at < len(lines) else ""
            text = line if i == len(columns) - 1 else line + " " * (sizes[i] - width(line) + _GAP)
            style = rest if i else first
            parts += make_row((style, text)) if style else make_row(text)
        shown.append(parts)
    return shown


def _cell(text: str, size: int) -> list[Row]:
    return wrap_row(make_row(text), size + 1, break_words=True)


def _stack_columns(heads: tuple[str, ...], rows: list[tuple[str, ...]], columns: int) -> list[Row]:
    shown: list[Row] = []
    for each in rows:
        shown += wrap_row(make_row(("accent", each[0])), columns, "  ", break_words=True) if each else []
        for i, cell in enumerate(each[1:], 1):
            name = f"{heads[i]}: " if i < len(heads) else ""
            shown += wrap_row(make_row("  ", ("faint", name), cell), columns, "    ", break_words=True) if cell else []
    return shown


_SUMMARY_ROWS = 12
_WELCOME = "Type a message to get started. /help for commands and keys, Ctrl-D to exit."
_OUTCOMES = {"answered": "Answered", "declined": "Declined", "aborted": "Cancelled: the run was stopped"}
_LEVELS = {"info": "faint", "warn": "warn", "error": "bad"}


def event_rows(
    event: chat_events.ChatEvent, columns: int, markdown: Callable[[str], list[Row]], collapsed: CollapsedOutput
) -> list[Row]:
    """Return the wrapped rows of an event.

    Args:
        event: The event.
        columns: Width of the screen.
        markdown: Renders Markdown.
        collapsed: Stores collapsed output.
    """
    rows = _rows(event, columns, markdown, collapsed)
    return rows if isinstance(event, chat_events.QuestionRequest | chat_events.CommandEnd) else wrap_rows(rows, columns)


def _rows(
    event: chat_events.ChatEvent, columns: int, markdown: Callable[[str], list[Row]], collapsed: CollapsedOutput
) -> list[Row]:
    match event:
        case chat_events.QuestionRequest():
            return _question(event, columns, markdown)
        case chat_events.QuestionResult(outcome=outcome):
            return _text_rows("faint", f"    {_OUTCOMES[outcome]}")
        case ModelCallRetry(attempt=attempt, max_retries=max_retries, delay=delay, error=error):
            return _text_rows(
                "warn", f"{event.action} in {delay:.0f}s (attempt {attempt} of {max_retries}): {error.message}"
            )
        case ContextCompacted():
            return _compacted(event, collapsed)
        case chat_events.SessionChange():
            return _session(event)
        case chat_events.CommandEnd():
            return _command(event, columns, markdown)
        case chat_events.CommandRejected(reason=reason):
            return _text_rows("warn", reason)
        case _:
            return _text_rows(_LEVELS[event.level], event.text) if isinstance(event, Notice) else []


def _text_rows(style: str, text: str) -> list[Row]:
    return output_rows(text, style, "")


def _question(event: chat_events.QuestionRequest, columns: int, markdown: Callable[[str], list[Row]]) -> list[Row]:
    head = [make_row(("heading", to_one_row(event.title, columns - 1)))] if event.title else []
    return head + (markdown(event.text) if event.kind == "plan" else wrap_rows(_text_rows("", event.text), columns))


def _command(event: chat_events.CommandEnd, columns: int, markdown: Callable[[str], list[Row]]) -> list[Row]:
    if event.error:
        rows = _text_rows("bad", f"/{event.name}: {event.error}" if event.name else event.error)
        return wrap_rows([*rows, *_text_rows("faint", advise(event.error, event.code, place="chat"))], columns)
    return result_rows(event.shown, columns, markdown) if event.shown is not None else []


def _compacted(event: ContextCompacted, collapsed: CollapsedOutput) -> list[Row]:
    figures = f" from {format_tokens(event.before)} to {format_tokens(event.after)} tokens" if event.before else ""
    summary = collapsed.collapse("summary", output_rows(event.summary, "faint", "  "), _SUMMARY_ROWS)
    return [*_text_rows("warn", f"Conversation compacted{figures} ({event.reason})"), *summary]


def _session(event: chat_events.SessionChange) -> list[Row]:
    name = event.title or event.id
    texts = {
        "opened": "" if event.messages else _WELCOME,
        "resumed": f"Resumed {name} ({pluralize(event.messages, 'message')}).",
        "new": "New session started.",
        "forked": f"Session forked: {name}",
        "rewound": f"Session rewound; {pluralize(event.messages, 'message is', 'messages are')} left.",
        "renamed": "",  # the status line shows it
    }
    return _text_rows("faint", texts[event.reason])
