"""Plan mode: the agent looks and plans, and changes nothing until the plan is approved. Kept where calls are decided on."""

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
"""Where plans are kept, in the project."""

ALLOWED_TOOLS = frozenset(("present_plan", "ask_user", "todo_read", "todo_write", "spawn"))
"""Tools that change nothing; a sub-agent is in plan mode, too."""

HOOK_ORDER = -100
"""Before all others that decide: what plan mode refuses nobody needs to be asked about."""

PLAN_MODE_PROMPT = (
    "Plan mode: look and think, change nothing. Only tools and commands that read will run; all others are refused. When you "
    "know what is to be done, present it with present_plan, or give it as your answer: what will be done, in which files, in "
    "what order, and how it will be checked."
)
EXECUTE_PLAN_PROMPT = "Carry out this plan, step by step:\n\n"
"""What stands before a plan in the prompt that executes it."""


class PlanState(Struct):
    """Shared by an agent and its sub-agents.

    Attributes:
        active: Whether plan mode is on.
        approved: The plan that was approved.
        file: Where the last plan was kept.
    """

    active: bool = True
    approved: str = ""
    file: str = ""


class PlanMode:
    """A plug that lets only reading calls run until a plan is approved.

    What reads: tools whose every access is reading; commands that only read, by the table; `fetch`. A tool that does not say what
    it touches is refused, unless it is named here. Rules may still deny what plan mode lets pass.

    Args:
        read_only: Names of further tools that only read, ``*`` standing for any characters: ``github__get_*``.
        folder: Where plans are kept, from the project's folder.
        now: The time, for a plan's name.
        state: Shared with other agents; a new one if not given.
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
        """Sit on `tool:permit` of an agent, and offer it `present_plan`."""
        self._agent = agent
        agent.on(PermissionCheck, self.permit, order=HOOK_ORDER)
        agent.on(ToolFinished, self.on_tool_after)
        agent.on(SystemTransform, self.tell)
        if not self._child and agent.tools.get(present_plan.name) is None:
            agent.tools.add(present_plan)

    def for_child(self) -> PlanMode:
        """What a sub-agent gets: the same mode, which ends for it when it ends for its parent."""
        child = PlanMode(folder=self._folder, now=self._now, state=self.state)
        child._read_only, child._child = self._read_only, True
        return child

    def leave(self) -> None:
        """End plan mode: from now on everything is decided by the other policies alone."""
        self.state.active = False

    def tell(self, hook: SystemTransform) -> None:
        """The handler of `system:transform`."""
        if self.state.active:
            hook.system = f"{hook.system}\n\n{PLAN_MODE_PROMPT}".strip()

    async def permit(self, hook: PermissionCheck) -> None:
        """The handler of `tool:permit`."""
        if self.state.active:
            problem = await self.why_not(hook)
            if problem:
                hook.deny(f"plan mode: {problem}. Present the plan; it is carried out when the user approves it")

    async def why_not(self, hook: PermissionCheck) -> str:
        """Why a call may not be made in plan mode; empty if it may."""
        if hook.name in ALLOWED_TOOLS and hook.tool.source in ("builtin", "user"):
            return ""
        if any(wildcards.fullmatch(name, hook.name) for name in self._read_only):
            return ""
        call = ToolCall(hook.name, hook.input, hook.tool)
        touched = declared_access(call)
        if touched is None:
            return f"{hook.name} does not say what it touches, so it is not known to only read"
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
        """The decision about a call that runs a command: anything but ``allow`` means that it may do more than read.

        Args:
            call: The call.
            env: Where it would run.
        """
        return await self._engine.decide(call, env, await ProjectPaths.find(env, root=None, home=None))

    async def on_tool_after(self, hook: ToolFinished) -> None:
        """The handler of `tool:after`: a plan that was presented is kept, and an approved one ends plan mode."""
        if hook.name != present_plan.name or not self.state.active:
            return
        plan = hook.metadata.get("plan") or hook.input.get("plan")
        if isinstance(plan, str) and plan.strip():
            await self.keep(plan, str(hook.input.get("title") or ""))
        if hook.metadata.get("approved") is True and not hook.is_error:
            self.state.approved = str(plan)
            self.leave()

    async def keep(self, plan: str, title: str = "") -> str:
        """Write a plan to a file of its own.

        Returns:
            The file, from the project's folder.

        Raises:
            AgentError: If the plug is in no agent.
            OSError: If it cannot be written, or the folder is a link out of the project.
        """
        if self._agent is None:
            raise AgentError("plan mode is in no agent; put it in with Agent(plugs=[PlanMode()])")
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
