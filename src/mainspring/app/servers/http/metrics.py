"""Figures for Prometheus, in its text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counts what the service does. Says nothing about single tenants."""

    def __init__(self) -> None:
        self._requests: Counter[_Labels] = Counter()
        self._seconds: dict[_Labels, float] = {}
        self._counts: Counter[str] = Counter()

    def request(self, operation: str, status: int, seconds: float) -> None:
        """A request was answered; a stream is when it is over."""
        self._requests[("operation", operation), ("status", str(status))] += 1
        labels = (("operation", operation),)
        self._seconds[labels] = self._seconds.get(labels, 0.0) + seconds

    def add(self, name: str, count: int = 1) -> None:
        """Count something else."""
        self._counts[name] += count

    def text(self, gauges: Mapping[str, Mapping[_Labels, float]]) -> str:
        """All figures, with those that are looked up."""
        lines: list[str] = []
        _write_family(
            lines, "mainspring_http_requests_total", "counter", "Requests that were answered.", self._requests
        )
        _write_family(
            lines, "mainspring_http_request_seconds_total", "counter", "Seconds until they were.", self._seconds
        )
        for name, text in _COUNTERS.items():
            _write_family(lines, f"mainspring_{name}_total", "counter", text, {(): self._counts[name]})
        for name, values in gauges.items():
            _write_family(lines, f"mainspring_{name}", "gauge", _GAUGES[name], values)
        return "\n".join(lines) + "\n"


_COUNTERS = {
    "runs_started": "Runs that were started or forked here.",
    "events_sent": "Events that were sent to followers.",
    "followers_cut": "Followers that were cut off because they did not read.",
    "refused_tokens": "Requests without a token, or with a wrong one.",
    "refused_origins": "Requests with a foreign host or origin.",
    "limited": "Requests over a limit.",
}
_GAUGES = {
    "followers": "Followers of events.",
    "runs": "Runs that go on, by state.",
    "closing": "Whether the service is about to end.",
}


def _write_family(lines: list[str], name: str, kind: str, text: str, values: Mapping[_Labels, float]) -> None:
    lines.append(f"# HELP {name} {text}")
    lines.append(f"# TYPE {name} {kind}")
    lines += [f"{name}{_labels(labels)} {values[labels]:.10g}" for labels in sorted(values)]


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    parts = [f'{name}="{_escaped(value)}"' for name, value in labels]
    return f"{{{','.join(parts)}}}" if parts else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
