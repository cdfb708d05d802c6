"""One extension: where it comes from, what it has registered, and what is wrong with it."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mainspring.extensions.events import Binding, EventHandler
from mainspring.loop.hooks import Hook
from mainspring.redaction import redact

if TYPE_CHECKING:
    from mainspring.extensions.api import ExtensionAPI

Extension = Callable[["ExtensionAPI"], "Awaitable[Any] | Any"]
"""A function that gets the api and registers what it wants. Sync or async."""

Detach = Callable[[], None]


class ExtensionSource(Struct, frozen=True, eq=False):
    """An extension and where it comes from.

    Attributes:
        name: Its name; each is used once.
        function: The extension.
        place: Its file, or what else it comes from; empty for code.
        origin: ``code``, ``builtin``, ``user``, ``project`` or ``package``.
    """

    name: str
    function: Extension
    place: str = ""
    origin: str = "code"


class ExtensionError(Struct, frozen=True):
    """An extension that was not loaded, and why.

    Attributes:
        name: Its name.
        reason: What is wrong.
        file: Where; empty where that is unknown.
        line: In which line; 0 where that is unknown.
    """

    name: str
    reason: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"extension {self.name}: {self.reason}" + (f" ({place})" if place else "")


class FoundExtensions(Struct, frozen=True):
    """What was found: extensions in the order in which they count, and what gives none."""

    extensions: tuple[ExtensionSource, ...] = ()
    problems: tuple[ExtensionError, ...] = ()


def to_extension_error(name: str, error: BaseException, place: str = "") -> ExtensionError:
    """What is wrong, with the line of the extension's own file where it went wrong.

    Args:
        name: The extension.
        error: What it raised.
        place: Its file or folder.
    """
    reason = redact(f"{type(error).__name__}: {error}")
    if isinstance(error, SyntaxError) and error.filename:
        return ExtensionError(name, f"{type(error).__name__}: {error.msg}", error.filename, error.lineno or 0)
    home = Path(place).parent if place.endswith("__init__.py") else Path(place) if place else None
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if home is not None and (Path(f.filename) == home or home in Path(f.filename).parents)]
    if not own and not place and len(frames) > 1:
        own = frames[-1:]  # code has no file of its own: the place that raised
    return ExtensionError(name, reason, own[-1].filename if own else place, (own[-1].lineno or 0) if own else 0)


class HandlerRegistration(Struct, frozen=True, eq=False):
    """A handler that an extension has registered.

    Attributes:
        event: The name under which it did.
        hook: The hook of the bus.
        binding: How its event is made; ``None`` hands it the hook.
        handler: The handler.
        order: Handlers with a lower number are asked first.
    """

    event: str
    hook: type[Hook]
    binding: Binding | None
    handler: EventHandler
    order: int = 0


class Registration:
    """Something an extension has registered. It can be taken away and put back.

    Args:
        attach: Puts it where it belongs; what it returns takes it away.
        listening: What it listens to, if it is a handler.
        handler: That handler, as the bus has it.
    """

    __slots__ = ("_attach", "_detach", "handler", "listening")

    def __init__(
        self,
        attach: Callable[[], Detach],
        listening: HandlerRegistration | None = None,
        handler: Callable[[Any], Any] | None = None,
    ) -> None:
        self.listening = listening
        self.handler = handler
        self._attach = attach
        self._detach: Detach | None = None

    def attach(self) -> None:
        """Put it where it belongs, unless it is there."""
        if self._detach is None:
            self._detach = self._attach()

    def detach(self) -> None:
        """Take it away, if it is there."""
        detach, self._detach = self._detach, None
        if detach is not None:
            detach()


class LoadedExtension:
    """An extension and all that it has registered.

    Args:
        source: The extension.

    Attributes:
        live: Whether what it registers takes effect at once; not before all of it has been loaded.
    """

    def __init__(self, source: ExtensionSource) -> None:
        self.source = source
        self.live = False
        self._registered: list[Registration] = []

    def add(self, registration: Registration) -> Detach:
        """Keep a registration; the returned function ends it."""
        if self.live:
            registration.attach()
        self._registered.append(registration)

        def remove() -> None:
            registration.detach()
            if registration in self._registered:
                self._registered.remove(registration)

        return remove

    def attach(self) -> None:
        """Let everything take effect: all of it, or nothing.

        Raises:
            ConfigError: If a name is taken.
        """
        try:
            for registration in self._registered:
                registration.attach()
        except BaseException:
            self.detach()
            raise
        self.live = True

    def detach(self) -> None:
        """Take everything away, the last first; it can be attached again."""
        self.live = False
        for registration in reversed(self._registered):
            registration.detach()

    @property
    def handlers(self) -> tuple[Callable[[Any], Any], ...]:
        """Its handlers, as the bus has them."""
        return tuple([r.handler for r in self._registered if r.handler is not None])

    @property
    def listening(self) -> tuple[HandlerRegistration, ...]:
        """What it listens to."""
        return tuple([r.listening for r in self._registered if r.listening is not None])
