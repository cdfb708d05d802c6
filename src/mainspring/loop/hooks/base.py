"""Fields of a context that take only what can be used.

What else is set is a failure of the handler, raised at its own line: it is logged, or blocks where the hook is a gate, and the
field keeps what it had.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, cast

from mainspring.messages import AgentMessage, CustomMessage, Message, to_messages


def validated_property(slot: str, check: Callable[[Any], Any]) -> Any:
    """Create a property that stores its value in ``slot``; ``check`` returns a new value, or raises TypeError."""

    def put(context: Any, value: Any) -> None:
        setattr(context, slot, check(value))

    return property(attrgetter(slot), put)


def text(value: Any) -> str:
    """Return the value if it is text.

    Raises:
        TypeError: If it is not text.
    """
    if not isinstance(value, str):
        raise TypeError(f"this field takes text, not {type(value).__name__}")
    return value


def require_messages(value: Any) -> list[AgentMessage]:
    """A list of messages; a string, or one message, is a list of one.

    Raises:
        TypeError: If something else is in it.
    """
    if isinstance(value, str | Message | CustomMessage):
        return to_messages(value)
    messages: list[Any] = cast("list[Any]", value) if isinstance(value, list) else list(value)
    wrong = [kind.__name__ for kind in set(map(type, messages)) if not issubclass(kind, Message | CustomMessage)]
    if wrong:
        raise TypeError(f"this field takes messages, not {', '.join(sorted(wrong))}")
    return messages


def require_message_tuple(value: Any) -> tuple[AgentMessage, ...]:
    """The same as a tuple."""
    return tuple(require_messages(value))


def require_text_or_messages(value: Any) -> str | list[AgentMessage]:
    """Text, or a list of messages."""
    return value if isinstance(value, str) else require_messages(value)
