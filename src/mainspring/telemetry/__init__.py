"""Telemetry: spans, metrics, and events of agents with OpenTelemetry. Opt-in; OpenTelemetry itself is imported when used."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.telemetry.pipeline import TelemetryOptions as TelemetryOptions
    from mainspring.telemetry.plug import Tracing, install_tracing
    from mainspring.telemetry.telemetry import Telemetry, TelemetryHelpers as TelemetryHelpers

__all__ = ["Telemetry", "TelemetryHelpers", "TelemetryOptions", "Tracing", "install_tracing"]

lazy_exports(
    __name__,
    {
        "telemetry": "TelemetryHelpers Telemetry",
        "pipeline": "TelemetryOptions",
        "plug": "Tracing install_tracing",
    },
)
