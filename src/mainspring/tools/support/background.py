"""Commands in the background: how they are started, read and told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainspring.cancellation import CancelToken
from mainspring.env import Job, OutputLimits, ProcessResult, explain
from mainspring.env.variables import NONINTERACTIVE_VARIABLES
from mainspring.tools.support.terminal_output import Screen, TailBuffer
from mainspring.tools.tool import ToolContext, ToolErrorCode, ToolResult

ON_COMPLETION_KEY = "wake"
"""Key in `ToolContext.extra` of a function that is called with a text when a command ends that nobody waits for.

`Agent.follow_up` and `Agent.steer` fit: the agent then goes on with that news.
"""

_EARLY_EXIT_SECONDS = 0.4
"""Seconds to see whether a command fails right away."""
_LIMITS = OutputLimits(head=0, tail=1 << 16, cap=1 << 30, spool=True)
_LAST_LINES = 2048
"""Bytes of output that the news of an end brings along."""


async def start_background(ctx: ToolContext, command: str, timeout: float | None, limit: int) -> ToolResult:
    """Start a command and come back at once; soon enough to tell if it ends right away."""
    env, wake = ctx.env, ctx.extra.get(ON_COMPLETION_KEY)
    variables = {**NONINTERACTIVE_VARIABLES, **ctx.environment}

    async def run(signal: CancelToken, on_output: Callable[..., object]) -> ProcessResult:
        return await env.run(
            command, env=variables, timeout=timeout, on_output=on_output, signal=signal, limits=_LIMITS
        )

    def on_end(job: Job) -> None:
        if callable(wake) and not job.told:
            wake(completion_message(job))

    try:
        job = env.jobs.start(command, run, on_end)
    except OSError as e:
        text = f"The command was not started: {explain(e)}. End one with jobs(action=kill)."
        return ToolResult(output=text, is_error=True, code=ToolErrorCode.IO_ERROR)
    job.told = True
    if await job.wait(_EARLY_EXIT_SECONDS):
        return job_report(job, limit)
    job.told = False
    how = "You are told when it ends." if callable(wake) else "jobs(action=wait) waits for its end."
    return ToolResult(
        output=f"Started {job.id} in the background. jobs(action=read, id={job.id}) shows its output. {how}",
        title=f"{job.id}: {_first_line(job)}",
        metadata=job_metadata(job),
    )


def job_report(job: Job, limit: int) -> ToolResult:
    """What a job wrote since it was last looked at, and how it stands."""
    text = new_output_text(job, limit)
    if not job.running:
        job.told = True
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
    """The output that was not read yet, cleaned, at most ``limit`` bytes (0: all) from its end."""
    data, missed = job.unseen()
    screen = Screen()
    tail = TailBuffer(limit)
    tail.feed(screen.feed(data) + screen.finish())
    tail.total += missed
    return tail.text(limit)


def describe_status(job: Job) -> str:
    """How a job stands, in a few words."""
    seconds = f"{job.seconds:.1f}s"
    if job.running:
        return f"running for {seconds}"
    if job.error is not None:
        return f"could not be started: {explain(job.error)}"
    result = job.result
    if result is None:
        return f"broken off after {seconds}"
    return f"{_end(result)} after {seconds}{_left(result)}"


def _end(result: ProcessResult) -> str:
    if result.cancelled:
        return "killed"
    if result.timed_out:
        return "stopped, its time was up,"
    if result.overflowed:
        return "stopped, it wrote too much,"
    if result.swarmed:
        return "stopped, it had too many processes,"
    return f"exit {result.exit_code}" + (f" ({result.signal})" if result.signal else "")


def _left(result: ProcessResult) -> str:
    spool = f"; all output: {result.spool}" if result.spool else ""
    pids = f"; still running: pid {', '.join(map(str, result.survivors))}" if result.survivors else ""
    return spool + pids


def completion_message(job: Job) -> str:
    """What an agent is told when a command has ended."""
    job.told = True
    text = new_output_text(job, _LAST_LINES).strip("\n")
    output = f" The end of its output:\n{text}" if text else " It wrote nothing new."
    return f"The background command {job.id} ({_first_line(job)}) has ended: {describe_status(job)}.{output}"


def job_metadata(job: Job) -> dict[str, Any]:
    """Facts about a job for applications."""
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
