"""What the page shows, whatever it comes from."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct

Kind = Literal["agent", "model", "tool", "mcp", "other"]
Source = Literal["otlp", "session"]


class ViewEvent(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Something that happened within a span, at ``time`` (milliseconds since 1970)."""

    name: str
    time: float
    attributes: dict[str, Any] = {}


class ViewSpan(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """One operation.

    Attributes:
        id: Its id.
        parent: The operation in which it happened.
        name: What people read.
        kind: What it is.
        start: When it began, in milliseconds since 1970.
        end: When it ended; ``None`` where it has not.
        error: What went wrong.
        model: Who was asked.
        input_tokens: Tokens of the prompt, cached ones included.
        output_tokens: Tokens of the answer.
        cached_tokens: Those of the prompt that came from a cache.
        cost: US dollars; ``None`` where it is not known.
        call: Id of the tool call.
        input: Arguments of a call, or messages.
        output: The result, or messages.
        events: What happened within it.
        attributes: Everything else that is known.
    """

    id: str
    parent: str = ""
    name: str = ""
    kind: Kind = "other"
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
        id: Its id on the page.
        run: Id of the run, as sessions and spans have it.
        source: Where it is known from.
        title: What people know it by.
        place: Its folder, or the service that sent it.
        session: Id of the session.
        start: When it began, in milliseconds since 1970.
        end: When it ended; ``None`` where it has not.
        status: How it ended; ``running`` while it goes on.
        model: Who was asked.
        input_tokens: Tokens of all prompts.
        output_tokens: Tokens of all answers.
        cost: US dollars, as far as prices are known.
        unpriced: How many model calls have no known price.
        models: How many model calls there were.
        tools: How many tool calls there were.
        errors: How many operations failed.
        dropped: Operations that are not shown, since there were too many.
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
    """A run with all that is known of it; ``messages`` are those of the conversation, where they are stored."""

    summary: Summary
    spans: list[ViewSpan]
    messages: list[dict[str, Any]] = []


class RunSource(Protocol):
    """Where runs are known from, beside what is received. Asked in a thread; may block."""

    def runs(self) -> list[Summary]:
        """All runs, in any order."""
        ...

    def run(self, id: str) -> RunDetail | None:
        """One of them."""
        ...


def add_totals(summary: Summary, spans: list[ViewSpan]) -> Summary:
    """The summary with the figures of the spans."""
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
