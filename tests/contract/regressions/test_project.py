"""Links in a repository never decide where mainspring writes files of the project."""

from pathlib import Path

import pytest

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.manage_settings import change_config
from mainspring.app.workspace.mcp_servers import add_server
from mainspring.app.workspace.skill_manager import new_skill
from mainspring.errors import MainspringError
from mainspring.memory.plug import find_memory_files


def set_config(folder: Path) -> None:
    change_config("model", "openai:x", place=WorkspaceOptions(cwd=str(folder)), project=True)


def add_mcp_server(folder: Path) -> None:
    add_server("zz", {"command": "true"}, WorkspaceOptions(cwd=str(folder)), project=True)


def create_skill(folder: Path) -> None:
    new_skill("abc", WorkspaceOptions(cwd=str(folder)), project=True)


def update_memory(folder: Path) -> None:
    found = find_memory_files(folder, None).project
    assert found is not None
    found.update(lambda text: text + "- a note\n")


WRITERS = {"settings.json": set_config, "mcp.json": add_mcp_server, "skills": create_skill, "MEMORY.md": update_memory}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("what", ["the folder", "the entry"])
def test_p24_project_link_cannot_redirect_writes(tmp_path: Path, home: Path, name: str, what: str) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / "sub").mkdir(parents=True)
    outside.mkdir()
    if what == "the folder":
        (project / ".agent").symlink_to(outside)
    else:
        (project / ".agent").mkdir()
        (project / ".agent" / name).symlink_to(outside / "there")

    with pytest.raises(MainspringError, match="leads out of it, to"):
        WRITERS[name](project)

    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "skills"])
def test_cf09_links_within_the_repository_are_followed(tmp_path: Path, home: Path, name: str) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "shared").mkdir()
    (project / "part").mkdir()
    (project / "part" / ".agent").symlink_to("../shared")

    WRITERS[name](project / "part")

    assert (project / "shared" / name).exists()
    assert (project / "part" / ".agent").is_symlink()
