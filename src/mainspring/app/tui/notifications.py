"""Tells people who look elsewhere that the agent is done or asks: bell, a message of the terminal, or a command of theirs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from msgspec import Struct

from mainspring.app.tui.safe_text import to_one_row
from mainspring.redaction import redact

NotifyChannel = Literal["bell", "osc9", "osc777"]
NotifyWhen = Literal["unfocused", "always", "never"]
NotifyReason = Literal["done", "asking", "failed"]

_COMMAND_SECONDS = 10.0
_MOST = 200
_AWAY_SECONDS = 15.0
"""Seconds without a key after which nobody is taken to look, where the terminal does not tell about the focus."""


class NotificationOptions(Struct, frozen=True, kw_only=True):
    """How to tell.

    Attributes:
        when: ``unfocused``: while nobody looks; ``always``; ``never``.
        ways: The ways of the terminal.
        command: A shell command; it finds what is told in ``$MAINSPRING_MESSAGE`` and ``$MAINSPRING_EVENT``.
        after: Seconds that a run has to take before its end is told.
    """

    when: NotifyWhen = "unfocused"
    ways: tuple[NotifyChannel, ...] = ("bell",)
    command: str | None = None
    after: float = 10.0


Run = Callable[[str, Mapping[str, str]], Awaitable[None]]


class Notifier:
    """Tells, as it was asked to.

    Args:
        how: How.
        write: Writes terminal sequences.
        environ: The environment of the command.
        run: Runs a command with variables; by default a process of its own, for ten seconds at most.
    """

    def __init__(
        self,
        how: NotificationOptions,
        write: Callable[[str], None],
        environ: Mapping[str, str],
        run: Run | None = None,
    ) -> None:
        self.how = how
        self._environ = environ
        self._write = write
        self._run = run or _run
        self.focused: bool | None = None
        """Whether the window has the focus; ``None`` where the terminal does not tell."""

    async def tell(self, what: NotifyReason, text: str, *, idle: float = 0.0, took: float | None = None) -> bool:
        """Tell something, unless somebody looks.

        Args:
            what: What happened.
            text: It in words.
            idle: Seconds since the last key, which count where the terminal does not tell about the focus.
            took: Seconds that a run took, if it is told that it is over.

        Returns:
            Whether it was told.
        """
        how = self.how
        looked_at = self.focused if self.focused is not None else idle < min(how.after, _AWAY_SECONDS)
        if how.when == "never" or (looked_at and how.when != "always") or (took is not None and took < how.after):
            return False
        text = to_one_row(redact(text), _MOST)
        for way in how.ways:
            match way:
                case "bell":
                    self._write("\a")
                case "osc9":
                    self._write(f"\x1b]9;{text}\a")
                case "osc777":
                    self._write(f"\x1b]777;notify;Mainspring;{text.replace(';', ',')}\a")
        if how.command:
            await self._run(how.command, {**self._environ, "MAINSPRING_MESSAGE": text, "MAINSPRING_EVENT": what})
        return bool(how.ways or how.command)


async def _run(command: str, environ: Mapping[str, str]) -> None:
    try:
        process = await asyncio.create_subprocess_shell(
            command,
            env=dict(environ),
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
