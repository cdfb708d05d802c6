"""Events of a chat: those of its runs (`RunEvent`), and those that only a chat has. Each is one JSON object on the wire.

Order of a run: the `MessageEnd` of the user's message, `AgentStart`; then texts, tools, approvals, questions, and subagents as they
occur; at the end `AgentEnd`. A started tool always ends before the run does, and an approval or a question always has a result. A
resumed session is replayed with the same events, between `ReplayStart` and `ReplayEnd`.

All texts come from models, tools, files, and users: a terminal client must escape control characters, and interpret markup
only in responses.
"""

from __future__ import annotations

from typing import Literal

from mainspring.app.chat.command_results import CommandResult
from mainspring.app.chat.types import Queued, Status
from mainspring.app.run.error_advice import advise
from mainspring.events import ErrorInfo, Event, MessageEnd, MessageSource, Option, RunEvent
from mainspring.messages import Message


class QuestionRequest(Event, frozen=True):
    """The agent or an extension asks a question. Answer with `Answer`.

    Attributes:
        id: ID of the question.
        kind: ``ask``: options or text. ``confirm``: yes or no. ``select``: one of the options. ``input``: text.
            ``plan``: a plan in Markdown; approve, revise, or reject.
        text: The question, or the plan.
        title: The title.
        options: The options.
        multiple: Whether several options can be chosen.
    """

    id: str
    kind: Literal["ask", "confirm", "select", "input", "plan"]
    text: str
    title: str = ""
    options: tuple[Option, ...] = ()
    multiple: bool = False


class QuestionResult(Event, frozen=True):
    """A question was answered, declined, or canceled because the run was aborted."""

    id: str
    outcome: Literal["answered", "declined", "aborted"]


class WorkingChange(Event, frozen=True):
    """The text of a spinner, for example ``Waiting for the model``; empty while nothing happens."""

    message: str = ""


class QueueChange(Event, frozen=True):
    """The message queue changed. ``held`` is True if it waits for `SendQueued` or the next prompt, since a run was aborted or failed."""

    items: tuple[Queued, ...]
    held: bool = False


class StatusChange(Event, frozen=True):
    """The status changed."""

    status: Status


class SessionChange(Event, frozen=True):
    """Another session is open, or the session continues from an earlier entry.

    Attributes:
        reason: What happened.
        id: ID of the session; empty if the conversation is not saved.
        title: Title of the session.
        messages: Number of messages.
        place: File of the session.
        draft: The prompt that was rewound, to edit and send again.
    """

    reason: Literal["opened", "resumed", "new", "forked", "rewound", "renamed"]
    id: str = ""
    title: str = ""
    messages: int = 0
    place: str = ""
    draft: str = ""


class ReplayStart(Event, frozen=True):
    """The events of the stored conversation follow."""

    messages: int = 0


class ReplayEnd(Event, frozen=True):
    """The stored conversation is complete; further events are new."""


class CommandEnd(Event, frozen=True):
    """A slash command or another queued command, such as `Compact`, ended.

    Attributes:
        id: ID of the receipt.
        name: Name of the command without its slash.
        shown: The result; None without one.
        error: The error; empty without one.
        code: Its code, if it is an error of a model or its provider.
    """

    id: str
    name: str
    shown: CommandResult | None = None
    error: str = ""
    code: str = ""


class CommandRejected(Event, frozen=True):
    """A command was rejected, and changed nothing."""

    id: str
    command: str
    reason: str


class ShellStart(Event, frozen=True):
    """A shell command of the user started. Its output is added to the conversation if ``tell`` is True."""

    id: str
    line: str
    tell: bool = True


class ShellOutput(Event, frozen=True):
    """Output of a shell command of the user."""

    id: str
    text: str


class ShellEnd(Event, frozen=True):
    """A shell command of the user ended.

    Attributes:
        id: ID of the command.
        exit_code: Its exit code.
        output: Its output; the middle of a long output is replaced with the number of lines that are not shown.
        output_file: The file with the whole output, if ``output`` is a part of it and the client runs in this process.
        stopped: Whether the user stopped it.
    """

    id: str
    exit_code: int
    output: str = ""
    output_file: str = ""
    stopped: bool = False


ChatEvent = (
    RunEvent
    | QuestionRequest
    | QuestionResult
    | WorkingChange
    | QueueChange
    | StatusChange
    | SessionChange
    | ReplayStart
    | ReplayEnd
    | CommandEnd
    | CommandRejected
    | ShellStart
    | ShellOutput
    | ShellEnd
)
"""All events of a chat."""


def user_message_event(
    text: str, source: MessageSource, attachments: int = 0, id: str = "", instructions: str = ""
) -> MessageEnd:
    """Return the event for a message of the user as the user wrote it, without its attachments."""
    return MessageEnd(Message.user(text, id=id), source, attachments=attachments, instructions=instructions)


def is_user_message(event: Event) -> bool:
    """Return True for a message of the user."""
    return isinstance(event, MessageEnd) and isinstance(event.message, Message) and event.message.role == "user"


def format_stop(reason: str = "") -> str:
    """Return one line about a run that was stopped, for example, ``Stopped: turn limit reached``."""
    if not reason or reason.startswith("Stopped"):
        return "Stopped"
    return f"Stopped: {reason[0].lower()}{reason[1:]}"


def error_hint(error: ErrorInfo | None) -> str:
    """Return what the user can do about a failed run; empty if that is unknown."""
    if error is None:
        return ""
    known = advise(error.message, error.code or "", status=error.status, retry_after=error.retry_after, place="chat")
    return known or ("This error may be temporary. Send the message again to retry." if error.retryable else "")
