"""Commands and shortcuts that extensions offer, as data for whatever front end there is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re

CommandHandler = Callable[..., "str | None | Awaitable[str | None]"]
"""``handler(arguments, ctx)``, sync or async: the text behind the command's name, as it was typed. What it returns is shown."""

ShortcutHandler = Callable[..., "Any | Awaitable[Any]"]
"""``handler(ctx)``, sync or async."""

_NAME = lazy_re(r"[a-z0-9][a-z0-9_:-]{0,63}")
_MODIFIERS = ("ctrl", "alt", "shift")


class Command(Struct, frozen=True, eq=False):
    """A command, typed as ``/name arguments``.

    Attributes:
        name: Its name, without the slash.
        handler: Does it.
        description: One line for people.
        extension: Who offers it.
    """

    name: str
    handler: CommandHandler
    description: str = ""
    extension: str = ""


class Shortcut(Struct, frozen=True, eq=False):
    """A key that does something.

    Attributes:
        key: As in ``ctrl+k``, ``alt+shift+p``, ``f5``.
        handler: Does it.
        description: One line for people.
        extension: Who offers it.
    """

    key: str
    handler: ShortcutHandler
    description: str = ""
    extension: str = ""


_T = TypeVar("_T", Command, Shortcut)


class Registry(Generic[_T]):
    """What is offered, by name; a name is given once. Those that are reserved belong to the front end.

    Args:
        what: What is in here, for messages.
        reserved: Names that no extension gets.
    """

    def __init__(self, what: str, reserved: frozenset[str] = frozenset()) -> None:
        self.reserved = reserved
        self._subject = what
        self._offers: dict[str, _T] = {}

    def add(self, name: str, offer: _T) -> Callable[[], None]:
        """Add one; the returned function takes it away again.

        Raises:
            ConfigError: If the name is taken or reserved.
        """
        taken = self._offers.get(name)
        if taken is not None or name in self.reserved:
            owner = f"the extension {taken.extension!r}" if taken else "the program itself"
            raise ConfigError(f"the {self._subject} {name!r} belongs to {owner}; choose another one")
        self._offers[name] = offer

        def remove() -> None:
            if self._offers.get(name) is offer:
                del self._offers[name]

        return remove

    def get(self, name: str) -> _T | None:
        """The one of that name."""
        return self._offers.get(name)

    def __iter__(self) -> Iterator[_T]:
        return iter(sorted(self._offers.values(), key=lambda o: o.name if isinstance(o, Command) else o.key))

    def __len__(self) -> int:
        return len(self._offers)


def normalize_command_name(name: str) -> str:
    """The name of a command as it is kept: without a slash in front, in lower case.

    Raises:
        ConfigError: If it cannot be typed as one.
    """
    requested = name.removeprefix("/").lower()
    if not _NAME.fullmatch(requested):
        raise ConfigError(f"a command cannot be named {name!r}: letters, digits, '-', '_' and ':', 64 at most")
    return requested


def normalize_key(key: str) -> str:
    """A key as it is kept: modifiers in one order, all in lower case.

    Raises:
        ConfigError: If it is none.
    """
    *modifiers, last = key.lower().replace(" ", "").split("+")
    if not last or len(set(modifiers)) != len(modifiers) or not set(modifiers) <= set(_MODIFIERS):
        raise ConfigError(f"{key!r} is no key; write it as in ctrl+k, alt+shift+p or f5")
    return "+".join([m for m in _MODIFIERS if m in modifiers] + [last])
