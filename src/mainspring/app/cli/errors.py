"""Format errors for users: the cause and the fix, without secrets. Stack traces require ``-v``.

Usage errors are printed in the requested output format.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mainspring.app.cli.arguments import UsageError
from mainspring.app.cli.console import write_error, write_output
from mainspring.app.cli.exit_codes import USAGE
from mainspring.app.cli.json_schema import SCHEMA_VERSION, Failure, ResultLine
from mainspring.errors import (
    AgentOutputError,
    AgentProviderError,
    MainspringError,
    ModelError,
    describe_failure,
    format_exception,
)
from mainspring.events import encode
from mainspring.lazy import lazy_function
from mainspring.redaction import redact_environment
from mainspring.text import escape_invisible, truncate_to_fit

if TYPE_CHECKING:
    from mainspring.app.run.error_advice import advise
else:
    advise = lazy_function("mainspring.app.run.error_advice", "advise")


_MAX_NAME = 200
"""Maximum number of characters of a path in an error."""


def describe_error(error: BaseException) -> str:
    """Format an error: the cause and the fix."""
    cause = error.cause if isinstance(error, AgentProviderError) and error.cause else error
    if isinstance(error, MainspringError):
        text = describe_failure(error) or type(error).__name__
    elif isinstance(error, OSError) and error.strerror:
        name = truncate_to_fit(str(error.filename or ""), _MAX_NAME, "...")
        text = f"{name}: {error.strerror}" if name else error.strerror
    elif isinstance(error, KeyboardInterrupt):
        text = "Interrupted."
    else:
        text = f"Internal error ({format_exception(error)}). Run again with -v for the stack trace."
    if isinstance(error, AgentOutputError) and error.reason:
        text = (
            f"{text} Simplify the schema, raise --max-output-tokens if the response was cut off, or use another model."
        )
    if isinstance(cause, ModelError):
        advice = advise(text, cause.code.value, status=cause.status, retry_after=cause.retry_after)
        text = f"{text.rstrip().removesuffix('.')}. {advice}" if advice else text
    return redact_environment(text)


def format_traceback(error: BaseException) -> str:
    """Format the stack trace, for ``-v``."""
    return redact_environment("".join(traceback.format_exception(error)))


def report_usage_error(error: UsageError, given: Sequence[str]) -> int:
    """Print a usage error, and return the exit code."""
    text = redact_environment(str(error))
    if error.usage:
        write_error(escape_invisible(error.usage.rstrip(), prose=True))
    write_error(escape_invisible(f"Error: {text}", prose=True))
    words = {word for text in given for word in text.split("=")}
    if "--output" in words and words & {"json", "stream-json"}:
        failure = Failure(type="UsageError", message=text)
        line = ResultLine(version=SCHEMA_VERSION, status="error", exit_code=USAGE, error=failure)
        write_output(encode(line).decode() + "\n")
    return USAGE
