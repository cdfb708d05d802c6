"""Translates the events of an agent, of its subagents, and of a stored conversation into chat events."""

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
from mainspring.app.compose.conversation import Conversation
from mainspring.errors import MainspringError
from mainspring.events import (
    AgentEnd,
    Event,
    MessageEnd,
    ModelRetry,
    SubagentEnd,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.loop import CoreAgent
from mainspring.loop.hooks import BeforeSpawn
from mainspring.messages import ImageBlock, Message
from mainspring.prompt_tags import strip_attachments
from mainspring.redaction import redact_environment
from mainspring.sessions import TranscriptCall, TranscriptItem
from mainspring.subagents import SubagentRun
from mainspring.tools.builtin.shell import TERMINAL

SubagentChatEvent = AnswerText | AnswerEnd | ThinkingText | ThinkingEnd | ToolStarted | ToolProgress | ToolFinished
"""The events of a subagent that a chat publishes."""


WAITING_FOR_MODEL = "Waiting for the model"


class AgentEventTranslator:
    """Translates the events of one agent into chat events. Deterministic: the same input results in the same output.

    Args:
        publish: Publishes an event of the chat.
        tool_label: Returns the display name of a tool.
        on_usage: Called when usage may have changed.
    """

    def __init__(
        self, publish: Callable[[ChatEvent], None], tool_label: ToolLabeler, on_usage: Callable[[], None] = lambda: None
    ) -> None:
        self._publish = publish
        self._tool_label = tool_label
        self._on_usage = on_usage
        self._running: dict[str, str] = {}  # display names by call
        self._thinking: list[str] = []
        self._working = ""

    def __call__(self, event: Event) -> None:
        """Translate an event."""
        match event:
            case TextDelta(text=text):
                self._end_thinking()
                self._set_activity("")
                self._publish(AnswerText(text))
            case ThinkingDelta(text=text):
                self._thinking.append(text)
                self._set_activity("Thinking")
                self._publish(ThinkingText(text))
            case TurnStart():
                self._set_activity(WAITING_FOR_MODEL)
                self._on_usage()
            case MessageEnd(message=Message(role="assistant") as message):
                self._end_thinking()
                self._end_response(message)
            case ToolExecutionStart(call=call, label=label):
                self._end_thinking()
                self._on_tool_start(tool_started_event(call, self._name(call.name, label)))
            case ToolExecutionUpdate():
                terminal = str(event.metadata.get(TERMINAL, ""))
                self._publish(ToolProgress(event.call_id, event.output, one_line(event.title), terminal))
            case ToolExecutionEnd():
                self._on_tool_end(event)
            case ModelRetry():
                reason = one_line(event.error.message)
                self._publish(Retrying(event.attempt, event.max_retries, event.delay, reason))
            case AgentEnd():
                self._end_thinking()
                self._set_activity("")
            case _:
                pass

    def _name(self, name: str, label: str = "") -> str:
        return self._tool_label(name) or label or name

    def _end_response(self, message: Message) -> None:
        if message.text:
            self._publish(AnswerEnd(message.text, message.stop_reason or ""))
        self._set_activity("")
        self._on_usage()

    def _end_thinking(self) -> None:
        if self._thinking:
            self._publish(ThinkingEnd("".join(self._thinking)))
            self._thinking = []

    def _on_tool_start(self, event: ToolStarted) -> None:
        if event.id not in self._running:  # a call that resumes after a pause was published before it
            self._publish(event)
        self._running[event.id] = event.display
        self._set_activity(f"Running {event.display}")

    def _on_tool_end(self, event: ToolExecutionEnd) -> None:
        call, result = event.call, event.result
        display = self._running.pop(call.id, None)
        if display is None:  # the call was rejected before it started
            display = self._name(call.name)
            self._publish(tool_started_event(call, display))
        content = result.content
        finished = TranscriptCall(
            id=call.id,
            name=call.name,
            input=call.input,
            output=result.text,
            images=() if isinstance(content, str) else tuple([b for b in content if isinstance(b, ImageBlock)]),
            is_error=result.is_error,
            details=result.details,
            seconds=event.seconds,
        )
        self._publish(tool_finished_event(finished, display, event.title))
        if not self._running:
            self._set_activity("")

    def _set_activity(self, message: str) -> None:
        if message != self._working:
            self._working = message
            self._publish(Working(message))


def wrap_subagent_events(id: str, publish: Callable[[ChatEvent], None]) -> Callable[[ChatEvent], None]:
    """Return a function that publishes the events of a subagent as `ChildEvent`."""

    def publish_wrapped(event: ChatEvent) -> None:
        if isinstance(event, SubagentChatEvent):
            publish(ChildEvent(id, event))

    return publish_wrapped


_ORDER_LAST = 900  # after gates that may prevent a subagent from running


class SubagentTracker:
    """Publishes the events of subagents on all levels.

    Args:
        publish: Publishes an event of the chat.
        tool_label: Returns the display name of a tool.
        on_usage: Called when usage or the number of running subagents may have changed.
    """

    def __init__(
        self, publish: Callable[[ChatEvent], None], tool_label: ToolLabeler, on_usage: Callable[[], None]
    ) -> None:
        self._publish = publish
        self._tool_label = tool_label
        self._on_usage = on_usage
        self._running: set[str] = set()

    @property
    def running(self) -> int:
        """The number of running subagents."""
        return len(self._running)

    def is_running(self, id: str) -> bool:
        """Return True if a subagent with this ID is running."""
        return id in self._running

    async def attach(self, conversation: Conversation) -> None:
        """Publish the events of the subagents of a conversation."""
        self._listen(conversation.agent)

    def _listen(self, agent: CoreAgent, parent: str = "") -> None:
        agent.on(BeforeSpawn, lambda hook: self._begin(hook, parent), order=_ORDER_LAST)
        agent.on(SubagentEnd, self._end)

    def _begin(self, hook: BeforeSpawn, parent: str) -> None:
        if hook.block:
            return
        self._running.add(hook.child_id)
        self._publish(ChildStarted(hook.child_id, hook.child, hook.task, hook.depth, parent))
        child: CoreAgent = hook.agent
        child.bus.subscribe(
            AgentEventTranslator(wrap_subagent_events(hook.child_id, self._publish), self._tool_label, self._on_usage)
        )
        self._listen(child, hook.child_id)
        self._on_usage()

    def _end(self, hook: SubagentEnd) -> None:
        error = hook.exception
        if hook.id not in self._running:
            self._publish(ChildStarted(hook.id, hook.name, hook.task, hook.depth))
        self._running.discard(hook.id)
        stats: Any = hook.stats
        cost = stats.usage.cost
        self._publish(
            ChildFinished(
                id=hook.id,
                name=hook.name,
                status=stats.status,
                text=hook.text if error is None else "",
                error=redact_environment(str(error)) or type(error).__name__ if error is not None else "",
                turns=stats.turns,
                tokens=stats.usage.total_tokens,
                cost=None if cost is None else cost.total,
                seconds=round(stats.seconds, 3),
            )
        )
        self._on_usage()


def find_subagent(children: Iterable[SubagentRun], id: str) -> SubagentRun | None:
    """Return a running or waiting subagent on any level."""
    for child in children:
        if child.id == id:
            return child
        below = getattr(child.agent, "children", ())
        found = find_subagent(below, id)
        if found is not None:
            return found
    return None


MAX_ITEMS = 400
"""Maximum number of items that are replayed: the last ones of a longer conversation."""


_SOURCES: dict[str, Literal["prompt", "steer", "queue", "command", "shell", "notice"]] = {
    "prompt": "prompt",
    "steer": "steer",
    "follow_up": "notice",
    "given": "shell",
}


def replay_events(items: Sequence[TranscriptItem], tool_label: ToolLabeler) -> Iterator[ChatEvent]:
    """Yield the events of the active branch of a session."""
    active = [item for item in items if item.active]
    if len(active) > MAX_ITEMS:
        yield Notice(f"{len(active) - MAX_ITEMS} earlier messages are not shown. Save all of them with /export.")
    for item in active[-MAX_ITEMS:]:
        yield from _item_events(item, tool_label)


def _item_events(item: TranscriptItem, tool_label: ToolLabeler) -> Iterator[ChatEvent]:
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
                name = tool_label(call.name)
                yield tool_started_event(call, name)
                yield tool_finished_event(call, name)
            if item.error:
                yield Notice(item.error, "error")
        case "compaction":
            yield Compacted("compaction", summary=item.text)
        case "branch" if item.text and item.text != "fork":
            yield Notice(item.text)
        case "model":
            yield Notice(f"Switched to {item.text}.")
        case "error":
            yield Notice(item.text, "error")
        case "pause":
            yield Notice(f"Waiting for approval: {item.text}")
        case _:
            pass


def error_notice(error: BaseException) -> Notice:
    """Return a notice about something that failed outside a run."""
    text = str(error) if isinstance(error, MainspringError | OSError) else f"{type(error).__name__}: {error}"
    return Notice(redact_environment(text), "error")
