"""Data of the viewer's page, independent of its source."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct

SpanKind = Literal["agent", "model", "tool", "mcp", "other"]
Source = Literal["otlp", "session"]


class ViewEvent(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """An event of a span, at ``time`` (milliseconds since 1970)."""

    name: str
    time: float
    attributes: dict[str, Any] = {}


class ViewSpan(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """One operation.

    Attributes:
        id: ID of the span.
        parent: ID of the enclosing operation.
        name: Display name.
        kind: SpanKind of the operation.
        start: Start in milliseconds since 1970.
        end: End in milliseconds since 1970; ``None`` if it has not ended.
        error: Error message.
        model: Name of the model.
        input_tokens: Tokens of the prompt, including cached ones.
        output_tokens: Tokens of the response.
        cached_tokens: Tokens of the prompt that came from a cache.
        cost: US dollars; ``None`` if unknown.
        call: ID of the tool call.
        input: Arguments of a tool call, or messages.
        output: Result of a tool call, or messages.
        events: Events of the span.
        attributes: All other attributes.
    """

    id: str
    parent: str = ""
    name: str = ""
    kind: SpanKind = "other"
    start: float = 0.0
    end: float | None = None
    error: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    call: str = ""
    input: Any = None
    output: Any = None
    events: list[ViewEvent] = []
    attributes: dict[str, Any] = {}


class Summary(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A run in the list.

    Attributes:
        id: ID on the page.
        run: ID of the run in sessions and spans.
        source: Source of the data.
        title: Display title.
        place: Folder of the run, or the service that sent it.
        session: ID of the session.
        start: Start in milliseconds since 1970.
        end: End in milliseconds since 1970; ``None`` if it has not ended.
        status: Status at the end; ``running`` before.
        model: Name of the model.
        input_tokens: Tokens of all prompts.
        output_tokens: Tokens of all responses.
        cost: US dollars, for calls with a known price.
        unpriced: Number of model calls without a known price.
        models: Number of model calls.
        tools: Number of tool calls.
        errors: Number of failed operations.
        dropped: Number of operations that are not shown because there were too many.
    """

    id: str
    run: str = ""
    source: Source = "otlp"
    title: str = ""
    place: str = ""
    session: str = ""
    start: float = 0.0
    end: float | None = None
    status: str = "running"
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    models: int = 0
    tools: int = 0
    errors: int = 0
    dropped: int = 0


class RunDetail(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """A run with all of its data; ``messages`` is the conversation, if it is stored."""

    summary: Summary
    spans: list[ViewSpan]
    messages: list[dict[str, Any]] = []


class RunSource(Protocol):
    """Source of runs other than received spans. Called in a thread; may block."""

    def runs(self) -> list[Summary]:
        """Return all runs, in any order."""
        ...

    def run(self, id: str) -> RunDetail | None:
        """Return one run, or ``None``."""
        ...


def add_totals(summary: Summary, spans: list[ViewSpan]) -> Summary:
    """Return the summary with the totals of the spans."""
    for span in spans:
        summary.errors += bool(span.error)
        summary.tools += span.kind == "tool"
        if span.kind != "model":
            continue
        summary.models += 1
        summary.model = summary.model or span.model
        summary.input_tokens += span.input_tokens
        summary.output_tokens += span.output_tokens
        if span.cost is not None:
            summary.cost += span.cost
        elif span.input_tokens or span.output_tokens:
            summary.unpriced += 1
    return summary
