"""Messages: immutable values that contain blocks. The storage assigns their ``id``.

Also the removal of images for models without vision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, Self, get_args

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from mainspring.messages.content import (
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.messages.usage import Usage

Role = Literal["system", "user", "assistant"]
"""The author of a message."""
_ROLES = frozenset(get_args(Role))
StopReason = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "error", "aborted"]
"""The first five come from providers; the loop adds ``error`` and ``aborted``.

``pause_turn``: the host paused its own tools, and the same conversation is sent again to continue.
"""


OTHER_STOP_REASONS: dict[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
    "pause_turn": "pause",
    "error": "error",
    "aborted": "aborted",
}


def to_finish_reason(reason: StopReason) -> str:
    """Return the reason in the other vocabulary: ``stop``, ``length``, ``toolUse``, ``pause``, ``error``, ``aborted``."""
    return OTHER_STOP_REASONS[reason]


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


class Message(
    Struct,
    frozen=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    dict=True,
    eq=False,
    tag="message",
    tag_field="kind",
):
    """One message of a conversation. Two messages are equal only if they are the same object: a comparison checks whether a
    history still starts with the messages that were sent before, and that must be cheap.

    Attributes:
        role: The role of the sender. Tool results are blocks of a user message.
        content: The blocks, in order. Text becomes one text block.
        usage: Tokens of the call that created this message (assistant).
        stop_reason: Reason why the model stopped (assistant).
        error: The error, for ``stop_reason`` ``error`` or ``aborted``.
        provider: Name of the provider (assistant); signatures and reasoning are sent back only to it.
        model: Name of the model (assistant).
        timestamp: Time of creation, in UTC.
        id: ID in the storage; empty until the message is stored.
    """

    role: Role
    content: tuple[ContentBlock, ...] = ()
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    error: str | None = None
    provider: str | None = None
    model: str | None = None
    timestamp: datetime = field(default_factory=utc_now)
    id: str = ""

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            raise ValueError(
                f"The role of a message is user, assistant, or system, not {self.role!r}. Results of tools are blocks of a user message."
            )
        if type(self.content) is not tuple:  # for example, Message("user", "Hello")
            force_setattr(self, "content", _to_blocks(self.content))

    @classmethod
    def user(cls, content: str | Iterable[ContentBlock], **fields: Any) -> Self:
        """Create a user message from text or blocks."""
        return cls("user", _to_blocks(content), **fields)

    @classmethod
    def system(cls, text: str, **fields: Any) -> Self:
        """Create a system message inside the conversation."""
        return cls("system", _to_blocks(text), **fields)

    @classmethod
    def assistant(cls, content: str | Iterable[ContentBlock], **fields: Any) -> Self:
        """Create an assistant message from text or blocks."""
        return cls("assistant", _to_blocks(content), **fields)

    @property
    def custom_type(self) -> str:
        """Empty: only a custom message has a type. Lets a handler filter any messages of a history by type."""
        return ""

    @property
    def text(self) -> str:
        """Return all text blocks, joined."""
        return "".join([b.text for b in self.content if type(b) is TextBlock])

    @property
    def thinking(self) -> str:
        """Return all readable reasoning, joined."""
        return "".join([b.thinking for b in self.content if type(b) is ThinkingBlock])

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """Return the tool calls, in order."""
        cache = vars(self)  # called several times per turn
        if "tool_uses" not in cache:
            cache["tool_uses"] = tuple([b for b in self.content if type(b) is ToolUseBlock])
        return cache["tool_uses"]

    @property
    def tool_calls(self) -> tuple[ToolUseBlock, ...]:
        """Return the tool calls, in order: another name of `tool_uses`."""
        return self.tool_uses

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """Return the tool results, in order."""
        return tuple([b for b in self.content if type(b) is ToolResultBlock])


class CustomMessage(
    Struct,
    frozen=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    dict=True,
    eq=False,
    tag="custom",
    tag_field="kind",
):
    """A message of the application's own kind (a notification, an approval, an artifact).

    It is stored in the history and in sessions; ``convert_to_llm`` decides if and how a model sees it. It has the properties of
    a `Message`, mostly empty, so that a caller can read any message of a history without a type check.
    """

    custom_type: str
    data: Any = None
    timestamp: datetime = field(default_factory=utc_now)
    id: str = ""

    @property
    def role(self) -> Literal["custom"]:
        """The role, which no `Message` has."""
        return "custom"

    @property
    def content(self) -> tuple[ContentBlock, ...]:
        """Empty: the data of a custom message is in ``data``."""
        return ()

    @property
    def text(self) -> str:
        """Empty: a custom message has no text blocks."""
        return ""

    @property
    def thinking(self) -> str:
        """Empty: only an assistant message has reasoning."""
        return ""

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """Empty: only an assistant message has tool calls."""
        return ()

    @property
    def tool_calls(self) -> tuple[ToolUseBlock, ...]:
        """Empty: only an assistant message has tool calls."""
        return ()

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """Empty: only a user message has tool results."""
        return ()

    @property
    def usage(self) -> Usage | None:
        """None: only an assistant message has usage."""
        return None

    @property
    def stop_reason(self) -> StopReason | None:
        """None: only an assistant message has a stop reason."""
        return None


AgentMessage = Message | CustomMessage
"""An entry of a history."""


def _to_blocks(content: str | Iterable[ContentBlock]) -> tuple[ContentBlock, ...]:
    blocks: tuple[Any, ...] = (TextBlock(content),) if isinstance(content, str) else tuple(content)
    for block in blocks:
        if not isinstance(block, ContentBlock):
            raise TypeError(f"The content of a message must be text or blocks, not {type(block).__name__}.")
    return blocks


def to_messages(prompt: str | AgentMessage | Sequence[AgentMessage | ContentBlock] | None) -> list[AgentMessage]:
    """Convert a prompt to messages.

    A string, or blocks of text and images, become one user message; messages are returned unchanged. None and an empty text are
    no messages.

    Raises:
        TypeError: If the sequence mixes messages and blocks, or contains other values.
    """
    if prompt is None or isinstance(prompt, str):
        return [Message.user(prompt)] if prompt else []
    given: list[object] = [prompt] if isinstance(prompt, dict) or not isinstance(prompt, Iterable) else list(prompt)
    messages = [m for m in given if isinstance(m, Message | CustomMessage)]
    blocks = [b for b in given if isinstance(b, TextBlock | ImageBlock)]
    if messages and len(messages) == len(given):
        return messages
    if len(blocks) == len(given):
        return [Message.user(blocks)] if blocks else []
    wrong = next((b for b in given if not isinstance(b, Message | CustomMessage | TextBlock | ImageBlock)), given)
    raise TypeError(
        "A prompt must be text, a list of text and image blocks, or a list of messages, for example "
        f'[Message.user("Hi")], not {wrong!r:.80}.'
    )


def convert_to_llm(messages: Sequence[AgentMessage]) -> list[Message]:
    """The default conversion for a model: application messages are omitted."""
    return [m for m in messages if type(m) is Message]


def image_placeholder(block: ImageBlock) -> str:
    """Return the line of text that replaces an image for a model without vision."""
    return f"[{block.media_type} image left out: this model takes no images]"


def sanitize_stored_tool_results(messages: Sequence[AgentMessage], *, vision: bool = False) -> list[AgentMessage]:
    """Convert a stored history for a model without vision: images in tool results become lines of text.

    Requests are converted automatically; this function is for a stored history that is passed elsewhere. Nothing is changed in
    place.

    Args:
        messages: The history.
        vision: Whether the model takes images; then nothing is omitted.

    Returns:
        The messages; unchanged messages are the same objects.
    """
    return list(messages) if vision else [_without_images(message) for message in messages]


def _without_images(message: AgentMessage) -> AgentMessage:
    if not isinstance(message, Message) or not any(map(_has_images, message.content)):
        return message
    return replace(
        message, content=tuple([_flatten_result(b) if isinstance(b, ToolResultBlock) else b for b in message.content])
    )


def _has_images(block: ContentBlock) -> bool:
    return (
        isinstance(block, ToolResultBlock)
        and not isinstance(block.content, str)
        and any(isinstance(part, ImageBlock) for part in block.content)
    )


def _flatten_result(block: ToolResultBlock) -> ToolResultBlock:
    """Return a result with all of its content as one text."""
    if isinstance(block.content, str):
        return block
    lines = [part.text if isinstance(part, TextBlock) else image_placeholder(part) for part in block.content]
    return replace(block, content="\n".join(lines))


def ensure_unique_call_ids(message: Message, new_id: Callable[[], str]) -> Message:
    """Return the message with a unique ID for each of its calls; the same object if the IDs are unique."""
    ids = [c.id for c in message.tool_uses]
    if not ids or (all(ids) and len(set(ids)) == len(ids)):
        return message
    seen: set[str] = set()
    content = list(message.content)
    for i, block in enumerate(content):
        if isinstance(block, ToolUseBlock):
            if not block.id or block.id in seen:
                content[i] = block = replace(block, id=f"call_{new_id()}")
            seen.add(block.id)
    return replace(message, content=tuple(content))
