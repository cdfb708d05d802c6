"""Print a run as JSON: one object at the end, or one line per event."""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.app.cli import json_schema
from mainspring.app.cli.console import Console
from mainspring.app.cli.errors import describe_error, format_traceback
from mainspring.app.cli.exit_codes import exit_code_for
from mainspring.app.run.events import ModelIdentity, Notice, Progress, RunEvent, RunOutcome, RunStarting, ToolsReady
from mainspring.errors import AgentProviderError, ModelError
from mainspring.events import (
    MessageEnd,
    ModelRetry,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.messages import Message, Usage


class JsonRenderer:
    """Print one object on stdout at the end, and nothing else except earlier errors."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def on_event(self, report: RunEvent) -> None:
        """Print the progress of downloads to stderr, so that a long wait is explained."""
        if isinstance(report, Progress):
            self._console.progress(report.text, report.fraction, last=report.last)
        elif isinstance(report, Notice):
            self._console.info(f"Note: {report.text}")

    def finish(self, outcome: RunOutcome, signal: int = 0) -> int:
        """Print the object."""
        code = exit_code_for(outcome, signal)
        self._console.data(json_schema.encode(to_result_line(outcome, code)))
        if outcome.error is not None:
            self._console.verbose_info(format_traceback(outcome.error))
        return code


class StreamJsonRenderer:
    """Print one object per line and flush it; the last is the result. The first line waits until the tools are known."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started: RunStarting | None = None

    def on_event(self, report: RunEvent) -> None:
        """Print the line of an event, if it has one."""
        match report:
            case RunStarting():
                self._started = report
                return
            case ToolsReady(tools=tools) if self._started is not None:
                self._started = replace(self._started, tools=tools)
                self._start()
            case _:
                pass
        line = to_json_line(report)
        if line is not None:
            self._console.data(json_schema.encode(line))
        elif isinstance(report, Progress):
            self._console.progress(report.text, report.fraction, last=report.last)

    def finish(self, outcome: RunOutcome, signal: int = 0) -> int:
        """Print the last line."""
        self._start()
        code = exit_code_for(outcome, signal)
        self._console.data(json_schema.encode(to_result_line(outcome, code)))
        if outcome.error is not None:
            self._console.verbose_info(format_traceback(outcome.error))
        return code

    def _start(self) -> None:
        if self._started is not None:
            self._console.data(json_schema.encode(_start_line(self._started)))
            self._started = None


def to_json_line(report: RunEvent) -> json_schema.Line | None:
    """Convert an event to a ``stream-json`` line, or None if it has none."""
    return _model_line(report) or _tool_line(report) or _run_line(report)


def _model_line(report: RunEvent) -> json_schema.Line | None:
    match report:
        case TextDelta(text=text):
            return json_schema.TextLine(text=text)
        case ThinkingDelta(text=text):
            return json_schema.ThinkingLine(text=text)
        case TurnStart(turn=turn):
            return json_schema.TurnLine(turn=turn)
        case MessageEnd(message=Message(role="assistant") as message):
            return _to_message_line(message)
        case ModelRetry(attempt=attempt, max_retries=limit, delay=delay, exception=ModelError() as failure):
            return json_schema.RetryLine(attempt=attempt, max_retries=limit, delay=delay, error=to_failure(failure))
        case _:
            return None


def _tool_line(report: RunEvent) -> json_schema.Line | None:
    match report:
        case ToolExecutionStart(call=call):
            return json_schema.ToolStartLine(id=call.id, name=call.name, input=call.input)
        case ToolExecutionUpdate(call_id=id, name=name):
            return json_schema.ToolUpdateLine(
                id=id, name=name, output=report.output, title=report.title, metadata=report.metadata
            )
        case ToolExecutionEnd(call=call, result=result):
            return json_schema.ToolEndLine(
                id=call.id,
                name=call.name,
                output=result.content,
                is_error=result.is_error,
                title=report.title,
                seconds=round(report.seconds, 3),
                details=result.details,
            )
        case _:
            return None


def _run_line(report: RunEvent) -> json_schema.Line | None:
    return json_schema.NoticeLine(text=report.text) if isinstance(report, Notice) else None


def _start_line(event: RunStarting) -> json_schema.Line:
    return json_schema.StartLine(
        version=json_schema.SCHEMA_VERSION,
        model=to_model(event.model),
        session_id=event.session_id,
        resumed=event.resumed > 0,
        cwd=event.cwd,
        tools=event.tools,
    )


def _to_message_line(message: Message) -> json_schema.MessageLine:
    return json_schema.MessageLine(
        text=message.text,
        thinking=message.thinking,
        tool_calls=tuple(
            json_schema.ToolCall(id=c.id, name=c.name, input=c.input, raw_input=c.raw_input) for c in message.tool_uses
        ),
        stop_reason=message.stop_reason,
        usage=to_tokens(message.usage) if message.usage else None,
    )


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
        cost=round(usage.cost.total, 6) if usage.cost and outcome.turns else None,
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
