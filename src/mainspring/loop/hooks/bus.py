"""The hook bus: the table of all hooks by name, and the registered handlers in the order in which they are called.

The loop emits hooks; plugins and applications handle them. All use the same interface: handlers of permissions, sessions,
telemetry, and applications are called in order of ``order``, then of registration.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from mainspring.errors import ConfigError
from mainspring.events.base import Event
from mainspring.loop.hooks import features as _budget_hooks
from mainspring.loop.hooks import features as _feature_hooks
from mainspring.loop.hooks import features as _oauth_hook
from mainspring.loop.hooks import features as _output_hook
from mainspring.loop.hooks import session as _entry_hooks
from mainspring.loop.hooks import subagents as _child_hooks
from mainspring.loop.hooks.run import Hook

__all__ = ["HOOKS", "_budget_hooks", "_child_hooks", "_entry_hooks", "_feature_hooks", "_oauth_hook", "_output_hook"]


def _collect_hooks() -> dict[str, type[Hook]]:
    found: dict[str, type[Hook]] = {}
    queue: list[type[Hook]] = [Hook]
    while queue:
        kind = queue.pop()
        queue.extend(kind.__subclasses__())
        if kind.event:
            found[kind.event] = kind
    return dict(sorted(found.items()))


HOOKS: dict[str, type[Hook]] = _collect_hooks()
"""Every hook, by name."""


logger = logging.getLogger("mainspring")
logger.addHandler(logging.NullHandler())  # the application decides where the log goes


_H = TypeVar("_H", bound=Hook)
Handler = Callable[[_H], Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None]
"""Gets the context of a hook, and changes it or returns the fields to set."""


EventListener = Callable[[Any], None]
"""Gets every event of a run, in order, as it happens. Must not block or raise."""


Hooks = Mapping[str | type[Hook], Handler[Any] | Iterable[Handler[Any]]]
"""One or several handlers for each hook, by the hook's class or name."""


RegisteredHandler = tuple[int, Handler[Any]]
"""A handler with its order."""


class HookBus:
    """Calls the handlers of hooks, and publishes events to listeners."""

    __slots__ = ("_handlers", "_observers")

    def __init__(self, hooks: Hooks | None = None) -> None:
        self._handlers: dict[type[Hook], list[RegisteredHandler]] = {}
        self._observers: tuple[EventListener, ...] = ()
        if hooks:
            self.add(hooks)

    def on(self, event: type[_H] | str, handler: Handler[_H], *, order: int = 0) -> Callable[[], None]:
        """Register a handler of a hook.

        Args:
            event: The context class or the name of the hook.
            handler: A sync or async function.
            order: Position among the handlers: lower numbers are called first.

        Returns:
            A function that removes the handler.

        Raises:
            ConfigError: If the hook is unknown, or the handler is not a function.
        """
        kind = hook_class(event)
        if not callable(handler):
            raise ConfigError(f"A handler of {kind.event} must be a function, not {handler!r:.80}.")
        entry = (order, handler)
        handlers = [*self._handlers.get(kind, ()), entry]
        handlers.sort(
            key=lambda e: e[0]
        )  # a stable sort: handlers with the same number stay in the order of registration
        self._handlers[kind] = handlers

        def remove() -> None:
            others = [e for e in self._handlers.get(kind, ()) if e is not entry]
            if others:
                self._handlers[kind] = others
            else:
                self._handlers.pop(kind, None)

        return remove

    def add(self, hooks: Hooks, *, order: int = 0) -> Callable[[], None]:
        """Register many handlers; the returned function removes all of them.

        Raises:
            ConfigError: If a name is unknown, or a handler is not a function; then no handler is registered.
        """
        pairs: list[tuple[type[Hook], Handler[Any]]] = []
        for event, given in hooks.items():
            kind = hook_class(event)
            several = cast("Iterable[Handler[Any]]", given) if isinstance(given, Iterable) else (given,)
            pairs += [(kind, handler) for handler in several]
        removers: list[Callable[[], None]] = []

        def remove() -> None:
            for take_away in removers:
                take_away()

        try:
            for kind, handler in pairs:
                removers.append(self.on(kind, handler, order=order))
        except ConfigError:
            remove()
            raise
        return remove

    def has(self, event: type[Hook]) -> bool:
        """Return True if the hook has a handler. Check this before you create a context."""
        return event in self._handlers

    async def emit(self, context: _H, *, only: Callable[[int, Handler[Any]], bool] | None = None) -> _H:
        """Call every handler in turn, and return the context with their changes.

        ``only`` returns True for each order and handler to call.
        A cancellation skips the remaining handlers, unless the hook is `Hook.kept`: then it is raised after all of them.
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

    def _call_handlers(
        self, context: Hook, handlers: Iterator[RegisteredHandler], only: Callable[[int, Handler[Any]], bool] | None
    ) -> Coroutine[Any, Any, None] | None:
        for order, handler in handlers:
            if only is not None and not only(order, handler):
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
            if context.is_decided:
                break
        return None

    async def _await_handler(
        self,
        context: Hook,
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
            elif context.kept:
                stopped = error
            else:
                raise
        rest = None if context.is_decided else go_on()
        if rest is not None:
            await rest
        if stopped is not None:
            raise stopped

    def subscribe(self, observer: EventListener) -> Callable[[], None]:
        """Pass every event to ``observer``; the returned function ends the subscription.

        Raises:
            TypeError: If it is async, since the bus does not await listeners. Handlers of hooks may be async.
        """
        reject_async(observer)
        self._observers = (*self._observers, observer)

        def remove() -> None:
            self._observers = tuple([o for o in self._observers if o is not observer])

        return remove

    @property
    def listeners(self) -> tuple[EventListener, ...]:
        """Return the listeners of events."""
        return self._observers

    def publish(self, event: Event) -> None:
        """Publish an event to all listeners; an exception of a listener is logged."""
        for observer in self._observers:
            try:
                observer(event)
            except Exception:
                logger.exception("a listener failed on %s", event.type)


class HookRegistry:
    """Registers hook handlers; available as ``agent.hooks``."""

    __slots__ = ("_bus",)

    def __init__(self, bus: HookBus) -> None:
        self._bus = bus

    def hook(self, event: type[_H] | str, handler: Handler[_H]) -> Callable[[], None]:
        """Register ``handler``; the returned function removes it.

        Raises:
            ConfigError: If the hook is unknown.
        """
        return self._bus.on(event, handler)


def _set_fields(context: Hook, answer: Mapping[str, Any] | None) -> None:
    if answer is not None and answer is not context:
        for field, value in answer.items():
            setattr(context, field, value)


def _handle_handler_error(context: Hook, handler: Handler[Any], error: BaseException) -> None:
    name = getattr(handler, "__qualname__", repr(handler))
    logger.error("handler %s of %s failed", name, context.event, exc_info=error)
    if context.gate:
        context.block_on_error(f"the check {name} failed ({type(error).__name__}: {error})")


def _cancelled() -> bool:
    """Return True if this task was cancelled; a handler may also raise CancelledError because of another task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def hook_class(event: type[_H] | str) -> type[_H]:
    """Return the context class of a hook by class or name.

    Raises:
        ConfigError: If the hook is unknown; the text contains the nearest name.
    """
    if isinstance(event, str):
        found = HOOKS.get(event)
        if found is None:
            import difflib

            near = difflib.get_close_matches(event, HOOKS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Hooks: {', '.join(HOOKS)}"
            raise ConfigError(f"Unknown hook: {event!r}. {hint}")
        return found  # pyright: ignore[reportReturnType]
    if HOOKS.get(getattr(event, "event", "")) is not event:
        raise ConfigError(f"{event!r} is not a hook. Use a hook class, or its name.")
    return event


def reject_async(observer: EventListener) -> None:
    """Raise TypeError for an async function, since listeners are not awaited."""
    if inspect.iscoroutinefunction(observer):
        raise TypeError(
            f"{observer.__qualname__} is async. An event listener must be a plain function; a hook handler can be async."
        )
