"""Text of responses: sequential text and thinking blocks, text extraction, and split surrogate pairs."""

from __future__ import annotations

from typing import Any, cast

from mainspring.events import StreamEvent
from mainspring.messages import Message, TextBlock, strip_surrogates
from mainspring.models.json_values import as_dict
from mainspring.models.message_builder import MessageBuilder

CALL_ENDS = (">", "}", "]", ")", "`")
"""How a text ends that ends with a call."""

SPECIAL_TOKENS = ("<|", "<｜", "[TOOL_CALLS]")
"""The start of calls that may be before other text."""


class TextAndThinking:
    """The current block of a response: text, thinking, or none.

    Args:
        draft: Builder of the response.

    Attributes:
        text: Index of the open text block; -1 if none is open.
    """

    __slots__ = ("_draft", "_thinking", "text")

    def __init__(self, draft: MessageBuilder) -> None:
        self._draft = draft
        self._thinking = -1
        self.text = -1

    def add_text(self, text: str, out: list[StreamEvent]) -> None:
        """Add text; close an open thinking block."""
        if self.text < 0:
            TextAndThinking.close(self, out)
            event = self._draft.open_text()
            self.text = event.index
            out.append(event)
        if text:
            out.append(self._draft.text(self.text, text))

    def add_thinking(self, thought: str, out: list[StreamEvent]) -> None:
        """Add thinking; close an open text block."""
        if self._thinking < 0:
            TextAndThinking.close(self, out)
            event = self._draft.open_thinking()
            self._thinking = event.index
            out.append(event)
        out.append(self._draft.thinking(self._thinking, thought))

    def close(self, out: list[StreamEvent], signature: str | None = None) -> None:
        """Close the open block, with the signature to send back with it."""
        if self.text >= 0:
            out.append(self._draft.close_text(self.text, signature))
            self.text = -1
        elif self._thinking >= 0:
            out.append(self._draft.close_thinking(self._thinking, signature))
            self._thinking = -1


def extract_text(content: object) -> str:
    """Return the text of content: a string, a message, one block, or a list of blocks.

    Blocks may be Mainspring blocks, strings, or JSON objects with ``text`` (other types, for example ``thinking``, are skipped).
    Content without text adds nothing.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, Message | TextBlock):
        return content.text
    if isinstance(content, list | tuple):
        return "".join([extract_text(part) for part in cast("list[Any]", content)])
    block = as_dict(content)
    if block is None:
        return ""
    if block.get("type", "text") in ("text", "output_text", "input_text"):
        text = block.get("text")
        return text if isinstance(text, str) else extract_text(block.get("content"))
    return ""


class SurrogateJoiner:
    """Joins surrogate pairs that a provider split across two chunks; a lone surrogate becomes U+FFFD."""

    __slots__ = ("_pending_surrogates",)

    def __init__(self) -> None:
        self._pending_surrogates: dict[str, str] = {}  # pending high surrogates, by source

    def join(self, text: str | None, place: str) -> str | None:
        """Return a chunk of text, with the high surrogate left over from the previous chunk of the same source."""
        if text is None:
            return None
        text = self._pending_surrogates.pop(place, "") + text
        if text.isascii():
            return text
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if "\ud800" <= text[-1] <= "\udbff":
            self._pending_surrogates[place] = text[-1]
            text = text[:-1]
        return strip_surrogates(text)
