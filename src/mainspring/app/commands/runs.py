"""``mainspring runs``: start, list, approve, and follow durable runs, which workers execute."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.exit_codes import ERROR, OK
from mainspring.app.cli.parser import STDIN_MARK
from mainspring.app.cli.runner import run_command
from mainspring.app.cli.server_options import TERMINAL_STATES as WORKER_OPTIONS_OVER
from mainspring.app.cli.stdin import StdinReader
from mainspring.app.commands.worker import runs_database_url
from mainspring.app.run_service.schemas import WaitingView
from mainspring.app.run_service.service import create_durable_engine
from mainspring.durable import DurableClient, DurableRun, FeedItem, RunInfo, RunState
from mainspring.durable.engine import FINAL_STATES, run_not_finished_error
from mainspring.durable.feed import FeedEvent
from mainspring.errors import DurableError, describe_failure
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    AttemptStart,
    ModelCallRetry,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from mainspring.text import pluralize

__all__ = [
    "DurableClient",
    "DurableError",
    "DurableRun",
    "FeedItem",
    "RunDetails",
    "RunInfo",
    "RunState",
    "RunSummary",
    "delete_runs",
    "get_run",
    "list_durable_runs",
    "open_runs",
]


class RunSummary(RunInfo, frozen=True, kw_only=True):
    """Summary of a run.

    Attributes:
        status: ``waiting``, ``running``, ``paused`` for an approval, ``failed``, or ``cancelled``; for a finished run,
            ``completed``, ``error``, ``aborted``, or the limit that it reached.
    """

    status: str


class RunDetails(Struct, frozen=True, kw_only=True):
    """A run and its pending approvals."""

    run: RunSummary
    waiting: Sequence[WaitingView] = ()


@asynccontextmanager
async def open_runs(url: str, *, version: str = "1") -> AsyncGenerator[DurableClient]:
    """Open the runs in a database.

    Args:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
        version: Code version of the runs to start.

    Raises:
        ConfigError: If a required extra is not installed.
    """
    engine = create_durable_engine(url, version=version)
    try:
        yield DurableClient(engine)
    finally:
        await engine.aclose()


async def delete_runs(runs: DurableClient, run_ids: Sequence[str]) -> None:
    """Delete finished runs, either all or none.

    Raises:
        DurableError: If a run is unknown or has not finished.
    """
    for run_id in run_ids:
        info = await runs.run(run_id).info()
        if info.state not in FINAL_STATES:
            raise run_not_finished_error(info)
    for run_id in dict.fromkeys(run_ids):
        await runs.delete(run_id)


async def get_run(run: DurableRun) -> RunDetails:
    """Return a run with its pending approvals.

    Raises:
        DurableError: If the run is unknown.
    """
    return await _report(run, await run.info())


async def list_durable_runs(runs: DurableClient, limit: int) -> Sequence[RunDetails]:
    """Return runs with their pending approvals, the most recent first."""
    return await asyncio.gather(*[_report(runs.run(info.id), info) for info in await runs.list(limit=limit)])


async def _report(run: DurableRun, info: RunInfo) -> RunDetails:
    calls = await run.pending() if info.state == "paused" else ()
    status, error = info.state, info.error
    if info.state == "done":
        with suppress(DurableError):  # deleted since, or of another version
            result = await run.result()
            status, error = result.status, describe_failure(result.error) if result.error else ""
    fields: dict[str, Any] = {**asdict(info), "error": error, "status": status}
    return RunDetails(run=RunSummary(**fields), waiting=[WaitingView.from_call(call) for call in calls])


_ACTION_ARGUMENTS = {
    "start": (1, "a PROMPT, in quotes ('-' reads it from stdin)"),
    "show": (1, "an ID"),
    "follow": (1, "an ID"),
    "answer": (3, "an ID, a CALL, and yes or no. List pending calls with `mainspring runs show ID`"),
    "steer": (2, "an ID and a TEXT, in quotes"),
    "abort": (1, "an ID"),
    "cancel": (1, "an ID"),
    "retry": (1, "an ID"),
    "delete": (1, "at least one ID"),
}


def run(options: argparse.Namespace) -> int:
    """Run an action, and return the exit code.

    Raises:
        UsageError: If an argument is missing.
    """
    count, names = _ACTION_ARGUMENTS.get(options.action, (0, ""))
    if len(options.words) < count:
        raise UsageError(f"runs {options.action} requires {names}.")
    if options.action == "prune" and options.older_than is None:
        raise UsageError("runs prune requires --older-than AGE, for example, 30d.")
    if options.action == "answer" and options.words[2] not in ("yes", "no"):
        raise UsageError(f"runs answer takes yes or no, not {options.words[2]!r}.")
    url = runs_database_url(options)
    return run_command(options, lambda console: asyncio.run(_dispatch(options, url, console)))


async def _dispatch(options: argparse.Namespace, url: str, console: Console) -> int:
    async with open_runs(url, version=options.code_version) as runs:
        match options.action:
            case "list":
                return await _list(options, runs, console)
            case "start":
                prompt = (
                    await asyncio.to_thread(StdinReader().text) if options.words == [STDIN_MARK] else options.words[0]
                )
                started = await runs.start(options.agent, prompt, run_id=options.id)
                console.row(started.id)
                if reason := (await started.info()).error:  # a worker may start later
                    console.info(f"Waiting: {reason}")
            case "show":
                _show(await get_run(runs.run(options.words[0])), options, console)
            case "follow":
                return await _follow(options, runs, console)
            case "delete":
                await delete_runs(runs, options.words)
            case "prune":
                await _prune(options, runs, console)
            case _:
                await _send_message(options, runs)
    return OK


async def _list(options: argparse.Namespace, runs: DurableClient, console: Console) -> int:
    found = [report.run for report in await list_durable_runs(runs, options.limit)]
    empty = "No runs yet. Start one with `mainspring runs start PROMPT`."
    console.write_list(found, map(_format_run, found), empty, as_json=options.json)
    return OK


async def _prune(options: argparse.Namespace, runs: DurableClient, console: Console) -> None:
    count = await runs.prune(options.older_than, options.state or WORKER_OPTIONS_OVER, dry_run=options.dry_run)
    if options.json:
        console.write_json({"runs": count, "deleted": not options.dry_run})
        return
    what = "would be deleted" if options.dry_run else "deleted"
    console.row(f"{pluralize(count, 'run')} {what}")


def _format_run(run: RunSummary) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.created))
    return f"{run.id}  {run.status:<9}  {when}  {run.agent}" + (f"  ({one_line(run.error)})" if run.error else "")


def _show(report: RunDetails, options: argparse.Namespace, console: Console) -> None:
    if options.json:
        console.write_json(report)
        return
    console.row(_format_run(report.run))
    for call in report.waiting:
        given = msgspec.json.encode(call.input).decode()
        console.row(f"  waiting for approval: {call.call_id}  {call.tool} {one_line(given)}")
        if call.reason:
            console.row(f"    {one_line(call.reason)}")


async def _send_message(options: argparse.Namespace, runs: DurableClient) -> None:
    run = runs.run(options.words[0])
    match options.action:
        case "steer":
            await run.steer(options.words[1])
        case "abort":
            await run.abort(options.reason or "aborted")
        case "cancel":
            await run.cancel()
        case "retry":
            await run.retry()
        case _:
            await _answer(run, options.words[1], options.words[2] == "yes", options.reason)


async def _answer(run: DurableRun, call_id: str, yes: bool, reason: str) -> None:
    known = await (run.approve(call_id) if yes else run.deny(call_id, reason or "denied by the user"))
    if not known:
        raise DurableError(f"The call {call_id} of the run {run.id} was already answered. The first answer applies.")


async def _follow(options: argparse.Namespace, runs: DurableClient, console: Console) -> int:
    run = runs.run(options.words[0])
    await run.info()
    code = ERROR
    async for item in run.events(options.after):
        if options.json:
            console.data(f'{{"number":{item.number},"event":{item.data.decode()}}}')
        elif isinstance(item.event, TextDelta):
            console.answer(item.event.text)
        else:
            console.break_line()
            if line := _describe_event(item.event):
                console.info(line)
        if isinstance(item.event, AgentEnd):
            code = OK if item.event.status == "completed" else ERROR
    if not options.json:
        console.end_answer()
    return code


def _describe_event(event: FeedEvent) -> str:
    """Format an event that is not text of a response."""
    match event:
        case AttemptStart(number=number) if number > 1:
            return f"Resumed (attempt {number}). Discard the text of the unfinished response."
        case ToolExecutionStart(call=call):
            return f"{call.name} {one_line(msgspec.json.encode(call.input).decode())}"
        case ToolExecutionEnd(call=call, result=result) if result.is_error:
            return f"{call.name} failed: {one_line(result.text)}"
        case ModelCallRetry(delay=delay, error=error):
            return f"Model call failed ({one_line(error.message)}). {event.action} in {delay:.1f}s"
        case ApprovalRequest(id=id, call=call):
            return f"Waiting for approval: {id} ({call.name})"
        case AgentEnd(status=status, error=error) if status != "completed":
            return f"{status}: {one_line(error.message)}" if error else str(status)
        case _:
            return ""
