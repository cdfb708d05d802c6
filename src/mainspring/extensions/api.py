"""The API of extensions, and the registrations of each extension."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, overload

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ConfigError, format_exception
from mainspring.events import Event
from mainspring.extensions.context import ExtensionContext
from mainspring.extensions.events import EVENT_NAMES, EVENTS, Binding, EventHandler, bind_handler, get_bindings
from mainspring.extensions.registry import (
    Command,
    CommandHandler,
    Registry,
    Shortcut,
    ShortcutHandler,
    normalize_command_name,
    normalize_key,
)
from mainspring.loop.hooks import Hook, resolve
from mainspring.loop.hooks.bus import remove_all
from mainspring.messages import AgentMessage
from mainspring.redaction import redact_environment
from mainspring.tools import Tool
from mainspring.tools.define import to_tool

if TYPE_CHECKING:
    from mainspring.models import ThinkingLevel


Extension = Callable[["ExtensionAPI"], "Awaitable[Any] | Any"]
"""A function that gets the API and registers handlers, tools, and commands. Sync or async."""


Detach = Callable[[], None]

EventT = TypeVar("EventT", bound=Hook | Event | Struct)
TypedHandler = Callable[[EventT], Any] | Callable[[EventT, ExtensionContext], Any]
"""A handler whose first parameter has the type of its event."""


class ExtensionSource(Struct, frozen=True, eq=False):
    """An extension and its origin.

    Attributes:
        name: Its unique name.
        function: The extension.
        place: Its file, or another origin; empty for code.
        origin: ``code``, ``builtin``, ``user``, ``project``, or ``package``.
    """

    name: str
    function: Extension
    place: str = ""
    origin: str = "code"


class ExtensionError(Struct, frozen=True):
    """An extension that was not loaded, with the reason.

    Attributes:
        name: Its name.
        reason: The error.
        file: Its file; empty if unknown.
        line: The line of the error; 0 if unknown.
    """

    name: str
    reason: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"extension {self.name}: {self.reason}" + (f" ({place})" if place else "")


class FoundExtensions(Struct, frozen=True):
    """The extensions that were found, in order of precedence, and those that cannot be read."""

    extensions: tuple[ExtensionSource, ...] = ()
    problems: tuple[ExtensionError, ...] = ()


def to_extension_error(name: str, error: BaseException, place: str = "") -> ExtensionError:
    """Create the error of an extension, with the failing line of its file.

    Args:
        name: The extension.
        error: The exception that it raised.
        place: Its file or folder.
    """
    reason = redact_environment(format_exception(error))
    if isinstance(error, SyntaxError) and error.filename:
        return ExtensionError(name, f"{type(error).__name__}: {error.msg}", error.filename, error.lineno or 0)
    home = Path(place).parent if place.endswith("__init__.py") else Path(place) if place else None
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if home is not None and (Path(f.filename) == home or home in Path(f.filename).parents)]
    if not own and not place and len(frames) > 1:
        own = frames[-1:]  # An extension from code has no file: use the location that raised.
    return ExtensionError(name, reason, own[-1].filename if own else place, (own[-1].lineno or 0) if own else 0)


class HandlerRegistration(Struct, frozen=True, eq=False):
    """A handler that an extension has registered.

    Attributes:
        event: The name of the event at registration.
        hook: The hook or event of the bus, by class or name.
        binding: The conversion of the hook to an event; ``None`` to pass the hook itself.
        handler: The handler.
        order: Handlers with a lower number run first.
    """

    event: str
    hook: type[Hook] | type[Event] | str
    binding: Binding | None
    handler: EventHandler
    order: int = 0

    @property
    def hook_name(self) -> str:
        """Return the name of the hook, or the type of the event."""
        return name_of(self.hook)


class Registration:
    """A registration of an extension. It can be detached and attached again.

    Args:
        attach: Activates the registration; returns a function that deactivates it.
        listening: The registered handler, if it is one.
        handler: That handler as registered on the bus.
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
        """Activate the registration, unless it is active."""
        if self._detach is None:
            self._detach = self._attach()

    def detach(self) -> None:
        """Deactivate the registration, if it is active."""
        detach, self._detach = self._detach, None
        if detach is not None:
            detach()


class LoadedExtension:
    """An extension and all of its registrations.

    Args:
        source: The extension.

    Attributes:
        is_active: Whether registrations take effect immediately; False until the extension is fully loaded.
    """

    def __init__(self, source: ExtensionSource) -> None:
        self.source = source
        self.is_active = False
        self._registered: list[Registration] = []

    def add(self, registration: Registration) -> Detach:
        """Add a registration; the returned function removes it."""
        if self.is_active:
            registration.attach()
        self._registered.append(registration)

        def remove() -> None:
            registration.detach()
            if registration in self._registered:
                self._registered.remove(registration)

        return remove

    def attach(self) -> None:
        """Activate all registrations, or none.

        Raises:
            ConfigError: If a name is taken.
        """
        try:
            for registration in self._registered:
                registration.attach()
        except BaseException:
            self.detach()
            raise
        self.is_active = True

    def detach(self) -> None:
        """Deactivate all registrations, last first; they can be activated again."""
        self.is_active = False
        for registration in reversed(self._registered):
            registration.detach()

    @property
    def handlers(self) -> tuple[Callable[[Any], Any], ...]:
        """Return its handlers as registered on the bus."""
        return tuple([r.handler for r in self._registered if r.handler is not None])

    @property
    def listening(self) -> tuple[HandlerRegistration, ...]:
        """Return its registered handlers."""
        return tuple([r.listening for r in self._registered if r.listening is not None])


DeliveryMode = Literal["steer", "follow_up"]
"""The delivery time of a message: at the next tool boundary, or when the run would stop."""


class ExtensionAPI:
    """The API for extensions.

    Registrations during loading take effect once the extension is fully loaded; later ones take effect immediately.

    Attributes:
        name: The extension's name.
        ctx: The agent's context, as passed to handlers.
    """

    def __init__(
        self,
        loaded: LoadedExtension,
        ctx: ExtensionContext,
        commands: Registry[Command],
        shortcuts: Registry[Shortcut],
    ) -> None:
        self.name = loaded.source.name
        self.ctx = ctx
        self._loaded = loaded
        self._commands = commands
        self._shortcuts = shortcuts

    # --- registrations ----------------------------------------------------------------------------------------------

    @overload
    def on(self, event: str, handler: EventHandler, *, order: int = 0) -> Detach: ...
    @overload
    def on(self, event: type[EventT], handler: TypedHandler[EventT], *, order: int = 0) -> Detach: ...
    @overload
    def on(self, event: str | type[Any], *, order: int = 0) -> Callable[[EventHandler], EventHandler]: ...
    def on(self, event: str | type[Any], handler: EventHandler | None = None, *, order: int = 0) -> Any:
        """Call ``handler(event)`` or ``handler(event, ctx)`` for each ``event``.

        Also usable as a decorator.

        Args:
            event: One of `EVENTS` by name or class (``tool_call``, `ToolCallEvent`, ...), a hook of the bus by name or class, or the
                class of an event.
            handler: Sync or async. It changes the fields of the event, or returns a mapping of fields to set.
            order: Handlers with a lower number run first.

        Returns:
            A function that removes the handler; as a decorator, the handler.

        Raises:
            ConfigError: If the event is unknown.
        """
        if handler is None:

            def register(handler: EventHandler) -> EventHandler:
                self._register_handler(event, handler, order)
                return handler

            return register
        return self._register_handler(event, handler, order)

    def _register_handler(self, event: str | type[Any], handler: EventHandler, order: int) -> Detach:
        if isinstance(event, type):
            event = EVENT_NAMES.get(event, event)
        name = name_of(event)
        bindings = get_bindings(event) if isinstance(event, str) else ()  # a class is always the hook itself
        if bindings:
            requested = [HandlerRegistration(name, b.hook, b, handler, order) for b in bindings]
        else:
            _check_event(event)
            requested = [HandlerRegistration(name, event, None, handler, order)]
        removers = [self._loaded.add(self._registration(each)) for each in requested]
        return partial(remove_all, removers)

    def _registration(self, listening: HandlerRegistration) -> Registration:
        handler = bind_handler(
            listening.binding,
            listening.handler,
            self.ctx,
            handler_label(self.name, self._loaded.source.place, listening),
        )
        bus = self.ctx.agent.bus
        return Registration(lambda: bus.on(listening.hook, handler, order=listening.order), listening, handler)

    def register_tool(self, given: Tool | Callable[..., Any]) -> Detach:
        """Offer a tool to the model; a plain function is converted.

        The returned function removes the tool.

        Raises:
            ConfigError: If its name is taken; during loading, the extension is then not loaded.
        """
        registered = replace(to_tool(given), source="extension")
        agent = self.ctx.agent

        def attach() -> Detach:
            agent.tools.add(registered)
            return lambda: agent.tools.remove(registered.name)

        return self._loaded.add(Registration(attach))

    def register_command(self, name: str, handler: CommandHandler, *, description: str = "") -> Detach:
        """Register the command ``/name``. The returned function removes it.

        Args:
            name: Name without the slash.
            handler: ``handler(arguments, ctx)``, sync or async; the text that it returns is shown.
            description: One line for the user.

        Raises:
            ConfigError: If the name is invalid or taken.
        """
        command = Command(normalize_command_name(name), handler, description, self.name)
        return self._loaded.add(Registration(lambda: self._commands.add(command.name, command)))

    def register_shortcut(self, key: str, handler: ShortcutHandler, *, description: str = "") -> Detach:
        """Register a keyboard shortcut, for front ends with a keyboard.

        The returned function removes it.

        Args:
            key: The key, for example ``ctrl+k``.
            handler: ``handler(ctx)``, sync or async.
            description: One line for the user.

        Raises:
            ConfigError: If the key is invalid or taken.
        """
        shortcut = Shortcut(normalize_key(key), handler, description, self.name)
        return self._loaded.add(Registration(lambda: self._shortcuts.add(shortcut.key, shortcut)))

    @property
    def commands(self) -> tuple[Command, ...]:
        """Return all commands of all extensions, by name."""
        return tuple(self._commands)

    # --- actions ----------------------------------------------------------------------------------------------------

    def send_message(self, message: str | AgentMessage, *, deliver: DeliveryMode = "steer") -> None:
        """Send a message to the model. Without a run, the message is queued for the next one.

        Args:
            message: Text of the user, or a whole message.
            deliver: Delivery time.

        Raises:
            ValueError: If ``deliver`` is invalid.
        """
        if deliver not in get_args(DeliveryMode):
            raise ValueError(f"deliver must be {' or '.join(get_args(DeliveryMode))}, not {deliver!r}.")
        agent = self.ctx.agent
        (agent.steer if deliver == "steer" else agent.follow_up)(message)

    def abort(self, reason: str = "aborted by an extension") -> None:
        """Abort the run; does nothing without a run. Thread-safe."""
        self.ctx.abort(reason)

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the names of all tools, including inactive ones."""
        return tuple([t.name for t in self.ctx.agent.tools])

    @property
    def active_tools(self) -> tuple[str, ...]:
        """The names of the tools that the model may call; a new value applies from the next request.

        ``None`` means all.
        """
        return self.ctx.agent.active_tools

    @active_tools.setter
    def active_tools(self, names: Iterable[str] | None) -> None:
        self.ctx.agent.active_tools = names

    @property
    def thinking(self) -> ThinkingLevel | None:
        """The model's reasoning effort; a new value applies from the next request."""
        return self.ctx.agent.thinking

    @thinking.setter
    def thinking(self, level: ThinkingLevel | None) -> None:
        self.ctx.agent.thinking = level


def handler_label(extension: str, place: str, listening: HandlerRegistration) -> str:
    """Return the name of a handler for messages."""
    own = getattr(listening.handler, "__qualname__", type(listening.handler).__name__)
    return f"{own} of the extension {extension}" + (f" ({place})" if place else "")


def name_of(event: str | type[Any]) -> str:
    """Return the name of a hook, or the type of an event."""
    if isinstance(event, str):
        return event
    if issubclass(event, Hook):
        return event.event
    name = getattr(event, "type", None)
    if not isinstance(name, str):
        raise ConfigError(f"{event.__name__} is not an event; short names are {', '.join(EVENTS)}")
    return name


def _check_event(event: str | type[Hook] | type[Event]) -> None:
    try:
        resolve(event)
    except ConfigError as error:
        raise ConfigError(f"{error}; short names are {', '.join(EVENTS)}") from None
