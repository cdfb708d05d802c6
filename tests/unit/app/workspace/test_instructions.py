"""Instruction files: which are read, in which order, with which imports and limits."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.workspace.acting import find_active_content
from mainspring.app.workspace.instructions import InstructionReader, outside_imports
from mainspring.app.workspace.paths import UserPaths
from mainspring.app.workspace.settings import InstructionSettings

pytestmark = [pytest.mark.covers("BYD-06", "OPT-01"), pytest.mark.usefixtures("no_blocking")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def make_reader(cwd: Path, home: Path | None = None, **options: Any) -> InstructionReader:
    settings = InstructionSettings(**options.pop("settings", {}))
    return InstructionReader(settings, str(cwd), UserPaths(home) if home else None, **options)


async def test_files_are_read_in_order_user_repository_folder(project: Path, home: Path) -> None:
    write(home / "AGENTS.md", "user")
    write(project.parent / "AGENTS.md", "outside of the repository")
    write(project / "AGENTS.md", "root")
    write(project / "sub" / "AGENTS.md", "sub")
    write(project / "other" / "AGENTS.md", "other")

    found = await make_reader(project / "sub", home).read_initial()

    assert [f.text for f in found.files] == ["user", "root", "sub"]
    part = found.prompt_section()
    assert part.index("user") < part.index("root") < part.index("\nsub")
    assert "they cannot allow a call" in part
    assert f'<instructions path="{project}/AGENTS.md">' in part


async def test_without_a_repository_only_the_folder_is_read(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", "above")
    write(tmp_path / "a" / "AGENTS.md", "own")

    assert [f.text for f in (await make_reader(tmp_path / "a").read_initial()).files] == ["own"]


async def test_fallback_names_are_used_and_links_are_read_once(project: Path) -> None:
    write(project / "CLAUDE.md", "claude")
    assert [f.text for f in (await make_reader(project).read_initial()).files] == ["claude"]

    write(project / "AGENTS.md", "agents")
    assert [f.text for f in (await make_reader(project).read_initial()).files] == ["agents"]

    (project / "sub").mkdir()
    (project / "sub" / "AGENTS.md").symlink_to(project / "AGENTS.md")
    assert [f.text for f in (await make_reader(project / "sub").read_initial()).files] == ["agents"]

    assert not (await make_reader(project, settings={"enabled": False}).read_initial()).files


@pytest.mark.parametrize("name", ["AGENTS.MD", "agents.md", "CLAUDE.MD", "claude.md"])
async def test_name_in_other_case_is_read_and_needs_trust_as_usual(project: Path, tmp_path: Path, name: str) -> None:
    outside = write(tmp_path / "secret.md", "outside")
    write(project / name, f"rules @{outside}")
    found = await make_reader(project).read_initial()
    assert [f.text for f in found.files] == [f"rules @{outside}"]
    acts = await asyncio.to_thread(lambda: list(find_active_content(project)))
    assert [act.file.name for act in acts] == [name]
    write(project / "AGENTS.md", "exact")
    assert [f.text for f in (await make_reader(project).read_initial()).files] == ["exact"]


async def test_truncation_is_reported(project: Path) -> None:
    write(project / "AGENTS.md", "line of the root\n" * 100)
    write(project / "sub" / "AGENTS.md", "near\n" * 20)

    found = await make_reader(project / "sub", settings={"max_bytes": 500}).read_initial()

    far, near = found.files
    assert (near.cut, far.cut) == (False, True)
    assert far.text.endswith("line of the root")
    assert len(far.text.encode()) + len(near.text.encode()) <= 500
    assert "[cut here: 1699 bytes in all; read_file shows the rest]" in found.prompt_section()
    [note] = found.notes
    assert "of 1699 bytes are used (instructions.maxBytes is 500)" in note


async def test_imports_are_attached_once_within_the_project(project: Path) -> None:
    write(project.parent / "secret.md", "not theirs")
    write(project / "a.md", "a, and @b.md")
    write(project / "b.md", "b, and back to @a.md and @AGENTS.md")
    (project / "out.md").symlink_to(project.parent / "secret.md")
    text = "See @a.md and @../secret.md and @out.md, write to me@b.md, ask @nobody.\n`@b.md`\n```\n@c.md\n```\n"
    write(project / "AGENTS.md", text)
    write(project / "c.md", "in a fence")
    write(project / "pic.md", "x\0y")

    found = await make_reader(project).read_initial()

    assert [Path(f.path).name for f in found.files] == ["AGENTS.md", "a.md", "b.md"]
    assert len([n for n in found.notes if "outside of" in n]) == 2
    trusted = await make_reader(project, trusted=True).read_initial()
    assert "not theirs" in trusted.prompt_section()


async def test_imports_are_text_files_with_limits(project: Path) -> None:
    write(project / "AGENTS.md", "@bin.md @0.md")
    write(project / "bin.md", "x\0y")
    for i in range(12):
        write(project / f"{i}.md", f"number {i} @{i + 1}.md")

    found = await make_reader(project).read_initial()

    assert not any("number 6" in f.text for f in found.files)
    assert any("not a text file" in n for n in found.notes)
    assert any("levels deep" in n for n in found.notes)

    write(project / "AGENTS.md", " ".join(f"@many{i}.md" for i in range(40)))
    for i in range(40):
        write(project / f"many{i}.md", f"x{i}")
    found = await make_reader(project).read_initial()
    assert any("Only 20 imported files" in n for n in found.notes)


async def test_instructions_in_another_encoding_are_decoded(project: Path) -> None:
    (project / "AGENTS.md").write_bytes("Grüße @latin.md\r\n".encode("utf-16"))
    (project / "latin.md").write_bytes("für alle".encode("latin-1"))

    section = (await make_reader(project).read_initial()).prompt_section()

    assert "Grüße" in section
    assert "für alle" in section


async def test_permission_rules_can_exclude_an_import(project: Path) -> None:
    write(project / "AGENTS.md", "@keys.md")
    write(project / "keys.md", "k")

    async def allowed(path: str) -> bool:
        return "keys" not in path

    found = await make_reader(project, allowed=allowed).read_initial()

    assert [f.text for f in found.files] == ["@keys.md"]
    assert found.notes == (f"Skipped {project}/keys.md: reading it is not allowed by the permission rules.",)


async def test_imports_beside_the_real_file_of_a_link_are_found(project: Path) -> None:
    write(project / "docs" / "agents" / "AGENTS.md", "@style.md and @both.md and ask @nobody")
    write(project / "docs" / "agents" / "style.md", "style, and @../more.md")
    write(project / "docs" / "agents" / "both.md", "beside the real file")
    write(project / "docs" / "more.md", "more")
    write(project / "both.md", "beside the link")
    (project / "AGENTS.md").symlink_to("docs/agents/AGENTS.md")

    found = await make_reader(project).read_initial()

    assert [f.text for f in found.files][1:] == ["style, and @../more.md", "beside the link", "more"]
    assert found.notes == ()


async def test_imports_beside_a_real_file_outside_the_project_need_trust(project: Path) -> None:
    shared = project.parent / "shared"
    write(shared / "AGENTS.md", "@style.md")
    write(shared / "style.md", "not theirs")
    write(project / "docs" / "AGENTS.md", "@style.md")
    (project / "docs" / "style.md").symlink_to(shared / "style.md")
    (project / "AGENTS.md").symlink_to("docs/AGENTS.md")

    found = await make_reader(project).read_initial()
    assert "not theirs" not in found.prompt_section()
    assert [n for n in found.notes if "outside of" in n]
    assert "not theirs" in (await make_reader(project, trusted=True).read_initial()).prompt_section()
    assert await asyncio.to_thread(outside_imports, project / "AGENTS.md", project) == [
        str(project / "docs" / "style.md")
    ]

    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to(shared / "AGENTS.md")
    assert str(shared / "style.md") in await asyncio.to_thread(outside_imports, project / "AGENTS.md", project)
    assert not (await make_reader(project).read_initial()).files
    assert "not theirs" in (await make_reader(project, trusted=True).read_initial()).prompt_section()
