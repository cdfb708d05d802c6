"""Skills: instructions, files, scripts and tools that an agent takes up when a task needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.skills.activator import Usage as Usage
    from mainspring.skills.catalog import SkillCatalog as SkillCatalog
    from mainspring.skills.creating import Written as Written
    from mainspring.skills.plug import Skills as Skills
    from mainspring.skills.skill import Script as Script
    from mainspring.skills.skill import Skill as Skill
    from mainspring.skills.skill import SkillError as SkillError
    from mainspring.skills.skill import SkillProblem as SkillProblem
    from mainspring.skills.skill import SkillsConfig as SkillsConfig
    from mainspring.skills.skill import Triggers as Triggers
    from mainspring.skills.toolsets import Dependencies as Dependencies
    from mainspring.skills.toolsets import load_toolset as load_toolset

__all__, __getattr__ = exports(
    __name__,
    {
        "activator": "Usage",
        "catalog": "SkillCatalog",
        "creating": "Written",
        "plug": "Skills",
        "skill": "Script Skill SkillError SkillProblem SkillsConfig Triggers",
        "toolsets": "Dependencies load_toolset",
    },
)
