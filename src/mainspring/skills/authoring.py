"""Creates skills: the toolset of the bundled skill ``create-skill``, which asks the user to confirm each file, and a template folder."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.lazy import lazy_re
from mainspring.redaction import redact_environment
from mainspring.skills.content import strip_invisible
from mainspring.skills.manifest import MAX_DESCRIPTION_CHARS
from mainspring.skills.skill import SkillDraft, SkillError
from mainspring.skills.validation import check_spec
from mainspring.state_files import resolve_project_file, write_text_atomically
from mainspring.threads import run_in_thread
from mainspring.tools import Access, Tool, ToolContext, ToolErrorCode, ToolResult, define_tool

if TYPE_CHECKING:
    from mainspring.skills.activation import SkillHost, ToolsetContext


MAX_INSTRUCTIONS_CHARS = 60_000
"""Maximum characters of the instructions of a new skill."""


_NAME = lazy_re(r"[a-z0-9]+(?:-[a-z0-9]+)*")


_DESCRIPTION = (
    "Write a skill: the file SKILL.md in a folder of its name. The user sees it and confirms it first. Use it once the user has asked for "
    "a skill, with what was found to work and what the user corrected."
)


def render_skill(name: str, description: str, instructions: str) -> str:
    """Return the file of a skill.

    Raises:
        ValueError: If it would be invalid. The message contains the required change.
    """
    if not _NAME.fullmatch(name) or len(name) > 64:
        raise ValueError(
            f"{name!r} is not a valid name for a skill; use 1 to 64 lower-case letters, digits and single hyphens"
        )
    description = " ".join(description.split())
    if not description or len(description) > 1024:
        raise ValueError(
            f"the description has {len(description)} characters; it needs 1 to 1024, including when to use the skill"
        )
    body = instructions.strip()
    if not body or len(body) > MAX_INSTRUCTIONS_CHARS:
        raise ValueError(f"the instructions have {len(body)} characters; they need 1 to {MAX_INSTRUCTIONS_CHARS}")
    for text in (description, body):
        if strip_invisible(text) != text.replace("\r\n", "\n"):
            raise ValueError("the text contains invisible characters; leave them out")
        if redact_environment(text) != text:
            raise ValueError("the text seems to contain a key or password; write where it is stored instead")
    return f"---\nname: {name}\ndescription: {json.dumps(description, ensure_ascii=False)}\n---\n\n{body}\n"


class CreateSkillToolset:
    """The tool ``skills_create``."""

    def __init__(self, dependencies: ToolsetContext) -> None:
        assert dependencies.skills is not None
        self._skills: SkillHost = dependencies.skills

    def tools(self) -> list[Tool]:
        """The tool."""
        properties: dict[str, Any] = {
            "name": {"type": "string", "description": "Lower-case letters, digits, hyphens: release-notes."},
            "description": {
                "type": "string",
                "description": "What it does and when to use it, in one or two sentences.",
            },
            "instructions": {"type": "string", "description": "The steps, in Markdown; no front matter."},
            "where": {"type": "string", "enum": ["project", "user"], "default": "project"},
            "replace": {
                "type": "boolean",
                "default": False,
                "description": "Whether it may replace a skill of that name.",
            },
        }
        schema = {
            "type": "object",
            "properties": properties,
            "required": ["name", "description", "instructions"],
            "additionalProperties": False,
        }
        return [
            define_tool(
                "skills_create",
                description=_DESCRIPTION,
                parameters=schema,
                execute=self._create,
                concurrency_safe=False,
                access=self._access,
                preview=self._preview,
                is_approved_per_call=True,  # another skill is another file, and a new text of this one must be shown
            )
        ]

    def folder_for(self, where: str) -> Path | None:
        """Return the folder for skills; ``None`` without a folder."""
        config = self._skills.config
        project = None if config.project is None else Path(config.project) / ".agent" / "skills"
        user = Path(config.user[0]) if config.user else None
        return (user or project) if where == "user" else (project or user)

    async def _create(self, arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        del ctx
        name = arguments["name"].strip()
        try:
            text = render_skill(name, arguments["description"], arguments["instructions"])
        except ValueError as error:
            return _refusal(ToolErrorCode.VALIDATION_ERROR, str(error))
        folder = self.folder_for(arguments.get("where", "project"))
        if folder is None:
            return _refusal(ToolErrorCode.CONFIG_ERROR, "no folder for skills: neither a project nor a home folder")
        path = folder / name / "SKILL.md"
        there = await asyncio.to_thread(os.path.lexists, path.parent)
        if there and not arguments.get("replace"):
            return _refusal(
                ToolErrorCode.VALIDATION_ERROR, f"{path.parent} is there already; take another name, or set replace"
            )
        if not await self._confirm(SkillDraft(name, arguments["description"], text, str(path), there)):
            return _refusal(
                ToolErrorCode.PERMISSION_DENIED,
                "the user did not confirm it, or is not available. Do not try again unless asked",
            )
        try:
            await asyncio.to_thread(_write, folder, path, text, self._skills.config.project)
        except OSError as error:
            return _refusal(ToolErrorCode.IO_ERROR, f"{path}: {error.strerror or error}")
        return ToolResult(output=f"Written: {path}. It is offered from the next conversation on.", title=str(path))

    def _preview(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the file that a call would write, for the approval of the user."""
        name = arguments["name"].strip()
        folder = self.folder_for(arguments.get("where", "project"))
        text = render_skill(name, arguments["description"], arguments["instructions"])
        return {} if folder is None else {str(folder / name / "SKILL.md"): text}

    async def _confirm(self, written: SkillDraft) -> bool:
        confirm = self._skills.confirm
        if confirm is None:
            return False
        answer = confirm(written) if inspect.iscoroutinefunction(confirm) else await run_in_thread(confirm, written)
        return (await answer if inspect.isawaitable(answer) else answer) is True

    def _access(self, arguments: Mapping[str, Any]) -> Sequence[Access]:
        folder = self.folder_for(str(arguments.get("where", "project")))
        return (
            () if folder is None else (Access("fs-write", str(folder / str(arguments.get("name", "")) / "SKILL.md")),)
        )


def _write(folder: Path, path: Path, text: str, project: str | None) -> None:
    """Write the file, all or nothing. A link that leads elsewhere is not followed."""
    if project is not None and folder.is_relative_to(project):
        resolve_project_file(folder, Path(project))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.is_symlink() or path.is_symlink():
        raise PermissionError(1, "it is a link", str(path))
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_text_atomically(path, text)


def _refusal(code: ToolErrorCode, reason: str) -> ToolResult:
    return ToolResult(output=f"No skill was written: {reason}", is_error=True, code=code)


_PLACEHOLDER_DESCRIPTION = "Describe what this skill does. Use it when the user asks for that."


_TEXT = """---
name: {name}
description: {description}
---

# {title}

Describe step by step what to do. Keep it short: the whole text is read whenever the skill is used.

## Steps

1. First do this.
2. Then check that.

## Examples

- "A request that this skill is for": what to do then.
"""


def create_skill_folder(folder: Path, name: str, *, description: str = "", scripts: bool = False) -> Path:
    """Create the folder of a new skill. Blocks.

    Args:
        folder: The folder for skills.
        name: Its name: lower-case letters, digits, and single hyphens.
        description: What it does and when to use it (default: a text to fill in).
        scripts: Whether to add an example script.

    Returns:
        Its ``SKILL.md``.

    Raises:
        SkillError: If the name or description is invalid, the skill exists, or it cannot be written.
    """
    summary = " ".join(description.split()) or _PLACEHOLDER_DESCRIPTION
    if len(summary) > MAX_DESCRIPTION_CHARS:
        raise SkillError(f"The description has {len(summary)} characters. Use at most {MAX_DESCRIPTION_CHARS}.")
    quoted = '"' + summary.replace("\\", "\\\\").replace('"', '\\"') + '"'
    text = _TEXT.format(
        name=name, description=quoted if description else summary, title=name.replace("-", " ").capitalize()
    )
    faults = check_spec(text, name)
    if faults or not name.strip() or "/" in name:
        reason = "; ".join(f.text for f in faults) or "it has a name"
        raise SkillError(f"Invalid skill name {name!r}: {reason}. Use lower-case letters, digits, and single hyphens.")
    target = folder / name
    if os.path.lexists(target):
        raise SkillError(f"{target} already exists. Choose another name.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        outer = Path(tempfile.mkdtemp(prefix=".staging-", dir=folder))
        try:
            skill_folder = outer / name
            skill_folder.mkdir(mode=0o755)
            (skill_folder / "SKILL.md").write_text(text, encoding="utf-8")
            if scripts:
                (skill_folder / "scripts").mkdir()
                (skill_folder / "scripts" / "example.py").write_text(_SCRIPT, encoding="utf-8")
            skill_folder.rename(target)
        finally:
            shutil.rmtree(outer, ignore_errors=True)
    except OSError as error:
        raise SkillError(f"Cannot create {target}: {error.strerror or error}") from error
    return target / "SKILL.md"


_SCRIPT = '''"""An example: prints its arguments. The agent runs it as scripts/example.py."""

import sys

print("arguments:", *sys.argv[1:])
'''
