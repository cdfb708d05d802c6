"""Where something happened, for whoever joins what it hears to traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct

if TYPE_CHECKING:
    from mainspring.events.types import Event

RandomSource = Callable[[int], bytes]
"""Gives so many random bytes; `os.urandom` is one."""


class SpanContext(Struct, frozen=True):
    """Names one operation within one trace, in the form of W3C and OpenTelemetry.

    Attributes:
        trace_id: 128 bits as 32 hexadecimal digits; the same for everything in one run.
        span_id: 64 bits as 16 hexadecimal digits.
        parent_span_id: The span in which this one happened; ``None`` for the outermost.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None

    @classmethod
    def root(cls, random: RandomSource) -> SpanContext:
        """A new trace with its outermost span."""
        return cls(random(16).hex(), random(8).hex())

    def child(self, random: RandomSource) -> SpanContext:
        """A new span within this one."""
        return SpanContext(self.trace_id, random(8).hex(), self.span_id)


@runtime_checkable
class SpanSource(Protocol):
    """A plug that makes real spans, so that others need not make up ids of their own."""

    def span_of(self, event: Event) -> SpanContext | None:
        """The ids of the span that begins with an event, asked while the event is told; ``None`` where there is none."""
        ...
