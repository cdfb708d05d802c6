"""The plugin: loads extensions into an agent, also during its lifetime."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from mainspring.errors import ConfigError, format_exception
from mainspring.events import ToolInputCoerced
from mainspring.extensions.api import (
    Extension,
    ExtensionAPI,
    ExtensionError,
    ExtensionSource,
    FoundExtensions,
    HandlerRegistration,
    LoadedExtension,
    handler_label,
    to_extension_error,
)
from mainspring.extensions.context import ExtensionContext, NonInteractiveUI, UserInterface
from mainspring.extensions.events import EXTENSION_HANDLER_ATTR, bind_handler, takes_context
from mainspring.extensions.registry import Command, Registry, Shortcut, normalize_key
from mainspring.lazy import lazy_re
from mainspring.loop import Plugin
from mainspring.loop.hooks import (
    Hook,
    PermissionCheck,
    PromptSubmitted,
    SessionClosed,
    SessionOpen,
    SystemTransform,
    ToolCallHook,
    ToolTransform,
    resolve,
)
from mainspring.messages import ToolUseBlock
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolResult, error_result, output_bytes, to_tool_result

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


logger = logging.getLogger("mainspring")


_H = TypeVar("_H", bound=Hook)


LOAD_SECONDS = 30.0
"""Maximum seconds that an async extension may take to load; the first run waits for it."""


_COMMANDS = 50
"""Order of commands among handlers of `input`: after handlers that expand aliases."""


_LAST = 1000
_COMMAND = lazy_re(r"/([A-Za-z0-9][\w:-]*)(?:\s+(.*))?", re.DOTALL)


class ExtensionRunner:
    """The extensions of one agent.

    Args:
        agent: The agent.
        ui: Asks and notifies the user.
        reserved: Names of commands that belong to the front end.

    Attributes:
        ctx: The agent's context, as passed to handlers.
        commands: Commands of extensions, offered as ``/name``.
        shortcuts: Keyboard shortcuts of extensions.
        problems: Extensions that were not loaded, and the reasons.
    """

    def __init__(self, agent: CoreAgent, ui: UserInterface, *, reserved: Iterable[str] = ()) -> None:
        self.ctx = ExtensionContext(agent, ui)
        self.commands: Registry[Command] = Registry("command", frozenset(reserved))
        self.shortcuts: Registry[Shortcut] = Registry("shortcut")
        self.problems: list[ExtensionError] = []
        self._loaded: dict[str, LoadedExtension] = {}
        self._open_session: str | None = None
        bus = agent.bus
        bus.on(SystemTransform, self.ctx.record_request, order=_LAST)
        bus.on(PromptSubmitted, self._command, order=_COMMANDS)
        bus.on(SessionOpen, self._on_session_open, order=-_LAST)
        bus.on(SessionClosed, self._on_session_closed, order=_LAST)

    # --- loading ----------------------------------------------------------------------------------------------------

    @property
    def loaded(self) -> tuple[ExtensionSource, ...]:
        """Return the loaded extensions in the order in which their handlers run."""
        return tuple([one.source for one in self._loaded.values()])

    @property
    def listening(self) -> Iterator[HandlerRegistration]:
        """Return all their handlers."""
        return (each for one in self._loaded.values() for each in one.listening)

    def load_now(self, source: ExtensionSource) -> None:
        """Load a sync extension; an error is added to `problems`."""
        result = self._call(source)
        if isinstance(result, LoadedExtension):
            self._accept(result)
        elif result is not None:
            if inspect.iscoroutine(result[1]):
                result[1].close()
            self.report_error(
                to_extension_error(
                    source.name, TypeError("it returns an awaitable. Define it with `async def`"), source.place
                )
            )

    async def load(self, source: ExtensionSource) -> ExtensionError | None:
        """Load an extension, sync or async.

        Returns:
            The error, which is also in `problems`; ``None`` if the extension was loaded.
        """
        before = len(self.problems)
        loaded = await self._load(source)
        if loaded is not None:
            self._accept(loaded)
        return self.problems[-1] if len(self.problems) > before else None

    def unload(self, name: str) -> bool:
        """Unload an extension. Return True if it was loaded."""
        loaded = self._loaded.pop(name, None)
        if loaded is None:
            return False
        loaded.detach()
        return True

    async def reload(self, sources: Iterable[ExtensionSource], problems: Iterable[ExtensionError] = ()) -> None:
        """Replace all loaded extensions.

        A broken one keeps its previous version; a missing one is unloaded.

        Handlers that are added or removed receive ``session_start`` and ``session_shutdown`` with the reason ``reload``.

        Args:
            sources: The current extensions.
            problems: Extensions that could not be read.
        """
        old, self.problems = dict(self._loaded), []
        for problem in problems:
            self.report_error(problem)
        fresh: dict[str, LoadedExtension] = {}
        for source in sources:
            if source.name in fresh:
                self.report_error(_duplicate_error(source, fresh[source.name].source))
                continue
            loaded = await self._load(source) or old.get(source.name)
            if loaded is not None:
                fresh[source.name] = loaded
        for name in sorted({p.name for p in self.problems} & old.keys() - fresh.keys()):
            fresh[name] = old[name]
        await self._notify_lifecycle([o for n, o in old.items() if fresh.get(n) is not o], "shutdown")
        for one in old.values():
            one.detach()
        self._loaded = {}
        for name, one in fresh.items():  # no await between here and detaching, so that no event is missed
            if not self._accept(one) and name in old:
                self._accept(old[name])
        await self._notify_lifecycle([o for n, o in self._loaded.items() if old.get(n) is not o], "start")

    async def _load(self, source: ExtensionSource) -> LoadedExtension | None:
        result = self._call(source)
        if result is None or isinstance(result, LoadedExtension):
            return result
        loaded, answer = result
        try:
            await asyncio.wait_for(answer, LOAD_SECONDS)
        except TimeoutError as error:
            late = TimeoutError(f"it did not load within {LOAD_SECONDS:g} seconds")
            self.report_error(to_extension_error(source.name, late.with_traceback(error.__traceback__), source.place))
            return None
        except (Exception, SystemExit) as error:  # an extension may raise anything, and the agent works without it
            self.report_error(to_extension_error(source.name, error, source.place))
            return None
        return loaded

    def _call(self, source: ExtensionSource) -> LoadedExtension | tuple[LoadedExtension, Awaitable[Any]] | None:
        """Call the extension to register.

        Return the registrations, with an awaitable if it is async; ``None`` if it failed.
        """
        loaded = LoadedExtension(source)
        api = ExtensionAPI(loaded, self.ctx, self.commands, self.shortcuts)
        try:
            answer = source.function(api)
        except (Exception, SystemExit) as error:  # an extension may raise anything, and the agent works without it
            self.report_error(to_extension_error(source.name, error, source.place))
            return None
        return (loaded, answer) if inspect.isawaitable(answer) else loaded

    def _accept(self, loaded: LoadedExtension) -> bool:
        source = loaded.source
        existing = self._loaded.get(source.name)
        if existing is not None:
            self.report_error(_duplicate_error(source, existing.source))
            return False
        try:
            loaded.attach()
        except ConfigError as error:
            self.report_error(to_extension_error(source.name, error, source.place))
            return False
        self._loaded[source.name] = loaded
        return True

    def report_error(self, problem: ExtensionError) -> None:
        """Record and report an error."""
        self.problems.append(problem)
        self.ctx.ui.notify(str(problem), "error")

    # --- the conversation -------------------------------------------------------------------------------------------

    def _on_session_open(self, hook: SessionOpen) -> None:
        self._open_session = hook.session_id

    def _on_session_closed(self, hook: SessionClosed) -> None:
        self._open_session = None

    async def _notify_lifecycle(self, some: list[LoadedExtension], subject: str) -> None:
        """Notify extensions that are loaded or unloaded while a session is open."""
        if self._open_session is None or not some:
            return
        handlers = {id(h) for one in some for h in one.handlers}
        hook = (
            SessionOpen(self._open_session, "reload")
            if subject == "start"
            else SessionClosed(self._open_session, "reload")
        )
        await self.ctx.agent.bus.emit(hook, only=lambda _, handler: id(handler) in handlers)

    # --- events -----------------------------------------------------------------------------------------------------

    def has_handlers(self, event: str) -> bool:
        """Return True if an extension handles an event, by its short name or the hook's."""
        return any(event in (each.event, each.hook_name) for each in self.listening)

    async def emit(self, hook: _H) -> _H:
        """Run only the extensions' handlers, no others on the bus.

        The hook then contains their decisions.
        """
        return await self.ctx.agent.bus.emit(hook, only=lambda _, handler: hasattr(handler, EXTENSION_HANDLER_ATTR))

    def wrap(self, tool: Tool) -> Tool:
        """Wrap a tool that runs without the agent.

        ``tool_call`` handlers run before it, ``tool_result`` handlers after it. An agent runs these handlers anyway.
        """

        async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
            call = ToolUseBlock(ctx.call_id, tool.name, arguments)
            permit = await self.emit(PermissionCheck(call, "", copy.deepcopy(arguments), tool, ctx.env))
            rejected = "; ".join(permit.denied) or permit.paused
            if rejected:
                return error_result(f"Permission denied: {rejected}", ToolErrorCode.PERMISSION_DENIED)
            result = to_tool_result(await tool.execute(arguments, ctx), tool.name)
            size = output_bytes(result.output)
            return (await self.emit(ToolTransform(call, "", arguments, result, size))).result

        return replace(tool, execute=execute)

    async def run_command(self, text: str) -> str | None:
        """Run a command line: ``/name arguments``.

        Returns:
            The output of the command; ``None`` if the command is unknown.

        Raises:
            Exception: Any exception of the command.
        """
        match = _COMMAND.fullmatch(text.strip())
        command = self.commands.get(match[1].lower()) if match else None
        if match is None or command is None:
            return None
        arguments = match[2] or ""
        handler = command.handler
        answer = handler(arguments, self.ctx) if takes_context(handler) else handler(arguments)
        return (await answer if inspect.isawaitable(answer) else answer) or ""

    async def run_shortcut(self, key: str) -> bool:
        """Run the shortcut of a key. Return True if one is registered.

        Raises:
            ConfigError: If the key is invalid.
            Exception: Any exception of the shortcut.
        """
        shortcut = self.shortcuts.get(normalize_key(key))
        if shortcut is None:
            return False
        answer = shortcut.handler(self.ctx)
        if inspect.isawaitable(answer):
            await answer
        return True

    async def _command(self, hook: PromptSubmitted) -> None:
        if not hook.text.lstrip().startswith("/"):
            return
        try:
            reply = await self.run_command(hook.text)
        except Exception as error:
            logger.exception("The command %s failed", hook.text.split()[0])
            hook.block = f"{hook.text.split()[0]} failed: {format_exception(error)}"
            return
        if reply is not None:
            hook.handled, hook.reply = True, reply


def _duplicate_error(source: ExtensionSource, by: ExtensionSource) -> ExtensionError:
    reason = f"an extension of this name already exists ({by.place or by.origin}). Rename one of them"
    return ExtensionError(source.name, reason, source.place)


class Extensions(Plugin):
    """Functions that extend an agent, in this process and with all its rights.

    Each gets an `ExtensionAPI` and registers handlers, tools, and commands. Sync extensions are loaded when the agent is created;
    async ones with the first run or `CoreAgent.warmup`. An extension that fails is skipped, and the agent works without it: see
    `problems`.

    Args:
        extensions: The extensions. If a name occurs twice, the first applies.
        ui: Asks and notifies the user. Default: no user; see `NonInteractiveUI`.
        find: Finds further extensions, for example in folders; called again by `reload`. It may block.
        discovered: An earlier result of ``find``, to skip its first call.
        reserved: Names of commands that belong to the front end.
    """

    def __init__(
        self,
        extensions: Iterable[Extension | ExtensionSource] = (),
        *,
        ui: UserInterface | None = None,
        find: Callable[[], FoundExtensions] | None = None,
        discovered: FoundExtensions | None = None,
        reserved: Iterable[str] = (),
    ) -> None:
        self._given = _sources(extensions)
        self._ui = ui or NonInteractiveUI()
        self._find = find
        self._found = discovered if discovered is not None else find() if find else FoundExtensions()
        self._reserved_commands = tuple(reserved)
        self._waiting: list[ExtensionSource] = []
        self._runner: ExtensionRunner | None = None

    # --- as a plugin ------------------------------------------------------------------------------------------------

    def install(self, agent: CoreAgent) -> None:
        """Load the sync extensions.

        Raises:
            ConfigError: If it is installed in another agent.
        """
        if self._runner is not None:
            raise ConfigError("This Extensions belongs to another agent. Create one for each agent.")
        self._runner = runner = ExtensionRunner(agent, self._ui, reserved=self._reserved_commands)
        for problem in self._found.problems:
            runner.report_error(problem)
        for source in (*self._given, *self._found.extensions):
            if inspect.iscoroutinefunction(source.function):
                self._waiting.append(source)
            else:
                runner.load_now(source)

    async def prepare(self) -> None:
        """Load the async extensions."""
        while self._waiting:
            await self.runner.load(self._waiting.pop(0))

    def for_child(self) -> Plugin:
        """Return the plugin for a subagent: the same handlers judge its calls.

        It gets no other events and no commands.
        """
        return _SubagentExtensions(self)

    def for_conversation(self) -> Plugin:
        """Return the plugin for another conversation: its functions are called again, for the agent of that conversation."""
        return Extensions(
            self._given, ui=self._ui, find=self._find, discovered=self._found, reserved=self._reserved_commands
        )

    # --- changes at runtime -----------------------------------------------------------------------------------------

    @property
    def runner(self) -> ExtensionRunner:
        """The extensions of the agent.

        Raises:
            ConfigError: If no agent has them yet.
        """
        if self._runner is None:
            raise ConfigError("These Extensions are not installed in an agent yet. Use Agent(..., extensions=...).")
        return self._runner

    @property
    def has_pending(self) -> bool:
        """Return True if async extensions are not loaded yet."""
        return bool(self._waiting)

    @property
    def loaded(self) -> tuple[ExtensionSource, ...]:
        """The loaded extensions."""
        return self.runner.loaded

    @property
    def problems(self) -> tuple[ExtensionError, ...]:
        """The extensions that were not loaded, and the reasons."""
        return tuple(self.runner.problems)

    async def add(self, extension: Extension | ExtensionSource) -> None:
        """Load another extension now.

        Raises:
            ConfigError: If it fails or its name is taken; then none of its registrations remain.
        """
        [source] = _sources((extension,), already=len(self._given))
        problem = await self.runner.load(source)
        if problem is not None:
            raise ConfigError(str(problem))
        self._given.append(source)

    def remove(self, name: str) -> bool:
        """Unload an extension with its handlers, tools, commands, and shortcuts.

        Return True if it was loaded.

        An extension from a folder returns with `reload`.
        """
        self._given = [s for s in self._given if s.name != name]
        self._waiting = [s for s in self._waiting if s.name != name]
        return self.runner.unload(name)

    async def reload(self) -> tuple[ExtensionError, ...]:
        """Reload all extensions. A broken one keeps its previous version; a missing one is unloaded.

        Returns:
            The errors.
        """
        await self.prepare()
        if self._find is not None:
            self._found = await asyncio.to_thread(self._find)
        await self.runner.reload((*self._given, *self._found.extensions), self._found.problems)
        return self.problems


class _SubagentExtensions(Plugin):
    """The tool call handlers for a subagent."""

    def __init__(self, parent: Extensions) -> None:
        self._parent = parent

    def install(self, agent: CoreAgent) -> None:
        runner = self._parent.runner
        ctx = ExtensionContext(agent, runner.ctx.ui)
        for each in runner.listening:
            target = resolve(each.hook)
            if issubclass(target.kind, ToolCallHook | ToolInputCoerced) and not target.subagents:
                label = handler_label("", "", each)
                agent.bus.on(each.hook, bind_handler(each.binding, each.handler, ctx, label), order=each.order)

    def for_child(self) -> Plugin:
        return self


def _sources(extensions: Iterable[Extension | ExtensionSource], already: int = 0) -> list[ExtensionSource]:
    """Return extensions with their names: the name of the function, unless it has none."""
    found: list[ExtensionSource] = []
    for number, each in enumerate(extensions, already + 1):
        if isinstance(each, ExtensionSource):
            found.append(each)
            continue
        if not callable(each):
            raise ConfigError(f"{each!r} is not an extension. An extension is a function that takes the API.")
        name = getattr(each, "__name__", type(each).__name__)
        found.append(ExtensionSource(f"extension-{number}" if name == "<lambda>" else name, each))
    return found
