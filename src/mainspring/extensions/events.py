"""The events of extensions under their short names, and their conversion from the hooks of the bus.

A handler changes the fields of its event, or returns a mapping of fields to set.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from msgspec import Struct, field

from mainspring.events import RunStatus
from mainspring.loop.hooks import (
    BeforeRun,
    ContextTransform,
    Hook,
    PermissionCheck,
    PromptSubmitted,
    SessionClosed,
    SessionOpen,
    SessionStart,
    ToolResultsAfter,
    ToolTransform,
    TurnAfter,
    TurnBefore,
)
from mainspring.loop.hooks.session import SessionOpenReason
from mainspring.messages import AgentMessage, ImageBlock, Message, TextBlock, ToolResultBlock, Usage, to_messages
from mainspring.tools import ToolOutput
from mainspring.tools.tool import to_metadata

if TYPE_CHECKING:
    from mainspring.extensions.context import ExtensionContext

EXTENSION_HANDLER_ATTR = "__extension__"
"""Attribute that marks the handlers of extensions on a shared bus."""

InputAction = Literal["continue", "transform", "handled"]


class ContextEvent(Struct):
    """``context``: the messages of the next request.

    May be replaced; the history itself is unchanged.
    """

    messages: list[AgentMessage]


class BeforeRunEvent(Struct):
    """``before_agent_start``: a run is about to begin.

    Attributes:
        prompt: Text of the prompt.
        system: The system prompt. May be replaced, for this run.
        messages: Messages to add after the prompt. May be extended.
        message: Another such message, as text: for handlers that return their changes.
    """

    prompt: str
    system: str
    messages: list[AgentMessage] = field(default_factory=list[AgentMessage])
    message: str | AgentMessage | None = None

    @property
    def system_prompt(self) -> str:
        """The system prompt: another name of ``system``."""
        return self.system

    @system_prompt.setter
    def system_prompt(self, text: str) -> None:
        self.system = text


class AgentStartEvent(Struct):
    """``agent_start``: a run has begun."""

    run_id: str
    resumed: bool


class AgentEndEvent(Struct):
    """``agent_end``: a run has finished. ``messages`` is the whole history."""

    run_id: str
    status: RunStatus
    turns: int
    usage: Usage
    messages: tuple[AgentMessage, ...]
    error: BaseException | None = None


class TurnStartEvent(Struct):
    """``turn_start``: a request is about to be sent."""

    turn: int
    turn_id: str


class TurnEndEvent(Struct):
    """``turn_end``: the response and the results of its calls are complete."""

    turn: int
    message: Message
    tool_results: tuple[ToolResultBlock, ...] = ()


class InputEvent(Struct):
    """``input``: a prompt arrives.

    Attributes:
        text: The text.
        action: ``continue``; ``transform``: use ``text`` instead; ``handled``: no run is needed.
        reply: Text for the user if the prompt is handled.
    """

    text: str
    action: InputAction = "continue"
    reply: str = ""


class ToolCallEvent(Struct):
    """``tool_call``: a tool is about to run with these arguments.

    Set ``block`` to deny the call.

    Attributes:
        tool_name: The tool.
        tool_call_id: ID of the call.
        input: The final arguments (a copy; to change them, handle ``tool:before``).
        approved: Whether the call has been approved already.
        block: Whether the call is denied; a text is the reason.
        reason: Reason for the model.
    """

    tool_name: str
    tool_call_id: str
    input: dict[str, Any]
    approved: bool = False
    block: bool | str = False
    reason: str = ""


class ToolResultEvent(Struct):
    """``tool_result``: a tool's result, before the model gets it.

    ``content``, ``details``, and ``is_error`` may be replaced; ``None`` keeps the value. Blocks of the content may be JSON values:
    ``{"type": "text", "text": ...}``. Details that are not a dict are stored as ``{"details": ...}``.
    """

    tool_name: str
    tool_call_id: str
    input: dict[str, Any]
    content: ToolOutput | list[TextBlock | ImageBlock | dict[str, Any]] | None
    details: Any
    is_error: bool | None = False


class SessionOpenEvent(Struct):
    """``session_start``: a session is opened in this process."""

    session_id: str
    reason: SessionOpenReason


class SessionShutdownEvent(Struct):
    """``session_shutdown``: the session is closed, or this extension is unloaded (``reload``)."""

    session_id: str
    reason: str


ExtensionEvent = (
    ContextEvent
    | BeforeRunEvent
    | AgentStartEvent
    | AgentEndEvent
    | TurnStartEvent
    | TurnEndEvent
    | InputEvent
    | ToolCallEvent
    | ToolResultEvent
    | SessionOpenEvent
    | SessionShutdownEvent
)
"""Any event of an extension."""

Answer = Mapping[str, Any] | None
EventHandler = Callable[..., "Answer | Awaitable[Answer]"]
"""``handler(event)`` or ``handler(event, ctx)``, sync or async."""


class Binding(Struct, frozen=True):
    """The conversion of a hook to an event and back.

    Attributes:
        hook: The hook, by class or name.
        make: Creates the event; ``None`` if the event does not apply to this hook.
        apply: Writes the decisions of handlers to the hook.
    """

    hook: type[Hook] | str
    make: Callable[[Any, ExtensionContext], Any]
    apply: Callable[[Any, Any], None]


def _ignore_event(hook: Hook, event: Any) -> None:
    """Do nothing: the event has no fields to write back."""


def _apply_context(hook: ContextTransform, event: ContextEvent) -> None:
    hook.messages = list(event.messages)


def _apply_before_run(hook: BeforeRun, event: BeforeRunEvent) -> None:
    hook.system = event.system
    hook.messages = list(event.messages)
    if event.message is not None:
        hook.messages += to_messages(event.message)


def _apply_input(hook: PromptSubmitted, event: InputEvent) -> None:
    if event.action not in get_args(InputAction):
        raise ValueError(f"action must be {', '.join(get_args(InputAction))}, not {event.action!r}.")
    hook.text = event.text
    if event.action == "handled":
        hook.handled = True
        hook.reply = event.reply


def _apply_tool_call(hook: PermissionCheck, event: ToolCallEvent) -> None:
    if event.block:
        given = event.block if isinstance(event.block, str) else event.reason
        hook.deny(given or "Blocked by extension")


def _apply_tool_result(hook: ToolTransform, event: ToolResultEvent) -> None:
    result = hook.result
    if event.content is not None:
        result.output = to_tool_output(event.content)
    if event.details is not None:
        result.metadata = to_metadata(event.details)
    if event.is_error is not None:
        result.is_error = event.is_error


def to_tool_output(content: Any) -> Any:
    """Return the content of a result as text or blocks; blocks may be JSON values."""
    if not isinstance(content, list | tuple):
        return content
    given = cast("Sequence[Any]", content)
    blocks = [_to_block(each) for each in given]
    return tuple(blocks) if all(isinstance(each, TextBlock | ImageBlock) for each in blocks) else given


def _to_block(value: Any) -> Any:
    match value:
        case {"type": "text", "text": str(text)}:
            return TextBlock(text)
        case {"type": "image", "data": str(data)}:
            fields = cast("dict[str, Any]", value)
            media_type = next((fields[n] for n in ("media_type", "mimeType", "mediaType") if n in fields), "image/png")
            return ImageBlock(str(media_type), data)
        case _:
            return value


def _turn_end_without_calls(hook: TurnAfter, ctx: ExtensionContext) -> TurnEndEvent | None:
    """End the turn for a response without calls; with calls the turn ends when they have their results.

    An aborted run ends without it.
    """
    if hook.message.tool_uses or hook.message.stop_reason == "aborted":
        return None
    ctx.record_response(hook.message)
    return TurnEndEvent(hook.turn, hook.message)


def _turn_end_with_calls(hook: ToolResultsAfter, ctx: ExtensionContext) -> TurnEndEvent:
    return TurnEndEvent(ctx.turn, hook.message, hook.results.tool_results)


EVENTS: dict[str, tuple[Binding, ...]] = {
    "session_start": (Binding(SessionOpen, lambda h, _: SessionOpenEvent(h.session_id, h.reason), _ignore_event),),
    "input": (Binding(PromptSubmitted, lambda h, _: InputEvent(h.text), _apply_input),),
    "before_agent_start": (
        Binding(BeforeRun, lambda h, _: BeforeRunEvent(h.prompt, h.system, list(h.messages)), _apply_before_run),
    ),
    "agent_start": (Binding(SessionStart, lambda h, _: AgentStartEvent(h.run_id, h.resumed), _ignore_event),),
    "context": (Binding(ContextTransform, lambda h, _: ContextEvent(list(h.messages)), _apply_context),),
    "turn_start": (Binding(TurnBefore, lambda h, _: TurnStartEvent(h.turn, h.turn_id), _ignore_event),),
    "turn_end": (
        Binding(TurnAfter, _turn_end_without_calls, _ignore_event),
        Binding(ToolResultsAfter, _turn_end_with_calls, _ignore_event),
    ),
    "tool_call": (
        Binding(PermissionCheck, lambda h, _: ToolCallEvent(h.name, h.call_id, h.input, h.approved), _apply_tool_call),
    ),
    "tool_result": (
        Binding(
            ToolTransform,
            lambda h, _: ToolResultEvent(
                h.name, h.call_id, h.input, h.result.output, dict(h.result.metadata), h.result.is_error
            ),
            _apply_tool_result,
        ),
    ),
    "agent_end": (
        Binding(
            "agent:done",
            lambda h, ctx: AgentEndEvent(h.run_id, h.status, h.turns, h.usage, ctx.agent.messages, h.error),
            _ignore_event,
        ),
    ),
    "session_shutdown": (
        Binding(SessionClosed, lambda h, _: SessionShutdownEvent(h.session_id, h.reason), _ignore_event),
    ),
}
"""The events by name, in order of occurrence. Every hook of the bus can be used, too."""


EVENT_NAMES: dict[type[Any], str] = {
    ContextEvent: "context",
    BeforeRunEvent: "before_agent_start",
    AgentStartEvent: "agent_start",
    AgentEndEvent: "agent_end",
    TurnStartEvent: "turn_start",
    TurnEndEvent: "turn_end",
    InputEvent: "input",
    ToolCallEvent: "tool_call",
    ToolResultEvent: "tool_result",
    SessionOpenEvent: "session_start",
    SessionShutdownEvent: "session_shutdown",
}
"""The name of each event by its class."""


def takes_context(handler: Callable[..., Any]) -> bool:
    """Return True if a handler accepts the context as its second argument."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    requested = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in requested if p.default is p.empty]
    return len(required) >= 2 or any(p.kind is p.VAR_POSITIONAL for p in parameters)


def bind_handler(
    binding: Binding | None, handler: EventHandler, ctx: ExtensionContext, label: str
) -> Callable[[Any], Awaitable[Answer] | Answer]:
    """Adapt a handler to the bus.

    Args:
        binding: The conversion to an event; ``None`` to pass the hook itself.
        handler: The extension's own handler.
        ctx: Context, passed to the handler if it accepts one.
        label: Name of the handler in messages.
    """
    wants = takes_context(handler)

    def ask(event: Any) -> Any:
        return handler(event, ctx) if wants else handler(event)

    def finish(hook: Any, event: Any, answer: Any) -> None:
        if isinstance(answer, Mapping):
            for name, value in cast("Mapping[str, Any]", answer).items():
                setattr(event, name, value)
        if binding is not None:
            binding.apply(hook, event)

    async def later(hook: Any, event: Any, answer: Awaitable[Any]) -> None:
        finish(hook, event, await answer)

    def handle(hook: Any) -> Awaitable[None] | None:
        event = hook if binding is None else binding.make(hook, ctx)
        if event is None:
            return None
        answer = ask(event)
        if inspect.isawaitable(answer):
            return later(hook, event, answer)
        finish(hook, event, answer)
        return None

    handle.__qualname__ = label
    setattr(handle, EXTENSION_HANDLER_ATTR, True)
    return handle


def get_bindings(event: str) -> Sequence[Binding]:
    """Return the bindings of a short name; none for other names."""
    return EVENTS.get(event, ())
