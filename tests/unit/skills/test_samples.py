"""Bundled skills: each one loads and works."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.env import MemoryEnv
from mainspring.skills.activation import ToolsetContext, create_tools, load_toolset
from mainspring.skills.content import extract_examples, read_body
from mainspring.skills.discovery import BUNDLED_FOLDER, BUNDLED_INDEX, discover_skills, scan_folder
from mainspring.skills.skill import SkillsConfig
from mainspring.skills.validation import check_skills
from scripts import make_skill_index

EVERY = SkillsConfig(switched_on=("hello-extended",))


@pytest.mark.covers("SKL-18", "SKL-33")
def test_bundled_skills_load_without_warnings() -> None:
    catalog = discover_skills(EVERY)
    assert len(catalog) == len(scan_folder(BUNDLED_FOLDER).found)
    assert catalog.problems == ()
    for skill in catalog:
        assert (skill.source, skill.trusted) == ("builtin", True)
    assert [(v.loads, [w for w in v.warnings if "PATH" not in w]) for v in check_skills(BUNDLED_FOLDER)] == [
        (True, [])
    ] * len(catalog)
    assert discover_skills(SkillsConfig(builtin=False)).skills == ()


def test_index_of_bundled_skills_is_current() -> None:
    assert BUNDLED_INDEX.read_text(encoding="utf-8") == make_skill_index.build(), (
        "run `python -m scripts.make_skill_index`"
    )


@pytest.mark.covers("SKL-33", "SKL-04")
def test_extended_sample_uses_every_feature() -> None:
    assert discover_skills().get("hello-extended") is None  # disabled by default, to save tokens
    skill = discover_skills(EVERY).get("hello-extended")
    assert skill is not None
    assert skill.brief == "Greets people in several languages."
    assert skill.triggers.keywords
    assert skill.triggers.verbs
    assert skill.triggers.patterns
    assert extract_examples(read_body(skill))
    assert (Path(skill.directory or "") / "references" / "manners.md").is_file()

    [script] = skill.scripts
    done = subprocess.run(
        [sys.executable, str(Path(skill.directory or "") / script.path), "Ada", "Zoë"], capture_output=True, check=True
    )
    assert json.loads(done.stdout) == {"Ada": 3, "Zoë": 3}


@pytest.mark.covers("SKL-33")
async def test_toolset_of_the_sample_returns_greetings() -> None:
    skill = discover_skills(EVERY).get("hello-extended")
    assert skill is not None
    toolset_class = load_toolset(skill, skill.toolsets[0])
    toolset, tools = create_tools(toolset_class, ToolsetContext(env=MemoryEnv({}), extra={}, agent="a", skill=skill))
    assert {t.name for t in tools} == {"hello", "greeting_languages"}
    assert await toolset.hello(" Ada ", "French") == "Bonjour, Ada !"
    with pytest.raises(ValueError, match="No greeting in klingon"):
        await toolset.hello("Ada", "klingon")
