"""Runs programs of a skill: scripts, and inline commands.

Scripts run in the agent's environment, with limits, and return JSON. An inline command in the text of a skill, ``!`git status` ``, is
replaced by its output at each activation.
"""

from __future__ import annotations

import itertools
import json
import posixpath
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from mainspring.cancellation import CancelToken
from mainspring.env import ExecutionEnv, OutputLimits, ProcessResult, explain
from mainspring.env.variables import NONINTERACTIVE_VARIABLES
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import HookBus, PermissionCheck
from mainspring.messages import ToolUseBlock
from mainspring.skills.skill import Script, ScriptError, Skill
from mainspring.text import truncate_middle
from mainspring.tools import ToolErrorCode
from mainspring.tools.builtin import shell

_MAX_SECONDS = 60.0
"""Maximum run time of a script. Its own limit may be shorter."""


_MAX_OUTPUT_BYTES = 1 << 20
"""Maximum bytes of stdout and stderr together. Then it is stopped."""


_MAX_ARGUMENTS = 100
_MAX_ARGUMENT_BYTES = 4096
"""Maximum bytes of all arguments together."""


MAX_SHOWN_BYTES = 32 * 1024
"""Maximum bytes of each output that the model gets."""


ScriptCwd = Literal["project", "skill"]
"""The working directory of a script: the project's folder or the skill's."""


_INTERPRETERS: dict[str, tuple[str, ...]] = {
    ".py": ("python3", "python"),
    ".sh": ("bash", "sh"),
    ".bash": ("bash",),
    ".js": ("node",),
    ".mjs": ("node",),
    ".cjs": ("node",),
    ".rb": ("ruby",),
    ".pl": ("perl",),
    ".ps1": ("pwsh", "powershell"),
}
"""Programs that run a file by its extension. The first available one is used."""


def find_script(skill: Skill, name: str) -> Script:
    """Find a script by name: one of the skill's list, or a file below ``scripts/``.

    Raises:
        ScriptError: If it is neither.
    """
    requested = name.strip()
    for script in skill.scripts:
        if requested in (script.name, script.path):
            return script
    path = posixpath.normpath(requested.replace("\\", "/")) if requested else ""
    if path.startswith("scripts/") and posixpath.splitext(path)[1] in _INTERPRETERS:
        return Script(name=path, path=path)
    known = ", ".join(s.name for s in skill.scripts) or "none by name, only files below scripts/"
    raise ScriptError(f"the skill {skill.name} has no script {name!r}; it has {known}")


def validate_arguments(arguments: Sequence[str]) -> None:
    """Check the arguments of a script.

    Raises:
        ScriptError: If there are too many, they are too long, or one is invalid.
    """
    if len(arguments) > _MAX_ARGUMENTS:
        raise ScriptError(
            f"a script takes {_MAX_ARGUMENTS} arguments at most, not {len(arguments)}; put them into a file"
        )
    size = sum(len(argument.encode("utf-8", "surrogatepass")) for argument in arguments)
    if size > _MAX_ARGUMENT_BYTES:
        raise ScriptError(
            f"the arguments of a script have {_MAX_ARGUMENT_BYTES} bytes at most, not {size}; put them into a file"
        )
    for number, argument in enumerate(arguments, 1):
        if "\0" in argument:
            raise ScriptError(f"argument {number} has a NUL character in it")


def render_command(path: str, arguments: Sequence[str], folder: str = "") -> str:
    """Return the command of a call as a line for the approval. The program follows from the file's extension."""
    programs = _INTERPRETERS.get(posixpath.splitext(path)[1])
    line = shlex.join([*(programs[:1] if programs else ()), path, *arguments])
    return f"cd {shlex.quote(folder)} && {line}" if folder else line


async def run_script(
    env: ExecutionEnv,
    skill: Skill,
    script: Script,
    path: str,
    arguments: Sequence[str],
    *,
    run_in: ScriptCwd = "project",
    signal: CancelToken | None = None,
) -> dict[str, Any]:
    """Run a script.

    Args:
        env: The environment.
        skill: The skill.
        script: The script.
        path: Its real path.
        arguments: Its arguments; see `validate_arguments`.
        run_in: The working directory: one of the two.
        signal: Ends it with all its processes.

    Returns:
        The result; see `to_result`.

    Raises:
        ScriptError: If no program can run it.
        OSError: If it cannot be started.
    """
    programs = _INTERPRETERS.get(posixpath.splitext(path)[1])
    if programs is None:
        raise ScriptError(f"{script.path}: it is not known what runs such a file; known are {', '.join(_INTERPRETERS)}")
    found = [each for name in programs if (each := await env.find_program(name)) is not None]
    timeout = min(script.timeout, _MAX_SECONDS) if script.timeout > 0 else _MAX_SECONDS
    result = await env.run(
        [*found, *programs][:1] + [path, *arguments],
        cwd=skill.directory if run_in == "skill" else None,
        env={**NONINTERACTIVE_VARIABLES, "SKILL_DIR": skill.directory or "", "PROJECT_DIR": env.cwd},
        timeout=timeout,
        signal=signal,
        limits=OutputLimits(head=_MAX_OUTPUT_BYTES, tail=0, cap=_MAX_OUTPUT_BYTES),
    )
    return to_result(result, timeout)


def to_result(result: ProcessResult, timeout: float) -> dict[str, Any]:
    """Convert the result of a run to the form of a `ToolResponse`, with the exit code.

    A success has ``result``: the JSON that the script printed, or the text. A failure has ``error``, the name of a `ToolErrorCode`,
    and in ``message`` the reason; ``result`` or ``stdout`` has what the script printed. ``stderr`` is added if there is any. Longer
    output is cut in the middle, and ``cut`` names the streams.
    """
    stopped = ""
    if result.timed_out:
        stopped = f"it was stopped after {timeout:g} seconds"
    elif result.cancelled:
        stopped = "it was stopped, since the run was"
    elif result.overflowed or result.stdout.omitted or result.stderr.omitted:
        stopped = f"it was stopped, since it wrote more than {_MAX_OUTPUT_BYTES} bytes"
    elif result.swarmed:
        stopped = "it was stopped, since it had more processes than are allowed here"
    elif result.signal:
        stopped = f"it was ended by {result.signal}"
    fields: dict[str, Any] = {"success": not stopped and result.exit_code == 0}
    if not fields["success"]:
        fields["error"] = ToolErrorCode.TIMEOUT if result.timed_out else ToolErrorCode.UNKNOWN
    fields |= {"message": stopped or f"exit code {result.exit_code}", "exit_code": result.exit_code}
    found, value = _as_json(result.stdout.text) if not stopped else (False, None)
    if found and len(result.stdout.data) <= MAX_SHOWN_BYTES:
        fields["result"] = value
    elif fields["success"]:
        fields["result"] = ""
        _add_output(fields, "result", result.stdout.text)
    else:
        _add_output(fields, "stdout", result.stdout.text)
    _add_output(fields, "stderr", result.stderr.text)
    return fields


def _as_json(text: str) -> tuple[bool, Any]:
    if not text.strip()[:1] or text.strip()[0] not in "{[":
        return False, None
    try:
        return True, json.loads(text)
    except (ValueError, RecursionError):
        return False, None


def _add_output(fields: dict[str, Any], name: str, text: str) -> None:
    if not text.strip():
        return
    if len(text) > MAX_SHOWN_BYTES:
        fields["cut"] = [*fields.get("cut", []), name]
    tail = MAX_SHOWN_BYTES // 4
    fields[name] = truncate_middle(text, MAX_SHOWN_BYTES - tail, tail, "\n[… {more} characters …]\n")


_TIMEOUT_SECONDS = 10.0
"""Maximum run time of one command."""


MAX_COMMANDS = 20
"""Maximum number of commands of one text."""


MAX_COMMAND_OUTPUT_BYTES = 16 * 1024
"""Maximum bytes of the output of one command."""


_FENCE = lazy_re(r"^[ ]{0,3}(`{3,}|~{3,})")
_COMMAND = lazy_re(r"(?:(?<=^)|(?<=[\s(\"'>*]))!`([^`\n]+)`(?!`)", re.MULTILINE)


CommandRunner = Callable[[str], Awaitable[str]]
"""Returns the replacement of a command."""


async def run_inline_commands(body: str, run: CommandRunner) -> str:
    """Replace each command in a text by its output.

    Fenced code blocks are examples and stay unchanged, like everything else, including ``$1``. Output is not scanned again: a command
    in it is text.
    """
    parts: list[str] = []
    remaining = MAX_COMMANDS
    for piece, code in _split_code_fences(body):
        at = 0
        for found in () if code else _COMMAND.finditer(piece):
            parts.append(piece[at : found.start()])
            parts.append(
                await run(found[1].strip()) if remaining > 0 else f"[not run: a skill may run {MAX_COMMANDS} commands]"
            )
            remaining, at = remaining - 1, found.end()
        parts.append(piece[at:])
    return "".join(parts)


def _split_code_fences(body: str) -> list[tuple[str, bool]]:
    """Split the text into pieces, each with whether it is a fenced code block."""
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


_NUMBERS = itertools.count(1)
"""Numbers of commands, so that an approval never applies to a later command."""


class InlineCommandRunner:
    """Runs the commands of one skill: requests permission, then uses the environment.

    Args:
        skill: The skill's name.
        env: The environment.
        bus: Decides: each command is judged like a call of ``shell``.
        signal: Ends running commands.
    """

    def __init__(self, skill: str, env: ExecutionEnv, bus: HookBus, signal: CancelToken | None = None) -> None:
        self._skill = skill
        self._env = env
        self._bus = bus
        self._signal = signal
        self._environment: dict[str, str] = {}

    async def __call__(self, command: str) -> str:
        """Run one command. Errors become its replacement."""
        rejected = await self._denial_reason(command)
        if rejected:
            return f"[not run: `{command}`: {rejected}]"
        limits = OutputLimits(head=MAX_COMMAND_OUTPUT_BYTES, tail=0, cap=1 << 20)
        variables = {**NONINTERACTIVE_VARIABLES, **self._environment}
        try:
            result = await self._env.run(
                command, env=variables, timeout=_TIMEOUT_SECONDS, signal=self._signal, limits=limits
            )
        except OSError as error:
            return f"[failed: `{command}`: {explain(error)}]"
        out, more = result.stdout.text.rstrip("\n"), result.stdout.omitted
        if result.timed_out:
            return f"[failed: `{command}`: it took longer than {_TIMEOUT_SECONDS:g} seconds]"
        if result.cancelled:
            return f"[failed: `{command}`: it was stopped]"
        if result.exit_code:
            error_text = result.stderr.text.strip() or out
            return f"[failed: `{command}`: exit {result.exit_code}{': ' + error_text[:500] if error_text else ''}]"
        return f"{out}\n[{more} more bytes]" if more or result.overflowed else out

    async def _denial_reason(self, command: str) -> str:
        """Return why it may not run. Empty if it may."""
        if not self._bus.has(PermissionCheck):
            return ""
        call = ToolUseBlock(f"skill-{self._skill}-{next(_NUMBERS)}", shell.name, {"command": command})
        permit = await self._bus.emit(PermissionCheck(call, "", {"command": command}, shell, self._env))
        self._environment = permit.environment
        if permit.denied:
            return "; ".join(permit.denied)
        return permit.paused
