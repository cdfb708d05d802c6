"""``mainspring worker``: run a worker that executes queued runs from a database until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import INTERRUPTED, OK
from mainspring.app.cli.runner import launch_options, run_command
from mainspring.app.run.events import Progress, RunEventHandler
from mainspring.app.run.options import LaunchOptions
from mainspring.app.run_service.agents import BUILTIN_AGENT, builtin_agent_factory, check_builtin_agent, load_agents
from mainspring.app.run_service.service import create_durable_engine
from mainspring.cancellation import CancelToken
from mainspring.durable import DurableWorker, Engine, Factory
from mainspring.durable.engine import prune_periodically
from mainspring.errors import ConfigError
from mainspring.events import Event, Notice


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """Options of a worker.

    Attributes:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
        version: Code version of the agents.
        name: Name of the worker (default: generated).
        agents: Agents in Python modules: ``module:attribute``.
        own: Whether to execute runs of the built-in agent, too.
        concurrency: Maximum number of concurrent runs per agent.
        drain: Seconds that active steps may take at shutdown.
        dead_after: Seconds without a heartbeat after which other workers resume a worker's runs.
        poll: Seconds between two checks for waiting runs and messages.
        max_crashes: Number of worker crashes after which a run fails; 0 for no limit.
        keep: Seconds for which finished runs are stored; None stores them forever.
    """

    url: str
    version: str = "1"
    name: str = ""
    agents: tuple[str, ...] = ()
    own: bool = True
    concurrency: int = 8
    drain: float = 10.0
    dead_after: float = 10.0
    poll: float = 0.2
    max_crashes: int = 20
    keep: float | None = None


async def run_worker(
    options: WorkerOptions,
    launch: LaunchOptions,
    report: RunEventHandler,
    stop: CancelToken,
    on_ready: Callable[[str, Sequence[str]], object],
) -> None:
    """Run a worker until ``stop``; then start no new runs, wait for active steps, and leave the rest to other workers.

    Args:
        options: Options of the worker.
        launch: Model, rules, and limits of the built-in agent.
        report: Listener for notices.
        stop: Token that stops the worker gracefully.
        on_ready: Callback that receives the worker's name and its agents once it is ready.

    Raises:
        ConfigError: If the options, the settings, or the agents are invalid.
        DurableError: If the database cannot be used.
    """
    agents = await _agents(options, replace(launch, save=False, session=None, session_id=None), report, os.environ)
    engine = create_durable_engine(
        options.url,
        version=options.version,
        worker=options.name,
        heartbeat=min(2.0, options.dead_after / 4),
        dead_after=options.dead_after,
        poll=options.poll,
        max_crashes=options.max_crashes,
    )
    async with (
        DurableWorker(engine, agents, concurrency=options.concurrency) as working,
        _pruning(engine, options.keep),
    ):
        on_ready(engine.worker, list(agents))
        await stop.wait()
        await working.drain(options.drain)


@asynccontextmanager
async def _pruning(engine: Engine, keep: float | None) -> AsyncGenerator[None]:
    """Delete old runs in the background."""
    if keep is None:
        yield
        return
    tidying = asyncio.ensure_future(prune_periodically(engine, keep))
    try:
        yield
    finally:
        tidying.cancel()
        await asyncio.wait([tidying])


async def _agents(
    options: WorkerOptions, launch: LaunchOptions, report: RunEventHandler, environ: Mapping[str, str]
) -> dict[str, Factory]:
    found: dict[str, Factory] = {}
    if options.own:
        await check_builtin_agent(launch, report, environ)
        found[BUILTIN_AGENT] = builtin_agent_factory(launch, _ignore_report, environ)
    for place in options.agents:
        found |= await asyncio.to_thread(load_agents, place, launch.place.cwd or os.getcwd())
    if not found:
        raise ConfigError("No agents to serve. Add --agents MODULE:NAME, or omit --only-agents.")
    return found


def _ignore_report(_: Event) -> None:
    """Ignore notices, which were shown at startup."""


_DAY = 86_400.0


def run(options: argparse.Namespace) -> int:
    """Run a worker until a signal, and return the exit code.

    Raises:
        UsageError: If the database is not specified.
    """
    url = runs_database_url(options)
    return run_command(options, lambda console: asyncio.run(_run(options, url, console)))


def runs_database_url(options: argparse.Namespace) -> str:
    """Return the URL of the database with the runs.

    Raises:
        UsageError: If the database is not specified.
    """
    url = options.url or os.environ.get("MAINSPRING_RUNS_URL", "")
    if not url:
        raise UsageError(
            "No database specified. Add --url sqlite:///PATH or --url postgresql://..., or set MAINSPRING_RUNS_URL."
        )
    return url


async def _run(options: argparse.Namespace, url: str, console: Console) -> int:
    requested = WorkerOptions(
        url=url,
        version=options.code_version,
        name=options.name,
        agents=tuple(options.agents),
        own=not options.only_agents,
        concurrency=options.concurrency,
        drain=options.drain,
        dead_after=options.dead_after,
        poll=options.poll,
        max_crashes=options.max_crashes,
        keep=None if options.keep is None else options.keep * _DAY,
    )
    stop = CancelToken()

    def tell(report: Event) -> None:
        if isinstance(report, Notice):
            console.info(f"Note: {report.text}")
        elif isinstance(report, Progress):
            console.progress(report.text, report.fraction, last=report.last)

    def ready(name: str, agents: Sequence[str]) -> None:
        console.info(
            f"Worker {name} is executing runs of {', '.join(agents)}. Stop it with SIGTERM, which waits for active steps."
        )

    working = asyncio.ensure_future(run_worker(requested, launch_options(options), tell, stop, ready))
    _install_signal_handlers(lambda: _on_stop_signal(working, stop, console))
    try:
        await working
    except asyncio.CancelledError:
        return INTERRUPTED
    return OK


def _on_stop_signal(working: asyncio.Future[None], stop: CancelToken, console: Console) -> None:
    """Shut down gracefully on the first signal, and immediately on the second."""
    if stop.cancelled:
        working.cancel()
        return
    console.info("Shutting down after active steps. Press Ctrl-C again to exit immediately.")
    stop.cancel()


def _install_signal_handlers(action: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":  # asyncio does not support signal handlers on Windows
        signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(action))
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, action)
