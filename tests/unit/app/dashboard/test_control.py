"""Requests that are rejected before a dashboard starts."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from mainspring.app.dashboard.control import Dashboard, DashboardError, run_viewer, start_dashboard
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.servers.viewer import Viewer
from mainspring.errors import ConfigError


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
async def test_running_dashboard_is_reused_unless_another_kind_is_requested(tmp_path: Path) -> None:
    environ, place = {"MAINSPRING_HOME": str(tmp_path)}, WorkspaceOptions(cwd=str(tmp_path))
    viewer = Viewer()
    await viewer.start()
    running = Dashboard(kind="viewer", url=viewer.url, endpoint=viewer.endpoint, pid=1)
    (tmp_path / "telemetry.json").write_bytes(msgspec.json.encode(running))
    try:
        assert await asyncio.to_thread(start_dashboard, place, environ=environ) == (running, False)
        assert await asyncio.to_thread(start_dashboard, place, choice="viewer", environ=environ) == (running, False)
        with pytest.raises(
            DashboardError, match="viewer dashboard is already running. Stop it first with `mainspring telemetry stop`"
        ):
            await asyncio.to_thread(start_dashboard, place, choice="aspire", environ=environ)
    finally:
        await viewer.aclose()
