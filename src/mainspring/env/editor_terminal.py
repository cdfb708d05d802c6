"""Terminals of an editor, in which scripts run before the eyes of its user."""

from __future__ import annotations

import asyncio
import signal as signals
import time
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from mainspring.cancellation import CancelToken
from mainspring.env.types import CapturedOutput, ProcessResult

EDITOR_TIMEOUT = 5.0
"""Seconds that an editor has to tell how something ended, and to let go of it."""

OUTPUT_BYTE_LIMIT = 1 << 20
"""Bytes of output that an editor is asked to keep."""


TerminalExit = tuple[int | None, str | None]
"""How a script ended: with a code, or by a signal; neither is known where the terminal was closed under it."""


class Terminal(Protocol):
    """A script that runs in a terminal. Whatever fails raises an `OSError`.

    Attributes:
        id: What the editor knows it by.
    """

    @property
    def id(self) -> str:
        """What the editor knows it by."""
        ...

    async def ended(self) -> TerminalExit:
        """Wait for the end of the script."""
        ...

    async def output(self) -> tuple[str, bool]:
        """What it has written, and whether its beginning is lost."""
        ...

    async def kill(self) -> None:
        """End the script; the terminal stays."""
        ...

    async def release(self) -> None:
        """Let go of the terminal; a script that still runs ends."""
        ...


class TerminalProvider(Protocol):
    """An editor that has terminals."""

    async def open(
        self, command: Sequence[str], *, cwd: str, variables: Mapping[str, str], keep: int
    ) -> Terminal | None:
        """Run a program in a new terminal; ``None`` where the editor has none for it.

        Args:
            command: The program and its arguments.
            cwd: Where it runs.
            variables: What it gets beside the editor's own variables.
            keep: Bytes of output to keep, from its end.
        """
        ...


async def run_to_exit(terminal: Terminal, *, timeout: float | None, signal: CancelToken | None) -> ProcessResult:
    """Wait for the end of a script, or end it; the terminal is released in any case.

    Args:
        terminal: Where it runs.
        timeout: Seconds it may take.
        signal: Ends it when set.

    Raises:
        OSError: If the editor does not tell any more what becomes of it.
    """
    began = time.monotonic()
    ending = asyncio.ensure_future(terminal.ended())
    try:
        cause = await _wait(ending, timeout, signal)
        if cause != "ended":
            await asyncio.wait_for(terminal.kill(), EDITOR_TIMEOUT)
            await asyncio.wait((ending,), timeout=EDITOR_TIMEOUT)
        seconds = time.monotonic() - began
        text, cut = await asyncio.wait_for(terminal.output(), EDITOR_TIMEOUT)
        exit = ending.result() if ending.done() else (None, None)
        return _result(exit, cause, text, cut, seconds)
    finally:
        ending.cancel()
        await asyncio.wait((ending, asyncio.ensure_future(_end_broken_run(terminal))))


async def _wait(
    ending: asyncio.Future[TerminalExit], timeout: float | None, signal: CancelToken | None
) -> Literal["ended", "timed_out", "cancelled"]:
    stopped = asyncio.ensure_future(signal.wait()) if signal is not None else None
    try:
        wanted = [ending] if stopped is None else [ending, stopped]
        await asyncio.wait(wanted, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if stopped is not None:
            stopped.cancel()
    if ending.done():
        return "ended"
    return "cancelled" if signal is not None and signal.cancelled else "timed_out"


async def _end_broken_run(terminal: Terminal) -> None:
    try:
        await asyncio.wait_for(terminal.release(), EDITOR_TIMEOUT)
    except OSError:
        pass  # it is gone, or the editor is


def _result(exit: TerminalExit, cause: str, text: str, cut: bool, seconds: float) -> ProcessResult:
    code, signal = exit
    data = text.encode("utf-8", "replace")
    lost = b"[the editor has kept only what follows]\n" if cut else b""
    return ProcessResult(
        exit_code=_exit_code(code, signal),
        signal=signal,
        stdout=CapturedOutput(tail=lost + data, total=len(lost) + len(data)),
        seconds=seconds,
        timed_out=cause == "timed_out",
        cancelled=cause == "cancelled" or (cause == "ended" and code is None and signal is None),
    )


def _exit_code(code: int | None, signal: str | None) -> int:
    """The status as a shell tells it."""
    if code is not None:
        return code
    name = (signal or "SIGKILL").upper()
    try:
        return 128 + signals.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except KeyError:
        return 128
