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
from mainspring.app.tui.collapsed_output import Folds
from mainspring.app.tui.format import seconds, spent
from mainspring.app.tui.safe_text import cut, one_row, width
from mainspring.app.tui.styled_text import Row, indented, row
from mainspring.app.tui.tool_calls import Tools
from mainspring.text import counted

_BAR = "  | "


class _Child(Struct):
    started: ChildStarted
    name: str
    since: float
    tools: Tools
    last: str = ""
    calls: int = field(default=0)


class Children:
    """The sub-agents of a run.

    Args:
        folds: Keeps what is too long.
    """

    def __init__(self, folds: Folds) -> None:
        self._folds = folds
        self._running: dict[str, _Child] = {}
        self._count = 0

    def started(self, event: ChildStarted, columns: int, now: float) -> list[Row]:
        """One begins."""
        self._count += 1
        name = one_row(event.name or f"sub-agent {self._count}", 30)
        self._running[event.id] = _Child(event, name, now, Tools(self._folds))
        bar = _BAR * (event.depth - 1)
        task = one_row(event.task, columns - len(bar) - width(name) - 5)
        return indented([row(("mark", "+ "), ("tool", name), f": {task}")], bar)

    def happened(self, event: ChildEvent, columns: int, now: float) -> list[Row]:
        """Something happened in one: what to print."""
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
                bar = _BAR * child.started.depth
                rows = child.tools.finished(finished, columns - len(bar))[:1]
                return indented(self._named(child, rows), bar)
            case AnswerText(text=text) | ThinkingText(text=text):
                child.last = (child.last + text)[-400:]
            case _:
                child.last = ""
        return []

    def _named(self, child: _Child, rows: list[Row]) -> list[Row]:
        """The rows with the name of their agent, where several run at once."""
        if len(self._running) < 2:
            return rows
        return [[*row(("mark", f"{cut(child.name, 20)} ")), *each] for each in rows]

    def finished(self, event: ChildFinished, columns: int) -> list[Row]:
        """One is over."""
        child = self._running.pop(event.id, None)
        bar = _BAR * (child.started.depth - 1 if child else 0)
        turns = counted(event.turns, "turn")
        told = ", ".join([turns, spent(event.tokens, event.cost), seconds(event.seconds)])
        good = event.status == "completed"
        state = "done" if good else event.status.replace("_", " ")
        rows = [
            row(
                ("good" if good else "bad", "+ "),
                ("tool", child.name if child else one_row(event.name, 30)),
                f" {state}",
                ("faint", f"  {told}"),
            )
        ]
        if event.error:
            rows.append(row(("bad", f"    {one_row(event.error, max(columns - 6, 10))}")))
        return indented(rows, bar)

    def live(self, columns: int, now: float, spinner: str) -> list[Row]:
        """Those that run, with what they are at."""
        rows: list[Row] = []
        for child in self._running.values():
            bar = _BAR * (child.started.depth - 1)
            running = child.tools.running
            at = (
                f"{running[-1].started.display} {running[-1].started.summary}" if running else child.last.strip()[-200:]
            )
            name = child.name
            took = seconds(now - child.since)
            text = one_row(at or "waiting for the model", columns - len(bar) - width(name) - len(took) - 5)
            parts = row(("mark", f"{spinner} "), ("tool", name), ("faint", f" {took} "), text)
            rows += indented([parts], bar)
        return rows

    def stop(self) -> None:
        """None runs any more."""
        self._running.clear()
        self._count = 0
