"""Turns the events of a chat into rows: finished ones to print, and live ones to redraw."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from mainspring.app.chat import events as chat_events
from mainspring.app.tui.activity_view import ShellView, SubagentView, TodoView, ToolCallView
from mainspring.app.tui.diff_view import diff_rows
from mainspring.app.tui.event_rows import event_rows
from mainspring.app.tui.format import format_seconds, format_tokens, format_total
from mainspring.app.tui.safe_text import sanitize, strip_emoji_modifiers, to_one_row, truncate, width
from mainspring.app.tui.streaming_markdown import ResponseRenderer
from mainspring.app.tui.styled_text import CollapsedOutput, Row, make_row, output_rows, wrap_row, wrap_rows
from mainspring.app.tui.theme import Theme
from mainspring.events import (
    AgentEnd,
    AgentStart,
    ApprovalRequest,
    ApprovalResult,
    MessageEnd,
    ModelCallRetry,
    Notice,
    SubagentEnd,
    SubagentEvent,
    SubagentStart,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from mainspring.events.base import STOP_DESCRIPTIONS
from mainspring.lazy import lazy_function
from mainspring.messages import Message
from mainspring.text import pluralize

if TYPE_CHECKING:
    from mainspring.app.tui.markdown import MarkdownRenderer
else:  # it imports rich, which the first frame does not need
    MarkdownRenderer = lazy_function("mainspring.app.tui.markdown", "MarkdownRenderer")

_SPINNER = "\u280b\u2819\u2839\u2838\u283c\u2834\u2826\u2827\u2807\u280f"
_ASCII_SPINNER = "|/-\\"
_USER_ROWS = 12
_QUESTION_DIFF_ROWS = 200
_SPINNER_FPS = 8.0
_DECISIONS = {
    "once": "Allowed",
    "session": "Allowed for this session",
    "edits": "Allowed, with all edits in this project this session",
    "always": "Always allowed in this project",
    "everywhere": "Always allowed in every project",
    "edit": "Allowed with edited arguments",
    "deny": "Denied",
    "never": "Never allowed in this project",
    "aborted": "Cancelled: the run was stopped",
}
_MIN_SECONDS_FOR_SUMMARY = 5.0
_MAX_THINKING_PIECES = 200
_CHARS_PER_TOKEN = 4
_NON_BREAKING_EVENTS = (
    chat_events.CommandEnd,
    Notice,
    chat_events.CommandRejected,
    chat_events.ShellStart,
    chat_events.ShellOutput,
    chat_events.ShellEnd,
    ApprovalResult,
    chat_events.QuestionResult,
)
"""Events that can occur in the middle of a response, which continues after them."""

_THINKING_ENDS = (TextDelta, ToolExecutionStart, MessageEnd, AgentEnd)
"""Events that follow reasoning, which is then complete."""

BlockKind = Literal["", "user", "text", "tool", "command", "other"]


class WorkClock:
    """A clock that stops while a question waits for the user.

    Attributes:
        run_waited: The seconds of all waits of the run that have ended.
    """

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._since = 0.0
        self._waited = 0.0
        self.run_waited = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether a question waits for the user."""
        return bool(self._open)

    def start_wait(self, id: str, now: float) -> None:
        """Note a question."""
        if not self._open:
            self._since = now
        self._open.add(id)

    def end_wait(self, id: str, now: float) -> None:
        """Note the answer to a question."""
        if id in self._open:
            self._open.discard(id)
            self._add(now)

    def stop_waiting(self, now: float) -> None:
        """Forget all questions."""
        if self._open:
            self._open.clear()
            self._add(now)

    def _add(self, now: float) -> None:
        if not self._open:
            self._waited += now - self._since
            self.run_waited += now - self._since

    def to_work_time(self, now: float) -> float:
        """Return the time without the waits so far."""
        return (self._since if self._open else now) - self._waited

    def restart(self) -> None:
        """Start to count the waits of another run."""
        self.run_waited = 0.0


class TokenCounter:
    """Counts the output tokens of a run while its responses stream. The tokens of an open response are estimated from its length."""

    def __init__(self) -> None:
        self._tokens = 0
        self._open_chars = 0
        self._is_estimate = False

    def update(self, event: chat_events.ChatEvent) -> None:
        """Count the tokens of an event."""
        match event:
            case TextDelta(text=text) | ThinkingDelta(text=text):
                self._open_chars += len(text)
            case MessageEnd(message=Message(role="assistant", usage=usage)):
                has_usage = usage is not None and usage.total_tokens > 0
                self._is_estimate = self._is_estimate or not has_usage
                self._tokens += usage.output_tokens if usage is not None and has_usage else self._open_tokens
                self._open_chars = 0
            case AgentStart():
                self._tokens = self._open_chars = 0
                self._is_estimate = False
            case _:
                pass

    @property
    def _open_tokens(self) -> int:
        return math.ceil(self._open_chars / _CHARS_PER_TOKEN)

    def format(self) -> str:
        """Return the tokens so far, with ``~`` before an estimate; empty before the first token."""
        total = self._tokens + self._open_tokens
        mark = "~" if self._open_chars or self._is_estimate else ""
        return f"  {mark}{format_tokens(total)} tokens" if total else ""


class TranscriptView:
    """Shows a chat.

    Args:
        theme: The theme.
        columns: Width of the screen; update it when it changes.
        rows: Height of the screen.
        collapsed: Stores collapsed output.

    Attributes:
        todos: The todo list of the agent.
        live_response_rows: Number of the last live rows that show an open response.
    """

    def __init__(self, theme: Theme, columns: int, rows: int, collapsed: CollapsedOutput | None = None) -> None:
        self.look = theme
        self.columns = columns
        self.rows = rows
        self.collapsed = collapsed or CollapsedOutput()
        self._response = ResponseRenderer(theme, MarkdownRenderer)
        self._tools = ToolCallView(self.collapsed)
        self._subagents = SubagentView(self.collapsed)
        self._last: BlockKind = ""
        self._blank = True
        self._thinking: list[str] = []
        self._thinking_since = 0.0
        self._working = ""
        self._run_started_at: float | None = None
        self._clock = WorkClock()
        self._tokens = TokenCounter()
        self._retry_at = 0.0
        self._shell = ShellView(self.collapsed)
        self.todos = TodoView()
        self.live_response_rows = 0

    def add_event(self, event: chat_events.ChatEvent, now: float) -> list[Row]:
        """Show an event. Return the rows to print."""
        self._update_clock(event, now)
        self.todos.update(event)
        self._tokens.update(event)
        now = self._clock.to_work_time(now)
        if self._thinking and isinstance(event, _THINKING_ENDS):
            return self._end_thinking(now) + self._add(event, now)
        return self._add(event, now)

    def _update_clock(self, event: chat_events.ChatEvent, now: float) -> None:
        match event:
            case ApprovalRequest(id=id) | chat_events.QuestionRequest(id=id):
                self._clock.start_wait(id, now)
            case ApprovalResult(id=id) | chat_events.QuestionResult(id=id):
                self._clock.end_wait(id, now)
            case AgentStart() | AgentEnd():
                self._clock.stop_waiting(now)
                if isinstance(event, AgentStart):
                    self._clock.restart()
                self._retry_at = 0.0
            case ModelCallRetry(delay=delay):
                self._retry_at = self._clock.to_work_time(now) + delay
            case _:
                pass

    def _add(self, event: chat_events.ChatEvent, now: float) -> list[Row]:
        match event:
            case TextDelta(text=text):
                return self._with_separator("text", self._response.feed(text, self.columns, self._tail_rows()))
            case MessageEnd(message=Message(role="assistant", text=text)):
                complete_rows = [] if self._response.has_output else self._response.render(text, self.columns)
                return self._with_separator("text", complete_rows + self._response.close(self.columns))
            case ToolExecutionUpdate():
                self._tools.on_update(event)
                return []
            case ThinkingDelta(text=text):
                self._thinking_since = self._thinking_since or now
                self._thinking.append(text)
                return []
            case SubagentStart() | SubagentEvent() | SubagentEnd():
                return self._with_separator("tool", self._subagents.show(event, self.columns, now))
            case AgentStart():
                self._run_started_at = now
                return []
            case chat_events.WorkingChange(message=message):
                self._working = message
                return []
            case _:
                return self._add_between_answers(event, now)

    def _add_between_answers(self, event: chat_events.ChatEvent, now: float) -> list[Row]:
        """Show an event that ends an open response."""
        match event:
            case (
                chat_events.StatusChange()
                | chat_events.QueueChange()
                | chat_events.ReplayStart()
                | chat_events.ReplayEnd()
            ):
                return []
            case ToolExecutionStart():
                self._tools.on_start(event, now)
                rows: list[Row] = []
                kind: BlockKind = "tool"
            case ToolExecutionEnd():
                rows, kind = self._tools.on_end(event, self.columns), "tool"
            case MessageEnd():
                rows, kind = self._user(event), "user"
            case ApprovalRequest():
                rows, kind = self._approval(event), "tool"
            case ApprovalResult(decision="deny"):
                return []  # the row of the call reports it
            case ApprovalResult(decision=decision):
                rows, kind = [make_row(("faint", f"    {_DECISIONS.get(decision, decision)}"))], "tool"
            case AgentEnd():
                rows, kind = self._finished(event), "other"
            case chat_events.ShellStart() | chat_events.ShellOutput() | chat_events.ShellEnd():
                rows, kind = self._shell.show(event, self.columns), "command"
            case _:
                kind = "command" if isinstance(event, chat_events.CommandEnd) else "other"
                rows = event_rows(event, self.columns, self._markdown, self.collapsed)
        # Other events are printed above the open response.
        closed = [] if isinstance(event, _NON_BREAKING_EVENTS) else self.close_response()
        return closed + self._with_separator(kind, rows)

    def close_response(self) -> list[Row]:
        """Return the rows of an open response that are not printed yet."""
        return self._with_separator("text", self._response.close(self.columns)) if self._response.has_output else []

    def live_rows(self, now: float, max_rows: int) -> list[Row]:
        """Return the live rows, at most ``max_rows`` of them."""
        is_waiting = self._clock.is_waiting
        now = self._clock.to_work_time(now)
        spinner = "?" if is_waiting else self._spinner(now)
        rows = [
            *self._subagents.live_rows(self.columns, now, spinner),
            *self._tools.live_rows(self.columns, now, spinner),
        ]
        rows += self._shell.live_rows(self.columns, spinner)
        if self._thinking:
            rows += [make_row(("faint", truncate(line, self.columns - 1))) for line in self._thinking_rows()]
        if self._run_started_at is not None:
            rows.append(self._working_row(now, spinner, self._run_started_at))
        space = max(max_rows - len(rows) - 1, 0)
        tail = self._response.tail(self.columns, space)
        if tail and not self._blank and self._last != "text":
            tail = [[], *tail]
        shown = [*tail, *rows][-max_rows:] if max_rows > 0 else []
        self.live_response_rows = max(len(shown) - len(rows), 0)
        return shown

    def _working_row(self, now: float, spinner: str, started_at: float) -> Row:
        took = f"  {format_seconds(now - started_at)}{self._tokens.format()}"
        if self._clock.is_waiting:
            return make_row(("warn", f"{spinner} Waiting for you"), ("faint", took))
        if self._retry_at > now:
            message = f"Retrying in {math.ceil(self._retry_at - now)}s"
        else:
            message = to_one_row(f"{(self._working or 'Working').rstrip('.')}...", max(self.columns - 17, 10))
        stop = "  Esc to stop"
        is_narrow = width(spinner + message + took + stop) + 2 >= self.columns
        return make_row(("accent", f"{spinner} "), message, ("faint", took + ("" if is_narrow else stop)))

    def set_theme(self, theme: Theme) -> None:
        """Change the theme."""
        self.look = theme
        self._response.set_theme(theme)

    def to_work_seconds(self, seconds: float) -> float:
        """Return the seconds of the run without its waits for the user."""
        return max(seconds - self._clock.run_waited, 0.0)

    @property
    def is_waiting(self) -> bool:
        """Whether a run waits for an answer of the user."""
        return self._run_started_at is not None and self._clock.is_waiting

    @property
    def busy(self) -> bool:
        """Whether a run, a tool call, or a shell command is in progress."""
        return self._run_started_at is not None or self._shell.running or bool(self._tools.running)

    @property
    def is_last_row_blank(self) -> bool:
        """Whether the last printed row is empty."""
        return self._blank

    def _tail_rows(self) -> int:
        return max(self.rows - 8, 4)

    def _spinner(self, now: float) -> str:
        frames = _SPINNER if self.look.utf8 else _ASCII_SPINNER
        return frames[int(now * _SPINNER_FPS) % len(frames)]

    def _thinking_rows(self) -> list[str]:
        tail = "".join(self._thinking[-_MAX_THINKING_PIECES:])[-2_000:]
        lines = [line for line in strip_emoji_modifiers(sanitize(tail)).split("\n") if line.strip()]
        return [f"  {line.strip()}"[-(self.columns - 1) :] for line in lines[-2:]]

    def _markdown(self, text: str) -> list[Row]:
        rows = self._response.render(text, self.columns)
        return rows[:-1] if rows and not rows[-1] else rows

    def _with_separator(self, kind: BlockKind, rows: list[Row]) -> list[Row]:
        """Return the rows, after an empty row if rows of another kind are before them."""
        if not rows:
            return []
        before: list[Row] = [[]] if not self._blank and (self._last != kind or kind in {"user", "command"}) else []
        self._last = kind
        self._blank = not rows[-1]
        return before + rows

    def _user(self, event: MessageEnd) -> list[Row]:
        text = event.message.text
        if event.source == "shell" and self._shell.consume_shown():
            return []
        if event.source in {"follow_up", "synthetic"}:
            return wrap_rows(output_rows(text, "faint", ""), self.columns)
        lines = wrap_rows(output_rows(text, "user", ""), self.columns - 2)
        rows = [[("class:prompt", "> " if i == 0 else "  "), *each] for i, each in enumerate(lines)]
        if event.instructions:
            instructions = output_rows(event.instructions, "faint", "  ")
            self.collapsed.store("Instructions", lambda: wrap_rows(instructions, self.columns))
            count = pluralize(event.instructions.count("\n") + 1, "line")
            label = make_row(("faint", f"  with instructions of {count}{self.collapsed.hint}"))
            rows += wrap_row(label, self.columns, "  ")
        if event.attachments:
            rows.append(make_row(("faint", f"  {event.attachments} attached")))
        if event.source in {"steer", "queue"} and rows:
            rows[0] = [*rows[0], *make_row(("faint", "  (steering)" if event.source == "steer" else "  (queued)"))]
        return self.collapsed.collapse("Your message", rows, _USER_ROWS)

    def _end_thinking(self, now: float) -> list[Row]:
        thinking, took = "".join(self._thinking), now - self._thinking_since
        self._thinking, self._thinking_since = [], 0.0
        if not thinking.strip():
            return []
        self.collapsed.store("Reasoning", lambda: output_rows(thinking, "faint", "  "))
        rows = [make_row(("faint", f"Thought for {format_seconds(took)}{self.collapsed.hint}"))]
        return self.close_response() + self._with_separator("other", rows)

    def _approval(self, event: ApprovalRequest) -> list[Row]:
        if event.display is None or not event.display.diffs:
            return []
        self._tools.mark_shown(event.call.id)
        rows = diff_rows(event.display.diffs, self.columns)
        return self.collapsed.collapse(f"{event.display.name} {event.resource}", rows, _QUESTION_DIFF_ROWS)

    def _finished(self, event: AgentEnd) -> list[Row]:
        self._run_started_at, self._working = None, ""
        self._tools.stop()
        self._subagents.stop()
        stats = event.stats
        rows: list[Row] = []
        if event.error:
            rows += wrap_rows(output_rows(f"Error: {event.error.message}", "bad", ""), self.columns)
            rows += wrap_rows(output_rows(chat_events.error_hint(event.error), "faint", ""), self.columns)
        elif event.status != "completed":
            reason = STOP_DESCRIPTIONS.get(event.status, "")
            text = chat_events.format_stop(reason) if reason or event.status == "aborted" else event.status
            rows += output_rows(text.capitalize().replace("_", " "), "warn", "")
        seconds = self.to_work_seconds(stats.seconds)
        self._clock.restart()
        if seconds >= _MIN_SECONDS_FOR_SUMMARY or stats.turns > 1:
            turns = pluralize(stats.turns, "model call")
            facts = ", ".join((format_seconds(seconds), turns, format_total(stats.usage)))
            rows += wrap_rows([make_row(("faint", facts))], self.columns)
        return rows
