"""``mainspring skills`` in this process."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.cli.main import main
from mainspring.skills.discovery import BUNDLED_FOLDER
from tests.helpers.git import git


@dataclass
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """The JSON value on stdout."""
        return json.loads(self.out)


@dataclass
class Command:
    """Runs commands in a folder."""

    folder: Path
    home: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> CommandResult:
        code = main([*arguments, "--cwd", str(self.folder)] if "--cwd" not in arguments else arguments)
        output = self.capture.readouterr()
        return CommandResult(code, output.out, output.err)

    def settings(self, value: object) -> None:
        file = self.home / ".agent" / "settings.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def command(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    folder = tmp_path / "project"
    folder.mkdir()
    return Command(folder, home, capsys)


def write_skill(folder: Path, name: str = "", more: str = "", body: str = "Do it.\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = (
        f"---\nname: {name or folder.name}\ndescription: Does {name or folder.name}. Use it often.\n{more}---\n{body}"
    )
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    return folder


def list_names(command: Command) -> dict[str, str]:
    return {s["name"]: s["state"] for s in command.run("skills", "--json").value["skills"] if s["source"] != "builtin"}


@pytest.mark.covers("SKL-38", "SKL-33")
def test_list_and_show_skills(command: Command) -> None:
    write_skill(command.home / ".agent" / "skills" / "mine", more="version: 1.10\nallowed-tools: Read\n")
    write_skill(command.home / ".agents" / "skills" / "shared")
    write_skill(command.home / ".agent" / "skills" / "broken", more="").joinpath("SKILL.md").write_text("no head\n")

    done = command.run("skills")
    lines = {line.split()[0]: line for line in done.out.splitlines()}
    assert done.code == 0
    assert set(lines) >= {"mine", "shared", "hello-extended"}
    assert "Does mine." in lines["mine"]
    assert lines["hello-extended"].endswith("(off)")
    assert "Not loaded:" in done.err
    assert "broken/SKILL.md:1: it has no front matter" in done.err

    listed = command.run("skills", "list", "--json").value
    assert {s["name"]: s["source"] for s in listed["skills"]}["mine"] == "user"
    assert [p["level"] for p in listed["problems"]] == ["error"]

    shown = command.run("skills", "show", "mine")
    assert shown.out == "Do it.\n"
    assert "version: 1.10" in shown.err
    assert "allowed tools: Read" in shown.err
    assert command.run("skills", "show", "hello-extended", "--json").value["skill"]["toolsets"] == [
        "toolset.py:HelloToolset"
    ]
    missing = command.run("skills", "show", "mien")
    assert (missing.code, missing.out) == (2, "")
    assert "Did you mean 'mine'?" in missing.err
    assert "no front matter" in command.run("skills", "show", "broken").err


@pytest.mark.covers("SKL-38", "SKL-21")
def test_validate_distinguishes_conforming_and_usable_skills(command: Command) -> None:
    write_skill(command.folder / "good")
    write_skill(command.folder / "odd", more="version: 1\n")
    (command.folder / "bad").mkdir()
    (command.folder / "bad" / "SKILL.md").write_text("no head\n")

    assert command.run("skills", "validate", "good").out.endswith("good/SKILL.md: valid\n")
    odd = command.run("skills", "validate", "odd")
    assert odd.code == 1
    assert "error: the format has no field version" in odd.out
    all_skills = command.run("skills", "validate", "--json")
    assert all_skills.code == 1
    assert {Path(v["path"]).parent.name: (v["valid"], v["loads"]) for v in all_skills.value} == {
        "good": (True, True),
        "odd": (False, True),
        "bad": (False, False),
    }
    assert "3 skills: 1 conform to the specification, 2 usable here" in command.run("skills", "validate", ".").err
    assert command.run("skills", "validate", "nowhere").code == 2
    assert command.run("skills", "validate", "good", "good/SKILL.md").code == 0
    assert "odd/SKILL.md: does not conform to the specification, but usable here\n" in odd.out
    assert "/../" not in command.run("skills", "validate", "bad/../good").out


@pytest.mark.covers("SKL-38")
def test_skill_is_validated_by_name(command: Command) -> None:
    created = command.run("skills", "new", "notes", "--description", "Writes notes. Use it for notes.")
    assert "mainspring skills validate notes`" in created.err
    assert command.run("skills", "validate", "notes").out == f"{created.out.strip()}: valid\n"
    assert command.run("skills", "validate", "no/notes").code == 2
    write_skill(command.folder / "notes", more="version: 1\n")  # a folder with this name takes precedence
    assert command.run("skills", "validate", "notes").code == 1


@pytest.mark.covers("SKL-20", "BYD-07")
def test_project_skills_need_trust(command: Command) -> None:
    (command.folder / ".git").mkdir()
    write_skill(command.folder / ".agents" / "skills" / "theirs")
    inner = command.folder / "src"
    inner.mkdir()
    before = command.run("skills", "--cwd", str(inner))
    assert "theirs" not in before.out
    assert "theirs/SKILL.md: The project is not trusted" in before.err
    assert command.run("trust").code == 0
    assert "theirs" in command.run("skills", "--cwd", str(inner)).out
    command.settings({"skills": {"trustProjectSkills": False}})
    assert "theirs" not in command.run("skills").out


@pytest.mark.covers("SKL-35")
def test_settings_control_skill_folders_and_availability(command: Command) -> None:
    write_skill(command.folder.parent / "plugins" / "extra")
    write_skill(command.home / "more" / "own")
    command.settings({"skills": {"pluginDir": [str(command.folder.parent / "plugins"), "~/more"]}})
    assert list_names(command) == {"extra": "on", "own": "on"}
    command.settings({"skills": {"pluginDir": str(command.folder.parent / "plugins"), "disabled": ["extra"]}})
    assert list_names(command) == {"extra": "off"}
    rejected = command.run("skills", "enable", "extra")
    assert rejected.code == 2
    assert "skills.disabled" in rejected.err
    command.settings({"skills": {"enabled": ["own"], "pluginDir": [str(command.folder.parent / "plugins"), "~/more"]}})
    assert list_names(command) == {"extra": "off", "own": "on"}
    rejected = command.run("skills", "enable", "extra")
    assert (rejected.code, "extra is not in the list skills.enabled" in rejected.err) == (2, True)
    command.settings({"skills": {"enabled": False, "pluginDir": str(command.folder.parent / "plugins")}})
    assert command.run("skills", "--json").value["skills"] == []


@pytest.mark.covers("SKL-38", "OPT-06", "SKL-36", "SKL-37")
def test_install_confirms_pins_and_updates(command: Command) -> None:
    source = command.folder.parent / "source"
    write_skill(source / "pdf", more="requires: [no-such-x]\nallowed-tools: Read\n", body="Run !`git status` first.\n")
    (source / "pdf" / "scripts").mkdir()
    (source / "pdf" / "scripts" / "run.py").write_text("raise SystemExit")
    write_skill(source / "doc")
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-q", "-m", "x")
    first = git(source, "rev-parse", "HEAD")
    url = f"file://{source}"

    several = command.run("skills", "install", url)
    assert several.code == 2
    assert "doc, pdf. Choose some with --skill, or use --all" in several.err

    request = command.run("skills", "install", url, "--skill", "pdf")  # without a user who can confirm
    assert (request.code, request.out) == (1, "")
    output = ("scripts/run.py", "git status", "limits the session", "no-such-x is not on PATH", "Not confirmed")
    assert [text for text in output if text not in request.err] == []
    assert (list_names(command), [p.name for p in (command.home / ".agent" / "skills").iterdir()]) == ({}, [])

    done = command.run("skills", "install", url, "--skill", "pdf", "--yes")
    assert done.code == 0
    assert f"pdf: installed {first[:12]}" in done.out
    shown = command.run("skills", "--json").value["skills"]
    mine = next(s for s in shown if s["name"] == "pdf")
    assert (mine["origin"], mine["commit"]) == (url, first)

    assert command.run("skills", "update", "--json").value[0]["what"] == "unchanged"
    write_skill(source / "pdf", body="Changed.\n")
    git(source, "commit", "-q", "-a", "-m", "y")
    second = git(source, "rev-parse", "HEAD")
    looked = command.run("skills", "update", "pdf")
    assert looked.code == 1
    assert "+Changed." in looked.err
    assert "Run !`git status` first." in command.run("skills", "show", "pdf").out
    assert f"pdf: updated {second[:12]}" in command.run("skills", "update", "--yes").out
    assert command.run("skills", "show", "pdf").out == "Changed.\n"

    write_skill(source / "pdf", body="Changed again.\n")
    git(source, "commit", "-q", "-a", "-m", "z")
    installed = command.home / ".agent" / "skills" / "pdf" / "SKILL.md"
    installed.write_text(installed.read_text() + "By hand.\n")
    by_hand = command.run("skills", "update", "--yes")
    assert by_hand.code == 1
    assert "changed its files" in by_hand.err
    assert "By hand." in installed.read_text()
    assert command.run("skills", "update", "--yes", "--force").code == 0
    assert command.run("skills", "show", "pdf").out == "Changed again.\n"

    installed.write_text(installed.read_text() + "By hand.\n")
    unchanged = command.run("skills", "update", "--yes")
    assert (unchanged.code, "To restore them, use --force" in unchanged.err) == (0, True)
    assert "By hand." in installed.read_text()
    assert command.run("skills", "update", "pdf", "--yes", "--force").code == 0
    assert command.run("skills", "show", "pdf").out == "Changed again.\n"


@pytest.mark.covers("SKL-38", "SKL-36", "OPT-06")
def test_skill_can_be_disabled_enabled_and_removed(command: Command) -> None:
    write_skill(command.folder / "pdf")
    assert command.run("skills", "install", "pdf", "--yes").code == 0
    assert command.run("skills", "disable", "pdf").code == 0
    assert list_names(command) == {"pdf": "off"}
    assert command.run("skills", "enable", "pdf").code == 0
    assert list_names(command) == {"pdf": "on"}
    assert command.run("skills", "remove", "pdf").code == 1
    assert list_names(command) == {"pdf": "on"}
    assert command.run("skills", "remove", "pdf", "--yes").code == 0
    assert list_names(command) == {}
    assert json.loads((command.home / ".agent" / "skills" / ".registry.json").read_text())["skills"] == {}


@pytest.mark.covers("OPT-06", "SKL-38")
def test_pinned_commit_is_not_updated(command: Command) -> None:
    source = write_skill(command.folder.parent / "source", "pdf")
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-q", "-m", "x")
    first = git(source, "rev-parse", "HEAD")
    assert command.run("skills", "install", f"file://{source}#{first}", "--yes").code == 0
    write_skill(source, "pdf", body="Newer.\n")
    git(source, "commit", "-q", "-a", "-m", "y")
    output = command.run("skills", "update", "--yes")
    assert (output.code, "pinned to a commit" in output.err) == (0, True)
    assert command.run("skills", "show", "pdf").out == "Do it.\n"
    assert command.run("skills", "update", "other").code == 2


@pytest.mark.covers("OPT-06", "SKL-37")
@pytest.mark.parametrize(
    ("source", "code", "why"),
    [
        ("ext::sh -c true", 2, "is not the URL"),
        ("http://127.0.0.1:1/x", 2, "not encrypted"),
        ("https://me:hunter2@127.0.0.1/x", 2, "may not contain a password"),
        ("https://127.0.0.1:1/x.git", 2, "is unreachable"),
        ("./nothing", 2, "Folder not found"),
        (".", 2, "No skills found in"),
    ],
)
def test_invalid_source_is_rejected(command: Command, source: str, code: int, why: str) -> None:
    done = command.run("skills", "install", source, "--yes")
    assert (done.code, done.out) == (code, "")
    assert why in done.err
    assert "hunter2" not in done.err
    assert list_names(command) == {}


@pytest.mark.covers("OPT-06")
def test_user_written_skill_is_replaced_only_with_force(command: Command) -> None:
    installed = write_skill(command.home / ".agent" / "skills" / "pdf", body="My own.\n")
    write_skill(command.folder / "pdf", body="Theirs.\n")
    rejected = command.run("skills", "install", "pdf", "--yes")
    assert rejected.code == 1
    assert "To replace it, use --force" in rejected.err
    assert "My own." in (installed / "SKILL.md").read_text()
    assert [p.name for p in installed.parent.iterdir()] == ["pdf"]
    assert command.run("skills", "install", "pdf", "--yes", "--force").code == 0
    assert command.run("skills", "install", "pdf", "--yes").code == 0  # an installed skill can be replaced
    assert command.run("skills", "show", "pdf").out == "Theirs.\n"


@pytest.mark.covers("OPT-06")
def test_offline_mode_fetches_nothing(command: Command) -> None:
    done = command.run("skills", "install", "https://127.0.0.1:1/x.git", "--offline", "--yes")
    assert done.code == 2
    assert "--offline" in done.err


@pytest.mark.covers("SKL-38")
def test_new_creates_user_and_project_skills(command: Command) -> None:
    mine = command.run("skills", "new", "notes", "--description", "Writes notes. Use it: always.", "--scripts")
    assert mine.out.strip() == str(command.home / ".agent" / "skills" / "notes" / "SKILL.md")
    assert command.run("skills", "validate", mine.out.strip()).code == 0
    theirs = command.run("skills", "new", "team", "--project")
    assert theirs.out.strip() == str(command.folder / ".agent" / "skills" / "team" / "SKILL.md")
    assert command.run("skills", "new", "notes").code == 2
    assert command.run("skills", "new", "Bad Name").code == 2


@pytest.mark.covers("SKL-38")
def test_remove_deletes_only_user_skills(command: Command) -> None:
    write_skill(command.home / ".agents" / "skills" / "shared")
    for name, output in (
        ("hello-extended", "mainspring skills disable"),
        ("shared", ".agents/skills/shared"),
        ("nothing", "Unknown skill: 'nothing'"),
    ):
        done = command.run("skills", "remove", name, "--yes")
        assert done.code == 2
        assert output in done.err
    assert BUNDLED_FOLDER.joinpath("hello-extended", "SKILL.md").is_file()
    assert list_names(command) == {"shared": "on"}


@pytest.mark.parametrize("arguments", [["show"], ["install", "a", "b"], ["remove"], ["list", "x"], ["frobnicate"]])
def test_invalid_arguments_are_usage_errors(command: Command, arguments: list[str]) -> None:
    assert command.run("skills", *arguments).code == 2


@pytest.mark.covers("SKL-36")
def test_broken_registry_is_reported_with_its_name(command: Command) -> None:
    folder = command.home / ".agent" / "skills"
    folder.mkdir(parents=True)
    (folder / ".registry.json").write_text("{")
    done = command.run("skills")
    assert done.code == 2
    assert ".registry.json" in done.err
