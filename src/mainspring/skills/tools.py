"""The tools with which a model uses skills: `skills_use`, `skills_read`, `skills_run_script`."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast

from mainspring.env import explain
from mainspring.env.paths import is_inside
from mainspring.lazy import lazy_function
from mainspring.skills.active import ActiveSkill, ActiveSkills
from mainspring.skills.content import SKILL_FILE, OutsideFolderError, escape_for_tag, resolve_skill_path
from mainspring.skills.skill import ScriptError, Skill, SkillError
from mainspring.tools import Access, Tool, ToolContext, ToolErrorCode, ToolResult, define_tool
from mainspring.tools.tool import no_access

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.skills.activation import SkillActivator
    from mainspring.skills.execution import find_script, render_command, run_script, validate_arguments
else:
    find_script = lazy_function("mainspring.skills.execution", "find_script")
    render_command = lazy_function("mainspring.skills.execution", "render_command")
    run_script = lazy_function("mainspring.skills.execution", "run_script")
    validate_arguments = lazy_function("mainspring.skills.execution", "validate_arguments")

_MAX_FILE_BYTES = 1 << 20
"""Maximum bytes of a skill's file that are read."""

MAX_PAGE_BYTES = 28_000
"""Maximum bytes of a file in one result."""

_USE = (
    "Activate a skill: its instructions are returned and apply to this task. Do it before the work that it is about. A skill that is "
    "active already need not be activated again."
)
_READ = "Read a text file of an active skill: a guide, a template, the source of a script. Paths are relative to the skill's folder."
_RUN = (
    "Run a script of an active skill. It gets 60 seconds and no input; the result is JSON with success, exit_code, and result: "
    "the JSON or the text that it printed. It runs in the project's folder unless run_in names another."
)


class SkillSet(Protocol):
    """The skills of an agent, as its skill tools see them.

    Attributes:
        active: The active skills.
        activator: Activates skills.
    """

    active: ActiveSkills
    activator: SkillActivator

    @property
    def agent(self) -> CoreAgent:
        """The agent that has the skills."""
        ...

    def find(self, name: str) -> Skill | None:
        """The skill of a name."""
        ...

    def unknown(self, name: str) -> str:
        """The message that a skill was not found."""
        ...


def skill_tools(skills: SkillSet) -> tuple[Tool, Tool, Tool]:
    """Create the three tools for an agent's skills."""
    return _use_tool(skills), _read_tool(skills), _run_tool(skills)


def _use_tool(skills: SkillSet) -> Tool:
    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        return await activate_for_model(skills, arguments["name"], ctx)

    return define_tool(
        "skills_use",
        description=_USE,
        parameters=_object_schema({"name": {"type": "string", "description": "The skill's name."}}, "name"),
        execute=execute,
        label="Skill",
        source="builtin",
        concurrency_safe=False,
        idempotent=True,
        access=no_access,  # the text is the skill's, and each of its commands is judged separately
    )


async def activate_for_model(skills: SkillSet, name: str, ctx: ToolContext) -> ToolResult:
    """Activate a skill for the model. Returns the result text."""
    skill = skills.find(name)
    if skill is None or not skill.model_invocable:
        return _error(ToolErrorCode.NOT_FOUND, skills.unknown(name))
    try:
        activation, new = await skills.activator.activate(skill, "model", signal=ctx.signal, turn_id=ctx.turn_id)
    except SkillError as error:
        return _error(ToolErrorCode.CONFIG_ERROR, f"The skill {skill.name} was not activated: {error}")
    facts = {"skill": skill.name}
    if not new:
        return ToolResult(
            output=f"The skill {skill.name} is active already; its instructions are above and still apply.",
            title=skill.name,
            metadata=facts,
        )
    if activation.carrier is not None:  # An earlier run had the same text.
        return ToolResult(
            output=f"The skill {skill.name} is active again; its instructions are above, unchanged.",
            title=skill.name,
            metadata=facts,
        )
    return ToolResult(output=activation.text, title=skill.name, metadata=facts)


def _read_tool(skills: SkillSet) -> Tool:
    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        found = skills.active.get(arguments["skill"])
        if not _is_usable(found, ctx):
            return _inactive_error(skills, arguments["skill"])
        try:
            text = await _read_file(skills, found, arguments["path"])
        except OutsideFolderError as error:
            return _error(ToolErrorCode.PERMISSION_DENIED, str(error))
        except (SkillError, ValueError) as error:
            return _error(ToolErrorCode.VALIDATION_ERROR, str(error))
        except OSError as error:
            return _error(ToolErrorCode.NOT_FOUND, f"{arguments['path']}: {explain(error)}")
        return ToolResult(output=_paginate(escape_for_tag(text), arguments.get("offset", 1)), title=arguments["path"])

    def access(arguments: Mapping[str, Any]) -> Sequence[Access]:
        found = skills.active.get(str(arguments.get("skill")))
        folder = found.skill.directory if found is not None else None
        if found is None or folder is None or not is_inside(folder, skills.agent.env.cwd):
            return ()  # Files that the user installed for all projects are part of the skill's text.
        return (Access("fs-read", posixpath.join(folder, str(arguments.get("path", "")))),)

    return define_tool(
        "skills_read",
        description=_READ,
        parameters=_object_schema(
            {
                "skill": {"type": "string", "description": "The skill's name."},
                "path": {"type": "string", "description": "The file, for example references/guide.md."},
                "offset": {"type": "integer", "minimum": 1, "default": 1, "description": "First line, from 1."},
            },
            "skill",
            "path",
        ),
        execute=execute,
        label="Skill file",
        source="builtin",
        idempotent=True,
        access=access,
    )


async def _read_file(skills: SkillSet, active_skill: ActiveSkill, path: str) -> str:
    """Return the text of a file.

    Raises:
        OutsideFolderError: If it is not in the skill's folder.
        ValueError: If it is not text.
        OSError: If it cannot be read.
    """
    skill = active_skill.skill
    own = posixpath.basename((skill.path or SKILL_FILE).replace("\\", "/"))
    if posixpath.normpath(path) in (SKILL_FILE, own):
        return await skills.activator.body(skill)
    if skill.directory is None:
        raise OutsideFolderError(f"the skill {skill.name} has no files except its instructions")
    env = await skills.activator.file_env(skill)
    real = await resolve_skill_path(env, skill.directory, path)
    data = await env.read_bytes(real, limit=_MAX_FILE_BYTES + 1)
    if b"\0" in data[:8192]:
        raise ValueError(f"{path} is not a text file")
    return data[:_MAX_FILE_BYTES].decode("utf-8", "replace").removeprefix("\ufeff")


def _paginate(text: str, offset: int) -> str:
    """Return the lines from ``offset`` on, as many as fit."""
    lines = text.split("\n")
    if offset > len(lines):
        return f"(there are {len(lines)} lines)"
    shown: list[str] = []
    size = 0
    for each in lines[offset - 1 :]:
        size += len(each.encode("utf-8", "replace")) + 1
        if size > MAX_PAGE_BYTES:
            break
        shown.append(each)
    if not shown:  # One line that is longer than a page.
        return f"{lines[offset - 1][: MAX_PAGE_BYTES // 4]}…\n(line {offset} is cut; offset={offset + 1} continues)"
    last = offset + len(shown) - 1
    end = "" if last >= len(lines) else f"\n(lines {offset} to {last} of {len(lines)}; offset={last + 1} continues)"
    return "\n".join(shown) + end


def _run_tool(skills: SkillSet) -> Tool:
    async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        found = skills.active.get(arguments["skill"])
        if not _is_usable(found, ctx):
            return _inactive_error(skills, arguments["skill"])
        skill, given = found.skill, list(arguments.get("arguments", ()))
        try:
            _check_trusted(skill)
            validate_arguments(given)
            script = find_script(skill, arguments["script"])
            real = await resolve_skill_path(ctx.env, skill.directory or "", script.path)
            await ctx.env.stat(real)
            run_in = arguments.get("run_in", "project")
            result = await run_script(ctx.env, skill, script, str(real), given, run_in=run_in, signal=ctx.signal)
        except OutsideFolderError as error:
            return _error(ToolErrorCode.PERMISSION_DENIED, str(error))
        except PermissionError as error:
            return _error(ToolErrorCode.PERMISSION_DENIED, str(error))
        except ScriptError as error:
            return _error(ToolErrorCode.VALIDATION_ERROR, str(error))
        except OSError as error:
            return _error(ToolErrorCode.IO_ERROR, f"{arguments['script']}: {explain(error)} where scripts run")
        return ToolResult(
            output=json.dumps(result, ensure_ascii=False, indent=1),
            title=f"{skill.name}: {script.name}",
            is_error=not result["success"],
            code=result.get("error"),
            metadata={"skill": skill.name, "exit_code": result["exit_code"]},
        )

    def access(arguments: Mapping[str, Any]) -> Sequence[Access]:
        return _run_access(skills, arguments)

    return define_tool(
        "skills_run_script",
        description=_RUN,
        parameters=_object_schema(
            {
                "skill": {"type": "string", "description": "The skill's name."},
                "script": {"type": "string", "description": "Its name, or its path, for example scripts/check.py."},
                "arguments": {"type": "array", "items": {"type": "string"}, "default": []},
                "run_in": {"type": "string", "enum": ["project", "skill"], "default": "project"},
            },
            "skill",
            "script",
        ),
        execute=execute,
        label="Skill script",
        source="builtin",
        concurrency_safe=False,
        access=access,
    )


def _check_trusted(skill: Skill) -> None:
    if not skill.trusted:
        raise PermissionError(
            f"the scripts of {skill.name} do not run, since it is not trusted. Continue without it; the user can trust "
            "the folder"
        )
    if skill.directory is None:
        raise ScriptError(f"the skill {skill.name} has no scripts: it is a text alone")


def _run_access(skills: SkillSet, arguments: Mapping[str, Any]) -> Sequence[Access]:
    """Return the command that a call runs. Empty for a call that will be refused."""
    found = skills.active.get(str(arguments.get("skill")))
    given: Any = arguments.get("arguments") or ()
    if found is None or not found.skill.directory or not isinstance(given, list | tuple):
        return ()
    try:
        script = find_script(found.skill, str(arguments.get("script", "")))
    except ScriptError:
        return ()
    folder = found.skill.directory
    path = posixpath.join(folder, script.path)
    words = [str(each) for each in cast("Sequence[object]", given)]
    line = render_command(path, words, folder if arguments.get("run_in") == "skill" else "")
    return (Access("shell-run", line),)


def _is_usable(active_skill: ActiveSkill | None, ctx: ToolContext) -> TypeGuard[ActiveSkill]:
    """Return True if a skill was active when the calls of this turn were judged."""
    return active_skill is not None and not (active_skill.turn_id and active_skill.turn_id == ctx.turn_id)


def _inactive_error(skills: SkillSet, name: str) -> ToolResult:
    if skills.find(name) is None:
        return _error(ToolErrorCode.NOT_FOUND, skills.unknown(name))
    early = (
        "; it becomes active with the next turn" if name in skills.active else "; call skills_use with its name first"
    )
    return _error(ToolErrorCode.VALIDATION_ERROR, f"The skill {name} is not active{early}.")


def _error(code: ToolErrorCode, text: str) -> ToolResult:
    return ToolResult(output=text, is_error=True, code=code)


def _object_schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
