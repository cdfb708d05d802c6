"""Tool calls: a row or two while they run, their result when they are done.

Shell commands of the user's own.
"""

from __future__ import annotations

import re

from msgspec import Struct

from mainspring.app.chat.events import ShellFinished, ShellOutput, ShellStarted, ToolFinished, ToolProgress, ToolStarted
from mainspring.app.tui.collapsed_output import CollapsedOutput, output_rows
from mainspring.app.tui.diff_view import diff_rows
from mainspring.app.tui.format import format_seconds
from mainspring.app.tui.safe_text import (
    escape_all,
    expand_tabs,
    sanitize,
    strip_emoji_modifiers,
    to_one_row,
    truncate,
    width,
)
from mainspring.app.tui.styled_text import Row, make_row
from mainspring.text import pluralize

_PROGRESS_ROWS = 3
_MOST_PROGRESS = 4_000
_OUTPUT_ROWS = 5
_ERROR_ROWS = 8
_DIFF_ROWS = 40
_MOST_LIVE = 8
_SLOW_SECONDS = 1.0
_MARK = re.compile(r"</?context-output\b[^<>]*>")
_NOTE = re.compile(r"\[in [^\n]*\]|\(exit 0, \d+ms\)")
_SUMMARY_IS_ENOUGH = {"read_file"}
"""Tools whose output people know, or can look up: it is at hand, but not shown."""


class RunningCall(Struct):
    """A call that runs."""

    started: ToolStarted
    since: float
    title: str = ""
    output: str = ""


class ToolCallView:
    """The calls of one agent.

    Args:
        folds: Keeps what is too long.
    """

    def __init__(self, folds: CollapsedOutput) -> None:
        self._folds = folds
        self._run_agent: dict[str, RunningCall] = {}
        self._seen: set[str] = set()

    def started(self, event: ToolStarted, now: float) -> None:
        """A call is taken up."""
        self._run_agent[event.id] = RunningCall(event, now)

    def progress(self, event: ToolProgress) -> None:
        """A call tells how far it is."""
        if running := self._run_agent.get(event.id):
            running.title = event.title or running.title
            running.output = (running.output + event.output)[-_MOST_PROGRESS:]

    def seen(self, call_id: str) -> None:
        """The changes of a call have been shown already, with the question whether to make them."""
        self._seen.add(call_id)

    def finished(self, event: ToolFinished, columns: int) -> list[Row]:
        """A call is over: what to print."""
        running = self._run_agent.pop(event.id, None)
        about = (running.started.summary if running else "") or ""
        rows = [_head(event, about, columns)]
        for edit in event.edits:
            if edit.denied or edit.failed:
                told = f"    {edit.path}: {edit.applied} of {pluralize(edit.total, 'change')} applied"
                reason = f"; {edit.reason}" if edit.reason else ""
                rows.append(make_row(("warn", to_one_row(told + reason, columns - 1))))
        seen = event.id in self._seen and not any(edit.denied or edit.failed for edit in event.edits)
        self._seen.discard(event.id)
        if event.diffs and not seen:
            rows += self._folds.fold(event.display, diff_rows(event.diffs, columns), _DIFF_ROWS)
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
                        f"    ({pluralize(event.hidden_lines, 'line in its middle is', 'lines in its middle are')} not shown)",
                    )
                )
            )
        if event.name in _SUMMARY_IS_ENOUGH and not event.is_error:
            self._folds.keep(f"{event.display} {event.summary}", rows)
            return []
        most = _ERROR_ROWS if event.is_error else _OUTPUT_ROWS
        title = f"{event.display} {event.summary}"
        return self._folds.fold(title, rows, most, at_end=event.name == "shell", columns=columns)

    def live(self, columns: int, now: float, spinner: str) -> list[Row]:
        """The calls that run."""
        rows: list[Row] = []
        shown = self.running[:_MOST_LIVE]
        for running in shown:
            started = running.started
            took = f" {format_seconds(now - running.since)}" if now - running.since >= _SLOW_SECONDS else ""
            name = to_one_row(started.display, 30)
            room = columns - width(name) - len(took) - 5
            summary = to_one_row(running.title or started.summary, room, make=escape_all)
            rows.append(make_row(("accent", f"{spinner} "), ("tool", name), " ", summary, ("faint", took)))
            lines = [
                line
                for line in expand_tabs(strip_emoji_modifiers(sanitize(running.output))).split("\n")
                if line.strip()
            ]
            rows += [make_row(("faint", f"    {truncate(line, columns - 5)}")) for line in lines[-_PROGRESS_ROWS:]]
        if len(shown) < len(self._run_agent):
            rows.append(make_row(("faint", f"  ... and {len(self._run_agent) - len(shown)} more")))
        return rows

    def stop(self) -> None:
        """Nothing runs any more."""
        self._run_agent.clear()
        self._seen.clear()

    @property
    def running(self) -> list[RunningCall]:
        """The calls that run, in the order in which they began."""
        return list(self._run_agent.values())


def _strip_model_markup(event: ToolFinished) -> str:
    """The output without what only models need: marks around it, where a command ran, and that it went well."""
    lines = [line for line in event.output.rstrip("\n").split("\n") if not _MARK.fullmatch(line)]
    if event.name == "shell":
        end = len(lines) - 2
        lines = [line for i, line in enumerate(lines) if i < end or not _NOTE.fullmatch(line)]
    return "\n".join(lines)


def _head(event: ToolFinished, about: str, columns: int) -> Row:
    if event.denied:
        sign, style, state = "-", "warn", " not permitted"
    elif event.is_error:
        sign, style, state = "x", "bad", " failed"
    else:
        sign, style, state = "*", "good", ""
    took = f" {format_seconds(event.seconds)}" if event.seconds >= _SLOW_SECONDS else ""
    images = f" {pluralize(event.images, 'image')}" if event.images else ""
    name = to_one_row(event.display, 30)
    room = columns - width(name) - len(took) - len(state) - len(images) - 4
    below = event.is_error and event.output.startswith(event.summary.rstrip("…"))  # where it stands in full
    said = about if below else event.summary or about
    summary = to_one_row(said, room, make=escape_all)
    return make_row(
        (style, f"{sign} "), ("tool", name), " " * bool(summary), summary, (style, state), ("faint", images + took)
    )


_ROWS = 30
_LIVE_ROWS = 5
_MOST = 4_000


class ShellView:
    """The one that runs, if one does.

    Args:
        folds: Keeps what is too long.
    """

    def __init__(self, folds: CollapsedOutput) -> None:
        self._folds = folds
        self._started: ShellStarted | None = None
        self._output = ""
        self._shown = False

    def consume_shown(self) -> bool:
        """Whether one was shown that the model is only now told of; asked once for each."""
        shown, self._shown = self._shown, False
        return shown

    @property
    def running(self) -> bool:
        """Whether one runs."""
        return self._started is not None

    def show(self, event: ShellStarted | ShellOutput | ShellFinished, columns: int) -> list[Row]:
        """What to print."""
        match event:
            case ShellStarted():
                self._started, self._output, self._shown = event, "", False
                return []
            case ShellOutput(text=text):
                self._output = (self._output + text)[-_MOST:]
                return []
            case ShellFinished(exit_code=code, output=output):
                line = self._started.line if self._started else ""
                self._started, self._shown = None, True
                rows = self._folds.fold(line, output_rows(output, "", "  "), _ROWS, at_end=True)
                ended = [make_row(("bad", f"  exit code {code}"))] if code else []
                return [make_row(("accent", "! "), to_one_row(line, columns - 4, make=escape_all)), *rows, *ended]

    def live(self, columns: int, spinner: str) -> list[Row]:
        """The command and the last of what it printed."""
        if self._started is None:
            return []
        head = make_row(("accent", f"{spinner} ! "), to_one_row(self._started.line, columns - 6))
        return [head, *output_rows(self._output, "faint", "  ")[-_LIVE_ROWS:]]
