"""Metrics in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters of the service. They contain nothing about single tenants."""

    def __init__(self) -> None:
        self._requests: Counter[_Labels] = Counter()
        self._seconds: dict[_Labels, float] = {}
        self._counts: Counter[str] = Counter()

    def request(self, operation: str, status: int, seconds: float) -> None:
        """Count a finished request; a stream counts when it ends."""
        self._requests[("operation", operation), ("status", str(status))] += 1
        labels = (("operation", operation),)
        self._seconds[labels] = self._seconds.get(labels, 0.0) + seconds

    def add(self, name: str, count: int = 1) -> None:
        """Add to any other counter."""
        self._counts[name] += count

    def text(self, gauges: Mapping[str, Mapping[_Labels, float]]) -> str:
        """Return all metrics, including the current values."""
        lines: list[str] = []
        _write_family(lines, "mainspring_http_requests_total", "counter", "Finished requests.", self._requests)
        _write_family(
            lines, "mainspring_http_request_seconds_total", "counter", "Duration of requests in seconds.", self._seconds
        )
        for name, text in _COUNTERS.items():
            _write_family(lines, f"mainspring_{name}_total", "counter", text, {(): self._counts[name]})
        for name, values in gauges.items():
            _write_family(lines, f"mainspring_{name}", "gauge", _GAUGES[name], values)
        return "\n".join(lines) + "\n"


_COUNTERS = {
    "runs_started": "Runs started or forked in this process.",
    "events_sent": "Events sent to followers.",
    "followers_cut": "Followers disconnected because they did not read.",
    "refused_tokens": "Requests without a token, or with a wrong token.",
    "refused_origins": "Requests with a host or an origin that is not allowed.",
    "limited": "Requests over a limit.",
}
_GAUGES = {
    "followers": "Current followers of events.",
    "runs": "Active runs, by state.",
    "closing": "Whether the service is shutting down.",
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
