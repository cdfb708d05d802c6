"""A stored conversation, told by the same events as one that happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from mainspring.app.chat.events import (
    AnswerEnd,
    AnswerText,
    ChatEvent,
    Compacted,
    Notice,
    ThinkingEnd,
    ThinkingText,
    UserText,
)
from mainspring.app.chat.tool_display import Display, finished, started
from mainspring.attachments import own_words
from mainspring.sessions import Item

MOST_ITEMS = 400
"""Items that are told; of a longer conversation the last ones."""

_SOURCES: dict[str, Literal["prompt", "steer", "queue", "command", "shell", "notice"]] = {
    "prompt": "prompt",
    "steer": "steer",
    "follow_up": "notice",
    "given": "shell",
}


def replayed(items: Sequence[Item], display: Display) -> Iterator[ChatEvent]:
    """The events of the items on the branch that the session goes on with."""
    active = [item for item in items if item.active]
    if len(active) > MOST_ITEMS:
        yield Notice(f"{len(active) - MOST_ITEMS} earlier messages are not shown; /export has all of them")
    for item in active[-MOST_ITEMS:]:
        yield from _told(item, display)


def _told(item: Item, display: Display) -> Iterator[ChatEvent]:
    match item.kind:
        case "user" if item.text or item.images:
            source = _SOURCES.get(item.source, "notice")
            yield UserText(own_words(item.text).strip(), source, len(item.images), item.id)
        case "assistant":
            if item.thinking:
                yield ThinkingText(item.thinking)
                yield ThinkingEnd(item.thinking)
            if item.text:
                yield AnswerText(item.text)
                yield AnswerEnd(item.text)
            for call in item.calls:
                name = display(call.name)
                yield started(call, name)
                yield finished(call, name)
            if item.error:
                yield Notice(item.error, "error")
        case "compaction":
            yield Compacted("compaction", summary=item.text)
        case "branch" if item.text and item.text != "fork":
            yield Notice(item.text)
        case "model":
            yield Notice(f"from here on {item.text} answers")
        case "error":
            yield Notice(item.text, "error")
        case "pause":
            yield Notice(f"waits for an answer: {item.text}")
        case _:
            pass
