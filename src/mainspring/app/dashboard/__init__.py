"""The telemetry dashboard."""
