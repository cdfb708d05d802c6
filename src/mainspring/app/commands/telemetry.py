"""``mainspring telemetry``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from mainspring.app.cli.console import Console, discard_stream
from mainspring.app.cli.runner import run_command, workspace_options
from mainspring.app.dashboard.control import (
    Dashboard,
    DashboardChoice,
    Status,
    dashboard_status,
    run_viewer,
    start_dashboard,
    stop_dashboard,
)


def run(options: argparse.Namespace) -> int:
    """Run an action, and return the exit code."""
    works = {"start": _start, "stop": _stop, "status": _status, "url": _url, "serve": _serve}
    return run_command(options, lambda console: works[options.action](options, console))


def _start(options: argparse.Namespace, console: Console) -> int:
    choice: DashboardChoice = "viewer" if options.viewer else "aspire" if options.aspire else "auto"
    dashboard, new = start_dashboard(
        workspace_options(options), choice=choice, port=options.port, on_message=console.info
    )
    if options.json:
        console.write_json(dashboard)
        return 0
    console.info("Started" if new else "Already running")
    console.info(
        f"Spans are received at {dashboard.endpoint}. To send them, run: mainspring config set telemetry.enabled true"
    )
    if dashboard.kind == "viewer":
        console.info("Saved sessions are shown without that setting.")
    if not dashboard.endpoint.endswith(":4318"):
        console.info(f"Also run: mainspring config set telemetry.endpoint {dashboard.endpoint}")
    console.row(dashboard.url)
    return 0


def _stop(options: argparse.Namespace, console: Console) -> int:
    was = stop_dashboard(workspace_options(options))
    if options.json:
        console.write_json(was)
    elif was.dashboard is None:
        console.info("No dashboard is running")
    else:
        console.info("The dashboard was no longer running" if was.note else "Stopped")
    return 0


def _status(options: argparse.Namespace, console: Console) -> int:
    found = dashboard_status(workspace_options(options))
    if options.json:
        console.write_json(found)
    elif found.running and found.dashboard is not None:
        console.row(f"running: {_describe_dashboard(found.dashboard)}")
        console.row(found.dashboard.url)
        console.row(f"Spans are received at {found.dashboard.endpoint}")
    else:
        console.row(f"not running: {found.note}")
    return 0 if found.running else 1


def _url(options: argparse.Namespace, console: Console) -> int:
    found: Status = dashboard_status(workspace_options(options))
    if not found.running or found.dashboard is None:
        console.fail(f"Error: {found.note}")
        return 1
    console.row(found.dashboard.url)
    return 0


def _serve(options: argparse.Namespace, console: Console) -> int:
    def ready(dashboard: Dashboard) -> None:
        if not options.json:
            console.info(f"Spans are received at {dashboard.endpoint}. Press Ctrl-C to stop.")
            console.row(dashboard.url)
            return
        console.write_json(dashboard)
        if options.owns_process:  # the parent process reads one line and exits
            discard_stream(sys.stdout)
            discard_stream(sys.stderr)
            os.chdir(os.sep)

    asyncio.run(run_viewer(workspace_options(options), options.port, ready))
    return 0


def _describe_dashboard(dashboard: Dashboard) -> str:
    if dashboard.kind == "viewer":
        return f"built-in viewer, process {dashboard.pid}"
    return f"Aspire dashboard, container {dashboard.container[:12]} of {dashboard.engine}"
