"""Find the skills of the agent in trusted folders."""

from __future__ import annotations

import os
from pathlib import Path

from mainspring.app.workspace.paths import UserPaths, find_repository
from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.trust import TrustStore
from mainspring.skills.active import SKILL_TOOLS
from mainspring.skills.plug import SkillsPlug
from mainspring.skills.skill import SKILL_FOLDERS, SkillDraft, SkillsConfig
from mainspring.skills.state import SkillStateFile


def build_skills_config(cwd: str, settings: Settings) -> SkillsConfig:
    """Create the configuration of the skills of a folder from settings, trust, and the registry. Blocks.

    Trusted folders from the working folder up to its repository are searched; the skills of an untrusted working folder are only
    reported.

    Raises:
        ConfigError: If the file of trusted folders or of installed skills is invalid.
    """
    requested = settings.config.skills
    home = settings.home
    on, off = open_skill_registry(home).enabled_and_disabled()
    extra = [(text, Path(os.path.expanduser(text))) for text in requested.plugin_dir]
    trust = TrustStore(home)
    trusted = trust.covers(cwd)
    top = find_repository(Path(cwd)) or Path(cwd)
    if trusted:
        top = next((p for p in reversed((Path(cwd), *_parent_folders(cwd, top))) if trust.covers(p)), Path(cwd))
    return SkillsConfig(
        enabled=requested.enabled,
        project=cwd,
        up_to=str(top),
        layouts=(*SKILL_FOLDERS, *[text for text, path in extra if not path.is_absolute()]),
        user=tuple(
            [str(path) for path in (*user_skill_folders(home), *[path for _, path in extra if path.is_absolute()])]
        ),
        builtin=requested.builtin,
        trust_project_skills=trusted and requested.trust_project_skills,
        disabled=tuple(dict.fromkeys((*requested.disabled, *off))),
        switched_on=on,
        max_skills=requested.max_skills,
        max_active=requested.max_active,
    )


def user_skill_folders(home: UserPaths | None) -> tuple[Path, ...]:
    """Return the user's folders of skills."""
    if home is None:
        return ()
    base = Path(os.path.expanduser("~"))
    shared = [base / layout for layout in SKILL_FOLDERS[1:]] if base.is_absolute() else []
    return (home.skills, *shared)


def open_skill_registry(home: UserPaths | None) -> SkillStateFile:
    """Open the registry of the user's skills."""
    return SkillStateFile(home.skills if home is not None else None)


def _parent_folders(folder: str, top: Path) -> list[Path]:
    """Return the parent folders of a folder, up to ``top``."""
    return [p for p in Path(folder).parents if p.is_relative_to(top)]


SKILL_TOOL_NAMES = (*SKILL_TOOLS, "skills_create")
"""Tools that rules may name although no list of tools contains them."""


def build_skills(cwd: str, settings: Settings, *, asks: bool) -> SkillsPlug | None:
    """Create the skills of the agent in a folder; None if skills are disabled. Blocks.

    Args:
        cwd: Working folder.
        settings: Settings.
        asks: Whether the user can approve calls. If so, the permission prompt confirms a skill that the model writes, because
            changes in its folder always require approval.

    Raises:
        ConfigError: If the file of trusted folders or of installed skills is invalid.
    """
    config = build_skills_config(cwd, settings)
    if not config.enabled:
        return None
    mode = settings.config.skills.catalog_mode
    return SkillsPlug(
        config, catalog_mode=mode, usage=open_skill_registry(settings.home), confirm=_must_confirm if asks else None
    )


def _must_confirm(written: SkillDraft) -> bool:
    del written  # the permission prompt already showed this call with its full text
    return True
