"""Rows for what runs: tool calls, shell commands of the user, and subagents."""

from __future__ import annotations

import re

from msgspec import Struct, field

from mainspring.app.chat.events import (
    AnswerText,
    ChildEvent,
    ChildFinished,
    ChildStarted,
    ShellFinished,
    ShellOutput,
    ShellStarted,
    ThinkingText,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from mainspring.app.tui.diff_view import diff_rows
from mainspring.app.tui.format import format_seconds, format_usage
from mainspring.app.tui.safe_text import (
    escape_all,
    expand_tabs,
    sanitize,
    strip_emoji_modifiers,
    to_one_row,
    truncate,
    width,
)
from mainspring.app.tui.styled_text import CollapsedOutput, Row, indent_rows, make_row, output_rows
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
_SUMMARY_IS_ENOUGH = {"read_file"}
"""Tools whose output is collapsed completely."""


class RunningCall(Struct):
    """A running tool call."""

    started: ToolStarted
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

    def started(self, event: ToolStarted, now: float) -> None:
        """Note the start of a call."""
        self._running[event.id] = RunningCall(event, now)

    def progress(self, event: ToolProgress) -> None:
        """Note progress of a call."""
        if running := self._running.get(event.id):
            running.title = event.title or running.title
            running.output = (running.output + event.output)[-_MAX_PROGRESS:]

    def mark_shown(self, call_id: str) -> None:
        """Note that the approval of a call already showed its changes."""
        self._shown.add(call_id)

    def finished(self, event: ToolFinished, columns: int) -> list[Row]:
        """Return the rows of a finished call."""
        running = self._running.pop(event.id, None)
        about = (running.started.summary if running else "") or ""
        rows = [_head(event, about, columns)]
        for edit in event.edits:
            if edit.denied or edit.failed:
                text = f"    {edit.path}: {edit.applied} of {pluralize(edit.total, 'change')} applied"
                reason = f"; {edit.reason}" if edit.reason else ""
                rows.append(make_row(("warn", to_one_row(text + reason, columns - 1))))
        is_shown = event.id in self._shown and not any(edit.denied or edit.failed for edit in event.edits)
        self._shown.discard(event.id)
        if event.diffs and not is_shown:
            rows += self._collapsed.collapse(event.display, diff_rows(event.diffs, columns), _DIFF_ROWS)
        return rows + self._output(event, columns)

    def _output(self, event: ToolFinished, columns: int) -> list[Row]:
        if event.diffs and not event.is_error:
            return []
        rows = output_rows(_strip_model_markup(event), "bad" if event.is_error and not event.denied else "faint")
        if event.hidden_lines:
            rows.append(
                make_row(
                    (
                        "faint",
                        f"    ({pluralize(event.hidden_lines, 'line')} in the middle not shown)",
                    )
                )
            )
        if event.name in _SUMMARY_IS_ENOUGH and not event.is_error:
            self._collapsed.keep(f"{event.display} {event.summary}", rows)
            return []
        max_rows = _ERROR_ROWS if event.is_error else _OUTPUT_ROWS
        title = f"{event.display} {event.summary}"
        return self._collapsed.collapse(title, rows, max_rows, at_end=event.name == "shell", columns=columns)

    def live(self, columns: int, now: float, spinner: str) -> list[Row]:
        """Return the rows of running calls."""
        rows: list[Row] = []
        shown = self.running[:_MAX_LIVE]
        for running in shown:
            started = running.started
            took = f" {format_seconds(now - running.since)}" if now - running.since >= _SLOW_SECONDS else ""
            name = to_one_row(started.display, 30)
            space = columns - width(name) - len(took) - 5
            summary = to_one_row(running.title or started.summary, space, make=escape_all)
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


def _strip_model_markup(event: ToolFinished) -> str:
    """Remove what only models need: tags, the folder of a command, and a successful exit code."""
    lines = [line for line in event.output.rstrip("\n").split("\n") if not _MARK.fullmatch(line)]
    if event.name == "shell":
        end = len(lines) - 2
        lines = [line for i, line in enumerate(lines) if i < end or not _NOTE.fullmatch(line)]
    return "\n".join(lines)


def _head(event: ToolFinished, about: str, columns: int) -> Row:
    if event.denied:
        sign, style, state = "-", "warn", " denied"
    elif event.is_error:
        sign, style, state = "x", "bad", " failed"
    else:
        sign, style, state = "*", "good", ""
    took = f" {format_seconds(event.seconds)}" if event.seconds >= _SLOW_SECONDS else ""
    images = f" {pluralize(event.images, 'image')}" if event.images else ""
    name = to_one_row(event.display, 30)
    space = columns - width(name) - len(took) - len(state) - len(images) - 4
    below = event.is_error and event.output.startswith(
        event.summary.rstrip("…")
    )  # the output below contains it in full
    summary = to_one_row(about if below else event.summary or about, space, make=escape_all)
    return make_row(
        (style, f"{sign} "), ("tool", name), " " * bool(summary), summary, (style, state), ("faint", images + took)
    )


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
        self._started: ShellStarted | None = None
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

    def show(self, event: ShellStarted | ShellOutput | ShellFinished, columns: int) -> list[Row]:
        """Return the rows to print for an event."""
        match event:
            case ShellStarted():
                self._started, self._output, self._shown = event, "", False
                return []
            case ShellOutput(text=text):
                self._output = (self._output + text)[-_MAX_OUTPUT:]
                return []
            case ShellFinished(exit_code=code, output=output):
                line = self._started.line if self._started else ""
                self._started, self._shown = None, True
                rows = self._collapsed.collapse(line, output_rows(output, "", "  "), _ROWS, at_end=True)
                ended = [make_row(("bad", f"  Exit code {code}"))] if code else []
                return [make_row(("accent", "! "), to_one_row(line, columns - 4, make=escape_all)), *rows, *ended]

    def live(self, columns: int, spinner: str) -> list[Row]:
        """The command and the last of what it printed."""
        if self._started is None:
            return []
        head = make_row(("accent", f"{spinner} ! "), to_one_row(self._started.line, columns - 6))
        return [head, *output_rows(self._output, "faint", "  ")[-_LIVE_ROWS:]]


_INDENT = "  | "


class _Child(Struct):
    started: ChildStarted
    name: str
    since: float
    tools: ToolCallView
    last: str = ""
    calls: int = field(default=0)


class SubagentView:
    """The subagents of a run.

    Args:
        collapsed: Stores collapsed output.
    """

    def __init__(self, collapsed: CollapsedOutput) -> None:
        self._collapsed = collapsed
        self._running: dict[str, _Child] = {}
        self._count = 0

    def started(self, event: ChildStarted, columns: int, now: float) -> list[Row]:
        """Return the rows for the start of a subagent."""
        self._count += 1
        name = to_one_row(event.name or f"subagent {self._count}", 30)
        self._running[event.id] = _Child(event, name, now, ToolCallView(self._collapsed))
        bar = _INDENT * (event.depth - 1)
        task = to_one_row(event.task, columns - len(bar) - width(name) - 5)
        return indent_rows([make_row(("mark", "+ "), ("tool", name), f": {task}")], bar)

    def on_event(self, event: ChildEvent, columns: int, now: float) -> list[Row]:
        """Return the rows for an event of a subagent."""
        child = self._running.get(event.id)
        if child is None:
            return []
        match event.event:
            case ToolStarted() as started:
                child.tools.started(started, now)
                child.calls += 1
            case ToolProgress() as progress:
                child.tools.progress(progress)
            case ToolFinished() as finished:
                bar = _INDENT * child.started.depth
                rows = child.tools.finished(finished, columns - len(bar))[:1]
                return indent_rows(self._named(child, rows), bar)
            case AnswerText(text=text) | ThinkingText(text=text):
                child.last = (child.last + text)[-400:]
            case _:
                child.last = ""
        return []

    def _named(self, child: _Child, rows: list[Row]) -> list[Row]:
        """Add the name of the subagent if several are running."""
        if len(self._running) < 2:
            return rows
        return [[*make_row(("mark", f"{truncate(child.name, 20)} ")), *each] for each in rows]

    def finished(self, event: ChildFinished, columns: int) -> list[Row]:
        """Return the rows for the end of a subagent."""
        child = self._running.pop(event.id, None)
        bar = _INDENT * (child.started.depth - 1 if child else 0)
        turns = pluralize(event.turns, "turn")
        facts = ", ".join([turns, format_usage(event.tokens, event.cost), format_seconds(event.seconds)])
        good = event.status == "completed"
        state = "done" if good else event.status.replace("_", " ")
        rows = [
            make_row(
                ("good" if good else "bad", "+ "),
                ("tool", child.name if child else to_one_row(event.name, 30)),
                f" {state}",
                ("faint", f"  {facts}"),
            )
        ]
        if event.error:
            rows.append(make_row(("bad", f"    {to_one_row(event.error, max(columns - 6, 10))}")))
        return indent_rows(rows, bar)

    def live(self, columns: int, now: float, spinner: str) -> list[Row]:
        """Return the rows of running subagents, with what they are doing."""
        rows: list[Row] = []
        for child in self._running.values():
            bar = _INDENT * (child.started.depth - 1)
            running = child.tools.running
            at = (
                f"{running[-1].started.display} {running[-1].started.summary}" if running else child.last.strip()[-200:]
            )
            name = child.name
            took = format_seconds(now - child.since)
            text = to_one_row(at or "Waiting for the model", columns - len(bar) - width(name) - len(took) - 5)
            parts = make_row(("mark", f"{spinner} "), ("tool", name), ("faint", f" {took} "), text)
            rows += indent_rows([parts], bar)
        return rows

    def stop(self) -> None:
        """Forget all subagents at the end of a run."""
        self._running.clear()
        self._count = 0
