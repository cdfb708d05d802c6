"""The telemetry viewer: a local web page that shows runs live, from received spans and from saved sessions."""
