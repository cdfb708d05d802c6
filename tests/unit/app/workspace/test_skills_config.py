"""Where the command finds skills, and whom it trusts."""

import os
from pathlib import Path

import pytest

from mainspring.app.workspace.paths import find_user_paths
from mainspring.app.workspace.settings import load_settings
from mainspring.app.workspace.skills import build_skills_config, open_skill_registry
from mainspring.app.workspace.trust import TrustStore
from mainspring.skills.discovery import discover_skills
from mainspring.skills.skill import SkillsConfig


def config(cwd: Path, text: str = "{}", project: str = "") -> SkillsConfig:
    home = find_user_paths(os.environ)
    assert home is not None
    home.root.mkdir(exist_ok=True)
    home.settings.write_text(text, encoding="utf-8")
    if project:
        (cwd / ".agent").mkdir(exist_ok=True)
        (cwd / ".agent" / "settings.json").write_text(project, encoding="utf-8")
    trusted = TrustStore(home).covers(cwd)
    return build_skills_config(str(cwd), load_settings(str(cwd), environ=os.environ, trusted=trusted))


def trust(folder: Path) -> None:
    TrustStore(find_user_paths(os.environ)).add(folder)


def put(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: d\n---\nx", encoding="utf-8")


@pytest.mark.covers("SKL-18", "BYD-07")
def test_the_users_folders_are_its_own_and_the_shared_ones(tmp_path: Path, home: Path) -> None:
    made = config(tmp_path)
    assert made.user == (
        str(home / ".agent" / "skills"),
        str(home / ".agents" / "skills"),
        str(home / ".claude" / "skills"),
    )
    assert (made.enabled, made.builtin, made.max_skills, made.max_active) == (True, True, 3, None)
    for place in made.user:
        put(Path(place) / Path(place).parent.name.removeprefix("."))
    assert {s.name for s in discover_skills(made) if s.source == "user"} == {"agent", "agents", "claude"}


@pytest.mark.covers("SKL-20")
def test_trust_reaches_as_far_as_the_user_said(tmp_path: Path, home: Path) -> None:
    inner = tmp_path / "packages" / "one"
    inner.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    put(tmp_path / ".agents" / "skills" / "top")
    put(tmp_path / "packages" / ".agents" / "skills" / "middle")
    put(inner / ".agents" / "skills" / "near")

    def names() -> set[str]:
        return {s.name for s in discover_skills(config(inner)) if s.source == "project" and s.trusted}

    assert names() == set()
    assert sum("not trusted" in p.reason for p in discover_skills(config(inner)).problems) == 3
    trust(inner)
    assert names() == {"near"}
    trust(tmp_path / "packages")
    assert names() == {"near", "middle"}
    trust(tmp_path)
    assert names() == {"near", "middle", "top"}


@pytest.mark.covers("SKL-20")
def test_skills_of_a_trusted_project_may_be_left_out_all_the_same(tmp_path: Path, home: Path) -> None:
    put(tmp_path / ".agents" / "skills" / "a")
    trust(tmp_path)
    assert config(tmp_path).trust_project_skills is True
    assert config(tmp_path, '{"skills": {"trustProjectSkills": false}}').trust_project_skills is False


@pytest.mark.covers("SKL-35", "CFG-10")
def test_settings_of_skills(tmp_path: Path, home: Path) -> None:
    made = config(
        tmp_path,
        '{"skills": {"enabled": false, "pluginDir": ["~/more", "/srv/skills", "tools/skills"], "disabled": ["a"],'
        ' "builtin": false, "maxSkills": 0, "maxActive": 2}}',
    )
    assert made.user[3:] == (str(home / "more"), "/srv/skills")
    assert made.layouts == (".agent/skills", ".agents/skills", ".claude/skills", "tools/skills")
    assert (made.enabled, made.builtin, made.disabled, made.max_skills, made.max_active) == (False, False, ("a",), 0, 2)
    assert config(tmp_path, '{"skills": {"pluginDir": "/one"}}').user[3:] == ("/one",)


@pytest.mark.covers("CFG-10")
def test_lists_of_both_files_add_up(tmp_path: Path, home: Path) -> None:
    made = config(tmp_path, '{"skills": {"disabled": ["a", "b"]}}', '{"skills": {"disabled": ["b", "c"]}}')

    assert made.disabled == ("a", "b", "c")


@pytest.mark.covers("SKL-35", "SKL-20")
def test_an_untrusted_project_adds_no_folder_and_may_only_switch_off(tmp_path: Path, home: Path) -> None:
    text = '{"skills": {"pluginDir": ["/srv/evil"], "disabled": ["b"], "trustProjectSkills": true, "maxSkills": 50}}'
    mine = '{"skills": {"disabled": ["a"], "pluginDir": ["/mine"]}}'
    made = config(tmp_path, mine, text)
    assert (made.disabled, made.user[3:], made.max_skills, made.trust_project_skills) == (
        ("a", "b"),
        ("/mine",),
        3,
        False,
    )
    trust(tmp_path)
    assert config(tmp_path, mine, text).user[3:] == ("/mine", "/srv/evil")


@pytest.mark.covers("SKL-36")
def test_what_was_switched_on_and_off_counts_everywhere(tmp_path: Path, home: Path) -> None:
    registry = open_skill_registry(find_user_paths(os.environ))
    registry.set_enabled("hello-extended", True)
    registry.set_enabled("x", False)
    made = config(tmp_path, '{"skills": {"disabled": ["y"]}}')
    assert (made.switched_on, made.disabled) == (("hello-extended",), ("y", "x"))
    assert discover_skills(made).get("hello-extended") is not None


def test_the_home_folder_is_no_project(tmp_path: Path, home: Path) -> None:
    put(home / ".agents" / "skills" / "a")
    skills = discover_skills(config(home)).skills
    assert [(s.name, s.source, s.trusted) for s in skills if s.source != "builtin"] == [("a", "user", True)]
