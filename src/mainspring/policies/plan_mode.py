"""Plan mode: the agent reads and plans, and changes nothing until the user approves the plan.

Enforced at the tool gate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.env import RealPath
from mainspring.env.paths import is_inside
from mainspring.errors import AgentError
from mainspring.loop.hooks import PermissionCheck, SystemTransform, ToolFinished
from mainspring.permissions.decisions import PermissionDecision
from mainspring.permissions.engine import PermissionEngine, ToolCall, declared_access
from mainspring.permissions.paths import ProjectPaths, ResolvesPaths
from mainspring.shell_analysis import wildcards
from mainspring.text import escape_invisible
from mainspring.tools.builtin import present_plan

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

PLANS_FOLDER = ".agent/plans"
"""Folder of plans in the project."""

ALLOWED_TOOLS = frozenset(("present_plan", "ask_user", "todo_read", "todo_write", "spawn"))
"""Tools that change nothing; a subagent is in plan mode, too."""

_HOOK_ORDER = -100
"""Before all other gates, so that no approval is requested for a call that plan mode denies."""

PLAN_MODE_PROMPT = (
    "Plan mode: look and think, change nothing. Only tools and commands that read will run; all others are refused. When you "
    "know what to do, present it with present_plan, or give it as your answer: what will be done, in which files, in "
    "what order, and how it will be checked."
)
EXECUTE_PLAN_PROMPT = "Carry out this plan, step by step:\n\n"
"""Text before a plan in the prompt that executes it."""


class PlanState(Struct):
    """State that an agent shares with its subagents.

    Attributes:
        active: Whether plan mode is on.
        approved: The approved plan.
        file: The file of the last plan.
    """

    active: bool = True
    approved: str = ""
    file: str = ""


class PlanMode:
    """A plugin that allows only calls that read until a plan is approved.

    These calls read: tools that declare only read access; commands that only read, according to the command table; `fetch`. A
    tool that does not declare its access is denied unless ``read_only`` names it. Rules may still deny a call that plan mode
    allows.

    Args:
        read_only: Names of further tools that only read, where ``*`` matches any characters: ``github__get_*``.
        folder: Folder for plans, relative to the project folder.
        now: Function that returns the current time, for the name of a plan.
        state: State shared with other agents; a new one by default.
    """

    def __init__(
        self,
        *,
        read_only: Iterable[str] = (),
        folder: str = PLANS_FOLDER,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        state: PlanState | None = None,
    ) -> None:
        self.state = state or PlanState()
        self._read_only = tuple(wildcards.encode_wildcards(name) for name in read_only)
        self._folder = folder.rstrip("/")
        self._now = now
        self._engine = PermissionEngine()
        self._agent: CoreAgent | None = None
        self._child = False

    def install(self, agent: CoreAgent) -> None:
        """Attach to `tool:permit` of an agent, and offer it `present_plan`."""
        self._agent = agent
        agent.on(PermissionCheck, self.on_tool_permit, order=_HOOK_ORDER)
        agent.on(ToolFinished, self.on_tool_after)
        agent.on(SystemTransform, self.on_system_transform)
        if not self._child and agent.tools.get(present_plan.name) is None:
            agent.tools.add(present_plan)

    def for_child(self) -> PlanMode:
        """Return the plugin for a subagent: its plan mode ends when that of its parent ends."""
        child = PlanMode(folder=self._folder, now=self._now, state=self.state)
        child._read_only, child._child = self._read_only, True
        return child

    def for_conversation(self) -> PlanMode:
        """Return the plugin for another conversation, which starts in plan mode."""
        other = PlanMode(folder=self._folder, now=self._now)
        other._read_only = self._read_only
        return other

    def exit(self) -> None:
        """End plan mode: from now on only the other policies decide."""
        self.state.active = False

    def on_system_transform(self, hook: SystemTransform) -> None:
        """Handle `system:transform`."""
        if self.state.active:
            hook.system = f"{hook.system}\n\n{PLAN_MODE_PROMPT}".strip()

    async def on_tool_permit(self, hook: PermissionCheck) -> None:
        """Handle `tool:permit`."""
        if self.state.active:
            problem = await self.refusal_reason(hook)
            if problem:
                hook.deny(f"plan mode: {problem}. Present the plan; it is carried out when the user approves it")

    async def refusal_reason(self, hook: PermissionCheck) -> str:
        """Return the reason why plan mode denies a call; empty if it allows the call."""
        if hook.name in ALLOWED_TOOLS and hook.tool.source in ("builtin", "user"):
            return ""
        if any(wildcards.fullmatch(name, hook.name) for name in self._read_only):
            return ""
        call = ToolCall(hook.name, hook.input, hook.tool)
        touched = declared_access(call)
        if touched is None:
            return f"{hook.name} does not declare what it touches, so it is not known to only read"
        changing = next((a for a in touched if a.scope in ("fs-write", "fs-delete")), None)
        if changing is not None:
            return f"{hook.name} would change {escape_invisible(changing.resource, limit=200)}"
        if any(a.scope == "shell-run" for a in touched):
            decision = await self.judge_command(call, hook.env)
            if decision.outcome != "allow":
                return f"only commands that read in the project run ({decision.reason})"
            hook.set_environment(decision.environment)
        elif hook.name == "jobs" and hook.input.get("action") == "kill":
            return "jobs would end a program"
        return ""

    async def judge_command(self, call: ToolCall, env: ResolvesPaths) -> PermissionDecision:
        """Return the decision about a call that runs a command.

        Any decision but ``allow`` means that it may do more than read.

        Args:
            call: The call.
            env: The environment that would run it.
        """
        return await self._engine.decide(call, env, await ProjectPaths.find(env, root=None, home=None))

    async def on_tool_after(self, hook: ToolFinished) -> None:
        """Handle `tool:after`: save a presented plan, and end plan mode if it was approved."""
        if hook.name != present_plan.name or not self.state.active:
            return
        plan = hook.metadata.get("plan") or hook.input.get("plan")
        if isinstance(plan, str) and plan.strip():
            await self.save_plan(plan, str(hook.input.get("title") or ""))
        if hook.metadata.get("approved") is True and not hook.is_error:
            self.state.approved = str(plan)
            self.exit()

    async def save_plan(self, plan: str, title: str = "") -> str:
        """Save a plan to a new file.

        Returns:
            The path of the file, relative to the project folder.

        Raises:
            AgentError: If the plugin is not installed in an agent.
            OSError: If the file cannot be written, or the folder is a link out of the project.
        """
        if self._agent is None:
            raise AgentError("Plan mode is not installed in an agent. Install it with Agent(plugs=[PlanMode()]).")
        first = title or next((line for line in plan.splitlines() if line.strip(" #")), "plan")
        slug = re.sub(r"[^a-z0-9]+", "-", first.lower()).strip("-")[:40].rstrip("-") or "plan"
        path = f"{self._folder}/{self._now():%Y%m%d-%H%M%S}-{slug}.md"
        env = self._agent.env
        real = RealPath(await env.realpath(path))
        if not is_inside(real, env.cwd) or real == env.cwd:
            raise PermissionError(1, "it is a link out of the project", self._folder)
        await env.write_bytes(real, (plan.rstrip() + "\n").encode("utf-8", "replace"))
        self.state.file = path
        return path
