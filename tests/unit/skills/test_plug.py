from pathlib import Path

import pytest

from mainspring.messages import Message
from mainspring.messages.token_estimate import estimate_tokens
from mainspring.skills.discovery import discover_skills
from mainspring.skills.plug import MAX_CHARS, render_catalog, render_count, render_short_list
from mainspring.skills.skill import Skill, SkillsConfig


def skills(count: int, description: str = "Does this. Use it when that.") -> list[Skill]:
    return [
        Skill(name=f"skill-{i}", description=description, brief=description.split(".")[0], source="user")
        for i in range(count)
    ]


def tokens(text: str) -> int:
    return estimate_tokens([Message.user(text)])


@pytest.mark.covers("SKL-13", "SKL-14", "SKL-15")
def test_each_tier_costs_what_it_may() -> None:
    assert render_short_list([]) == render_count(0) == render_catalog([]) == ""
    assert render_count(1) == "[1 skill available]"
    assert render_count(168) == "[168 skills available]"
    assert tokens(render_count(168)) <= 12
    listed = render_short_list(skills(50, "Merges and splits documents of several kinds. Use it often."))
    assert tokens(listed) / 50 <= 18


@pytest.mark.covers("SKL-15")
def test_real_skills_cost_some_fifteen_tokens_each(material: Path) -> None:
    folders = tuple(str(p) for p in sorted((material / "skills").iterdir()) if p.is_dir())
    found = discover_skills(SkillsConfig(user=folders, builtin=False)).skills

    assert len(found) > 100
    assert tokens(render_short_list(found)) / len(found) <= 18


@pytest.mark.covers("SKL-17")
def test_descriptions_are_whole_while_there_is_room() -> None:
    assert "- skill-0: Does this. Use it when that." in render_catalog(skills(3))
    assert "- skill-0: Does this\n" in render_catalog(skills(900))
    assert render_catalog(skills(5)) == render_catalog(list(reversed(skills(5))))


@pytest.mark.covers("SKL-37")
def test_thousands_do_not_fill_the_prompt() -> None:
    text = render_catalog(skills(5000))

    assert len(text) < MAX_CHARS + 1000
    assert "more are not listed" in text
