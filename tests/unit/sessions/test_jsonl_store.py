"""Session files: access rights, files that must not be changed, and disk errors."""

import errno
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mainspring.errors import SessionError
from mainspring.locks import try_lock
from mainspring.messages import Message
from mainspring.sessions import JsonlSessionLog, JsonlStore, MessageEntry, SessionEntry, encode_entry

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HEADER = SessionEntry(id="s1", parent=None, timestamp=NOW, version=1, cwd="/work")


def make_line(id: str, text: str = "hi") -> bytes:
    message = Message.user(text, timestamp=NOW)
    return encode_entry(MessageEntry(id=id, parent=None, timestamp=NOW, message=message, source="prompt"))


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path / "home" / ".agent")


@pytest.fixture
def log(store: JsonlStore) -> JsonlSessionLog:
    log = store.create(HEADER)
    log.append([encode_entry(HEADER), make_line("a")])
    return log


@pytest.fixture
def limited_space(log: JsonlSessionLog) -> Iterator[None]:
    """Let files grow by at most 100 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(log.place).stat().st_size + 100, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.covers("SES-01", "SES-02")
def test_only_the_owner_can_access_files_and_folders(store: JsonlStore, log: JsonlSessionLog) -> None:
    path = Path(log.place)
    assert path.parent.parent == store.home / "sessions"
    assert path.name == "s1.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert log.context_folder == str(store.home / "context" / "s1")
    folders = [path.parent, path.parent.parent, store.home, store.home.parent, Path(log.context_folder or "")]
    assert {stat.S_IMODE(f.stat().st_mode) for f in folders} == {0o700}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"\n", "no header"),
        (b"hello\n", "not a session header"),
        (b'{"type":"message"}\n', "not a session header"),
        (b'{"id":"x","messages":[]}\n', "not a session header"),
        (b"\x89PNG\x00\xff\xfe", "not a session header"),
        (b"[" * 100_000, "not a session header"),
    ],
)
def test_file_that_is_not_a_session_is_rejected_and_unchanged(
    store: JsonlStore, tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(content)
    with pytest.raises(SessionError, match=why):
        store.open(str(path))
    assert path.read_bytes() == content


def test_folder_or_pipe_is_not_a_session(store: JsonlStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for name in ("pipe.jsonl", "folder.jsonl"):
        with pytest.raises(SessionError, match="not a file"):
            store.open(str(tmp_path / name))
    with pytest.raises(SessionError, match="Session file not found"):
        store.open(str(tmp_path / "none.jsonl"))


def test_unreadable_session_is_listed_with_the_reason(store: JsonlStore, log: JsonlSessionLog) -> None:
    Path(log.place).with_name("s0.jsonl").write_bytes(b"hello")
    Path(log.place).with_name("leftover.jsonl").write_bytes(b"")
    found = {s.id: s.problem for s in store.list("/work")}
    assert found["s1"] == ""
    assert "not a session header" in found["s0"]
    assert "leftover" not in found


@pytest.mark.covers("SES-09")
def test_append_after_an_incomplete_line_starts_a_new_line(store: JsonlStore, log: JsonlSessionLog) -> None:
    path = Path(log.place)
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    again = store.open("s1")
    assert [row.complete for row in again.rows()] == [True, False]
    again.append([make_line("b")])
    assert path.read_bytes() == whole[:-20] + b"\n" + make_line("b") + b"\n"


def test_last_line_without_a_newline_is_read(store: JsonlStore, log: JsonlSessionLog) -> None:
    path = Path(log.place)
    log.close()
    path.write_bytes(path.read_bytes()[:-1])
    again = store.open("s1")
    again.append([make_line("b")])
    assert [row.data for row in again.rows()] == [encode_entry(HEADER), make_line("a"), make_line("b")]


@pytest.mark.usefixtures("limited_space")
def test_write_that_does_not_fit_is_rolled_back(log: JsonlSessionLog) -> None:
    before = Path(log.place).read_bytes()
    with pytest.raises(OSError, match="File too large") as caught:
        log.append([make_line("b", "x" * 500)])
    assert caught.value.errno == errno.EFBIG
    assert Path(log.place).read_bytes() == before


def test_writing_works_again_after_space_is_freed(log: JsonlSessionLog, limited_space: None) -> None:
    with pytest.raises(OSError, match="File too large"):
        log.append([make_line("b", "x" * 500)])
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    log.append([make_line("b")])
    assert [row.data for row in log.rows()][1:] == [make_line("a"), make_line("b")]


def test_failed_first_write_leaves_no_file(store: JsonlStore) -> None:
    log = store.create(HEADER)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.append([encode_entry(HEADER)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(store.list()) == []
    log.append([encode_entry(HEADER)])
    assert store.exists("s1")


def test_writing_to_a_deleted_file_raises(log: JsonlSessionLog) -> None:
    Path(log.place).unlink()
    with pytest.raises(OSError, match="deleted"):
        log.append([make_line("b")])


HOLDER = """
import sys
from mainspring.sessions import JsonlStore
log = JsonlStore(sys.argv[1]).open("s1")
print(log.writable, [str(p) for p in log.problems], flush=True)
sys.stdin.read()
"""


def start_holder(store: JsonlStore) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store.home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_lock_excludes_another_process_until_it_dies(store: JsonlStore, log: JsonlSessionLog) -> None:
    log.close()
    with start_holder(store) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "True []\n"
        second = store.open("s1")
        assert not second.writable
        assert "open in another process" in str(second.problems[0])
        first.kill()
    assert store.open("s1").writable


def test_file_without_write_permission_is_read_only(store: JsonlStore, log: JsonlSessionLog) -> None:
    log.close()
    os.chmod(log.place, 0o400)
    again = store.open("s1")
    assert [row.data for row in again.rows()][1:] == [make_line("a")]
    assert again.writable == (os.geteuid() == 0)  # root ignores file permissions


def test_newer_version_is_read_only(store: JsonlStore, log: JsonlSessionLog) -> None:
    log.close()
    path = Path(log.place)
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    before = path.read_bytes()
    again = store.open("s1")
    assert not again.writable
    assert [p.kind for p in again.problems] == ["newer"]
    assert "version 2" in str(again.problems[0])
    with pytest.raises(OSError, match="reading only"):
        again.append([make_line("b")])
    assert path.read_bytes() == before
    again.close()
    store.delete("s1")


def test_lock_is_released_with_the_log(store: JsonlStore) -> None:
    store.create(HEADER).append([encode_entry(HEADER)])
    assert store.open("s1").writable


def test_child_processes_do_not_inherit_the_lock(store: JsonlStore, log: JsonlSessionLog) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        log.close()
        again = store.open("s1")
        child.kill()
    assert again.writable


@pytest.mark.covers("SES-15")
def test_empty_file_of_a_killed_process_does_not_reserve_its_id(store: JsonlStore, log: JsonlSessionLog) -> None:
    file = Path(log.place)
    log.close()
    file.write_bytes(b"")

    assert not store.exists("s1")
    second = store.create(HEADER)
    second.append([encode_entry(HEADER), make_line("b")])
    assert store.exists("s1")
    assert len(list(second.rows())) == 2
    second.close()

    file.write_bytes(b"")
    with file.open("ab") as writer:  # another process is about to write the file
        assert try_lock(writer.fileno()) == "held"
        with pytest.raises(FileExistsError):
            store.create(HEADER).append([encode_entry(HEADER)])
    assert file.read_bytes() == b""
