"""Which skills are active, and where the model reads their text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mainspring.loop.hooks.features import SkillActivationSource
from mainspring.messages import AgentMessage, Message, TextBlock, ToolResultBlock
from mainspring.skills.skill import Skill

REACTIVATED_NOTE = "[The skill {name} is active again; its instructions stand above, unchanged.]"
"""What joins the history for a skill that the host activates and whose text is there."""


class ActiveSkill(Struct, eq=False):
    """A skill that is active.

    Attributes:
        skill: The skill.
        via: Who made it active.
        text: What the model is given of it.
        restricts: Whether its ``allowed-tools`` hold. Not for one that a trigger brought, until somebody takes it up.
        asserted: Whether the host asked for it again, so that the end of the run leaves it active.
        pending: Whether its text, or word that it is active again, is still to join the conversation.
        shown: Whether a request has had its text.
        carrier: The message of the history that holds its text.
        lost: Whether no message of the history holds it.
        tools: Names of the tools that its toolsets brought.
        toolsets: Its toolsets, to be closed at the end.
        turn_id: The turn in which the model made it active. The calls of that turn were judged before, so none may use it.
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
        """Its text as a message; the same object each time."""
        if self._own is None:
            self._own = Message.user(self.text)
        return self._own

    @property
    def news(self) -> Message:
        """What is to join: its text, or, where that stands in the history from an earlier run, word of that."""
        return self.message if self.carrier is None else Message.user(REACTIVATED_NOTE.format(name=self.skill.name))

    def is_in(self, message: AgentMessage) -> bool:
        """Whether a message holds its text."""
        if self.carrier is not None:
            return message is self.carrier
        return contains_text(message, self.text)

    def find_carrier(self, messages: Sequence[AgentMessage]) -> None:
        """Find the message that holds its text, the newest first."""
        self.carrier = next(
            (m for m in reversed(messages) if isinstance(m, Message) and contains_text(m, self.text)), None
        )
        self.lost = self.carrier is None


class ActiveSkills:
    """The active skills of one agent, in the order in which they became active.

    Args:
        most: How many there may be; any number if ``None``.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._active: dict[str, ActiveSkill] = {}

    @property
    def full(self) -> bool:
        """Whether no more may become active."""
        return self.most is not None and len(self._active) >= self.most

    def get(self, name: str) -> ActiveSkill | None:
        """The one of that name, if it is active."""
        return self._active.get(name)

    def add(self, activation: ActiveSkill) -> None:
        """Make one active."""
        self._active[activation.skill.name] = activation

    def remove(self, name: str) -> ActiveSkill | None:
        """Make one inactive; the one that was."""
        return self._active.pop(name, None)

    def __iter__(self) -> Iterator[ActiveSkill]:
        return iter(tuple(self._active.values()))

    def __len__(self) -> int:
        return len(self._active)

    def __contains__(self, name: object) -> bool:
        return name in self._active

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._active)


def contains_text(message: AgentMessage, text: str) -> bool:
    """Whether a block of a message holds a text."""
    return isinstance(message, Message) and any(text in t for b in message.content if (t := _text(b)) is not None)


def restore_text(message: Message, carrier: Message, text: str) -> Message:
    """A message with the block that holds the text as its carrier has it: somebody shortened it."""
    whole = {b.tool_use_id: b for b in carrier.tool_results if text in b.text}
    if not whole:
        return carrier
    content = [whole.get(b.tool_use_id, b) if isinstance(b, ToolResultBlock) else b for b in message.content]
    return replace(message, content=tuple(content))


def _text(block: object) -> str | None:
    if isinstance(block, TextBlock):
        return block.text
    return block.text if isinstance(block, ToolResultBlock) else None
