"""Skills: instructions, files, scripts and tools that an agent takes up when a task needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.skills.activation import Usage as Usage
    from mainspring.skills.authoring import Written as Written
    from mainspring.skills.content import examples_of as examples_of
    from mainspring.skills.content import read_body as read_body
    from mainspring.skills.discovery import SkillCatalog as SkillCatalog
    from mainspring.skills.discovery import find_skills as find_skills
    from mainspring.skills.manifest import parse_skill as parse_skill
    from mainspring.skills.plug import Skills as Skills
    from mainspring.skills.skill import Script as Script
    from mainspring.skills.skill import Skill as Skill
    from mainspring.skills.skill import SkillError as SkillError
    from mainspring.skills.skill import SkillProblem as SkillProblem
    from mainspring.skills.skill import SkillsConfig as SkillsConfig
    from mainspring.skills.skill import Triggers as Triggers
    from mainspring.skills.state import SkillRegistry as SkillRegistry
    from mainspring.skills.toolsets import Dependencies as Dependencies
    from mainspring.skills.toolsets import load_toolset as load_toolset
    from mainspring.skills.validation import Verdict as Verdict
    from mainspring.skills.validation import check_skills as check_skills

__all__, __getattr__ = exports(
    __name__,
    {
        "activation": "Usage",
        "content": "examples_of read_body",
        "discovery": "SkillCatalog find_skills",
        "authoring": "Written",
        "manifest": "parse_skill",
        "plug": "Skills",
        "state": "SkillRegistry",
        "skill": "Script Skill SkillError SkillProblem SkillsConfig Triggers",
        "toolsets": "Dependencies load_toolset",
        "validation": "Verdict check_skills",
    },
)
