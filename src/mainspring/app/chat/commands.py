"""Commands that a client can send to a chat. A closed union of structs; each is one JSON object on the wire."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mainspring.app.chat.types import AgentMode, ApprovalDecision, ThinkingLevelName
from mainspring.text import to_snake_case


class ChatCommandBase(Struct, frozen=True, tag_field="type", tag=to_snake_case, forbid_unknown_fields=True):
    """Base of all commands. JSON with an unknown field is rejected, since the field would have no effect."""


class Attachment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attachment of a message: an image, or a separate text.

    Attributes:
        media_type: For example, ``image/png``; ``text/plain`` for a text.
        data: The bytes of the image; base64 in JSON.
        text: The text.
        name: Its name, for example ``notes.txt``.
    """

    media_type: str
    data: bytes = b""
    text: str = ""
    name: str = ""


class Prompt(ChatCommandBase, frozen=True):
    """Send a message. Starts a run, or queues the message during a run.

    Attributes:
        text: The text. It is never run as a command; ``@path`` attaches a file.
        attachments: Its attachments.
    """

    text: str
    attachments: tuple[Attachment, ...] = ()


class Steer(ChatCommandBase, frozen=True):
    """Send a steering message, which the run sees in its next turn. Without a run, the same as `Prompt`."""

    text: str
    attachments: tuple[Attachment, ...] = ()


class Queue(ChatCommandBase, frozen=True):
    """Queue a message until the run is over. Without a run, the same as `Prompt`."""

    text: str
    attachments: tuple[Attachment, ...] = ()


class EditQueued(ChatCommandBase, frozen=True):
    """Edit a queued message."""

    id: str
    text: str


class RemoveQueued(ChatCommandBase, frozen=True):
    """Remove a queued message."""

    id: str


class SendQueued(ChatCommandBase, frozen=True):
    """Send a queued message now: it steers the run, or starts one. An empty ID is the first message."""

    id: str = ""


class Shell(ChatCommandBase, frozen=True):
    """Run a shell command of the user. With ``tell=True``, its output is added to the conversation."""

    line: str
    tell: bool = True


class Shortcut(ChatCommandBase, frozen=True):
    """Run the shortcut of an extension: ``ctrl+k``."""

    key: str


class Approve(ChatCommandBase, frozen=True):
    """Answer an `ApprovalRequest`.

    Attributes:
        id: ID of the question.
        decision: ``once``: this call. ``session``: such calls until the session ends. ``edits``: all edits in this project until the
            session ends. ``always``: a rule that allows is saved for this project. ``everywhere``: the same for every project, in the
            user's settings. ``edit``: this call with ``input``. ``deny``: not this call. ``never``: a rule that denies is saved for
            this project. `ApprovalRequest.choices` are those that make sense.
        reason: The reason of the user, for the model.
        hunks: The numbers of the hunks to apply; None for all.
        input: The arguments that replace those of the model, with ``edit``.
        rule: The rule to save, with ``always``, ``everywhere``, and ``never``; several are on separate lines. Empty: the suggested ones.
        stop: Whether a denial ends the run.
    """

    id: str
    decision: ApprovalDecision
    reason: str = ""
    hunks: tuple[int, ...] | None = None
    input: dict[str, Any] | None = None
    rule: str = ""
    stop: bool = False


class Answer(ChatCommandBase, frozen=True):
    """Answer a `QuestionRequest`.

    Attributes:
        id: ID of the question.
        chosen: The values of the options that were chosen.
        text: Text of the user; for a plan, what to change.
        declined: Whether the user declined to answer.
    """

    id: str
    chosen: tuple[str, ...] = ()
    text: str = ""
    declined: bool = False


class Abort(ChatCommandBase, frozen=True):
    """Abort the run, shell commands of the user, and the running slash command. Queued messages stay in the paused queue.

    Attributes:
        reason: The reason, which is stored.
        child: Abort only this subagent; the run continues.
    """

    reason: str = ""
    child: str = ""


class Background(ChatCommandBase, frozen=True):
    """Move the running shell commands to the background; the run continues. ``/jobs`` lists them."""


class SetModel(ChatCommandBase, frozen=True):
    """Switch to another model from the next request on: ``provider:model``."""

    model: str


class SetThinking(ChatCommandBase, frozen=True):
    """Set the reasoning effort from the next request on; None leaves it to the provider."""

    level: ThinkingLevelName | None


class SetMode(ChatCommandBase, frozen=True):
    """Switch to ``default`` (asks before it changes anything), ``accept_edits`` (edits the project without approval), or ``plan`` (only reads and plans)."""

    mode: AgentMode


class ExecutePlan(ChatCommandBase, frozen=True):
    """Leave plan mode and execute a plan: the named file, or the last plan."""

    plan: str = ""


class Slash(ChatCommandBase, frozen=True):
    """Run a slash command, for example ``/model openai:gpt-5-mini``. Its result arrives as `CommandEnd`."""

    line: str


class Resume(ChatCommandBase, frozen=True):
    """Resume another session by its ID, title, or file; empty for the most recent one of the folder."""

    session: str = ""


class Fork(ChatCommandBase, frozen=True):
    """Continue in a copy of the session: of all of it, or up to an entry (see ``/tree``)."""

    entry: str = ""


class Rewind(ChatCommandBase, frozen=True):
    """Rewind the conversation, the files, or both to before a prompt.

    Attributes:
        to: Number or entry ID of the prompt; empty for the last prompt, ``undo`` to revert the last rewind.
        what: What to rewind.
        preview: Whether to only show what would change.
        force: Whether to rewind files that other programs changed since.
    """

    to: str = ""
    what: Literal["both", "conversation", "files"] = "both"
    preview: bool = False
    force: bool = False


class NewSession(ChatCommandBase, frozen=True):
    """Start a new session; the current one stays saved."""


class Rename(ChatCommandBase, frozen=True):
    """Change the title of the session."""

    title: str


class Compact(ChatCommandBase, frozen=True):
    """Compact the conversation. ``instructions`` describe the required content of the summary."""

    instructions: str = ""


ChatCommand = (
    Prompt
    | Steer
    | Queue
    | EditQueued
    | RemoveQueued
    | SendQueued
    | Shell
    | Shortcut
    | Approve
    | Answer
    | Abort
    | Background
    | SetModel
    | SetThinking
    | SetMode
    | ExecutePlan
    | Slash
    | Resume
    | Fork
    | Rewind
    | NewSession
    | Rename
    | Compact
)
"""All commands of a chat."""


@cache
def _decoder() -> msgspec.json.Decoder[ChatCommand]:
    """Return the decoder. It is made on first use, since the terminal never needs it."""
    return msgspec.json.Decoder(ChatCommand)


def decode_command(line: bytes | str) -> ChatCommand:
    """Decode a command from its JSON object: ``{"type": "prompt", "text": "..."}``.

    Raises:
        msgspec.ValidationError: If it is not a valid command.
        msgspec.DecodeError: If it is not JSON.
    """
    return _decoder().decode(line)


class CommandReceipt(Struct, frozen=True):
    """Whether a command was accepted.

    Attributes:
        id: ID of the command in `CommandEnd` and `CommandRejected`, or of the queued message.
        refused: Why the command was rejected; empty if it was accepted.
    """

    id: str
    refused: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the command was accepted."""
        return not self.refused


def expand_shorthand(text: str) -> str:
    """Return the slash command for a typed text that is short for one, else the text.

    ``?`` alone shows the help, and one line that begins with ``# `` adds a note to the memory.
    """
    typed = text.strip()
    if typed == "?":
        return "/help"
    return f"/memory add {typed[2:]}" if typed.startswith("# ") and "\n" not in typed else text


_PUNCTUATION = ".,:;?!)\"'"
"""What can follow a path in a sentence."""


def parse_line(
    line: str,
    attachments: tuple[Attachment, ...] = (),
    *,
    known: Collection[str] = (),
    message_type: type[Prompt] | type[Steer] | type[Queue] = Prompt,
) -> ChatCommand:
    """Parse a typed line into a command.

    ``/word`` is a slash command, ``!line`` a shell command whose output the model sees, and ``!!line`` one that it does not see.
    A path is not a command: the first word of ``/usr/bin/env is missing`` contains another slash, and that of ``/usr is full``
    names a folder and not a command. All other lines are messages.

    Args:
        line: The line.
        attachments: Its attachments.
        known: Names of commands.
        message_type: The command for a message: send, steer, or queue.
    """
    text = line.strip()
    if text.startswith("!!") and text[2:].strip():
        return Shell(text[2:].strip(), tell=False)
    if text.startswith("!") and text[1:].strip() and not text.startswith("!!"):
        return Shell(text[1:].strip())
    word = text[1:].split(maxsplit=1)[0] if text.startswith("/") and text[1:2].strip() else ""
    if word and (word in known or word.lower() in known or not _is_path(word)):
        return Slash(text)
    return message_type(line, attachments)


def _is_path(word: str) -> bool:
    """Return True if the word after a slash belongs to a path."""
    return "/" in word or os.path.lexists(f"/{word.rstrip(_PUNCTUATION)}")
