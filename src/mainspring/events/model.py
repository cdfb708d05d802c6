"""What a model says while it says it: the events of one answer.

Order: ``StreamStart``; for each block its start, deltas and end (blocks may interleave); then ``Done``. A provider that
fails raises instead; the loop turns that into one ``StreamError``. ``partial`` of an event is the message as it was at that
moment, built when read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import Struct

from mainspring.errors import ModelError
from mainspring.messages import Message, StopReason, ToolUseBlock

if TYPE_CHECKING:
    from mainspring.models.message_builder import Draft


class _Growing(Struct, frozen=True, gc=False, eq=False):
    """Shared by the events that come while the message grows."""

    @property
    def partial(self) -> Message:
        """The assistant message as it was at this event."""
        # A struct without fields of its own: `draft` and `at` are those of each event, and stand last there.
        draft: Draft | None = self.draft  # type: ignore[attr-defined]
        return draft.snapshot(self.at) if draft else Message("assistant")  # type: ignore[attr-defined]


class StreamStart(_Growing, frozen=True, gc=False, eq=False):
    """The answer begins."""

    type: ClassVar[str] = "start"
    draft: Draft | None = None
    at: int = 0


class TextStart(_Growing, frozen=True, gc=False, eq=False):
    """A text block begins."""

    type: ClassVar[str] = "text_start"
    index: int
    draft: Draft | None = None
    at: int = 0


class TextDelta(_Growing, frozen=True, gc=False, eq=False):
    """More text of block ``index``."""

    type: ClassVar[str] = "text_delta"
    index: int
    text: str
    draft: Draft | None = None
    at: int = 0


class TextEnd(_Growing, frozen=True, gc=False, eq=False):
    """Block ``index`` is complete; ``text`` is all of it."""

    type: ClassVar[str] = "text_end"
    index: int
    text: str
    draft: Draft | None = None
    at: int = 0


class ThinkingStart(_Growing, frozen=True, gc=False, eq=False):
    """A reasoning block begins."""

    type: ClassVar[str] = "thinking_start"
    index: int
    draft: Draft | None = None
    at: int = 0


class ThinkingDelta(_Growing, frozen=True, gc=False, eq=False):
    """More reasoning of block ``index``."""

    type: ClassVar[str] = "thinking_delta"
    index: int
    thinking: str
    draft: Draft | None = None
    at: int = 0


class ThinkingEnd(_Growing, frozen=True, gc=False, eq=False):
    """Reasoning block ``index`` is complete; ``thinking`` is all of it."""

    type: ClassVar[str] = "thinking_end"
    index: int
    thinking: str
    draft: Draft | None = None
    at: int = 0


class ToolCallStart(_Growing, frozen=True, gc=False, eq=False):
    """A tool call begins; id and name may still be empty where a provider tells them late."""

    type: ClassVar[str] = "toolcall_start"
    index: int
    id: str
    name: str
    draft: Draft | None = None
    at: int = 0


class ToolCallDelta(_Growing, frozen=True, gc=False, eq=False):
    """More of the argument text of call ``index``."""

    type: ClassVar[str] = "toolcall_delta"
    index: int
    text: str
    draft: Draft | None = None
    at: int = 0


class ToolCallEnd(_Growing, frozen=True, gc=False, eq=False):
    """Call ``index`` is complete and parsed."""

    type: ClassVar[str] = "toolcall_end"
    index: int
    call: ToolUseBlock
    draft: Draft | None = None
    at: int = 0


class Done(Struct, frozen=True, eq=False):
    """The answer is complete. The last event of a good stream."""

    type: ClassVar[str] = "done"
    reason: StopReason
    message: Message

    @property
    def partial(self) -> Message:
        """The complete message."""
        return self.message


class StreamError(Struct, frozen=True, eq=False):
    """The answer broke off. The last event of a failed or aborted stream; ``message`` is what had arrived."""

    type: ClassVar[str] = "error"
    reason: Literal["aborted", "error"]
    message: Message
    error: ModelError | None = None

    @property
    def partial(self) -> Message:
        """What had arrived."""
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
"""Events that carry content: after the first of these an answer is never asked for again."""

StreamEvent = StreamStart | ContentEvent | Done | StreamError
"""Everything a stream can hold."""
