"""Runs hook commands concurrently, with a timeout, limited output, and a limited nesting depth."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from mainspring.env import ExecutionEnv, OutputLimits, ProcessResult
from mainspring.extensions.command_hooks.config import DEPTH, GATES, MAX_HOOK_DEPTH, CommandEvent, CommandHook
from mainspring.extensions.command_hooks.protocol import Payload, Verdict, encode_payload, verdict_of

MAX_CONCURRENT = 4
"""Maximum number of commands of one event that run at the same time."""

LIMITS = OutputLimits(head=256 << 10, tail=64 << 10, cap=1 << 20)
"""A response is short; a command that writes more than 1MiB is stopped and has failed."""


class HookCommandRunner:
    """The commands of an agent.

    Args:
        hooks: The commands.
        env: The environment that runs them.
        depth: Nesting depth of this process in hooks.
    """

    def __init__(self, hooks: Iterable[CommandHook], env: ExecutionEnv, depth: int = 0) -> None:
        self.hooks = tuple(hooks)
        self._env = env
        self._depth = depth

    def hooks_for(self, event: CommandEvent, names: Iterable[str] = ()) -> tuple[CommandHook, ...]:
        """Return the commands that match one of these names; a duplicate command runs once."""
        known = tuple(names)
        fitting = [h for h in self.hooks if h.event == event and h.matches(known)]
        return tuple({h.command: h for h in reversed(fitting)}.values())[::-1]

    async def ask(self, hooks: Sequence[CommandHook], payload: Payload) -> list[Verdict]:
        """Run these commands and return their verdicts in the same order."""
        if self._depth >= MAX_HOOK_DEPTH:
            reason = f"it did not run, since hooks are nested {self._depth} levels deep. Make sure that no hook starts this program"
            return [Verdict(hook=h, failure=reason) for h in hooks if h.event in GATES]
        data = encode_payload(payload)
        slots = asyncio.Semaphore(MAX_CONCURRENT)

        async def one(hook: CommandHook) -> Verdict:
            async with slots:
                return await self._run(hook, data)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(hook)) for hook in hooks]
        return [task.result() for task in tasks]

    async def _run(self, hook: CommandHook, data: bytes) -> Verdict:
        folder = self._env.cwd
        variables = {"AGENT_PROJECT_DIR": folder, "CLAUDE_PROJECT_DIR": folder}
        script = f"export {DEPTH}={self._depth + 1}\n{hook.command}"  # in the script, since an environment may set its own value
        try:
            done = await self._env.run(script, stdin=data, timeout=hook.timeout, env=variables, limits=LIMITS)
        except Exception as error:  # a command that cannot run has not consented
            return Verdict(hook=hook, failure=f"it cannot be run: {error}")
        wrong = _failure_reason(done, hook)
        if wrong:
            return Verdict(hook=hook, failure=wrong)
        return verdict_of(hook, done.exit_code, done.stdout.text, done.stderr.text)


def _failure_reason(done: ProcessResult, hook: CommandHook) -> str:
    """Return the reason why the command was stopped; empty if it exited normally."""
    if done.timed_out:
        return f"it timed out after {hook.timeout:g} seconds"
    if done.overflowed:
        return f"it wrote more than {LIMITS.cap >> 20}MiB and was stopped"
    if done.swarmed:
        return "it had too many processes and was stopped"
    if done.cancelled:
        return "it was stopped with the run"
    if done.signal:
        return f"it was killed by {done.signal}"
    return "its output is too long" if done.stdout.omitted > 0 else ""
