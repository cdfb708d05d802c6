"""Sub-agents: what they do stands indented under their names, in the order in which it happens."""

from __future__ import annotations

from msgspec import Struct, field

from mainspring.app.chat.events import (
    AnswerText,
    ChildEvent,
    ChildFinished,
    ChildStarted,
    ThinkingText,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from mainspring.app.tui.collapsed_output import CollapsedOutput
from mainspring.app.tui.format import format_seconds, format_usage
from mainspring.app.tui.safe_text import to_one_row, truncate, width
from mainspring.app.tui.styled_text import Row, indent_rows, make_row
from mainspring.app.tui.tool_calls import ToolCallView
from mainspring.text import pluralize

_INDENT = "  | "


class _Child(Struct):
    started: ChildStarted
    name: str
    since: float
    tools: ToolCallView
    last: str = ""
    calls: int = field(default=0)


class SubagentView:
    """The sub-agents of a run.

    Args:
        folds: Keeps what is too long.
    """

    def __init__(self, folds: CollapsedOutput) -> None:
        self._folds = folds
        self._run_agent: dict[str, _Child] = {}
        self._count = 0

    def started(self, event: ChildStarted, columns: int, now: float) -> list[Row]:
        """One begins."""
        self._count += 1
        name = to_one_row(event.name or f"sub-agent {self._count}", 30)
        self._run_agent[event.id] = _Child(event, name, now, ToolCallView(self._folds))
        bar = _INDENT * (event.depth - 1)
        task = to_one_row(event.task, columns - len(bar) - width(name) - 5)
        return indent_rows([make_row(("mark", "+ "), ("tool", name), f": {task}")], bar)

    def on_event(self, event: ChildEvent, columns: int, now: float) -> list[Row]:
        """Something happened in one: what to print."""
        child = self._run_agent.get(event.id)
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
        """The rows with the name of their agent, where several run at once."""
        if len(self._run_agent) < 2:
            return rows
        return [[*make_row(("mark", f"{truncate(child.name, 20)} ")), *each] for each in rows]

    def finished(self, event: ChildFinished, columns: int) -> list[Row]:
        """One is over."""
        child = self._run_agent.pop(event.id, None)
        bar = _INDENT * (child.started.depth - 1 if child else 0)
        turns = pluralize(event.turns, "turn")
        told = ", ".join([turns, format_usage(event.tokens, event.cost), format_seconds(event.seconds)])
        good = event.status == "completed"
        state = "done" if good else event.status.replace("_", " ")
        rows = [
            make_row(
                ("good" if good else "bad", "+ "),
                ("tool", child.name if child else to_one_row(event.name, 30)),
                f" {state}",
                ("faint", f"  {told}"),
            )
        ]
        if event.error:
            rows.append(make_row(("bad", f"    {to_one_row(event.error, max(columns - 6, 10))}")))
        return indent_rows(rows, bar)

    def live(self, columns: int, now: float, spinner: str) -> list[Row]:
        """Those that run, with what they are at."""
        rows: list[Row] = []
        for child in self._run_agent.values():
            bar = _INDENT * (child.started.depth - 1)
            running = child.tools.running
            at = (
                f"{running[-1].started.display} {running[-1].started.summary}" if running else child.last.strip()[-200:]
            )
            name = child.name
            took = format_seconds(now - child.since)
            text = to_one_row(at or "waiting for the model", columns - len(bar) - width(name) - len(took) - 5)
            parts = make_row(("mark", f"{spinner} "), ("tool", name), ("faint", f" {took} "), text)
            rows += indent_rows([parts], bar)
        return rows

    def stop(self) -> None:
        """None runs any more."""
        self._run_agent.clear()
        self._count = 0
