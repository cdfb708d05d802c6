"""Text of hosts whose deltas contain all text so far, not only the new text; loaded only for compatible and local hosts."""

from __future__ import annotations

from mainspring.text import has_period

_MIN_STEPS = 3
_MIN_LENGTH = 16
_MIN_CHARACTERS = 8  # different ones
_SAMPLE = 400
_MAX_HELD = 64


class CumulativeText:
    """Filter of the deltas of one text: returns the text that each of them adds.

    Deltas are cumulative if each of the first four begins with the one before and is longer. Tokens of a text never do that, except
    in runs such as ``a aa aaa`` and in repetitions, so a text that repeats itself, or that consists of few characters, does not
    count. The second delta is delayed only if it begins with the first, until the case is decided; no other text waits, and
    without a decision all text is returned unchanged.

    Attributes:
        is_settled: Whether the deltas are not cumulative: the filter is not needed any more.
        is_cumulative: Whether they are.
    """

    __slots__ = ("_first", "_held", "_seen", "_steps", "is_cumulative", "is_settled")

    def __init__(self) -> None:
        self.is_settled = self.is_cumulative = False
        self._first = self._seen = ""
        self._held: list[str] = []
        self._steps = 0

    def add(self, text: str) -> str:
        """Return the new text of a delta; empty if it is delayed."""
        if self.is_settled or not text:
            return text
        if self.is_cumulative:
            return self._new_part(text)
        if not self._seen:
            self._first = self._seen = text
            return text
        is_longer = len(text) > len(self._seen) and text.startswith(self._seen)
        if not (is_longer or (self._held and text == self._seen)) or len(self._held) >= _MAX_HELD:
            return self.flush() + text
        self._steps += is_longer
        self._seen = text
        self._held.append(text)
        if self._steps < _MIN_STEPS or not _is_distinctive(text):
            return ""
        self.is_cumulative = True
        self._held.clear()
        return text[len(self._first) :]

    def flush(self) -> str:
        """Return the text that is delayed; the deltas count as not cumulative, unless that is decided."""
        held = "".join(self._held)
        self._held.clear()
        self.is_settled = bool(self._seen) and not self.is_cumulative
        return held

    def _new_part(self, text: str) -> str:
        if text.startswith(self._seen):
            new = text[len(self._seen) :]
            self._seen = text
            return new
        if len(text) >= _MIN_LENGTH and self._seen.startswith(text):
            return ""  # A repeated or late delta.
        self._seen += text
        return text


def _is_distinctive(text: str) -> bool:
    """Return True if a text is long and varied, and does not repeat a part of itself from the start."""
    sample = text[:_SAMPLE]
    return len(sample) >= _MIN_LENGTH and len(set(sample)) >= _MIN_CHARACTERS and not has_period(sample)
