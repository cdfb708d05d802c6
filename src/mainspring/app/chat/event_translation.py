"""From the events of an agent to those of a chat.

Sub-agents, as a chat tells of them: each nested below the one that started it.

A stored conversation, told by the same events as one that happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from mainspring.app.chat.events import (
    AnswerEnd,
    AnswerText,
    ChatEvent,
    ChildEvent,
    ChildFinished,
    ChildStarted,
    Compacted,
    Notice,
    Retrying,
    ThinkingEnd,
    ThinkingText,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    UserText,
    Working,
)
from mainspring.app.chat.tool_display import ToolLabeler, one_line, tool_finished_event, tool_started_event
from mainspring.events import (
    AgentEnd,
    Event,
    MessageEnd,
    ModelRetry,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.loop import CoreAgent
from mainspring.loop.hooks import BeforeSpawn, SpawnComplete, SpawnError
from mainspring.messages import ImageBlock, Message
from mainspring.prompt_tags import strip_attachments
from mainspring.redaction import redact
from mainspring.sessions import TranscriptCall, TranscriptItem
from mainspring.subagents import SubagentRun
from mainspring.tools.builtin.shell import TERMINAL

SubagentChatEvent = AnswerText | AnswerEnd | ThinkingText | ThinkingEnd | ToolStarted | ToolProgress | ToolFinished
"""What is told of a sub-agent."""


WAITING_FOR_MODEL = "waiting for the model"


class AgentEventTranslator:
    """Hears the events of one agent, and tells those that people see. The same events always give the same.

    Args:
        tell: Is told.
        display: Gives names of tools for people.
        changed: Called where figures may have changed.
    """

    def __init__(
        self, tell: Callable[[ChatEvent], None], display: ToolLabeler, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._tell = tell
        self._display = display
        self._changed = changed
        self._run_agent: dict[str, str] = {}
        self._thinking: list[str] = []
        self._working = ""

    def __call__(self, event: Event) -> None:
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
                self._work(WAITING_FOR_MODEL)
                self._changed()
            case MessageEnd(message=Message(role="assistant") as message):
                self._end_thinking()
                self._answered(message)
            case ToolExecutionStart(call=call, label=label):
                self._end_thinking()
                self._start(tool_started_event(call, self._name(call.name, label)))
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
        if event.id not in self._run_agent:  # one that goes on behind a pause was told
            self._tell(event)
        self._run_agent[event.id] = event.display
        self._work(f"running {event.display}")

    def _finish(self, event: ToolExecutionEnd) -> None:
        call, result = event.call, event.result
        display = self._run_agent.pop(call.id, None)
        if display is None:  # a call that was never taken up
            display = self._name(call.name)
            self._tell(tool_started_event(call, display))
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
        self._tell(tool_finished_event(done, display, event.title))
        if not self._run_agent:
            self._work("")

    def _work(self, message: str) -> None:
        if message != self._working:
            self._working = message
            self._tell(Working(message))


def wrap_subagent_events(id: str, tell: Callable[[ChatEvent], None]) -> Callable[[ChatEvent], None]:
    """Tells what a sub-agent does as its own."""

    def pass_on(event: ChatEvent) -> None:
        if isinstance(event, SubagentChatEvent):
            tell(ChildEvent(id, event))

    return pass_on


_ORDER_LAST = 900  # behind gates that may keep a sub-agent from running


class SubagentTracker:
    """Hears of sub-agents on all levels.

    Args:
        tell: Is told.
        display: Gives names of tools for people.
        changed: Called where figures may have changed.
    """

    def __init__(self, tell: Callable[[ChatEvent], None], display: ToolLabeler, changed: Callable[[], None]) -> None:
        self._tell = tell
        self._display = display
        self._changed = changed
        self._run_agent: set[str] = set()

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._run_agent)

    def knows(self, id: str) -> bool:
        """Whether a sub-agent of this name runs."""
        return id in self._run_agent

    def listen(self, agent: CoreAgent, parent: str = "") -> None:
        """Hear of the sub-agents of an agent, and of theirs."""
        agent.on(BeforeSpawn, lambda hook: self._begin(hook, parent), order=_ORDER_LAST)
        agent.on(SpawnComplete, lambda hook: self._end(hook, hook.text))
        agent.on(SpawnError, lambda hook: self._end(hook, "", hook.error))

    def _begin(self, hook: BeforeSpawn, parent: str) -> None:
        if hook.block:
            return
        self._run_agent.add(hook.child_id)
        self._tell(ChildStarted(hook.child_id, hook.child, hook.task, hook.depth, parent))
        child: CoreAgent = hook.agent
        child.bus.observe(
            AgentEventTranslator(wrap_subagent_events(hook.child_id, self._tell), self._display, self._changed)
        )
        self.listen(child, hook.child_id)
        self._changed()

    def _end(self, hook: SpawnComplete | SpawnError, text: str, error: BaseException | None = None) -> None:
        if hook.child_id not in self._run_agent:
            self._tell(ChildStarted(hook.child_id, hook.child, hook.task, hook.depth))
        self._run_agent.discard(hook.child_id)
        stats: Any = hook.stats
        cost = stats.usage.cost
        self._tell(
            ChildFinished(
                id=hook.child_id,
                name=hook.child,
                status=stats.status,
                text=text,
                error=redact(str(error)) or type(error).__name__ if error is not None else "",
                turns=stats.turns,
                tokens=stats.usage.total_tokens,
                cost=None if cost is None else cost.total,
                seconds=round(stats.seconds, 3),
            )
        )
        self._changed()


def find_subagent(children: Iterable[SubagentRun], id: str) -> SubagentRun | None:
    """A sub-agent that runs or waits, on whatever level."""
    for child in children:
        if child.id == id:
            return child
        below = getattr(child.agent, "children", ())
        found = find_subagent(below, id)
        if found is not None:
            return found
    return None


MAX_ITEMS = 400
"""Items that are told; of a longer conversation the last ones."""


_SOURCES: dict[str, Literal["prompt", "steer", "queue", "command", "shell", "notice"]] = {
    "prompt": "prompt",
    "steer": "steer",
    "follow_up": "notice",
    "given": "shell",
}


def replay_events(items: Sequence[TranscriptItem], display: ToolLabeler) -> Iterator[ChatEvent]:
    """The events of the items on the branch that the session goes on with."""
    active = [item for item in items if item.active]
    if len(active) > MAX_ITEMS:
        yield Notice(f"{len(active) - MAX_ITEMS} earlier messages are not shown; /export has all of them")
    for item in active[-MAX_ITEMS:]:
        yield from _item_events(item, display)


def _item_events(item: TranscriptItem, display: ToolLabeler) -> Iterator[ChatEvent]:
    match item.kind:
        case "user" if item.text or item.images:
            source = _SOURCES.get(item.source, "notice")
            yield UserText(strip_attachments(item.text).strip(), source, len(item.images), item.id)
        case "assistant":
            if item.thinking:
                yield ThinkingText(item.thinking)
                yield ThinkingEnd(item.thinking)
            if item.text:
                yield AnswerText(item.text)
                yield AnswerEnd(item.text)
            for call in item.calls:
                name = display(call.name)
                yield tool_started_event(call, name)
                yield tool_finished_event(call, name)
            if item.error:
                yield Notice(item.error, "error")
        case "compaction":
            yield Compacted("compaction", summary=item.text)
        case "branch" if item.text and item.text != "fork":
            yield Notice(item.text)
        case "model":
            yield Notice(f"from here on {item.text} answers")
        case "error":
            yield Notice(item.text, "error")
        case "pause":
            yield Notice(f"waits for an answer: {item.text}")
        case _:
            pass
