"""The blocks of an answer, out of pieces: each has a start, deltas and an end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.events import StreamEvent
from mainspring.models.codec.normalize import new_call_id
from mainspring.models.json_values import as_dict, to_json
from mainspring.models.message_builder import MessageBuilder
from mainspring.models.wire.anthropic.payloads import AnthropicDelta
from mainspring.models.wire.anthropic.server_blocks import encode_server_block, is_server_block

_KINDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""The kind of block that a delta belongs to, for hosts that leave out the start."""


class _OpenBlock:
    """A block that still grows.

    Attributes:
        kind: ``text``, ``thinking``, ``tool_use``, ``opaque`` (kept as it is), or anything else, which is skipped.
        at: Its block in the draft; -1 if it has none.
        start: What it was opened with.
        pieces: Signature, input or content, as it arrives.
    """

    __slots__ = ("at", "kind", "pieces", "start")

    def __init__(self, kind: str, start: Mapping[str, Any]) -> None:
        self.kind = kind
        self.at = -1
        self.start = start
        self.pieces: list[str] = []


class BlockAssembler:
    """The blocks of one answer.

    Attributes:
        draft: Where they go.
        response_id: The host's id of the answer, for calls that have none.
        calls: How many tool calls there are, and ``asked`` how many of them the model itself made; code that the host runs
            makes calls too, and may have had its answers already.
        told: Whether anything was given out that must not be said twice: text, or a complete call.
    """

    __slots__ = ("_ids", "_open", "asked", "calls", "draft", "response_id", "told")

    def __init__(self, draft: MessageBuilder) -> None:
        self.draft = draft
        self.response_id = ""
        self.calls = self.asked = 0
        self.told = False
        self._open: dict[int, _OpenBlock] = {}
        self._ids: set[str] = set()

    def start(self, index: int | None, block: Mapping[str, Any], out: list[StreamEvent]) -> None:
        """A block begins; what it already holds is taken."""
        number = self._next() if index is None else index
        self.stop(number, out)
        kind = str(block.get("type") or "")
        opened = self._open[number] = _OpenBlock("opaque" if is_server_block(kind) else kind, block)
        if kind == "text":
            self._text(opened, _string(block, "text"), out)
        elif kind == "thinking":
            event = self.draft.open_thinking()
            opened.at = event.index
            out.append(event)
            if text := _string(block, "thinking"):
                out.append(self.draft.thinking(opened.at, text))
        elif kind == "redacted_thinking":
            self.draft.redacted_thinking(_string(block, "data"))
        elif kind == "tool_use":
            self._call(opened, _string(block, "id"), _string(block, "name"), out)

    def grow(self, index: int | None, delta: AnthropicDelta, out: list[StreamEvent]) -> None:
        """A piece of a block."""
        opened = self._open.get(self._last() if index is None else index)
        if opened is None:
            kind = _KINDS.get(delta.type)
            if kind is None:
                return
            self.start(index, {"type": kind}, out)
            opened = self._open[self._last() if index is None else index]
        kind = opened.kind
        if kind == "text":
            if delta.text:
                self._text(opened, delta.text, out)
        elif kind == "tool_use":
            if delta.partial_json:
                opened.pieces.append(delta.partial_json)
                out.append(self.draft.arguments(opened.at, delta.partial_json))
        elif kind == "thinking":
            if delta.thinking:
                out.append(self.draft.thinking(opened.at, delta.thinking))
            if delta.signature:
                opened.pieces.append(delta.signature)
        elif kind == "opaque" and (piece := delta.partial_json or delta.content):
            opened.pieces.append(piece)

    def stop(self, index: int | None, out: list[StreamEvent]) -> None:
        """A block is complete."""
        opened = self._open.pop(self._last() if index is None else index, None)
        if opened is None:
            return
        joined = "".join(opened.pieces)
        if opened.kind == "text":
            if opened.at >= 0:
                out.append(self.draft.close_text(opened.at))
        elif opened.kind == "thinking":
            signature = joined or _string(opened.start, "signature")
            out.append(self.draft.close_thinking(opened.at, signature or None))
        elif opened.kind == "tool_use":
            given = opened.start.get("input")
            if given and not joined:
                text = given if isinstance(given, str) else to_json(given).decode()
                out.append(self.draft.arguments(opened.at, text))
            out.append(self.draft.close_call(opened.at, signature=_caller_json(opened)))
            self.told = True
        elif opened.kind == "opaque":
            self.draft.redacted_thinking(encode_server_block(opened.start, joined))

    def close(self, out: list[StreamEvent]) -> None:
        """The answer is complete: what is still open ends with it."""
        for index in sorted(self._open):
            self.stop(index, out)

    def _text(self, opened: _OpenBlock, text: str, out: list[StreamEvent]) -> None:
        """More text; the block begins with the first that is not empty."""
        if not text:
            return
        if opened.at < 0:
            event = self.draft.open_text()
            opened.at = event.index
            out.append(event)
        self.told = True
        out.append(self.draft.text(opened.at, text))

    def _call(self, opened: _OpenBlock, id: str, name: str, out: list[StreamEvent]) -> None:
        if not id or id in self._ids:
            id = new_call_id(self.response_id, self.calls)
        self._ids.add(id)
        self.calls += 1
        self.asked += _caller_json(opened) is None
        event = self.draft.open_call(id, name)
        opened.at = event.index
        out.append(event)

    def _last(self) -> int:
        return next(reversed(self._open), 0)

    def _next(self) -> int:
        return max(self._open, default=-1) + 1


def _string(block: Mapping[str, Any], name: str) -> str:
    value = block.get(name)
    return value if isinstance(value, str) else ""


def _caller_json(opened: _OpenBlock) -> str | None:
    """Who made a call, as JSON, if it was not the model itself: it must go back with the call."""
    caller = as_dict(opened.start.get("caller"))
    return None if caller is None or caller.get("type", "direct") == "direct" else to_json(caller).decode()
