"""Telemetry: spans, metrics and events of agents by OpenTelemetry. Opt-in; OpenTelemetry itself is imported when one is made."""

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.telemetry.options import TelemetryOptions
    from mainspring.telemetry.plug import Tracing, install_tracing
    from mainspring.telemetry.telemetry import Telemetry
    from mainspring.telemetry.telemetry import TelemetryHelpers as TelemetryHelpers

__all__ = ["Telemetry", "TelemetryHelpers", "TelemetryOptions", "Tracing", "install_tracing"]

_, __getattr__ = lazy_exports(
    __name__,
    {
        "telemetry": "TelemetryHelpers Telemetry",
        "options": "TelemetryOptions",
        "plug": "Tracing install_tracing",
    },
)
