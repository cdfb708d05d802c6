"""Characters that a host cut in two: one surrogate half at the end of a piece, the other at the start of the next."""

from __future__ import annotations

from mainspring.messages import strip_surrogates


class Halves:
    """Puts halves together again; a half that stays alone becomes U+FFFD."""

    __slots__ = ("_halves",)

    def __init__(self) -> None:
        self._halves: dict[str, str] = {}  # the first half of a character, by the place it came from

    def mended(self, text: str | None, place: str) -> str | None:
        """A piece of text, with the half that was left over from the piece before it at the same place."""
        if text is None:
            return None
        text = self._halves.pop(place, "") + text
        if text.isascii():
            return text
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if "\ud800" <= text[-1] <= "\udbff":
            self._halves[place] = text[-1]
            text = text[:-1]
        return strip_surrogates(text)
