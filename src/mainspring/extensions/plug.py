"""The plug: puts extensions into an agent, at once and while it runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mainspring.errors import ConfigError
from mainspring.extensions.api import Extension, ExtensionError, ExtensionSource, FoundExtensions, handler_label
from mainspring.extensions.context import ExtensionContext
from mainspring.extensions.events import bind_handler
from mainspring.extensions.runner import ExtensionRunner
from mainspring.extensions.ui import NonInteractiveUI, UserInterface
from mainspring.loop import Plugin
from mainspring.loop.hooks import ToolCallHook

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


class Extensions(Plugin):
    """Functions that extend an agent: each gets an `ExtensionAPI` and registers what it wants. They run in this process, with
    all its rights.

    Those that are not async are in as soon as the agent is made; async ones with the first run or `CoreAgent.warmup`. One that
    fails is left out, and the agent works without it: see `problems`.

    Args:
        extensions: The extensions. Of two of one name the first counts.
        ui: Asks and tells the person. Default: nobody is there; see `HeadlessUI`.
        find: Looks for further ones, in folders say; asked again by `reload`. It may block.
        found: What it found already, so that it need not be asked at first.
        reserved: Names of commands that belong to the front end.
    """

    def __init__(
        self,
        extensions: Iterable[Extension | ExtensionSource] = (),
        *,
        ui: UserInterface | None = None,
        find: Callable[[], FoundExtensions] | None = None,
        found: FoundExtensions | None = None,
        reserved: Iterable[str] = (),
    ) -> None:
        self._given = _sources(extensions)
        self._ui = ui or NonInteractiveUI()
        self._find = find
        self._found = found if found is not None else find() if find else FoundExtensions()
        self._reserved_commands = tuple(reserved)
        self._waiting: list[ExtensionSource] = []
        self._runner: ExtensionRunner | None = None

    # --- as a plug --------------------------------------------------------------------------------------------------

    def install(self, agent: CoreAgent) -> None:
        """Load what is not async.

        Raises:
            ConfigError: If it is in another agent already.
        """
        if self._runner is not None:
            raise ConfigError("these Extensions belong to another agent; make one for each")
        self._runner = runner = ExtensionRunner(agent, self._ui, reserved=self._reserved_commands)
        for problem in self._found.problems:
            runner.refuse(problem)
        for source in (*self._given, *self._found.extensions):
            if inspect.iscoroutinefunction(source.function):
                self._waiting.append(source)
            else:
                runner.load_now(source)

    async def prepare(self) -> None:
        """Load the async ones."""
        while self._waiting:
            await self.runner.load(self._waiting.pop(0))

    def for_child(self) -> Plugin:
        """A sub-agent's calls are judged by the same handlers; it hears nothing else, and gets no commands."""
        return _SubagentExtensions(self)

    # --- while it runs ----------------------------------------------------------------------------------------------

    @property
    def runner(self) -> ExtensionRunner:
        """The extensions in the agent.

        Raises:
            ConfigError: If no agent has them yet.
        """
        if self._runner is None:
            raise ConfigError("these Extensions are in no agent yet: Agent(..., extensions=...)")
        return self._runner

    @property
    def waiting(self) -> bool:
        """Whether async ones are still to be loaded."""
        return bool(self._waiting)

    @property
    def loaded(self) -> tuple[ExtensionSource, ...]:
        """What is in."""
        return self.runner.loaded

    @property
    def problems(self) -> tuple[ExtensionError, ...]:
        """What is not, and why."""
        return tuple(self.runner.problems)

    async def add(self, extension: Extension | ExtensionSource) -> None:
        """Load one more, now.

        Raises:
            ConfigError: If it is broken or its name is taken; then nothing of it is in.
        """
        [source] = _sources((extension,), already=len(self._given))
        problem = await self.runner.load(source)
        if problem is not None:
            raise ConfigError(str(problem))
        self._given.append(source)

    def remove(self, name: str) -> bool:
        """Take one out, with its handlers, tools, commands and shortcuts. Says whether there was one.

        One from a folder is back after `reload`.
        """
        self._given = [s for s in self._given if s.name != name]
        self._waiting = [s for s in self._waiting if s.name != name]
        return self.runner.unload(name)

    async def reload(self) -> tuple[ExtensionError, ...]:
        """Read and load all of them anew. One that is broken now stays as it was, one that is gone goes.

        Returns:
            What is wrong.
        """
        await self.prepare()
        if self._find is not None:
            self._found = await asyncio.to_thread(self._find)
        await self.runner.reload((*self._given, *self._found.extensions), self._found.problems)
        return self.problems


class _SubagentExtensions(Plugin):
    """The handlers of tool calls, in a sub-agent."""

    def __init__(self, above: Extensions) -> None:
        self._above = above

    def install(self, agent: CoreAgent) -> None:
        runner = self._above.runner
        ctx = ExtensionContext(agent, runner.ctx.ui)
        for each in runner.listening:
            if issubclass(each.hook, ToolCallHook):
                label = handler_label("", "", each)
                agent.bus.on(each.hook, bind_handler(each.binding, each.handler, ctx, label), order=each.order)

    def for_child(self) -> Plugin:
        return self


def _sources(given: Iterable[Extension | ExtensionSource], already: int = 0) -> list[ExtensionSource]:
    """Extensions with the names by which they are known: a function's own, unless it has none."""
    found: list[ExtensionSource] = []
    for number, each in enumerate(given, already + 1):
        if isinstance(each, ExtensionSource):
            found.append(each)
            continue
        if not callable(each):
            raise ConfigError(f"{each!r} is no extension; an extension is a function that takes the api")
        name = getattr(each, "__name__", type(each).__name__)
        found.append(ExtensionSource(f"extension-{number}" if name == "<lambda>" else name, each))
    return found
