"""``mainspring worker``."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import DONE, INTERRUPTED
from mainspring.app.cli.runner import asked, framed
from mainspring.app.commands.worker_actions import WorkerOptions, work
from mainspring.app.run.events import Notice, Progress, Report
from mainspring.cancellation import CancelToken

_DAY = 86_400.0


def run(options: argparse.Namespace) -> int:
    """Work until a signal; the exit code.

    Raises:
        UsageError: If nothing says where the runs are.
    """
    url = url_of(options)
    return framed(options, lambda console: asyncio.run(_work(options, url, console)))


def url_of(options: argparse.Namespace) -> str:
    """Where the runs are.

    Raises:
        UsageError: If nothing says so.
    """
    url = options.url or os.environ.get("MAINSPRING_RUNS_URL", "")
    if not url:
        raise UsageError(
            "where are the runs? give --url sqlite:///PATH or --url postgresql://..., or set MAINSPRING_RUNS_URL"
        )
    return url


async def _work(options: argparse.Namespace, url: str, console: Console) -> int:
    wanted = WorkerOptions(
        url=url,
        version=options.code_version,
        name=options.name,
        agents=tuple(options.agents),
        own=not options.only_agents,
        concurrency=options.concurrency,
        drain=options.drain,
        dead_after=options.dead_after,
        poll=options.poll,
        max_deaths=options.max_deaths,
        keep=None if options.keep is None else options.keep * _DAY,
    )
    stop = CancelToken()

    def tell(report: Report) -> None:
        if isinstance(report, Notice):
            console.say(f"note: {report.text}")
        elif isinstance(report, Progress):
            console.progress(report.text, report.share, last=report.last)

    def ready(name: str, agents: Sequence[str]) -> None:
        console.say(f"worker {name} does the runs of {', '.join(agents)}; SIGTERM lets it finish its steps and leave")

    working = asyncio.ensure_future(work(wanted, asked(options), tell, stop, ready))
    _on_signals(lambda: _end(working, stop, console))
    try:
        await working
    except asyncio.CancelledError:
        return INTERRUPTED
    return DONE


def _end(working: asyncio.Future[None], stop: CancelToken, console: Console) -> None:
    """The first signal lets it drain, the second does not."""
    if stop.cancelled:
        working.cancel()
        return
    console.say("leaving: what is under way comes to its end; once more to leave at once")
    stop.cancel()


def _on_signals(act: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":  # asyncio has no handlers there
        signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(act))
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, act)
