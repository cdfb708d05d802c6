import stat
from pathlib import Path

import pytest

from mainspring.errors import ConfigError
from mainspring.runtime.build import load
from mainspring.runtime.commands.memory import add_memory, show_memory
from mainspring.runtime.commands.trust import distrust, trust, trusted_folders
from mainspring.runtime.home import Home
from mainspring.runtime.options import Place
from mainspring.runtime.trust import TrustStore


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"MAINSPRING_HOME": str(tmp_path / "home")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "sub").mkdir(parents=True)
    return tmp_path / "project"


def test_a_folder_is_trusted_with_everything_below_it_however_it_is_spelled(project: Path, tmp_path: Path) -> None:
    store = TrustStore(Home(tmp_path / "home"))
    (tmp_path / "link").symlink_to(project)
    (tmp_path / "projection").mkdir()

    assert not store.covers(project)
    store.add(tmp_path / "link")

    assert store.covers(project / "sub" / ".." / "sub")
    assert not store.covers(tmp_path)
    assert not store.covers(tmp_path / "projection")
    assert stat.S_IMODE((tmp_path / "home" / "trust.json").stat().st_mode) == 0o600


def test_what_a_link_inside_points_to_is_not_trusted_with_it(project: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (project / "way-out").symlink_to(tmp_path / "other")
    store = TrustStore(Home(tmp_path / "home"))
    store.add(project)

    assert not store.covers(project / "way-out")


@pytest.mark.parametrize("folder", ["/", "~", "~/..", "missing"])
def test_what_is_no_project_cannot_be_trusted(
    folder: str, tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(ConfigError):
        trust(folder, Place(cwd=str(tmp_path)), environ)

    assert trusted_folders(environ) == ()


def test_trust_is_given_and_taken_away(project: Path, environ: dict[str, str]) -> None:
    place = Place(cwd=str(project))

    assert trust(None, place, environ) == project
    assert trust("sub", place, environ) == project / "sub"
    assert [t.folder for t in trusted_folders(environ)] == [str(project), str(project / "sub")]
    assert distrust(None, place, environ) == (project, True)
    assert distrust(None, place, environ) == (project, False)


def test_a_broken_file_trusts_nothing_and_is_told(project: Path, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "trust.json").write_text('{"folders": "all"}', encoding="utf-8")

    with pytest.raises(ConfigError, match=r"trust\.json"):
        trust(None, Place(cwd=str(project)), environ)
    assert (tmp_path / "home" / "trust.json").read_text(encoding="utf-8") == '{"folders": "all"}'


@pytest.mark.covers("CFG-01")
def test_a_project_s_settings_loosen_only_once_it_is_trusted(project: Path, environ: dict[str, str]) -> None:
    (project / ".agent").mkdir()
    (project / ".agent" / "settings.json").write_text(
        '{"permissions": {"allow": ["shell"]}, "model": "openai:other"}', encoding="utf-8"
    )
    place = Place(cwd=str(project))

    _, before = load(place, {}, environ)
    trust(None, place, environ)
    _, after = load(place, {}, environ)

    assert before.config.model is None
    assert not any(source.trusted for source in before.rules if source.kind == "project")
    assert after.config.model == "openai:other"
    assert [source.rules.allow for source in after.rules if source.kind == "project"] == [("shell",)]


@pytest.mark.covers("MEM-01", "MEM-05")
async def test_memory_is_shown_and_added_to_by_hand(project: Path, environ: dict[str, str]) -> None:
    place = Place(cwd=str(project))

    await add_memory("Uses tabs", place, section="Preferences", where="user", environ=environ)
    said = await add_memory("The API is in src", place, environ=environ)

    user, own = show_memory(place, environ)
    assert said == f"Remembered in {project}/.agent/MEMORY.md, under Context."
    assert (user.where, user.read, "- Uses tabs" in user.text) == ("user", True, True)
    assert (own.where, own.read, "- The API is in src" in own.text) == ("project", False, True)
    with pytest.raises(ConfigError, match="empty"):
        await add_memory(" ", place, environ=environ)
