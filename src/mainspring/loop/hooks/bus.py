"""The bus: registered handlers, in the order in which they are called, and listeners of events.

The loop emits hooks and events; plugins and applications handle them. All use the same interface: handlers of permissions,
sessions, telemetry, and applications are called in order of ``order``, then of registration.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar, cast

from mainspring.errors import ConfigError, format_exception
from mainspring.events import Done, Event, RunEvent, StreamError, StreamStart, SubagentEvent
from mainspring.loop.hooks.names import resolve
from mainspring.loop.hooks.run import Hook, SubagentIdentity

logger = logging.getLogger("mainspring")
logger.addHandler(logging.NullHandler())  # the application decides where the log goes


_H = TypeVar("_H", bound=Hook | Event)
_HookT = TypeVar("_HookT", bound=Hook)
Handler = Callable[[_H], Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None]
"""Gets the context of a hook, and changes it or returns the fields to set; or gets an event."""


EventListener = Callable[[Any], None]
"""Gets every event of a run, in order, as it happens. Must not block or raise."""


Hooks = Mapping[str | type[Hook] | type[Event], Handler[Any] | Iterable[Handler[Any]]]
"""One or several handlers for each hook or event, by its class or name."""


RegisteredHandler = tuple[int, Handler[Any], Callable[[Any], bool] | None]
"""A handler with its order, and the condition on which it is called."""


_Table = dict[type[Hook] | type[Event], list[RegisteredHandler]]

_IN_PROCESS = (StreamStart, Done, StreamError)
"""Events that the listeners of a subagent's parent do not get: another event follows that reports the same."""


class HookBus:
    """Calls the handlers of hooks and events, and publishes events to listeners."""

    __slots__ = ("_failed", "_handlers", "_observers", "_of_subagents", "_parent", "_subagent_observers", "_waiting")

    def __init__(self, hooks: Hooks | None = None) -> None:
        self._handlers: _Table = {}
        self._of_subagents: _Table = {}
        self._observers: tuple[EventListener, ...] = ()
        self._failed: set[int] = set()  # IDs of the listeners that raised
        self._subagent_observers: tuple[EventListener, ...] = ()
        self._parent: tuple[HookBus, SubagentIdentity] | None = None
        self._waiting: deque[Event | Coroutine[Any, Any, None]] = deque()
        if hooks:
            self.add(hooks)

    # --- handlers ---------------------------------------------------------------------------------------------------

    def on(
        self, event: type[_H] | str, handler: Handler[_H], *, order: int = 0, subagents: bool = False
    ) -> Callable[[], None]:
        """Register a handler of a hook or an event.

        Args:
            event: The class or the name of the hook, or the class of the event.
            handler: A sync or async function.
            order: Position among the handlers: lower numbers are called first.
            subagents: Whether it handles those of subagents in place of the agent's own: it gets the hook of the subagent,
                or the event within a `SubagentEvent`.

        Returns:
            A function that removes the handler.

        Raises:
            ConfigError: If the hook is unknown, or the handler is not a function.
        """
        target = resolve(event, is_of_subagents=subagents)
        if not callable(handler):
            raise ConfigError(f"A handler of {_name(target.kind)} must be a function, not {handler!r:.80}.")
        kind, table = target.kind, self._of_subagents if target.subagents else self._handlers
        entry = (order + target.order, cast("Handler[Any]", handler), target.where)
        # A stable sort: handlers with the same number stay in the order of registration.
        table[kind] = sorted([*table.get(kind, ()), entry], key=_order)

        def remove() -> None:
            others = [e for e in table.get(kind, ()) if e is not entry]
            if others:
                table[kind] = others
            else:
                table.pop(kind, None)

        return remove

    def add(self, hooks: Hooks, *, order: int = 0) -> Callable[[], None]:
        """Register many handlers; the returned function removes all of them.

        Raises:
            ConfigError: If a name is unknown, or a handler is not a function; then no handler is registered.
        """
        removers: list[Callable[[], None]] = []
        remove = partial(remove_all, removers)
        try:
            for event, given in hooks.items():
                several = cast("Iterable[Handler[Any]]", given) if isinstance(given, Iterable) else (given,)
                removers += [self.on(event, handler, order=order) for handler in several]
        except ConfigError:
            remove()
            raise
        return remove

    def has(self, kind: type[Hook] | type[Event]) -> bool:
        """Return True if the hook or the event has a handler. Check this before you create the context of a hook."""
        return kind in self._handlers

    @property
    def hooks_of_subagents(self) -> tuple[type[Hook], ...]:
        """Return the hooks with a handler for those of subagents."""
        return tuple([kind for kind in self._of_subagents if issubclass(kind, Hook)])

    # --- hooks ------------------------------------------------------------------------------------------------------

    async def emit(self, context: _HookT, *, only: Callable[[int, Handler[Any]], bool] | None = None) -> _HookT:
        """Call every handler in turn, and return the context with their changes.

        ``only`` returns True for each order and handler to call.
        A cancellation skips the remaining handlers, unless the hook is `Hook.must_finish`: then it is raised after all of them.
        """
        rest = self.start(context, only=only)
        if rest is not None:
            await rest
        return context

    def start(
        self, context: Hook, *, only: Callable[[int, Handler[Any]], bool] | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Call the handlers like `emit`, up to the first async handler.

        Returns:
            A coroutine for the first async handler and all after it; ``None`` if all handlers were called.
        """
        return self._call_handlers(context, iter(self._handlers.get(type(context), ())), only)

    def start_of_subagent(self, hook: Hook) -> Coroutine[Any, Any, None] | None:
        """Call the handlers for hooks of subagents like `start`."""
        return self._call_handlers(hook, iter(self._of_subagents.get(type(hook), ())), None)

    def _call_handlers(
        self,
        context: Hook | Event,
        handlers: Iterator[RegisteredHandler],
        only: Callable[[int, Handler[Any]], bool] | None,
    ) -> Coroutine[Any, Any, None] | None:
        for order, handler, where in handlers:
            if only is not None and not only(order, handler):
                continue
            if where is not None and not where(context.event if isinstance(context, SubagentEvent) else context):
                continue
            try:
                answer = handler(context)
                if answer is not None:
                    if inspect.isawaitable(answer):
                        return self._await_handler(
                            context, handler, answer, lambda: self._call_handlers(context, handlers, only)
                        )
                    _set_fields(context, answer)
            except (Exception, asyncio.CancelledError) as error:
                _handle_handler_error(context, handler, error)
            if isinstance(context, Hook) and context.is_decided:
                break
        return None

    async def _await_handler(
        self,
        context: Hook | Event,
        handler: Handler[Any],
        answer: Awaitable[Mapping[str, Any] | None],
        go_on: Callable[[], Coroutine[Any, Any, None] | None],
    ) -> None:
        stopped: asyncio.CancelledError | None = None
        try:
            _set_fields(context, await answer)
        except (Exception, asyncio.CancelledError) as error:
            if not isinstance(error, asyncio.CancelledError) or not _cancelled():
                _handle_handler_error(context, handler, error)
            elif not isinstance(context, Hook) or context.must_finish:
                stopped = error
            else:
                raise
        rest = None if isinstance(context, Hook) and context.is_decided else go_on()
        if rest is not None:
            await rest
        if stopped is not None:
            raise stopped

    # --- events -----------------------------------------------------------------------------------------------------

    def subscribe(self, observer: EventListener, *, subagents: bool = False) -> Callable[[], None]:
        """Pass every event to ``observer``; the returned function ends the subscription.

        Args:
            observer: The listener.
            subagents: Whether it also gets the events of subagents, each within a `SubagentEvent`.

        Raises:
            TypeError: If it is async, since the bus does not await listeners. Handlers of events may be async.
        """
        reject_async(observer)
        self._observers = (*self._observers, observer)
        if subagents:
            self._subagent_observers = (*self._subagent_observers, observer)

        def remove() -> None:
            self._observers = tuple([o for o in self._observers if o is not observer])
            self._subagent_observers = tuple([o for o in self._subagent_observers if o is not observer])

        return remove

    def forward_to(self, parent: HookBus, subagent: SubagentIdentity) -> None:
        """Forward the events of this bus, of a subagent, to its parent, if something there gets them."""
        self._parent = parent, subagent

    def is_heard(self, kind: type[Event]) -> bool:
        """Return True if a listener or handler gets events of this class. Check this before you create a costly event."""
        return bool(self._observers) or kind in self._handlers or self._is_heard_above(kind)

    def is_heard_of_subagents(self, kind: type[Event]) -> bool:
        """Return True if a listener or handler here, or above, gets such events of subagents."""
        return (
            bool(self._subagent_observers)
            or kind in self._of_subagents
            or SubagentEvent in self._handlers
            or self._is_heard_above(kind)
        )

    def _is_heard_above(self, kind: type[Event]) -> bool:
        above = self._parent
        return above is not None and kind not in _IN_PROCESS and above[0].is_heard_of_subagents(kind)

    def publish(self, event: Event) -> None:
        """Publish an event from code that cannot await: async handlers are called with the next `notify`."""
        rest = self.start_event(event)
        if rest is not None:
            self._waiting.append(rest)

    async def notify(self, event: Event) -> None:
        """Publish an event: call the listeners, then the handlers of such events, and await the async ones."""
        rest = self.start_event(event)
        if rest is not None:
            await rest

    def start_event(self, event: Event) -> Coroutine[Any, Any, None] | None:
        """Publish an event up to the first async handler.

        Returns:
            A coroutine for the first async handler and all after it; ``None`` if all handlers were called.
        """
        for observer in self._observers:  # inlined, since each delta of a response is published here
            try:
                observer(event)
            except Exception:
                self._log_listener_error(observer, event)
        if self._waiting:
            self._waiting.append(event)
            return self.call_waiting()
        if type(event) not in self._handlers and self._parent is None:
            return None
        return self._call_event_handlers(event)

    def _log_listener_error(self, observer: EventListener, event: Event) -> None:
        """Log the first failure of a listener as an error, and later ones for debugging: it may fail on every delta."""
        is_first = id(observer) not in self._failed
        self._failed.add(id(observer))
        level = logging.ERROR if is_first else logging.DEBUG
        text = "The listener %s failed on %s. The run continues; later failures of it are logged at the level DEBUG."
        logger.log(level, text, _handler_name(observer), event.type, exc_info=True)

    async def call_waiting(self) -> None:
        """Call the handlers of events that `publish` could not await."""
        while self._waiting:
            waiting = self._waiting.popleft()
            rest = self._call_event_handlers(waiting) if isinstance(waiting, Event) else waiting
            if rest is not None:
                await rest

    def _call_event_handlers(self, event: Event) -> Coroutine[Any, Any, None] | None:
        rest = self._call_handlers(event, iter(self._handlers.get(type(event), ())), None)
        return self._forward(cast("RunEvent", event), (), rest)

    def start_subagent_event(self, event: SubagentEvent) -> Coroutine[Any, Any, None] | None:
        """Publish the event of a subagent like `start_event`, to the listeners and handlers that want those."""
        for observer in self._subagent_observers:
            try:
                observer(event)
            except Exception:
                self._log_listener_error(observer, event)
        handlers = [*self._of_subagents.get(type(event.event), ()), *self._handlers.get(SubagentEvent, ())]
        rest = self._call_handlers(event, iter(sorted(handlers, key=_order)), None)
        return self._forward(event.event, event.path, rest)

    def _forward(
        self, event: RunEvent, path: tuple[str, ...], rest: Coroutine[Any, Any, None] | None
    ) -> Coroutine[Any, Any, None] | None:
        """Publish an event above, after ``rest``, if it is heard there."""
        if self._parent is None or not self._is_heard_above(type(event)):
            return rest
        parent, subagent = self._parent
        wrapped = SubagentEvent((subagent.id, *path), event)
        if rest is None:
            return parent.start_subagent_event(wrapped)
        return _call_in_order(rest, lambda: parent.start_subagent_event(wrapped))


def _order(entry: RegisteredHandler) -> int:
    return entry[0]


def _name(kind: type[Any] | Hook | Event) -> str:
    if isinstance(kind, Event) or (isinstance(kind, type) and issubclass(kind, Event)):
        return str(kind.type)
    return str(cast("Any", kind).event)


async def _call_in_order(
    first: Coroutine[Any, Any, None], start: Callable[[], Coroutine[Any, Any, None] | None]
) -> None:
    try:
        await first
    finally:
        rest = start()
        if rest is not None:
            await rest


def remove_all(removers: Iterable[Callable[[], None]]) -> None:
    """Remove several handlers: call the functions that `HookBus.on` returned."""
    for remove in removers:
        remove()


class HookRegistry:
    """Registers handlers of hooks and events; available as ``agent.hooks``."""

    __slots__ = ("_register",)

    def __init__(self, register: Callable[[Any, Handler[Any]], Callable[[], None]]) -> None:
        self._register = register

    def hook(self, event: type[_H] | str, handler: Handler[_H]) -> Callable[[], None]:
        """Register ``handler``; the returned function removes it.

        Raises:
            ConfigError: If the hook is unknown.
        """
        return self._register(event, handler)


def _set_fields(context: Hook | Event, answer: Any) -> None:
    if answer is not None and answer is not context:
        if not isinstance(answer, Mapping):
            raise TypeError(f"it must return None or a mapping of fields to set, not {answer!r:.80}")
        for field, value in cast("Mapping[str, Any]", answer).items():
            setattr(context, field, value)


def _handler_name(handler: Callable[..., Any]) -> str:
    return str(getattr(handler, "__qualname__", repr(handler)))


def _handle_handler_error(context: Hook | Event, handler: Handler[Any], error: BaseException) -> None:
    name = _handler_name(handler)
    logger.error("The handler %s of %s failed. The run continues.", name, _name(context), exc_info=error)
    if isinstance(context, Hook) and context.gate:
        context.block_on_error(f"the check {name} failed ({format_exception(error)})")


def _cancelled() -> bool:
    """Return True if this task was cancelled; a handler may also raise CancelledError because of another task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def reject_async(observer: EventListener) -> None:
    """Raise TypeError for an async function, since listeners are not awaited."""
    if inspect.iscoroutinefunction(observer):
        raise TypeError(
            f"{observer.__qualname__} is async. An event listener must be a plain function; a hook handler can be async."
        )
