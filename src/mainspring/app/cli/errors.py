"""Failures in plain words: what happened, and what to do. No secrets, no stack traces (those come with ``-v``).

A wrong command line: what is wrong and how it is meant, in the form of output that was asked for.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.exit_codes import USAGE
from mainspring.app.cli.json_schema import VERSION, Failure, ResultLine, encode
from mainspring.errors import AgentProviderError, ErrorCode, MainspringError, ModelError
from mainspring.redaction import redact_environment
from mainspring.text import escape_invisible

_ADVICE = {
    ErrorCode.AUTHENTICATION_ERROR: "check the key (`mainspring check` says which one is used)",
    ErrorCode.RATE_LIMITED: "wait a little and go on with --continue, or use another model",
    ErrorCode.MODEL_NOT_FOUND: "see `mainspring models`, and name one with --model",
    ErrorCode.NETWORK_ERROR: (
        "check the connection and the address (`mainspring check`), then try again; a conversation goes on with --continue"
    ),
    ErrorCode.TIMEOUT: "go on with --continue, or use a faster model",
    ErrorCode.CONTEXT_LENGTH_EXCEEDED: "begin a new conversation (without --continue), or ask for less at once",
}


def describe_error(error: BaseException) -> str:
    """What happened, and what to do about it."""
    cause = error.cause if isinstance(error, AgentProviderError) and error.cause else error
    if isinstance(error, MainspringError):
        text = str(error) or type(error).__name__
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, KeyboardInterrupt):
        text = "interrupted"
    else:
        text = f"something went wrong inside mainspring ({type(error).__name__}: {error}); -v shows where"
    advice = _ADVICE.get(cause.code) if isinstance(cause, ModelError) else None
    if isinstance(cause, ModelError) and cause.status == 404 and advice is None:
        advice = "nothing is at this address: check the base URL of the provider"
    if isinstance(cause, ModelError) and cause.retry_after:
        advice = f"the server asks to wait {_format_duration(cause.retry_after)}; then go on with --continue, or use another model"
    if advice and not _has_advice(text):
        text = f"{text.rstrip().removesuffix('.')}; {advice}"
    return redact_environment(text)


def format_traceback(error: BaseException) -> str:
    """The stack trace, for ``-v``."""
    return redact_environment("".join(traceback.format_exception(error)))


def _format_duration(seconds: float) -> str:
    """A time for people."""
    for name, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"


def _has_advice(text: str) -> bool:
    return any(word in text for word in ("--", "`mainspring", "try ", "Try ", "check ", "Check "))


def report_usage_error(error: UsageError, given: Sequence[str]) -> int:
    """Say it; the exit code."""
    text = redact_environment(str(error))
    if error.usage:
        print(escape_invisible(error.usage.rstrip(), prose=True), file=sys.stderr)
    print(escape_invisible(f"mainspring: error: {text}", prose=True), file=sys.stderr)
    words = {word for text in given for word in text.split("=")}
    if "--output" in words and words & {"json", "stream-json"}:
        failure = Failure(type="UsageError", message=text)
        print(encode(ResultLine(version=VERSION, status="error", exit_code=USAGE, error=failure)), flush=True)
    return USAGE
