"""Lines of an event log, and how to read those of earlier versions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import msgspec
from msgspec import Struct

from mainspring.events import (
    AgentEnd,
    AgentStart,
    AgentStats,
    ContextCompacted,
    Envelope,
    ErrorInfo,
    Event,
    MessageEnd,
    ModelCallRetry,
    RunEvent,
    ToolExecutionEnd,
    UnknownEventError,
    UsageUpdate,
    decode,
)
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock, Usage

VERSION = 2
"""Version of the lines, which the start of each run contains."""


class SessionOpened(Event, frozen=True):
    """The session was opened in a process."""

    reason: str


class SessionShutdown(Event, frozen=True):
    """The session was closed in a process, for example because the process exits.

    Attributes:
        reason: Why: ``exit`` or ``reset``.
        seconds: Duration since it was opened in the process; 0 if it was not opened by a run.
    """

    reason: str
    seconds: float = 0.0


LogEvent = RunEvent | SessionOpened | SessionShutdown
"""Events of a log: those of runs, and those that only a log has."""


class LogLine(Envelope, frozen=True):
    """A line of an event log.

    Attributes:
        seq: Number of the line, from 1 in each process. A gap means that lines could not be written.
        time: Time in UTC.
        event: The event, without the conversation.
        run_id: The run; a subagent has a separate run.
        session_id: The session.
    """

    event: LogEvent


def decode_line(data: bytes) -> LogLine | None:
    """Decode a line of any version; ``None`` if it is unreadable, or has no counterpart in this version."""
    try:
        return decode(data, LogLine)
    except (UnknownEventError, UnicodeDecodeError):
        return _decode_first_version(data)


# --- version 1 --------------------------------------------------------------------------------------------------------


class _FirstVersionLine(Struct, rename="camel"):
    event: str
    time: datetime
    session: str
    project: str = ""
    run: str = ""
    agent: str = ""
    turn: int = 0
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    tool: str = ""
    call: str = ""
    args: dict[str, Any] = {}
    status: str = ""
    seconds: float = 0.0
    reason: str = ""
    error: str = ""
    count: int = 0

    @property
    def error_info(self) -> ErrorInfo | None:
        kind, colon, text = self.error.partition(": ")
        return ErrorInfo(type=kind if colon else "", message=text or self.error) if self.error else None


def _decode_first_version(data: bytes) -> LogLine | None:
    try:
        line = msgspec.json.decode(data, type=_FirstVersionLine)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    event = _convert_event(line)
    return None if event is None else LogLine(0, line.time, event, line.run, line.session)


def _convert_event(line: _FirstVersionLine) -> LogEvent | None:
    event: LogEvent | None = None  # for a pause, which is the status of its run, and a number of lost events
    match line.event:
        case "open":
            event = SessionOpened(line.reason)
        case "shutdown":
            event = SessionShutdown(line.reason)
        case "run_start":
            resumed = int(line.reason == "resume")
            event = AgentStart(line.run, line.agent, "", line.session, line.project, resumed, version=1)
        case "model_call":
            reason = cast("Any", line.reason or None)
            message = Message(
                "assistant",
                usage=line.usage,
                stop_reason=reason,
                provider=line.provider,
                model=line.model,
                timestamp=line.time,
            )
            event = MessageEnd(message, seconds=line.seconds, error=line.error_info)
        case "side_call":
            event = UsageUpdate(line.turn, line.usage, Usage(), line.reason)
        case "retry":
            event = ModelCallRetry(line.count, 0, 0.0, line.error_info or ErrorInfo(type="", message=""))
        case "tool_call":
            result = ToolResultBlock(line.call, line.tool, line.error, line.status != "ok")
            status = cast("Any", "skipped" if line.status == "not_run" else line.status)
            call = ToolUseBlock(line.call, line.tool, line.args)
            event = ToolExecutionEnd(call, result, seconds=line.seconds, status=status)
        case "compaction":
            event = ContextCompacted(line.reason)
        case "run_end":
            stats = AgentStats(turns=line.turn, usage=line.usage, seconds=line.seconds)
            event = AgentEnd(line.run, (), cast("Any", line.status), stats=stats, error=line.error_info)
        case _:
            pass
    return event
