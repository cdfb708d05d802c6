"""Skills: instructions, files, scripts and tools that an agent takes up when a task needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.skills.catalog import SkillCatalog as SkillCatalog
    from mainspring.skills.skill import Script as Script
    from mainspring.skills.skill import Skill as Skill
    from mainspring.skills.skill import SkillError as SkillError
    from mainspring.skills.skill import SkillProblem as SkillProblem
    from mainspring.skills.skill import SkillsConfig as SkillsConfig
    from mainspring.skills.skill import Triggers as Triggers

__all__, __getattr__ = exports(
    __name__,
    {
        "catalog": "SkillCatalog",
        "skill": "Script Skill SkillError SkillProblem SkillsConfig Triggers",
    },
)
