"""Skills: instructions, files, scripts, and tools that an agent loads when a task needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.skills.activation import SkillUsage as SkillUsage
    from mainspring.skills.activation import ToolsetContext as ToolsetContext
    from mainspring.skills.activation import load_toolset as load_toolset
    from mainspring.skills.content import extract_examples as extract_examples
    from mainspring.skills.content import read_body as read_body
    from mainspring.skills.discovery import SkillCatalog as SkillCatalog
    from mainspring.skills.discovery import discover_skills as discover_skills
    from mainspring.skills.manifest import parse_skill as parse_skill
    from mainspring.skills.plug import SkillsPlug as SkillsPlug
    from mainspring.skills.skill import Script as Script
    from mainspring.skills.skill import Skill as Skill
    from mainspring.skills.skill import SkillDiagnostic as SkillDiagnostic
    from mainspring.skills.skill import SkillDraft as SkillDraft
    from mainspring.skills.skill import SkillError as SkillError
    from mainspring.skills.skill import SkillsConfig as SkillsConfig
    from mainspring.skills.skill import TriggerWords as TriggerWords
    from mainspring.skills.state import SkillStateFile as SkillStateFile
    from mainspring.skills.validation import Verdict as Verdict
    from mainspring.skills.validation import check_skills as check_skills

lazy_exports(
    __name__,
    {
        "activation": "SkillUsage ToolsetContext load_toolset",
        "content": "extract_examples read_body",
        "discovery": "SkillCatalog discover_skills",
        "skill": "SkillDraft Script Skill SkillError SkillDiagnostic SkillsConfig TriggerWords",
        "manifest": "parse_skill",
        "plug": "SkillsPlug",
        "state": "SkillStateFile",
        "validation": "Verdict check_skills",
    },
)
