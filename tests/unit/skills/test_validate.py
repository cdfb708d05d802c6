"""Strict validation by the format, lenient loading, and new skills, which pass both."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from mainspring.skills.authoring import create_skill_folder
from mainspring.skills.skill import SkillError
from mainspring.skills.validation import check_skills, check_spec


def write_file(folder: Path, text: str, name: str = "SKILL.md") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.covers("SKL-21")
@pytest.mark.parametrize(
    ("head", "rules"),
    [
        ("name: skill\ndescription: d", []),
        ("name: skill\ndescription: d\nlicense: x\ncompatibility: y\nmetadata:\n  a: b\nallowed-tools: Read", []),
        ("name: skill\ndescription: d\nversion: 1\nauthor: x", ["unknown-fields"]),
        ("name: Skill\ndescription: d", ["name-case", "name-folder"]),
        ("name: s_k\ndescription: d", ["name-characters", "name-folder"]),
        ("name: -a--b\ndescription: d", ["name-hyphen-outside", "name-hyphens", "name-folder"]),
        (f"name: {'x' * 65}\ndescription: d", ["name-long", "name-folder"]),
        ("description: d", ["name-missing"]),
        ("name:\ndescription: ' '", ["name-empty", "description-empty"]),
        ("name:\n  - skill\ndescription:\n  a: b", ["name-empty", "description-empty"]),
        ("name: skill", ["description-missing"]),
        (f"name: skill\ndescription: {'é' * 1024}", []),
        (f"name: skill\ndescription: {'d' * 1025}", ["description-long"]),
        (f"name: skill\ndescription: d\ncompatibility: {'d' * 501}", ["compatibility-long"]),
        ("name: skill\ndescription: d\ncompatibility:\n  - x", ["compatibility-text"]),
        ("name: skill\ndescription: Use when: it", ["yaml"]),
        ("name: skill\ndescription: d\nmetadata:\n  tags: [a]", ["yaml"]),
        ("name: skill\ndescription: d\nmetadata: {a: b}", ["yaml"]),
        ("name: skill\ndescription: !x d", ["yaml"]),
        ("name: skill\ndescription: &x d", ["yaml"]),
        ("name: skill\ndescription: *x", ["yaml"]),
        ("name: skill\nname: skill\ndescription: d", ["yaml"]),
        ("name: skill\ndescription: d\nmetadata:\n  a:\n    b: c\n  d:\n     e: f", ["yaml"]),
        ("name: skill\ndescription: \td", ["yaml"]),
        ("words", ["no-map"]),
        ("", ["no-map"]),
    ],
)
def test_format_rules(head: str, rules: list[str]) -> None:
    assert [f.rule for f in check_spec(f"---\n{head}\n---\nbody", "skill")] == rules


@pytest.mark.covers("SKL-21")
@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("\ufeff---\nname: skill\ndescription: d\n---\n", ["head-missing"]),
        ("\n---\nname: skill\ndescription: d\n---\n", ["head-missing"]),
        ("---\nname: skill\ndescription: d\n", ["head-open"]),
        ("---\nname: skill\ndescription: a---b\n", []),
        ("---\nname: skill---\ndescription: d\n---", ["description-missing"]),
        ("---\nname: ｓｋｉｌｌ\ndescription: d\n---", []),
    ],
)
def test_front_matter_ends_at_the_second_dashes(text: str, rules: list[str]) -> None:
    assert [f.rule for f in check_spec(text, "skill")] == rules


@given(st.text(), st.text(max_size=20))
def test_arbitrary_text_does_not_crash(text: str, folder: str) -> None:
    check_spec(text, folder)
    check_spec(f"---\n{text}\n---\n", folder)


@pytest.mark.covers("SKL-21", "SKL-38")
def test_check_skills_accepts_folders_and_files(tmp_path: Path) -> None:
    write_file(tmp_path / "good", "---\nname: good\ndescription: d\n---\nText.")
    write_file(
        tmp_path / "odd", "---\nname: odd\ndescription: Use when: it\n---\n[gone](references/x.md) [there](SKILL.md)"
    )
    write_file(tmp_path / "bad", "no front matter")
    write_file(tmp_path, "---\nname: single\ndescription: d\n---\nText.", "single.skill.md")

    verdicts = {v.name or Path(v.path).parent.name: v for v in check_skills(tmp_path)}

    assert {n: (v.valid, v.loads) for n, v in verdicts.items()} == {
        "good": (True, True),
        "odd": (False, True),
        "bad": (False, False),
        "single": (True, True),
    }
    assert verdicts["bad"].reason.startswith("line 1: it has no front matter")
    assert any("links to references/x.md" in w for w in verdicts["odd"].warnings)
    assert check_skills(tmp_path / "good") == (verdicts["good"],)
    assert check_skills(tmp_path / "good" / "SKILL.md") == (verdicts["good"],)
    [none] = check_skills(write_file(tmp_path / "empty", "x", "README.md"))
    assert [f.rule for f in none.faults] == ["file-missing"]
    with pytest.raises(SkillError, match="does not exist"):
        check_skills(tmp_path / "nowhere")


def test_other_problems_are_reported(tmp_path: Path) -> None:
    latin = write_file(tmp_path / "latin", "")
    (latin / "SKILL.md").write_bytes("---\nname: latin\ndescription: é\n---\n".encode("latin-1"))
    [verdict] = check_skills(latin)
    assert ([f.rule for f in verdict.faults], verdict.loads) == (["text-encoding"], False)

    [verdict] = check_skills(write_file(tmp_path / "cased", "---\nname: cased\ndescription: d\n---\nx", "Skill.md"))
    assert ([f.rule for f in verdict.faults], verdict.loads) == (["file-missing"], True)

    [verdict] = check_skills(
        write_file(tmp_path / "bare", "---\nname: bare\ndescription: d\nrequires: [no-such-program-x]\n---\n")
    )
    assert verdict.warnings[0] == "it has no instructions after its front matter"
    assert "no-such-program-x is not on PATH" in verdict.warnings[1]

    [verdict] = check_skills(write_file(tmp_path / "long", "---\nname: long\ndescription: d\n---\n" + "x\n" * 600))
    assert "its text has 600 lines" in verdict.warnings[0]


@pytest.mark.covers("SKL-38")
def test_new_skill_is_valid(tmp_path: Path) -> None:
    for number, description in enumerate(("", 'Writes "notes": use it when\nasked. #1 \\o/', "[x]", "yes")):
        skill_folder = create_skill_folder(
            tmp_path / "skills", f"notes-{number}", description=description, scripts=number == 1
        )
        [verdict] = check_skills(skill_folder)
        assert (verdict.valid, verdict.loads, verdict.warnings) == (True, True, ()), verdict
    assert (tmp_path / "skills" / "notes-1" / "scripts" / "example.py").is_file()
    assert not [p for p in (tmp_path / "skills").iterdir() if p.name.startswith(".")]


@pytest.mark.covers("SKL-38")
@pytest.mark.parametrize("name", ["", "A", "a b", "../a", "a/b", "-a", "a--b", "x" * 65, ".", "a_b"])
def test_new_skill_requires_a_valid_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(SkillError, match="Invalid skill name"):
        create_skill_folder(tmp_path / "skills", name)
    assert not (tmp_path / "skills").exists()


@pytest.mark.covers("SKL-38")
def test_new_skill_does_not_replace_an_existing_one(tmp_path: Path) -> None:
    create_skill_folder(tmp_path, "a")
    with pytest.raises(SkillError, match="already"):
        create_skill_folder(tmp_path, "a")
    with pytest.raises(SkillError, match="Use at most 1024"):
        create_skill_folder(tmp_path, "b", description="x" * 1025)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
