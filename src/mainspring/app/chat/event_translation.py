"""From the events of an agent to those of a chat."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.app.chat.events import (
    AnswerEnd,
    AnswerText,
    ChatEvent,
    ChildEvent,
    Retrying,
    ThinkingEnd,
    ThinkingText,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    Working,
)
from mainspring.app.chat.tool_display import Display, finished, one_line, started
from mainspring.events import (
    AgentEnd,
    AgentEvent,
    MessageEnd,
    ModelRetry,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.messages import ImageBlock, Message
from mainspring.sessions import TranscriptCall
from mainspring.tools.builtin.shell import TERMINAL

ChildTold = AnswerText | AnswerEnd | ThinkingText | ThinkingEnd | ToolStarted | ToolProgress | ToolFinished
"""What is told of a sub-agent."""

WAITING = "waiting for the model"


class Teller:
    """Hears the events of one agent, and tells those that people see. The same events always give the same.

    Args:
        tell: Is told.
        display: Gives names of tools for people.
        changed: Called where figures may have changed.
    """

    def __init__(
        self, tell: Callable[[ChatEvent], None], display: Display, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._tell = tell
        self._display = display
        self._changed = changed
        self._running: dict[str, str] = {}
        self._thinking: list[str] = []
        self._working = ""

    def __call__(self, event: AgentEvent) -> None:
        """Hear an event."""
        match event:
            case TextDelta(text=text):
                self._end_thinking()
                self._work("")
                self._tell(AnswerText(text))
            case ThinkingDelta(thinking=text):
                self._thinking.append(text)
                self._work("thinking")
                self._tell(ThinkingText(text))
            case TurnStart():
                self._work(WAITING)
                self._changed()
            case MessageEnd(message=Message(role="assistant") as message):
                self._end_thinking()
                self._answered(message)
            case ToolExecutionStart(call=call, label=label):
                self._end_thinking()
                self._start(started(call, self._name(call.name, label)))
            case ToolExecutionUpdate():
                terminal = str((event.metadata or {}).get(TERMINAL, ""))
                self._tell(ToolProgress(event.call_id, event.output, one_line(event.title or ""), terminal))
            case ToolExecutionEnd():
                self._finish(event)
            case ModelRetry():
                reason = one_line(str(event.error))
                self._tell(Retrying(event.attempt, event.max_retries, event.delay, reason))
            case AgentEnd():
                self._end_thinking()
                self._work("")
            case _:
                pass

    def _name(self, name: str, label: str = "") -> str:
        return self._display(name) or label or name

    def _answered(self, message: Message) -> None:
        if message.text:
            self._tell(AnswerEnd(message.text, message.stop_reason or ""))
        self._work("")
        self._changed()

    def _end_thinking(self) -> None:
        if self._thinking:
            self._tell(ThinkingEnd("".join(self._thinking)))
            self._thinking = []

    def _start(self, event: ToolStarted) -> None:
        if event.id not in self._running:  # one that goes on behind a pause was told
            self._tell(event)
        self._running[event.id] = event.display
        self._work(f"running {event.display}")

    def _finish(self, event: ToolExecutionEnd) -> None:
        call, result = event.call, event.result
        display = self._running.pop(call.id, None)
        if display is None:  # a call that was never taken up
            display = self._name(call.name)
            self._tell(started(call, display))
        content = result.content
        done = TranscriptCall(
            id=call.id,
            name=call.name,
            input=call.input,
            output=result.text,
            images=() if isinstance(content, str) else tuple([b for b in content if isinstance(b, ImageBlock)]),
            is_error=result.is_error,
            details=result.details,
            seconds=event.seconds,
        )
        self._tell(finished(done, display, event.title))
        if not self._running:
            self._work("")

    def _work(self, message: str) -> None:
        if message != self._working:
            self._working = message
            self._tell(Working(message))


def of_child(id: str, tell: Callable[[ChatEvent], None]) -> Callable[[ChatEvent], None]:
    """Tells what a sub-agent does as its own."""

    def pass_on(event: ChatEvent) -> None:
        if isinstance(event, ChildTold):
            tell(ChildEvent(id, event))

    return pass_on
