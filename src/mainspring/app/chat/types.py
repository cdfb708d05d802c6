"""Values that commands and events of a chat share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

ApprovalDecision = Literal["once", "session", "edits", "always", "everywhere", "edit", "deny", "never"]
"""The decision of the user about a tool call."""

AgentMode = Literal["default", "accept_edits", "plan"]
"""``default`` asks before it changes anything, ``accept_edits`` edits the project without asking, ``plan`` only reads and plans."""

_MODES: Mapping[str, AgentMode] = {
    "default": "default",
    "accept_edits": "accept_edits",
    "plan": "plan",
    "build": "default",  # the former name
}


def parse_mode(text: str) -> AgentMode | None:
    """Return the mode with a name; None if it does not exist."""
    return _MODES.get(re.sub(r"[\s-]+", "_", text.strip().lower()))


ThinkingLevelName = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
"""Reasoning effort of a model."""

NoticeLevel = Literal["info", "warn", "error"]
"""Severity of a notice."""


class Queued(Struct, frozen=True):
    """A queued message.

    Attributes:
        id: Its ID.
        text: The text.
        kind: ``steer``: the run sees the message in its next turn. ``queue``: the message is sent after the run.
        attachments: Number of attachments.
    """

    id: str
    text: str
    kind: Literal["steer", "queue"] = "queue"
    attachments: int = 0


class Status(Struct, frozen=True, kw_only=True):
    """The status of a chat, as shown in a status line.

    Attributes:
        model: ``provider:model``.
        model_label: Display name of the model.
        thinking: Reasoning effort; None for the default of the provider.
        mode: The mode of the agent.
        sandbox: The layer of the sandbox that tools run in; empty without a sandbox.
        running: Whether a run is in progress.
        context_used: Estimated tokens of the next request.
        context_window: Maximum tokens of a request; 0 if unknown.
        cost: US dollars so far, including subagents, of the calls with a known price; None if no price is known.
        has_unknown_prices: Whether ``cost`` excludes calls of unknown price.
        max_cost: Limit of the cost; None for no limit.
        tokens: Tokens so far, including subagents.
        turns: Model calls so far in this run.
        max_turns: Limit of model calls of a run; None for no limit.
        branch: The git branch of the folder; empty without one.
        cwd: The working folder.
        session_id: ID of the session; empty if the conversation is not saved.
        title: Title of the session.
        queued: Number of queued messages.
        children: Number of running subagents.
    """

    model: str
    model_label: str = ""
    thinking: ThinkingLevelName | None = None
    mode: AgentMode = "default"
    sandbox: str = ""
    running: bool = False
    context_used: int = 0
    context_window: int = 0
    cost: float | None = 0.0
    has_unknown_prices: bool = False
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
