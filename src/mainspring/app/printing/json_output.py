"""Print a run as JSON: one object at the end, or one line per event."""

from __future__ import annotations

from mainspring.app.cli import json_schema
from mainspring.app.cli.console import Console
from mainspring.app.cli.errors import describe_error, format_traceback
from mainspring.app.cli.exit_codes import exit_code_for
from mainspring.app.printing.text_output import print_note
from mainspring.app.run.events import ModelIdentity, Progress, RunOutcome
from mainspring.errors import AgentProviderError, ModelError
from mainspring.events import AgentEnd, Event, SubagentEvent, UsageUpdate, encode
from mainspring.events.views import redact_errors, without_blocks
from mainspring.messages import Usage
from mainspring.redaction import redact_environment


class JsonRenderer:
    """Print one object on stdout at the end, and nothing else except earlier errors."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def on_model(self, model: ModelIdentity, resumed: int) -> None:
        """Print nothing: the result contains the model."""

    def on_event(self, event: Event) -> None:
        """Print notes to stderr, so that a long wait is explained."""
        print_note(self._console, event)

    def finish(self, outcome: RunOutcome, signal: int = 0) -> int:
        """Print the object."""
        code = exit_code_for(outcome, signal)
        self._console.data(encode(to_result_line(outcome, code)).decode())
        if outcome.error is not None:
            self._console.verbose_info(format_traceback(outcome.error))
        return code


class StreamJsonRenderer(JsonRenderer):
    """Print one object per event and flush it; the last is the result."""

    def on_event(self, event: Event) -> None:
        """Print the line of an event, if it has one."""
        line = to_json_line(event)
        if line is not None:
            self._console.data(encode(line).decode())
        elif isinstance(event, Progress):
            print_note(self._console, event)


def to_json_line(event: Event) -> Event | None:
    """Return the event of a ``stream-json`` line, or None if the event has no line.

    The result replaces the end of the run, and `SubagentEnd` that of a subagent; token counts are in each response and in these.
    """
    inner = event.event if isinstance(event, SubagentEvent) else event
    if isinstance(inner, Progress | AgentEnd | UsageUpdate):
        return None
    line = without_blocks(event)
    return line and redact_errors(line, redact_environment)


def to_result_line(outcome: RunOutcome, code: int) -> json_schema.ResultLine:
    """Convert the outcome of a run to a line."""
    usage = outcome.usage
    return json_schema.ResultLine(
        version=json_schema.SCHEMA_VERSION,
        status=outcome.status,
        exit_code=code,
        text=outcome.text,
        model=to_model(outcome.model) if outcome.model else None,
        session_id=outcome.session_id,
        turns=outcome.turns,
        usage=to_tokens(usage),
        cost=round(usage.cost.total, 6) if usage.cost and (outcome.turns or usage.total_tokens) else None,
        unpriced_calls=usage.count_unpriced(),
        estimated_calls=usage.estimated_calls,
        seconds=round(outcome.seconds, 3),
        stop_reason=outcome.stop_reason,
        denied=outcome.denied,
        error=to_failure(outcome.error) if outcome.error else None,
        output=outcome.output,
        output_error=outcome.output_error,
    )


def to_tokens(usage: Usage) -> json_schema.Tokens:
    """Convert token counts."""
    return json_schema.Tokens(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        reasoning_tokens=usage.reasoning_tokens,
        total_tokens=usage.total_tokens,
    )


def to_model(model: ModelIdentity) -> json_schema.Model:
    """Convert a model."""
    return json_schema.Model(
        provider=model.provider, id=model.id, spec=model.spec, label=model.label, notice=model.notice
    )


def to_failure(error: BaseException) -> json_schema.Failure:
    """Convert an error."""
    cause = error.cause if isinstance(error, AgentProviderError) and isinstance(error.cause, ModelError) else error
    known = cause if isinstance(cause, ModelError) else None
    return json_schema.Failure(
        type=type(cause).__name__,
        message=describe_error(error),
        code=str(known.code) if known else None,
        reason=known.reason if known else "",
        retryable=known.retryable if known else False,
        retry_after=known.retry_after if known else None,
        status=known.status if known else None,
    )
