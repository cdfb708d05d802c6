"""Programs of a skill: run in the agent's environment, with limits, and told of as JSON."""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Sequence
from typing import Any, Literal

from mainspring.cancellation import CancelToken
from mainspring.env import ExecutionEnv, OutputLimits, ProcessResult
from mainspring.env.quiet import QUIET
from mainspring.skills.skill import Script, Skill

SECONDS = 60.0
"""What a script may take at most; its own limit may be shorter."""

MAX_OUTPUT = 1 << 20
"""Bytes of output, standard output and errors together, after which it is stopped."""

MAX_ARGUMENTS = 100
MAX_ARGUMENT = 4096
"""Bytes of one argument."""

SHOWN = 32 * 1024
"""Bytes of each output that the model reads."""

RunIn = Literal["project", "skill"]
"""Where a script runs: in the project's folder, or in the skill's."""

_PROGRAMS: dict[str, tuple[str, ...]] = {
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
"""Who runs a file of such a name, the first that is there."""


class ScriptError(ValueError):
    """A script that cannot be run; the text says why."""


def find_script(skill: Skill, name: str) -> Script:
    """The script that a model means: one that the skill names, or a file below ``scripts/``.

    Raises:
        ScriptError: If it is neither.
    """
    wanted = name.strip()
    for script in skill.scripts:
        if wanted in (script.name, script.path):
            return script
    path = posixpath.normpath(wanted.replace("\\", "/")) if wanted else ""
    if path.startswith("scripts/") and posixpath.splitext(path)[1] in _PROGRAMS:
        return Script(name=path, path=path)
    known = ", ".join(s.name for s in skill.scripts) or "none by name, only files below scripts/"
    raise ScriptError(f"the skill {skill.name} has no script {name!r}; it has {known}")


def check_arguments(arguments: Sequence[str]) -> None:
    """Look at the arguments of a script.

    Raises:
        ScriptError: If there are too many, one is too long, or one cannot be passed on.
    """
    if len(arguments) > MAX_ARGUMENTS:
        raise ScriptError(
            f"a script takes {MAX_ARGUMENTS} arguments at most, not {len(arguments)}; put them into a file"
        )
    for number, argument in enumerate(arguments, 1):
        size = len(argument.encode("utf-8", "surrogatepass"))
        if size > MAX_ARGUMENT:
            raise ScriptError(f"argument {number} has {size} bytes, and {MAX_ARGUMENT} is the most; put it into a file")
        if "\0" in argument:
            raise ScriptError(f"argument {number} has a NUL character in it")


def command_line(path: str, arguments: Sequence[str], folder: str = "") -> str:
    """What a call runs, as a line for whoever decides about it: the program is named as its file's ending tells."""
    programs = _PROGRAMS.get(posixpath.splitext(path)[1])
    line = shlex.join([*(programs[:1] if programs else ()), path, *arguments])
    return f"cd {shlex.quote(folder)} && {line}" if folder else line


async def run_script(
    env: ExecutionEnv,
    skill: Skill,
    script: Script,
    path: str,
    arguments: Sequence[str],
    *,
    run_in: RunIn = "project",
    signal: CancelToken | None = None,
) -> dict[str, Any]:
    """Run a script.

    Args:
        env: Where.
        skill: Whose it is.
        script: The script.
        path: Its real path.
        arguments: What it is called with; see `check_arguments`.
        run_in: In which folder. No other can be chosen.
        signal: Ends it with everything it started.

    Returns:
        How it went; see `told`.

    Raises:
        ScriptError: If there is nothing to run it with.
        OSError: If it cannot be started.
    """
    programs = _PROGRAMS.get(posixpath.splitext(path)[1])
    if programs is None:
        raise ScriptError(f"{script.path}: it is not known what runs such a file; known are {', '.join(_PROGRAMS)}")
    found = [each for name in programs if (each := await env.find_program(name)) is not None]
    timeout = min(script.timeout, SECONDS) if script.timeout > 0 else SECONDS
    result = await env.run(
        [*found, *programs][:1] + [path, *arguments],
        cwd=skill.directory if run_in == "skill" else None,
        env={**QUIET, "SKILL_DIR": skill.directory or "", "PROJECT_DIR": env.cwd},
        timeout=timeout,
        signal=signal,
        limits=OutputLimits(head=MAX_OUTPUT, tail=0, cap=MAX_OUTPUT),
    )
    return told(result, timeout)


def told(result: ProcessResult, timeout: float) -> dict[str, Any]:
    """What a run came to, as it is told: ``ok``, ``exit_code``, and ``result`` where the output is JSON, else ``stdout``.

    Longer output is cut in the middle, and ``cut`` says which; ``problem`` says why it was stopped, where it was.
    """
    problem = ""
    if result.timed_out:
        problem = f"it was stopped after {timeout:g} seconds"
    elif result.cancelled:
        problem = "it was stopped, since the run was"
    elif result.overflowed or result.stdout.omitted or result.stderr.omitted:
        problem = f"it was stopped, since it wrote more than {MAX_OUTPUT} bytes"
    elif result.swarmed:
        problem = "it was stopped, since it had more processes than are allowed here"
    elif result.signal:
        problem = f"it was ended by {result.signal}"
    made: dict[str, Any] = {"ok": not problem and result.exit_code == 0, "exit_code": result.exit_code}
    if problem:
        made["problem"] = problem
    found, value = _as_json(result.stdout.text) if not problem else (False, None)
    if found and len(result.stdout.data) <= SHOWN:
        made["result"] = value
    else:
        _add(made, "stdout", result.stdout.text)
    _add(made, "stderr", result.stderr.text)
    return made


def _as_json(text: str) -> tuple[bool, Any]:
    if not text.strip()[:1] or text.strip()[0] not in "{[":
        return False, None
    try:
        return True, json.loads(text)
    except (ValueError, RecursionError):
        return False, None


def _add(made: dict[str, Any], name: str, text: str) -> None:
    if not text.strip():
        return
    if len(text) > SHOWN:
        head, tail = text[: SHOWN * 3 // 4], text[-SHOWN // 4 :]
        made["cut"] = [*made.get("cut", []), name]
        text = f"{head}\n[… {len(text) - len(head) - len(tail)} characters …]\n{tail}"
    made[name] = text
