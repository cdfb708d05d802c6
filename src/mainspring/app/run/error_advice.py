"""What a user can do about an error of a model, in the words of the place where it is shown."""

from __future__ import annotations

from mainspring.app.run.options import Surface
from mainspring.errors import ErrorCode

_ADVICE: dict[ErrorCode, tuple[str, str]] = {
    ErrorCode.AUTHENTICATION_ERROR: (
        "Check the key: `mainspring check` shows which one is used.",
        "Check the key: `mainspring check` shows which one is used.",
    ),
    ErrorCode.RATE_LIMITED: (
        "Wait and resume with --continue, or use another model.",
        "Wait and send the message again, or use another model with /model.",
    ),
    ErrorCode.MODEL_NOT_FOUND: (
        "List models with `mainspring models`, and choose one with --model.",
        "List models with `mainspring models`, and choose one with /model.",
    ),
    ErrorCode.NETWORK_ERROR: (
        "Check the connection and the URL with `mainspring check`. Resume the session with --continue.",
        "Check the connection and the URL with `mainspring check`. Then send the message again.",
    ),
    ErrorCode.TIMEOUT: (
        "Resume with --continue, or use a faster model.",
        "Send the message again, or use a faster model with /model.",
    ),
    ErrorCode.CONTEXT_LENGTH_EXCEEDED: (
        "Start a new session (without --continue), send a shorter prompt, or use a model with a larger context window.",
        "Shorten the conversation with /compact, start a new one with /clear, or use a model with a larger context window.",
    ),
}


def advise(
    text: str, code: str, *, status: int | None = None, retry_after: float | None = None, place: Surface = "command"
) -> str:
    """Return what to do about an error of a model; empty if its text already contains advice, or if none is known.

    Args:
        text: The text of the error.
        code: Its code.
        status: The HTTP status of the response.
        retry_after: Seconds after which the server accepts another request.
        place: Where the error is shown.
    """
    if _has_advice(text):
        return ""
    if retry_after:
        again = "resume with --continue" if place == "command" else "send the message again then"
        model = "another model" if place == "command" else "another model with /model"
        return f"Retry after {_format_duration(retry_after)}, as the server requests: {again}, or use {model}."
    known = next((texts for each, texts in _ADVICE.items() if each.value == code), None)
    if known is not None:
        return known[place == "chat"]
    return "Nothing was found at this URL: check the base URL of the provider." if status == 404 else ""


def _format_duration(seconds: float) -> str:
    """Format a duration for users."""
    for name, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"


def _has_advice(text: str) -> bool:
    return any(word in text for word in ("--", "`mainspring", "try ", "Try ", "check ", "Check ", "a larger window"))
