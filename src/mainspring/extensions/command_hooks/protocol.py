"""What a command has decided: read from its exit code and its output. What cannot be understood is a failure, never consent.

What commands get on standard input: one JSON object, with the field names that other programs use.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypedDict

import msgspec
from msgspec import Struct, field

from mainspring.extensions.command_hooks.config import CommandEvent, CommandHook
from mainspring.lazy import lazy_re

EXIT_BLOCK = 2
"""The exit code that refuses, whatever else was written."""


CONTEXT_EVENTS: frozenset[CommandEvent] = frozenset({"SessionStart", "UserPromptSubmit"})
"""The events for which output that is no JSON is text for the model."""


_DECISION = lazy_re(
    r'^\s*\[?\s*\{|"(?:decision|permissionDecision|continue|stopReason|hookSpecificOutput)"\s*:', re.MULTILINE
)
"""What looks like a decision in text that is no JSON object."""


_LONGEST_REASON = 4_000
_LONGEST_CONTEXT = 20_000


Decision = Literal["allow", "deny", "ask", "approve", "block"]


class SpecificOutput(Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What belongs to one event.

    Attributes:
        hook_event_name: The event, once more.
        permission_decision: On a tool call: ``deny`` refuses, ``ask`` has a person asked, ``allow`` has no objection; rules and
            permissions are asked all the same.
        permission_decision_reason: Why.
        updated_input: Arguments in place of the call's own. They are validated and judged anew.
        additional_context: Text for the model.
        updated_tool_output: Text in place of what the tool gave.
    """

    hook_event_name: str | None = None
    permission_decision: Decision | None = None
    permission_decision_reason: str | None = None
    updated_input: dict[str, Any] | None = None
    additional_context: str | None = None
    updated_tool_output: str | None = None


class HookOutput(Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a command may write to standard output. Everything may be left out; what is not known here is a failure.

    Attributes:
        go_on: ``continue``: false ends the run.
        stop_reason: Why it ends.
        suppress_output: Understood and without effect: output is not shown anyway.
        system_message: Text for the user.
        decision: ``block`` or ``deny`` refuses; ``approve`` and ``allow`` have no objection; ``ask`` has a person asked.
        reason: Why.
        hook_specific_output: What belongs to the event.
    """

    go_on: bool = field(default=True, name="continue")
    stop_reason: str | None = None
    suppress_output: bool | None = None
    system_message: str | None = None
    decision: Decision | None = None
    reason: str | None = None
    hook_specific_output: SpecificOutput | None = None


class Verdict(Struct, kw_only=True):
    """What came of asking a command.

    Attributes:
        hook: The command.
        failure: Why there is no decision; empty if there is one.
        deny: Why it refuses; ``None`` if it does not.
        ask: What a person is to be asked; ``None`` is nothing.
        stop: Why the run is to end; ``None`` if it is not.
        input: Arguments in place of the call's own.
        output: Text in place of what the tool gave.
        context: Text for the model.
        message: Text for the user.
    """

    hook: CommandHook
    failure: str = ""
    deny: str | None = None
    ask: str | None = None
    stop: str | None = None
    input: dict[str, Any] | None = None
    output: str | None = None
    context: str = ""
    message: str = ""

    @property
    def refusal(self) -> str | None:
        """Why what is to be decided may not be; ``None`` if it may."""
        if self.deny is None and self.failure and self.hook.on_failure == "refuse":
            return f"the hook {self.hook.command!r} failed, and a hook that fails does not agree: {self.failure}"
        return self.deny


def verdict_of(hook: CommandHook, exit_code: int, stdout: str, stderr: str) -> Verdict:
    """What a command that has ended by itself says."""
    out, err = stdout.strip("\ufeff \t\r\n"), stderr.strip()
    if exit_code == EXIT_BLOCK:
        return Verdict(hook=hook, deny=(err or out)[:_LONGEST_REASON] or "a hook does not allow it")
    if exit_code != 0:
        said = f": {(err or out)[-_LONGEST_REASON:]}" if err or out else ""
        return Verdict(hook=hook, failure=f"it ended with exit code {exit_code}{said}")
    if not out:
        return Verdict(hook=hook)
    if not out.startswith("{"):
        return _plain(hook, out)
    try:
        said = msgspec.json.decode(out, type=HookOutput)
    except (msgspec.DecodeError, UnicodeError) as error:
        return Verdict(hook=hook, failure=f"its answer cannot be understood: {error}")
    return _verdict(hook, said)


def _plain(hook: CommandHook, out: str) -> Verdict:
    """Output that is no JSON. A decision may be hidden in it, behind a line that was written by accident."""
    if hook.event not in CONTEXT_EVENTS:
        return Verdict(hook=hook, failure=f"its answer is no JSON object: {out[:200]}")
    if _DECISION.search(out):
        return Verdict(hook=hook, failure=f"its answer is text and JSON in one: {out[:200]}")
    return Verdict(hook=hook, context=out[:_LONGEST_CONTEXT])


def _verdict(hook: CommandHook, output: HookOutput) -> Verdict:
    more = output.hook_specific_output or SpecificOutput()
    if more.hook_event_name not in (None, hook.event):
        return Verdict(hook=hook, failure=f"it answers {more.hook_event_name}, and was asked {hook.event}")
    decisions = {output.decision, more.permission_decision}
    reason = (more.permission_decision_reason or output.reason or "")[:_LONGEST_REASON]
    rejected = bool(decisions & {"deny", "block"})
    return Verdict(
        hook=hook,
        deny=(reason or "a hook does not allow it") if rejected else None,
        ask=(reason or "a hook wants it confirmed") if "ask" in decisions else None,
        stop=None if output.go_on else (output.stop_reason or reason or "a hook ended the run"),
        input=more.updated_input,
        output=more.updated_tool_output,
        context=(more.additional_context or "")[:_LONGEST_CONTEXT],
        message=(output.system_message or "")[:_LONGEST_REASON],
    )


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


def encode_payload(payload: Payload) -> bytes:
    """The JSON text of an event; what JSON does not know is told as text."""
    try:
        return msgspec.json.encode(payload, enc_hook=str)
    except UnicodeEncodeError:  # half a surrogate pair, as in the name of a file that is not UTF-8
        return json.dumps(msgspec.to_builtins(payload, enc_hook=str), default=str).encode()


def truncate_middle(text: str) -> str:
    """A text with its middle left out where it is very long."""
    half = _LARGEST // 2
    return text if len(text) <= _LARGEST else f"{text[:half]}\n[...]\n{text[-half:]}"
