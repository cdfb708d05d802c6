"""Folders of skills, and which of them are trusted."""

import os
from pathlib import Path

import pytest

from mainspring.app.workspace.paths import find_user_paths
from mainspring.app.workspace.settings import load_settings
from mainspring.app.workspace.skills import build_skills_config, open_skill_registry
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from mainspring.skills.discovery import discover_skills
from mainspring.skills.skill import SkillsConfig


def make_config(cwd: Path, text: str = "{}", project: str = "") -> SkillsConfig:
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


def write_skill(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: d\n---\nx", encoding="utf-8")


@pytest.mark.covers("SKL-18", "BYD-07")
def test_default_user_folders(tmp_path: Path, home: Path) -> None:
    config = make_config(tmp_path)
    assert config.user == (
        str(home / ".agent" / "skills"),
        str(home / ".agents" / "skills"),
        str(home / ".claude" / "skills"),
    )
    assert (config.enabled, config.builtin, config.max_skills, config.max_active) == (True, True, 3, None)
    for place in config.user:
        write_skill(Path(place) / Path(place).parent.name.removeprefix("."))
    assert {s.name for s in discover_skills(config) if s.source == "user"} == {"agent", "agents", "claude"}


@pytest.mark.covers("SKL-20")
def test_trust_applies_to_the_chosen_folder_and_below(tmp_path: Path, home: Path) -> None:
    inner = tmp_path / "packages" / "one"
    inner.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    write_skill(tmp_path / ".agents" / "skills" / "top")
    write_skill(tmp_path / "packages" / ".agents" / "skills" / "middle")
    write_skill(inner / ".agents" / "skills" / "near")

    def trusted_names() -> set[str]:
        return {s.name for s in discover_skills(make_config(inner)) if s.source == "project" and s.trusted}

    assert trusted_names() == set()
    assert sum("not trusted" in p.reason for p in discover_skills(make_config(inner)).problems) == 3
    trust(inner)
    assert trusted_names() == {"near"}
    trust(tmp_path / "packages")
    assert trusted_names() == {"near", "middle"}
    trust(tmp_path)
    assert trusted_names() == {"near", "middle", "top"}


@pytest.mark.covers("SKL-20")
def test_project_skills_can_be_ignored_despite_trust(tmp_path: Path, home: Path) -> None:
    write_skill(tmp_path / ".agents" / "skills" / "a")
    trust(tmp_path)
    assert make_config(tmp_path).trust_project_skills is True
    assert make_config(tmp_path, '{"skills": {"trustProjectSkills": false}}').trust_project_skills is False


@pytest.mark.covers("SKL-35", "CFG-10")
def test_skill_settings_are_applied(tmp_path: Path, home: Path) -> None:
    config = make_config(
        tmp_path,
        '{"skills": {"enabled": false, "pluginDir": ["~/more", "/srv/skills", "tools/skills"], "disabled": ["a"],'
        ' "builtin": false, "maxSkills": 0, "maxActive": 2}}',
    )
    assert config.user[3:] == (str(home / "more"), "/srv/skills")
    assert config.layouts == (".agent/skills", ".agents/skills", ".claude/skills", "tools/skills")
    assert (config.enabled, config.builtin, config.disabled, config.max_skills, config.max_active) == (
        False,
        False,
        ("a",),
        0,
        2,
    )
    assert make_config(tmp_path, '{"skills": {"pluginDir": "/one"}}').user[3:] == ("/one",)


@pytest.mark.covers("CFG-10")
def test_skills_of_plugin_dir_are_found_unless_skills_are_off(tmp_path: Path, home: Path) -> None:
    write_skill(home / "more" / "zz")

    found = discover_skills(make_config(tmp_path, '{"skills": {"pluginDir": "~/more"}}'))
    off = discover_skills(make_config(tmp_path, '{"skills": {"pluginDir": "~/more", "enabled": false}}'))

    assert "zz" in [s.name for s in found.skills]
    assert "zz" not in [s.name for s in discover_skills(make_config(tmp_path)).skills]
    assert off.skills == ()


@pytest.mark.covers("CFG-10")
def test_disabled_lists_of_user_and_project_are_combined(tmp_path: Path, home: Path) -> None:
    config = make_config(tmp_path, '{"skills": {"disabled": ["a", "b"]}}', '{"skills": {"disabled": ["b", "c"]}}')

    assert config.disabled == ("a", "b", "c")


@pytest.mark.covers("CFG-10")
def test_enabled_may_be_a_list_of_names(tmp_path: Path, home: Path) -> None:
    for name in ("aa", "bb", "cc", "dd"):
        write_skill(home / ".agent" / "skills" / name)
    mine = '{"skills": {"enabled": ["aa", "bb", "hello-extended", "dda"], "disabled": ["bb"]}}'
    config = make_config(tmp_path, mine)
    catalog = discover_skills(config)

    assert config.enabled == ("aa", "bb", "hello-extended", "dda")
    assert [s.name for s in catalog.skills] == ["aa", "hello-extended"]
    assert {"bb", "cc", "dd", "create-skill"} <= {s.name for s in catalog.disabled_skills}
    assert [(p.path, p.level, p.reason) for p in catalog.problems] == [
        ("skills.enabled", "warning", "no skill has the name 'dda'. Did you mean 'dd'?")
    ]


@pytest.mark.parametrize(
    ("mine", "project", "enabled"),
    [
        ('{"skills": {"enabled": ["a"]}}', '{"skills": {"enabled": ["b"]}}', ("a", "b")),
        ('{"skills": {"enabled": false}}', '{"skills": {"enabled": ["b"]}}', ("b",)),
        ('{"skills": {"enabled": ["a"]}}', '{"skills": {"enabled": true}}', True),
        ('{"skills": {"enabled": []}}', "", ()),
    ],
)
def test_lists_of_enabled_skills_add_up(
    tmp_path: Path, home: Path, mine: str, project: str, enabled: bool | tuple[str, ...]
) -> None:
    make_config(tmp_path, mine, project)
    trust(tmp_path)  # the project's file as it is now
    assert make_config(tmp_path, mine, project).enabled == enabled


def test_untrusted_project_cannot_choose_the_enabled_skills(tmp_path: Path, home: Path) -> None:
    config = make_config(tmp_path, '{"skills": {"enabled": ["a"]}}', '{"skills": {"enabled": ["b"]}}')
    assert config.enabled == ("a",)


@pytest.mark.parametrize("value", ['"pdf"', "[1]", "{}"])
def test_invalid_value_of_enabled_is_an_error(tmp_path: Path, home: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"skills\.enabled must be (true, false, or )?a list of strings"):
        make_config(tmp_path, f'{{"skills": {{"enabled": {value}}}}}')


@pytest.mark.covers("SKL-35", "SKL-20")
def test_untrusted_project_can_only_disable_skills(tmp_path: Path, home: Path) -> None:
    text = '{"skills": {"pluginDir": ["/srv/evil"], "disabled": ["b"], "trustProjectSkills": true, "maxSkills": 50}}'
    mine = '{"skills": {"disabled": ["a"], "pluginDir": ["/mine"]}}'
    config = make_config(tmp_path, mine, text)
    assert (config.disabled, config.user[3:], config.max_skills, config.trust_project_skills) == (
        ("a", "b"),
        ("/mine",),
        3,
        False,
    )
    trust(tmp_path)
    assert make_config(tmp_path, mine, text).user[3:] == ("/mine", "/srv/evil")


@pytest.mark.covers("SKL-36")
def test_registry_state_is_applied(tmp_path: Path, home: Path) -> None:
    registry = open_skill_registry(find_user_paths(os.environ))
    registry.set_enabled("hello-extended", True)
    registry.set_enabled("x", False)
    config = make_config(tmp_path, '{"skills": {"disabled": ["y"]}}')
    assert (config.switched_on, config.disabled) == (("hello-extended",), ("y", "x"))
    assert discover_skills(config).get("hello-extended") is not None


def test_home_folder_is_not_a_project(tmp_path: Path, home: Path) -> None:
    write_skill(home / ".agents" / "skills" / "a")
    skills = discover_skills(make_config(home)).skills
    assert [(s.name, s.source, s.trusted) for s in skills if s.source != "builtin"] == [("a", "user", True)]
