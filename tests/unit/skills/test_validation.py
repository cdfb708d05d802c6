"""Missing requirements of a skill."""

from pathlib import Path

import pytest

from mainspring.skills.discovery import SkillFile, discover_skills, load_skill
from mainspring.skills.manifest import parse_skill
from mainspring.skills.skill import SkillsConfig
from mainspring.skills.validation import check_skills, find_missing

HERE = {"git": "/usr/bin/git", "python3": "/usr/bin/python3"}


def list_missing(head: str) -> list[tuple[str, str]]:
    skill = parse_skill(f"---\nname: a\ndescription: d\n{head}\n---\n")
    found = find_missing(skill, environ={"HOME": "/x"}, which=HERE.get, has_package=lambda name: name == "pandas")
    assert all(each.name in each.text for each in found)
    return [(each.kind, each.name) for each in found]


@pytest.mark.covers("OPT-06")
@pytest.mark.parametrize(
    ("head", "found"),
    [
        ("requires: [git, jq, jq]", [("program", "jq")]),
        ("requires: jq>=1.6", [("program", "jq")]),
        ("requires: ['python:pandas>=2', 'python:docx']", [("package", "docx")]),
        ("requires: ['env:HOME', 'env:TOKEN']", [("variable", "TOKEN")]),
        (
            "requires:\n  bins: [jq]\n  python: [docx]\n  env: [TOKEN]",
            [("program", "jq"), ("package", "docx"), ("variable", "TOKEN")],
        ),
        ("dependencies: python>=3.8, pandas, docx", [("package", "docx")]),
        (
            "compatibility: Requires git, docker, jq, and access to the internet",
            [("program", "docker"), ("program", "jq")],
        ),
        ("compatibility: Works with any model that supports tool use.", []),
        ("compatibility: Designed for make-believe. Needs nothing to go on.", [("program", "go")]),
        ("requires: ['; rm -rf /', '']", []),
        ("license: MIT", []),
    ],
)
def test_missing_programs_packages_and_variables_are_found(head: str, found: list[tuple[str, str]]) -> None:
    assert list_missing(head) == found


@pytest.mark.covers("OPT-06")
def test_shebang_lines_of_scripts_are_checked(tmp_path: Path) -> None:
    scripts = tmp_path / "a" / "scripts"
    scripts.mkdir(parents=True)
    (tmp_path / "a" / "SKILL.md").write_text("---\nname: a\ndescription: d\n---\n")
    for name, line in {
        "a.js": "#!/usr/bin/env node",
        "b.sh": "#!/bin/bash",
        "c.py": "#!/usr/bin/env -S uv run --script",
        "d.py": "print(1)",
        "e.py": "#!/usr/bin/env python3",
    }.items():
        (scripts / name).write_text(f"{line}\n")
    skill = load_skill(SkillFile(tmp_path / "a" / "SKILL.md", tmp_path / "a", "x"), "user", trusted=True)
    found = find_missing(skill, environ={}, which=HERE.get)
    assert [each.name for each in found] == ["node", "bash", "uv"]
    assert "scripts/a.js" in found[0].text


@pytest.mark.covers("OPT-06")
def test_packages_are_searched_in_the_current_environment() -> None:
    skill = parse_skill("---\nname: a\ndescription: d\nrequires: ['python:msgspec', 'python:no-such-package-x']\n---\n")
    assert [each.name for each in find_missing(skill)] == ["no-such-package-x"]


@pytest.mark.covers("SKL-08")
@pytest.mark.parametrize(
    ("spec", "code", "reason"),
    [
        ("toolsets/index:T", "class T: 1 / 0", ""),
        ("toolsets/index.py:T", "from somewhere_else import *", "imports somewhere_else, which is not installed"),
        (
            "toolsets/index:T",
            "import json, no_such_module.part\nclass T: ...",
            "imports no_such_module.part, which is not",
        ),
        ("toolsets/index:T", "try:\n    import no_such_module\nexcept ImportError:\n    T = None", ""),
        ("toolsets/index:Other", "class T: ...", "toolsets/index.py has no Other"),
        ("toolsets/index:T", "\nclass T(:", "toolsets/index.py:2: invalid syntax"),
        ("toolsets/other:T", "", "toolsets/other.py: No such file or directory"),
        ("link:T", "", "link.py is outside the skill's folder"),
        ("no_such_module.part:T", "", "no_such_module.part is neither a file of the skill nor an installed module"),
        ("json.decoder:JSONDecoder", "", ""),
    ],
)
def test_toolset_that_cannot_be_loaded_is_reported_without_running_it(
    tmp_path: Path, spec: str, code: str, reason: str
) -> None:
    folder = tmp_path / "a"
    (folder / "toolsets").mkdir(parents=True)
    (folder / "toolsets" / "index.py").write_text(code)
    (tmp_path / "outside.py").write_text("class T: ...")
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    (folder / "SKILL.md").write_text(f"---\nname: a\ndescription: d\ntoolsets: ['{spec}']\n---\nText.\n")

    warnings = check_skills(folder)[0].warnings
    problems = discover_skills(SkillsConfig(user=(str(tmp_path),), builtin=False)).problems

    assert [w.startswith(f"the toolset {spec} cannot be loaded: ") for w in warnings] == ([True] if reason else [])
    assert all(reason in w for w in warnings)
    assert tuple(p.reason for p in problems) == warnings
