"""Loads extensions into an agent, takes them out, and asks them."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import re
from collections.abc import Awaitable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from mainspring.errors import ConfigError
from mainspring.extensions.api import (
    ExtensionAPI,
    ExtensionError,
    ExtensionSource,
    HandlerRegistration,
    LoadedExtension,
    to_extension_error,
)
from mainspring.extensions.context import ExtensionContext
from mainspring.extensions.events import EXTENSION_HANDLER_ATTR, takes_context
from mainspring.extensions.registry import Command, Registry, Shortcut, normalize_key
from mainspring.extensions.ui import UserInterface
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import (
    Hook,
    PermissionCheck,
    PromptSubmitted,
    SessionClosed,
    SessionOpen,
    SystemTransform,
    ToolTransform,
)
from mainspring.messages import ToolUseBlock
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolResult, error_result, output_bytes, to_tool_result

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

logger = logging.getLogger("mainspring")

H = TypeVar("H", bound=Hook)

LOAD_SECONDS = 30.0
"""Seconds that an async extension may take to load; the first run waits for it."""

COMMANDS = 50
"""The order of commands among handlers of `input`: behind those that expand aliases."""

_LAST = 1000
_COMMAND = lazy_re(r"/([A-Za-z0-9][\w:-]*)(?:\s+(.*))?", re.DOTALL)


class ExtensionRunner:
    """The extensions of one agent.

    Args:
        agent: The agent.
        ui: Asks and tells the person.
        reserved: Names of commands that belong to the front end.

    Attributes:
        ctx: The agent, as handlers see it.
        commands: What extensions offer as ``/name``.
        shortcuts: What they do on keys.
        problems: What was not loaded, and why.
    """

    def __init__(self, agent: CoreAgent, ui: UserInterface, *, reserved: Iterable[str] = ()) -> None:
        self.ctx = ExtensionContext(agent, ui)
        self.commands: Registry[Command] = Registry("command", frozenset(reserved))
        self.shortcuts: Registry[Shortcut] = Registry("shortcut")
        self.problems: list[ExtensionError] = []
        self._load_outputs: dict[str, LoadedExtension] = {}
        self._open: str | None = None
        bus = agent.bus
        bus.on(SystemTransform, self.ctx.record_request, order=_LAST)
        bus.on(PromptSubmitted, self._command, order=COMMANDS)
        bus.on(SessionOpen, self._opened, order=-_LAST)
        bus.on(SessionClosed, self._shut, order=_LAST)

    # --- loading ----------------------------------------------------------------------------------------------------

    @property
    def loaded(self) -> tuple[ExtensionSource, ...]:
        """The extensions that are in, in the order in which they are asked."""
        return tuple([one.source for one in self._load_outputs.values()])

    @property
    def listening(self) -> Iterator[HandlerRegistration]:
        """All their handlers."""
        return (each for one in self._load_outputs.values() for each in one.listening)

    def load_now(self, source: ExtensionSource) -> None:
        """Load one that is not async; what is wrong is in `problems`."""
        made = self._call(source)
        if isinstance(made, LoadedExtension):
            self._accept(made)
        elif made is not None:
            if inspect.iscoroutine(made[1]):
                made[1].close()
            self.refuse(
                to_extension_error(
                    source.name, TypeError("it is async though it does not say so; write `async def`"), source.place
                )
            )

    async def load(self, source: ExtensionSource) -> ExtensionError | None:
        """Load one, sync or async.

        Returns:
            What is wrong, which is in `problems` then; ``None`` if it is in.
        """
        before = len(self.problems)
        made = await self._made(source)
        if made is not None:
            self._accept(made)
        return self.problems[-1] if len(self.problems) > before else None

    def unload(self, name: str) -> bool:
        """Take one out with all that it has registered. Says whether there was one."""
        loaded = self._load_outputs.pop(name, None)
        if loaded is None:
            return False
        loaded.detach()
        return True

    async def reload(self, sources: Iterable[ExtensionSource], problems: Iterable[ExtensionError] = ()) -> None:
        """Put these in place of all that are in. One that is broken now keeps what it was before; one that is gone is out.

        Handlers that come and go hear ``session_shutdown`` and ``session_start`` with the reason ``reload``.

        Args:
            sources: What there is now.
            problems: What could not even be read.
        """
        old, self.problems = dict(self._load_outputs), []
        for problem in problems:
            self.refuse(problem)
        fresh: dict[str, LoadedExtension] = {}
        for source in sources:
            if source.name in fresh:
                self.refuse(_duplicate_error(source, fresh[source.name].source))
                continue
            made = await self._made(source) or old.get(source.name)
            if made is not None:
                fresh[source.name] = made
        for name in sorted({p.name for p in self.problems} & old.keys() - fresh.keys()):
            fresh[name] = old[name]
        await self._tell([o for n, o in old.items() if fresh.get(n) is not o], "shutdown")
        for one in old.values():
            one.detach()
        self._load_outputs = {}
        for name, one in fresh.items():  # nothing is awaited from detaching to here: no event falls in between
            if not self._accept(one) and name in old:
                self._accept(old[name])
        await self._tell([o for n, o in self._load_outputs.items() if old.get(n) is not o], "start")

    async def _made(self, source: ExtensionSource) -> LoadedExtension | None:
        made = self._call(source)
        if made is None or isinstance(made, LoadedExtension):
            return made
        loaded, answer = made
        try:
            await asyncio.wait_for(answer, LOAD_SECONDS)
        except TimeoutError as error:
            late = TimeoutError(f"it was not loaded after {LOAD_SECONDS:g} seconds")
            self.refuse(to_extension_error(source.name, late.with_traceback(error.__traceback__), source.place))
            return None
        except (Exception, SystemExit) as error:  # whatever it is, the agent works without it
            self.refuse(to_extension_error(source.name, error, source.place))
            return None
        return loaded

    def _call(self, source: ExtensionSource) -> LoadedExtension | tuple[LoadedExtension, Awaitable[Any]] | None:
        """Let it register: what it made, or that and what is to be awaited; ``None`` if it failed."""
        loaded = LoadedExtension(source)
        api = ExtensionAPI(loaded, self.ctx, self.commands, self.shortcuts)
        try:
            answer = source.function(api)
        except (Exception, SystemExit) as error:  # whatever its code raises, the agent works without it
            self.refuse(to_extension_error(source.name, error, source.place))
            return None
        return (loaded, answer) if inspect.isawaitable(answer) else loaded

    def _accept(self, loaded: LoadedExtension) -> bool:
        source = loaded.source
        taken = self._load_outputs.get(source.name)
        if taken is not None:
            self.refuse(_duplicate_error(source, taken.source))
            return False
        try:
            loaded.attach()
        except ConfigError as error:
            self.refuse(to_extension_error(source.name, error, source.place))
            return False
        self._load_outputs[source.name] = loaded
        return True

    def refuse(self, problem: ExtensionError) -> None:
        """Keep in mind what is wrong, and tell it."""
        self.problems.append(problem)
        self.ctx.ui.notify(str(problem), "error")

    # --- the conversation -------------------------------------------------------------------------------------------

    def _opened(self, hook: SessionOpen) -> None:
        self._open = hook.session_id

    def _shut(self, hook: SessionClosed) -> None:
        self._open = None

    async def _tell(self, some: list[LoadedExtension], what: str) -> None:
        """Tell extensions that come or go, while a conversation is open."""
        if self._open is None or not some:
            return
        handlers = {id(h) for one in some for h in one.handlers}
        hook = SessionOpen(self._open, "reload") if what == "start" else SessionClosed(self._open, "reload")
        await self.ctx.agent.bus.emit(hook, only=lambda _, handler: id(handler) in handlers)

    # --- asking -----------------------------------------------------------------------------------------------------

    def has_handlers(self, event: str) -> bool:
        """Whether an extension listens to an event, by its short name or the hook's."""
        return any(event in (each.event, each.hook.event) for each in self.listening)

    async def emit(self, hook: H) -> H:
        """Ask the extensions, and nobody else on the bus; the hook afterwards holds what they decided."""
        return await self.ctx.agent.bus.emit(hook, only=lambda _, handler: hasattr(handler, EXTENSION_HANDLER_ATTR))

    def wrap(self, tool: Tool) -> Tool:
        """A tool that asks the extensions by itself: ``tool_call`` before, ``tool_result`` behind. For tools that run without
        the agent, which asks them anyway.
        """

        async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
            call = ToolUseBlock(ctx.call_id, tool.name, arguments)
            permit = await self.emit(PermissionCheck(call, "", copy.deepcopy(arguments), tool, ctx.env))
            refused = "; ".join(permit.denied) or permit.paused
            if refused:
                return error_result(f"Permission denied: {refused}", ToolErrorCode.PERMISSION_DENIED)
            result = to_tool_result(await tool.execute(arguments, ctx), tool.name)
            size = output_bytes(result.output)
            return (await self.emit(ToolTransform(call, "", arguments, result, size))).result

        return replace(tool, execute=execute)

    async def run_command(self, text: str) -> str | None:
        """Run a command as it was typed: ``/name arguments``.

        Returns:
            What it says; ``None`` if the text is no command that there is.

        Raises:
            Exception: Whatever it raises.
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
        """Do what is on a key. Says whether something is.

        Raises:
            ConfigError: If it is no key.
            Exception: Whatever it raises.
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
            said = await self.run_command(hook.text)
        except Exception as error:
            logger.exception("the command %s failed", hook.text.split()[0])
            hook.block = f"{hook.text.split()[0]} failed: {type(error).__name__}: {error}"
            return
        if said is not None:
            hook.handled, hook.reply = True, said


def _duplicate_error(source: ExtensionSource, by: ExtensionSource) -> ExtensionError:
    reason = f"there is an extension of this name already ({by.place or by.origin}); rename one"
    return ExtensionError(source.name, reason, source.place)
