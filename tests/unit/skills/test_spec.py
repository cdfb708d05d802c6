"""Parsing of install sources."""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from mainspring.skills.fetch import InstallSpec, parse_spec
from mainspring.skills.skill import SkillError

COMMIT = "0123456789" * 4


@pytest.mark.covers("OPT-06")
@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("https://example.org/a/b.git", InstallSpec(url="https://example.org/a/b.git", git=True)),
        ("https://example.org/a/b/#v1.2", InstallSpec(url="https://example.org/a/b", git=True, ref="v1.2")),
        ("https://me@example.org:8443/b", InstallSpec(url="https://me@example.org:8443/b", git=True)),
        ("ssh://git@example.org:22/a/b", InstallSpec(url="ssh://git@example.org:22/a/b", git=True)),
        ("git@github.com:a/b.git#main", InstallSpec(url="git@github.com:a/b.git", git=True, ref="main")),
        ("file:///srv/my%20repo", InstallSpec(url="file:///srv/my repo", git=True)),
        ("anthropics/skills", InstallSpec(url="https://github.com/anthropics/skills", git=True)),
        ("a/b/skills/pdf#x/y", InstallSpec(url="https://github.com/a/b", git=True, ref="x/y", path="skills/pdf")),
        (
            "https://github.com/a/b/tree/main/skills/pdf",
            InstallSpec(url="https://github.com/a/b", git=True, ref="main", path="skills/pdf"),
        ),
        (
            "https://github.com/a/b/blob/main/skills/pdf/SKILL.md",
            InstallSpec(url="https://github.com/a/b", git=True, ref="main", path="skills/pdf"),
        ),
        (
            "https://gitlab.com/a/b/-/tree/v2/pdf/",
            InstallSpec(url="https://gitlab.com/a/b", git=True, ref="v2", path="pdf"),
        ),
    ],
)  # fmt: skip
def test_addresses_are_parsed(text: str, spec: InstallSpec, tmp_path: Path) -> None:
    assert parse_spec(text, cwd=str(tmp_path)) == spec


@pytest.mark.covers("OPT-06")
def test_folders_and_files_are_parsed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "SKILL.md").write_text("")
    (tmp_path / "one.skill.md").write_text("")
    for text in ("a/b", "./a/b/", str(tmp_path / "a" / "b"), "a/b/SKILL.md"):
        assert parse_spec(text, cwd=str(tmp_path)) == InstallSpec(url=str(tmp_path / "a" / "b"), git=False)
    assert parse_spec("one.skill.md", cwd=str(tmp_path)) == InstallSpec(
        url=str(tmp_path), git=False, path="one.skill.md"
    )
    assert parse_spec("a#v1", cwd=str(tmp_path)) == InstallSpec(url=f"file://{tmp_path}/a", git=True, ref="v1")
    assert parse_spec("a", cwd=str(tmp_path), path="b") == InstallSpec(url=str(tmp_path / "a"), git=False, path="b")


@pytest.mark.covers("OPT-06", "SKL-37")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Invalid source"),
        ("--upload-pack=touch x", "Invalid source"),
        ("-x/y", "Invalid source"),
        ("./gone", "Folder not found"),
        ("word", "Invalid URL|is not the URL"),
        ("http://example.org/a", "is not encrypted"),
        ("git://example.org/a", "is not encrypted"),
        ("ext::sh -c touch% x", "Invalid URL|is not the URL"),
        ("ext::touch", "Invalid URL|is not the URL"),
        ("ext://sh", "cannot reach"),
        ("fd://17/a", "cannot reach"),
        ("file://other/host", "three slashes"),
        ("https:///a", "has no host"),
        ("ssh://-oProxyCommand=x/a", "has no host"),
        ("https://me:secret@example.org/a", "may not contain a password"),
        ("https://[::1/a", "Invalid URL|is not the URL"),
        ("https://example.org/a#--exec=x", "Invalid branch"),
        ("https://example.org/a#a..b", "Invalid branch"),
        ("https://example.org/a#a b", "Invalid branch"),
    ],
)
def test_invalid_source_is_rejected(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=why) as caught:
        parse_spec(text, cwd=str(tmp_path))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("path", ["../x", "a/../../b", "-x"])
def test_folder_outside_the_repository_is_rejected(path: str, tmp_path: Path) -> None:
    with pytest.raises(SkillError, match="Invalid folder in a repository"):
        parse_spec("https://example.org/a", cwd=str(tmp_path), path=path)


def test_is_pinned_and_is_remote() -> None:
    assert InstallSpec(url="https://x", git=True, ref=COMMIT).is_pinned
    assert not InstallSpec(url="https://x", git=True, ref="main").is_pinned
    assert InstallSpec(url="https://x", git=True).is_remote
    assert not InstallSpec(url="file:///x", git=True).is_remote
    assert not InstallSpec(url="/x", git=False).is_remote


@given(st.text(max_size=60), st.text(max_size=10), st.text(max_size=10))
def test_parsed_spec_never_passes_options_to_git(text: str, ref: str, path: str) -> None:
    try:
        spec = parse_spec(text, cwd="/nowhere", ref=ref, path=path)
    except SkillError:
        return
    assert not spec.ref.startswith("-")
    assert not spec.path.startswith("-")
    by_ssh = re.fullmatch(r"([\w.][\w.-]*@)?[\w.][\w.-]*:[^:\s]\S*", spec.url)
    assert not spec.git or by_ssh or spec.url.startswith(("https://", "ssh://", "file://"))
