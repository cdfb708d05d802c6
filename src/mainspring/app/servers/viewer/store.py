"""What was received, in memory: the last traces, each as a run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from mainspring.app.servers.viewer.model import RunDetail, Summary, ViewSpan, add_totals
from mainspring.app.servers.viewer.otlp import ReceivedSpan
from mainspring.telemetry.conventions import AGENT_NAME, CONVERSATION_ID, RUN_ID, RUN_STATUS

TRACES = 200
"""Traces that are kept."""

SPANS = 5000
"""Spans that are kept of a trace; what comes after them is counted only."""

AGENTS = 500
"""Runs and outermost spans that are kept beyond that: they come last, and tell how it ended."""


class Trace:
    """One trace, as far as it has come in."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.service = ""
        self.spans: dict[str, ViewSpan] = {}
        self.dropped = 0

    def add(self, received: ReceivedSpan) -> None:
        """Take a span; one that comes again takes the place of the first."""
        self.service = self.service or received.service
        span = received.span
        limit = SPANS + AGENTS if span.kind == "agent" or not span.parent else SPANS
        if span.id not in self.spans and len(self.spans) >= limit:
            self.dropped += 1
            return
        self.spans[span.id] = span

    def summary(self) -> Summary:
        """What the list shows. Asked in a thread, so it looks at a copy of what comes in meanwhile."""
        spans = list(self.spans.values())
        root = _root(spans)
        known = root or spans[0]
        status = "running"
        if root is not None:
            status = str(root.attributes.get(RUN_STATUS) or ("error" if root.error else "completed"))
        made = Summary(
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
        return add_totals(made, spans)


def _root(spans: list[ViewSpan]) -> ViewSpan | None:
    """The outermost agent, or else the outermost span, where it has come in: it comes last."""
    ids = {s.id for s in spans}
    tops = [s for s in spans if s.parent not in ids]
    agents = [s for s in tops if s.kind == "agent"]
    return min(agents or [s for s in tops if not s.parent], key=lambda s: s.start, default=None)


class SpanStore:
    """The last traces that came in.

    Attributes:
        version: Changes whenever something comes in.
    """

    def __init__(self, traces: int = TRACES) -> None:
        self._limit = traces
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self.version = 0

    def add(self, received: Iterable[ReceivedSpan]) -> None:
        """Take spans; the trace that has been quiet the longest goes where there are too many."""
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
        """All of them."""
        return [t.summary() for t in list(self._traces.values()) if t.spans]

    def run(self, id: str) -> RunDetail | None:
        """One of them."""
        trace = self._traces.get(id.removeprefix("otlp-"))
        if trace is None or not trace.spans:
            return None
        return RunDetail(summary=trace.summary(), spans=sorted(trace.spans.values(), key=lambda s: (s.start, s.id)))
