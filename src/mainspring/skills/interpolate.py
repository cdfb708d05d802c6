"""Commands in the text of a skill: ``!`git status` `` is replaced by what the command says, anew at each activation."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from mainspring.cancellation import CancelToken
from mainspring.env import ExecutionEnv, OutputLimits, explain
from mainspring.env.quiet import QUIET
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import HookBus, ToolPermit
from mainspring.messages import ToolUseBlock
from mainspring.tools.builtin import shell

SECONDS = 10.0
"""What one command may take."""

MOST = 20
"""Commands of one text that are run."""

BYTES = 16 * 1024
"""Of the output of one command that is kept."""

_FENCE = lazy_re(r"^[ ]{0,3}(`{3,}|~{3,})")
_COMMAND = lazy_re(r"(?:(?<=^)|(?<=[\s(\"'>*]))!`([^`\n]+)`(?!`)", re.MULTILINE)

Run = Callable[[str], Awaitable[str]]
"""Gives what stands in the place of a command."""


def has_commands(body: str) -> bool:
    """Whether a text has commands in it."""
    return "!`" in body and any(True for piece, code in _pieces(body) if not code and _COMMAND.search(piece))


async def interpolate(body: str, run: Run) -> str:
    """The text with the output of each command in its place.

    What stands in a fenced block of code is an example and stays as it is; so does everything else, ``$1`` and the like included.
    Output is not looked at again: a command in it is text.
    """
    made: list[str] = []
    left = MOST
    for piece, code in _pieces(body):
        at = 0
        for found in () if code else _COMMAND.finditer(piece):
            made.append(piece[at : found.start()])
            made.append(await run(found[1].strip()) if left > 0 else f"[not run: a skill may run {MOST} commands]")
            left, at = left - 1, found.end()
        made.append(piece[at:])
    return "".join(made)


def _pieces(body: str) -> list[tuple[str, bool]]:
    """The text in pieces, each with whether it is a fenced block of code."""
    pieces: list[tuple[list[str], bool]] = []
    fence = ""
    for each in body.splitlines(keepends=True):
        mark = _FENCE.match(each)
        closes = bool(fence) and mark is not None and mark[1].startswith(fence) and not each.strip().strip(fence[0])
        opens = not fence and mark is not None
        code = bool(fence) or opens
        if not pieces or pieces[-1][1] != code:
            pieces.append(([], code))
        pieces[-1][0].append(each)
        if opens and mark is not None:
            fence = mark[1]
        elif closes:
            fence = ""
    return [("".join(lines), code) for lines, code in pieces]


class Commands:
    """Runs the commands of one skill: asks whoever decides about calls, then the environment.

    Args:
        skill: The skill's name.
        env: Where commands run.
        bus: Who decides: each command is judged like a call of ``shell``.
        signal: Ends what runs.
    """

    def __init__(self, skill: str, env: ExecutionEnv, bus: HookBus, signal: CancelToken | None = None) -> None:
        self._skill = skill
        self._env = env
        self._bus = bus
        self._signal = signal
        self._count = 0
        self._environment: dict[str, str] = {}

    async def __call__(self, command: str) -> str:
        """Run one; what went wrong stands in its place."""
        refused = await self._refused(command)
        if refused:
            return f"[not run: `{command}`: {refused}]"
        limits = OutputLimits(head=BYTES, tail=0, cap=1 << 20)
        variables = {**QUIET, **self._environment}
        try:
            result = await self._env.run(command, env=variables, timeout=SECONDS, signal=self._signal, limits=limits)
        except OSError as error:
            return f"[failed: `{command}`: {explain(error)}]"
        out, more = result.stdout.text.rstrip("\n"), result.stdout.omitted
        if result.timed_out:
            return f"[failed: `{command}`: it took longer than {SECONDS:g} seconds]"
        if result.cancelled:
            return f"[failed: `{command}`: it was stopped]"
        if result.exit_code:
            said = result.stderr.text.strip() or out
            return f"[failed: `{command}`: exit {result.exit_code}{': ' + said[:500] if said else ''}]"
        return f"{out}\n[{more} more bytes]" if more or result.overflowed else out

    async def _refused(self, command: str) -> str:
        """Why it may not run; empty if it may."""
        if not self._bus.has(ToolPermit):
            return ""
        self._count += 1
        call = ToolUseBlock(f"skill-{self._skill}-{self._count}", shell.name, {"command": command})
        permit = await self._bus.emit(ToolPermit(call, "", {"command": command}, shell, self._env))
        self._environment = permit.environment
        if permit.denied:
            return "; ".join(permit.denied)
        return permit.paused
