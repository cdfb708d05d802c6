"""Notifies a user who is not looking: a bell, a notification of the terminal, or a command of the user."""

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
_MAX_LENGTH = 200
_AWAY_SECONDS = 15.0
"""Seconds without a key after which the user counts as away, if the terminal does not report the focus."""


class NotificationOptions(Struct, frozen=True, kw_only=True):
    """When and how to notify.

    Attributes:
        when: ``unfocused``: while the window does not have the focus; ``always``; ``never``.
        channels: Notifications of the terminal.
        command: A shell command; it receives ``$MAINSPRING_MESSAGE`` and ``$MAINSPRING_EVENT``.
        after: Minimum seconds of a run whose end is notified.
    """

    when: NotifyWhen = "unfocused"
    channels: tuple[NotifyChannel, ...] = ("bell",)
    command: str | None = None
    after: float = 10.0


Run = Callable[[str, Mapping[str, str]], Awaitable[None]]


class Notifier:
    """Notifies the user.

    Args:
        options: When and how.
        write: Writes terminal sequences.
        environ: Environment variables of the command.
        run: Runs a command with variables; by default as a process, for at most ten seconds.
    """

    def __init__(
        self,
        options: NotificationOptions,
        write: Callable[[str], None],
        environ: Mapping[str, str],
        run: Run | None = None,
    ) -> None:
        self.options = options
        self._environ = environ
        self._write = write
        self._run = run or _run
        self.focused: bool | None = None
        """Whether the window has the focus; None if the terminal does not report it."""

    def set_focus(self, focused: bool) -> None:
        """Note that the window received or lost the focus."""
        self.focused = focused

    async def notify(
        self, reason: NotifyReason, text: str, *, idle: float = 0.0, run_seconds: float | None = None
    ) -> bool:
        """Notify the user, unless the user is looking.

        Args:
            reason: What happened.
            text: The text.
            idle: Seconds since the last key, used if the terminal does not report the focus.
            run_seconds: Duration of the run, if it ended.

        Returns:
            Whether the user was notified.
        """
        options = self.options
        is_looking = self.focused if self.focused is not None else idle < min(options.after, _AWAY_SECONDS)
        is_short = run_seconds is not None and run_seconds < options.after
        if options.when == "never" or (is_looking and options.when != "always") or is_short:
            return False
        text = to_one_row(redact(text), _MAX_LENGTH)
        for channel in options.channels:
            match channel:
                case "bell":
                    self._write("\a")
                case "osc9":
                    self._write(f"\x1b]9;{text}\a")
                case "osc777":
                    self._write(f"\x1b]777;notify;Mainspring;{text.replace(';', ',')}\a")
        if options.command:
            await self._run(options.command, {**self._environ, "MAINSPRING_MESSAGE": text, "MAINSPRING_EVENT": reason})
        return bool(options.channels or options.command)


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
