"""Text and thinking of an answer whose blocks come one after the other."""

from __future__ import annotations

from mainspring.events import StreamEvent
from mainspring.models.message_builder import Draft


class Prose:
    """The block that is being written: text, thinking, or none.

    Args:
        draft: The answer.

    Attributes:
        text: The open text block; -1 if there is none.
    """

    __slots__ = ("_draft", "_thinking", "text")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._thinking = -1
        self.text = -1

    def say(self, text: str, out: list[StreamEvent]) -> None:
        """More text; what else is open ends."""
        if self.text < 0:
            self.close(out)
            event = self._draft.open_text()
            self.text = event.index
            out.append(event)
        if text:
            out.append(self._draft.text(self.text, text))

    def think(self, thought: str, out: list[StreamEvent]) -> None:
        """More thinking; what else is open ends."""
        if self._thinking < 0:
            self.close(out)
            event = self._draft.open_thinking()
            self._thinking = event.index
            out.append(event)
        out.append(self._draft.thinking(self._thinking, thought))

    def close(self, out: list[StreamEvent], signature: str | None = None) -> None:
        """End what is open, with the signature that it goes back under."""
        if self.text >= 0:
            out.append(self._draft.close_text(self.text, signature))
            self.text = -1
        elif self._thinking >= 0:
            out.append(self._draft.close_thinking(self._thinking, signature))
            self._thinking = -1
