"""A worker: does the runs that wait in a database, until it is told to leave."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from mainspring.app.run.events import Report, Reporter
from mainspring.app.run.options import AskOptions
from mainspring.app.run_service.agents import named_agents
from mainspring.app.run_service.engine import durable_engine
from mainspring.app.run_service.own_agent import NAME, check_own_agent, own_agent
from mainspring.cancellation import CancelToken
from mainspring.durable import DurableAgents, Engine, Factory
from mainspring.durable.tidying import tidy
from mainspring.errors import ConfigError


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """A worker, as the command line asks for it.

    Attributes:
        url: ``sqlite:///PATH`` or ``postgresql://...``.
        version: Of the code that makes the agents.
        name: Of this worker; made up if left out.
        agents: Agents of Python modules: ``module:attribute``.
        own: Whether it does the runs of the command's own agent as well.
        concurrency: Runs of each agent at the same time.
        drain: Seconds that steps under way have at the end.
        dead_after: Seconds without a sign of life after which others take up a worker's runs.
        poll: Seconds between two looks for runs that wait and for letters.
        max_deaths: How many workers may die while they have a run; 0 is for any number.
        keep: Seconds for which runs that are over are kept; for good if left out.
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
    max_deaths: int = 20
    keep: float | None = None


async def work(
    options: WorkerOptions,
    asked: AskOptions,
    report: Reporter,
    stop: CancelToken,
    on_ready: Callable[[str, Sequence[str]], object],
    *,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Be a worker until ``stop``; then begin nothing, let steps come to their end, and leave the rest to others.

    Args:
        options: What kind of worker.
        asked: Model, rules and limits of the command's own agent.
        report: Is told what people should know.
        stop: Set once to drain.
        on_ready: Called with its name and its agents, once it is at work.
        environ: The environment.

    Raises:
        ConfigError: If something is wrong with options, settings or the agents.
        DurableError: If the database cannot be used.
    """
    agents = await _agents(options, replace(asked, save=False, session=None, session_id=None), report, environ)
    engine = durable_engine(
        options.url,
        version=options.version,
        worker=options.name,
        heartbeat=min(2.0, options.dead_after / 4),
        dead_after=options.dead_after,
        poll=options.poll,
        max_deaths=options.max_deaths,
    )
    async with DurableAgents(engine, agents, concurrency=options.concurrency) as working, _tidied(engine, options.keep):
        on_ready(engine.worker, list(agents))
        await stop.wait()
        await working.drain(options.drain)


@asynccontextmanager
async def _tidied(engine: Engine, keep: float | None) -> AsyncGenerator[None]:
    """Old runs are deleted meanwhile."""
    if keep is None:
        yield
        return
    tidying = asyncio.ensure_future(tidy(engine, keep))
    try:
        yield
    finally:
        tidying.cancel()
        await asyncio.wait([tidying])


async def _agents(
    options: WorkerOptions, asked: AskOptions, report: Reporter, environ: Mapping[str, str]
) -> dict[str, Factory]:
    found: dict[str, Factory] = {}
    if options.own:
        await check_own_agent(asked, report, environ)
        found[NAME] = own_agent(asked, _say_nothing, environ)
    for place in options.agents:
        found |= await asyncio.to_thread(named_agents, place, asked.place.cwd or os.getcwd())
    if not found:
        raise ConfigError("there is no agent; name some with --agents MODULE:NAME, or leave --only-agents out")
    return found


def _say_nothing(_: Report) -> None:
    """What there is to say was said at the start."""
