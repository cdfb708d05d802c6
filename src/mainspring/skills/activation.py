"""Activates and deactivates skills: their text, their tools, and the notifications."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mainspring.cancellation import CancelToken
from mainspring.env import ExecutionEnv, LocalEnv
from mainspring.errors import ConfigError
from mainspring.locks import LoopLock
from mainspring.loop.hooks import SkillsActivate, SkillsDeactivate
from mainspring.loop.hooks.features import SkillActivationSource, SkillReason
from mainspring.skills.active import ActiveSkill, ActiveSkills
from mainspring.skills.allowed_tools import LOAD_SKILL_ALIAS
from mainspring.skills.content import is_within, list_files, read_body
from mainspring.skills.delivery import render_content
from mainspring.skills.execution import InlineCommandRunner, has_commands, run_inline_commands
from mainspring.skills.skill import Skill, SkillError
from mainspring.skills.toolsets import (
    SkillHost,
    ToolsetContext,
    ToolsetError,
    ToolsetFactory,
    close_toolset,
    create_tools,
    load_toolset,
)
from mainspring.tools import Tool

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

logger = logging.getLogger("mainspring.skills")
logger.addHandler(logging.NullHandler())


class Usage(Protocol):
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
        usage: Usage | None,
        toolsets: Mapping[str, Sequence[ToolsetFactory]],
    ) -> None:
        self.active = active
        self.problems: list[str] = []
        self.known: set[str] = set()
        self._skills = skills
        self._usage = usage
        self._toolsets = toolsets
        self._pending_deactivations: list[tuple[SkillsDeactivate, list[Any]]] = []
        self._check_host: LocalEnv | None = None
        self._lock = LoopLock()

    @property
    def agent(self) -> CoreAgent:
        """The agent."""
        return self._skills.agent

    async def take_up(
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
        async with self._lock.here():
            found = self.active.get(skill.name)
            if found is not None:
                if found.skill is not skill:
                    raise SkillError(f"the {found.skill.source} skill of that name is active")
                found.restricts = found.restricts or via != "trigger"
                found.asserted = found.asserted or via == "explicit"
                return found, False
            if self.active.full:
                raise SkillError(
                    f"{self.active.most} skills are active ({', '.join(self.active.names)}), which is the maximum"
                )
            activation = ActiveSkill(skill, via, "", restricts=via != "trigger", turn_id=turn_id)
            tools, notes = await self._load(activation)
            try:
                activation.text = await self._text(skill, notes, signal)
            except BaseException:
                await _close(activation.toolsets)
                raise
            activation.find_carrier(self.agent.context.messages)
            activation.lost = False  # It is about to join.
            activation.pending = via == "explicit" or (via == "trigger" and activation.carrier is None)
            self._offer(activation, tools)
            self.active.add(activation)
        await self._on_activated(skill.name, via)
        return activation, True

    async def reactivate(self, skill: Skill, activation: ActiveSkill) -> None:
        """Activate the skills that the conversation had active."""
        self._offer(activation, (await self._load(activation))[0])
        self.active.add(activation)
        await self._on_activated(skill.name, activation.via)

    async def _on_activated(self, name: str, via: SkillActivationSource) -> None:
        self.known.add(name)
        if self._usage is not None and via != "resume":
            try:
                await asyncio.to_thread(self._usage.record_use, name)
            except (OSError, ConfigError) as error:
                self.note(f"the use of {name} was not recorded: {error}")
        if self.agent.bus.has(SkillsActivate):
            await self.agent.bus.emit(SkillsActivate(name, via))

    async def leave(self, name: str, reason: SkillReason) -> bool:
        """Deactivate a skill. Returns True if it was active."""
        activation = self.active.get(name)
        if activation is None:
            return False
        self._drop(activation)
        await _close(activation.toolsets)
        if self.agent.bus.has(SkillsDeactivate):
            await self.agent.bus.emit(SkillsDeactivate(name, reason))
        return True

    def _drop(self, activation: ActiveSkill) -> None:
        self.active.remove(activation.skill.name)
        for name in activation.tools:
            self.agent.tools.remove(name)

    def forget(self) -> None:
        """Deactivate all skills immediately. `finish` does the asynchronous part."""
        for activation in self.active:
            self._drop(activation)
            hook = SkillsDeactivate(activation.skill.name, "reset")
            rest = self.agent.bus.start(hook, only=lambda order, handler: not inspect.iscoroutinefunction(handler))
            if rest is not None:
                rest.close()
            self._pending_deactivations.append((hook, activation.toolsets))

    async def finish(self) -> None:
        """Complete `forget`: close toolsets and call async handlers."""
        while self._pending_deactivations:
            hook, toolsets = self._pending_deactivations.pop(0)
            await _close(toolsets)
            await self.agent.bus.emit(hook, only=lambda order, handler: inspect.iscoroutinefunction(handler))

    async def _text(self, skill: Skill, notes: Sequence[str], signal: CancelToken | None) -> str:
        body = await self.body(skill)
        env = self.agent.env
        if skill.trusted and has_commands(body):
            body = await run_inline_commands(body, InlineCommandRunner(skill.name, env, self.agent.bus, signal))
        files, count = (await list_files(await self.reader(skill), skill.directory)) if skill.directory else ((), 0)
        return render_content(skill, "\n\n".join([*notes, body]), files, count)

    async def _load(self, activation: ActiveSkill) -> tuple[list[Tool], list[str]]:
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
                toolset, made = create_tools(maker, dependencies)
                activation.toolsets.append(toolset)
                tools += made
        except ToolsetError as error:
            await _close(activation.toolsets)
            activation.toolsets.clear()
            self.note(str(error))
            return [], [f"[The tools of this skill are not there: {error}]"]
        return tools, []

    def _offer(self, activation: ActiveSkill, tools: Sequence[Tool]) -> None:
        """Register the tools of a skill's toolsets. A name that is in use keeps its tool."""
        taken = {*self.agent.tool_aliases.values(), LOAD_SKILL_ALIAS}
        for added in tools:
            if self.add_tool(added, taken, f"the skill {activation.skill.name}"):
                activation.tools.append(added.name)

    def add_tool(self, tool: Tool, taken: set[str], whose: str) -> bool:
        """Register a tool, unless its name is in use. Returns True if it was registered."""
        if tool.name in self.agent.tools or tool.name in taken:
            self.note(f"{whose} has a tool {tool.name}, and a tool with this name exists; it was skipped")
            return False
        try:
            self.agent.tools.add(tool)
        except ConfigError as error:
            self.note(f"{whose}: {error}")
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

    async def reader(self, skill: Skill) -> ExecutionEnv:
        """Return the environment that reads the files of a skill: the project's or, like the skill's own text, this machine's."""
        env = self.agent.env
        if type(env) is LocalEnv or (skill.directory and is_within(skill.directory, env.cwd)):
            return env
        self._check_host = self._check_host or await asyncio.to_thread(LocalEnv, skill.directory or ".")
        return self._check_host


async def _close(toolsets: Sequence[Any]) -> None:
    for toolset in toolsets:
        await close_toolset(toolset)
