"""Requests that are rejected before a dashboard starts."""

import asyncio
import re
import sys
from pathlib import Path

import msgspec
import pytest

from mainspring.app.dashboard import control
from mainspring.app.dashboard.control import (
    Dashboard,
    DashboardError,
    dashboard_status,
    run_viewer,
    start_dashboard,
    stop_dashboard,
)
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.servers.http.server import ServerOptions, local_url, open_socket
from mainspring.app.servers.viewer.server import Viewer
from mainspring.errors import ConfigError
from mainspring.extras import install_command


@pytest.mark.covers("CLI-17")
async def test_invalid_port_is_rejected(tmp_path: Path) -> None:
    environ = {"MAINSPRING_HOME": str(tmp_path / "home")}
    for port in (-1, 65_536, 99_999):
        with pytest.raises(ConfigError, match=f"Invalid value for --port: {port}"):
            await asyncio.to_thread(start_dashboard, WorkspaceOptions(cwd=str(tmp_path)), port=port, environ=environ)
        with pytest.raises(ConfigError, match="Use a number up to 65535"):
            await run_viewer(WorkspaceOptions(cwd=str(tmp_path)), port, lambda _: None, environ)
    assert not (tmp_path / "home").exists()


@pytest.mark.covers("CLI-17")
async def test_viewer_uses_another_port_only_if_none_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ, place = {"MAINSPRING_HOME": str(tmp_path)}, WorkspaceOptions(cwd=str(tmp_path))
    with open_socket(ServerOptions(port=0)) as other:
        used = other.getsockname()[1]
        monkeypatch.setattr(control, "PORT", used)
        with pytest.raises(ConfigError, match=f"Cannot listen on 127.0.0.1 port {used}"):
            await run_viewer(place, used, lambda _: None, environ)

        started = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(run_viewer(place, None, started.set_result, environ))
        dashboard = await started
        assert dashboard.endpoint != f"http://127.0.0.1:{used}"
        assert dashboard.url.startswith(f"{dashboard.endpoint}/#token=")
        (tmp_path / "telemetry.json").write_bytes(msgspec.json.encode(dashboard))
        assert (await asyncio.to_thread(dashboard_status, place, environ)).running
        await asyncio.to_thread(stop_dashboard, place, environ)
        await running


@pytest.mark.covers("CLI-17")
def test_viewer_without_the_extra_reports_the_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ, place = {"MAINSPRING_HOME": str(tmp_path)}, WorkspaceOptions(cwd=str(tmp_path))
    monkeypatch.setitem(sys.modules, "mainspring.app.servers.http.server", None)
    monkeypatch.setitem(sys.modules, "mainspring.app.servers.viewer.server", None)
    hint = re.escape(f"The telemetry viewer requires the extra server. Install it: {install_command('server')} (")
    with pytest.raises(ConfigError, match=hint):
        start_dashboard(place, choice="viewer", environ=environ)
    with pytest.raises(ConfigError, match=hint):
        asyncio.run(run_viewer(place, None, lambda _: None, environ))
    assert not (tmp_path / "telemetry.json").exists()


@pytest.mark.covers("CLI-17")
async def test_running_dashboard_is_reused_unless_another_kind_is_requested(tmp_path: Path) -> None:
    environ, place = {"MAINSPRING_HOME": str(tmp_path)}, WorkspaceOptions(cwd=str(tmp_path))
    viewer, listening = Viewer(), open_socket(ServerOptions(port=0))
    running = Dashboard(kind="viewer", url=viewer.url(listening), endpoint=local_url(listening), pid=1)
    (tmp_path / "telemetry.json").write_bytes(msgspec.json.encode(running))
    async with viewer.server.in_background(listening):
        assert await asyncio.to_thread(start_dashboard, place, environ=environ) == (running, False)
        assert await asyncio.to_thread(start_dashboard, place, choice="viewer", environ=environ) == (running, False)
        with pytest.raises(
            DashboardError, match="viewer dashboard is already running. Stop it first with `mainspring telemetry stop`"
        ):
            await asyncio.to_thread(start_dashboard, place, choice="aspire", environ=environ)
