"""The protocol of command hooks: payloads and decisions.

A command gets one JSON object on standard input, with the field names that other programs use. Its decision is read from its
exit code and its output. Output that cannot be parsed is a failure, never consent.
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
"""The exit code that denies, regardless of the output."""


CONTEXT_EVENTS: frozenset[CommandEvent] = frozenset({"SessionStart", "UserPromptSubmit"})
"""The events for which output that is not JSON is text for the model."""


_DECISION = lazy_re(
    r'^\s*\[?\s*\{|"(?:decision|permissionDecision|continue|stopReason|hookSpecificOutput)"\s*:', re.MULTILINE
)
"""Matches a decision in text that is not a JSON object."""


_MAX_REASON_CHARS = 4_000
_MAX_CONTEXT_CHARS = 20_000


Decision = Literal["allow", "deny", "ask", "approve", "block"]


class SpecificOutput(Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The fields for one event.

    Attributes:
        hook_event_name: The event.
        permission_decision: For a tool call: ``deny`` denies it, ``ask`` asks the user, ``allow`` has no objection; rules and
            permissions still apply.
        permission_decision_reason: Reason for the decision.
        updated_input: New arguments for the call. They are validated and checked again.
        additional_context: Text for the model.
        updated_tool_output: Replacement for the tool's output.
    """

    hook_event_name: str | None = None
    permission_decision: Decision | None = None
    permission_decision_reason: str | None = None
    updated_input: dict[str, Any] | None = None
    additional_context: str | None = None
    updated_tool_output: str | None = None


class HookOutput(Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The standard output of a command. All fields are optional; an unknown field is a failure.

    Attributes:
        go_on: ``continue``: false stops the run.
        stop_reason: Reason for the stop.
        suppress_output: Accepted and ignored: output is never shown.
        system_message: Text for the user.
        decision: ``block`` or ``deny`` denies; ``approve`` and ``allow`` have no objection; ``ask`` asks the user.
        reason: Reason for the decision.
        hook_specific_output: The fields for the event.
    """

    go_on: bool = field(default=True, name="continue")
    stop_reason: str | None = None
    suppress_output: bool | None = None
    system_message: str | None = None
    decision: Decision | None = None
    reason: str | None = None
    hook_specific_output: SpecificOutput | None = None


class Verdict(Struct, kw_only=True):
    """The verdict of a command.

    Attributes:
        hook: The command.
        failure: Reason why it has no decision; empty if it has one.
        deny: Reason for a denial; ``None`` if it does not deny.
        ask: Question for the user; ``None`` for no question.
        stop: Reason to stop the run; ``None`` to continue.
        input: New arguments for the call.
        output: Replacement for the tool's output.
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
        """The reason for a denial; ``None`` if the command does not deny."""
        if self.deny is None and self.failure and self.hook.on_failure == "refuse":
            return f"the hook {self.hook.command!r} failed, and a failing hook denies: {self.failure}"
        return self.deny


def verdict_of(hook: CommandHook, exit_code: int, stdout: str, stderr: str) -> Verdict:
    """Return the verdict of a command that has exited."""
    out, err = stdout.strip("\ufeff \t\r\n"), stderr.strip()
    if exit_code == EXIT_BLOCK:
        return Verdict(hook=hook, deny=(err or out)[:_MAX_REASON_CHARS] or "denied by a hook")
    if exit_code != 0:
        detail = f": {(err or out)[-_MAX_REASON_CHARS:]}" if err or out else ""
        return Verdict(hook=hook, failure=f"it exited with code {exit_code}{detail}")
    if not out:
        return Verdict(hook=hook)
    if not out.startswith("{"):
        return _plain(hook, out)
    try:
        detail = msgspec.json.decode(out, type=HookOutput)
    except (msgspec.DecodeError, UnicodeError) as error:
        return Verdict(hook=hook, failure=f"its output is invalid: {error}")
    return _verdict(hook, detail)


def _plain(hook: CommandHook, out: str) -> Verdict:
    """Parse output that is not JSON.

    It may contain a decision after a line that was printed by accident.
    """
    if hook.event not in CONTEXT_EVENTS:
        return Verdict(hook=hook, failure=f"its output is not a JSON object: {out[:200]}")
    if _DECISION.search(out):
        return Verdict(hook=hook, failure=f"its output mixes text and JSON: {out[:200]}")
    return Verdict(hook=hook, context=out[:_MAX_CONTEXT_CHARS])


def _verdict(hook: CommandHook, output: HookOutput) -> Verdict:
    more = output.hook_specific_output or SpecificOutput()
    if more.hook_event_name not in (None, hook.event):
        return Verdict(hook=hook, failure=f"its output is for {more.hook_event_name}, but the event is {hook.event}")
    decisions = {output.decision, more.permission_decision}
    reason = (more.permission_decision_reason or output.reason or "")[:_MAX_REASON_CHARS]
    rejected = bool(decisions & {"deny", "block"})
    return Verdict(
        hook=hook,
        deny=(reason or "denied by a hook") if rejected else None,
        ask=(reason or "a hook asks for confirmation") if "ask" in decisions else None,
        stop=None if output.go_on else (output.stop_reason or reason or "stopped by a hook"),
        input=more.updated_input,
        output=more.updated_tool_output,
        context=(more.additional_context or "")[:_MAX_CONTEXT_CHARS],
        message=(output.system_message or "")[:_MAX_REASON_CHARS],
    )


MAX_OUTPUT_CHARS = 1 << 20
"""Maximum characters of a tool result in a payload; no decision needs more, and a pipe should not carry it."""


class Common(TypedDict):
    """The fields of `HookInput`."""

    session_id: str
    transcript_path: str
    cwd: str
    agent: str


class HookInput(Struct, kw_only=True):
    """The fields of every event.

    Attributes:
        session_id: Name of the session; empty if nothing is stored.
        transcript_path: File of the session; empty if nothing is stored.
        cwd: The project folder.
        agent: Name of the agent, also of a subagent.
    """

    session_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    agent: str = ""


class SessionStartInput(HookInput, kw_only=True):
    """A session is opened."""

    hook_event_name: Literal["SessionStart"] = "SessionStart"
    source: Literal["startup", "resume", "clear", "reload"] = "startup"


class UserPromptSubmitInput(HookInput, kw_only=True):
    """A prompt arrives."""

    hook_event_name: Literal["UserPromptSubmit"] = "UserPromptSubmit"
    prompt: str


class PreToolUseInput(HookInput, kw_only=True):
    """A tool is about to run with these valid arguments."""

    hook_event_name: Literal["PreToolUse"] = "PreToolUse"
    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str = ""


class ToolResponse(Struct, kw_only=True):
    """A tool's response. ``output`` is its text; images are omitted."""

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
    """The agent waits for the user."""

    hook_event_name: Literal["Notification"] = "Notification"
    message: str
    notification_type: Literal["permission_prompt"] = "permission_prompt"


class StopInput(HookInput, kw_only=True):
    """The agent has responded and is about to stop.

    Attributes:
        stop_hook_active: Whether a hook of this event has continued the run already.
        last_assistant_message: The response.
    """

    hook_event_name: Literal["Stop"] = "Stop"
    stop_hook_active: bool = False
    last_assistant_message: str = ""


class SubagentStopInput(HookInput, kw_only=True):
    """A subagent has finished."""

    hook_event_name: Literal["SubagentStop"] = "SubagentStop"
    agent_id: str
    agent_type: str = ""
    status: str = ""
    last_assistant_message: str = ""


class PostCompactInput(HookInput, kw_only=True):
    """The history was compacted."""

    hook_event_name: Literal["PostCompact"] = "PostCompact"
    trigger: str
    messages_before: int
    messages_after: int


class SessionEndInput(HookInput, kw_only=True):
    """The session is closed in this process."""

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
"""Payload types by event."""


def encode_payload(payload: Payload) -> bytes:
    """Encode the JSON text of an event; values that JSON does not support become text."""
    try:
        return msgspec.json.encode(payload, enc_hook=str)
    except UnicodeEncodeError:  # an unpaired surrogate, for example in the name of a file that is not UTF-8
        return json.dumps(msgspec.to_builtins(payload, enc_hook=str), default=str).encode()
