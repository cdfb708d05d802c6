"""What an application makes once, and gives to all of its agents."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from mainspring.errors import refuse_unknown
from mainspring.redaction import Redactor
from mainspring.telemetry.helpers import TelemetryHelpers
from mainspring.telemetry.nothing import Nothing
from mainspring.telemetry.options import TelemetryOptions
from mainspring.telemetry.pipeline import Off, Pipeline, connect
from mainspring.telemetry.signals import Signals

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Tracer

logger = logging.getLogger("mainspring.telemetry")


class Telemetry:
    """Spans, metrics and events by OpenTelemetry.

    Where the application has set up OpenTelemetry, its providers are used. Where it has not, there are providers of ours, which send
    by OTLP to ``endpoint`` and are closed by `close`; no global provider is ever set. Making one imports OpenTelemetry, which takes a
    fifth of a second, and opens no connection.

    Args:
        options: What was chosen; or its fields by name.
        pipeline: Where to, in place of all that.
        environ: The environment. Default: that of the process.
        redactor: Takes secrets out. Default: one that knows those of the environment.
        **given: Fields of `TelemetryOptions`.

    Raises:
        TypeError: If there is no option of a name, or some are given beside ``options``.

    Attributes:
        options: What was chosen.
        problem: Why nothing is sent; empty if something is.
        helpers: For spans of one's own.
    """

    def __init__(
        self,
        options: TelemetryOptions | None = None,
        *,
        pipeline: Pipeline | None = None,
        environ: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
        **given: Any,
    ) -> None:
        refuse_unknown("Telemetry", given, TelemetryOptions.__struct_fields__)
        if options is not None and given:
            raise TypeError(f"Telemetry takes options=... or single options ({', '.join(given)}), not both")
        self.options = options or TelemetryOptions(**given)
        self.problem = ""
        self.signals: Signals | None = None
        environ = os.environ if environ is None else environ
        try:
            self.signals = Signals(
                self.options, pipeline or connect(self.options, environ), redactor or Redactor.of(environ)
            )
        except Off as off:
            self.problem = str(off)
            logger.info("there is no telemetry: %s", off)
        except Exception as error:  # OpenTelemetry's own code, and the application's providers
            self.problem = f"it could not be set up ({type(error).__name__}: {error})"
            logger.warning("there is no telemetry: it could not be set up; runs go on without", exc_info=True)
        self.helpers = TelemetryHelpers(self.signals)

    @property
    def on(self) -> bool:
        """Whether anything is made and sent."""
        return self.signals is not None

    @property
    def tracer(self) -> Tracer:
        """Makes spans; where telemetry is off, such as do nothing."""
        return self.signals.tracer if self.signals is not None else cast("Tracer", Nothing())

    @property
    def meter(self) -> Meter:
        """Makes instruments; where telemetry is off, such as do nothing."""
        return self.signals.pipeline.meter if self.signals is not None else cast("Meter", Nothing())

    def close(self) -> bool:
        """Send what waits, within the seconds that the options allow. The application's own providers are left alone.

        Returns:
            Whether everything was sent.
        """
        return self.signals is None or self.signals.pipeline.close(self.options.close_seconds)
