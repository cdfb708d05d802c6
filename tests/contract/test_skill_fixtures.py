"""All skills of public repositories: whether they load, and whether validation matches the reference validator."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.skills.content import read_body
from mainspring.skills.discovery import discover_skills
from mainspring.skills.skill import Skill, SkillsConfig
from mainspring.skills.validation import Verdict, check_skills

RULES = {
    "Unexpected fields": "unknown-fields",
    "SKILL.md must start": "head-missing",
    "not properly closed": "head-open",
    "Invalid YAML": "yaml",
    "must be a YAML mapping": "no-map",
    "Missing required file": "file-missing",
    "frontmatter: name": "name-missing",
    "frontmatter: description": "description-missing",
    "Field 'name'": "name-empty",
    "Field 'description'": "description-empty",
    "Field 'compatibility'": "compatibility-text",
    "must be lowercase": "name-case",
    "start or end with a hyphen": "name-hyphen-outside",
    "consecutive hyphens": "name-hyphens",
    "contains invalid characters": "name-characters",
    "Directory name": "name-folder",
    "Description exceeds": "description-long",
    "Compatibility exceeds": "compatibility-long",
    "character limit": "name-long",
}
"""Messages of the reference validator, in part, with the names of our rules."""

REFUSED = {"no_frontmatter": ("no front matter", "checked out as a file"), "missing_description": ("no description",)}
"""The only problems that prevent loading, with their messages; broken YAML counts as missing here but is repaired."""


@pytest.fixture
def skill_folder(material: Path) -> Path:
    return material / "skills"


@pytest.fixture
def rows(skill_folder: Path) -> list[dict[str, Any]]:
    return json.loads((skill_folder / "INDEX.json").read_text(encoding="utf-8"))


@pytest.fixture
def verdicts(rows: list[dict[str, Any]], skill_folder: Path) -> dict[str, Verdict]:
    return _check_all(skill_folder, tuple(row["dir"] for row in rows))


@cache
def _check_all(folder: Path, names: tuple[str, ...]) -> dict[str, Verdict]:
    return {name: check_skills(folder / name)[0] for name in names}


def test_validation_matches_the_reference_validator(rows: list[dict[str, Any]], verdicts: dict[str, Verdict]) -> None:
    for row in rows:
        theirs = [next(rule for text, rule in RULES.items() if text in error) for error in row["skills_ref_errors"]]
        assert [fault.rule for fault in verdicts[row["dir"]].faults] == theirs, row["dir"]
        assert verdicts[row["dir"]].valid == (not row["skills_ref_errors"])
    assert len(rows) >= 189


def test_every_skill_loads_or_has_a_reason(rows: list[dict[str, Any]], verdicts: dict[str, Verdict]) -> None:
    for row in rows:
        verdict, features = verdicts[row["dir"]], row["features"]
        broken = "invalid_yaml" in features  # the parser repairs it, so nothing is missing
        reasons = [text for kind, texts in REFUSED.items() if kind in features and not broken for text in texts]
        assert verdict.loads == (not reasons), (row["dir"], verdict.reason)
        assert verdict.loads or any(text in verdict.reason for text in reasons), verdict.reason


def test_valid_skills_load_without_warnings(
    rows: list[dict[str, Any]], verdicts: dict[str, Verdict], skill_folder: Path
) -> None:
    skills = {s.path: s for s in _all_skills(skill_folder)}
    for row in rows:
        if row["skills_ref_errors"]:
            continue
        skill = skills[str(skill_folder / row["dir"] / "SKILL.md")]
        assert skill.name == Path(row["dir"]).name
        assert not [w for w in skill.warnings if "characters; it is part of every prompt" not in w], row["dir"]


def test_loaded_skills_stay_within_the_limits(skill_folder: Path) -> None:
    every = _all_skills(skill_folder)
    for skill in every:
        assert 0 < len(skill.name) <= 64
        assert 0 < len(skill.description) <= 1024
        assert 0 < len(skill.brief) <= 200
        assert "\n" not in skill.description
        assert skill.allowed_tools is None or all(r.count("(") == r.count(")") for r in skill.allowed_tools)
        msgspec.json.encode(skill)
    listed = {s.name: s.allowed_tools for s in every}
    assert listed["analyze-crash"] == ("Bash", "Read", "Grep", "Glob", "TodoWrite", "WebSearch")
    assert listed["testing-skill"] is not None
    assert listed["testing-skill"][0] == "Bash(uv run pytest *)"
    assert listed["valid-skill"] == ("web-search", "file-read")


def test_skill_body_is_the_text_after_the_front_matter(skill_folder: Path) -> None:
    for skill in _all_skills(skill_folder):
        body = read_body(skill)
        raw = Path(skill.path or "").read_text(encoding="utf-8")
        assert "\r" not in body
        assert not body.startswith("---")
        assert len(body) > 0.99 * len(raw.split("\n---", 1)[1].strip().removeprefix("---")) - 400


def _all_skills(folder: Path) -> tuple[Skill, ...]:
    catalog = discover_skills(SkillsConfig(user=(str(folder),), builtin=False))
    return (*catalog.skills, *catalog.disabled_skills, *catalog.shadowed)
