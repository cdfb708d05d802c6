"""Builder of an assistant message during streaming.

A wire decoder calls one method per received element and yields the event that it returns. A delta costs one append: text is
joined, and a partial message built, only when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from mainspring.events.response import (
    Done,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)

_decode = msgspec.json.Decoder().decode
_MAX_DEPTH = 100


class MessageBuilder:
    """Collects a response block by block and creates its events.

    Blocks are numbered in the order in which they were opened; several may be open at the same time (parallel calls).

    Attributes:
        usage: Token counts received so far; set by the decoder.
        log: All changes, to build the partial message of any moment: the block, and its new text or the block; ~index: closed.
        count: Function that returns the counts when a message is built, for decoders that receive counts with every chunk.
        provider: Name of the provider, for the finished message.
        model: Model ID, for the finished message.
        tool_names: Tool names to show in partial messages, by received name; set by the code that renames tools in events.
    """

    __slots__ = ("_blocks", "_chunks", "count", "log", "model", "provider", "tool_names", "usage")

    def __init__(self, provider: str | None = None, model: str | None = None) -> None:
        self.provider = provider
        self.model = model
        self.usage: Usage | None = None
        self.count: Callable[[], Usage | None] | None = None
        self.tool_names: Mapping[str, str] = {}
        self._blocks: list[ContentBlock] = []  # Each block, or the empty block to fill.
        self._chunks: list[list[str] | None] = []  # Text of open blocks; None when a block is finished.
        self.log: list[tuple[int, str | ContentBlock]] = []

    def start(self) -> StreamStart:
        """Start the response."""
        return StreamStart(self, 0)

    def open_text(self) -> TextStart:
        """Open a text block."""
        return TextStart(self._open(TextBlock("")), self, len(self.log))

    def text(self, index: int, text: str) -> TextDelta:
        """Add text to block ``index``."""
        self._chunks[index].append(text)  # pyright: ignore[reportOptionalMemberAccess]
        self.log.append((index, text))
        return TextDelta(index, text, self, len(self.log))

    def close_text(self, index: int, signature: str | None = None, text: str | None = None) -> TextEnd:
        """Close the text block ``index``; ``text`` is the full text if the provider sends it and it differs from the deltas."""
        block = TextBlock(self._joined(index) if text is None else text, signature)
        return TextEnd(index, block.text, self, self._close(index, block))

    def open_thinking(self) -> ThinkingStart:
        """Open a reasoning block."""
        return ThinkingStart(self._open(ThinkingBlock("")), self, len(self.log))

    def thinking(self, index: int, thinking: str) -> ThinkingDelta:
        """Add reasoning to block ``index``."""
        self._chunks[index].append(thinking)  # pyright: ignore[reportOptionalMemberAccess]
        self.log.append((index, thinking))
        return ThinkingDelta(index, thinking, self, len(self.log))

    def close_thinking(self, index: int, signature: str | None = None) -> ThinkingEnd:
        """Close the reasoning block ``index``."""
        block = ThinkingBlock(self._joined(index), signature)
        return ThinkingEnd(index, block.thinking, self, self._close(index, block))

    def redacted_thinking(self, data: str) -> None:
        """Add a block of encrypted reasoning; it has no events."""
        block = RedactedThinkingBlock(data)
        self._close(self._open(block), block)

    def image(self, block: ImageBlock) -> None:
        """Add an image that the model created; it has no events."""
        self._close(self._open(block), block)

    def open_call(self, id: str, name: str) -> ToolCallStart:
        """Open a tool call."""
        return ToolCallStart(self._open(ToolUseBlock(id, name)), id, name, self, len(self.log))

    def arguments(self, index: int, text: str) -> ToolCallDelta:
        """Add argument text to call ``index``."""
        self._chunks[index].append(text)  # pyright: ignore[reportOptionalMemberAccess]
        self.log.append((index, text))
        return ToolCallDelta(index, text, self, len(self.log))

    def close_call(
        self, index: int, *, input: dict[str, Any] | None = None, signature: str | None = None
    ) -> ToolCallEnd:
        """Close the call ``index``; its text is parsed, unless ``input`` contains the arguments."""
        template = self._blocks[index]
        assert isinstance(template, ToolUseBlock)
        block = parse_call(template.id, template.name, self._joined(index), input, signature)
        return ToolCallEnd(index, block, self, self._close(index, block))

    def update_call(self, index: int, id: str, name: str) -> None:
        """Set the ID or name of a call if the provider sends them late."""
        self._blocks[index] = block = ToolUseBlock(id, name)
        self.log.append((index, block))

    def block(self, index: int) -> ContentBlock:
        """Return block ``index``: the finished one, or the empty one to fill."""
        return self._blocks[index]

    @property
    def open_blocks(self) -> list[int]:
        """Return the open blocks, in order."""
        return [i for i, chunks in enumerate(self._chunks) if chunks is not None]

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._blocks)

    def message(self, reason: StopReason | None = None, error: str | None = None) -> Message:
        """Return the current message; open blocks contain the content received so far."""
        if self.count is not None:
            self.usage = self.count()
        content = [
            block if chunks is None else _with_text(block, chunks)
            for block, chunks in zip(self._blocks, self._chunks, strict=True)
        ]
        return Message("assistant", tuple(content), self.usage, reason, error, provider=self.provider, model=self.model)

    def done(self, reason: StopReason) -> Done:
        """Finish the response; every block must be closed."""
        return Done(reason, self.message(reason))

    def snapshot(self, at: int) -> Message:
        """Return the message after the first ``at`` entries of the log."""
        blocks: dict[int, ContentBlock] = {}
        chunks: dict[int, list[str]] = {}
        for index, piece in self.log[:at]:
            if isinstance(piece, str):
                chunks.setdefault(index, []).append(piece)
            elif index >= 0:
                blocks[index] = piece
            else:  # A finished block already contains its text.
                blocks[~index] = piece
                chunks.pop(~index, None)
        content = [_with_text(block, chunks[i]) if i in chunks else block for i, block in blocks.items()]
        if self.tool_names:
            content = [rename_tool(block, self.tool_names) for block in content]
        return Message("assistant", tuple(content), provider=self.provider, model=self.model)

    def _open(self, block: ContentBlock) -> int:
        self._blocks.append(block)
        self._chunks.append([])
        index = len(self._blocks) - 1
        self.log.append((index, block))
        return index

    def _close(self, index: int, block: ContentBlock) -> int:
        self._blocks[index] = block
        self._chunks[index] = None
        self.log.append((~index, block))
        return len(self.log)

    def _joined(self, index: int) -> str:
        return "".join(self._chunks[index] or ())


def rename_tool(block: ContentBlock, names: Mapping[str, str]) -> ContentBlock:
    """Return the block with another tool name; the same object if the name does not change."""
    if isinstance(block, ToolUseBlock | ToolResultBlock) and block.name in names:
        return replace(block, name=names[block.name])
    return block


def exceeds_max_depth(value: Any) -> bool:
    """Return True if JSON is nested deeper than 100 levels: encoders fail at a depth that depends on the call stack."""
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        level = [inner for holder in level for inner in _children_of(holder)]
        if not level:
            return False
    return True


def _children_of(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def parse_call(
    id: str, name: str, text: str, input: dict[str, Any] | None = None, signature: str | None = None
) -> ToolUseBlock:
    """Parse a call from its argument text: an empty text or a strict JSON object; anything else is stored as raw text.

    JSON nested deeper than any tool needs is also stored as raw text: it could be read here, but not encoded again.
    """
    if input is not None:
        deep = exceeds_max_depth(input)
        return ToolUseBlock(id, name, {} if deep else input, text if deep else None, signature)
    if not text or text.isspace():
        return ToolUseBlock(id, name, {}, None, signature)
    try:
        value: Any = _decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ToolUseBlock(id, name, {}, text, signature)
    if type(value) is dict and not (text.count("{") + text.count("[") > _MAX_DEPTH and exceeds_max_depth(value)):
        return ToolUseBlock(id, name, cast("dict[str, Any]", value), None, signature)
    return ToolUseBlock(id, name, {}, None if value is None else text, signature)


def _with_text(block: ContentBlock, chunks: list[str]) -> ContentBlock:
    text = "".join(chunks)
    match block:
        case TextBlock():
            return TextBlock(text)
        case ThinkingBlock():
            return ThinkingBlock(text)
        case ToolUseBlock():
            return ToolUseBlock(block.id, block.name, {}, text)
        case _:
            return block
