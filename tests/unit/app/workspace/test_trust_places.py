"""Code that could activate content of a project checks whether the folder is trusted."""

import re
from pathlib import Path

import pytest

import mainspring

SOURCE = Path(mainspring.__file__).parent

TRUST_CHECKED = {
    "app/workspace/settings/load.py": "settings that loosen",
    "app/compose/conversation.py": "memory, settings, and plugins",
    "app/workspace/memory.py": "memory",
    "app/workspace/command_registry.py": "custom commands",
    "subagents/definition.py": "definitions of sub-agents",
    "extensions/discovery.py": "extensions",
    "skills/discovery.py": "skills",
    "app/workspace/skills.py": "skills, as far up as their folders are trusted",
}
"""Files that read content of a project and could activate it."""

READS_PROJECT = re.compile(r'"\.agent"|\bFOLDER\b|project_settings|\.agents?/')


@pytest.mark.parametrize("place", sorted(TRUST_CHECKED))
@pytest.mark.covers("SEC-12")
def test_each_listed_file_checks_trust(place: str) -> None:
    assert "trusted" in (SOURCE / place).read_text(encoding="utf-8"), TRUST_CHECKED[place]


HARMLESS = {
    "app/workspace/paths.py": "finds files, reads none",
    "app/compose/plan_mode.py": "plans, which the user requests with --execute",
    "policies/plan_mode.py": "writes plans",
    "env/paths.py": "names the folder, so that it is guarded",
    "env/sandbox/env.py": "guards the folder",
    "env/sandbox/policy.py": "guards the folder",
    "state_files.py": "the user's own folder",
    "models/providers/codex.py": "the user's own folder",
    "skills/authoring.py": "writes skills that a person confirmed; finding them asks",
    "app/workspace/skill_manager.py": "begins new skills there; finding them asks",
    "app/commands/commands.py": "says where commands are written; finding them asks",
    "app/workspace/manage_settings.py": "the settings, which are shown, checked and changed",
    "memory/plug.py": "is told whether it is trusted",
}
"""Files that name the project's folder but do not activate its content."""


def test_no_other_file_reads_the_project_folder() -> None:
    named = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if READS_PROJECT.search(path.read_text(encoding="utf-8"))
    }

    unknown = sorted(
        n
        for n in named - TRUST_CHECKED.keys() - HARMLESS.keys()
        if "trust" not in (SOURCE / n).read_text(encoding="utf-8")
    )
    assert unknown == []
