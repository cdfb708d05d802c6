"""The status line: the parts that the settings name, or the output of a command. A narrow screen hides the least important parts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from mainspring.app.chat.types import Status
from mainspring.app.tui.format import format_dollars, format_tokens, format_usage
from mainspring.app.tui.safe_text import to_one_row, truncate, width
from mainspring.app.tui.styled_text import Row, make_row
from mainspring.programs import wait_for_end
from mainspring.text import pluralize

_GAP = "  "
_NEARLY_FULL = 0.8
_FOLDER_COLUMNS = 24
_REQUIRED = ("mode", "queue")
_MODES = {"accept_edits": "accept edits", "plan": "plan mode"}


def status_row(status: Status | None, columns: int, parts: Sequence[str], custom: str = "") -> Row:
    """Return the status line.

    Args:
        status: The status; None while the chat is opening.
        columns: Width of the screen.
        parts: The parts to show, in order, by their names in the settings. The mode and the queue are always shown.
        custom: A text in place of the parts.
    """
    if status is None:
        return make_row(("status", truncate("Starting...", columns - 1)))
    names = ("mode", "custom", "queue") if custom else (*parts, *(name for name in _REQUIRED if name not in parts))
    shown: list[tuple[int, str, str]] = []
    for name in names:
        rank, style, text = (0, "status", custom) if name == "custom" else _format_part(name, status, columns)
        if text:
            shown.append((rank, style, text))
    return _fit_parts(shown, columns - 1)


def _format_part(name: str, status: Status, columns: int) -> tuple[int, str, str]:
    """Return a part: its rank, its style, and its text, which is empty if the part has nothing to show."""
    match name:
        case "model":
            model = to_one_row(status.model_label or status.model or "no model", max(20, columns // 2))
            part = 0, "accent", model
        case "thinking":
            part = 6, "status", f"thinking {status.thinking}" if status.thinking else ""
        case "mode":
            part = 1, "warn", _MODES.get(status.mode, "")
        case "sandbox":
            part = 2, "status", f"sandbox {to_one_row(status.sandbox, 20) or 'off'}"
        case "context":
            part = 3, *_format_context(status)
        case "folder":
            part = 4, "status", _folder(status.cwd) if status.cwd else ""
        case "cost":
            part = 4, "status", _format_spending(status)
        case "branch":
            part = 5, "status", to_one_row(status.branch, 30)
        case "subagents":
            part = 3, "mark", pluralize(status.children, "subagent") if status.children else ""
        case "queue":
            part = 1, "mark", f"{status.queued} queued" if status.queued else ""
        case _:
            part = 7, "status", to_one_row(status.title, 30)
    return part


def _folder(path: str) -> str:
    """Return a short form of a path: from the home directory, and only its end where it is long."""
    home = _home()
    if home != "/" and f"{path}/".startswith(f"{home}/"):
        path = "~" + path[len(home) :]
    path = to_one_row(path, 1000)
    while width(path) > _FOLDER_COLUMNS and "/" in (below := path.removeprefix(".../")):
        path = ".../" + below.partition("/")[2]
    return to_one_row(path, _FOLDER_COLUMNS)


@cache
def _home() -> str:
    return os.path.realpath(os.path.expanduser("~"))


def _format_context(status: Status) -> tuple[str, str]:
    used, window = status.context_used, status.context_window
    if not window:
        return "status", f"{format_tokens(used)} context"
    share = used / window
    style = "warn" if share >= _NEARLY_FULL else "status"
    return style, f"{share:.0%} of {format_tokens(window)} context"


def _format_spending(status: Status) -> str:
    """Return the cost, or the tokens if the model has no known price."""
    if status.cost is None:
        return format_usage(status.tokens, None)
    more = " + unknown" if status.has_unknown_prices else ""
    return format_dollars(status.cost) + more + (f" of {format_dollars(status.max_cost)}" if status.max_cost else "")


def _fit_parts(parts: list[tuple[int, str, str]], columns: int) -> Row:
    """Return the parts that fit. Parts with larger numbers are hidden first."""
    while len(parts) > 1 and sum(width(text) + len(_GAP) for _, _, text in parts) - len(_GAP) > columns:
        parts.remove(max(parts, key=lambda part: part[0]))
    shown: Row = []
    for _, style, text in parts:
        shown += make_row(_GAP) if shown else []
        shown += make_row((style, truncate(text, columns)))
    return shown


_MIN_SECONDS_BETWEEN = 0.3
"""A status that changes more often is passed on with the next start."""
_MAX_OUTPUT_BYTES = 16 << 10
_MAX_COLUMNS = 1_000


class StatusCommand:
    """Runs a command after each change of the status, one at a time.

    Args:
        command: The command, which receives the status as JSON on its standard input.
        timeout_seconds: Seconds until the command is killed.
        environ: Its environment variables.
        start: Starts work in the background.
        on_change: Called when the first line of the output has changed.

    Attributes:
        line: The first line of the last output; empty before the first output and after a failure.
    """

    def __init__(
        self,
        command: str,
        timeout_seconds: float,
        environ: Mapping[str, str],
        start: Callable[[Coroutine[Any, Any, None]], None],
        on_change: Callable[[], object],
    ) -> None:
        self._command = command
        self._timeout_seconds = timeout_seconds
        self._environ = environ
        self._start = start
        self._on_change = on_change
        self._next: Status | None = None
        self._is_running = False
        self.line = ""

    def update(self, status: Status) -> None:
        """Run the command with a status, as soon as the previous run has ended."""
        self._next = status
        if not self._is_running:
            self._is_running = True
            self._start(self._run_all())

    async def _run_all(self) -> None:
        try:
            while (status := self._next) is not None:
                self._next = None
                line = await self._run(msgspec.json.encode(status))
                if line != self.line:
                    self.line = line
                    self._on_change()
                await asyncio.sleep(_MIN_SECONDS_BETWEEN)
        finally:
            self._is_running = False

    async def _run(self, status: bytes) -> str:
        """Return the first line of the output, or an empty string if the command failed."""
        try:
            process = await asyncio.create_subprocess_shell(
                self._command,
                env=dict(self._environ),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=os.name == "posix",
            )
        except OSError:
            return ""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                with contextlib.suppress(OSError):  # the command does not read the status
                    process.stdin.write(status)
                    await process.stdin.drain()
                    process.stdin.close()
                output = b""
                while data := await process.stdout.read(
                    _MAX_OUTPUT_BYTES
                ):  # to the end: a full pipe blocks the command
                    output = (output + data)[:_MAX_OUTPUT_BYTES]
                code = await process.wait()
        except TimeoutError:
            return ""
        finally:
            await _kill(process)
        return "" if code else to_one_row(output.decode("utf-8", "replace").split("\n", 1)[0].strip(), _MAX_COLUMNS)


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a command that still runs, with the programs it started."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    await wait_for_end(process)
