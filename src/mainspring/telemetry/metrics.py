"""The metrics of the conventions, and our own beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.messages import Usage
from mainspring.telemetry import conventions as c
from mainspring.telemetry.attributes import Attributes

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter

_METRIC_KEYS = (c.OPERATION, c.PROVIDER, c.REQUEST_MODEL, c.RESPONSE_MODEL, c.SERVER_ADDRESS, c.SERVER_PORT)


class Instruments:
    """What is counted and measured."""

    def __init__(self, meter: Meter) -> None:
        def histogram(named: tuple[str, str, str], buckets: tuple[float, ...]) -> Histogram:
            name, unit, description = named
            return meter.create_histogram(
                name, unit=unit, description=description, explicit_bucket_boundaries_advisory=list(buckets)
            )

        self._tokens = histogram(c.TOKEN_USAGE, c.TOKEN_BUCKETS)
        self._duration = histogram(c.DURATION, c.SECONDS_BUCKETS)
        self._first = histogram(c.FIRST_CHUNK, c.CHUNK_BUCKETS)
        self._per_chunk = histogram(c.PER_CHUNK, c.CHUNK_BUCKETS)
        self._mcp = histogram(c.MCP_DURATION, c.SECONDS_BUCKETS)
        self._tool = histogram(c.TOOL_DURATION, c.SECONDS_BUCKETS)
        name, unit, description = c.COST_TOTAL
        self._cost = meter.create_counter(name, unit=unit, description=description)

    def usage(self, usage: Usage, attributes: Attributes) -> None:
        """Tokens and money of a model call."""
        of_call = _kept(attributes)
        if usage.total_tokens:
            self._tokens.record(usage.prompt_tokens, {**of_call, c.TOKEN_TYPE: "input"})
            self._tokens.record(usage.output_tokens, {**of_call, c.TOKEN_TYPE: "output"})
        if usage.cost is not None and usage.cost.total > 0:
            self._cost.add(usage.cost.total, of_call)

    def duration(self, seconds: float, attributes: Attributes, error: str = "") -> None:
        """How long a model call, or a whole run, took."""
        self._duration.record(seconds, _with_error(_kept(attributes), error))

    def chunks(self, first: float, between: float | None, attributes: Attributes) -> None:
        """How long the first piece of an answer was waited for, and the others on average."""
        of_call = _kept(attributes)
        self._first.record(first, of_call)
        if between is not None:
            self._per_chunk.record(between, of_call)

    def tool(self, name: str, seconds: float, error: str = "", server: str = "") -> None:
        """How long a tool itself took."""
        self._tool.record(seconds, _with_error({c.TOOL_NAME: name}, error))
        if server:
            of_call: Attributes = {c.MCP_METHOD: "tools/call", c.TOOL_NAME: name, c.OPERATION: c.EXECUTE_TOOL}
            self._mcp.record(seconds, _with_error({**of_call, c.MCP_SERVER: server}, error))

    def connected(self, server: str, seconds: float, error: str = "") -> None:
        """How long connecting to an MCP server took."""
        self._mcp.record(seconds, _with_error({c.MCP_METHOD: "initialize", c.MCP_SERVER: server}, error))


def _kept(attributes: Attributes) -> Attributes:
    """What of the attributes of a span stands at a metric: nothing of which there are many values."""
    return {key: attributes[key] for key in _METRIC_KEYS if key in attributes}


def _with_error(attributes: Attributes, error: str) -> Attributes:
    if error:
        attributes[c.ERROR_TYPE] = error
    return attributes
