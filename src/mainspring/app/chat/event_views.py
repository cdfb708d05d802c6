"""Views of a chat on the events of an agent, of its subagents, and of a stored conversation: what a front end needs, in its form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from msgspec.structs import replace

from mainspring.app.chat.events import (
    ChatEvent,
    ShellEnd,
    ShellStart,
    WorkingChange,
    format_stop,
    user_message_event,
)
from mainspring.app.chat.shell_messages import parse_shell_message
from mainspring.app.chat.tool_display import (
    OutputLoader,
    ToolLabeler,
    display_end,
    display_start,
    display_update,
    format_call,
    one_line,
)
from mainspring.app.compose.conversation import OpenConversation
from mainspring.app.run.events import format_budget_warning
from mainspring.errors import MainspringError, describe_failure, format_exception
from mainspring.events import (
    AgentEnd,
    ContextCompacted,
    Event,
    LimitWarning,
    MessageEnd,
    MessageSource,
    ModelCallRetry,
    Notice,
    RunEvent,
    SubagentEnd,
    SubagentEvent,
    SubagentStart,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
    UsageUpdate,
)
from mainspring.events.views import redact_errors
from mainspring.messages import ContentBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, Usage
from mainspring.prompt_tags import find_instructions, strip_attachments
from mainspring.redaction import redact_environment
from mainspring.sessions import TranscriptCall, TranscriptItem
from mainspring.subagents import SubagentRun

WAITING_FOR_MODEL = "Waiting for the model"

_Path = tuple[str, ...]


class AgentEventView:
    """Publishes the events of an agent and its subagents that a chat shows. Deterministic: the same input results in the same output.

    Results are shortened, and calls have a `ToolDisplay`. Each call and each subagent has a start and an end, also if it was
    rejected before it started. `AgentStart` and `AgentEnd` are left out: a run of a chat may consist of several runs of its agent.

    Args:
        publish: Publishes an event of the chat.
        tool_label: Returns the display name of a tool.
        on_usage: Called when usage or the number of running subagents may have changed.
        load_output: Loads stored outputs by name, and makes results complete. Without it, results are shortened.
        on_spending: Called with each response, or None for a call outside the conversation, with its usage, and with True if the
            response joins the conversation, which stores its usage.
    """

    def __init__(
        self,
        publish: Callable[[ChatEvent], None],
        tool_label: ToolLabeler,
        on_usage: Callable[[], None] = lambda: None,
        *,
        load_output: OutputLoader | None = None,
        on_spending: Callable[[Message | None, Usage | None, bool], None] = lambda _message, _usage, _is_stored: None,
    ) -> None:
        self._publish = publish
        self._on_spending = on_spending
        self._load_output = load_output
        self._tool_label = tool_label
        self._on_usage = on_usage
        self._calls: dict[tuple[_Path, str], str] = {}  # display names of running calls
        self._subagents: set[str] = set()
        self._working = ""

    @property
    def running_subagents(self) -> int:
        """The number of running subagents."""
        return len(self._subagents)

    def is_subagent(self, id: str) -> bool:
        """Return True if a subagent with this ID is running."""
        return id in self._subagents

    async def attach(self, conversation: OpenConversation) -> None:
        """Publish the events of a conversation."""
        self._calls.clear()
        self._subagents.clear()
        conversation.agent.bus.subscribe(self, subagents=True)

    def __call__(self, event: Event) -> None:
        """Publish an event of the agent, if it is for the user."""
        match event:
            case TextDelta(index=index, text=text):
                self._set_activity("")
                self._publish(TextDelta(index, text))  # without the message so far, which a front end does not read
            case ThinkingDelta(index=index, text=text):
                self._set_activity("Thinking")
                self._publish(ThinkingDelta(index, text))
            case SubagentEvent(path=path, event=inner):
                self._show(inner, path)
            case ModelCallRetry(error=error):
                message = one_line(redact_environment(error.message))
                self._publish(replace(event, error=replace(error, message=message)))
            case ContextCompacted():
                self._publish(event)
            case Notice(text=text):
                self._publish(replace(event, text=redact_environment(text)))
            case LimitWarning(exceeded=False):
                self._publish(Notice(format_budget_warning(event), "warn"))
            case AgentEnd():
                self._set_activity("")
            case _:
                if isinstance(event, TurnStart):
                    self._set_activity(WAITING_FOR_MODEL)
                self._show(event, ())

    def _show(self, event: Event, path: _Path) -> None:
        """Publish an event that the agent and its subagents have."""
        match event:
            case TextDelta(index=index, text=text):
                self._publish_from(path, TextDelta(index, text))
            case ThinkingDelta(index=index, text=text):
                self._publish_from(path, ThinkingDelta(index, text))
            case TurnStart():
                self._on_usage()
            case UsageUpdate(purpose=purpose, usage=usage) if purpose:
                self._on_spending(None, usage, False)
            case MessageEnd(message=Message(role="assistant", usage=usage) as message):
                self._on_spending(message, usage, not path)
                self._publish_from(path, cast("RunEvent", redact_errors(event, redact_environment)))
                if not path:
                    self._set_activity("")
                self._on_usage()
            case ToolExecutionStart():
                self._on_tool_start(event, path)
            case ToolExecutionUpdate():
                self._publish_from(path, display_update(event))
            case ToolExecutionEnd():
                self._on_tool_end(event, path)
            case SubagentStart():
                self._subagents.add(event.id)
                self._publish_from(path, event)
                self._on_usage()
            case SubagentEnd():
                self._on_subagent_end(event, path)
            case _:
                pass

    def _publish_from(self, path: _Path, event: RunEvent) -> None:
        self._publish(SubagentEvent(path, event) if path else event)

    def _on_tool_start(self, event: ToolExecutionStart, path: _Path) -> None:
        call = event.call
        name = self._tool_label(call.name) or event.label or call.name
        if (path, call.id) not in self._calls:  # a call that resumes after a pause was published before it
            self._publish_from(path, display_start(event, name))
        self._calls[path, call.id] = name
        if not path:
            self._set_activity(f"Running {name}")

    def _on_tool_end(self, event: ToolExecutionEnd, path: _Path) -> None:
        call = event.call
        name = self._calls.pop((path, call.id), None)
        if name is None:  # the call was rejected before it started
            name = self._tool_label(call.name) or call.name
            self._publish_from(path, display_start(ToolExecutionStart(call), name))
        self._publish_from(path, display_end(event, name, load_output=self._load_output))
        if not path and not any(not owner for owner, _ in self._calls):
            self._set_activity("")

    def _on_subagent_end(self, event: SubagentEnd, path: _Path) -> None:
        if event.id not in self._subagents:  # it failed before it started
            self._publish_from(path, SubagentStart(event.id, event.name, event.task, event.depth))
        self._subagents.discard(event.id)
        inner = (*path, event.id)
        self._calls = {key: name for key, name in self._calls.items() if key[0] != inner}
        error = event.error
        if error is not None:
            error = replace(error, message=redact_environment(error.message) or error.type)
        self._publish_from(path, replace(event, error=error))
        self._on_usage()

    def _set_activity(self, message: str) -> None:
        if message != self._working:
            self._working = message
            self._publish(WorkingChange(message))


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


_SOURCES: dict[str, MessageSource] = {"prompt": "prompt", "steer": "steer", "given": "shell"}


def replay_events(
    items: Sequence[TranscriptItem], tool_label: ToolLabeler, *, load_output: OutputLoader | None = None
) -> Iterator[ChatEvent]:
    """Yield the events of the active branch of a session.

    Args:
        items: The session.
        tool_label: Returns the display name of a tool.
        load_output: Loads stored outputs by name, and makes results complete. Without it, results are shortened.
    """
    active = [item for item in items if item.active]
    if len(active) > MAX_ITEMS:
        yield Notice(f"{len(active) - MAX_ITEMS} earlier messages are not shown. Save all of them with /export.")
    shown = active[-MAX_ITEMS:]
    repeated = _repeated_errors(shown)
    for item in shown:
        yield from _item_events(replace(item, error="") if item.id in repeated else item, tool_label, load_output)


def _repeated_errors(items: Sequence[TranscriptItem]) -> set[str]:
    """Return the IDs of responses whose error is also that of their run."""
    found: set[str] = set()
    end_text = ""
    for item in reversed(items):
        if item.kind in ("error", "stop"):
            end_text = item.text
        elif item.kind == "user":
            end_text = ""
        elif item.error and item.error in end_text:
            found.add(item.id)
    return found


def _item_events(
    item: TranscriptItem, tool_label: ToolLabeler, load_output: OutputLoader | None
) -> Iterator[ChatEvent]:
    match item.kind:
        case "user" if item.source == "given" and (ran := parse_shell_message(item.text)) is not None:
            yield ShellStart(item.id, ran.line)
            yield ShellEnd(item.id, ran.exit_code, ran.output, stopped=ran.stopped)
            yield user_message_event(item.text, "shell", id=item.id)
        case "user" if item.text or item.images:
            source = _SOURCES.get(item.source, "follow_up")
            text = strip_attachments(item.text).strip()
            _, instructions = find_instructions(item.text)
            yield user_message_event(text, source, len(item.images), item.id, instructions)
        case "assistant":
            yield from _response_events(item)
            for call in item.calls:
                yield from _call_events(call, tool_label(call.name), load_output)
            if item.error:
                yield Notice(f"Error: {item.error}", "error")
        case "compaction":
            yield ContextCompacted("compaction", summary=item.text)
        case "branch" if item.text and item.text != "fork":
            yield Notice(item.text)
        case "model":
            yield Notice(f"Switched to {item.text}.")
        case "error":
            yield Notice(f"Error: {item.text}", "error")
        case "stop":
            yield Notice(format_stop(item.text), "warn")
        case "pause":
            yield Notice(f"Waiting for approval: {item.text}")
        case _:
            pass


def _response_events(item: TranscriptItem) -> Iterator[ChatEvent]:
    content: list[ContentBlock] = []
    if item.thinking:
        yield ThinkingDelta(0, item.thinking)
        content.append(ThinkingBlock(item.thinking))
    if item.text:
        yield TextDelta(len(content), item.text)
        content.append(TextBlock(item.text))
    if content:
        yield MessageEnd(Message("assistant", tuple(content), timestamp=item.when, id=item.id))


def _call_events(call: TranscriptCall, name: str, load_output: OutputLoader | None) -> Iterator[ChatEvent]:
    if isinstance(call.input, str):
        block = ToolUseBlock(call.id, call.name, raw_input=call.input)
    else:
        block = ToolUseBlock(call.id, call.name, call.input)
    result = ToolResultBlock(call.id, call.name, call.output or "", call.is_error, call.details)
    end = ToolExecutionEnd(block, result, title=format_call(block), seconds=call.seconds)
    yield display_start(ToolExecutionStart(block), name)
    yield display_end(end, name, image_count=len(call.images), load_output=load_output)


def error_notice(error: BaseException) -> Notice:
    """Return a notice about something that failed outside a run."""
    return Notice(redact_environment(format_error(error)), "error")


def format_error(error: BaseException) -> str:
    """Return the text of an error for the user, with the class of an internal error."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    is_known = isinstance(error, MainspringError | OSError | ValueError)
    return (is_known and describe_failure(error)) or format_exception(error)
