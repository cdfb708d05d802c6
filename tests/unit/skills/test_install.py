"""Installing skills: a preview first, no code of the skill runs, and a failure keeps the old skill."""

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from mainspring.errors import ConfigError
from mainspring.skills.discovery import discover_skills
from mainspring.skills.fetch import InstallSpec, parse_spec
from mainspring.skills.install import (
    Candidate,
    diff_folders,
    discard_staged,
    hash_folder,
    install_skill,
    open_source,
    recover_interrupted,
)
from mainspring.skills.skill import SkillError, SkillsConfig
from mainspring.skills.state import SkillStateFile
from tests.helpers.git import git
from tests.requires import on_posix

HEAD = "---\nname: {}\ndescription: Does it.\n{}---\nBody.\n"


def skill(folder: Path, name: str = "", more: str = "", body: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(HEAD.format(name or folder.name, more) + body, encoding="utf-8")
    return folder


def commit(folder: Path) -> str:
    """Commit everything in a folder; return the commit ID."""
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


async def stage_skill(spec: InstallSpec, home: Path, name: str = "") -> Candidate:
    async with open_source(spec) as source:
        offer = await source.list_skills()
        return await source.stage(offer.names[name or next(iter(offer.names))], home)


def list_names(home: Path) -> set[str]:
    return {p.name for p in home.iterdir()} if home.exists() else set()


@pytest.mark.covers("OPT-06", "SKL-36")
@pytest.mark.parametrize("as_git", [False, True])
async def test_skill_is_installed_completely_with_its_origin(tmp_path: Path, as_git: bool) -> None:
    source, home = tmp_path / "source", tmp_path / "home"
    skill(
        source / "skills" / "pdf",
        more="allowed-tools: Read\ntoolsets: [tools.py:T]\nrequires: [no-such-x]\n",
        body="!`ls`\n",
    )
    (source / "skills" / "pdf" / "scripts").mkdir()
    (source / "skills" / "pdf" / "scripts" / "run.sh").write_text("#!/bin/sh\n")
    (source / "skills" / "pdf" / "scripts" / "run.sh").chmod(0o755)
    (source / "skills" / "pdf" / "data.bin").write_bytes(bytes(range(256)))
    (source / "other.txt").write_text("not of the skill")
    commit_id = commit(source)
    spec = parse_spec(f"file://{source}#main" if as_git else str(source), cwd=str(tmp_path))

    candidate = await stage_skill(spec, home)
    preview = candidate.preview

    assert (preview.name, preview.files) == ("pdf", ("SKILL.md", "data.bin", "scripts/run.sh"))
    assert [s.path for s in preview.scripts] == ["scripts/run.sh"]
    assert (preview.toolsets, preview.shell_lines, preview.allowed_tools) == (("tools.py:T",), ("ls",), ("Read",))
    assert [each.name for each in preview.lacking] == ["no-such-x"]
    assert not preview.replaces
    assert (
        discover_skills(SkillsConfig(user=(str(home),), builtin=False)).skills == ()
    )  # a staged skill is not found yet

    registry = SkillStateFile(home)
    target = install_skill(candidate, home, registry)

    assert target == home / "pdf"
    assert (target / "data.bin").read_bytes() == bytes(range(256))
    assert os.name != "posix" or stat.S_IMODE((target / "scripts" / "run.sh").stat().st_mode) & 0o111
    origin = registry.entries()["pdf"].origin
    assert origin is not None
    assert (origin.path, origin.ref, origin.commit) == (
        "skills/pdf",
        "main" if as_git else "",
        commit_id if as_git else "",
    )
    assert origin.digest == hash_folder(target)
    assert list_names(home) == {"pdf", ".registry.json"}
    assert [s.name for s in discover_skills(SkillsConfig(user=(str(home),), builtin=False))] == ["pdf"]


@pytest.mark.covers("OPT-06")
async def test_branches_tags_and_commits_are_installed(tmp_path: Path) -> None:
    source, home = tmp_path / "source", tmp_path / "home"
    skill(source, "pdf", body="one")
    first = commit(source)
    git(source, "tag", "v1")
    git(source, "checkout", "-q", "-b", "next")
    skill(source, "pdf", body="two")
    second = commit(source)
    git(source, "checkout", "-q", "main")
    for ref, requested in {
        "": first,
        "v1": first,
        "next": second,
        first: first,
        second: second,
        second[:9]: second,
    }.items():
        candidate = await stage_skill(InstallSpec(url=f"file://{source}", git=True, ref=ref), home)
        assert candidate.origin.commit == requested, ref
        assert ("two" in (candidate.staged / "SKILL.md").read_text()) == (requested == second)
        discard_staged([candidate])
    for ref in ("gone", "f" * 40, "abcdef0"):
        with pytest.raises(SkillError, match=ref):
            await stage_skill(InstallSpec(url=f"file://{source}", git=True, ref=ref), home)
    with pytest.raises(SkillError, match="the repository does not exist"):
        await stage_skill(InstallSpec(url=f"file://{tmp_path}/nowhere", git=True), home)
    assert list_names(home) == set()


@pytest.mark.covers("OPT-06")
async def test_list_skills_of_a_repository(tmp_path: Path) -> None:
    source = tmp_path / "source"
    skill(source / ".claude" / "skills" / "a")
    skill(source / ".claude" / "skills" / "a" / "examples" / "inner")
    skill(source / "z" / "a")
    skill(source / "node_modules" / "b")
    (source / "broken").mkdir()
    (source / "broken" / "SKILL.md").write_text("no front matter")
    (source / "one.skill.md").write_text(HEAD.format("one", ""))
    commit(source)
    for spec in (InstallSpec(url=str(source), git=False), InstallSpec(url=f"file://{source}", git=True)):
        async with open_source(spec) as opening:
            offer = await opening.list_skills()
            assert offer.names == {"one": "one.skill.md", "a": "z/a"}
            assert set(offer.problems) == {"broken", ".claude/skills/a"}
            single = await opening.stage("one.skill.md", tmp_path / "home")
        assert single.preview.files == ("SKILL.md",)
        discard_staged([single])
    async with open_source(InstallSpec(url=f"file://{source}", git=True, path=".claude")) as opening:
        assert (await opening.list_skills()).names == {"a": ".claude/skills/a"}
    async with open_source(InstallSpec(url=f"file://{source}", git=True, path="nowhere")) as opening:
        with pytest.raises(SkillError, match="Folder not found in .*: nowhere"):
            await opening.list_skills()


@pytest.mark.covers("OPT-06", "SKL-37")
@on_posix
async def test_repository_cannot_run_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, home, proof = tmp_path / "source", tmp_path / "home", tmp_path / "proof"
    run = tmp_path / "run"
    run.write_text(f"#!/bin/sh\ntouch {proof}\ncat\n")
    run.chmod(0o755)
    skill(source, "pdf")
    (source / "setup.py").write_text(f"open({str(proof)!r}, 'w')")
    (source / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (source / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch {proof}"\n')
    commit(source)
    for hook in ("post-checkout", "post-merge", "pre-auto-gc", "reference-transaction", "post-upload-pack"):
        (source / ".git" / "hooks").mkdir(exist_ok=True)
        (source / ".git" / "hooks" / hook).write_text(run.read_text())
        (source / ".git" / "hooks" / hook).chmod(0o755)
    git(source, "config", "filter.evil.smudge", str(run))
    git(source, "config", "core.fsmonitor", str(run))
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):  # as in a Git hook of another repository
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(run))
    install_skill(await stage_skill(InstallSpec(url=f"file://{source}", git=True), home), home, SkillStateFile(home))
    install_skill(await stage_skill(InstallSpec(url=str(source), git=False), home), home, SkillStateFile(home))
    assert not (tmp_path / "elsewhere").exists()
    assert not proof.exists()
    assert not (home / "pdf" / ".git").exists()


@pytest.mark.covers("OPT-06", "SKL-37", "SEC-14")
@on_posix
@pytest.mark.parametrize("as_git", [False, True])
@pytest.mark.parametrize(
    ("link", "why"),
    [("/etc/passwd", "leads out"), ("../../secret", "leads out"), ("gone", "leads nowhere"), (".", "leads out")],
)
async def test_links_out_of_the_folder_are_rejected(tmp_path: Path, link: str, why: str, as_git: bool) -> None:
    source, home = tmp_path / "source", tmp_path / "home"
    skill(source / "pdf")
    home.mkdir()
    (tmp_path / "secret").write_text("s")
    (home / "secret").write_text("s")
    (source / "pdf" / "x").symlink_to(link)
    commit(source)
    spec = InstallSpec(url=f"file://{source}", git=True) if as_git else InstallSpec(url=str(source), git=False)
    with pytest.raises(SkillError, match=why):
        await stage_skill(spec, home)
    assert list_names(home) == {"secret"}


@pytest.mark.covers("SKL-37")
@on_posix
async def test_inner_links_stay_links_and_linked_skill_files_are_rejected(tmp_path: Path) -> None:
    source, home = tmp_path / "source", tmp_path / "home"
    skill(source / "pdf")
    (source / "pdf" / "a.md").write_text("text")
    (source / "pdf" / "b.md").symlink_to("a.md")
    candidate = await stage_skill(InstallSpec(url=str(source), git=False), home)
    assert (candidate.staged / "b.md").is_symlink()
    assert (candidate.staged / "b.md").read_text() == "text"
    discard_staged([candidate])

    linked = tmp_path / "linked"
    skill(linked / "pdf")
    (linked / "pdf" / "SKILL.md").rename(linked / "text.md")
    (linked / "pdf" / "SKILL.md").symlink_to("../text.md")
    async with open_source(InstallSpec(url=str(linked), git=False)) as source_:
        assert "is a link" in (await source_.list_skills()).problems["pdf"]


@pytest.mark.covers("OPT-06", "SKL-37")
@on_posix
@pytest.mark.parametrize("kind", ["many", "large", "deep", "fifo", "case", "hidden"])
async def test_oversized_or_unusual_files_are_rejected(tmp_path: Path, kind: str) -> None:
    source, home = tmp_path / "source", tmp_path / "home"
    pdf = skill(source / "pdf")
    match kind:
        case "many":
            for number in range(2_001):
                (pdf / f"f{number}").touch()
        case "large":
            with open(pdf / "big", "wb") as file:
                file.truncate((50 << 20) + 1)
        case "deep":
            deep = pdf.joinpath(*["d"] * 17)
            deep.mkdir(parents=True)
            (deep / "x").touch()
        case "fifo":
            os.mkfifo(pdf / "pipe")
        case "case":
            (pdf / "A.md").touch()
            (pdf / "a.md").touch()
        case _:
            (pdf / "a\u202eb.md").touch()
    with pytest.raises(SkillError) as caught:
        await stage_skill(InstallSpec(url=str(source), git=False), home)
    reasons = {
        "many": "the maximum is 2000",
        "large": "the maximum is 50",
        "deep": "nested more than",
        "fifo": "neither a file nor a folder",
        "case": "ignores case",
        "hidden": "invalid name",
    }
    assert reasons[kind] in str(caught.value)
    assert list_names(home) == set()


@pytest.mark.covers("OPT-06")
async def test_update_replaces_the_skill_and_lists_changes(tmp_path: Path) -> None:
    source, home, registry = tmp_path / "source", tmp_path / "home", SkillStateFile(tmp_path / "home")
    skill(source / "pdf", body="one\n")
    (source / "pdf" / "gone.md").write_text("x")
    spec = InstallSpec(url=str(source), git=False)
    install_skill(await stage_skill(spec, home), home, registry)
    first = registry.entries()["pdf"].origin
    assert first is not None
    first = replace(first, installed=datetime(2020, 1, 1, tzinfo=UTC))
    registry.record("pdf", first)
    registry.set_enabled("pdf", False)

    skill(source / "pdf", body="two\n")
    (source / "pdf" / "gone.md").unlink()
    (source / "pdf" / "new.md").write_text("x")
    candidate = await stage_skill(spec, home)
    changes = diff_folders(home / "pdf", candidate.staged)

    assert candidate.preview.replaces
    assert (changes.added, changes.removed, changes.changed) == (("new.md",), ("gone.md",), ("SKILL.md",))
    assert "-one" in changes.instructions
    assert "+two" in changes.instructions
    install_skill(candidate, home, registry)
    assert "two" in (home / "pdf" / "SKILL.md").read_text()
    assert not (home / "pdf" / "gone.md").exists()
    entry = registry.entries()["pdf"]
    assert entry.enabled is False
    assert entry.origin is not None
    assert (entry.origin.installed, entry.origin.digest != first.digest) == (first.installed, True)
    assert list_names(home) == {"pdf", ".registry.json"}
    assert not diff_folders(home / "pdf", source / "pdf")


@pytest.mark.covers("OPT-06")
async def test_failed_update_leaves_the_old_skill(tmp_path: Path) -> None:
    source, home, registry = tmp_path / "source", tmp_path / "home", SkillStateFile(tmp_path / "home")
    skill(source / "pdf", body="one\n")
    spec = InstallSpec(url=str(source), git=False)
    install_skill(await stage_skill(spec, home), home, registry)

    skill(source / "pdf", body="two\n")
    candidate = await stage_skill(spec, home)
    (home / ".registry.json").write_text("{")  # the registry cannot be updated
    with pytest.raises(ConfigError):
        install_skill(candidate, home, registry)
    assert "one" in (home / "pdf" / "SKILL.md").read_text()
    discard_staged([candidate])
    (home / ".registry.json").unlink()

    candidate = await stage_skill(spec, home)
    candidate.staged.rename(candidate.staged.with_name("moved"))  # the staged files disappear
    with pytest.raises(SkillError, match="Cannot install to"):
        install_skill(candidate, home, registry)
    assert "one" in (home / "pdf" / "SKILL.md").read_text()
    discard_staged([candidate])
    assert list_names(home) == {"pdf"}


@pytest.mark.covers("OPT-06")
def test_interrupted_installation_is_rolled_back(tmp_path: Path) -> None:
    skill(tmp_path / ".replaced-pdf-x" / "pdf", body="old")
    skill(tmp_path / ".replaced-doc-x" / "doc", body="old")
    skill(tmp_path / "doc", body="new")
    stale, fresh = tmp_path / ".staging-a", tmp_path / ".staging-b"
    stale.mkdir()
    fresh.mkdir()
    os.utime(stale, (1, 1))
    recover_interrupted(tmp_path)
    assert list_names(tmp_path) == {"pdf", "doc", ".staging-b"}
    assert "new" in (tmp_path / "doc" / "SKILL.md").read_text()
    recover_interrupted(tmp_path / "nowhere")


@pytest.mark.covers("SKL-37")
async def test_hidden_characters_are_reported_before_installation(tmp_path: Path) -> None:
    skill(tmp_path / "pdf", body="Do\U000e0041\U000e0042 it.")
    candidate = await stage_skill(InstallSpec(url=str(tmp_path), git=False), tmp_path / "home")
    assert any("2 hidden characters" in text for text in candidate.preview.warnings)
    discard_staged([candidate])
