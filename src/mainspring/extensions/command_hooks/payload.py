"""What commands get on standard input: one JSON object, with the field names that other programs use."""

from __future__ import annotations

import json
from typing import Any, Literal, TypedDict

import msgspec
from msgspec import Struct

from mainspring.extensions.command_hooks.config import CommandEvent

_LARGEST = 1 << 20
"""Characters of a tool's result that a command gets; no decision hangs on more, and a pipe is no place for it."""


class Common(TypedDict):
    """The fields of `HookInput`."""

    session_id: str
    transcript_path: str
    cwd: str
    agent: str


class HookInput(Struct, kw_only=True):
    """What every event has.

    Attributes:
        session_id: Name of the session; empty where nothing is stored.
        transcript_path: File of the conversation; empty where there is none.
        cwd: The project folder.
        agent: Name of the agent, that of a sub-agent included.
    """

    session_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    agent: str = ""


class SessionStartInput(HookInput, kw_only=True):
    """A conversation is opened."""

    hook_event_name: Literal["SessionStart"] = "SessionStart"
    source: Literal["startup", "resume", "clear", "reload"] = "startup"


class UserPromptSubmitInput(HookInput, kw_only=True):
    """A prompt comes in."""

    hook_event_name: Literal["UserPromptSubmit"] = "UserPromptSubmit"
    prompt: str


class PreToolUseInput(HookInput, kw_only=True):
    """A tool is about to run with these arguments, which are valid."""

    hook_event_name: Literal["PreToolUse"] = "PreToolUse"
    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str = ""


class ToolResponse(Struct, kw_only=True):
    """What a tool gave. ``output`` is its text; images are left out."""

    output: str
    is_error: bool = False
    title: str = ""


class PostToolUseInput(HookInput, kw_only=True):
    """A tool has run."""

    hook_event_name: Literal["PostToolUse"] = "PostToolUse"
    tool_name: str
    tool_input: dict[str, Any]
    tool_response: ToolResponse
    tool_use_id: str = ""


class PostToolUseFailureInput(HookInput, kw_only=True):
    """A tool has failed."""

    hook_event_name: Literal["PostToolUseFailure"] = "PostToolUseFailure"
    tool_name: str
    tool_input: dict[str, Any]
    tool_response: ToolResponse
    tool_use_id: str = ""
    error: str = ""


class NotificationInput(HookInput, kw_only=True):
    """Somebody is waited for."""

    hook_event_name: Literal["Notification"] = "Notification"
    message: str
    notification_type: Literal["permission_prompt"] = "permission_prompt"


class StopInput(HookInput, kw_only=True):
    """The agent has answered and would stop.

    Attributes:
        stop_hook_active: Whether it goes on already because a hook of this event wanted so.
        last_assistant_message: The answer.
    """

    hook_event_name: Literal["Stop"] = "Stop"
    stop_hook_active: bool = False
    last_assistant_message: str = ""


class SubagentStopInput(HookInput, kw_only=True):
    """A sub-agent has ended."""

    hook_event_name: Literal["SubagentStop"] = "SubagentStop"
    agent_id: str
    agent_type: str = ""
    status: str = ""
    last_assistant_message: str = ""


class PostCompactInput(HookInput, kw_only=True):
    """The history was replaced by a shorter one."""

    hook_event_name: Literal["PostCompact"] = "PostCompact"
    trigger: str
    messages_before: int
    messages_after: int


class SessionEndInput(HookInput, kw_only=True):
    """The conversation is over in this process."""

    hook_event_name: Literal["SessionEnd"] = "SessionEnd"
    reason: str


Payload = (
    SessionStartInput
    | UserPromptSubmitInput
    | PreToolUseInput
    | PostToolUseInput
    | PostToolUseFailureInput
    | NotificationInput
    | StopInput
    | SubagentStopInput
    | PostCompactInput
    | SessionEndInput
)


INPUTS: dict[CommandEvent, type[Payload]] = {
    "SessionStart": SessionStartInput,
    "UserPromptSubmit": UserPromptSubmitInput,
    "PreToolUse": PreToolUseInput,
    "PostToolUse": PostToolUseInput,
    "PostToolUseFailure": PostToolUseFailureInput,
    "Notification": NotificationInput,
    "Stop": StopInput,
    "SubagentStop": SubagentStopInput,
    "PostCompact": PostCompactInput,
    "SessionEnd": SessionEndInput,
}
"""What is told, by event."""


def encoded(payload: Payload) -> bytes:
    """The JSON text of an event; what JSON does not know is told as text."""
    try:
        return msgspec.json.encode(payload, enc_hook=str)
    except UnicodeEncodeError:  # half a surrogate pair, as in the name of a file that is not UTF-8
        return json.dumps(msgspec.to_builtins(payload, enc_hook=str), default=str).encode()


def shortened(text: str) -> str:
    """A text with its middle left out where it is very long."""
    half = _LARGEST // 2
    return text if len(text) <= _LARGEST else f"{text[:half]}\n[...]\n{text[-half:]}"
