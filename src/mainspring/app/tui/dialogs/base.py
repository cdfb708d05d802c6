"""A list to choose from with arrows, letters or digits. Knows nothing of a terminal.

What all dialogs have in common: they take keys, sometimes a text, and end with a command for the chat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from mainspring.app.chat.commands import ChatCommand
from mainspring.app.tui.safe_text import escape_all, strip_emoji_modifiers, to_one_row, truncate, width
from mainspring.app.tui.styled_text import Row, make_row, wrap_row

_PAGE = 5


class MenuItem(Struct, frozen=True):
    """Something to choose.

    Attributes:
        value: What choosing it gives.
        label: For people.
        key: The letter that chooses it at once.
        detail: More about it.
        depth: How far it is indented.
    """

    value: str
    label: str
    key: str = ""
    detail: str = ""
    depth: int = 0


class Menu:
    """The list and where one is in it.

    Args:
        items: What may be chosen.
        multiple: Whether several: Space marks, Enter takes what is marked.
        at: Where to begin.
        numbered: Whether digits choose where there are no letters.
        wraps: Whether a long label continues in the next row, so that nothing of it is cut off.
    """

    def __init__(
        self,
        items: Sequence[MenuItem],
        *,
        multiple: bool = False,
        at: int = 0,
        numbered: bool = True,
        wraps: bool = False,
    ) -> None:
        self.items = list(items)
        self.at = at
        self._multiple = multiple
        self._numbered = numbered
        self._wraps = wraps
        self._marked: set[int] = set()

    def on_key(self, key: str) -> tuple[str, ...] | None:
        """Take a key, as ``up``, ``enter``, ``space`` or a character.

        Returns:
            The values that are chosen by it; ``None`` if it chooses nothing.
        """
        moved = {"up": -1, "down": 1, "c-p": -1, "c-n": 1, "pageup": -_PAGE, "pagedown": _PAGE}.get(key)
        if moved is not None:
            step = abs(moved) == 1
            self.at = (self.at + moved) % len(self.items) if step else min(max(self.at + moved, 0), len(self.items) - 1)
        elif key == "space" and self._multiple:
            self._marked ^= {self.at}
        elif key == "enter":
            marked = sorted(self._marked) if self._multiple else []
            return tuple(self.items[i].value for i in marked or [self.at])
        else:
            return self._choose_by_key(key)
        return None

    def knows(self, key: str) -> bool:
        """Whether a key means something here; characters that do not are part of something that is typed."""
        return len(key) != 1 or self._index_of_key(key) is not None

    def _choose_by_key(self, key: str) -> tuple[str, ...] | None:
        """A letter or a digit."""
        place = self._index_of_key(key)
        if place is None:
            return None
        self.at = place
        if self._multiple:
            self._marked ^= {place}
            return None
        return (self.items[place].value,)

    def _index_of_key(self, key: str) -> int | None:
        number = int(key) - 1 if self._numbered and key.isdecimal() and len(key) == 1 else -1
        places = (i for i, item in enumerate(self.items) if item.key == key or (not item.key and i == number))
        return next(places, None)

    def rows(self, columns: int, most: int) -> list[Row]:
        """The list, as much of it around the present place as fits."""
        most = max(most, 1)
        if self._wraps:
            return self._wrapped_rows(columns, most)
        first = min(max(self.at - most // 2, 0), max(len(self.items) - most, 0))
        shown = [self._row(i, columns) for i in range(first, min(first + most, len(self.items)))]
        if len(self.items) > most and shown:
            shown[-1] = [*shown[-1], *make_row(("faint", f"  {self.at + 1} of {len(self.items)}"))]
        return shown

    def _wrapped_rows(self, columns: int, most: int) -> list[Row]:
        """The list with long labels in several rows, as much of it from the present place as fits."""
        blocks = [self._block(i, columns) for i in range(len(self.items))]
        if sum(map(len, blocks)) <= most:
            return [each for block in blocks for each in block]
        first, last, room = self.at, self.at + 1, most - 1 - len(blocks[self.at])
        while last < len(blocks) and len(blocks[last]) <= room:
            room -= len(blocks[last])
            last += 1
        while first > 0 and len(blocks[first - 1]) <= room:
            first -= 1
            room -= len(blocks[first])
        rows = [each for block in blocks[first:last] for each in block]
        return [*rows[: max(most - 1, 1)], make_row(("faint", f"  {self.at + 1} of {len(self.items)}"))][:most]

    def _block(self, i: int, columns: int) -> list[Row]:
        item, chosen = self.items[i], i == self.at
        sign = "> " if chosen else "  "
        key = f"{item.key or (str(i + 1) if i < 9 and self._numbered else ' ')}  "
        style = "chosen" if chosen else ""
        label = strip_emoji_modifiers(" ".join(escape_all(item.label).split()))
        first = make_row((style, sign) if style else sign, ("accent", key), (style, label) if style else label)
        return wrap_row(first, columns, " " * width(sign + key), hard=True)

    def _column(self, columns: int) -> int:
        """How wide the labels are that have a detail behind them, so that details stand below each other."""
        sizes = [2 * item.depth + width(item.label) for item in self.items if item.detail]
        return max((size for size in sizes if size <= columns // 2), default=0)

    def _row(self, i: int, columns: int) -> Row:
        item = self.items[i]
        sign = "> " if i == self.at else "  "
        mark = ("[x] " if i in self._marked else "[ ] ") if self._multiple else ""
        key = f"{item.key or (str(i + 1) if i < 9 and self._numbered else ' ')}  "
        label = to_one_row(f"{'  ' * item.depth}{item.label}" if not item.depth else item.label, max(columns - 12, 4))
        label = "  " * item.depth + label
        if item.detail:
            label += " " * (self._column(columns) - width(label))
        room = columns - width(sign + mark + key + label) - 3
        detail = (
            f"  {truncate(to_one_row(item.detail, 200, make=escape_all), room)}" if item.detail and room > 6 else ""
        )
        style = "chosen" if i == self.at else ""
        parts = make_row((style, sign + mark), ("accent", key)) if style else make_row(sign + mark, ("accent", key))
        return [*parts, *(make_row((style, label)) if style else make_row(label)), *make_row(("faint", detail))]


class TextRequest(Struct, frozen=True):
    """A dialog wants a text.

    Attributes:
        label: What for.
        initial: What it begins with.
        suffix: Ending of a file of that kind, for the editor.
    """

    label: str
    initial: str = ""
    suffix: str = ".md"


OnDone = Callable[[ChatCommand | None], None]
"""Takes the command that a dialog ends with; ``None`` if it ends without one."""


class Dialog(Protocol):
    """Something that is asked.

    Attributes:
        id: Of the question, by which it can fall away; empty for one of the screen's own.
        wants: The text that it wants now.
    """

    id: str
    wants: TextRequest | None

    def on_key(self, key: str) -> bool:
        """Take a key; whether it means anything here. A character that does not is typed for the input."""
        ...

    def take(self, text: str) -> None:
        """Take the text that it wanted."""
        ...

    def back(self) -> None:
        """Esc: a step back, or the answer that does least."""
        ...

    def rows(self, columns: int, most: int) -> list[Row]:
        """How it looks."""
        ...
