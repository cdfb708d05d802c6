"""Reasoning in Chat Completions answers: several fields, one block, and what is needed to send it back.

The signature of a thinking block says how: the name of the field it came in, or the JSON of the ``reasoning_details`` entry
without its text.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.events import StreamEvent
from mainspring.models.message_builder import Draft


class Reasoning:
    """The reasoning of one answer."""

    __slots__ = ("_detail", "_draft", "_index", "_mark")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._index = -1  # the open thinking block
        self._mark = ""
        self._detail: dict[str, Any] | None = None

    def add(self, text: str, mark: str, details: list[dict[str, Any]] | None, out: list[StreamEvent]) -> None:
        """Take a piece: its text, the field it came in, and structured details, which may repeat the text."""
        if not details:
            self._grow(text, mark, None, out)
            return
        told = bool(text)
        for detail in details:
            if "data" in detail:
                self._redacted(detail, out)
                continue
            piece = detail.get("text") or detail.get("summary") or ""
            self._grow(piece if isinstance(piece, str) else "", mark, detail, out)
            told = False
        if told and all("data" in detail for detail in details):
            self._grow(text, mark, None, out)

    def close(self, out: list[StreamEvent]) -> None:
        """End the open block, if there is one."""
        if self._index < 0:
            return
        signature = msgspec.json.encode(self._detail).decode() if self._detail else self._mark
        out.append(self._draft.close_thinking(self._index, signature))
        self._index = -1
        self._detail = None

    def _grow(self, text: str, mark: str, detail: dict[str, Any] | None, out: list[StreamEvent]) -> None:
        if self._index >= 0 and self._differs(detail):
            self.close(out)
        if self._index < 0:
            if not text and not (detail and detail.get("signature")):
                return
            event = self._draft.open_thinking()
            self._index = event.index
            self._mark = mark
            out.append(event)
        if text:
            out.append(self._draft.thinking(self._index, text))
        if detail is not None:
            kept = {k: v for k, v in detail.items() if k not in ("text", "summary") and v not in (None, "")}
            self._detail = {**(self._detail or {}), **kept}

    def _differs(self, detail: dict[str, Any] | None) -> bool:
        """Whether a detail belongs to another entry than the open block."""
        if detail is None or self._detail is None:
            return False
        return (detail.get("type"), detail.get("index")) != (self._detail.get("type"), self._detail.get("index"))

    def _redacted(self, detail: dict[str, Any], out: list[StreamEvent]) -> None:
        self.close(out)
        self._draft.redacted_thinking(msgspec.json.encode(detail).decode())
