"""Active skills, and the messages that contain their text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mainspring.loop.hooks.features import SkillActivationSource
from mainspring.messages import AgentMessage, Message, TextBlock, ToolResultBlock
from mainspring.skills.skill import Skill

REACTIVATED_NOTE = "[The skill {name} is active again; its instructions stand above, unchanged.]"
"""Added to the history for a skill that the host activates while its text is already there."""


class ActiveSkill(Struct, eq=False):
    """An active skill.

    Attributes:
        skill: The skill.
        via: What activated it.
        text: The text for the model.
        restricts: Whether its ``allowed-tools`` apply. False for a skill that a trigger activated, until the model or user uses it.
        asserted: Whether the host requested it again, so that it stays active after the run.
        pending: Whether its text, or the note that it is active again, must still join the conversation.
        shown: Whether a request contained its text.
        carrier: The message of the history with its text.
        lost: Whether no message of the history has its text.
        tools: Names of the tools of its toolsets.
        toolsets: Its toolsets, which must be closed.
        turn_id: The turn in which the model activated it. Calls of that turn were judged before, so none may use it.
    """

    skill: Skill
    via: SkillActivationSource
    text: str
    restricts: bool = True
    asserted: bool = False
    pending: bool = False
    shown: bool = False
    carrier: Message | None = None
    lost: bool = False
    tools: list[str] = field(default_factory=list[str])
    toolsets: list[Any] = field(default_factory=list[Any])
    turn_id: str = ""
    _own: Message | None = None

    @property
    def message(self) -> Message:
        """Its text as a message. Always the same object."""
        if self._own is None:
            self._own = Message.user(self.text)
        return self._own

    @property
    def news(self) -> Message:
        """The message to add: its text, or a note if the history contains the text from an earlier run."""
        return self.message if self.carrier is None else Message.user(REACTIVATED_NOTE.format(name=self.skill.name))

    def is_in(self, message: AgentMessage) -> bool:
        """Return True if a message contains its text."""
        if self.carrier is not None:
            return message is self.carrier
        return contains_text(message, self.text)

    def find_carrier(self, messages: Sequence[AgentMessage]) -> None:
        """Find the message with its text, newest first."""
        self.carrier = next(
            (m for m in reversed(messages) if isinstance(m, Message) and contains_text(m, self.text)), None
        )
        self.lost = self.carrier is None


class ActiveSkills:
    """The active skills of one agent, in the order of activation.

    Args:
        most: Maximum number of active skills. ``None`` for no limit.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._active: dict[str, ActiveSkill] = {}

    @property
    def full(self) -> bool:
        """Whether no more skills can become active."""
        return self.most is not None and len(self._active) >= self.most

    def get(self, name: str) -> ActiveSkill | None:
        """Return an active skill by name."""
        return self._active.get(name)

    def add(self, activation: ActiveSkill) -> None:
        """Activate a skill."""
        self._active[activation.skill.name] = activation

    def remove(self, name: str) -> ActiveSkill | None:
        """Deactivate a skill and return it."""
        return self._active.pop(name, None)

    def __iter__(self) -> Iterator[ActiveSkill]:
        return iter(tuple(self._active.values()))

    def __len__(self) -> int:
        return len(self._active)

    def __contains__(self, name: object) -> bool:
        return name in self._active

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the active skills."""
        return tuple(self._active)


def contains_text(message: AgentMessage, text: str) -> bool:
    """Return True if a block of a message contains a text."""
    return isinstance(message, Message) and any(text in t for b in message.content if (t := _text(b)) is not None)


def restore_text(message: Message, carrier: Message, text: str) -> Message:
    """Return a message with the original block that contains the text, in place of a shortened one."""
    whole = {b.tool_use_id: b for b in carrier.tool_results if text in b.text}
    if not whole:
        return carrier
    content = [whole.get(b.tool_use_id, b) if isinstance(b, ToolResultBlock) else b for b in message.content]
    return replace(message, content=tuple(content))


def _text(block: object) -> str | None:
    if isinstance(block, TextBlock):
        return block.text
    return block.text if isinstance(block, ToolResultBlock) else None
