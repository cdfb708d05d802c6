"""Discovery of skills: folders, precedence, and reasons for skipped files."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.skills.content import read_body
from mainspring.skills.discovery import SkillCatalog, discover_skills, scan_folder
from mainspring.skills.manifest import parse_skill
from mainspring.skills.skill import Script, Skill, SkillError, SkillsConfig
from tests.requires import on_posix


def put_skill(
    folder: Path, name: str = "", text: str = "", *, description: str = "Does it.", file: str = "SKILL.md"
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    head = f"---\nname: {name or folder.name}\ndescription: {description}\n{text}---\nBody of {folder}.\n"
    (folder / file).write_text(head, encoding="utf-8")
    return folder / file


def find_skills(config: SkillsConfig) -> dict[str, Skill]:
    return {s.name: s for s in discover_skills(config).skills}


def problems_by_name(catalog: SkillCatalog) -> dict[str, str]:
    return {
        Path(p.path).name if Path(p.path).name != "SKILL.md" else Path(p.path).parent.name: p.reason
        for p in catalog.problems
    }


def user_config(*folders: Path, **more: Any) -> SkillsConfig:
    return SkillsConfig(user=tuple(map(str, folders)), builtin=False, **more)


@pytest.mark.covers("SKL-01", "SKL-02", "SKL-18")
def test_nested_folders_and_single_files_are_found(tmp_path: Path) -> None:  # K-07
    put_skill(tmp_path / "a")
    put_skill(tmp_path / "group" / "deep" / "b")
    put_skill(tmp_path / "lower", file="skill.md")
    put_skill(tmp_path, "single", file="single.skill.md")
    put_skill(tmp_path / "group", "inner", file="inner.SKILL.md")
    skills = find_skills(user_config(tmp_path))

    assert set(skills) == {"a", "b", "lower", "single", "inner"}
    assert skills["a"].directory == os.path.realpath(tmp_path / "a")
    assert skills["single"].directory is None
    assert skills["single"].path == str(tmp_path / "single.skill.md")
    assert all(s.source == "user" and s.trusted for s in skills.values())


@pytest.mark.covers("SKL-18")
def test_configured_folder_can_be_a_skill_itself(tmp_path: Path) -> None:
    put_skill(tmp_path / "mine")
    put_skill(tmp_path / "mine" / "examples" / "other")  # part of the skill: discovery stops at a skill folder
    assert set(find_skills(user_config(tmp_path / "mine"))) == {"mine"}


@pytest.mark.covers("SKL-18", "SKL-19")
def test_precedence_is_project_user_inline_builtin(tmp_path: Path) -> None:  # K-04
    config = SkillsConfig(
        project=str(tmp_path / "project"),
        trust_project_skills=True,
        user=(str(tmp_path / "user"), str(tmp_path / "more")),
        inline=(
            parse_skill("---\nname: b\ndescription: inline\n---\n"),
            parse_skill("---\nname: c\ndescription: inline\n---\n"),
        ),
        switched_on=("hello-extended",),
    )
    put_skill(tmp_path / "project" / ".agent" / "skills" / "a", description="project")
    put_skill(tmp_path / "user" / "a", description="user")
    put_skill(tmp_path / "user" / "b", description="user")
    put_skill(tmp_path / "more" / "b", description="second user")
    catalog = discover_skills(config)

    sources = {s.name: s.source for s in catalog}
    assert [sources[name] for name in ("a", "b", "c", "hello-extended")] == ["project", "user", "inline", "builtin"]
    assert [s.name for s in catalog.skills] == sorted(s.name for s in catalog.skills)
    assert [(s.name, s.description) for s in catalog.shadowed] == [("a", "user"), ("b", "second user"), ("b", "inline")]
    for name, description in {"a": "project", "project:a": "project", "user:a": "user", "inline:b": "inline"}.items():
        skill = catalog.get(name)
        assert skill is not None
        assert skill.description == description
    assert catalog.get("builtin:a") is None
    assert "b" in catalog
    assert "user:a" in catalog
    assert sum("takes precedence" in p.reason and p.level == "warning" for p in catalog.problems) == 3


@pytest.mark.covers("SKL-20")
def test_untrusted_project_is_skipped_or_text_only(tmp_path: Path) -> None:
    put_skill(tmp_path / ".agents" / "skills" / "a")
    for trust, names, trusted in ((True, {"a"}, True), (None, {"a"}, False), (False, set[str](), False)):
        config = SkillsConfig(project=str(tmp_path), builtin=False, trust_project_skills=trust)
        skills = find_skills(config)
        assert set(skills) == names
        assert all(s.trusted == trusted for s in skills.values())
    dropped = discover_skills(SkillsConfig(project=str(tmp_path), builtin=False, trust_project_skills=False))
    assert "not trusted" in problems_by_name(dropped)["a"]
    assert discover_skills(SkillsConfig(builtin=False)).skills == ()  # no project is read without the option


@pytest.mark.covers("SKL-20")
@on_posix
def test_files_of_a_distrusted_project_are_not_read(tmp_path: Path) -> None:
    file = put_skill(tmp_path / ".agents" / "skills" / "a")
    before = os.stat(file).st_atime_ns
    os.utime(file, ns=(before - 10**12, before - 2 * 10**12))
    stamp = os.stat(file).st_atime_ns
    discover_skills(SkillsConfig(project=str(tmp_path), builtin=False, trust_project_skills=False))
    assert os.stat(file).st_atime_ns == stamp


@pytest.mark.covers("BYD-07")
def test_skill_folders_of_other_programs_are_searched(tmp_path: Path) -> None:
    put_skill(tmp_path / ".agent" / "skills" / "a", description="own")
    put_skill(tmp_path / ".agents" / "skills" / "b", description="shared")
    put_skill(tmp_path / ".claude" / "skills" / "c", description="other")
    put_skill(tmp_path / ".claude" / "skills" / "a", description="hidden by the first")
    put_skill(tmp_path / "elsewhere" / "d")
    config = SkillsConfig(project=str(tmp_path), builtin=False, trust_project_skills=True)
    assert {n: s.description for n, s in find_skills(config).items()} == {"a": "own", "b": "shared", "c": "other"}


@pytest.mark.covers("BYD-07")
@on_posix
def test_linked_skill_folders_give_each_skill_once(tmp_path: Path) -> None:
    put_skill(tmp_path / ".agents" / "skills" / "a")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "skills").symlink_to("../.agents/skills")
    catalog = discover_skills(SkillsConfig(project=str(tmp_path), builtin=False, trust_project_skills=True))
    assert (len(catalog), catalog.problems, catalog.shadowed) == (1, (), ())


@pytest.mark.covers("BYD-07")
def test_parent_folders_are_searched_and_the_nearest_wins(tmp_path: Path) -> None:
    inner = tmp_path / "packages" / "one"
    put_skill(tmp_path / ".agents" / "skills" / "a", description="top")
    put_skill(tmp_path / ".agents" / "skills" / "b", description="top")
    put_skill(inner / ".agents" / "skills" / "a", description="near")
    put_skill(tmp_path.parent / f"{tmp_path.name}-outside" / ".agents" / "skills" / "c")
    config = SkillsConfig(project=str(inner), up_to=str(tmp_path), builtin=False, trust_project_skills=True)
    assert {n: s.description for n, s in find_skills(config).items()} == {"a": "near", "b": "top"}
    assert set(find_skills(SkillsConfig(project=str(inner), builtin=False))) == {"a"}


@pytest.mark.covers("BYD-07")
def test_skipped_files_are_reported_with_reasons(tmp_path: Path) -> None:
    put_skill(tmp_path / "good")
    put_skill(tmp_path / "cased", file="Skill.md")
    put_skill(tmp_path, "named", file="misnamed.md")
    (tmp_path / "README.md").write_text("# Skills\n")
    (tmp_path / "empty" / "below").mkdir(parents=True)
    (tmp_path / "headless").mkdir()
    (tmp_path / "headless" / "SKILL.md").write_text("# Text\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "SKILL.md").mkdir()
    (tmp_path / "file").write_text("")
    catalog = discover_skills(user_config(tmp_path, tmp_path / "file", tmp_path / "missing"))
    reasons = problems_by_name(catalog)

    assert {s.name for s in catalog} == {"good", "cased"}
    assert "rename it to misnamed.skill.md" in reasons["misnamed.md"]
    assert "the folder has no SKILL.md" in reasons["empty"]
    assert "the folder has no SKILL.md" in reasons["folder"]
    assert "no front matter" in reasons["headless"]
    assert "it is not a folder" in reasons["file"]
    assert "should be called SKILL.md" in reasons["Skill.md"]
    assert set(reasons) == {"misnamed.md", "empty", "folder", "headless", "file", "Skill.md"}
    assert next(p.line for p in catalog.problems if "headless" in p.path) == 1


@on_posix
def test_broken_and_circular_links_are_handled(tmp_path: Path) -> None:  # K-07
    put_skill(tmp_path / "skills" / "a")
    put_skill(tmp_path / "real" / "b")
    (tmp_path / "skills" / "b").symlink_to(tmp_path / "real" / "b")
    (tmp_path / "skills" / "round").symlink_to(tmp_path / "skills")
    (tmp_path / "skills" / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "skills" / "self").symlink_to("self")
    os.mkfifo(tmp_path / "skills" / "pipe.skill.md")
    catalog = discover_skills(user_config(tmp_path / "skills"))
    assert {s.name: s.directory for s in catalog}["b"] == os.path.realpath(tmp_path / "real" / "b")
    assert len(scan_folder(tmp_path / "skills").found) == 2
    reasons = problems_by_name(catalog)
    assert set(reasons) == {"gone", "self", "pipe.skill.md"}
    assert "broken link" in reasons["gone"]
    assert "not a text file" in reasons["pipe.skill.md"]


@pytest.mark.covers("SKL-37")
@on_posix
def test_links_out_of_a_project_are_rejected(tmp_path: Path) -> None:
    project, outside, user = tmp_path / "project", tmp_path / "outside", tmp_path / "user"
    put_skill(outside / "secret")
    put_skill(user / "shared")
    skills = project / ".agents" / "skills"
    put_skill(skills / "own")
    (skills / "out").symlink_to(outside / "secret")
    (skills / "mine").symlink_to(user / "shared")
    (skills / "file").mkdir()
    (skills / "file" / "SKILL.md").symlink_to(outside / "secret" / "SKILL.md")
    (project / ".claude").mkdir()
    (project / ".claude" / "skills").symlink_to(outside)
    config = SkillsConfig(project=str(project), user=(str(user),), builtin=False, trust_project_skills=True)
    catalog = discover_skills(config)
    assert {s.name for s in catalog} == {"own", "shared"}
    assert sum("leads out of the project" in p.reason for p in catalog.problems) == 3


@pytest.mark.parametrize("excluded", ["node_modules", ".git", "venv", "vendor", "site-packages", ".hidden"])
def test_skills_of_dependencies_are_not_found(tmp_path: Path, excluded: str) -> None:  # K-03
    put_skill(tmp_path / "a")
    put_skill(tmp_path / "group" / excluded / "package" / "b")
    assert set(find_skills(user_config(tmp_path))) == {"a"}


def test_virtual_environments_are_not_searched(tmp_path: Path) -> None:  # K-03
    put_skill(tmp_path / "myenv" / "lib" / "b")
    (tmp_path / "myenv" / "pyvenv.cfg").write_text("")
    assert find_skills(user_config(tmp_path)) == {}


def test_ignore_files_are_respected(tmp_path: Path) -> None:  # K-03
    skills = tmp_path / ".agents" / "skills"
    put_skill(skills / "a")
    put_skill(skills / "build" / "b")
    put_skill(skills / "local-c")
    put_skill(skills, "d", file="d.skill.md")
    (tmp_path / ".gitignore").write_text("build/\n")
    (skills / ".gitignore").write_text("local-*\nd.skill.md\n")
    catalog = discover_skills(SkillsConfig(project=str(tmp_path), builtin=False))
    assert {s.name for s in catalog} == {"a"}
    assert set(problems_by_name(catalog)) >= {"local-c", "d.skill.md"}

    (tmp_path / ".gitignore").write_text(".agents/\n")  # skills that are not committed are the user's choice
    (skills / ".gitignore").unlink()
    assert set(find_skills(SkillsConfig(project=str(tmp_path), builtin=False))) == {"a", "b", "local-c", "d"}


@pytest.mark.covers("SKL-04")
def test_skills_can_be_enabled_and_disabled(tmp_path: Path) -> None:
    put_skill(tmp_path / "a")
    put_skill(tmp_path / "b", text="default_enabled: false\n")
    for more, enabled in (
        ({}, {"a"}),
        ({"switched_on": ("b",)}, {"a", "b"}),
        ({"disabled": ("a",)}, set[str]()),
        ({"disabled": ("b",), "switched_on": ("b",)}, {"a"}),
        ({"enabled": False}, set[str]()),
    ):
        catalog = discover_skills(user_config(tmp_path, **more))
        assert {s.name for s in catalog} == enabled
    assert {s.name for s in discover_skills(user_config(tmp_path)).disabled_skills} == {"b"}


def test_disabled_skill_still_shadows_others(tmp_path: Path) -> None:
    put_skill(tmp_path / "one" / "a", description="one")
    put_skill(tmp_path / "two" / "a", description="two")
    assert discover_skills(user_config(tmp_path / "one", tmp_path / "two", disabled=("a",))).skills == ()


def test_skill_disabled_by_default_still_shadows_others(tmp_path: Path) -> None:
    put_skill(tmp_path / "one" / "a", text="default_enabled: false\n")
    put_skill(tmp_path / "two" / "a")
    catalog = discover_skills(user_config(tmp_path / "one", tmp_path / "two"))
    assert (catalog.skills, len(catalog.disabled_skills), len(catalog.shadowed)) == ((), 1, 1)


@pytest.mark.covers("SKL-01", "SKL-37")
def test_invisible_characters_are_removed_on_reading(tmp_path: Path) -> None:
    file = put_skill(tmp_path / "a")
    file.write_text(file.read_text() + "Do\U000e0041\u202e it.\r\nNow.\n", encoding="utf-8")
    skill = find_skills(user_config(tmp_path))["a"]
    assert read_body(skill) == f"Body of {tmp_path / 'a'}.\nDo it.\nNow."
    file.unlink()
    with pytest.raises(SkillError, match="it can no longer be read"):
        read_body(skill)


def test_only_existing_scripts_are_listed(tmp_path: Path) -> None:
    put_skill(
        tmp_path / "a", text="scripts:\n  - name: run\n    path: scripts/run.py\n  - scripts/gone.sh\n  - out.sh\n"
    )
    scripts = tmp_path / "a" / "scripts"
    scripts.mkdir()
    for name in ("run.py", "more.sh", "_helper.py", ".hidden"):
        (scripts / name).write_text("")
    (tmp_path / "out.sh").write_text("")
    if os.name == "posix":
        (tmp_path / "a" / "out.sh").symlink_to(tmp_path / "out.sh")
        (scripts / "link.sh").symlink_to(tmp_path / "out.sh")
    put_skill(tmp_path, "single", text="scripts: [x.sh]\n", file="single.skill.md")
    catalog = discover_skills(user_config(tmp_path))
    skills = {s.name: s for s in catalog}
    assert skills["a"].scripts == (
        Script(name="run", path="scripts/run.py"),
        Script(name="more.sh", path="scripts/more.sh"),
    )
    assert skills["single"].scripts == ()
    assert sum("was skipped" in p.reason for p in catalog.problems) == 3


@pytest.mark.covers("SKL-19")
def test_inline_skill_is_validated() -> None:
    good = Skill(name="a", description="d", brief="d", source="user", text="x")
    assert find_skills(SkillsConfig(inline=(good,), builtin=False))["a"].source == "inline"
    for bad in (
        Skill(name="A b", description="d", brief="", source="inline"),
        Skill(name="a", description=" ", brief="", source="inline"),
    ):
        with pytest.raises(SkillError):
            discover_skills(SkillsConfig(inline=(bad,)))


@pytest.mark.parametrize(("name", "value"), [("max_skills", -1), ("max_active", 0)])
def test_invalid_limits_are_rejected(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        user_config(**{name: value})


def test_many_skills_use_little_memory(tmp_path: Path) -> None:  # K-10
    text = "---\nname: {}\ndescription: Does it.\n---\n" + "word " * 4_000
    for number in range(300):
        folder = tmp_path / f"s{number}"
        folder.mkdir()
        (folder / "SKILL.md").write_text(text.format(f"s{number}"))
    handles = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    catalog = discover_skills(user_config(tmp_path))
    assert len(catalog) == 300
    assert len(msgspec.json.encode((catalog.skills, catalog.problems))) < 300_000  # the files have 6MB of text
    assert not handles or len(os.listdir("/proc/self/fd")) == handles


def test_number_of_found_skills_is_limited(tmp_path: Path) -> None:
    for number in range(5):
        put_skill(tmp_path / f"s{number}")
    places = scan_folder(tmp_path, max_skills=3)
    assert len(places.found) == 3
    assert "the rest is skipped" in places.problems[0].reason
