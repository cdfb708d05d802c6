"""Commands and shortcuts of extensions, as data for any front end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re

CommandHandler = Callable[..., "str | None | Awaitable[str | None]"]
"""``handler(arguments, ctx)``, sync or async; ``arguments`` is the text after the command's name. The returned text is shown."""

ShortcutHandler = Callable[..., "Any | Awaitable[Any]"]
"""``handler(ctx)``, sync or async."""

_NAME = lazy_re(r"[a-z0-9][a-z0-9_:-]{0,63}")
_MODIFIERS = ("ctrl", "alt", "shift")


class Command(Struct, frozen=True, eq=False):
    """A command, typed as ``/name arguments``.

    Attributes:
        name: Its name, without the slash.
        handler: Runs the command.
        description: One line for the user.
        extension: The extension that offers it.
    """

    name: str
    handler: CommandHandler
    description: str = ""
    extension: str = ""


class Shortcut(Struct, frozen=True, eq=False):
    """A keyboard shortcut.

    Attributes:
        key: The key, for example ``ctrl+k``, ``alt+shift+p``, or ``f5``.
        handler: Runs the shortcut.
        description: One line for the user.
        extension: The extension that offers it.
    """

    key: str
    handler: ShortcutHandler
    description: str = ""
    extension: str = ""


_T = TypeVar("_T", Command, Shortcut)


class Registry(Generic[_T]):
    """Registered entries by unique name. Reserved names belong to the front end.

    Args:
        what: Kind of the entries, for messages.
        reserved: Names that extensions cannot register.
    """

    def __init__(self, what: str, reserved: frozenset[str] = frozenset()) -> None:
        self.reserved = reserved
        self._subject = what
        self._offers: dict[str, _T] = {}

    def add(self, name: str, offer: _T) -> Callable[[], None]:
        """Add an entry; the returned function removes it.

        Raises:
            ConfigError: If the name is taken or reserved.
        """
        existing = self._offers.get(name)
        if existing is not None or name in self.reserved:
            owner = f"the extension {existing.extension!r}" if existing else "the program itself"
            raise ConfigError(f"The {self._subject} {name!r} is already registered by {owner}. Choose another name.")
        self._offers[name] = offer

        def remove() -> None:
            if self._offers.get(name) is offer:
                del self._offers[name]

        return remove

    def get(self, name: str) -> _T | None:
        """Return the entry of a name."""
        return self._offers.get(name)

    def __iter__(self) -> Iterator[_T]:
        return iter(sorted(self._offers.values(), key=lambda o: o.name if isinstance(o, Command) else o.key))

    def __len__(self) -> int:
        return len(self._offers)


def normalize_command_name(name: str) -> str:
    """Normalize the name of a command: without a leading slash, in lower case.

    Raises:
        ConfigError: If the name is invalid.
    """
    requested = name.removeprefix("/").lower()
    if not _NAME.fullmatch(requested):
        raise ConfigError(f"Invalid command name: {name!r}. Use at most 64 letters, digits, '-', '_', and ':'.")
    return requested


def normalize_key(key: str) -> str:
    """Normalize a key: modifiers in a fixed order, all in lower case.

    Raises:
        ConfigError: If the key is invalid.
    """
    *modifiers, last = key.lower().replace(" ", "").split("+")
    if not last or len(set(modifiers)) != len(modifiers) or not set(modifiers) <= set(_MODIFIERS):
        raise ConfigError(f"Invalid key: {key!r}. Write it like ctrl+k, alt+shift+p, or f5.")
    return "+".join([m for m in _MODIFIERS if m in modifiers] + [last])
