"""Missing requirements of a skill."""

from pathlib import Path

import pytest

from mainspring.skills.discovery import SkillFile, load_skill
from mainspring.skills.manifest import parse_skill
from mainspring.skills.validation import find_missing

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
