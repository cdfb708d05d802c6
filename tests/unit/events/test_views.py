"""Views of the events of a run."""

from mainspring.errors import RateLimitedError
from mainspring.events import (
    AgentEnd,
    AgentStart,
    AgentStats,
    ContextCompacted,
    ErrorInfo,
    Event,
    MessageEnd,
    ModelCallRetry,
    TextDelta,
    ToolExecutionEnd,
    UsageUpdate,
    encode,
)
from mainspring.events.views import LOGGED_EVENTS, without_content
from mainspring.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage

TEXT = "the plan"
CALL = ToolUseBlock("c", "look", {"key": "a"})
ERROR = ErrorInfo(type="ValueError", message=f"no: {TEXT}")


def redact(text: str) -> str:
    return text.replace(TEXT, "[redacted]")


def test_log_of_events_contains_no_content() -> None:
    message = Message("assistant", (TextBlock(TEXT),), usage=Usage(3, 1), error=f"no: {TEXT}")
    result = ToolResultBlock("c", "look", TEXT, is_error=True, details={"given": TEXT})
    events: list[Event] = [
        AgentStart("r", "main", system=TEXT, tools=("look",)),
        MessageEnd(message, error=ERROR),
        ModelCallRetry(1, 2, 0.5, ERROR),
        UsageUpdate(1, Usage(3, 1), Usage(3, 1), "title"),
        ToolExecutionEnd(CALL, result, TEXT, 0.5, "error"),
        ContextCompacted("asked", summary=TEXT),
        AgentEnd("r", (message,), "error", TEXT, stats=AgentStats(turns=2, output=TEXT), denied=(TEXT,), error=ERROR),
    ]
    assert tuple(type(event) for event in events) == LOGGED_EVENTS

    logged = [without_content(event, redact) for event in events]

    assert TEXT not in str([encode(event) for event in logged])
    assert b"[redacted]" in encode(logged[1])
    assert without_content(MessageEnd(Message.user(TEXT), "prompt"), redact) is None
    assert without_content(TextDelta(0, TEXT), redact) is None


def test_logged_call_has_its_error_in_place_of_the_result() -> None:
    def log(event: ToolExecutionEnd) -> object:
        logged = without_content(event, redact)
        return logged.result.content if isinstance(logged, ToolExecutionEnd) else None

    result = ToolResultBlock("c", "look", f"Permission denied: {TEXT}", is_error=True)
    assert log(ToolExecutionEnd(CALL, result, has_output=False)) == "Permission denied: [redacted]"
    assert log(ToolExecutionEnd(CALL, result, exception=RateLimitedError("slow"))) == "RateLimitedError: slow"
    assert log(ToolExecutionEnd(CALL, result)) == ""
