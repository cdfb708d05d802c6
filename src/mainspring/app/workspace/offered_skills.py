"""The skills of the command's agent."""

from __future__ import annotations

from mainspring.app.workspace.settings import Settings
from mainspring.app.workspace.skills import registry_of, skills_config
from mainspring.skills.allowed_tools import SKILL_TOOLS
from mainspring.skills.authoring import Written
from mainspring.skills.plug import Skills

NAMES_OF_SKILLS = (*SKILL_TOOLS, "skills_create")
"""Tools that rules may be about though no list of tools has them."""


def skills_of(cwd: str, settings: Settings, *, asks: bool) -> Skills | None:
    """What the agent of a folder is offered; ``None`` where skills are switched off. Blocks.

    Args:
        cwd: The folder.
        settings: The settings.
        asks: Whether somebody is there to be asked. A skill that the model writes is then confirmed by the question of the
            permissions: its place is one whose change always asks.

    Raises:
        ConfigError: If the file of trusted folders or of installed skills is broken.
    """
    config = skills_config(cwd, settings)
    if not config.enabled:
        return None
    return Skills(config, usage=registry_of(settings.home), confirm=_asked if asks else None)


def _asked(written: Written) -> bool:
    del written  # the permissions have asked about this very call, with all of its text
    return True
