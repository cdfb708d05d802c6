"""Where the command finds skills, and whom it trusts.

The skills of the command's agent.
"""

from __future__ import annotations

import os
from pathlib import Path

from mainspring.app.workspace.paths import UserPaths, find_repository
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.trust import TrustStore
from mainspring.skills.allowed_tools import SKILL_TOOLS
from mainspring.skills.plug import SkillsPlug
from mainspring.skills.skill import SKILL_FOLDERS, SkillDraft, SkillsConfig
from mainspring.skills.state import SkillStateFile


def build_skills_config(cwd: str, settings: Settings) -> SkillsConfig:
    """The skills of a folder, as settings, trust and what was switched on and off say. Blocks.

    The folders from the working folder up to its repository are searched as far as the user trusts them; where the working folder
    itself is not trusted, its skills are only told of.

    Raises:
        ConfigError: If the file of trusted folders or of installed skills is broken.
    """
    wanted = settings.config.skills
    home = settings.home
    on, off = open_skill_registry(home).enabled_and_disabled()
    extra = [(text, Path(os.path.expanduser(text))) for text in wanted.plugin_dir]
    trust = TrustStore(home)
    trusted = trust.covers(cwd)
    top = find_repository(Path(cwd)) or Path(cwd)
    if trusted:
        top = next((p for p in reversed((Path(cwd), *_parent_folders(cwd, top))) if trust.covers(p)), Path(cwd))
    return SkillsConfig(
        enabled=wanted.enabled,
        project=cwd,
        up_to=str(top),
        layouts=(*SKILL_FOLDERS, *[text for text, path in extra if not path.is_absolute()]),
        user=tuple(
            [str(path) for path in (*user_skill_folders(home), *[path for _, path in extra if path.is_absolute()])]
        ),
        builtin=wanted.builtin,
        trust_project_skills=trusted and wanted.trust_project_skills,
        disabled=tuple(dict.fromkeys((*wanted.disabled, *off))),
        switched_on=on,
        max_skills=wanted.max_skills,
        max_active=wanted.max_active,
    )


def user_skill_folders(home: UserPaths | None) -> tuple[Path, ...]:
    """The user's own folders of skills."""
    if home is None:
        return ()
    base = Path(os.path.expanduser("~"))
    shared = [base / layout for layout in SKILL_FOLDERS[1:]] if base.is_absolute() else []
    return (home.skills, *shared)


def open_skill_registry(home: UserPaths | None) -> SkillStateFile:
    """What is remembered of the user's skills."""
    return SkillStateFile(home.skills if home is not None else None)


def _parent_folders(folder: str, top: Path) -> list[Path]:
    """The folders above one, up to ``top``."""
    return [p for p in Path(folder).parents if p.is_relative_to(top)]


SKILL_TOOL_NAMES = (*SKILL_TOOLS, "skills_create")
"""Tools that rules may be about though no list of tools has them."""


def build_skills(cwd: str, settings: Settings, *, asks: bool) -> SkillsPlug | None:
    """What the agent of a folder is offered; ``None`` where skills are switched off. Blocks.

    Args:
        cwd: The folder.
        settings: The settings.
        asks: Whether somebody is there to be asked. A skill that the model writes is then confirmed by the question of the
            permissions: its place is one whose change always asks.

    Raises:
        ConfigError: If the file of trusted folders or of installed skills is broken.
    """
    config = build_skills_config(cwd, settings)
    if not config.enabled:
        return None
    return SkillsPlug(config, usage=open_skill_registry(settings.home), confirm=_asked if asks else None)


def _asked(written: SkillDraft) -> bool:
    del written  # the permissions have asked about this very call, with all of its text
    return True
