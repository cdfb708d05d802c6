"""The API of extensions, and the registrations of each extension."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ConfigError
from mainspring.extensions.context import ExtensionContext
from mainspring.extensions.events import EVENTS, Binding, EventHandler, bind_handler, get_bindings
from mainspring.extensions.registry import (
    Command,
    CommandHandler,
    Registry,
    Shortcut,
    ShortcutHandler,
    normalize_command_name,
    normalize_key,
)
from mainspring.loop.hooks import Hook, hook_class
from mainspring.messages import AgentMessage
from mainspring.redaction import redact
from mainspring.tools import Tool, tool

if TYPE_CHECKING:
    from mainspring.models import ThinkingLevel


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


DeliveryMode = Literal["steer", "follow_up"]
"""When a message is seen: at the next tool boundary, or when the run would stop."""


class ExtensionAPI:
    """The door through which an extension acts. What it registers while it is loaded takes effect once all of it is loaded;
    later, at once.

    Attributes:
        name: The extension's name.
        ctx: The agent, as handlers see it.
    """

    def __init__(
        self, loaded: LoadedExtension, ctx: ExtensionContext, commands: Registry[Command], shortcuts: Registry[Shortcut]
    ) -> None:
        self.name = loaded.source.name
        self.ctx = ctx
        self._load_outputs = loaded
        self._commands = commands
        self._shortcuts = shortcuts

    # --- what it registers ------------------------------------------------------------------------------------------

    @overload
    def on(self, event: str | type[Hook], handler: EventHandler, *, order: int = 0) -> Detach: ...
    @overload
    def on(self, event: str | type[Hook], *, order: int = 0) -> Callable[[EventHandler], EventHandler]: ...
    def on(self, event: str | type[Hook], handler: EventHandler | None = None, *, order: int = 0) -> Any:
        """Call ``handler(event)`` or ``handler(event, ctx)`` whenever ``event`` happens. A decorator, too.

        Args:
            event: One of `EVENTS` (``tool_call``, ``input``, ...), or a hook of the bus by name or class.
            handler: Sync or async. It changes the fields of the event, or returns a mapping of fields to set.
            order: Handlers with a lower number are asked first.

        Returns:
            A function that takes the handler away; as a decorator, the handler.

        Raises:
            ConfigError: If there is no such event.
        """
        if handler is None:

            def register(handler: EventHandler) -> EventHandler:
                self._register_handler(event, handler, order)
                return handler

            return register
        return self._register_handler(event, handler, order)

    def _register_handler(self, event: str | type[Hook], handler: EventHandler, order: int) -> Detach:
        name = event if isinstance(event, str) else event.event
        bindings = get_bindings(event) if isinstance(event, str) else ()  # a class is always the hook itself
        if bindings:
            wanted = [HandlerRegistration(name, b.hook, b, handler, order) for b in bindings]
        else:
            wanted = [HandlerRegistration(name, _hook(event), None, handler, order)]
        removers = [self._load_outputs.add(self._registration(each)) for each in wanted]

        def remove() -> None:
            for take_away in removers:
                take_away()

        return remove

    def _registration(self, listening: HandlerRegistration) -> Registration:
        handler = bind_handler(
            listening.binding,
            listening.handler,
            self.ctx,
            handler_label(self.name, self._load_outputs.source.place, listening),
        )
        bus = self.ctx.agent.bus
        return Registration(lambda: bus.on(listening.hook, handler, order=listening.order), listening, handler)

    def register_tool(self, given: Tool | Callable[..., Any]) -> Detach:
        """Offer a tool to the model; a plain function becomes one. The returned function takes it away.

        Raises:
            ConfigError: If its name is taken; while the extension is loaded, that keeps the extension out.
        """
        made = replace(given if isinstance(given, Tool) else tool(given), source="extension")
        agent = self.ctx.agent

        def attach() -> Detach:
            agent.tools.add(made)
            return lambda: agent.tools.remove(made.name)

        return self._load_outputs.add(Registration(attach))

    def register_command(self, name: str, handler: CommandHandler, *, description: str = "") -> Detach:
        """Offer ``/name``. The returned function takes it away.

        Args:
            name: Without the slash.
            handler: ``handler(arguments, ctx)``, sync or async; the text that it returns is shown.
            description: One line for people.

        Raises:
            ConfigError: If the name is none, or taken.
        """
        command = Command(normalize_command_name(name), handler, description, self.name)
        return self._load_outputs.add(Registration(lambda: self._commands.add(command.name, command)))

    def register_shortcut(self, key: str, handler: ShortcutHandler, *, description: str = "") -> Detach:
        """Do something on a key, in front ends that have keys. The returned function takes it away.

        Args:
            key: As in ``ctrl+k``.
            handler: ``handler(ctx)``, sync or async.
            description: One line for people.

        Raises:
            ConfigError: If the key is none, or taken.
        """
        shortcut = Shortcut(normalize_key(key), handler, description, self.name)
        return self._load_outputs.add(Registration(lambda: self._shortcuts.add(shortcut.key, shortcut)))

    @property
    def commands(self) -> tuple[Command, ...]:
        """All commands of all extensions, by name."""
        return tuple(self._commands)

    # --- what it does -----------------------------------------------------------------------------------------------

    def send_message(self, message: str | AgentMessage, *, deliver: DeliveryMode = "steer") -> None:
        """Have the model see a message. Without a run it waits for the next one.

        Args:
            message: Text of the user, or a whole message.
            deliver: When.

        Raises:
            ValueError: If ``deliver`` is neither.
        """
        if deliver not in get_args(DeliveryMode):
            raise ValueError(f"deliver is {deliver!r}; it can be {' or '.join(get_args(DeliveryMode))}")
        agent = self.ctx.agent
        (agent.steer if deliver == "steer" else agent.follow_up)(message)

    def abort(self, reason: str = "aborted by an extension") -> None:
        """Stop the run; without one nothing happens. Safe from any thread."""
        self.ctx.abort(reason)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of all tools, those that are not active too."""
        return tuple([t.name for t in self.ctx.agent.tools])

    @property
    def active_tools(self) -> tuple[str, ...]:
        """The names of the tools that the model may call; set, they hold from the next request on. ``None`` is all."""
        return self.ctx.agent.active_tools

    @active_tools.setter
    def active_tools(self, names: Iterable[str] | None) -> None:
        self.ctx.agent.active_tools = names

    @property
    def thinking(self) -> ThinkingLevel | None:
        """How much the model reasons; set, it holds from the next request on."""
        return self.ctx.agent.thinking

    @thinking.setter
    def thinking(self, level: ThinkingLevel | None) -> None:
        self.ctx.agent.thinking = level


def handler_label(extension: str, place: str, listening: HandlerRegistration) -> str:
    """A handler's name in messages."""
    own = getattr(listening.handler, "__qualname__", type(listening.handler).__name__)
    return f"{own} of the extension {extension}" + (f" ({place})" if place else "")


def _hook(event: str | type[Hook]) -> type[Hook]:
    try:
        return hook_class(event)
    except ConfigError as error:
        raise ConfigError(f"{error}; short names are {', '.join(EVENTS)}") from None
