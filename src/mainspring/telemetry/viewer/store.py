"""What was received, in memory: the last traces, each as a run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from mainspring.telemetry.conventions import AGENT_NAME, CONVERSATION_ID, RUN_ID, RUN_STATUS
from mainspring.telemetry.viewer.model import Detail, Summary, ViewSpan, summed
from mainspring.telemetry.viewer.otlp import Received

TRACES = 200
"""Traces that are kept."""

SPANS = 5000
"""Spans that are kept of a trace; what comes after them is counted only."""


class Trace:
    """One trace, as far as it has come in."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.service = ""
        self.spans: dict[str, ViewSpan] = {}
        self.dropped = 0

    def add(self, received: Received) -> None:
        """Take a span; one that comes again takes the place of the first."""
        self.service = self.service or received.service
        if received.span.id not in self.spans and len(self.spans) >= SPANS:
            self.dropped += 1
            return
        self.spans[received.span.id] = received.span

    @property
    def root(self) -> ViewSpan | None:
        """The outermost agent, or else the outermost span, where it has come in: it comes last."""
        tops = [s for s in self.spans.values() if s.parent not in self.spans]
        agents = [s for s in tops if s.kind == "agent"]
        whole = [s for s in tops if not s.parent]
        return min(agents or whole, key=lambda s: s.start, default=None)

    @property
    def run(self) -> str:
        """Id of the run, as far as a span tells it."""
        known = self.root or next(iter(self.spans.values()), None)
        return str(known.attributes.get(RUN_ID, "")) if known is not None else ""

    def summary(self) -> Summary:
        """What the list shows."""
        root = self.root
        spans = list(self.spans.values())
        first = root or min(spans, key=lambda s: s.start)
        facts = first.attributes
        status = "running"
        if root is not None:
            status = str(facts.get(RUN_STATUS) or ("error" if root.error else "completed"))
        made = Summary(
            id=f"otlp-{self.id}",
            run=self.run,
            title=str(facts.get(AGENT_NAME) or first.name),
            place=self.service,
            session=str(facts.get(CONVERSATION_ID) or ""),
            start=min(s.start for s in spans),
            end=root.end if root is not None else None,
            status=status,
        )
        return summed(made, spans)


class SpanStore:
    """The last traces that came in.

    Attributes:
        version: Changes whenever something comes in.
    """

    def __init__(self, traces: int = TRACES) -> None:
        self._limit = traces
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self.version = 0

    def add(self, received: Iterable[Received]) -> None:
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
        return [t.summary() for t in self._traces.values() if t.spans]

    def run(self, id: str) -> Detail | None:
        """One of them."""
        trace = self._traces.get(id.removeprefix("otlp-"))
        if trace is None or not trace.spans:
            return None
        return Detail(summary=trace.summary(), spans=sorted(trace.spans.values(), key=lambda s: (s.start, s.id)))
