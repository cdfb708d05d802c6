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
from mainspring.app.cli.exit_codes import OK
from mainspring.app.cli.runner import launch_options, run_command
from mainspring.app.run_service.agents import BUILTIN_AGENT, builtin_agent_factory, check_builtin_agent, load_agents
from mainspring.app.run_service.service import Factory, RunService, ServiceOptions, create_engine
from mainspring.app.servers.http.auth import (
    DEFAULT_TENANT,
    TOKEN_VARIABLE,
    TenantTokens,
    new_token,
    pop_token_from_env,
    read_tokens,
    watch_token_file,
)
from mainspring.errors import ConfigError
from mainspring.events import Event, Notice
from mainspring.extras import import_from_extra

if TYPE_CHECKING:
    from mainspring.app.servers.http import server as http_server


def run(options: argparse.Namespace) -> int:
    """Serve until a signal arrives, and return the exit code."""
    return run_command(options, lambda console: asyncio.run(_serve(options, console)))


async def _serve(options: argparse.Namespace, console: Console) -> int:
    http = import_from_extra("mainspring.app.servers.http.server", "server", "serve --http")
    application = import_module("mainspring.app.servers.http.app")
    guard = import_module("mainspring.app.servers.http.auth")
    limits = import_module("mainspring.app.servers.http.state")
    given, new = await asyncio.to_thread(_tokens, options)
    agents = await _agents(options, console)
    engine = create_engine(options.url, version=options.code_version, keep=options.keep)
    service = RunService(engine, agents, ServiceOptions(runs=options.max_runs, default=next(iter(agents), "")))
    app, state = application.create_app(
        service,
        given,
        doors=guard.OriginPolicy(hosts=tuple(options.allow_host), origins=tuple(options.allow_origin)),
        limits=limits.Limits(requests=options.max_requests, body=options.max_body, followers=options.max_followers),
    )
    place: http_server.ServerOptions = http.ServerOptions(
        host=options.host, port=options.port, drain=options.drain, keeps=options.url is not None
    )
    listening = http.open_socket(place)
    try:
        async with service:
            server = application.create_server(app, state, place, console.info)
            url = http.local_url(listening)
            console.answer(f"{url}#token={new}\n" if new else f"{url}\n")
            if not http.is_loopback(listening):
                console.info(
                    "Warning: other machines can reach this server, and the traffic is not encrypted. Use a reverse proxy with TLS."
                )
            async with asyncio.TaskGroup() as group:
                keeping = options.token_file and group.create_task(
                    watch_token_file(Path(options.token_file), given, console.info)
                )
                await server.serve_until_stopped(listening)
                if keeping:
                    keeping.cancel()
    finally:
        listening.close()
    return OK


def _tokens(options: argparse.Namespace) -> tuple[TenantTokens, str]:
    """Return the tokens, and the token that was generated if none was provided."""
    own = pop_token_from_env(os.environ)
    if options.token_file:
        found = read_tokens(Path(options.token_file))
        if own:
            raise ConfigError(f"Use only one of --token-file and ${TOKEN_VARIABLE}.")
        return TenantTokens(found), ""
    if own:
        return TenantTokens({own: DEFAULT_TENANT}), ""
    generated = new_token()
    return TenantTokens({generated: DEFAULT_TENANT}), generated


async def _agents(options: argparse.Namespace, console: Console) -> dict[str, Factory]:
    """Return the agents whose runs this process executes; empty if separate workers execute them."""
    if options.url is not None and not options.work:
        if options.agents or options.only_agents:
            raise ConfigError(
                "With --url, separate workers provide the agents. Remove --agents, or add --work to execute runs in this process."
            )
        return {}
    found: dict[str, Factory] = {}

    def tell(report: Event) -> None:
        if isinstance(report, Notice):
            console.info(f"Note: {report.text}")

    if not options.only_agents:
        requested = replace(launch_options(options), save=False, session=None, session_id=None)
        await check_builtin_agent(requested, tell)
        found[BUILTIN_AGENT] = builtin_agent_factory(requested, _say_nothing)
    for place in options.agents:
        found |= await asyncio.to_thread(load_agents, place, options.cwd or os.getcwd())
    if not found:
        raise ConfigError("--only-agents leaves no agent. Name agents with --agents MODULE:ATTRIBUTE.")
    return found


def _say_nothing(_: Event) -> None:
    """Do nothing: all notices were printed at the start."""
