"""Conversations in the form of the conventions: messages of parts, as JSON text, without secrets. Used only where content is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.redaction import Redactor
from mainspring.telemetry.conventions import STOP_REASONS, SYSTEM_INSTRUCTIONS, TOOL_DEFINITIONS

_LARGE = 1 << 18  # characters of a text that are checked for secrets; of longer ones the rest is left out


class Cleaner:
    """Takes secrets out of text, and what is beyond the limit.

    Args:
        limit: Characters that stay.
        redactor: Takes secrets out.
    """

    def __init__(self, limit: int, redactor: Redactor) -> None:
        self._redactor = redactor
        self._limit = limit

    def text(self, text: str) -> str:
        """Redact a text, and cut it off at the limit; afterwards, since half a key has no shape."""
        clean = self._redactor.text(text[: max(_LARGE, 2 * self._limit)])
        return clean if len(clean) <= self._limit else f"{clean[: self._limit]}…"

    def line(self, text: str) -> str:
        """Redact the first line of an error, and shorten it."""
        return self._redactor.text(text[:_LARGE]).partition("\n")[0][:500]

    def value(self, value: Any) -> Any:
        """Redact whatever JSON can hold; one that is too long becomes text."""
        clean = self._redactor.value(msgspec.to_builtins(value, enc_hook=str, str_keys=True))
        text = _json(clean)
        return clean if len(text) <= self._limit else f"{text[: self._limit]}…"


class ContentEncoder:
    """Messages as JSON text. What was converted once is kept: a long conversation goes along with each of its requests."""

    def __init__(self, cleaner: Cleaner) -> None:
        self.cleaner = cleaner
        self._kept: dict[int, tuple[Message, str]] = {}

    def messages(self, messages: Iterable[Message]) -> str:
        """Input messages."""
        return f"[{','.join([self._message(m) for m in messages])}]"

    def answer(self, message: Message) -> str:
        """Output messages."""
        reason = message.stop_reason or "end_turn"
        made = {
            "role": "assistant",
            "parts": self._parts(message.content),
            "finish_reason": STOP_REASONS.get(reason, reason),
        }
        return _json([made])

    def given(self, system: str, tools: Sequence[ToolDefinition]) -> dict[str, str]:
        """What a request has beside its messages. Tools by their names only: their schemas are large, and always the same."""
        made: dict[str, str] = {}
        if system:
            made[SYSTEM_INSTRUCTIONS] = _json([{"type": "text", "content": self.cleaner.text(system)}])
        if tools:
            made[TOOL_DEFINITIONS] = _json([{"type": "function", "name": t.name} for t in tools])
        return made

    def value(self, value: Any) -> str:
        """Arguments of a call."""
        clean = self.cleaner.value(value)
        return clean if isinstance(clean, str) else _json(clean)

    def _message(self, message: Message) -> str:
        known = self._kept.get(id(message))
        if known is None or known[0] is not message:
            role = "tool" if message.tool_results else message.role
            made = _json({"role": role, "parts": self._parts(message.content)})
            self._kept[id(message)] = known = (message, made)
        return known[1]

    def _parts(self, blocks: Iterable[ContentBlock]) -> list[dict[str, Any]]:
        return [self._part(b) for b in blocks]

    def _part(self, block: ContentBlock) -> dict[str, Any]:
        clean: Callable[[str], str] = self.cleaner.text
        match block:
            case TextBlock():
                return {"type": "text", "content": clean(block.text)}
            case ThinkingBlock():
                return {"type": "reasoning", "content": clean(block.thinking)}
            case RedactedThinkingBlock():
                return {"type": "reasoning", "content": ""}
            case ImageBlock():
                return {"type": "image", "mime_type": block.media_type, "base64_length": len(block.data)}
            case ToolUseBlock():
                given = block.input if block.raw_input is None else block.raw_input
                return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": self.cleaner.value(given)}
            case ToolResultBlock():
                return {"type": "tool_call_response", "id": block.tool_use_id, "response": clean(block.text)}


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode("utf-8", "replace")
