"""Start background commands, read their output, and describe their status.

Output is cleaned: no escape sequences, and only the last state of a redrawn line. Only the end of a long text is stored.
"""

from __future__ import annotations

import asyncio
import codecs
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.env import Job, OutputLimits, ProcessResult, StreamName, explain
from mainspring.env.jobs import JobFunction, JobManager
from mainspring.env.variables import NONINTERACTIVE_VARIABLES
from mainspring.lazy import lazy_re
from mainspring.tools.tool import ToolContext, ToolErrorCode, ToolResult

_ESCAPE = lazy_re(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colors, cursor movement
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # device control and similar
    r"|[ -/]*[0-OQ-WYZ\\`-~])"  # all short sequences
)
_INCOMPLETE_ESCAPE = lazy_re(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)?\Z")
_CONTROLS = lazy_re(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_OVERSTRUCK = lazy_re(r"[^\n\x08]\x08")
_MAX_ESCAPE_CHARS = 4096
_MAX_LINE_CHARS = 1 << 16


class TerminalText:
    """Cleans output piece by piece; invalid UTF-8 becomes U+FFFD, regardless of the boundaries between pieces."""

    __slots__ = ("_decoder", "_escape", "_line")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._escape = ""
        self._line = ""

    def feed(self, data: bytes) -> str:
        """Process a piece, and return the text that will not change anymore."""
        return self._redact_line(self._decoder.decode(data))

    def finish(self) -> str:
        """Return the remaining text."""
        rest = self._redact_line(self._decoder.decode(b"", True))
        line, self._line = self._line, ""
        self._escape = ""
        return rest + _final_lines(line)

    def _redact_line(self, text: str) -> str:
        text = self._escape + text
        self._escape = ""
        if "\x1b" in text:
            broken = _INCOMPLETE_ESCAPE.search(text, max(0, len(text) - _MAX_ESCAPE_CHARS))
            if broken:
                self._escape = broken[0]
                text = text[: broken.start()]
            text = _ESCAPE.sub("", text)
        text = self._line + text
        cut = text.rfind("\n") + 1
        lines, self._line = text[:cut], text[cut:]
        if len(self._line) > _MAX_LINE_CHARS:
            if "\r" in self._line[:-1]:
                self._line = _apply_carriage_returns(self._line)
            else:
                lines, self._line = lines + self._line, ""
        return _final_lines(lines)


def _final_lines(text: str) -> str:
    if "\r" in text:
        text = "\n".join(
            [_apply_carriage_returns(line.rstrip("\r")) if "\r" in line else line for line in text.split("\n")]
        )
    if "\x08" in text:
        text = _apply_backspaces(text)
    return _CONTROLS.sub("", text)


def _apply_carriage_returns(line: str) -> str:
    """Return the last state of a line that carriage returns overwrote."""
    return next((state for state in reversed(line.split("\r")) if state), "")


def _apply_backspaces(text: str) -> str:
    """Remove the characters that backspaces deleted."""
    while (shorter := _OVERSTRUCK.sub("", text)) != text:
        text = shorter
    return text.replace("\x08", "")


class TailBuffer:
    """The last bytes of a growing text; ``limit`` 0 stores all bytes."""

    __slots__ = ("_limit", "_pieces", "_size", "total")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self.total = 0

    def feed(self, text: str) -> None:
        """Add to the text."""
        data = text.encode("utf-8", "replace")
        self.total += len(data)
        self._pieces.append(data)
        self._size += len(data)
        while self._limit and self._size - len(self._pieces[0]) >= self._limit:
            self._size -= len(self._pieces.popleft())

    def text(self, budget: int) -> str:
        """Return at most the last ``budget`` bytes (0: all), with a note about the missing bytes.

        The text starts at a character boundary.
        """
        data = b"".join(self._pieces)
        if budget and len(data) > budget:
            data = strip_partial_character(data[len(data) - budget :])
        missing = self.total - len(data)
        mark = f"…({missing} bytes truncated from head)…\n" if missing else ""
        return mark + data.decode()


def strip_partial_character(data: bytes) -> bytes:
    """Return UTF-8 bytes without the partial character at their start."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def split_limit(first: int, second: int, limit: int) -> tuple[int, int]:
    """Return how many bytes each of two texts gets: at least half for the second, and never more than it needs."""
    if not limit or first + second <= limit:
        return first, second
    second = min(second, max(limit // 2, limit - first))
    return limit - second, second


ON_COMPLETION_KEY = "wake"
"""Key in `ToolContext.extra` of a function that receives a text when a command ends while no call waits for it.

`Agent.follow_up` and `Agent.steer` are suitable: the agent then continues with this text.
"""


_EARLY_EXIT_SECONDS = 0.4
"""Seconds to wait for a command that fails immediately."""
_LIMITS = OutputLimits(head=0, tail=1 << 16, cap=1 << 30, spool=True)
_LAST_LINES = 2048
"""Bytes of output in the notification that a command has ended."""


async def start_background(ctx: ToolContext, command: str, timeout: float | None, limit: int) -> ToolResult:
    """Start a command and return after a short wait, which is long enough to report a command that fails immediately."""
    env = ctx.env
    variables = {**NONINTERACTIVE_VARIABLES, **ctx.environment}

    async def run(signal: CancelToken, on_output: Callable[..., object]) -> ProcessResult:
        return await env.run(
            command, env=variables, timeout=timeout, on_output=on_output, signal=signal, limits=_LIMITS
        )

    try:
        job = env.jobs.start(command, run, _report_end(ctx))
    except OSError as e:
        text = f"The command was not started: {explain(e)}. End one with jobs(action=kill)."
        return ToolResult(output=text, is_error=True, code=ToolErrorCode.IO_ERROR)
    job.was_reported = True
    if await job.wait(_EARLY_EXIT_SECONDS):
        return job_report(job, limit)
    job.was_reported = False
    return ToolResult(
        output=f"Started {job.id} in the background. {describe_follow_up(ctx, job)}",
        title=f"{job.id}: {_first_line(job)}",
        metadata=job_metadata(job),
    )


BACKGROUND_KEY = "background"
"""Key in `ToolContext.extra` of a `BackgroundSwitch`, with which the user moves running commands to the background."""


class BackgroundSwitch:
    """Moves the running commands to the background when the user asks for it, also those whose process is about to start."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()
        self._announced: dict[str, asyncio.Event] = {}

    def announce(self, id: str) -> None:
        """Count a command as running from now on, since the user sees it before its process starts."""
        self._announced[id] = asyncio.Event()

    def withdraw(self, id: str) -> None:
        """Forget an announced command that has ended or never started."""
        self._announced.pop(id, None)

    def move_all(self) -> int:
        """Move all running commands to the background. Return their number."""
        events = [*self._waiting, *self._announced.values()]
        for event in events:
            event.set()
        return len(events)

    async def wait(self, id: str) -> None:
        """Wait until a running command is moved.

        Args:
            id: The ID with which it was announced, if it was.
        """
        event = self._announced.pop(id, None) or asyncio.Event()
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)


async def run_movable(
    ctx: ToolContext,
    command: str,
    timeout: float,
    on_output: Callable[[StreamName, bytes], object],
    limits: OutputLimits,
) -> ProcessResult | Job:
    """Run a command in the foreground that the user can move to the background.

    Args:
        ctx: Context of the call, with a `BackgroundSwitch`.
        command: The script.
        timeout: Time limit in the foreground; a background command has no limit.
        on_output: Receives the output in the foreground.
        limits: Limits of the stored output.

    Returns:
        Its result, or the job that it became.

    Raises:
        OSError: If it cannot be started.
    """
    variables = {**NONINTERACTIVE_VARIABLES, **ctx.environment}

    async def run(signal: CancelToken, receive: Callable[[StreamName, bytes], object]) -> ProcessResult:
        return await ctx.env.run(command, env=variables, on_output=receive, signal=signal, limits=limits)

    moving = MovableCommand(command, run, ctx.env.jobs, ctx.extra[BACKGROUND_KEY], ctx.call_id)
    return await moving.run(on_output, ctx.signal, timeout, _report_end(ctx))


class MovableCommand:
    """A command in the foreground that the user can move to the background.

    Args:
        command: The script.
        run: Runs it until it exits.
        jobs: The background commands, to which it is added if it is moved.
        switch: Moves it.
        id: The ID with which it was announced to the switch.
    """

    def __init__(self, command: str, run: JobFunction, jobs: JobManager, switch: BackgroundSwitch, id: str) -> None:
        self._command = command
        self._run = run
        self._jobs = jobs
        self._switch = switch
        self._id = id
        self._signal = CancelToken()
        self._before = Job("", command)  # stores the output in the foreground

    async def run(
        self,
        on_output: Callable[[StreamName, bytes], object],
        signal: CancelToken,
        timeout: float | None = None,
        on_end: Callable[[Job], object] | None = None,
    ) -> ProcessResult | Job:
        """Run the command until it exits or is moved. Return its result, or the job that it became.

        Args:
            on_output: Receives the output in the foreground.
            signal: Stops the command in the foreground.
            timeout: Time limit in the foreground.
            on_end: Called when the job has ended.

        Raises:
            OSError: If it cannot be started.
        """
        receivers = [self._before.feed, on_output]

        def receive(stream: StreamName, data: bytes) -> None:
            for feed in receivers:
                feed(stream, data)

        stop_following = signal.on_cancel(lambda: self._signal.cancel(signal.reason))
        running = asyncio.ensure_future(self._run(self._signal, receive))
        moved = asyncio.ensure_future(self._switch.wait(self._id))
        try:
            await asyncio.wait({running, moved}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and moved.done():
                job = self._become_job(running, on_end)
                receivers[:] = [job.feed]
                return job
            if not running.done():
                self._signal.cancel("timeout")
                return replace(await running, timed_out=True, cancelled=False)
            return running.result()
        except asyncio.CancelledError:
            self._signal.cancel()
            await asyncio.wait({running})
            raise
        finally:
            moved.cancel()
            stop_following()

    def _become_job(self, running: asyncio.Future[ProcessResult], on_end: Callable[[Job], object] | None) -> Job:
        async def run(stop: CancelToken, _: object) -> ProcessResult:
            stop.on_cancel(lambda: self._signal.cancel(stop.reason))
            return await running

        job = self._jobs.start(self._command, run, on_end)
        job.feed("stdout", self._before.output)
        job.read_offset = job.total  # the result in the foreground contains this output
        return job


def _report_end(ctx: ToolContext) -> Callable[[Job], object]:
    """Return a function that reports the end of a job to the agent, unless a call waits for it."""
    wake = ctx.extra.get(ON_COMPLETION_KEY)

    def on_end(job: Job) -> None:
        if callable(wake) and not job.was_reported:
            wake(completion_message(job))

    return on_end


def describe_follow_up(ctx: ToolContext, job: Job) -> str:
    """Return how the agent follows a job that runs."""
    is_notified = callable(ctx.extra.get(ON_COMPLETION_KEY))
    how = "You get a message when it ends." if is_notified else "jobs(action=wait) waits for its end."
    return f"jobs(action=read, id={job.id}) shows its output. {how}"


def job_report(job: Job, limit: int) -> ToolResult:
    """Return the output of a job since it was last read, and the job's status."""
    text = new_output_text(job, limit)
    if not job.running:
        job.was_reported = True
    parts = [text if text.endswith("\n") or not text else text + "\n", f"[{job.id}: {describe_status(job)}]"]
    error = job.error
    return ToolResult(
        output="".join(parts),
        title=f"{job.id}: {describe_status(job)}",
        metadata=job_metadata(job),
        is_error=error is not None,
        code=None if error is None else ToolErrorCode.IO_ERROR,
    )


def new_output_text(job: Job, limit: int) -> str:
    """Return the unread output, cleaned, at most ``limit`` bytes (0: no limit) from its end."""
    data, missed = job.read_new_output()
    screen = TerminalText()
    tail = TailBuffer(limit)
    tail.feed(screen.feed(data) + screen.finish())
    tail.total += missed
    return tail.text(limit)


def describe_status(job: Job) -> str:
    """Return a short description of a job's status."""
    seconds = f"{job.seconds:.1f}s"
    if job.running:
        return f"running for {seconds}"
    if job.error is not None:
        return f"could not be started: {explain(job.error)}"
    result = job.result
    if result is None:
        return f"stopped after {seconds}"
    return f"{_describe_exit(result)} after {seconds}{_describe_survivors(result)}"


def _describe_exit(result: ProcessResult) -> str:
    if result.cancelled:
        return "killed"
    if result.timed_out:
        return "stopped, its time was up,"
    if result.overflowed:
        return "stopped, it wrote too much,"
    if result.swarmed:
        return "stopped, it had too many processes,"
    return f"exit {result.exit_code}" + (f" ({result.signal})" if result.signal else "")


def _describe_survivors(result: ProcessResult) -> str:
    spool = f"; all output: {result.spool}" if result.spool else ""
    pids = f"; still running: pid {', '.join(map(str, result.survivors))}" if result.survivors else ""
    return spool + pids


def completion_message(job: Job) -> str:
    """Return the message for an agent when a command has ended."""
    job.was_reported = True
    text = new_output_text(job, _LAST_LINES).strip("\n")
    output = f" The end of its output:\n{text}" if text else " It wrote nothing new."
    return f"The background command {job.id} ({_first_line(job)}) has ended: {describe_status(job)}.{output}"


def job_metadata(job: Job) -> dict[str, Any]:
    """Return metadata of a job for applications."""
    result = job.result
    return {
        "job": job.id,
        "command": job.command,
        "running": job.running,
        "seconds": round(job.seconds, 3),
        "bytes": job.total,
        "exit_code": result.exit_code if result else None,
        "spool": result.spool if result else None,
    }


def _first_line(job: Job) -> str:
    return job.command.strip().split("\n", 1)[0][:80]
