"""The hooks of a session: opened, prompt submitted, run about to begin, closed."""

from __future__ import annotations

from typing import Literal

from mainspring.loop.hooks.base import require_messages, text, validated_property
from mainspring.loop.hooks.run import Hook
from mainspring.messages import AgentMessage

SessionOpenReason = Literal["startup", "resume", "reset", "reload"]
"""Why a conversation is opened: it is new, it has a history, it was reset, or handlers were reloaded."""


class SessionOpen(Hook):
    """A session is opened in this process. ``session_id`` is empty if nothing is stored."""

    event = "session:open"
    when = "Once, before the first prompt of a conversation; again after `reset`."
    __slots__ = ("reason", "session_id")

    def __init__(self, session_id: str, reason: SessionOpenReason) -> None:
        self.session_id = session_id
        self.reason = reason


class PromptSubmitted(Hook):
    """A prompt arrives. ``text`` may be replaced.

    Set ``handled`` to start no run: the result is completed, with ``reply`` as its text. Set ``block`` (True or a reason) to start
    no run either: the result is ``denied``.
    """

    event = "input"
    gate = True
    mutable = ("text", "handled", "reply", "block")
    when = "Before a run, for each prompt with text. Handlers of one run are not called."
    __slots__ = ("_reply", "_text", "block", "handled")
    reply: str = validated_property("_reply", text)
    text: str = validated_property("_text", text)

    def __init__(self, text: str) -> None:
        self._text = text
        self.handled = False
        self._reply = ""
        self.block: str | bool = False

    @property
    def is_decided(self) -> bool:
        return bool(self.block or self.handled)

    def block_on_error(self, reason: str) -> None:
        self.block = reason


class BeforeRun(Hook):
    """A run is about to begin.

    ``system`` may be replaced for this run; ``messages`` join after the prompt.

    ``prompt`` is the text of the prompt after the `input` hook, or empty if a run continues without a prompt.
    """

    event = "agent:before"
    mutable = ("system", "messages")
    when = "Before each run, after `input`. Handlers of one run are not called."
    __slots__ = ("_messages", "_system", "prompt")
    system: str = validated_property("_system", text)
    messages: list[AgentMessage] = validated_property("_messages", require_messages)

    def __init__(self, prompt: str, system: str) -> None:
        self.prompt = prompt
        self._system = system
        self._messages: list[AgentMessage] = []


class SessionClosed(Hook):
    """A session ends in this process: ``exit`` of the process, ``reset``, or ``reload`` of the handlers."""

    event = "session:shutdown"
    must_finish = True
    when = "When the process ends, or the session is closed or reset, if it was opened."
    __slots__ = ("reason", "session_id")

    def __init__(self, session_id: str, reason: str) -> None:
        self.session_id = session_id
        self.reason = reason
