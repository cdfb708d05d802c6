"""Events of a chat as rows: those that are printed for good, and those that change until they are."""

from __future__ import annotations

from typing import Literal

from mainspring.app.chat import events as told
from mainspring.app.tui.activity_view import ShellView, SubagentView, ToolCallView
from mainspring.app.tui.diff_view import diff_rows
from mainspring.app.tui.event_rows import event_rows
from mainspring.app.tui.format import format_seconds, format_usage
from mainspring.app.tui.safe_text import sanitize, strip_emoji_modifiers, to_one_row, truncate
from mainspring.app.tui.streaming_markdown import Answer
from mainspring.app.tui.styled_text import CollapsedOutput, Row, make_row, output_rows, wrap_rows
from mainspring.app.tui.theme import Theme
from mainspring.text import pluralize

_SPINNER = "\u280b\u2819\u2839\u2838\u283c\u2834\u2826\u2827\u2807\u280f"
_ASCII_SPINNER = "|/-\\"
_USER_ROWS = 12
_QUESTION_DIFF_ROWS = 200
_SPINNER_FPS = 8.0
_DECISIONS = {
    "once": "allowed once",
    "session": "allowed for this session",
    "edits": "allowed, with all edits in this project this session",
    "always": "always allowed in this project",
    "everywhere": "always allowed in every project",
    "edit": "allowed as changed",
    "deny": "not allowed",
    "never": "never allowed in this project",
    "aborted": "not answered: the run was stopped",
}
_STATUS_TEXTS = {
    "aborted": "stopped",
    "denied": "ended at what was not permitted",
    "max_turns": "the limit of model calls is reached",
    "max_tokens": "the limit of tokens is reached",
    "max_seconds": "the limit of time is reached",
    "max_cost": "the limit of money is reached",
    "paused": "paused",
}
_MIN_SECONDS_FOR_SUMMARY = 5.0
_NON_BREAKING_EVENTS = (
    told.CommandDone,
    told.Notice,
    told.Refused,
    told.ShellStarted,
    told.ShellOutput,
    told.ShellFinished,
    told.ApprovalSettled,
    told.QuestionSettled,
)
"""Events that may come in the middle of an answer, which then goes on."""

BlockKind = Literal["", "user", "text", "tool", "command", "other"]


class TranscriptView:
    """Shows a chat.

    Args:
        look: How things are shown.
        columns: How wide the screen is; set it when that changes.
        rows: How high it is.
    """

    def __init__(self, look: Theme, columns: int, rows: int) -> None:
        self.look = look
        self.columns = columns
        self.rows = rows
        self.folds = CollapsedOutput()
        self._answer = Answer(look)
        self._tools = ToolCallView(self.folds)
        self._children = SubagentView(self.folds)
        self._last: BlockKind = ""
        self._blank = True
        self._thinking = ""
        self._thinking_since = 0.0
        self._working = ""
        self._since: float | None = None
        self._shell = ShellView(self.folds)

    def show(self, event: told.ChatEvent, now: float) -> list[Row]:
        """Take an event; the rows to print."""
        match event:
            case told.AnswerText(text=text):
                self._thinking = ""
                return self._with_separator("text", self._answer.feed(text, self.columns, self._tail_rows()))
            case told.AnswerEnd(text=text):
                whole = [] if self._answer.begun else self._answer.feed(text, self.columns, self._tail_rows())
                return self._with_separator("text", whole + self._answer.close(self.columns))
            case told.ToolProgress():
                self._tools.progress(event)
                return []
            case told.ThinkingText(text=text):
                self._thinking_since = self._thinking_since or now
                self._thinking = (self._thinking + text)[-20_000:]
                return []
            case told.ChildStarted() | told.ChildEvent() | told.ChildFinished():
                return self._with_separator("tool", self._child(event, now))
            case told.RunStarted():
                self._since = now
                return []
            case told.Working(message=message):
                self._working = message
                return []
            case _:
                return self._add_between_answers(event, now)

    def _add_between_answers(self, event: told.ChatEvent, now: float) -> list[Row]:
        """What stands between answers: an answer that is open ends before it."""
        match event:
            case told.StatusChanged() | told.QueueChanged() | told.ReplayStarted() | told.ReplayFinished():
                return []
            case told.ToolStarted():
                self._tools.started(event, now)
                rows: list[Row] = []
                kind: BlockKind = "tool"
            case told.ToolFinished():
                rows, kind = self._tools.finished(event, self.columns), "tool"
            case told.UserText():
                rows, kind = self._user(event), "user"
            case told.ThinkingEnd(text=text):
                rows, kind = self._on_thinking_end(text, now), "other"
            case told.ApprovalAsked():
                rows, kind = self._approval(event), "tool"
            case told.ApprovalSettled(decision=decision):
                rows, kind = [make_row(("faint", f"    {_DECISIONS.get(decision, decision)}"))], "tool"
            case told.RunFinished():
                rows, kind = self._finished(event), "other"
            case told.ShellStarted() | told.ShellOutput() | told.ShellFinished():
                rows, kind = self._shell.show(event, self.columns), "other"
            case _:
                kind = "command" if isinstance(event, told.CommandDone) else "other"
                rows = event_rows(event, self.columns, self._markdown, self.folds)
        ends = self._answer.begun and not isinstance(
            event, _NON_BREAKING_EVENTS
        )  # what stands beside is printed above the open part
        closed = self._with_separator("text", self._answer.close(self.columns)) if ends else []
        return closed + self._with_separator(kind, rows)

    def live(self, now: float, most: int) -> list[Row]:
        """What is not finished: at most so many rows, the last of them."""
        spinner = self._spinner(now)
        rows = [*self._children.live(self.columns, now, spinner), *self._tools.live(self.columns, now, spinner)]
        rows += self._shell.live(self.columns, spinner)
        if self._thinking.strip():
            rows += [make_row(("faint", truncate(line, self.columns - 1))) for line in self._thinking_rows()]
        if self._since is not None:
            message = to_one_row(self._working or "working", max(self.columns - 30, 10))
            parts = make_row(
                ("accent", f"{spinner} "), message, ("faint", f"  {format_seconds(now - self._since)}  Esc stops")
            )
            rows.append(parts)
        room = max(most - len(rows) - 1, 0)
        tail = self._answer.tail(self.columns, room)
        gap: list[Row] = [[]] if tail and not self._blank and self._last != "text" else []
        return [*gap, *tail, *rows][-most:] if most > 0 else []

    def set_theme(self, look: Theme) -> None:
        """Show in other colours from now on."""
        self.look = look
        self._answer = Answer(look)

    @property
    def busy(self) -> bool:
        """Whether something moves."""
        return self._since is not None or self._shell.running or bool(self._tools.running)

    @property
    def is_last_row_blank(self) -> bool:
        """Whether what was printed last is an empty row."""
        return self._blank

    def _tail_rows(self) -> int:
        return max(self.rows - 8, 4)

    def _spinner(self, now: float) -> str:
        frames = _SPINNER if self.look.utf8 else _ASCII_SPINNER
        return frames[int(now * _SPINNER_FPS) % len(frames)]

    def _thinking_rows(self) -> list[str]:
        lines = [line for line in strip_emoji_modifiers(sanitize(self._thinking[-2_000:])).split("\n") if line.strip()]
        return [f"  {line.strip()}"[-(self.columns - 1) :] for line in lines[-2:]]

    def _markdown(self, text: str) -> list[Row]:
        rows = self._answer.whole(text, self.columns)
        return rows[:-1] if rows and not rows[-1] else rows

    def _with_separator(self, kind: BlockKind, rows: list[Row]) -> list[Row]:
        """The rows, with an empty one before them where something else stood before."""
        if not rows:
            return []
        before: list[Row] = [[]] if not self._blank and (self._last != kind or kind in {"user", "command"}) else []
        self._last = kind
        self._blank = not rows[-1]
        return before + rows

    def _child(self, event: told.ChildStarted | told.ChildEvent | told.ChildFinished, now: float) -> list[Row]:
        match event:
            case told.ChildStarted():
                return self._children.started(event, self.columns, now)
            case told.ChildEvent():
                return self._children.on_event(event, self.columns, now)
            case _:
                return self._children.finished(event, self.columns)

    def _user(self, event: told.UserText) -> list[Row]:
        if event.source == "shell" and self._shell.consume_shown():
            return []
        if event.source == "notice":
            return wrap_rows(output_rows(event.text, "faint", ""), self.columns)
        lines = wrap_rows(output_rows(event.text, "user", ""), self.columns - 2)
        rows = [[("class:prompt", "> " if i == 0 else "  "), *each] for i, each in enumerate(lines)]
        if event.attachments:
            rows.append(make_row(("faint", f"  {event.attachments} attached")))
        if event.source in {"steer", "queue"} and rows:
            rows[0] = [*rows[0], *make_row(("faint", "  (steers)" if event.source == "steer" else "  (was queued)"))]
        return self.folds.fold("what you said", rows, _USER_ROWS)

    def _on_thinking_end(self, text: str, now: float) -> list[Row]:
        whole = text or self._thinking
        took = now - self._thinking_since if self._thinking_since else 0.0
        self._thinking, self._thinking_since = "", 0.0
        if not whole.strip():
            return []
        self.folds.keep("reasoning", output_rows(whole, "faint", "  "))
        return [make_row(("faint", f"reasoned for {format_seconds(took)} (Ctrl-O shows it)"))]

    def _approval(self, event: told.ApprovalAsked) -> list[Row]:
        if not event.diffs:
            return []
        self._tools.seen(event.call_id)
        rows = diff_rows(event.diffs, self.columns)
        return self.folds.fold(f"{event.display} {event.resource}", rows, _QUESTION_DIFF_ROWS)

    def _finished(self, event: told.RunFinished) -> list[Row]:
        self._since, self._working, self._thinking = None, "", ""
        self._tools.stop()
        self._children.stop()
        rows: list[Row] = []
        if event.error:
            rows += wrap_rows(output_rows(f"error: {event.error}", "bad", ""), self.columns)
            rows += wrap_rows(output_rows(event.hint, "faint", ""), self.columns)
        elif event.status != "completed":
            rows += output_rows(_STATUS_TEXTS.get(event.status, event.status.replace("_", " ")), "warn", "")
        if event.seconds >= _MIN_SECONDS_FOR_SUMMARY or event.turns > 1:
            turns = pluralize(event.turns, "model call")
            told_of = ", ".join((format_seconds(event.seconds), turns, format_usage(event.tokens, event.cost)))
            rows += wrap_rows([make_row(("faint", told_of))], self.columns)
        return rows
