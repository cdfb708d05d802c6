"""Which skills a conversation that is taken up again had active."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.messages import AgentMessage, Message, TextBlock, ToolResultBlock
from mainspring.skills.active import AGAIN
from mainspring.skills.delivery import delivered_name

USE_NAMES = frozenset(("skills_use", "load_skill"))
"""Names under which the call that takes up a skill may stand in a history."""

_AGAIN = lazy_re(re.escape(AGAIN).replace(re.escape("{name}"), r"([^\s\]]+)"))


class Delivered(Struct):
    """A skill whose text stands in a history.

    Attributes:
        name: Its name.
        text: What the model was given.
        carrier: The message that holds it.
        broken_off: Whether the run in which it came was broken off, so that what it allows still holds.
    """

    name: str
    text: str
    carrier: Message
    broken_off: bool = True


def delivered(messages: Iterable[AgentMessage]) -> list[Delivered]:
    """The skills whose texts stand in a history, the one that came last at the end."""
    found: dict[str, Delivered] = {}
    for message in messages:
        if not isinstance(message, Message):
            continue
        if message.role == "assistant":
            if not message.tool_uses and message.stop_reason in ("end_turn", "stop_sequence"):
                for each in found.values():
                    each.broken_off = False  # that run came to its end
            continue
        for block in message.content:
            name, text = _of(block, message)
            if name:
                found.pop(name, None)
                found[name] = Delivered(name, text, message)
            elif again := _again(block):
                if again in found:
                    found[again].broken_off = True
                    found[again] = found.pop(again)
    return list(found.values())


def _of(block: object, message: Message) -> tuple[str, str]:
    """Name and text of a delivery. What a person wrote is none, nor is the result of another tool."""
    if isinstance(block, ToolResultBlock):
        if block.name in USE_NAMES and not block.is_error:
            return delivered_name(block.text), block.text
    elif isinstance(block, TextBlock) and len(message.content) == 1:
        return delivered_name(block.text), block.text
    return "", ""


def _again(block: object) -> str:
    """The skill that was taken up of which the text was there already."""
    if isinstance(block, TextBlock):
        word = _AGAIN.fullmatch(block.text)
        return word[1] if word is not None else ""
    if isinstance(block, ToolResultBlock) and block.name in USE_NAMES and not block.is_error:
        details: Any = block.details
        if isinstance(details, dict):
            return str(cast("dict[str, Any]", details).get("skill") or "")
    return ""
