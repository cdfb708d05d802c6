from pathlib import Path

import pytest

from mainspring.messages import Message
from mainspring.messages.token_estimate import estimate_tokens
from mainspring.skills.discovery import discover_skills
from mainspring.skills.plug import MAX_CHARS, render_catalog, render_count, render_short_list
from mainspring.skills.skill import Skill, SkillsConfig


def make_skills(count: int, description: str = "Does this. Use it when that.") -> list[Skill]:
    return [
        Skill(name=f"skill-{i}", description=description, brief=description.split(".")[0], source="user")
        for i in range(count)
    ]


def count_tokens(text: str) -> int:
    return estimate_tokens([Message.user(text)])


@pytest.mark.covers("SKL-13", "SKL-14", "SKL-15")
def test_short_lists_stay_within_their_token_budget() -> None:
    assert render_short_list([]) == render_count(0) == render_catalog([]) == ""
    assert render_count(1) == "[1 skill available]"
    assert render_count(168) == "[168 skills available]"
    assert count_tokens(render_count(168)) <= 12
    listed = render_short_list(make_skills(50, "Merges and splits documents of several kinds. Use it often."))
    assert count_tokens(listed) / 50 <= 18


def test_short_list_of_real_skills_stays_within_its_token_budget(material: Path) -> None:
    folders = tuple(str(p) for p in sorted((material / "skills").iterdir()) if p.is_dir())
    found = discover_skills(SkillsConfig(user=folders, builtin=False)).skills

    assert len(found) > 100
    assert count_tokens(render_short_list(found)) / len(found) <= 18


@pytest.mark.covers("SKL-17", "CAC-10")
def test_descriptions_are_complete_if_they_fit() -> None:
    assert "- skill-0: Does this. Use it when that." in render_catalog(make_skills(3))
    assert "- skill-0: Does this\n" in render_catalog(make_skills(900))
    assert render_catalog(make_skills(5)) == render_catalog(list(reversed(make_skills(5))))


@pytest.mark.covers("SKL-37")
def test_list_of_thousands_of_skills_is_truncated() -> None:
    text = render_catalog(make_skills(5000))

    assert len(text) < MAX_CHARS + 1000
    assert "more are not listed" in text
