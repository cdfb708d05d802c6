"""Activates and deactivates skills: their text, their tools, and the notifications."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from mainspring.cancellation import CancelToken
from mainspring.env import ExecutionEnv, LocalEnv
from mainspring.env.paths import is_inside
from mainspring.errors import ConfigError, MainspringError, format_exception
from mainspring.events import SkillChange
from mainspring.lazy import lazy_function
from mainspring.locks import LoopLock
from mainspring.loop.hooks.features import SkillActivationSource, SkillReason
from mainspring.skills.active import LOAD_SKILL_ALIAS, ActiveSkill, ActiveSkills
from mainspring.skills.content import list_skill_files, read_body, render_content
from mainspring.skills.skill import Confirm, Skill, SkillError, SkillsConfig
from mainspring.tools import Tool
from mainspring.tools.define import to_tool

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.skills.execution import InlineCommandRunner, run_inline_commands
    from mainspring.skills.toolset_files import find_toolset_file
else:  # loaded for the first skill with commands or toolsets
    InlineCommandRunner = lazy_function("mainspring.skills.execution", "InlineCommandRunner")
    run_inline_commands = lazy_function("mainspring.skills.execution", "run_inline_commands")
    find_toolset_file = lazy_function("mainspring.skills.toolset_files", "find_toolset_file")


class ToolsetError(MainspringError):
    """A toolset that cannot be used. The message has the reason."""


class SkillHost(Protocol):
    """The skills of an agent, as toolsets see them.

    Attributes:
        config: Which skills the agent can use.
        confirm: Asks the user whether to save a skill that the model wrote; ``None``: the model cannot write skills.
    """

    config: SkillsConfig
    confirm: Confirm | None

    @property
    def agent(self) -> CoreAgent:
        """The agent that has the skills."""
        ...


class ToolsetContext(Struct, frozen=True):
    """What a toolset gets from its agent.

    Attributes:
        env: Files and processes, like all tools of the agent.
        extra: The value of ``Agent(extra=...)``: clients and settings of the application, or their test doubles.
        agent: Name of the agent.
        skill: The skill of the toolset.
        skills: The skills of the agent, for toolsets about skills.
    """

    env: ExecutionEnv
    extra: Mapping[str, Any]
    agent: str
    skill: Skill
    skills: SkillHost | None = None


ToolsetFactory = Callable[..., Any]
"""A class or function that creates an object with tools. Called with a `ToolsetContext` if it takes an argument."""


def load_toolset(skill: Skill, spec: str) -> ToolsetFactory:
    """Import a toolset. Blocks, and runs its code.

    Args:
        skill: The skill. Toolsets of an untrusted one are not loaded.
        spec: ``tools.py:Class`` or ``toolsets/index:Class``, a file of the skill, or ``module:Class``.

    Raises:
        ToolsetError: If it may not or cannot be loaded.
    """
    if not skill.trusted:
        raise ToolsetError(f"{skill.name}: toolsets of an untrusted skill are not loaded")
    place, _, name = spec.partition(":")
    if not place or not name.isidentifier():
        raise ToolsetError(f"{skill.name}: invalid toolset {spec!r}; use tools.py:Class")
    try:
        file = find_toolset_file(skill.directory, place)
        factory = pkgutil.resolve_name(spec) if file is None else getattr(_import_file(skill, file), name)
    except ToolsetError:
        raise
    except (Exception, SystemExit) as error:  # The code may raise anything.
        raise ToolsetError(f"{skill.name}: the toolset {spec} cannot be loaded: {format_exception(error)}") from error
    if not callable(factory):
        raise ToolsetError(f"{skill.name}: {spec} is not a class")
    return factory


def _import_file(skill: Skill, place: str) -> Any:
    """Import a file of the skill under a unique module name."""
    if skill.directory is None:
        raise ToolsetError(f"{skill.name}: it has no folder with {place}")
    root = Path(os.path.realpath(skill.directory))
    path = Path(os.path.realpath(root / place))
    if not path.is_relative_to(root) or os.path.isabs(place):
        raise ToolsetError(f"{skill.name}: the toolset {place} is outside the skill's folder")
    name = f"_mainspring_skill_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ToolsetError(f"{skill.name}: {place} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and similar libraries look up their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def create_tools(factory: ToolsetFactory, dependencies: ToolsetContext) -> tuple[Any, list[Tool]]:
    """Create a toolset and its tools.

    The tools are the result of its method ``tools``. Without that method, each public method is a tool, described by its docstring.

    Raises:
        ToolsetError: If it cannot be created or has no tools.
    """
    skill = dependencies.skill.name
    try:
        toolset = factory(dependencies) if _takes_context(factory) else factory()
        given: Iterable[Any] = (
            toolset.tools() if callable(getattr(toolset, "tools", None)) else _public_methods(toolset)
        )
        tools = [to_tool(each) for each in given]
    except Exception as error:  # the toolset's own code
        raise ToolsetError(f"{skill}: cannot create a toolset: {format_exception(error)}") from error
    if not tools:
        raise ToolsetError(f"{skill}: a toolset has no tools: add public methods, or a method tools()")
    return toolset, [replace(each, source=f"skill:{skill}") for each in tools]


async def close_toolset(toolset: Any) -> None:
    """Close a toolset with its method ``aclose``, if it has one, sync or async. Exceptions are logged."""
    close = getattr(toolset, "aclose", None)
    if close is None:
        return
    try:
        answer = close()
        if inspect.isawaitable(answer):
            await answer
    except Exception:  # the toolset's own code
        logger.exception("cannot close a toolset")


def _public_methods(toolset: Any) -> list[Any]:
    own: dict[str, Any] = dict(toolset.__class__.__dict__)
    names = [n for n in own if not n.startswith("_") and n != "aclose"]
    return [m for n in names if callable(m := getattr(toolset, n)) or isinstance(m, Tool)]


def _takes_context(factory: ToolsetFactory) -> bool:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)


logger = logging.getLogger("mainspring.skills")
logger.addHandler(logging.NullHandler())


class SkillUsage(Protocol):
    """Records when skills were used. Both methods block."""

    def last_used(self) -> Mapping[str, float]:
        """Return when each skill was last used, by name. A greater number is later."""
        ...

    def record_use(self, name: str) -> None:
        """Record that a skill is used now."""
        ...


class SkillActivator:
    """Activates and deactivates the skills of one agent.

    Args:
        skills: The plugin it belongs to.
        active: The active skills.
        usage: Records when skills were used.
        toolsets: Factories that replace the toolsets of a skill, by the skill's name.

    Attributes:
        problems: Problems for the user.
        known: Names of the skills that became active in this run.
    """

    def __init__(
        self,
        skills: SkillHost,
        active: ActiveSkills,
        usage: SkillUsage | None,
        toolsets: Mapping[str, Sequence[ToolsetFactory]],
    ) -> None:
        self.active = active
        self.problems: list[str] = []
        self.known: set[str] = set()
        self._skills = skills
        self._usage = usage
        self._toolsets = toolsets
        self._toolsets_to_close: list[list[Any]] = []
        self._local_env: LocalEnv | None = None
        self._lock = LoopLock()

    @property
    def agent(self) -> CoreAgent:
        """The agent."""
        return self._skills.agent

    async def activate(
        self, skill: Skill, via: SkillActivationSource, *, signal: CancelToken | None = None, turn_id: str = ""
    ) -> tuple[ActiveSkill, bool]:
        """Activate a skill.

        Args:
            skill: The skill.
            via: What activates it.
            signal: Ends its commands when set.
            turn_id: The turn of the call that makes it active.

        Returns:
            The active skill, and whether it was inactive before.

        Raises:
            SkillError: If it cannot be read, or too many skills are active.
        """
        async with self._lock.current():
            found = self.active.get(skill.name)
            if found is not None:
                if found.skill is not skill:
                    raise SkillError(f"the {found.skill.source} skill of that name is active")
                found.restricts = found.restricts or via != "trigger"
                found.asserted = found.asserted or via == "explicit"
                return found, False
            if self.active.is_full:
                raise SkillError(
                    f"{self.active.max_active} skills are active ({', '.join(self.active.names)}), which is the maximum"
                )
            activation = ActiveSkill(skill, via, "", restricts=via != "trigger", turn_id=turn_id)
            tools, notes = await self._load_toolsets(activation)
            try:
                activation.text = await self._text(skill, notes, signal)
            except BaseException:
                await _close(activation.toolsets)
                raise
            activation.find_carrier(self.agent.context.messages)
            activation.lost = False  # It is about to join.
            activation.pending = via == "explicit" or (via == "trigger" and activation.carrier is None)
            self._add_tools(activation, tools)
            self.active.add(activation)
        await self._on_activated(skill, via)
        return activation, True

    async def reactivate(self, skill: Skill, activation: ActiveSkill) -> None:
        """Activate the skills that the conversation had active."""
        self._add_tools(activation, (await self._load_toolsets(activation))[0])
        self.active.add(activation)
        await self._on_activated(skill, activation.via)

    async def _on_activated(self, skill: Skill, via: SkillActivationSource) -> None:
        name = skill.name
        self.known.add(name)
        if self._usage is not None and via != "resume":
            try:
                await asyncio.to_thread(self._usage.record_use, name)
            except (OSError, ConfigError) as error:
                self.note(f"the use of {name} was not recorded: {error}")
        await self.agent.bus.notify(SkillChange(name, active=True, reason=via, skill=skill))

    async def deactivate(self, name: str, reason: SkillReason) -> bool:
        """Deactivate a skill. Returns True if it was active."""
        activation = self.active.get(name)
        if activation is None:
            return False
        self._remove(activation)
        await _close(activation.toolsets)
        await self.agent.bus.notify(SkillChange(name, active=False, reason=reason, skill=activation.skill))
        return True

    def _remove(self, activation: ActiveSkill) -> None:
        self.active.remove(activation.skill.name)
        for name in activation.tools:
            self.agent.tools.remove(name)

    def deactivate_all(self) -> None:
        """Deactivate all skills immediately. `finish` does the asynchronous part."""
        for activation in self.active:
            self._remove(activation)
            self._toolsets_to_close.append(activation.toolsets)
            skill = activation.skill
            self.agent.bus.publish(SkillChange(skill.name, active=False, reason="reset", skill=skill))

    async def finish(self) -> None:
        """Complete `deactivate_all`: close toolsets and call async handlers."""
        while self._toolsets_to_close:
            await _close(self._toolsets_to_close.pop(0))
        await self.agent.bus.call_waiting()

    async def _text(self, skill: Skill, notes: Sequence[str], signal: CancelToken | None) -> str:
        body = await self.body(skill)
        env = self.agent.env
        if skill.trusted and "!`" in body:
            body = await run_inline_commands(body, InlineCommandRunner(skill.name, env, self.agent.bus, signal))
        files, count = (
            (await list_skill_files(await self.file_env(skill), skill.directory)) if skill.directory else ((), 0)
        )
        return render_content(skill, "\n\n".join([*notes, body]), files, count)

    async def _load_toolsets(self, activation: ActiveSkill) -> tuple[list[Tool], list[str]]:
        """Create the toolsets of a skill. Returns their tools, and notes for the model about those that are unavailable."""
        skill, tools = activation.skill, list[Tool]()
        given = self._toolsets.get(skill.name)
        if given is None and not skill.toolsets:
            return tools, []
        dependencies = ToolsetContext(self.agent.env, self.agent.extra, self.agent.name, skill, self._skills)
        try:
            if given is None:
                given = [await asyncio.to_thread(load_toolset, skill, spec) for spec in skill.toolsets]
            for maker in given:
                toolset, created = create_tools(maker, dependencies)
                activation.toolsets.append(toolset)
                tools += created
        except ToolsetError as error:
            await _close(activation.toolsets)
            activation.toolsets.clear()
            self.note(str(error))
            return [], [f"[The tools of this skill are not there: {error}]"]
        return tools, []

    def _add_tools(self, activation: ActiveSkill, tools: Sequence[Tool]) -> None:
        """Register the tools of a skill's toolsets. A name that is in use keeps its tool."""
        used_names = {*self.agent.tool_aliases.values(), LOAD_SKILL_ALIAS}
        for added in tools:
            if self.add_tool(added, used_names, f"the skill {activation.skill.name}"):
                activation.tools.append(added.name)

    def add_tool(self, tool: Tool, used_names: set[str], owner: str) -> bool:
        """Register a tool, unless its name is in use. Returns True if it was registered."""
        if tool.name in self.agent.tools or tool.name in used_names:
            self.note(f"{owner} has a tool {tool.name}, and a tool with this name exists; it was skipped")
            return False
        try:
            self.agent.tools.add(tool)
        except ConfigError as error:
            self.note(f"{owner}: {error}")
            return False
        return True

    def note(self, text: str) -> None:
        """Record a problem, once."""
        if text not in self.problems:
            logger.warning("%s", text)
            self.problems.append(text)

    async def body(self, skill: Skill) -> str:
        """Return the instructions of a skill.

        Raises:
            SkillError: If its file can no longer be read.
        """
        return await asyncio.to_thread(read_body, skill)

    async def file_env(self, skill: Skill) -> ExecutionEnv:
        """Return the environment that reads the files of a skill: the project's or, like the skill's own text, this machine's."""
        env = self.agent.env
        if type(env) is LocalEnv or (skill.directory and is_inside(skill.directory, env.cwd)):
            return env
        self._local_env = self._local_env or await asyncio.to_thread(LocalEnv, skill.directory or ".")
        return self._local_env


async def _close(toolsets: Sequence[Any]) -> None:
    for toolset in toolsets:
        await close_toolset(toolset)
