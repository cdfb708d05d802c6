"""What a run looks like: as text, as one JSON object, as JSON lines. Each is told everything and shows its part."""

from __future__ import annotations

from typing import Protocol

from mainspring.app.cli import wire
from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.exit_codes import code_of
from mainspring.app.cli.failures import in_full, in_words
from mainspring.errors import AgentProviderError, ModelError
from mainspring.events import (
    MessageEnd,
    ModelRetry,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.messages import Message, ToolUseBlock, Usage
from mainspring.runtime.outcome import ModelName, Notice, Outcome, Progress, Report, Started
from mainspring.runtime.redaction import redact

_TELLING = ("path", "file_path", "pattern", "command", "query", "url", "name")


class Renderer(Protocol):
    """Shows a run."""

    def report(self, report: Report) -> None:
        """Show one thing that happened."""
        ...

    def finish(self, outcome: Outcome, signal: int = 0) -> int:
        """Show how it ended; the exit code. Called once, last."""
        ...


def renderer(form: str, console: Console) -> Renderer:
    """The renderer of an ``--output`` form."""
    match form:
        case "json":
            return JsonRenderer(console)
        case "stream-json":
            return StreamJsonRenderer(console)
        case _:
            return TextRenderer(console)


class TextRenderer:
    """The answer on stdout, the rest in short lines on stderr.

    On a terminal text appears as it comes. Elsewhere only the answer is written, once it is known to be the answer: what a
    model says before it calls a tool is none.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = 0

    def report(self, report: Report) -> None:
        """Show one thing that happened."""
        console = self._console
        match report:
            case TextDelta(text=text):
                if console.live:
                    self._shown += len(text)
                    console.answer(text)
            case TurnStart():
                self._shown = 0
            case ToolExecutionStart(call=call):
                console.say(f"> {call.name} {told(call)}".rstrip())
            case ToolExecutionEnd():
                self._tool_end(report)
            case ModelRetry(attempt=attempt, max_retries=most, delay=delay, error=error):
                console.say(f"trying again in {delay:.0f} s ({attempt} of {most}): {one_line(redact(str(error)))}")
            case Started(model=model, resumed=resumed):
                console.say(_header(model, resumed))
                if model.notice:
                    console.say(model.notice)
            case Notice(text=text):
                console.say(f"note: {text}")
            case Progress(text=text, last=last):
                console.progress(text, last=last)
            case _:
                self._details(report)

    def _tool_end(self, end: ToolExecutionEnd) -> None:
        text = end.result.text
        if end.result.is_error:
            self._console.say(f"  failed: {one_line(redact(text))}")
        else:
            self._console.detail(f"  {one_line(end.title or text)} ({end.seconds:.1f} s)")

    def _details(self, report: Report) -> None:
        message = report.message if isinstance(report, MessageEnd) else None
        if not isinstance(message, Message) or message.role != "assistant":
            return
        if message.thinking:
            self._console.detail(f"thinking: {one_line(message.thinking, 2000)}")
        if message.tool_uses and message.text.strip() and not self._console.live:
            self._console.say(one_line(message.text, 2000))

    def finish(self, outcome: Outcome, signal: int = 0) -> int:
        """Write the answer, where it is not there yet, and say what was wrong."""
        console = self._console
        code = code_of(outcome, signal)
        console.answer(outcome.text[self._shown :] if console.live else outcome.text)
        console.end_answer()
        match outcome.status:
            case "error" if outcome.error:
                console.fail(f"error: {in_words(outcome.error)}")
                console.detail(in_full(outcome.error))
            case "aborted":
                console.fail("interrupted" + (", go on with --continue" if outcome.session_id else ""))
            case "completed" if outcome.stop_reason == "max_tokens":
                console.fail("the answer was cut off at its output limit; --max-output-tokens raises it")
            case "denied":
                console.fail(f"stopped: {one_line(outcome.denied[-1] if outcome.denied else 'a call was denied', 500)}")
            case "max_turns" | "max_tokens" | "max_seconds" | "max_cost":
                console.fail(_limit(outcome))
            case _:
                pass
        if outcome.turns:
            console.detail(_figures(outcome))
        return code


class JsonRenderer:
    """One object on stdout, at the end; nothing else anywhere but what went wrong before."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def report(self, report: Report) -> None:
        """Progress of downloads goes to stderr, so that nobody waits in the dark."""
        if isinstance(report, Progress):
            self._console.progress(report.text, last=report.last)
        elif isinstance(report, Notice):
            self._console.say(f"note: {report.text}")

    def finish(self, outcome: Outcome, signal: int = 0) -> int:
        """Write the object."""
        code = code_of(outcome, signal)
        self._console.data(wire.encode(result_line(outcome, code)))
        if outcome.error is not None:
            self._console.detail(in_full(outcome.error))
        return code


class StreamJsonRenderer:
    """One object a line, each flushed; the last is the result."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._ended = False

    def report(self, report: Report) -> None:
        """Write the line of what happened, if it has one."""
        line = line_of(report)
        if line is not None:
            self._console.data(wire.encode(line))
        elif isinstance(report, Progress):
            self._console.progress(report.text, last=report.last)

    def finish(self, outcome: Outcome, signal: int = 0) -> int:
        """Write the last line."""
        code = code_of(outcome, signal)
        if not self._ended:
            self._ended = True
            self._console.data(wire.encode(result_line(outcome, code)))
            if outcome.error is not None:
                self._console.detail(in_full(outcome.error))
        return code


def line_of(report: Report) -> wire.Line | None:
    """The ``stream-json`` line of what happened; ``None`` where there is none."""
    match report:
        case TextDelta(text=text):
            return wire.TextLine(text=text)
        case ThinkingDelta(thinking=text):
            return wire.ThinkingLine(text=text)
        case TurnStart(turn=turn):
            return wire.TurnLine(turn=turn)
        case MessageEnd(message=Message(role="assistant") as message):
            return _message(message)
        case StreamError(message=message) if message.content:
            return _message(message)
        case ToolExecutionStart(call=call):
            return wire.ToolStartLine(id=call.id, name=call.name, input=call.input)
        case ToolExecutionUpdate():
            return wire.ToolUpdateLine(
                id=report.call_id, name=report.name, output=report.output, title=report.title, metadata=report.metadata
            )
        case ToolExecutionEnd(call=call, result=result):
            return wire.ToolEndLine(
                id=call.id,
                name=call.name,
                output=result.content,
                is_error=result.is_error,
                title=report.title,
                seconds=round(report.seconds, 3),
                details=result.details,
            )
        case ModelRetry():
            return wire.RetryLine(
                attempt=report.attempt, max_retries=report.max_retries, delay=report.delay, error=failure(report.error)
            )
        case Started():
            return wire.StartLine(
                version=wire.VERSION,
                model=model_of(report.model),
                session_id=report.session_id,
                resumed=report.resumed > 0,
                cwd=report.cwd,
                tools=report.tools,
            )
        case Notice(text=text):
            return wire.NoticeLine(text=text)
        case _:
            return None


def _message(message: Message) -> wire.MessageLine:
    return wire.MessageLine(
        text=message.text,
        thinking=message.thinking,
        tool_calls=tuple(
            wire.ToolCall(id=c.id, name=c.name, input=c.input, raw_input=c.raw_input) for c in message.tool_uses
        ),
        stop_reason=message.stop_reason,
        usage=tokens(message.usage) if message.usage else None,
    )


def result_line(outcome: Outcome, code: int) -> wire.ResultLine:
    """The line of how a run ended."""
    usage = outcome.usage
    return wire.ResultLine(
        version=wire.VERSION,
        status=outcome.status,
        exit_code=code,
        text=outcome.text,
        model=model_of(outcome.model) if outcome.model else None,
        session_id=outcome.session_id,
        turns=outcome.turns,
        usage=tokens(usage),
        cost=round(usage.cost.total, 6) if usage.cost and outcome.turns else None,
        seconds=round(outcome.seconds, 3),
        stop_reason=outcome.stop_reason,
        denied=outcome.denied,
        error=failure(outcome.error) if outcome.error else None,
    )


def tokens(usage: Usage) -> wire.Tokens:
    """Token counts as the lines have them."""
    return wire.Tokens(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        reasoning_tokens=usage.reasoning_tokens,
        total_tokens=usage.total_tokens,
    )


def model_of(model: ModelName) -> wire.Model:
    """A model as the lines have it."""
    return wire.Model(provider=model.provider, id=model.id, spec=model.spec, label=model.label, notice=model.notice)


def failure(error: BaseException) -> wire.Failure:
    """A failure as the lines have it."""
    cause = error.cause if isinstance(error, AgentProviderError) and isinstance(error.cause, ModelError) else error
    known = cause if isinstance(cause, ModelError) else None
    return wire.Failure(
        type=type(cause).__name__,
        message=in_words(error),
        code=str(known.code) if known else None,
        reason=known.reason if known else "",
        retryable=known.retryable if known else False,
        retry_after=known.retry_after if known else None,
        status=known.status if known else None,
    )


def told(call: ToolUseBlock) -> str:
    """The arguments of a call, in a few words."""
    for name in _TELLING:
        value = call.input.get(name)
        if isinstance(value, str) and value:
            return one_line(value)
    shown = call.raw_input if call.raw_input is not None else ", ".join(f"{k}={v!r}" for k, v in call.input.items())
    return one_line(shown)


def _header(model: ModelName, resumed: int) -> str:
    label = f" ({model.label})" if model.label and model.label != model.id else ""
    why = f", {model.why}" if model.why else ""
    return f"model: {model.spec}{label}{why}" + (f"; going on after {resumed} messages" if resumed else "")


def _limit(outcome: Outcome) -> str:
    flag = {"max_tokens": "max-tokens"}.get(outcome.status, outcome.status.replace("_", "-"))
    more = ", then go on with --continue" if outcome.session_id else ""
    return f"stopped: the limit --{flag} was reached after {outcome.turns} model calls; raise it{more}"


def _figures(outcome: Outcome) -> str:
    usage = outcome.usage
    cost = f", ${usage.cost.total:.4f}" if usage.cost else ""
    return (
        f"{outcome.turns} model calls, {usage.prompt_tokens} tokens in, {usage.output_tokens} out{cost}, "
        f"{outcome.seconds:.1f} s"
    )
