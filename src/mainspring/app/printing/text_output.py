"""Print a run as text, as one JSON object, or as JSON lines."""

from __future__ import annotations

from mainspring.app.cli.console import Console, one_line
from mainspring.app.cli.errors import describe_error, format_traceback
from mainspring.app.cli.exit_codes import exit_code_for
from mainspring.app.printing.output_schema import OUTPUT_TOOL
from mainspring.app.run.events import ModelIdentity, Progress, RunOutcome, format_budget_warning, format_spent
from mainspring.events import (
    Event,
    LimitWarning,
    MessageEnd,
    ModelCallRetry,
    Notice,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolsChange,
    TurnStart,
)
from mainspring.messages import Message, ToolUseBlock
from mainspring.redaction import redact_environment
from mainspring.text import pluralize

_KEY_ARGUMENTS = ("path", "file_path", "pattern", "command", "query", "url", "name")


def print_note(console: Console, event: Event) -> None:
    """Print a notice, the warning of a limit, or the progress of a download to stderr; no other event."""
    match event:
        case LimitWarning(exceeded=False):
            console.info(f"Note: {format_budget_warning(event)}")
        case Notice(text=text):
            console.info(f"Note: {text}")
        case Progress(text=text, fraction=share, last=last):
            console.progress(text, share, last=last)
        case _:
            pass


class TextRenderer:
    """Print the response on stdout, and everything else in short lines on stderr.

    On a terminal, text is streamed. Otherwise, only the final response is printed, once it is known: text before a tool call is
    not the response.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = 0

    def on_model(self, model: ModelIdentity, resumed: int) -> None:
        """Print the model, and why it was chosen."""
        self._console.info(_format_header(model, resumed))
        if model.notice:
            self._console.info(f"Note: {model.notice}")

    def on_event(self, event: Event) -> None:
        """Print an event."""
        console = self._console
        match event:
            case TextDelta(text=text):
                if console.is_stdout_terminal:
                    self._shown += len(text)
                    console.answer(text)
            case TurnStart():
                self._shown = 0
            case ToolExecutionStart(call=call) if call.name == OUTPUT_TOOL:
                console.verbose_info("Checking the response against the schema")
            case ToolExecutionStart(call=call):
                console.info(f"> {call.name} {summarize_call(call)}".rstrip())
            case ToolExecutionEnd():
                self._tool_end(event)
            case ModelCallRetry(attempt=attempt, max_retries=limit, delay=delay, error=error):
                console.info(
                    f"{event.action} in {delay:.0f}s (attempt {attempt} of {limit}): {one_line(redact_environment(error.message))}"
                )
            case ToolsChange(added=added, removed=removed):
                names = [f"+{name}" for name in added] + [f"-{name}" for name in removed]
                console.verbose_info(f"Tools: {' '.join(names)}")
            case LimitWarning() | Notice() | Progress():
                print_note(console, event)
            case _:
                self._print_verbose(event)

    def _tool_end(self, end: ToolExecutionEnd) -> None:
        text = end.result.text
        if end.call.name == OUTPUT_TOOL:
            if end.result.is_error:
                self._console.info("The response does not match the schema. Asking the model to fix it")
        elif end.result.is_error:
            self._console.info(f"  failed: {one_line(redact_environment(text), 1000)}")
        else:
            self._console.verbose_info(f"  {one_line(end.title or text)} ({end.seconds:.1f} s)")

    def _print_verbose(self, event: Event) -> None:
        message = event.message if isinstance(event, MessageEnd) else None
        if not isinstance(message, Message) or message.role != "assistant":
            return
        if message.thinking:
            self._console.verbose_info(f"Thinking: {one_line(message.thinking, 2000)}")
        if message.tool_uses and message.text.strip() and not self._console.is_stdout_terminal:
            self._console.info(one_line(message.text, 2000))

    def finish(self, outcome: RunOutcome, signal: int = 0) -> int:
        """Print the rest of the response, and the error if the run failed."""
        console = self._console
        code = exit_code_for(outcome, signal)
        console.answer(
            outcome.text[self._shown :] if console.is_stdout_terminal and outcome.output is None else outcome.text
        )
        console.end_answer()
        match outcome.status:
            case "error" | "no_output" if outcome.error:
                console.fail(f"Error: {describe_error(outcome.error)}")
                console.verbose_info(format_traceback(outcome.error))
            case "aborted":
                console.fail("Interrupted." + (" Resume with --continue." if outcome.session_id else ""))
            case "completed" if outcome.stop_reason == "max_tokens":
                console.fail(_CUT_OFF if outcome.text.strip() else _CUT_OFF_IN_REASONING)
            case "denied":
                console.fail(f"Stopped: {one_line(outcome.denied[-1] if outcome.denied else 'a call was denied', 500)}")
            case "max_turns" | "max_total_tokens" | "max_seconds" | "max_cost":
                console.fail(_limit(outcome))
            case _:
                pass
        if outcome.turns or outcome.usage.total_tokens:
            console.verbose_info(_format_usage(outcome))
        return code


_CUT_OFF = "The response was cut off at its output limit. Raise it with --max-output-tokens."
_CUT_OFF_IN_REASONING = (
    "The response was cut off at its output limit before its first word: reasoning used all of it. Raise the limit with "
    "--max-output-tokens, or lower --thinking."
)


def summarize_call(call: ToolUseBlock) -> str:
    """Summarize the arguments of a call."""
    for name in _KEY_ARGUMENTS:
        value = call.input.get(name)
        if isinstance(value, str) and value:
            return one_line(value)
    shown = call.raw_input if call.raw_input is not None else ", ".join(f"{k}={v!r}" for k, v in call.input.items())
    return one_line(shown)


def _format_header(model: ModelIdentity, resumed: int) -> str:
    parts = [model.spec, model.label if model.label != model.id else "", model.why]
    going_on = f"resuming after {pluralize(resumed, 'message')}" if resumed else ""
    return "model: " + "; ".join(part for part in (*parts, going_on) if part)


def _limit(outcome: RunOutcome) -> str:
    flag = outcome.status.replace("_", "-")
    more = ", then resume with --continue" if outcome.session_id else ""
    return f"Stopped: the --{flag} limit was reached after {pluralize(outcome.turns, 'model call')}. Raise it{more}."


def _format_usage(outcome: RunOutcome) -> str:
    usage = outcome.usage
    cost = f", {spent}" if (spent := format_spent(usage)) else ""
    return (
        f"{pluralize(outcome.turns, 'model call')}, {usage.prompt_tokens} input tokens, {usage.output_tokens} output tokens{cost}, "
        f"{outcome.seconds:.1f}s"
    )
