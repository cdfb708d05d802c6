"""The most recently received traces, in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from mainspring.app.servers.viewer.model import RunDetail, Summary, ViewSpan, add_totals
from mainspring.app.servers.viewer.otlp import ReceivedSpan
from mainspring.telemetry.conventions import AGENT_NAME, CONVERSATION_ID, RUN_ID, RUN_STATUS

TRACES = 200
"""Maximum number of stored traces."""


SPANS = 5000
"""Maximum number of stored spans of a trace; later spans are only counted."""


AGENTS = 500
"""Additional number of agent and root spans, which arrive last and contain the outcome of the run."""


class Trace:
    """One trace, with the spans that have arrived."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.service = ""
        self.spans: dict[str, ViewSpan] = {}
        self.dropped = 0

    def add(self, received: ReceivedSpan) -> None:
        """Add a span; a span with the same ID is replaced."""
        self.service = self.service or received.service
        span = received.span
        limit = SPANS + AGENTS if span.kind == "agent" or not span.parent else SPANS
        if span.id not in self.spans and len(self.spans) >= limit:
            self.dropped += 1
            return
        self.spans[span.id] = span

    def summary(self) -> Summary:
        """Return the summary for the list. Called in a thread, so it reads a copy of data that may change."""
        spans = list(self.spans.values())
        root = _root(spans)
        known = root or spans[0]
        status = "running"
        if root is not None:
            status = str(root.attributes.get(RUN_STATUS) or ("error" if root.error else "completed"))
        result = Summary(
            id=f"otlp-{self.id}",
            run=str(known.attributes.get(RUN_ID, "")),
            title=str(known.attributes.get(AGENT_NAME) or min(spans, key=lambda s: s.start).name),
            place=self.service,
            session=str(known.attributes.get(CONVERSATION_ID) or ""),
            start=min(s.start for s in spans),
            end=root.end if root is not None else None,
            status=status,
            dropped=self.dropped,
        )
        return add_totals(result, spans)


def _root(spans: list[ViewSpan]) -> ViewSpan | None:
    """Return the outermost agent span, else the root span, if it has arrived: it arrives last."""
    ids = {s.id for s in spans}
    tops = [s for s in spans if s.parent not in ids]
    agents = [s for s in tops if s.kind == "agent"]
    return min(agents or [s for s in tops if not s.parent], key=lambda s: s.start, default=None)


class SpanStore:
    """The most recently received traces.

    Attributes:
        version: Number that changes with every received span.
    """

    def __init__(self, traces: int = TRACES) -> None:
        self._limit = traces
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self.version = 0

    def add(self, received: Iterable[ReceivedSpan]) -> None:
        """Add spans; beyond the limit, the trace that was inactive the longest is removed."""
        self.version += 1
        for each in received:
            trace = self._traces.get(each.trace)
            if trace is None:
                trace = self._traces[each.trace] = Trace(each.trace)
            self._traces.move_to_end(each.trace)
            trace.add(each)
        while len(self._traces) > self._limit:
            self._traces.popitem(last=False)

    def runs(self) -> list[Summary]:
        """Return all runs."""
        return [t.summary() for t in list(self._traces.values()) if t.spans]

    def run(self, id: str) -> RunDetail | None:
        """Return one run, or ``None``."""
        trace = self._traces.get(id.removeprefix("otlp-"))
        if trace is None or not trace.spans:
            return None
        return RunDetail(summary=trace.summary(), spans=sorted(trace.spans.values(), key=lambda s: (s.start, s.id)))
