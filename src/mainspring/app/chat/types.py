"""The small closed sets that commands and events share, and what they hold in common."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

ApprovalDecision = Literal["once", "session", "edits", "always", "everywhere", "edit", "deny", "never"]
"""What the user decides about a call."""

AgentMode = Literal["build", "accept_edits", "plan"]
"""Whether the agent works, works and edits the project's files without approval, or only looks and plans."""

ThinkingLevelName = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
"""How much a model reasons."""

NoticeLevel = Literal["info", "warn", "error"]
"""How much a notice matters."""


def snake_case_tag(name: str) -> str:
    """The tag of a class: ``ToolStarted`` is ``tool_started``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class Hunk(Struct, frozen=True):
    """One change within a file.

    Attributes:
        number: From 0, through all files of the call: what `Approve.hunks` names.
        header: As ``@@ -3,4 +3,5 @@``.
        lines: Each with its mark: space, ``-`` or ``+``; without line ends.
    """

    number: int
    header: str
    lines: tuple[str, ...]


class FileDiff(Struct, frozen=True, kw_only=True):
    """What changes in a file.

    Attributes:
        path: Where, as people know it.
        change: What happens to it.
        added: How many lines come.
        removed: How many go.
        hunks: The changes, in order.
        note: What the lines do not show, as ``line ends become LF`` or ``binary``.
        left_out: How many lines of the diff are not shown.
    """

    path: str
    change: Literal["edit", "create", "delete", "rename"] = "edit"
    added: int = 0
    removed: int = 0
    hunks: tuple[Hunk, ...] = ()
    note: str = ""
    left_out: int = 0


class Option(Struct, frozen=True):
    """An answer to choose.

    Attributes:
        value: What `Answer.chosen` holds.
        label: For people.
        description: More about it.
    """

    value: str
    label: str = ""
    description: str = ""


class Queued(Struct, frozen=True):
    """A text that waits.

    Attributes:
        id: What it is known by.
        text: The text.
        kind: ``steer``: the run sees it at its next step. ``queue``: when it is over.
        attachments: How many come with it.
    """

    id: str
    text: str
    kind: Literal["steer", "queue"] = "queue"
    attachments: int = 0


class Status(Struct, frozen=True, kw_only=True):
    """How the chat stands: what a status line shows.

    Attributes:
        model: ``provider:model``.
        model_label: Its name for people.
        thinking: How much it reasons; ``None``: as the provider likes.
        mode: Whether it works, works and edits without approval, or plans.
        sandbox: The layer of the sandbox in which tools work; empty without one.
        running: Whether a run is going on.
        context_used: Tokens of the next request, as far as known.
        context_window: Most tokens of a request; 0 where unknown.
        cost: US dollars so far, sub-agents included; ``None`` where a price is unknown.
        max_cost: Where the money ends; ``None`` for no limit.
        tokens: Tokens so far, sub-agents included.
        turns: Model calls so far in this run.
        max_turns: Where a run ends; ``None`` for no limit.
        branch: The git branch of the folder; empty where there is none.
        cwd: The folder.
        session_id: That of the session; empty where nothing is kept.
        title: The session's title.
        queued: How many texts wait.
        children: How many sub-agents run.
    """

    model: str
    model_label: str = ""
    thinking: ThinkingLevelName | None = None
    mode: AgentMode = "build"
    sandbox: str = ""
    running: bool = False
    context_used: int = 0
    context_window: int = 0
    cost: float | None = 0.0
    max_cost: float | None = None
    tokens: int = 0
    turns: int = 0
    max_turns: int | None = None
    branch: str = ""
    cwd: str = ""
    session_id: str = ""
    title: str = ""
    queued: int = 0
    children: int = 0


class EditOutcome(Struct, frozen=True):
    """What became of the hunks of one edit.

    Attributes:
        path: The file.
        applied: How many were applied.
        total: How many there were.
        denied: How many the user denied.
        failed: How many could not be applied.
        reason: Why they were denied, in the user's words.
    """

    path: str
    applied: int
    total: int
    denied: int = 0
    failed: int = 0
    reason: str = ""
