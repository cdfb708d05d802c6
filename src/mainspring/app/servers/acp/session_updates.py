"""Convert events of a chat to session updates."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any, Literal, cast, get_args

from acp import RequestError, schema

from mainspring.app.chat import Chat
from mainspring.app.chat.commands import ChatCommand, SetMode, SetModel, SetThinking
from mainspring.app.chat.events import (
    ChatEvent,
    CommandEnd,
    ReplayEnd,
    ReplayStart,
    SessionChange,
    ShellEnd,
    StatusChange,
)
from mainspring.app.chat.types import AgentMode, Status, ThinkingLevelName, parse_mode
from mainspring.app.servers.acp import tool_calls
from mainspring.app.servers.acp.client_environment import ClientTerminals
from mainspring.app.servers.markdown import result_to_markdown
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    ApprovalResult,
    ContextCompacted,
    Event,
    MessageEnd,
    ModelCallRetry,
    Notice,
    SubagentEnd,
    SubagentEvent,
    SubagentStart,
    TextDelta,
    ThinkingDelta,
    ToolDisplay,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from mainspring.events.base import STOP_DESCRIPTIONS
from mainspring.messages import Message, ToolUseBlock

_MODES: dict[AgentMode, tuple[str, str]] = {
    "default": ("Default", "Asks before it changes anything, unless a rule allows the change"),
    "accept_edits": ("Accept edits", "Works, and edits the project's files without approval"),
    "plan": ("Plan", "Only reads, and makes a plan"),
}
_PROVIDER_DEFAULT = "default"
_HIDDEN_COMMANDS = frozenset({"quit", "clear", "copy"})
"""Slash commands that only make sense in a terminal."""
_TIMEOUT_SECONDS = 3.0
_MAX_MODELS = 100


class SessionConfig:
    """Options that a client can offer its user.

    Attributes:
        models: Available models, each with a short description.
    """

    def __init__(self) -> None:
        self.models: dict[str, str] = {}

    async def load_models(self, chat: Chat) -> None:
        """Load the list of available models."""
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                found = await chat.completions("/model ")
        except TimeoutError:
            found = ()
        self.models = {candidate.text: candidate.detail for candidate in found[:_MAX_MODELS]}

    def modes(self, status: Status) -> schema.SessionModeState:
        """Return the modes and the current one."""
        return schema.SessionModeState(
            current_mode_id=status.mode,
            available_modes=[
                schema.SessionMode(id=mode, name=name, description=about) for mode, (name, about) in _MODES.items()
            ],
        )

    def options(self, status: Status) -> list[Any]:
        """Return the mode, the model, and the reasoning effort as config options."""
        models = {status.model: status.model_label, **self.models}
        levels = [_PROVIDER_DEFAULT, *get_args(ThinkingLevelName)]
        return [
            _select("mode", "Mode", "mode", status.mode, {**_MODES}),
            _select("model", "Model", "model", status.model, {name: (name, text) for name, text in models.items()}),
            _select(
                "thinking",
                "Thinking",
                "thought_level",
                status.thinking or _PROVIDER_DEFAULT,
                {level: (level.capitalize(), "") for level in levels},
            ),
        ]

    def to_command(self, option: str, value: Any) -> ChatCommand:
        """Return the command that chooses a value.

        Raises:
            RequestError: If the option or the value does not exist.
        """
        match option, value:
            case "mode", str() if (mode := parse_mode(value)) is not None:
                return SetMode(mode)
            case "model", str() if value.strip():
                return SetModel(value)
            case "thinking", str() if value == _PROVIDER_DEFAULT:
                return SetThinking(None)
            case "thinking", str() if value in get_args(ThinkingLevelName):
                return SetThinking(cast("ThinkingLevelName", value))
            case _:
                raise RequestError.invalid_params({"details": f"Invalid value {value!r:.80} for {option!r:.80}."})


def available_commands(chat: Chat) -> schema.AvailableCommandsUpdate:
    """Return the slash commands that a client can offer."""
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[
            schema.AvailableCommand(
                name=name,
                description=about or name,
                input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint="optional arguments")),
            )
            for name, about in sorted(chat.command_names.items())
            if name not in _HIDDEN_COMMANDS
        ],
    )


def _select(
    id: str, name: str, category: Any, current: str, values: dict[str, tuple[str, str]]
) -> schema.SessionConfigOptionSelect:
    return schema.SessionConfigOptionSelect(
        type="select",
        id=id,
        name=name,
        category=category,
        current_value=current,
        options=[
            schema.SessionConfigSelectOption(value=value, name=label, description=about or None)
            for value, (label, about) in values.items()
        ],
    )


Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.AvailableCommandsUpdate
    | schema.CurrentModeUpdate
    | schema.ConfigOptionUpdate
    | schema.SessionInfoUpdate
    | schema.UsageUpdate
)


_Chunk = schema.UserMessageChunk | schema.AgentMessageChunk | schema.AgentThoughtChunk
_CHUNKS = (schema.UserMessageChunk, schema.AgentMessageChunk, schema.AgentThoughtChunk)


_MAX_TERMINAL_CHARS = 4_000
"""Maximum number of characters shown of a running call's output. Every update contains the whole visible text."""


class SessionUpdateEncoder:
    """Convert events to session updates.

    Args:
        cwd: The folder of the session.
        choices: Options that the client can choose.
        terminals: Terminals of the editor.
    """

    def __init__(self, cwd: str, choices: SessionConfig, terminals: ClientTerminals | None = None) -> None:
        self._cwd = cwd
        self._choices = choices
        self._terminals = terminals
        self._shown: set[str] = set()
        self._own = secrets.token_hex(4)  # message IDs must differ when the session is opened again
        self._messages = 0
        self._saying = ""
        self._known: set[str] = set()
        self._waiting: dict[str, str] = {}
        self._printed: dict[str, str] = {}
        self._replaying = False
        self._status: Status | None = None

    def encode(self, event: ChatEvent) -> Iterator[Update]:
        """Return the updates for an event, in order."""
        for update in self._encode_event(event):
            if isinstance(update, _CHUNKS):
                update = update.model_copy(update={"message_id": self._message(update, event)})
            yield update
        if isinstance(event, MessageEnd | AgentEnd):
            self._saying = ""

    def _message(self, chunk: _Chunk, event: ChatEvent) -> str:
        """Return the ID that groups the chunks of a message for the client."""
        kind = f"{chunk.session_update} {type(event).__name__}"
        if kind != self._saying or not isinstance(event, TextDelta | ThinkingDelta):
            self._messages += 1
            self._saying = kind
        return f"{self._own}-{self._messages}"

    def _encode_event(self, event: ChatEvent) -> Iterator[Update]:
        match event:
            case TextDelta(text=text):
                yield agent_message(text)
            case ThinkingDelta(text=text):
                yield agent_thought(text)
            case MessageEnd(message=Message(role="user", text=text), source=source):
                if self._replaying or source in ("follow_up", "steer", "queue"):
                    yield user_message(text)
            case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd() | ApprovalRequest():
                yield from self._call(event)
            case ApprovalResult(id=id, decision=decision) if call := self._waiting.pop(id, ""):
                if decision not in ("deny", "never", "aborted") and call in self._known:
                    yield _progress(call, status="in_progress")
            case SubagentStart() | SubagentEnd():
                yield from self._subagent(event.id, event)
            case SubagentEvent(path=path, event=inner):
                yield from self._subagent(path[-1], inner)
            case StatusChange(status=status):
                yield from self._status_updates(status)
            case _:
                yield from self._encode_other(event)

    def _encode_other(self, event: ChatEvent) -> Iterator[Update]:
        match event:
            case ReplayStart():
                self._replaying = True
            case ReplayEnd():
                self._replaying = False
            case ContextCompacted() if not self._replaying:
                yield agent_thought("Conversation compacted.\n")
            case ModelCallRetry(error=error, delay=delay):
                yield agent_thought(f"{event.action} in {delay:g}s: {error.message}\n")
            case Notice(text=text, level=level) if level != "info" and not self._replaying:
                yield agent_thought(f"{text}\n")
            case CommandEnd(shown=shown, error=error) if text := error or result_to_markdown(shown):
                yield agent_message(text)
            case SessionChange(reason="new" | "resumed" | "forked" | "rewound" as reason, title=title) if self._status:
                yield agent_message(f"*{_SESSION_CHANGE_TEXTS[reason]}{f': {title}' if title else ''}*\n\n")
            case ShellEnd(output=printed):
                yield agent_message(printed)
            case AgentEnd(status=status) if status in STOP_DESCRIPTIONS:
                yield agent_message(f"\n\n*Stopped: {STOP_DESCRIPTIONS[status]}.*")
            case _:
                pass

    # --- tool calls -------------------------------------------------------------------------------------------------

    def _call(
        self, event: ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd | ApprovalRequest
    ) -> Iterator[Update]:
        match event:
            case ApprovalRequest(call=call):
                if not event.agent:
                    self._waiting[event.id] = call.id
                    if call.id in self._known:
                        yield _progress(call.id, status="pending")
                    else:
                        yield self._start(call, event.display, event.resource, "pending")
            case ToolExecutionStart(call=call, display=display):
                if call.id in self._known:
                    yield _progress(call.id, status="in_progress")
                else:
                    yield self._start(call, display, display.summary if display else "", "in_progress")
                plan = tool_calls.plan_update(call.name, call.input)
                if plan is not None:
                    yield plan
            case ToolExecutionUpdate(call_id=id, metadata={"terminal": str(terminal)}):
                yield from self._terminal(id, terminal)
            case ToolExecutionUpdate(call_id=id, output=output, title=title):
                self._printed[id] = (self._printed.get(id, "") + output)[-_MAX_TERMINAL_CHARS:]
                content = tool_calls.output(self._printed[id]) if output else None
                yield _progress(id, title=title or None, content=content)
            case ToolExecutionEnd():
                yield self._end(event, event.display or ToolDisplay())

    def _end(self, event: ToolExecutionEnd, display: ToolDisplay) -> Update:
        id = event.call.id
        self._printed.pop(id, None)
        self._known.discard(id)
        content = tool_calls.diff_content(display.diffs, self._cwd)
        if id in self._shown:  # the terminal shows the output, also after the call
            self._shown.discard(id)
            content = None
        elif not content:
            content = tool_calls.output(event.result.text or display.summary)
        return _progress(
            id,
            status="failed" if event.result.is_error else "completed",
            content=content,
            locations=tool_calls.diff_locations(display.diffs, self._cwd) or None,
        )

    def _terminal(self, call: str, terminal: str) -> Iterator[Update]:
        if self._terminals is None or not self._terminals.is_open(terminal):
            return
        self._shown.add(call)
        shown = schema.TerminalToolCallContent(type="terminal", terminal_id=terminal)
        yield _progress(call, content=[shown])
        self._terminals.mark_displayed(terminal)  # the caller sends this update before it asks for the next one

    def _start(
        self, call: ToolUseBlock, display: ToolDisplay | None, summary: str, status: Literal["pending", "in_progress"]
    ) -> Update:
        self._known.add(call.id)
        return schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=call.id,
            title=tool_calls.call_title(display.name if display else call.name, summary),
            kind=tool_calls.tool_kind(call.name),
            status=status,
            locations=tool_calls.call_locations(call.input, self._cwd) or None,
            raw_input=tool_calls.shorten_arguments(call.input),
        )

    def _subagent(self, subagent: str, event: Event) -> Iterator[Update]:
        """Return the updates for an event of a subagent: one call of the session, whatever the depth."""
        id = f"child:{subagent}"
        match event:
            case SubagentStart(name=name, task=task):
                yield schema.ToolCallStart(
                    session_update="tool_call",
                    tool_call_id=f"child:{event.id}",
                    title=tool_calls.call_title(name, task)[:200],
                    kind="think",
                    status="in_progress",
                )
            case ToolExecutionUpdate(metadata={"terminal": str(terminal)}):
                yield from self._terminal(id, terminal)
            case ToolExecutionStart(display=ToolDisplay(name=name, summary=summary)):
                yield _progress(id, content=[tool_calls.text_content(tool_calls.call_title(name, summary))])
            case SubagentEnd(stats=stats, text=text, error=error):
                id = f"child:{event.id}"
                done = "completed" if stats.status == "completed" else "failed"
                self._shown.discard(id)
                shown = (error.message if error else "") or text or stats.status
                yield _progress(id, status=done, content=[tool_calls.text_content(shown)])
            case _:
                pass

    # --- session state ----------------------------------------------------------------------------------------------

    def _status_updates(self, status: Status) -> Iterator[Update]:
        before, self._status = self._status, status
        if before is not None and before.mode != status.mode:
            yield schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=status.mode)
        if before is not None and (before.mode, before.model, before.thinking) != (
            status.mode,
            status.model,
            status.thinking,
        ):
            yield schema.ConfigOptionUpdate(
                session_update="config_option_update", config_options=self._choices.options(status)
            )
        if status.title and (before is None or before.title != status.title):
            yield schema.SessionInfoUpdate(session_update="session_info_update", title=status.title)
        used = (status.context_used, status.context_window, status.cost)
        if status.context_window and (
            before is None or used != (before.context_used, before.context_window, before.cost)
        ):
            cost = None if status.cost is None else schema.Cost(amount=status.cost, currency="USD")
            yield schema.UsageUpdate(
                session_update="usage_update", used=status.context_used, size=status.context_window, cost=cost
            )


_SESSION_CHANGE_TEXTS = {
    "new": "New session started",
    "resumed": "Session resumed",
    "forked": "Session forked",
    "rewound": "Conversation rewound",
}


def agent_message(text: str) -> schema.AgentMessageChunk:
    """Return a chunk of an assistant message."""
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=_text(text))


def agent_thought(text: str) -> schema.AgentThoughtChunk:
    """Return a chunk of reasoning, or a notice outside the conversation."""
    return schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=_text(text))


def user_message(text: str) -> schema.UserMessageChunk:
    """Return a chunk of a user message."""
    return schema.UserMessageChunk(session_update="user_message_chunk", content=_text(text))


def _text(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=text)


def _progress(
    id: str,
    *,
    status: Literal["pending", "in_progress", "completed", "failed"] | None = None,
    title: str | None = None,
    content: list[tool_calls.ToolCallContent] | None = None,
    locations: list[schema.ToolCallLocation] | None = None,
) -> schema.ToolCallProgress:
    return schema.ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=id,
        status=status,
        title=title,
        content=content,
        locations=locations,
    )
