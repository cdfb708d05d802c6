"""The exit codes: one table for every form of output. Documented in docs/output.md."""

from __future__ import annotations

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
LIMIT = 3
DENIED = 4
PROVIDER = 5
INTERRUPTED = 130
PIPE_CLOSED = 141
"""Nobody read the answer any more: what a program gives that SIGPIPE (13) ended."""

_SIGNALLED = 128

_AGENT_ERROR_REASONS = frozenset({"output_limit", "bad_tool_calls", "empty"})
"""Reasons for which the model, not its provider, is to blame: it answered, but with nothing that can be used."""


def exit_code_for(outcome: RunOutcome, signal: int = 0) -> int:
    """The exit code of a run.

    Args:
        outcome: How it ended.
        signal: Number of the signal that stopped it, if one did.
    """
    if outcome.status == "completed" and outcome.output_error:
        return ERROR
    if outcome.status == "completed":
        return LIMIT if outcome.stop_reason == "max_tokens" else OK
    if outcome.status.startswith("max_"):
        return LIMIT
    if outcome.status == "denied":
        return DENIED
    if outcome.status == "aborted":
        return _SIGNALLED + signal if signal else INTERRUPTED
    return exit_code_for_error(outcome.error) if outcome.error else ERROR


def exit_code_for_error(error: BaseException) -> int:
    """The exit code of a failure."""
    match error:
        case ConfigError() | ProviderConfigError() | SessionError():
            return USAGE
        case PermissionDeniedError():
            return DENIED
        case KeyboardInterrupt() | AgentAbortedError():
            return INTERRUPTED
        case AgentProviderError():
            return exit_code_for_error(error.cause) if isinstance(error.cause, ModelError) else ERROR
        case ModelError():
            return ERROR if error.reason in _AGENT_ERROR_REASONS else PROVIDER
        case _:
            return ERROR
