"""Format errors for users: the cause and the fix, without secrets. Stack traces require ``-v``.

Usage errors are printed in the requested output format.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.exit_codes import USAGE
from mainspring.app.cli.json_schema import SCHEMA_VERSION, Failure, ResultLine
from mainspring.errors import AgentProviderError, ErrorCode, MainspringError, ModelError
from mainspring.events import encode
from mainspring.redaction import redact_environment
from mainspring.text import escape_invisible

_ADVICE = {
    ErrorCode.AUTHENTICATION_ERROR: "Check the key: `mainspring check` shows which one is used.",
    ErrorCode.RATE_LIMITED: "Wait and resume with --continue, or use another model.",
    ErrorCode.MODEL_NOT_FOUND: "List models with `mainspring models`, and choose one with --model.",
    ErrorCode.NETWORK_ERROR: (
        "Check the connection and the URL with `mainspring check`. Resume the session with --continue."
    ),
    ErrorCode.TIMEOUT: "Resume with --continue, or use a faster model.",
    ErrorCode.CONTEXT_LENGTH_EXCEEDED: (
        "Start a new session (without --continue), send a shorter prompt, or use a model with a larger context window."
    ),
}


def describe_error(error: BaseException) -> str:
    """Format an error: the cause and the fix."""
    cause = error.cause if isinstance(error, AgentProviderError) and error.cause else error
    if isinstance(error, MainspringError):
        text = str(error) or type(error).__name__
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, KeyboardInterrupt):
        text = "Interrupted."
    else:
        text = f"Internal error ({type(error).__name__}: {error}). Run again with -v for the stack trace."
    advice = _ADVICE.get(cause.code) if isinstance(cause, ModelError) else None
    if isinstance(cause, ModelError) and cause.status == 404 and advice is None:
        advice = "Nothing was found at this URL: check the base URL of the provider."
    if isinstance(cause, ModelError) and cause.retry_after:
        advice = f"Retry after {_format_duration(cause.retry_after)}, as the server requests: resume with --continue, or use another model."
    if advice and not _has_advice(text):
        text = f"{text.rstrip().removesuffix('.')}. {advice}"
    return redact_environment(text)


def format_traceback(error: BaseException) -> str:
    """Format the stack trace, for ``-v``."""
    return redact_environment("".join(traceback.format_exception(error)))


def _format_duration(seconds: float) -> str:
    """Format a duration for users."""
    for name, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"


def _has_advice(text: str) -> bool:
    return any(word in text for word in ("--", "`mainspring", "try ", "Try ", "check ", "Check "))


def report_usage_error(error: UsageError, given: Sequence[str]) -> int:
    """Print a usage error, and return the exit code."""
    text = redact_environment(str(error))
    if error.usage:
        print(escape_invisible(error.usage.rstrip(), prose=True), file=sys.stderr)
    print(escape_invisible(f"Error: {text}", prose=True), file=sys.stderr)
    words = {word for text in given for word in text.split("=")}
    if "--output" in words and words & {"json", "stream-json"}:
        failure = Failure(type="UsageError", message=text)
        line = ResultLine(version=SCHEMA_VERSION, status="error", exit_code=USAGE, error=failure)
        print(encode(line).decode(), flush=True)
    return USAGE
