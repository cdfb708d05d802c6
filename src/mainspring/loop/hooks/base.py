"""Validation of the fields that hook handlers set.

An invalid value raises TypeError in the handler, at the line that sets it. The bus logs the failure, or blocks the call if the
hook is a gate; the field keeps its previous value.
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
        raise TypeError(f"This field must be text, not {type(value).__name__}.")
    return value


def require_messages(value: Any) -> list[AgentMessage]:
    """Return the value as a list of messages; a string or a single message becomes a list of one.

    Raises:
        TypeError: If the list contains anything else.
    """
    if isinstance(value, str | Message | CustomMessage):
        return to_messages(value)
    messages: list[Any] = cast("list[Any]", value) if isinstance(value, list) else list(value)
    wrong = [kind.__name__ for kind in set(map(type, messages)) if not issubclass(kind, Message | CustomMessage)]
    if wrong:
        raise TypeError(f"This field must contain messages, not {', '.join(sorted(wrong))}.")
    return messages


def require_message_tuple(value: Any) -> tuple[AgentMessage, ...]:
    """Return the value as a tuple of messages; see `require_messages`."""
    return tuple(require_messages(value))


def require_text_or_messages(value: Any) -> str | list[AgentMessage]:
    """Return the value if it is a string, otherwise a list of messages; see `require_messages`."""
    return value if isinstance(value, str) else require_messages(value)
