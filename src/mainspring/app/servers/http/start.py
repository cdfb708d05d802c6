"""``mainspring serve --http``."""

from __future__ import annotations

import argparse
import asyncio
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.app.cli.console import Console
from mainspring.app.cli.exit_codes import DONE
from mainspring.app.cli.runner import asked, framed
from mainspring.app.run.events import Notice, Report
from mainspring.app.run_service.agents import NAME, check_own_agent, named_agents, own_agent
from mainspring.app.run_service.engine import engine_of
from mainspring.app.run_service.service import Factory, Service, ServiceOptions
from mainspring.app.servers.http.auth import DEFAULT, VARIABLE, Tokens, keep_up, new_token, read_tokens, take_token
from mainspring.errors import ConfigError
from mainspring.extras import how_to_install

if TYPE_CHECKING:
    from mainspring.app.servers.http import server as running


def run(options: argparse.Namespace) -> int:
    """Serve until a signal; the exit code."""
    return framed(options, lambda console: asyncio.run(_serve(options, console)))


async def _serve(options: argparse.Namespace, console: Console) -> int:
    try:
        http = import_module("mainspring.app.servers.http.server")
        application = import_module("mainspring.app.servers.http.app").application
    except ImportError as error:
        raise ConfigError(f"serve --http needs the extra server: {how_to_install('server')} ({error})") from error
    guard = import_module("mainspring.app.servers.http.auth")
    limits = import_module("mainspring.app.servers.http.limits")
    given, made = await asyncio.to_thread(_tokens, options)
    agents = await _agents(options, console)
    engine = engine_of(options.url, version=options.code_version, keep=options.keep)
    service = Service(engine, agents, ServiceOptions(runs=options.max_runs, default=next(iter(agents), "")))
    app, state = application(
        service,
        given,
        doors=guard.Doors(hosts=tuple(options.allow_host), origins=tuple(options.allow_origin)),
        limits=limits.Limits(requests=options.max_requests, body=options.max_body, followers=options.max_followers),
    )
    place: running.Place = http.Place(
        host=options.host, port=options.port, drain=options.drain, keeps=options.url is not None
    )
    listening = http.listen(place)
    try:
        async with service:
            server = http.HttpServer(app, state, place, console.say)
            url = http.url_of(listening)
            console.answer(f"{url}#token={made}\n" if made else f"{url}\n")
            if not http.is_loopback(listening):
                console.say("note: others can reach it, and nothing is encrypted; put a proxy with TLS before it")
            async with asyncio.TaskGroup() as group:
                keeping = options.token_file and group.create_task(
                    keep_up(Path(options.token_file), given, console.say)
                )
                await server.run_until_asked(listening)
                if keeping:
                    keeping.cancel()
    finally:
        listening.close()
    return DONE


def _tokens(options: argparse.Namespace) -> tuple[Tokens, str]:
    """The tokens, and the one that was made up because none was given."""
    own = take_token(os.environ)
    if options.token_file:
        found = read_tokens(Path(options.token_file))
        if own:
            raise ConfigError(f"give either --token-file or ${VARIABLE}, not both")
        return Tokens(found), ""
    if own:
        return Tokens({own: DEFAULT}), ""
    made = new_token()
    return Tokens({made: DEFAULT}), made


async def _agents(options: argparse.Namespace, console: Console) -> dict[str, Factory]:
    """The agents whose runs are done here; none where workers elsewhere do them."""
    if options.url is not None and not options.work:
        if options.agents or options.only_agents:
            raise ConfigError(
                "--agents with --url: its workers have the agents; or let this process be one with --work"
            )
        return {}
    found: dict[str, Factory] = {}

    def tell(report: Report) -> None:
        if isinstance(report, Notice):
            console.say(f"note: {report.text}")

    if not options.only_agents:
        wanted = replace(asked(options), save=False, session=None, session_id=None)
        await check_own_agent(wanted, tell)
        found[NAME] = own_agent(wanted, _say_nothing)
    for place in options.agents:
        found |= await asyncio.to_thread(named_agents, place, options.cwd or os.getcwd())
    if not found:
        raise ConfigError("--only-agents leaves no agent; name some with --agents MODULE:ATTRIBUTE")
    return found


def _say_nothing(_: Report) -> None:
    """What there is to say was said at the start."""
