"""Rules that are saved for one project."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.app.workspace.paths import UserPaths
from mainspring.app.workspace.saved_rules import GrantStore, read_birth_time
from mainspring.errors import ConfigError
from tests.requires import on_linux

pytestmark = pytest.mark.covers("BYD-18")


@pytest.fixture
def store(home: Path) -> GrantStore:
    return GrantStore(UserPaths(home / ".agent"))


def read_rules(store: GrantStore, folder: Path) -> list[str]:
    return [f"{rule.effect} {rule.text}" for rule in store.rules(folder)]


def test_rules_apply_to_one_folder_only(store: GrantStore, tmp_path: Path) -> None:
    one, below, other = tmp_path / "one", tmp_path / "one" / "below", tmp_path / "other"
    for folder in (one, below, other):
        folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(one)
    file = store.add(link, "allow", ("shell(./deploy.sh)", "shell(./deploy.sh)", "shell(make)"))
    store.add(one, "allow", ("shell(make)",))

    assert read_rules(store, one) == read_rules(store, link) == ["allow shell(./deploy.sh)", "allow shell(make)"]
    assert read_rules(store, below) == read_rules(store, other) == read_rules(store, tmp_path) == []
    assert [str(rule.origin) for rule in store.rules(one)] == [f"{file}: {one}"] * 2
    assert file.stat().st_mode & 0o777 == 0o600


def test_new_folder_at_the_same_path_inherits_only_deny_rules(store: GrantStore, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    store.add(folder, "allow", ("shell(./deploy.sh)",))
    store.add(folder, "deny", ("shell(rm *)",))
    folder.rename(tmp_path / "moved")
    folder.mkdir()

    assert read_rules(store, folder) == ["deny shell(rm *)"]
    assert read_rules(store, tmp_path / "moved") == []
    store.add(folder, "allow", ("shell(make)",))
    assert read_rules(store, folder) == ["deny shell(rm *)", "allow shell(make)"]


@on_linux
def test_recreated_folder_inherits_nothing_even_with_the_same_inode(
    store: GrantStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.app.workspace.saved_rules.read_inode", lambda path: 7)
    folder = tmp_path / "project"
    folder.mkdir()
    birth_time = read_birth_time(str(folder))
    store.add(folder, "allow", ("shell(./deploy.sh)",))
    assert read_rules(store, folder) == ["allow shell(./deploy.sh)"]

    while read_birth_time(str(folder)) == birth_time:  # file system timestamps have a coarse resolution
        folder.rmdir()
        folder.mkdir()

    assert read_rules(store, folder) == []


def test_removed_rule_is_deleted_and_others_are_kept(store: GrantStore, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    store.add(tmp_path, "allow", ("shell(make)", "shell(ls)"))
    store.add(other, "allow", ("shell(make)",))
    store.remove(tmp_path, "deny", "shell(make)")
    assert read_rules(store, tmp_path) == ["allow shell(make)", "allow shell(ls)"]
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
def test_broken_file_is_an_error_and_is_kept(store: GrantStore, tmp_path: Path, content: bytes) -> None:
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


def test_rules_cannot_be_saved_without_a_home(tmp_path: Path) -> None:
    assert len(GrantStore(None).rules(tmp_path)) == 0
    with pytest.raises(ConfigError, match="Set MAINSPRING_HOME"):
        GrantStore(None).add(tmp_path, "allow", ("shell(make)",))


@on_linux
def test_folder_without_a_utf8_name_has_no_rules(store: GrantStore, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"p\xff")
    folder.mkdir()
    assert read_rules(store, folder) == []
    with pytest.raises(ConfigError, match="is not valid UTF-8"):
        store.add(folder, "allow", ("shell(make)",))


ADD = """
import sys
from pathlib import Path
from mainspring.app.workspace.saved_rules import GrantStore
from mainspring.app.workspace.paths import UserPaths as Home
home, folder, name = sys.argv[1:]
for i in range(15):
    GrantStore(Home(Path(home))).add(folder, "allow", (f"shell({name} {i})",))
"""


def test_concurrent_processes_lose_no_rules(store: GrantStore, tmp_path: Path) -> None:
    assert store.file is not None
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    adding = [
        subprocess.Popen([sys.executable, "-c", ADD, str(store.file.parent), str(folder), name])
        for folder in folders
        for name in ("a", "b")
    ]
    assert [process.wait(120) for process in adding] == [0] * 4
    for folder in folders:
        assert sorted(read_rules(store, folder)) == sorted(
            f"allow shell({name} {i})" for name in "ab" for i in range(15)
        )
    assert len(json.loads(store.file.read_text())["projects"]) == 2
