"""Trace and span IDs of events, for listeners that add to traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct

if TYPE_CHECKING:
    from mainspring.events.base import Event

RandomSource = Callable[[int], bytes]
"""Returns a number of random bytes; for example, `os.urandom`."""


class SpanContext(Struct, frozen=True):
    """Identifies an operation within a trace, in the form of W3C and OpenTelemetry.

    Attributes:
        trace_id: 128 bits as 32 hexadecimal digits; the same for the whole run.
        span_id: 64 bits as 16 hexadecimal digits.
        parent_span_id: The span that contains this one; ``None`` for the outermost span.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None

    @classmethod
    def root(cls, random: RandomSource) -> SpanContext:
        """Create a new trace with its outermost span."""
        return cls(random(16).hex(), random(8).hex())

    def child(self, random: RandomSource) -> SpanContext:
        """Create a new span within this one."""
        return SpanContext(self.trace_id, random(8).hex(), self.span_id)


@runtime_checkable
class SpanSource(Protocol):
    """A plugin that creates real spans, so that other plugins can use their IDs."""

    def span_of(self, event: Event) -> SpanContext | None:
        """Return the IDs of the span that begins with an event while the event is published; ``None`` without a span."""
        ...
