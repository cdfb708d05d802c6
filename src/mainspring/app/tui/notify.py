"""Tells people who look elsewhere that the agent is done or asks: bell, a message of the terminal, or a command of theirs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from mainspring.app.tui.plain import one_row

Way = Literal["bell", "osc9", "osc777", "command", "off"]

_COMMAND_SECONDS = 10.0
_MOST = 200


class Notifications(Struct, frozen=True, kw_only=True):
    """How to tell.

    Attributes:
        ways: The ways, in order.
        command: The program and its arguments; title and text come as the last two.
        after: Seconds that a run has to take before its end is told.
        always: Whether even while the window has the focus.
    """

    ways: tuple[Way, ...] = ("bell",)
    command: tuple[str, ...] = ()
    after: float = 10.0
    always: bool = False


class Notifier:
    """Tells, as it was asked to.

    Args:
        how: How.
        write: Writes terminal sequences.
        run: Runs a command; by default as a process of its own, for ten seconds at most.
    """

    def __init__(
        self,
        how: Notifications,
        write: Callable[[str], None],
        run: Callable[[tuple[str, ...]], Awaitable[None]] | None = None,
    ) -> None:
        self._how = how
        self._write = write
        self._run = run or _run
        self.focused: bool | None = None
        """Whether the window has the focus; ``None`` where the terminal does not tell."""

    async def tell(self, title: str, text: str, *, idle: float = 0.0, took: float | None = None) -> bool:
        """Tell something, unless somebody looks.

        Args:
            title: Who.
            text: What.
            idle: Seconds since the last key, which count where the terminal does not tell about the focus.
            took: Seconds that a run took, if it is told that it is over.

        Returns:
            Whether it was told.
        """
        how = self._how
        looked_at = self.focused or (self.focused is None and idle < how.after)
        if (looked_at and not how.always) or (took is not None and took < how.after):
            return False
        title, text = _inert(title), _inert(text)
        for way in how.ways:
            match way:
                case "bell":
                    self._write("\a")
                case "osc9":
                    self._write(f"\x1b]9;{title}: {text}\a")
                case "osc777":
                    self._write(f"\x1b]777;notify;{title.replace(';', ',')};{text.replace(';', ',')}\a")
                case "command":
                    if how.command:
                        await self._run((*how.command, title, text))
                case "off":
                    return False
        return bool(how.ways)


def _inert(text: str) -> str:
    return one_row(text, _MOST)


async def _run(command: tuple[str, ...]) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=os.name == "posix",
        )
    except OSError:
        return
    try:
        async with asyncio.timeout(_COMMAND_SECONDS):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
