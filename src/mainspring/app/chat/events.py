"""What a chat tells its front end: a closed union of plain values, each of which is also one JSON object.

Order of a run: `UserText`, `RunStarted`; then texts, tools, approvals, questions and children as they come; at last
`RunFinished`. A tool that started is always finished before the run is, and a question is always settled. A session that is
gone on with is told by the same events, between `ReplayStarted` and `ReplayFinished`.

All texts come from models, tools, files and people: whoever shows them on a terminal escapes control characters and
interprets no markup but that of answers.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mainspring.app.chat.command_results import CommandResult
from mainspring.app.chat.types import (
    ApprovalDecision,
    EditOutcome,
    FileDiff,
    NoticeLevel,
    Option,
    Queued,
    Status,
    snake_case_tag,
)
from mainspring.events import RunStatus


class Event(Struct, frozen=True, tag_field="type", tag=snake_case_tag):
    """Base of all events."""


# --- what is said -----------------------------------------------------------------------------------------------------


class UserText(Event, frozen=True):
    """Something joined the conversation from the user's side.

    Attributes:
        text: As they wrote it.
        source: Why now. ``shell`` is the output of a command of theirs, ``notice`` comes from the program itself.
        attachments: How many images and texts came with it.
        id: Of the text that waited, if it did.
    """

    text: str
    source: Literal["prompt", "steer", "queue", "command", "shell", "notice"] = "prompt"
    attachments: int = 0
    id: str = ""


class AnswerText(Event, frozen=True):
    """A piece of an answer, in Markdown. Pieces may have been joined."""

    text: str


class AnswerEnd(Event, frozen=True):
    """An answer is complete; ``text`` is all of it. More may follow in the same run."""

    text: str
    stop_reason: str = ""


class ThinkingText(Event, frozen=True):
    """A piece of the model's reasoning."""

    text: str


class ThinkingEnd(Event, frozen=True):
    """The model has reasoned for now."""

    text: str = ""


# --- tools ------------------------------------------------------------------------------------------------------------


class ToolStarted(Event, frozen=True):
    """A call is taken up.

    Attributes:
        id: Of the call.
        name: The tool's own name.
        display: Its name for people.
        summary: What it is about, in a line: a path, a command.
        arguments: As the model gave them.
    """

    id: str
    name: str
    display: str
    summary: str = ""
    arguments: dict[str, Any] = {}


class ToolProgress(Event, frozen=True):
    """A tool tells how far it is.

    Attributes:
        id: Of the call.
        output: What came since.
        title: Replaces the summary, if not empty.
        terminal: The terminal of the front end in which the command runs from now on.
    """

    id: str
    output: str = ""
    title: str = ""
    terminal: str = ""


class ToolFinished(Event, frozen=True):
    """A call has its result.

    Attributes:
        id: Of the call.
        name: The tool's own name.
        display: Its name for people.
        summary: What came of it, in a line.
        is_error: Whether it failed.
        denied: Whether it was not permitted.
        output: What the model gets, shortened in the middle.
        hidden_lines: How many lines of it are left out.
        diffs: What changed in files.
        edits: What became of hunks, where some were denied.
        seconds: How long it took.
        images: How many images it gave.
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
    """A call needs a yes. Answer with `Approve`; it waits until then, or until the run is stopped.

    Attributes:
        id: Of the question.
        call_id: Of the call.
        tool: The tool's own name.
        display: Its name for people.
        action: The verb: ``read``, ``write``, ``delete``, ``run``, ``connect``, ``call``.
        resource: What it is about: a path, the whole command line, a host.
        scope: As rules name it: ``fs-write``.
        reason: Why it is asked.
        rule: The rule that asked, with its place; empty where none did.
        arguments: As they will be used.
        diffs: The exact change of files that it would make, from what is on disk now.
        choose_hunks: Whether `Approve.hunks` may take some of them only.
        suggestions: The rules that ``always`` saves, one for each part of the call; empty where none can be saved.
        wider: The same, as wide as makes sense, to choose from.
        child: The sub-agent that makes the call; empty for the agent itself.
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
    """A question is answered, or falls away because the run was stopped (``aborted``)."""

    id: str
    decision: ApprovalDecision | Literal["aborted"]


class QuestionAsked(Event, frozen=True):
    """The agent or an extension asks something. Answer with `Answer`.

    Attributes:
        id: Of the question.
        kind: ``ask``: options, and words of their own. ``confirm``: yes or no. ``select``: one of the options. ``input``: words.
            ``plan``: a plan in Markdown; approve, revise or reject.
        text: The question, or the plan.
        title: Over it.
        options: What may be chosen.
        multiple: Whether several.
        child: The sub-agent that asks.
    """

    id: str
    kind: Literal["ask", "confirm", "select", "input", "plan"]
    text: str
    title: str = ""
    options: tuple[Option, ...] = ()
    multiple: bool = False
    child: str = ""


class QuestionSettled(Event, frozen=True):
    """A question is answered, declined, or falls away."""

    id: str
    outcome: Literal["answered", "declined", "aborted"]


# --- sub-agents -------------------------------------------------------------------------------------------------------


class ChildStarted(Event, frozen=True):
    """A sub-agent begins. ``name`` is its kind, ``parent`` the sub-agent above it, if any."""

    id: str
    name: str
    task: str
    depth: int = 1
    parent: str = ""


class ChildEvent(Event, frozen=True):
    """Something happened in a sub-agent."""

    id: str
    event: AnswerText | AnswerEnd | ThinkingText | ThinkingEnd | ToolStarted | ToolProgress | ToolFinished


class ChildFinished(Event, frozen=True):
    """A sub-agent is over. ``cost`` and ``tokens`` are its own and those of its sub-agents, and count in the run's."""

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
    """A run begins."""

    id: str = ""


class Working(Event, frozen=True):
    """What is being waited for, as ``waiting for the model``; empty when nothing is. What a spinner shows."""

    message: str = ""


class Retrying(Event, frozen=True):
    """A model call failed and is tried again in ``delay`` seconds."""

    attempt: int
    max_retries: int
    delay: float
    reason: str


class Compacted(Event, frozen=True):
    """The conversation was summed up. ``summary`` is what stands for what was."""

    reason: str
    before: int = 0
    after: int = 0
    summary: str = ""


class RunFinished(Event, frozen=True):
    """A run is over. The chat goes on.

    Attributes:
        status: How it ended.
        text: The answer, or as much of it as there is.
        error: What failed; empty if nothing did.
        hint: What to do about it.
        turns: Model calls that were answered.
        tokens: Tokens of the run, sub-agents included.
        cost: US dollars; ``None`` where a price is unknown.
        seconds: How long it took.
        denied: How many calls were not permitted.
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
    """What waits has changed. ``held``: it waits for `SendQueued` or the next prompt, because a run was stopped or failed."""

    items: tuple[Queued, ...]
    held: bool = False


class StatusChanged(Event, frozen=True):
    """How the chat stands has changed."""

    status: Status


class SessionChanged(Event, frozen=True):
    """Another session, or another place in it. What was shown of the old one is past.

    Attributes:
        reason: Why.
        id: Of the session; empty where nothing is kept.
        title: Its title.
        messages: How many messages it has.
        place: Its file.
        draft: The prompt that was taken back, to be changed and sent again.
    """

    reason: Literal["opened", "resumed", "new", "forked", "rewound", "renamed"]
    id: str = ""
    title: str = ""
    messages: int = 0
    place: str = ""
    draft: str = ""


class ReplayStarted(Event, frozen=True):
    """What was said before follows, as the events it was told by."""

    messages: int = 0


class ReplayFinished(Event, frozen=True):
    """From here on everything happens now."""


class CommandDone(Event, frozen=True):
    """A slash command, or `Compact`, `Rewind` and the like, is done.

    Attributes:
        id: The receipt's.
        name: The command's name, without its slash.
        shown: What it gives; ``None`` for nothing to see.
        error: Why it failed; empty if it did not.
    """

    id: str
    name: str
    shown: CommandResult | None = None
    error: str = ""


class Refused(Event, frozen=True):
    """A command was not taken, and changed nothing."""

    id: str
    command: str
    reason: str


class ShellStarted(Event, frozen=True):
    """A shell command of the user's own runs. ``tell``: whether the model will see its output."""

    id: str
    line: str
    tell: bool = True


class ShellOutput(Event, frozen=True):
    """It printed something."""

    id: str
    text: str


class ShellFinished(Event, frozen=True):
    """It is over. ``output`` is all of it, shortened in the middle."""

    id: str
    exit_code: int
    output: str = ""


class Notice(Event, frozen=True):
    """Something people should know."""

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
"""Everything that a chat can tell. After the last one its iterator ends."""


@cache
def _decoder() -> msgspec.json.Decoder[ChatEvent]:
    """Made when a program speaks JSON with a chat."""
    return msgspec.json.Decoder(ChatEvent)


def encode_event(event: ChatEvent) -> bytes:
    """An event as its JSON object, with ``type``."""
    return msgspec.json.encode(event)


def decode_event(line: bytes | str) -> ChatEvent:
    """An event from its JSON object.

    Raises:
        msgspec.ValidationError: If it is none.
    """
    return _decoder().decode(line)
