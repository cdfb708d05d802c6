"""What a skill is: instructions that a model reads when it needs them, with files, scripts and tools beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from mainspring.errors import ConfigError

SkillSource = Literal["project", "user", "inline", "builtin"]
"""Where a skill comes from. Of two of one name the one of the first source here counts."""

SOURCE_PRIORITY: tuple[SkillSource, ...] = ("project", "user", "inline", "builtin")

SKILL_FOLDERS = (".agent/skills", ".agents/skills", ".claude/skills")
"""Folders of skills in a project, and in the user's home: our own, the one that programs share, and one that many repositories have."""


class TriggerWords(Struct, frozen=True, kw_only=True):
    """When a skill fits a prompt.

    Attributes:
        keywords: Words or phrases, matched at word boundaries whatever their case.
        verbs: Words for what is done, matched likewise.
        patterns: Regular expressions; each compiles.
    """

    keywords: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keywords or self.verbs or self.patterns)


class Script(Struct, frozen=True, kw_only=True):
    """A program of a skill.

    Attributes:
        name: What it is called by.
        path: Its file, from the skill's folder on, with ``/``.
        description: What it does.
        timeout: Seconds that it may take; 60 at most.
    """

    name: str
    path: str
    description: str = ""
    timeout: float = 60.0


class Skill(Struct, frozen=True, kw_only=True):
    """One skill.

    Attributes:
        name: Its name: 1 to 64 letters, digits and hyphens.
        description: What it is for, on one line; at most 1024 characters.
        brief: A sentence of it: ``brief_description``, or the first sentence of the description.
        source: Where it comes from.
        trusted: Whether its code may run: scripts, toolsets and commands in its text. Its text may be read without.
        directory: Real path of its folder; ``None`` for one that is given inline or is a single file.
        path: Its file, ``SKILL.md`` or ``*.skill.md``; ``None`` for one that is given inline.
        text: The instructions of one that is given inline; those of a file are read by `body.read_body(skill)` when they are needed.
        version: Its version as written.
        license: Its license as written.
        compatibility: What it needs, in words.
        metadata: Whatever else its author noted.
        tools: Names of tools that it works with; a hint, no rule.
        allowed_tools: The tools that may be called while it is active, as rules such as ``shell(git:*)``; ``None`` is no rule.
        triggers: When it fits a prompt.
        scripts: Its programs.
        toolsets: Classes whose methods are tools while it is active, as ``tools.py:Class`` or ``module:Class``.
        requires: Programs, Python packages (``python:NAME``) and variables (``env:NAME``) that it needs.
        default_enabled: Whether it is on without anybody switching it on.
        model_invocable: Whether the model may use it by itself; ``False`` leaves it to people (``disable-model-invocation``).
        user_invocable: Whether people may call it as ``/name``.
        argument_hint: What stands behind ``/name``, for help texts.
        warnings: What is odd about its file, a sentence each.
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
    """A file that gives no skill, or one that is odd.

    Attributes:
        path: Its path, or the folder that should hold one.
        reason: What is wrong, and what to do.
        level: ``error`` if something is lost by it; else ``warning``.
        line: The line that is wrong; 0 where none is.
    """

    path: str
    reason: str
    level: Literal["error", "warning"] = "error"
    line: int = 0


class SkillsConfig(Struct, frozen=True, kw_only=True):
    """Which skills there are, and how many at a time.

    Attributes:
        enabled: Whether there are any at all.
        project: The root of a project; none is read unless it is named.
        layouts: The folders in it that are read; the first counts first.
        up_to: A folder above the project: those between are searched too, the nearest first.
        user: The user's own folders.
        inline: Skills that the program brings itself.
        builtin: Whether the bundled ones count.
        trust_project_skills: Whether the project is trusted. ``True``: its skills may run code; ``False``: they are left out;
            ``None``: their text counts, and their code does not run.
        disabled: Names of those that are not wanted.
        switched_on: Names of those that are wanted though they are off by default.
        max_skills: How many of the skills that fit a prompt are put before the model at most.
        max_active: How many may be active at the same time; any number if ``None``.
    """

    enabled: bool = True
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
    """A skill that cannot be read, or has something that it cannot have.

    Attributes:
        line: The line of its file that is wrong; 0 where none is.
    """

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class SkillDraft(Struct, frozen=True):
    """A skill that is about to be written.

    Attributes:
        name: Its name.
        description: What it is for.
        text: The whole file.
        path: The file.
        replaces: Whether there is one already.
    """

    name: str
    description: str
    text: str
    path: str
    replaces: bool


Confirm = Callable[[SkillDraft], "bool | Awaitable[bool]"]
"""Asks a person whether to keep a skill. Sync or async; a sync one runs in a thread, so that it may wait."""
