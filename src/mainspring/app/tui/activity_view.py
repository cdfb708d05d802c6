"""Rows for what runs: tool calls, shell commands of the user, and subagents."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, cast

from msgspec import Struct

from mainspring.app.chat.events import SessionChange, ShellEnd, ShellOutput, ShellStart
from mainspring.app.tui.diff_view import diff_rows
from mainspring.app.tui.format import format_seconds, format_total
from mainspring.app.tui.safe_text import (
    escape_all,
    expand_tabs,
    sanitize,
    strip_emoji_modifiers,
    to_one_row,
    truncate,
    width,
)
from mainspring.app.tui.styled_text import (
    CollapsedOutput,
    Row,
    count_lines,
    file_rows,
    indent_rows,
    make_row,
    output_rows,
)
from mainspring.events import (
    Event,
    MessageEnd,
    SubagentEnd,
    SubagentEvent,
    SubagentStart,
    TextDelta,
    ThinkingDelta,
    ToolDisplay,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from mainspring.text import pluralize

_PROGRESS_ROWS = 3
_MAX_PROGRESS = 4_000
_OUTPUT_ROWS = 5
_ERROR_ROWS = 8
_DIFF_ROWS = 40
_MAX_LIVE = 8
_SLOW_SECONDS = 1.0
_MARK = re.compile(r"</?context-output\b[^<>]*>")
_NOTE = re.compile(r"\[in [^\n]*\]|\(exit 0, \d+ms\)")
_FILE_NOTE = re.compile(r"\[full output, \d+ bytes: [^\n]*\]")
_TRUNCATED = re.compile(r"…\(\d+ bytes truncated from head\)…")
_STOPPED_MARK = "[interrupted: "
"""Begin of the last line of the output of a command that was stopped."""
_SPOOL = "spool"
"""Key of the details of a result: the file with the whole output of a command."""
_SUMMARY_IS_ENOUGH = {"read_file"}
"""Tools whose output is collapsed completely."""


_NO_DISPLAY = ToolDisplay()


class RunningCall(Struct):
    """A running tool call."""

    name: str
    summary: str
    since: float
    title: str = ""
    output: str = ""


class ToolCallView:
    """The tool calls of one agent.

    Args:
        collapsed: Stores collapsed output.
    """

    def __init__(self, collapsed: CollapsedOutput) -> None:
        self._collapsed = collapsed
        self._running: dict[str, RunningCall] = {}
        self._shown: set[str] = set()

    def on_start(self, event: ToolExecutionStart, now: float) -> None:
        """Note the start of a call."""
        display = event.display or _NO_DISPLAY
        name = display.name or event.call.name
        self._running[event.call.id] = RunningCall(name, display.summary, now)

    def on_update(self, event: ToolExecutionUpdate) -> None:
        """Note progress of a call."""
        if running := self._running.get(event.call_id):
            running.title = event.title or running.title
            running.output = (running.output + event.output)[-_MAX_PROGRESS:]

    def mark_shown(self, call_id: str) -> None:
        """Note that the approval of a call already showed its changes."""
        self._shown.add(call_id)

    def on_end(self, event: ToolExecutionEnd, columns: int) -> list[Row]:
        """Return the rows of a call that has ended."""
        display = event.display or _NO_DISPLAY
        running = self._running.pop(event.call.id, None)
        rows = [_head(event, display, running.summary if running else "", columns)]
        for edit in display.edits:
            if edit.denied or edit.failed:
                text = f"    {edit.path}: {edit.applied} of {pluralize(edit.total, 'change')} applied"
                reason = f"; {edit.reason}" if edit.reason else ""
                rows.append(make_row(("warn", to_one_row(text + reason, columns - 1))))
        is_shown = event.call.id in self._shown and not any(edit.denied or edit.failed for edit in display.edits)
        self._shown.discard(event.call.id)
        if display.diffs and not is_shown:
            rows += self._collapsed.collapse(display.name, diff_rows(display.diffs, columns), _DIFF_ROWS)
        return rows + self._output(event, display, columns)

    def _output(self, event: ToolExecutionEnd, display: ToolDisplay, columns: int) -> list[Row]:
        is_error, name = event.result.is_error, event.call.name
        if display.diffs and not is_error:
            return []
        is_failure = is_error and event.status != "denied"
        style = "bad" if is_failure else "faint"
        text = _strip_model_markup(event)
        title = f"{display.name} {display.summary}"
        if name in _SUMMARY_IS_ENOUGH and not is_error:
            self._collapsed.store(title, lambda: output_rows(text, style))
            return []
        rows = output_rows(text, style)
        max_rows = _ERROR_ROWS if is_error else _OUTPUT_ROWS
        details: Any = event.result.details
        path = str(cast("dict[str, Any]", details).get(_SPOOL, "")) if isinstance(details, dict) else ""
        if not path:
            return self._collapsed.collapse(title, rows, max_rows, at_end=name == "shell", columns=columns)
        missing = max(count_lines(path) - len(rows), 0)
        return self._collapsed.collapse(
            title,
            rows,
            max_rows,
            at_end=True,
            columns=columns,
            missing=missing,
            load=lambda: file_rows(path, rows, style, "    "),
        )

    def live_rows(self, columns: int, now: float, spinner: str) -> list[Row]:
        """Return the rows of running calls."""
        rows: list[Row] = []
        shown = self.running[:_MAX_LIVE]
        for running in shown:
            took = f" {format_seconds(now - running.since)}" if now - running.since >= _SLOW_SECONDS else ""
            name = to_one_row(running.name, 30)
            space = columns - width(name) - len(took) - 5
            summary = to_one_row(running.title or running.summary, space, make=escape_all)
            rows.append(make_row(("accent", f"{spinner} "), ("tool", name), " ", summary, ("faint", took)))
            lines = [
                line
                for line in expand_tabs(strip_emoji_modifiers(sanitize(running.output))).split("\n")
                if line.strip()
            ]
            rows += [make_row(("faint", f"    {truncate(line, columns - 5)}")) for line in lines[-_PROGRESS_ROWS:]]
        if len(shown) < len(self._running):
            rows.append(make_row(("faint", f"  ... and {len(self._running) - len(shown)} more")))
        return rows

    def stop(self) -> None:
        """Forget all calls at the end of a run."""
        self._running.clear()
        self._shown.clear()

    @property
    def running(self) -> list[RunningCall]:
        """The running calls, oldest first."""
        return list(self._running.values())


def _strip_model_markup(event: ToolExecutionEnd) -> str:
    """Remove what only models need: tags, the folder of a command, and a successful exit code."""
    lines = [line for line in event.result.text.rstrip("\n").split("\n") if not _MARK.fullmatch(line)]
    if event.call.name == "shell":
        end = len(lines) - 2
        lines = [line for i, line in enumerate(lines) if i < end or not _NOTE.fullmatch(line)]
        if event.result.details:  # the number of hidden lines is shown instead
            lines = [line for line in lines if not _FILE_NOTE.fullmatch(line) and not _TRUNCATED.fullmatch(line)]
    return "\n".join(lines)


def _head(event: ToolExecutionEnd, display: ToolDisplay, about: str, columns: int) -> Row:
    is_error = event.result.is_error
    if event.status == "denied":
        sign, style, state = "-", "warn", " denied"
    elif is_error and event.result.text.rstrip().rpartition("\n")[2].startswith(_STOPPED_MARK):
        sign, style, state = "-", "warn", " stopped"
    elif is_error:
        sign, style, state = "x", "bad", " failed"
    else:
        sign, style, state = "*", "good", ""
    took = f" {format_seconds(event.seconds)}" if event.seconds >= _SLOW_SECONDS else ""
    images = f" {pluralize(display.images, 'image')}" if display.images else ""
    name = to_one_row(display.name or event.call.name, 30)
    space = columns - width(name) - len(took) - len(state) - len(images) - 4
    # The output below contains the summary in full.
    below = is_error and event.result.text.startswith(display.summary.rstrip("…"))
    summary = to_one_row(about if below else display.summary or about, space, make=escape_all)
    return make_row(
        (style, f"{sign} "), ("tool", name), " " * bool(summary), summary, (style, state), ("faint", images + took)
    )


_TODO_ROWS = 5
_TODO_MARKS = {"in_progress": "> ", "pending": "- "}


class TodoView:
    """The todo list of the agent, which stays in view while items are open."""

    def __init__(self) -> None:
        self._todos: list[tuple[str, str]] = []

    def update(self, event: object) -> None:
        """Note a new list of the agent, or forget the list of another session."""
        match event:
            case ToolExecutionEnd(call=call, result=result) if call.name == "todo_write" and not result.is_error:
                todos = cast("list[dict[str, Any]]", call.input.get("todos") or [])
                self._todos = [(str(t.get("status", "pending")), str(t.get("content", ""))) for t in todos]
            case SessionChange(reason=reason) if reason != "renamed":
                self._todos = []
            case _:
                pass

    def rows(self, columns: int, max_rows: int) -> list[Row]:
        """Return the open items, the current one first; nothing if all are done or without space."""
        still_open = [todo for todo in self._todos if todo[0] in _TODO_MARKS]
        still_open.sort(key=lambda todo: todo[0] != "in_progress")
        if not still_open or max_rows <= 0:
            return []
        done = len(self._todos) - len(still_open)
        count = f"{done} of {len(self._todos)} done"
        if max_rows == 1:
            text = to_one_row(still_open[0][1], columns - len(count) - 6)
            return [make_row(("accent", _TODO_MARKS[still_open[0][0]]), text, ("faint", f"  {count}"))]
        space = min(max_rows - 1, _TODO_ROWS)
        shown = still_open if len(still_open) <= space else still_open[: space - 1]
        rows = [make_row(("faint", f"Todos: {count}"))]
        for status, content in shown:
            style = "accent" if status == "in_progress" else "faint"
            rows.append(make_row((style, f"  {_TODO_MARKS[status]}{to_one_row(content, columns - 6)}")))
        if more := len(still_open) - len(shown):
            rows.append(make_row(("faint", f"  ... {more} more")))
        return rows


_ROWS = 30
_LIVE_ROWS = 5
_MAX_OUTPUT = 4_000


class ShellView:
    """The shell command of the user, if one is running.

    Args:
        collapsed: Stores collapsed output.
    """

    def __init__(self, collapsed: CollapsedOutput) -> None:
        self._collapsed = collapsed
        self._started: ShellStart | None = None
        self._output = ""
        self._shown = False

    def consume_shown(self) -> bool:
        """Return True once after a command was shown, so that its message for the model is not shown again."""
        shown, self._shown = self._shown, False
        return shown

    @property
    def running(self) -> bool:
        """Whether a command is running."""
        return self._started is not None

    def show(self, event: ShellStart | ShellOutput | ShellEnd, columns: int) -> list[Row]:
        """Return the rows to print for an event."""
        match event:
            case ShellStart():
                self._started, self._output, self._shown = event, "", False
                return []
            case ShellOutput(text=text):
                self._output = (self._output + text)[-_MAX_OUTPUT:]
                return []
            case ShellEnd(exit_code=code, output=output, output_file=path, stopped=stopped):
                line = self._started.line if self._started else ""
                self._started, self._shown = None, True
                rows = output_rows(output, "", "  ")
                missing = max(count_lines(path) - len(rows), 0) if path else 0
                load = partial(file_rows, path, rows, "", "  ") if path else None
                rows = self._collapsed.collapse(
                    line, rows, _ROWS, at_end=True, columns=columns, missing=missing, load=load
                )
                ended = [make_row(("bad", f"  Exit code {code}"))] if code else []
                if stopped:
                    ended = [make_row(("warn", "  Stopped"))]
                return [make_row(("accent", "! "), to_one_row(line, columns - 4, make=escape_all)), *rows, *ended]

    def live_rows(self, columns: int, spinner: str) -> list[Row]:
        """The command and the last of what it printed."""
        if self._started is None:
            return []
        head = make_row(("accent", f"{spinner} ! "), to_one_row(self._started.line, columns - 6))
        return [head, *output_rows(self._output, "faint", "  ")[-_LIVE_ROWS:]]


_INDENT = "  | "


class _Subagent(Struct):
    depth: int
    name: str
    since: float
    tools: ToolCallView
    last: str = ""


class SubagentView:
    """The subagents of a run.

    Args:
        collapsed: Stores collapsed output.
    """

    def __init__(self, collapsed: CollapsedOutput) -> None:
        self._collapsed = collapsed
        self._running: dict[str, _Subagent] = {}
        self._count = 0

    def show(self, event: SubagentStart | SubagentEvent | SubagentEnd, columns: int, now: float) -> list[Row]:
        """Return the rows to print for an event."""
        inner = event.event if isinstance(event, SubagentEvent) else event
        match inner:
            case SubagentStart():
                return self._on_start(inner, columns, now)
            case SubagentEnd():
                return self._on_end(inner, columns)
            case _:
                subagent = self._running.get(event.path[-1]) if isinstance(event, SubagentEvent) else None
                return self._on_event(subagent, inner, columns, now) if subagent is not None else []

    def _on_start(self, event: SubagentStart, columns: int, now: float) -> list[Row]:
        self._count += 1
        name = to_one_row(event.name or f"subagent {self._count}", 30)
        self._running[event.id] = _Subagent(event.depth, name, now, ToolCallView(self._collapsed))
        bar = _INDENT * (event.depth - 1)
        task = to_one_row(event.task, columns - len(bar) - width(name) - 5)
        return indent_rows([make_row(("mark", "+ "), ("tool", name), f": {task}")], bar)

    def _on_event(self, subagent: _Subagent, event: Event, columns: int, now: float) -> list[Row]:
        match event:
            case ToolExecutionStart():
                subagent.tools.on_start(event, now)
            case ToolExecutionUpdate():
                subagent.tools.on_update(event)
            case ToolExecutionEnd():
                bar = _INDENT * subagent.depth
                rows = subagent.tools.on_end(event, columns - len(bar))[:1]
                return indent_rows(self._prefix_name(subagent, rows), bar)
            case TextDelta(text=text) | ThinkingDelta(text=text):
                subagent.last = (subagent.last + text)[-400:]
            case MessageEnd():
                subagent.last = ""
            case _:
                pass
        return []

    def _prefix_name(self, subagent: _Subagent, rows: list[Row]) -> list[Row]:
        """Add the name of the subagent if several are running."""
        if len(self._running) < 2:
            return rows
        return [[*make_row(("mark", f"{truncate(subagent.name, 20)} ")), *each] for each in rows]

    def _on_end(self, event: SubagentEnd, columns: int) -> list[Row]:
        subagent, stats = self._running.pop(event.id, None), event.stats
        bar = _INDENT * (subagent.depth - 1 if subagent else 0)
        facts = ", ".join((pluralize(stats.turns, "turn"), format_total(stats.usage), format_seconds(stats.seconds)))
        good = stats.status == "completed"
        state = "done" if good else stats.status.replace("_", " ")
        rows = [
            make_row(
                ("good" if good else "bad", "+ "),
                ("tool", subagent.name if subagent else to_one_row(event.name, 30)),
                f" {state}",
                ("faint", f"  {facts}"),
            )
        ]
        if event.error:
            rows.append(make_row(("bad", f"    {to_one_row(event.error.message, max(columns - 6, 10))}")))
        return indent_rows(rows, bar)

    def live_rows(self, columns: int, now: float, spinner: str) -> list[Row]:
        """Return the rows of running subagents, with what they are doing."""
        rows: list[Row] = []
        for subagent in self._running.values():
            bar = _INDENT * (subagent.depth - 1)
            running = subagent.tools.running
            at = f"{running[-1].name} {running[-1].summary}" if running else subagent.last.strip()[-200:]
            name = subagent.name
            took = format_seconds(now - subagent.since)
            text = to_one_row(at or "Waiting for the model", columns - len(bar) - width(name) - len(took) - 5)
            parts = make_row(("mark", f"{spinner} "), ("tool", name), ("faint", f" {took} "), text)
            rows += indent_rows([parts], bar)
        return rows

    def stop(self) -> None:
        """Forget all subagents at the end of a run."""
        self._running.clear()
        self._count = 0
