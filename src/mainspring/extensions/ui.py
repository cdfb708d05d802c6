"""What an extension can ask a person, and what happens where there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

logger = logging.getLogger("mainspring")

NoticeLevel = Literal["info", "warn", "error"]

_LEVELS: dict[str, int] = {"info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


class UserInterface(Protocol):
    """A person at a terminal, in an editor or behind a web page; or nobody, as in `HeadlessUI`.

    Texts come from extensions and models: whoever shows them escapes control characters and interprets no markup. Questions
    are put one after the other.
    """

    @property
    def attended(self) -> bool:
        """Whether somebody can answer."""
        ...

    async def confirm(self, title: str, message: str = "") -> bool:
        """Whether they say yes; False without an answer."""
        ...

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        """What they choose; ``None`` without an answer."""
        ...

    async def input(self, title: str, placeholder: str = "") -> str | None:
        """What they write; ``None`` without an answer."""
        ...

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """Tell them something. Returns at once."""
        ...


class NonInteractiveUI:
    """Nobody is there: every question is answered with no, at once. A `UserInterface`.

    Args:
        tell: Gets notices. Default: they go to the log.
    """

    def __init__(self, tell: Callable[[str, NoticeLevel], object] | None = None) -> None:
        self._tell = tell

    @property
    def attended(self) -> bool:
        """Nobody can answer."""
        return False

    async def confirm(self, title: str, message: str = "") -> bool:
        """No."""
        return False

    async def select(self, title: str, options: Sequence[str]) -> str | None:
        """No answer."""
        return None

    async def input(self, title: str, placeholder: str = "") -> str | None:
        """No answer."""
        return None

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """Hand it to ``tell``, or log it.

        Raises:
            ValueError: If there is no such level.
        """
        if level not in _LEVELS:
            raise ValueError(f"there is no level {level!r}; there are {', '.join(_LEVELS)}")
        if self._tell is not None:
            self._tell(message, level)
        else:
            logger.log(_LEVELS[level], "%s", message)
