"""Events that a chat sends to its client. A closed union of structs; each is one JSON object on the wire.

Order of a run: `UserText`, `RunStarted`; then texts, tools, approvals, questions, and subagents as they occur; at the end
`RunFinished`. A started tool is always finished before the run is, and a question is always settled. A resumed session is
replayed with the same events, between `ReplayStarted` and `ReplayFinished`.

All texts come from models, tools, files, and users: a terminal client must escape control characters, and interpret markup
only in responses.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mainspring.app.chat.command_results import CommandResult
from mainspring.app.chat.types import ApprovalDecision, NoticeLevel, Option, Queued, Status, snake_case_tag
from mainspring.events import EditOutcome, FileDiff, RunStatus


class Event(Struct, frozen=True, tag_field="type", tag=snake_case_tag):
    """Base of all events."""


# --- text -----------------------------------------------------------------------------------------------------


class UserText(Event, frozen=True):
    """A message of the user was added to the conversation.

    Attributes:
        text: The text as the user wrote it.
        source: Why it was sent. ``shell`` is the output of a command of the user, ``notice`` comes from the program.
        attachments: Number of images and texts.
        id: ID of the message.
    """

    text: str
    source: Literal["prompt", "steer", "queue", "command", "shell", "notice"] = "prompt"
    attachments: int = 0
    id: str = ""


class AnswerText(Event, frozen=True):
    """A piece of a response, in Markdown. Pieces may have been joined."""

    text: str


class AnswerEnd(Event, frozen=True):
    """A response is complete; ``text`` is all of it. The run may continue."""

    text: str
    stop_reason: str = ""


class ThinkingText(Event, frozen=True):
    """A piece of the reasoning of the model."""

    text: str


class ThinkingEnd(Event, frozen=True):
    """The reasoning is complete."""

    text: str = ""


# --- tools ------------------------------------------------------------------------------------------------------------


class ToolStarted(Event, frozen=True):
    """A tool call started.

    Attributes:
        id: ID of the call.
        name: Name of the tool.
        display: Display name of the tool.
        summary: One line that describes the call: a path, a command.
        arguments: The arguments from the model.
    """

    id: str
    name: str
    display: str
    summary: str = ""
    arguments: dict[str, Any] = {}


class ToolProgress(Event, frozen=True):
    """A tool reports progress.

    Attributes:
        id: ID of the call.
        output: New output.
        title: Replaces the summary, if not empty.
        terminal: The terminal of the client that runs the command from now on.
    """

    id: str
    output: str = ""
    title: str = ""
    terminal: str = ""


class ToolFinished(Event, frozen=True):
    """A tool call finished.

    Attributes:
        id: ID of the call.
        name: Name of the tool.
        display: Display name of the tool.
        summary: One line that describes the result.
        is_error: Whether the call failed.
        denied: Whether the call was denied.
        output: The result for the model without its middle.
        hidden_lines: Number of omitted lines.
        diffs: The changes of files.
        edits: How many changes were applied, if some were denied or failed.
        seconds: The duration.
        images: Number of images in the result.
    """

    id: str
    name: str
    display: str
    summary: str = ""
    is_error: bool = False
    denied: bool = False
    output: str = ""
    hidden_lines: int = 0
    diffs: tuple[FileDiff, ...] = ()
    edits: tuple[EditOutcome, ...] = ()
    seconds: float = 0.0
    images: int = 0


# --- questions --------------------------------------------------------------------------------------------------------


class ApprovalAsked(Event, frozen=True):
    """A call needs approval. Answer with `Approve`; the call waits for it until the run is aborted.

    Attributes:
        id: ID of the question.
        call_id: ID of the call.
        tool: Name of the tool.
        display: Display name of the tool.
        action: The verb: ``read``, ``write``, ``delete``, ``run``, ``connect``, ``call``.
        resource: The object: a path, the whole command line, a host.
        scope: The scope in rules: ``fs-write``.
        reason: Why approval is needed.
        rule: The rule that asks, with its place; empty if no rule does.
        arguments: The arguments that the call will use.
        diffs: The exact changes that the call would make to the files on disk.
        choose_hunks: Whether `Approve.hunks` may select some of the changes.
        suggestions: The rules that ``always`` saves, one for each part of the call; empty if no rule can be saved.
        wider: Wider alternatives to the suggestions.
        child: The subagent that makes the call; empty for the agent itself.
        choices: The decisions to offer, in order: ``value`` is that of `Approve.decision`, ``label`` the text of a list entry, and
            ``description`` the text of a button.
    """

    id: str
    call_id: str
    tool: str
    display: str
    action: str
    resource: str
    scope: str = ""
    reason: str = ""
    rule: str = ""
    arguments: dict[str, Any] = {}
    diffs: tuple[FileDiff, ...] = ()
    choose_hunks: bool = False
    suggestions: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()
    child: str = ""
    choices: tuple[Option, ...] = ()


class ApprovalSettled(Event, frozen=True):
    """An approval was decided, or cancelled because the run was aborted (``aborted``)."""

    id: str
    decision: ApprovalDecision | Literal["aborted"]


class QuestionAsked(Event, frozen=True):
    """The agent or an extension asks a question. Answer with `Answer`.

    Attributes:
        id: ID of the question.
        kind: ``ask``: options or text. ``confirm``: yes or no. ``select``: one of the options. ``input``: text.
            ``plan``: a plan in Markdown; approve, revise, or reject.
        text: The question, or the plan.
        title: The title.
        options: The options.
        multiple: Whether several options can be chosen.
        child: The subagent that asks.
    """

    id: str
    kind: Literal["ask", "confirm", "select", "input", "plan"]
    text: str
    title: str = ""
    options: tuple[Option, ...] = ()
    multiple: bool = False
    child: str = ""


class QuestionSettled(Event, frozen=True):
    """A question was answered, declined, or cancelled because the run was aborted."""

    id: str
    outcome: Literal["answered", "declined", "aborted"]


# --- subagents -------------------------------------------------------------------------------------------------------


class ChildStarted(Event, frozen=True):
    """A subagent started. ``name`` is its kind, ``parent`` the subagent that started it, if any."""

    id: str
    name: str
    task: str
    depth: int = 1
    parent: str = ""


class ChildEvent(Event, frozen=True):
    """An event of a subagent."""

    id: str
    event: AnswerText | AnswerEnd | ThinkingText | ThinkingEnd | ToolStarted | ToolProgress | ToolFinished


class ChildFinished(Event, frozen=True):
    """A subagent finished. ``cost`` and ``tokens`` include those of its subagents, and are included in those of the run."""

    id: str
    name: str
    status: RunStatus
    text: str = ""
    error: str = ""
    turns: int = 0
    tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0


# --- the chat itself --------------------------------------------------------------------------------------------------


class RunStarted(Event, frozen=True):
    """A run started."""

    id: str = ""


class Working(Event, frozen=True):
    """The text of a spinner, for example ``Waiting for the model``; empty while nothing happens."""

    message: str = ""


class Retrying(Event, frozen=True):
    """A model call failed and will be retried in ``delay`` seconds."""

    attempt: int
    max_retries: int
    delay: float
    reason: str


class Compacted(Event, frozen=True):
    """The conversation was compacted. ``summary`` replaces the earlier messages."""

    reason: str
    before: int = 0
    after: int = 0
    summary: str = ""


class RunFinished(Event, frozen=True):
    """A run finished.

    Attributes:
        status: How the run ended.
        text: The response, or the part of it that arrived.
        error: The error; empty without one.
        hint: How to fix the error.
        turns: Number of model calls.
        tokens: Tokens of the run, including subagents.
        cost: US dollars; None if a price is unknown.
        seconds: The duration.
        denied: Number of denied calls.
    """

    status: RunStatus
    text: str = ""
    error: str = ""
    hint: str = ""
    turns: int = 0
    tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0
    denied: int = 0


class QueueChanged(Event, frozen=True):
    """The message queue changed. ``held`` is True if it waits for `SendQueued` or the next prompt, since a run was aborted or failed."""

    items: tuple[Queued, ...]
    held: bool = False


class StatusChanged(Event, frozen=True):
    """The status changed."""

    status: Status


class SessionChanged(Event, frozen=True):
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


class ReplayStarted(Event, frozen=True):
    """The events of the stored conversation follow."""

    messages: int = 0


class ReplayFinished(Event, frozen=True):
    """The stored conversation is complete; further events are new."""


class CommandDone(Event, frozen=True):
    """A slash command or another queued command, such as `Compact`, finished.

    Attributes:
        id: ID of the receipt.
        name: Name of the command without its slash.
        shown: The result; None without one.
        error: The error; empty without one.
    """

    id: str
    name: str
    shown: CommandResult | None = None
    error: str = ""


class Refused(Event, frozen=True):
    """A command was rejected, and changed nothing."""

    id: str
    command: str
    reason: str


class ShellStarted(Event, frozen=True):
    """A shell command of the user started. Its output is added to the conversation if ``tell`` is True."""

    id: str
    line: str
    tell: bool = True


class ShellOutput(Event, frozen=True):
    """Output of a shell command of the user."""

    id: str
    text: str


class ShellFinished(Event, frozen=True):
    """A shell command of the user finished. ``output`` is its output without its middle."""

    id: str
    exit_code: int
    output: str = ""


class Notice(Event, frozen=True):
    """A message of the program to the user."""

    text: str
    level: NoticeLevel = "info"


ChatEvent = (
    UserText
    | AnswerText
    | AnswerEnd
    | ThinkingText
    | ThinkingEnd
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ApprovalAsked
    | ApprovalSettled
    | QuestionAsked
    | QuestionSettled
    | ChildStarted
    | ChildEvent
    | ChildFinished
    | RunStarted
    | Working
    | Retrying
    | Compacted
    | RunFinished
    | QueueChanged
    | StatusChanged
    | SessionChanged
    | ReplayStarted
    | ReplayFinished
    | CommandDone
    | Refused
    | ShellStarted
    | ShellOutput
    | ShellFinished
    | Notice
)
"""All events of a chat."""


@cache
def _decoder() -> msgspec.json.Decoder[ChatEvent]:
    """Return the decoder. It is made on first use."""
    return msgspec.json.Decoder(ChatEvent)


def encode_event(event: ChatEvent) -> bytes:
    """Encode an event as its JSON object, with ``type``."""
    return msgspec.json.encode(event)


def decode_event(line: bytes | str) -> ChatEvent:
    """Decode an event from its JSON object.

    Raises:
        msgspec.ValidationError: If it is not a valid event.
    """
    return _decoder().decode(line)
