"""Skills: instructions, files, scripts, and tools that an agent loads when a task needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.skills.activation import (
        SkillUsage as SkillUsage,
        ToolsetContext as ToolsetContext,
        load_toolset as load_toolset,
    )
    from mainspring.skills.content import extract_examples as extract_examples, read_body as read_body
    from mainspring.skills.discovery import SkillCatalog as SkillCatalog, discover_skills as discover_skills
    from mainspring.skills.manifest import parse_skill as parse_skill
    from mainspring.skills.plug import SkillsPlug as SkillsPlug
    from mainspring.skills.skill import (
        Script as Script,
        Skill as Skill,
        SkillDiagnostic as SkillDiagnostic,
        SkillDraft as SkillDraft,
        SkillError as SkillError,
        SkillsConfig as SkillsConfig,
        TriggerWords as TriggerWords,
    )
    from mainspring.skills.state import SkillStateFile as SkillStateFile
    from mainspring.skills.validation import Verdict as Verdict, check_skills as check_skills

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
