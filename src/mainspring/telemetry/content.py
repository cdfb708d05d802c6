"""Conversations in the form of the conventions: messages of parts, as JSON text, without secrets. Used only where content is wanted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mainspring.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolSpec,
    ToolUseBlock,
)
from mainspring.redaction import redact
from mainspring.telemetry.conventions import STOP_REASONS, SYSTEM_INSTRUCTIONS, TOOL_DEFINITIONS

_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY")
_SHORTEST = 8


class Cleaner:
    """Takes secrets out of text, and what is beyond the limit.

    Args:
        limit: Characters that stay.
        environ: Whose keys are secrets wherever they stand.
    """

    def __init__(self, limit: int, environ: Mapping[str, str] = os.environ) -> None:
        found = {v for name, v in environ.items() if name.upper().endswith(_ENDINGS) and len(v) >= _SHORTEST}
        found |= {_json(v)[1:-1] for v in found}  # as it stands in the arguments of a call
        self._secrets = tuple(sorted(found, key=len, reverse=True))
        self._limit = limit

    def text(self, text: str) -> str:
        """The text as it may be sent. A long one is cut before it is looked through; what stands near that cut, where a key may have
        been cut in two, is left out.
        """
        clean = redact(text[: self._limit * 2], *self._secrets)
        if len(text) > self._limit * 2:
            clean = clean[: -self._limit or None]
        elif len(clean) <= self._limit:
            return clean
        return f"{clean[: self._limit]}…"

    def line(self, text: str) -> str:
        """The first line of it, not long: for errors."""
        return redact(text.partition("\n")[0][:2000], *self._secrets)[:500]

    def value(self, value: Any) -> Any:
        """The same for whatever JSON can hold; a field whose name tells that it is a secret is masked as well."""
        text = msgspec.json.encode(value, enc_hook=str).decode("utf-8", "replace")
        clean = redact(text, *self._secrets)
        if len(clean) > self._limit:
            return f"{clean[: self._limit]}…"
        try:
            return msgspec.json.decode(clean)
        except msgspec.DecodeError:
            return clean


class Content:
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

    def given(self, system: str, tools: Sequence[ToolSpec]) -> dict[str, str]:
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
