"""Telemetry as the settings want it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mainspring.app.run.events import Notice, RunEventHandler
from mainspring.app.workspace.settings import Settings
from mainspring.loop import Plugin
from mainspring.redaction import Redactor
from mainspring.telemetry import Telemetry, TelemetryOptions, Tracing


async def build_telemetry(
    settings: Settings, environ: Mapping[str, str], redactor: Redactor, report: RunEventHandler
) -> Telemetry | None:
    """What the settings switch on; ``None`` where they do not, and then nothing of it is imported."""
    wanted = settings.config.telemetry
    if not wanted.enabled:
        return None
    options = TelemetryOptions(
        endpoint=wanted.endpoint, sensitive=wanted.enable_sensitive_data, span_names=wanted.span_names
    )
    telemetry = await asyncio.to_thread(Telemetry, options, environ=environ, redactor=redactor)
    if telemetry.problem:
        report(Notice(f"telemetry is enabled, but nothing is sent: {telemetry.problem}"))
    return telemetry


def telemetry_plugs(telemetry: Telemetry | None) -> list[Plugin]:
    """The plug that traces an agent, where there is telemetry."""
    return [Tracing(telemetry)] if telemetry is not None and telemetry.on else []
