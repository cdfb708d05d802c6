"""`jobs`: manage background commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring.env import Job
from mainspring.text import truncate_end
from mainspring.tools.support.background import describe_status, job_metadata, job_report
from mainspring.tools.tool import Tool, ToolContext, ToolErrorCode, ToolResult, no_access

_MAX_BYTES = 32_768
DEFAULT_WAIT = 60
MAX_WAIT = 3600


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    action = arguments["action"]
    if action == "list":
        return _list(ctx.env.jobs.all)
    job = ctx.env.jobs.get(arguments.get("id", ""))
    if job is None:
        return _unknown_job_result(arguments.get("id", ""), ctx.env.jobs.all)
    limit = int(arguments.get("max_bytes", _MAX_BYTES))
    if action == "wait":
        await _wait(job, float(arguments.get("seconds", DEFAULT_WAIT)))
    elif action == "kill":
        job.was_reported = True
        job.signal.cancel()
        await job.wait(MAX_WAIT)
    return job_report(job, limit)


async def _wait(job: Job, seconds: float) -> None:
    was_reported_before, job.was_reported = (
        job.was_reported,
        True,
    )  # the caller is already waiting, so a notification is not needed
    try:
        await job.wait(seconds)
    finally:
        if job.running:
            job.was_reported = was_reported_before


def _list(jobs: Sequence[Job]) -> ToolResult:
    lines = [f"{job.id}: {describe_status(job)}, {job.total} bytes of output: {_line(job)}" for job in jobs]
    running = sum(job.running for job in jobs)
    return ToolResult(
        output="\n".join(lines) or "No background commands.",
        title=f"{running} running",
        metadata={"jobs": [job_metadata(job) for job in jobs]},
    )


def _line(job: Job) -> str:
    return truncate_end(job.command.strip().split("\n", 1)[0], 120)


def _unknown_job_result(id: str, jobs: Sequence[Job]) -> ToolResult:
    known = ", ".join([job.id for job in jobs])
    there = (
        f"Known IDs: {known}."
        if known
        else "No background commands were started; background commands end when the program ends."
    )
    text = f"Unknown background command: {id!r}. {there}" if id else f"Give the id of a background command. {there}"
    return ToolResult(output=text, is_error=True, code=ToolErrorCode.NOT_FOUND)


jobs = Tool(
    name="jobs",
    description=(
        "Look after commands that shell started in the background: list them, read what one wrote since it was last read, "
        "wait for its end, or kill it with everything it started. All end with this program."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["list", "read", "wait", "kill"]},
            "id": {"type": "string", "description": "For example, job1."},
            "seconds": {
                "type": "number",
                "minimum": 0,
                "maximum": MAX_WAIT,
                "default": DEFAULT_WAIT,
                "description": "Longest wait.",
            },
            "max_bytes": {
                "type": "integer",
                "minimum": 0,
                "default": _MAX_BYTES,
                "description": "Most output; 0: all.",
            },
        },
        "required": ["action"],
        "additionalProperties": False,
    },
    execute=_execute,
    label="Jobs",
    source="builtin",
    access=no_access,
)
"""Manage background commands."""
