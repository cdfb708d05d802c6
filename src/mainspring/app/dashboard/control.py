"""The dashboard: the Aspire container if a container engine is available, else the built-in viewer in a separate process."""

from __future__ import annotations

import os
import secrets
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from mainspring.app.dashboard.session_runs import SavedRuns
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules, session_store
from mainspring.app.workspace.paths import UserPaths
from mainspring.env.container.container import find_engine, last_output_line, run_engine
from mainspring.errors import ConfigError, MainspringError
from mainspring.extras import import_from_extra
from mainspring.programs import find_program
from mainspring.python import python_module
from mainspring.sessions import SessionStore, resolve_store
from mainspring.state_files import write_atomically

IMAGE = "mcr.microsoft.com/dotnet/aspire-dashboard:latest"
CONTAINER = "mainspring-telemetry"
PORT = 4318
"""Default port of OpenTelemetry exporters."""

DashboardChoice = Literal["auto", "viewer", "aspire"]

_FEATURE = "The telemetry viewer"
_ANSWER_SECONDS = 3.0
_START_SECONDS = 15.0
_PULL_SECONDS = 300.0


class DashboardError(MainspringError):
    """The dashboard cannot be started or stopped; the message contains the reason."""


class Dashboard(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A dashboard that was started.

    Attributes:
        kind: ``viewer`` (built in) or ``aspire`` (a container).
        url: URL of the page, which contains the token for all data.
        endpoint: URL to which spans are sent.
        pid: Process ID of the viewer.
        engine: Program that runs the container.
        container: ID of the container.
    """

    kind: Literal["viewer", "aspire"]
    url: str
    endpoint: str
    pid: int = 0
    engine: str = ""
    container: str = ""


class Status(Struct, frozen=True, kw_only=True, rename="camel"):
    """State of the dashboard.

    Attributes:
        running: Whether it responds.
        dashboard: The dashboard that was started last and not stopped.
        note: Notice for the user.
    """

    running: bool
    dashboard: Dashboard | None = None
    note: str = ""


def start_dashboard(
    place: WorkspaceOptions,
    *,
    choice: DashboardChoice = "auto",
    port: int | None = None,
    on_message: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> tuple[Dashboard, bool]:
    """Start a dashboard, unless one is running. Blocks until it responds.

    Args:
        place: Workspace of the command.
        choice: Kind of dashboard; ``auto`` is Aspire if a container engine responds, else the viewer.
        port: Port that receives spans (default: 4318, or a free port if it is in use).
        on_message: Callback for slow operations.
        environ: Environment variables.

    Returns:
        The dashboard, and whether this call started it.

    Raises:
        DashboardError: If it cannot be started, or a dashboard of another kind is running.
        ConfigError: If Aspire is requested and no engine responds, ``port`` is invalid, or the viewer is not installed.
    """
    _check_port(port)
    home = _home(place, environ)
    known = dashboard_status(place, environ)
    if known.running and known.dashboard is not None:
        if choice not in {"auto", known.dashboard.kind}:
            raise DashboardError(
                f"A {known.dashboard.kind} dashboard is already running. Stop it first with `mainspring telemetry stop`."
            )
        return known.dashboard, False
    engine = "" if choice == "viewer" else _find_container_engine(choice, on_message)
    dashboard = _container_or_none(engine, choice, port, on_message, place) if engine else None
    dashboard = dashboard or _start_viewer(home, port, place, environ)
    _save_state(home, dashboard)
    return dashboard, True


def stop_dashboard(place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> Status:
    """Stop the dashboard. Return the dashboard, and a notice if none was running.

    Raises:
        DashboardError: If it does not stop.
    """
    home = _home(place, environ)
    known = dashboard_status(place, environ)
    dashboard = known.dashboard
    if dashboard is None:
        return known
    if known.running and dashboard.kind == "aspire":
        done = _run_engine(dashboard.engine, "rm", "-f", dashboard.container)
        if done.returncode:
            raise DashboardError(f"Cannot stop the container: {last_output_line(done.stderr)}")
    elif known.running:
        _stop_viewer(dashboard)
    _clear_state(home)
    return Status(running=False, dashboard=dashboard, note="" if known.running else known.note)


def dashboard_status(place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> Status:
    """Return the state of the dashboard, from a request to it and not only from its state file."""
    dashboard = _load_state(_home(place, environ))
    if dashboard is None:
        return Status(running=False, note="No dashboard is running. Start one with `mainspring telemetry start`.")
    if dashboard.kind == "viewer":
        running = _request_viewer(dashboard, "api/health") is not None
    else:
        running = _container_runs(dashboard)
    note = "" if running else "The dashboard is no longer running. Start it again with `mainspring telemetry start`."
    return Status(running=running, dashboard=dashboard, note=note)


async def run_viewer(
    place: WorkspaceOptions,
    port: int | None,
    ready: Callable[[Dashboard], None],
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Run the viewer in this process until it is stopped.

    Args:
        place: Workspace of the command.
        port: Port to listen on (default: 4318, or a free port if it is in use).
        ready: Callback when it listens.
        environ: Environment variables.

    Raises:
        ConfigError: If ``port`` is invalid or in use, or the viewer is not installed.
    """
    _check_port(port)
    home = _home(place, environ)
    http = import_from_extra("mainspring.app.servers.http.server", "server", _FEATURE)
    viewer = import_from_extra("mainspring.app.servers.viewer.server", "server", _FEATURE).Viewer(
        SavedRuns(home.root, environ, _open_store(place, environ))
    )
    try:
        listening = http.open_socket(http.ServerOptions(port=PORT if port is None else port))
    except ConfigError:
        if port is not None:
            raise
        listening = http.open_socket(http.ServerOptions(port=0))
    with listening:
        endpoint = http.local_url(listening).rstrip("/")
        ready(Dashboard(kind="viewer", url=viewer.url(listening), endpoint=endpoint, pid=os.getpid()))
        await viewer.server.serve_until_stopped(listening)


def _check_port(port: int | None) -> None:
    if port is not None and not 0 <= port <= 65535:
        raise ConfigError(f"Invalid value for --port: {port}. Use a number up to 65535.")


# --- the viewer -----------------------------------------------------------------------------------------------------------


def _start_viewer(home: UserPaths, port: int | None, place: WorkspaceOptions, environ: Mapping[str, str]) -> Dashboard:
    import_from_extra("mainspring.app.servers.viewer.server", "server", _FEATURE)
    command = python_module("mainspring", "telemetry", "serve", "--json")
    if port is not None:
        command += ["--port", str(port)]
    if place.cwd is not None:
        command += ["--cwd", place.cwd]
    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    process = subprocess.Popen(
        command,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        line = _first_line(process, _START_SECONDS)
        if not line:
            process.kill()
            stderr = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
            process.wait()
            raise DashboardError(f"The viewer did not start: {stderr[-1] if stderr else 'no output'}")
    process.returncode = 0  # the viewer outlives this process, so no one waits for its exit code
    return msgspec.json.decode(line, type=Dashboard)


def _first_line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """Return the first line of the viewer's output once it listens; empty after a timeout."""
    stream = process.stdout
    assert stream is not None
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(seconds)
    return found[0] if found and found[0].endswith(b"\n") else b""


def _stop_viewer(dashboard: Dashboard) -> None:
    _request_viewer(dashboard, "api/stop", method="POST")
    until = time.monotonic() + _ANSWER_SECONDS
    while _request_viewer(dashboard, "api/health", seconds=0.5) is not None:
        if time.monotonic() > until:
            raise DashboardError(f"The viewer does not stop. End its process with `kill {dashboard.pid}`.")
        time.sleep(0.05)  # this command has no other work to do


def _request_viewer(
    dashboard: Dashboard, path: str, *, method: str = "GET", seconds: float = _ANSWER_SECONDS
) -> bytes | None:
    """Return the response of the viewer, or ``None`` without a response. Uses no proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    page, _, token = dashboard.url.partition("#token=")
    try:
        request = urllib.request.Request(page + path, method=method, headers={"Authorization": f"Bearer {token}"})
        with opener.open(request, timeout=seconds) as answer:
            return answer.read()
    except (OSError, urllib.error.URLError, ValueError):
        return None


# --- the container --------------------------------------------------------------------------------------------------------


def _find_container_engine(choice: DashboardChoice, on_message: Callable[[str], None]) -> str:
    try:
        return find_engine()
    except ConfigError as error:
        if choice == "aspire":
            raise
        if any(find_program(name) for name in ("docker", "podman")):
            on_message(f"Warning: using the built-in viewer instead of the container: {error}")
        return ""


def _container_or_none(
    engine: str, choice: DashboardChoice, port: int | None, on_message: Callable[[str], None], place: WorkspaceOptions
) -> Dashboard | None:
    """Start the container. Return ``None`` if it does not start and was not explicitly requested."""
    try:
        return _start_container(engine, port, on_message, place)
    except DashboardError as error:
        if choice == "aspire":
            raise
        on_message(f"Warning: using the built-in viewer instead of the container: {error}")
        return None


def _start_container(
    engine: str, port: int | None, on_message: Callable[[str], None], place: WorkspaceOptions
) -> Dashboard:
    token, http = secrets.token_urlsafe(24), PORT if port is None else port
    if _run_engine(engine, "image", "inspect", IMAGE).returncode:
        if place.offline:
            raise DashboardError(f"The image {IMAGE} is not on this machine, and --offline prevents the download.")
        on_message(f"fetching {IMAGE} ...")
    options = [
        "-p", "127.0.0.1:18888:18888", "-p", f"127.0.0.1:{http}:18890", "-p", "127.0.0.1:4317:18889",
        "-e", f"DASHBOARD__FRONTEND__BROWSERTOKEN={token}", "-e", "DASHBOARD__OTLP__AUTHMODE=Unsecured",
        *(["--pull", "never"] if place.offline else []),
    ]  # fmt: skip
    _run_engine(engine, "rm", "-f", CONTAINER)  # a container that an earlier start left
    done = _run_engine(engine, "run", "-d", "--rm", "--name", CONTAINER, *options, IMAGE, seconds=_PULL_SECONDS)
    if done.returncode:
        raise DashboardError(f"{engine} cannot start the dashboard: {last_output_line(done.stderr)}")
    return Dashboard(
        kind="aspire",
        url=f"http://127.0.0.1:18888/login?t={token}",
        endpoint=f"http://127.0.0.1:{http}",
        engine=engine,
        container=done.stdout.decode("utf-8", "replace").strip().splitlines()[-1] if done.stdout.strip() else CONTAINER,
    )


def _run_engine(engine: str, *arguments: str, seconds: float = 60.0) -> subprocess.CompletedProcess[bytes]:
    """Run a command of an engine. A missing engine or a timeout is a `DashboardError`."""
    try:
        return run_engine([engine, *arguments], seconds=seconds)
    except subprocess.TimeoutExpired:
        raise DashboardError(f"{engine} {arguments[0]} did not finish within {seconds:g}s.") from None
    except OSError as error:
        raise DashboardError(f"{engine}: {error.strerror or error}") from error


def _container_runs(dashboard: Dashboard) -> bool:
    command = [dashboard.engine, "inspect", "-f", "{{.State.Running}}", dashboard.container]
    try:
        return run_engine(command, seconds=_ANSWER_SECONDS * 2).stdout.strip() == b"true"
    except (OSError, subprocess.TimeoutExpired):
        return False


# --- stored state ---------------------------------------------------------------------------------------------------------


def _file(home: UserPaths) -> Path:
    return home.root / "telemetry.json"


def _load_state(home: UserPaths) -> Dashboard | None:
    try:
        return msgspec.json.decode(_file(home).read_bytes(), type=Dashboard)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _save_state(home: UserPaths, dashboard: Dashboard) -> None:
    home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(_file(home), msgspec.json.encode(dashboard))


def _clear_state(home: UserPaths) -> None:
    _file(home).unlink(missing_ok=True)


def _open_store(place: WorkspaceOptions, environ: Mapping[str, str]) -> SessionStore:
    return resolve_store(session_store(load_rules(place, environ=environ)[1]))


def _home(place: WorkspaceOptions, environ: Mapping[str, str]) -> UserPaths:
    _, settings = load_rules(place, environ=environ)
    if settings.home is None:
        raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME.")
    return settings.home
