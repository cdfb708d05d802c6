"""What all dialogs have in common: they take keys, sometimes a text, and end with a command for the chat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from mainspring.app.chat.commands import ChatCommand
from mainspring.app.tui.styled_text import Row


class TextWanted(Struct, frozen=True):
    """A dialog wants a text.

    Attributes:
        label: What for.
        initial: What it begins with.
        suffix: Ending of a file of that kind, for the editor.
    """

    label: str
    initial: str = ""
    suffix: str = ".md"


Finish = Callable[[ChatCommand | None], None]
"""Takes the command that a dialog ends with; ``None`` if it ends without one."""


class Dialog(Protocol):
    """Something that is asked.

    Attributes:
        id: Of the question, by which it can fall away; empty for one of the screen's own.
        wants: The text that it wants now.
    """

    id: str
    wants: TextWanted | None

    def press(self, key: str) -> bool:
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
