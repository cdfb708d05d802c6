"""The events of a model response while it is received.

Order: ``StreamStart``; for each block its start, deltas and end (blocks may interleave); then ``Done``. A provider that
fails raises instead; the loop converts the exception to a ``StreamError``. ``partial`` of an event is the message at that
moment, built when read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol

from mainspring.errors import ModelError
from mainspring.events.base import ErrorInfo, Event
from mainspring.messages import Message, StopReason, ToolUseBlock


class MessageDraft(Protocol):
    """An assistant message that is still being received.

    Attributes:
        tool_names: Replacements for tool names in partial messages; a wrapper that renames tools in events sets them.
    """

    tool_names: Mapping[str, str]

    def snapshot(self, at: int) -> Message:
        """Return the message after its first ``at`` changes."""
        ...


class _PartialMessageEvent(Event, frozen=True, gc=False):
    """Base of the events while a message is received.

    Their last two fields are in-process: ``draft``, the message that is being received, and ``at``, the number of its
    changes up to this event. With fields, making a delta takes 0.1 microseconds; with an instance dictionary, 0.2.
    """

    in_process: ClassVar[tuple[str, ...]] = ("draft", "at")

    @property
    def partial(self) -> Message:
        """Return the assistant message at this event."""
        # A struct without fields: each event defines `draft` and `at` as its last fields.
        draft: MessageDraft | None = self.draft  # type: ignore[attr-defined]
        return draft.snapshot(self.at) if draft else Message("assistant")  # type: ignore[attr-defined]


class StreamStart(_PartialMessageEvent, frozen=True, gc=False, tag="start"):
    """A response begins."""

    draft: MessageDraft | None = None
    at: int = 0


class TextStart(_PartialMessageEvent, frozen=True, gc=False):
    """A text block begins."""

    index: int
    draft: MessageDraft | None = None
    at: int = 0


class TextDelta(_PartialMessageEvent, frozen=True, gc=False):
    """More text of block ``index``."""

    index: int
    text: str
    draft: MessageDraft | None = None
    at: int = 0


class TextEnd(_PartialMessageEvent, frozen=True, gc=False):
    """Block ``index`` is complete; ``text`` is all of it."""

    index: int
    text: str
    draft: MessageDraft | None = None
    at: int = 0


class ThinkingStart(_PartialMessageEvent, frozen=True, gc=False):
    """A reasoning block begins."""

    index: int
    draft: MessageDraft | None = None
    at: int = 0


class ThinkingDelta(_PartialMessageEvent, frozen=True, gc=False):
    """More reasoning of block ``index``."""

    index: int
    text: str
    draft: MessageDraft | None = None
    at: int = 0


class ThinkingEnd(_PartialMessageEvent, frozen=True, gc=False):
    """Reasoning block ``index`` is complete; ``text`` is all of it."""

    index: int
    text: str
    draft: MessageDraft | None = None
    at: int = 0


class ToolCallStart(_PartialMessageEvent, frozen=True, gc=False, tag="toolcall_start"):
    """A tool call begins. Its ID and name may be empty until the provider sends them."""

    index: int
    id: str
    name: str
    draft: MessageDraft | None = None
    at: int = 0


class ToolCallDelta(_PartialMessageEvent, frozen=True, gc=False, tag="toolcall_delta"):
    """More of the argument text of call ``index``."""

    index: int
    text: str
    draft: MessageDraft | None = None
    at: int = 0


class ToolCallEnd(_PartialMessageEvent, frozen=True, gc=False, tag="toolcall_end"):
    """Call ``index`` is complete and parsed."""

    index: int
    call: ToolUseBlock
    draft: MessageDraft | None = None
    at: int = 0


class Done(Event, frozen=True, tag="done"):
    """The response is complete. The last event of a successful stream."""

    reason: StopReason
    message: Message

    @property
    def partial(self) -> Message:
        """The complete message."""
        return self.message


class StreamError(Event, frozen=True, tag="error"):
    """The response was interrupted; ``message`` is the partial message.

    The last event of a failed or aborted stream. ``exception`` is the failure itself, in this process only.
    """

    in_process: ClassVar[tuple[str, ...]] = ("exception",)
    reason: Literal["aborted", "error"]
    message: Message
    error: ErrorInfo | None = None
    exception: ModelError | None = None

    @property
    def partial(self) -> Message:
        """The message as received so far."""
        return self.message


ContentEvent = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
)
"""Events with content. After the first of them, a failed model call is not retried."""


StreamEvent = StreamStart | ContentEvent | Done | StreamError
"""All events of a stream."""
