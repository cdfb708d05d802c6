"""What an extension gets: everything it can register, and what it can do to the agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from msgspec.structs import replace

from mainspring.errors import ConfigError
from mainspring.extensions.context import ExtensionContext
from mainspring.extensions.events import EVENTS, EventHandler, bind_handler, get_bindings
from mainspring.extensions.extension import Detach, HandlerRegistration, LoadedExtension, Registration
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
from mainspring.tools import Tool, tool

if TYPE_CHECKING:
    from mainspring.models import ThinkingLevel

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
