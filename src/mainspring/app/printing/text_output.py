"""What a run looks like: as text, as one JSON object, as JSON lines. Each is told everything and shows its part."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.errors import describe_error, format_traceback
from mainspring.app.cli.exit_codes import exit_code_for
from mainspring.app.printing.output_schema import OUTPUT_TOOL
from mainspring.app.run.events import ModelIdentity, Notice, Progress, RunEvent, RunOutcome, RunStarting
from mainspring.events import MessageEnd, ModelRetry, TextDelta, ToolExecutionEnd, ToolExecutionStart, TurnStart
from mainspring.messages import Message, ToolUseBlock
from mainspring.redaction import redact_environment
from mainspring.text import pluralize

_KEY_ARGUMENTS = ("path", "file_path", "pattern", "command", "query", "url", "name")


class RunPrinter(Protocol):
    """Shows a run."""

    def on_event(self, report: RunEvent) -> None:
        """Show one thing that happened."""
        ...

    def finish(self, outcome: RunOutcome, signal: int = 0) -> int:
        """Show how it ended; the exit code. Called once, last."""
        ...


def create_printer(form: str, console: Console) -> RunPrinter:
    """The renderer of an ``--output`` form."""
    match form:
        case "json":
            return import_module("mainspring.app.printing.json_output").JsonRenderer(console)
        case "stream-json":
            return import_module("mainspring.app.printing.json_output").StreamJsonRenderer(console)
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

    def on_event(self, report: RunEvent) -> None:
        """Show one thing that happened."""
        console = self._console
        match report:
            case TextDelta(text=text):
                if console.is_stdout_terminal:
                    self._shown += len(text)
                    console.answer(text)
            case TurnStart():
                self._shown = 0
            case ToolExecutionStart(call=call) if call.name == OUTPUT_TOOL:
                console.verbose_info("the answer is being checked against the schema")
            case ToolExecutionStart(call=call):
                console.info(f"> {call.name} {summarize_call(call)}".rstrip())
            case ToolExecutionEnd():
                self._tool_end(report)
            case ModelRetry(attempt=attempt, max_retries=limit, delay=delay, error=error):
                console.info(
                    f"trying again in {delay:.0f} s ({attempt} of {limit}): {one_line(redact_environment(str(error)))}"
                )
            case RunStarting(model=model, resumed=resumed):
                console.info(_format_header(model, resumed))
                if model.notice:
                    console.info(model.notice)
            case Notice(text=text):
                console.info(f"note: {text}")
            case Progress(text=text, fraction=share, last=last):
                console.progress(text, share, last=last)
            case _:
                self._print_verbose(report)

    def _tool_end(self, end: ToolExecutionEnd) -> None:
        text = end.result.text
        if end.call.name == OUTPUT_TOOL:
            if end.result.is_error:
                self._console.info("the answer does not fit the schema yet; the model is told why")
        elif end.result.is_error:
            self._console.info(f"  failed: {one_line(redact_environment(text), 1000)}")
        else:
            self._console.verbose_info(f"  {one_line(end.title or text)} ({end.seconds:.1f} s)")

    def _print_verbose(self, report: RunEvent) -> None:
        message = report.message if isinstance(report, MessageEnd) else None
        if not isinstance(message, Message) or message.role != "assistant":
            return
        if message.thinking:
            self._console.verbose_info(f"thinking: {one_line(message.thinking, 2000)}")
        if message.tool_uses and message.text.strip() and not self._console.is_stdout_terminal:
            self._console.info(one_line(message.text, 2000))

    def finish(self, outcome: RunOutcome, signal: int = 0) -> int:
        """Write the answer, where it is not there yet, and say what was wrong."""
        console = self._console
        code = exit_code_for(outcome, signal)
        console.answer(
            outcome.text[self._shown :] if console.is_stdout_terminal and outcome.output is None else outcome.text
        )
        console.end_answer()
        match outcome.status:
            case "error" if outcome.error:
                console.fail(f"error: {describe_error(outcome.error)}")
                console.verbose_info(format_traceback(outcome.error))
            case "aborted":
                console.fail("interrupted" + (", go on with --continue" if outcome.session_id else ""))
            case "completed" if outcome.output_error:
                console.fail(f"error: the answer does not fit the schema: {one_line(outcome.output_error, 1000)}")
            case "completed" if outcome.stop_reason == "max_tokens":
                console.fail("the answer was cut off at its output limit; --max-output-tokens raises it")
            case "denied":
                console.fail(f"stopped: {one_line(outcome.denied[-1] if outcome.denied else 'a call was denied', 500)}")
            case "max_turns" | "max_tokens" | "max_seconds" | "max_cost":
                console.fail(_limit(outcome))
            case _:
                pass
        if outcome.turns:
            console.verbose_info(_format_usage(outcome))
        return code


def summarize_call(call: ToolUseBlock) -> str:
    """The arguments of a call, in a few words."""
    for name in _KEY_ARGUMENTS:
        value = call.input.get(name)
        if isinstance(value, str) and value:
            return one_line(value)
    shown = call.raw_input if call.raw_input is not None else ", ".join(f"{k}={v!r}" for k, v in call.input.items())
    return one_line(shown)


def _format_header(model: ModelIdentity, resumed: int) -> str:
    parts = [model.spec, model.label if model.label != model.id else "", model.why]
    going_on = f"going on after {pluralize(resumed, 'message')}" if resumed else ""
    return "model: " + "; ".join(part for part in (*parts, going_on) if part)


def _limit(outcome: RunOutcome) -> str:
    flag = {"max_tokens": "max-tokens"}.get(outcome.status, outcome.status.replace("_", "-"))
    more = ", then go on with --continue" if outcome.session_id else ""
    return f"stopped: the limit --{flag} was reached after {pluralize(outcome.turns, 'model call')}; raise it{more}"


def _format_usage(outcome: RunOutcome) -> str:
    usage = outcome.usage
    cost = f", ${usage.cost.total:.4f}" if usage.cost else ""
    return (
        f"{pluralize(outcome.turns, 'model call')}, {usage.prompt_tokens} tokens in, {usage.output_tokens} out{cost}, "
        f"{outcome.seconds:.1f} s"
    )
