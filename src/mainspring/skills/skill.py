"""A skill: instructions that a model reads when it needs them, with files, scripts, and tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from mainspring.errors import ConfigError

SkillSource = Literal["project", "user", "inline", "builtin"]
"""The source of a skill. If names are equal, the first source in this list wins."""

SOURCE_PRIORITY: tuple[SkillSource, ...] = ("project", "user", "inline", "builtin")

SKILL_FOLDERS = (".agent/skills", ".agents/skills", ".claude/skills")
"""Folders for skills in a project and in the user's home: our own, the shared one, and one that many repositories have."""


class TriggerWords(Struct, frozen=True, kw_only=True):
    """Defines which prompts trigger a skill.

    Attributes:
        keywords: Words or phrases, matched at word boundaries, ignoring case.
        verbs: Words for actions, matched likewise.
        patterns: Regular expressions. Each compiles.
    """

    keywords: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keywords or self.verbs or self.patterns)


class Script(Struct, frozen=True, kw_only=True):
    """A program of a skill.

    Attributes:
        name: Its name.
        path: Its file, relative to the skill's folder, with ``/``.
        description: What it does.
        timeout: Maximum run time in seconds, at most 60.
    """

    name: str
    path: str
    description: str = ""
    timeout: float = 60.0


class Skill(Struct, frozen=True, kw_only=True):
    """A skill.

    Attributes:
        name: Its name: 1 to 64 letters, digits, and hyphens.
        description: Its description, on one line, at most 1024 characters.
        brief: A short description: ``brief_description``, or the first sentence of the description.
        source: Its source.
        trusted: Whether its code may run: scripts, toolsets, and commands in its text. The text can be read regardless.
        directory: Real path of its folder. ``None`` if it is inline or a single file.
        path: Its file, ``SKILL.md`` or ``*.skill.md``. ``None`` if it is inline.
        text: The instructions of an inline skill. Those of a file are read by `read_body(skill)` when needed.
        version: Its version as written.
        license: Its license as written.
        compatibility: Its requirements as text.
        metadata: Other data by its author.
        tools: Names of tools that it works with. A hint, not a rule.
        allowed_tools: The tools that may be called while it is active, as rules such as ``shell(git:*)``. ``None`` for no rule.
        triggers: Prompts that trigger it.
        scripts: Its programs.
        toolsets: Classes whose methods are tools while it is active, as ``tools.py:Class``, ``toolsets/index:Class``, or
            ``module:Class``.
        requires: Required programs, Python packages (``python:NAME``), and variables (``env:NAME``).
        default_enabled: Whether it is enabled by default.
        model_invocable: Whether the model may use it without the user. ``False`` for ``disable-model-invocation``.
        user_invocable: Whether the user may call it as ``/name``.
        argument_hint: Text after ``/name`` in help texts.
        warnings: Warnings about its file, a sentence each.
    """

    name: str
    description: str
    brief: str
    source: SkillSource
    trusted: bool = False
    directory: str | None = None
    path: str | None = None
    text: str | None = None
    version: str | None = None
    license: str | None = None
    compatibility: str | None = None
    metadata: dict[str, str] = {}
    tools: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    triggers: TriggerWords = TriggerWords()
    scripts: tuple[Script, ...] = ()
    toolsets: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    default_enabled: bool = True
    model_invocable: bool = True
    user_invocable: bool = True
    argument_hint: str = ""
    warnings: tuple[str, ...] = ()


class SkillDiagnostic(Struct, frozen=True):
    """A file with an error or a warning.

    Attributes:
        path: Its path, or the folder that should contain one.
        reason: The problem and the fix.
        level: ``error`` if the skill or a part is unusable, else ``warning``.
        line: The line of the problem. 0 if unknown.
    """

    path: str
    reason: str
    level: Literal["error", "warning"] = "error"
    line: int = 0


class SkillsConfig(Struct, frozen=True, kw_only=True):
    """Where to find skills, and limits.

    Attributes:
        enabled: Whether skills are enabled, or the names of the only enabled ones, even those that are disabled by default.
        project: The root of the project. Without it, no project skills are read.
        layouts: The folders in it that are read, by precedence.
        up_to: A folder above the project: the folders between are searched, too, the nearest first.
        user: The user's own folders.
        inline: Skills defined in code.
        builtin: Whether to include the bundled skills.
        trust_project_skills: Whether the project is trusted. ``True``: its skills may run code. ``False``: they are ignored.
            ``None``: their text is used, and their code does not run.
        disabled: Names of disabled skills.
        switched_on: Names of enabled skills that are disabled by default.
        max_skills: Maximum number of skills that a prompt can trigger.
        max_active: Maximum number of active skills. ``None`` for no limit.
    """

    enabled: bool | tuple[str, ...] = True
    project: str | None = None
    layouts: tuple[str, ...] = SKILL_FOLDERS
    up_to: str | None = None
    user: tuple[str, ...] = ()
    inline: tuple[Skill, ...] = ()
    builtin: bool = True
    trust_project_skills: bool | None = None
    disabled: tuple[str, ...] = ()
    switched_on: tuple[str, ...] = ()
    max_skills: int = 3
    max_active: int | None = None

    def __post_init__(self) -> None:
        if self.max_skills < 0:
            raise ValueError(f"max_skills must be 0 or more, not {self.max_skills}")
        if self.max_active is not None and self.max_active < 1:
            raise ValueError(f"max_active must be 1 or more, or None, not {self.max_active}")


class SkillError(ConfigError):
    """A skill that cannot be read or is invalid.

    Attributes:
        line: The line of the problem. 0 if unknown.
    """

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class ScriptError(ValueError):
    """A script that cannot be run. The message has the reason."""


class SkillDraft(Struct, frozen=True):
    """A skill to write.

    Attributes:
        name: Its name.
        description: Its description.
        text: The whole file.
        path: The file.
        replaces: Whether the file exists.
    """

    name: str
    description: str
    text: str
    path: str
    replaces: bool


Confirm = Callable[[SkillDraft], "bool | Awaitable[bool]"]
"""Asks the user whether to store a skill. Sync or async; a sync function runs in a thread, so it may block."""
