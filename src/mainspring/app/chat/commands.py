"""What a front end may ask of a chat: a closed union of plain values, each of which is also one JSON object.

What a line that somebody typed means.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mainspring.app.chat.types import AgentMode, ApprovalDecision, ThinkingLevelName, snake_case_tag


class ChatCommandBase(Struct, frozen=True, tag_field="type", tag=snake_case_tag, forbid_unknown_fields=True):
    """Base of all commands. As JSON, a field that is not known is refused: what was asked for with it would not happen."""


class Attachment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What comes with a text: an image, or a text that stands apart from it.

    Attributes:
        media_type: As ``image/png``; ``text/plain`` for a text.
        data: The image's bytes; in JSON as base64.
        text: The text, where it is one.
        name: What it is called, as ``notes.txt``.
    """

    media_type: str
    data: bytes = b""
    text: str = ""
    name: str = ""


class Prompt(ChatCommandBase, frozen=True):
    """Say something. Begins a run; while one is going on it is queued, as `Queue` is.

    Attributes:
        text: What is said, as it is: nothing in it is a command. ``@path`` attaches a file.
        attachments: What comes with it.
    """

    text: str
    attachments: tuple[Attachment, ...] = ()


class Steer(ChatCommandBase, frozen=True):
    """Have the run see this at its next step; without a run the same as `Prompt`."""

    text: str
    attachments: tuple[Attachment, ...] = ()


class Queue(ChatCommandBase, frozen=True):
    """Have this said when the run is over; without a run the same as `Prompt`."""

    text: str
    attachments: tuple[Attachment, ...] = ()


class EditQueued(ChatCommandBase, frozen=True):
    """Change a text that waits, in its place."""

    id: str
    text: str


class RemoveQueued(ChatCommandBase, frozen=True):
    """Take back a text that waits."""

    id: str


class SendQueued(ChatCommandBase, frozen=True):
    """Say a text that waits now: it steers the run that is going on, or begins one. Empty for the first that waits."""

    id: str = ""


class Shell(ChatCommandBase, frozen=True):
    """Run a shell command of the user's own. ``tell``: whether its output joins the conversation."""

    line: str
    tell: bool = True


class Shortcut(ChatCommandBase, frozen=True):
    """Do what an extension has put on a key: ``ctrl+k``."""

    key: str


class Approve(ChatCommandBase, frozen=True):
    """Answer an `ApprovalAsked`.

    Attributes:
        id: That of the question.
        decision: ``once``: this call. ``session``: such calls until the session ends. ``edits``: all edits in this project until the
            session ends. ``always``: a rule that allows is saved for this project. ``everywhere``: the same for every project, in the
            user's settings. ``edit``: this call with ``input``. ``deny``: not this call. ``never``: a rule that denies is saved for
            this project. `ApprovalAsked.choices` are those that make sense.
        reason: In the user's words, for the model.
        hunks: The numbers of the hunks that may be applied, where not all may; ``None`` is all of them.
        input: The arguments to use in place of the model's, with ``edit``.
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
    """Answer a `QuestionAsked`.

    Attributes:
        id: That of the question.
        chosen: The values of the options that were chosen.
        text: Words of the user's own; with a plan, what should be changed.
        declined: Whether they do not answer.
    """

    id: str
    chosen: tuple[str, ...] = ()
    text: str = ""
    declined: bool = False


class Abort(ChatCommandBase, frozen=True):
    """Stop what is going on: the run, a shell command of the user's, or a slash command. What is queued stays, and waits.

    Attributes:
        reason: Why, for the record.
        child: Only this sub-agent; the run goes on.
    """

    reason: str = ""
    child: str = ""


class SetModel(ChatCommandBase, frozen=True):
    """Have another model answer, from the next request on: ``provider:model``."""

    model: str


class SetThinking(ChatCommandBase, frozen=True):
    """How much the model reasons, from the next request on; ``None`` leaves it to the provider."""

    level: ThinkingLevelName | None


class SetMode(ChatCommandBase, frozen=True):
    """``build`` works; ``accept_edits`` edits the project's files without approval, too; ``plan`` only looks and plans."""

    mode: AgentMode


class ExecutePlan(ChatCommandBase, frozen=True):
    """Leave plan mode and carry out the plan: the file named, or the last one."""

    plan: str = ""


class Slash(ChatCommandBase, frozen=True):
    """A command line, as ``/model openai:gpt-5-mini``, with its slash. Its outcome comes as `CommandDone`."""

    line: str


class Resume(ChatCommandBase, frozen=True):
    """Go on with another session: its id, title or file; empty for the folder's last one."""

    session: str = ""


class Fork(ChatCommandBase, frozen=True):
    """Go on in a copy of the session: of all of it, or up to an entry (see ``/tree``)."""

    entry: str = ""


class Rewind(ChatCommandBase, frozen=True):
    """Take the conversation, the files or both back to a prompt.

    Attributes:
        to: Id of the prompt's entry; empty for the last prompt.
        what: What is taken back.
        preview: Whether only to tell what would happen.
        force: Whether files that were changed by others since are taken back as well.
    """

    to: str = ""
    what: Literal["both", "conversation", "files"] = "both"
    preview: bool = False
    force: bool = False


class NewSession(ChatCommandBase, frozen=True):
    """Begin anew; the session so far stays on disk."""


class Rename(ChatCommandBase, frozen=True):
    """Give the session a title."""

    title: str


class Compact(ChatCommandBase, frozen=True):
    """Sum up the conversation so far. ``instructions`` say what matters."""

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
"""Everything that a chat can be asked."""


@cache
def _decoder() -> msgspec.json.Decoder[ChatCommand]:
    """Made when a program speaks JSON with a chat; a terminal never does."""
    return msgspec.json.Decoder(ChatCommand)


def decode_command(line: bytes | str) -> ChatCommand:
    """A command from its JSON object: ``{"type": "prompt", "text": "..."}``.

    Raises:
        msgspec.ValidationError: If it is none; the text says where and why.
        msgspec.DecodeError: If it is no JSON.
    """
    return _decoder().decode(line)


class CommandReceipt(Struct, frozen=True):
    """What became of a command at once.

    Attributes:
        id: That of the command; `CommandDone` and `Refused` carry it, and a text that waits is known by it.
        refused: Why it was not taken; empty if it was.
    """

    id: str
    refused: str = ""

    @property
    def accepted(self) -> bool:
        """Whether it was taken."""
        return not self.refused


def parse_line(
    line: str,
    attachments: tuple[Attachment, ...] = (),
    *,
    known: Collection[str] = (),
    say: type[Prompt] | type[Steer] | type[Queue] = Prompt,
) -> ChatCommand:
    """The command that a typed line stands for.

    ``/word`` is a slash command, ``!line`` a shell command whose output the model sees, ``!!line`` one that it does not see.
    A path is no command: the first word of ``/usr/bin/env is missing`` has another slash. Everything else is said to the model.

    Args:
        line: What was typed.
        attachments: What comes with it.
        known: Names of commands that have a slash of their own.
        say: How it is said: at once, as steering, or queued.
    """
    text = line.strip()
    if text.startswith("!!") and text[2:].strip():
        return Shell(text[2:].strip(), tell=False)
    if text.startswith("!") and text[1:].strip() and not text.startswith("!!"):
        return Shell(text[1:].strip())
    word = text[1:].split(maxsplit=1)[0] if text.startswith("/") and text[1:2].strip() else ""
    if word and ("/" not in word or word in known):
        return Slash(text)
    return say(line, attachments)
