"""The assistant message while it is still being received.

A wire decoder calls one method per thing it saw and yields the event that it gets back. A delta costs one append: text is
joined, and a partial message built, only when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from mainspring.events.types import (
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
    """Collects an answer, block by block, and makes the events that tell of it.

    Blocks are numbered in the order in which they were opened; several may be open at once (parallel calls).

    Attributes:
        usage: Token counts as far as they were told; set by the decoder.
        count: Gives the counts when a message is made, for decoders that hear of them with every piece.
        provider: Name of the provider, for the finished message.
        model: Id of the model, for the finished message.
        tool_names: Names that stand for those of tools in partial messages; set by whoever renames tools in the events.
    """

    __slots__ = ("_blocks", "_chunks", "_log", "count", "model", "provider", "tool_names", "usage")

    def __init__(self, provider: str | None = None, model: str | None = None) -> None:
        self.provider = provider
        self.model = model
        self.usage: Usage | None = None
        self.count: Callable[[], Usage | None] | None = None
        self.tool_names: Mapping[str, str] = {}
        self._blocks: list[ContentBlock] = []  # what each block is, or will be filled into
        self._chunks: list[list[str] | None] = []  # open blocks' text; None once a block is finished
        self._log: list[
            tuple[int, str | ContentBlock]
        ] = []  # all that happened, for partials of any moment; ~index: closed

    def start(self) -> StreamStart:
        """The answer has begun."""
        return StreamStart(self, 0)

    def open_text(self) -> TextStart:
        """A text block begins."""
        return TextStart(self._open(TextBlock("")), self, len(self._log))

    def text(self, index: int, text: str) -> TextDelta:
        """More text for block ``index``."""
        self._chunks[index].append(text)  # pyright: ignore[reportOptionalMemberAccess]
        self._log.append((index, text))
        return TextDelta(index, text, self, len(self._log))

    def close_text(self, index: int, signature: str | None = None, text: str | None = None) -> TextEnd:
        """The text block ``index`` is complete; ``text`` is all of it where the provider's last word is not its pieces."""
        block = TextBlock(self._joined(index) if text is None else text, signature)
        return TextEnd(index, block.text, self, self._close(index, block))

    def open_thinking(self) -> ThinkingStart:
        """A reasoning block begins."""
        return ThinkingStart(self._open(ThinkingBlock("")), self, len(self._log))

    def thinking(self, index: int, thinking: str) -> ThinkingDelta:
        """More reasoning for block ``index``."""
        self._chunks[index].append(thinking)  # pyright: ignore[reportOptionalMemberAccess]
        self._log.append((index, thinking))
        return ThinkingDelta(index, thinking, self, len(self._log))

    def close_thinking(self, index: int, signature: str | None = None) -> ThinkingEnd:
        """The reasoning block ``index`` is complete."""
        block = ThinkingBlock(self._joined(index), signature)
        return ThinkingEnd(index, block.thinking, self, self._close(index, block))

    def redacted_thinking(self, data: str) -> None:
        """A whole block of encrypted reasoning; it has no events of its own."""
        block = RedactedThinkingBlock(data)
        self._close(self._open(block), block)

    def image(self, block: ImageBlock) -> None:
        """A whole image that the model made; it has no events of its own."""
        self._close(self._open(block), block)

    def open_call(self, id: str, name: str) -> ToolCallStart:
        """A tool call begins."""
        return ToolCallStart(self._open(ToolUseBlock(id, name)), id, name, self, len(self._log))

    def arguments(self, index: int, text: str) -> ToolCallDelta:
        """More of the argument text of call ``index``."""
        self._chunks[index].append(text)  # pyright: ignore[reportOptionalMemberAccess]
        self._log.append((index, text))
        return ToolCallDelta(index, text, self, len(self._log))

    def close_call(
        self, index: int, *, input: dict[str, Any] | None = None, signature: str | None = None
    ) -> ToolCallEnd:
        """The call ``index`` is complete; its text is parsed, unless ``input`` gives the arguments."""
        template = self._blocks[index]
        assert isinstance(template, ToolUseBlock)
        block = parse_call(template.id, template.name, self._joined(index), input, signature)
        return ToolCallEnd(index, block, self, self._close(index, block))

    def update_call(self, index: int, id: str, name: str) -> None:
        """Give a call its id or name where the provider tells them late."""
        self._blocks[index] = block = ToolUseBlock(id, name)
        self._log.append((index, block))

    def block(self, index: int) -> ContentBlock:
        """Block ``index``: the finished one, or the empty one it will be filled into."""
        return self._blocks[index]

    @property
    def open_blocks(self) -> list[int]:
        """The blocks that still grow, in order."""
        return [i for i, chunks in enumerate(self._chunks) if chunks is not None]

    def __len__(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

    def message(self, reason: StopReason | None = None, error: str | None = None) -> Message:
        """The message as it stands; open blocks show what has arrived of them."""
        if self.count is not None:
            self.usage = self.count()
        content = [
            block if chunks is None else _with_text(block, chunks)
            for block, chunks in zip(self._blocks, self._chunks, strict=True)
        ]
        return Message("assistant", tuple(content), self.usage, reason, error, provider=self.provider, model=self.model)

    def done(self, reason: StopReason) -> Done:
        """The answer is complete; every block must be closed by now."""
        return Done(reason, self.message(reason))

    def snapshot(self, at: int) -> Message:
        """The message as it was after the first ``at`` things of the log."""
        blocks: dict[int, ContentBlock] = {}
        chunks: dict[int, list[str]] = {}
        for index, piece in self._log[:at]:
            if isinstance(piece, str):
                chunks.setdefault(index, []).append(piece)
            elif index >= 0:
                blocks[index] = piece
            else:  # a finished block holds its text already
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
        self._log.append((index, block))
        return index

    def _close(self, index: int, block: ContentBlock) -> int:
        self._blocks[index] = block
        self._chunks[index] = None
        self._log.append((~index, block))
        return len(self._log)

    def _joined(self, index: int) -> str:
        return "".join(self._chunks[index] or ())


def rename_tool(block: ContentBlock, names: Mapping[str, str]) -> ContentBlock:
    """The block with another name of its tool; the same object if there is none."""
    if isinstance(block, ToolUseBlock | ToolResultBlock) and block.name in names:
        return replace(block, name=names[block.name])
    return block


def exceeds_max_depth(value: Any) -> bool:
    """Whether JSON is nested deeper than 100 levels: encoders give up at a depth that depends on who calls them."""
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
    """A call from its argument text: strict JSON object, or nothing at all; anything else is kept raw.

    So is what is nested deeper than anything a tool takes: it could be read here and not be written elsewhere.
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
