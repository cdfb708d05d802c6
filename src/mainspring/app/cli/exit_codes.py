"""The exit codes, which are the same for every output format. Documented in docs/output.md."""

from __future__ import annotations

import errno

from mainspring.app.cli.startup_interrupt import INTERRUPTED as INTERRUPTED, PIPE_CLOSED as PIPE_CLOSED
from mainspring.app.run.events import RunOutcome
from mainspring.errors import (
    AgentAbortedError,
    AgentProviderError,
    ConfigError,
    ModelError,
    PermissionDeniedError,
    ProviderConfigError,
    SessionError,
)

OK = 0
ERROR = 1
USAGE = 2
_LIMIT = 3
DENIED = 4
_PROVIDER = 5

_SIGNALLED = 128

_AGENT_ERROR_REASONS = frozenset({"output_limit", "bad_tool_calls", "empty"})
"""Error reasons of unusable responses: they are errors of the model, not of its provider."""


def exit_code_for(outcome: RunOutcome, signal: int = 0) -> int:
    """Return the exit code of a run.

    Args:
        outcome: Outcome of the run.
        signal: Number of the signal that stopped the run, or 0.
    """
    if outcome.status == "completed":
        return _LIMIT if outcome.stop_reason == "max_tokens" else OK
    if outcome.status.startswith("max_"):
        return _LIMIT
    if outcome.status == "denied":
        return DENIED
    if outcome.status == "aborted":
        return _SIGNALLED + signal if signal else INTERRUPTED
    return exit_code_for_error(outcome.error) if outcome.error else ERROR


def exit_code_for_error(error: BaseException) -> int:
    """Return the exit code of an error."""
    match error:
        case ConfigError() | ProviderConfigError() | SessionError():
            return USAGE
        case OSError() if error.errno == errno.ENAMETOOLONG:
            return USAGE  # A path of the command line that cannot exist.
        case PermissionDeniedError():
            return DENIED
        case KeyboardInterrupt() | AgentAbortedError():
            return INTERRUPTED
        case AgentProviderError():
            return exit_code_for_error(error.cause) if isinstance(error.cause, ModelError) else ERROR
        case ModelError():
            return ERROR if error.reason in _AGENT_ERROR_REASONS else _PROVIDER
        case _:
            return ERROR
