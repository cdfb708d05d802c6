"""Rules that are saved for one project."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.app.workspace.folder_identity import read_birth_time
from mainspring.app.workspace.grants import GrantStore
from mainspring.app.workspace.paths import UserPaths
from mainspring.errors import ConfigError
from tests.requires import on_linux

pytestmark = pytest.mark.covers("BYD-18")


@pytest.fixture
def store(home: Path) -> GrantStore:
    return GrantStore(UserPaths(home / ".agent"))


def texts(store: GrantStore, folder: Path) -> list[str]:
    return [f"{rule.effect} {rule.text}" for rule in store.rules(folder)]


def test_a_rule_is_for_the_folder_alone(store: GrantStore, tmp_path: Path) -> None:
    one, below, other = tmp_path / "one", tmp_path / "one" / "below", tmp_path / "other"
    for folder in (one, below, other):
        folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(one)
    file = store.add(link, "allow", ("shell(./deploy.sh)", "shell(./deploy.sh)", "shell(make)"))
    store.add(one, "allow", ("shell(make)",))

    assert texts(store, one) == texts(store, link) == ["allow shell(./deploy.sh)", "allow shell(make)"]
    assert texts(store, below) == texts(store, other) == texts(store, tmp_path) == []
    assert [str(rule.origin) for rule in store.rules(one)] == [f"{file}: {one}"] * 2
    assert file.stat().st_mode & 0o777 == 0o600


def test_another_folder_at_the_same_path_inherits_what_was_denied_only(store: GrantStore, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    store.add(folder, "allow", ("shell(./deploy.sh)",))
    store.add(folder, "deny", ("shell(rm *)",))
    folder.rename(tmp_path / "moved")
    folder.mkdir()

    assert texts(store, folder) == ["deny shell(rm *)"]
    assert texts(store, tmp_path / "moved") == []
    store.add(folder, "allow", ("shell(make)",))
    assert texts(store, folder) == ["deny shell(rm *)", "allow shell(make)"]


@on_linux
def test_a_folder_made_again_inherits_nothing_even_with_the_same_number(
    store: GrantStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.app.workspace.grants.read_inode", lambda path: 7)
    folder = tmp_path / "project"
    folder.mkdir()
    made = read_birth_time(str(folder))
    store.add(folder, "allow", ("shell(./deploy.sh)",))
    assert texts(store, folder) == ["allow shell(./deploy.sh)"]

    while read_birth_time(str(folder)) == made:  # the clock of a file system ticks slowly
        folder.rmdir()
        folder.mkdir()

    assert texts(store, folder) == []


def test_a_removed_rule_is_gone_and_the_others_stay(store: GrantStore, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    store.add(tmp_path, "allow", ("shell(make)", "shell(ls)"))
    store.add(other, "allow", ("shell(make)",))
    store.remove(tmp_path, "deny", "shell(make)")
    assert texts(store, tmp_path) == ["allow shell(make)", "allow shell(ls)"]
    store.remove(tmp_path, "allow", "shell(make)")
    store.remove(tmp_path, "allow", "shell(ls)")
    assert [project.folder for project in store.list()] == [str(other)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"projects": {}}',
        b'{"projects": [{"folder": "/x"}]}',
        b'{"folders": []}',
        b'{"projects": [{"folder": "FOLDER", "inode": 1, "grants": [{"effect": "ask", "rule": "shell", "since": "2026-01-01T00:00:00Z"}]}]}',
        b'{"projects": [{"folder": "FOLDER", "inode": 1, "grants": [{"effect": "allow", "rule": "((", "since": "2026-01-01T00:00:00Z"}]}]}',
    ],
)
def test_a_broken_file_is_an_error_and_stays(store: GrantStore, tmp_path: Path, content: bytes) -> None:
    assert store.file is not None
    store.file.parent.mkdir(parents=True)
    content = content.replace(b"FOLDER", os.fsencode(tmp_path))
    store.file.write_bytes(content)
    for act in (
        lambda: store.rules(tmp_path),
        lambda: store.add(tmp_path, "allow", ("shell(make)",)),
        lambda: store.remove(tmp_path, "allow", "shell(make)"),
    ):
        with pytest.raises(ConfigError, match=r"Fix the file, or delete it to revoke all grants\."):
            act()
    assert store.file.read_bytes() == content


def test_without_a_home_nothing_is_saved(tmp_path: Path) -> None:
    assert len(GrantStore(None).rules(tmp_path)) == 0
    with pytest.raises(ConfigError, match="Set MAINSPRING_HOME"):
        GrantStore(None).add(tmp_path, "allow", ("shell(make)",))


@on_linux
def test_a_folder_whose_name_is_not_utf_8_has_no_rules(store: GrantStore, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"p\xff")
    folder.mkdir()
    assert texts(store, folder) == []
    with pytest.raises(ConfigError, match="is not valid UTF-8"):
        store.add(folder, "allow", ("shell(make)",))


ADD = """
import sys
from pathlib import Path
from mainspring.app.workspace.grants import GrantStore
from mainspring.app.workspace.paths import UserPaths as Home
home, folder, name = sys.argv[1:]
for i in range(15):
    GrantStore(Home(Path(home))).add(folder, "allow", (f"shell({name} {i})",))
"""


def test_processes_that_save_at_the_same_time_lose_nothing(store: GrantStore, tmp_path: Path) -> None:
    assert store.file is not None
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    adding = [
        subprocess.Popen([sys.executable, "-c", ADD, str(store.file.parent), str(folder), name])
        for folder in folders
        for name in ("a", "b")
    ]
    assert [process.wait(60) for process in adding] == [0] * 4
    for folder in folders:
        assert sorted(texts(store, folder)) == sorted(f"allow shell({name} {i})" for name in "ab" for i in range(15))
    assert len(json.loads(store.file.read_text())["projects"]) == 2
