"""What can be chosen about telemetry."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

SpanNames = Literal["genai", "classic"]
"""``genai``: ``invoke_agent NAME``, ``chat MODEL``, ``execute_tool NAME``. ``classic``: ``agent.run``, ``gen_ai.chat``, ``tool.execute``."""

ContentDestination = Literal["spans", "events", "both"]
"""Where prompts, answers, arguments and results stand, where they are wanted at all."""


class TelemetryOptions(Struct, frozen=True, kw_only=True):
    """How spans, metrics and events are made and sent.

    Attributes:
        endpoint: Where to, as ``http://localhost:4318``. ``None``: as OpenTelemetry's own variables say, else that. Not used where
            the application has set up OpenTelemetry itself.
        sensitive: Whether prompts, answers, arguments and results go along, without what looks like a secret.
        content: Where they stand then.
        span_names: How spans are called.
        service: Name of the service, unless ``OTEL_SERVICE_NAME`` says otherwise.
        export_seconds: How long one attempt to send may take, unless ``OTEL_EXPORTER_OTLP_TIMEOUT`` says otherwise.
        close_seconds: How long `Telemetry.close` waits for what is still to be sent.
        text_limit: Characters of one piece of content; the rest of it is left out.
    """

    endpoint: str | None = None
    sensitive: bool = False
    content: ContentDestination = "spans"
    span_names: SpanNames = "genai"
    service: str = "mainspring"
    export_seconds: float = 5.0
    close_seconds: float = 2.0
    text_limit: int = 20_000
