import os
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mainspring import Agent
from mainspring.errors import SessionError
from mainspring.messages import Message
from mainspring.sessions import MessageEntry, Session, SessionEntry, SqliteSessionStore, encode_entry
from mainspring.testing import Reply, ScriptedModel

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def make_header(id: str = "s1", version: int = 1) -> SessionEntry:
    return SessionEntry(id=id, parent=None, timestamp=NOW, version=version, cwd="/work")


def make_line(id: str, text: str = "hi") -> bytes:
    message = Message.user(text, timestamp=NOW)
    return encode_entry(MessageEntry(id=id, parent=None, timestamp=NOW, message=message, source="prompt"))


@pytest.fixture
def store(tmp_path: Path) -> SqliteSessionStore:
    return SqliteSessionStore(tmp_path / "home" / "sessions.db")


def test_only_the_owner_can_access_the_database(store: SqliteSessionStore) -> None:
    store.create(make_header()).append([encode_entry(make_header())])

    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


def test_reading_creates_no_file(store: SqliteSessionStore) -> None:
    assert list(store.list()) == []
    assert not store.exists("s1")
    assert not store.path.parent.exists()


def test_database_of_another_program_is_unchanged(store: SqliteSessionStore) -> None:
    store.path.parent.mkdir()
    with sqlite3.connect(store.path) as other:
        other.execute("CREATE TABLE sessions (mine TEXT)")
    other.close()
    before = store.path.read_bytes()

    with pytest.raises(SessionError, match="another program"):
        list(store.list())
    with pytest.raises(SessionError, match="another program"):
        store.create(make_header())

    assert store.path.read_bytes() == before


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\0" + b"\xff" * 2000])
def test_file_that_is_not_a_database_is_unchanged(store: SqliteSessionStore, content: bytes) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(content)

    with pytest.raises(SessionError, match="Cannot read|another program"):
        list(store.list())

    assert store.path.read_bytes() == content


def test_newer_database_version_is_rejected(store: SqliteSessionStore) -> None:
    store.create(make_header()).append([encode_entry(make_header())])
    with sqlite3.connect(store.path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()

    with pytest.raises(SessionError, match="newer version of Mainspring"):
        store.open("s1")


def test_session_of_a_newer_version_is_read_only(store: SqliteSessionStore) -> None:
    newer_header = make_header(version=99)
    store.create(newer_header).append([encode_entry(newer_header), make_line("a")])

    log = store.open("s1")

    assert not log.writable
    assert [p.kind for p in log.problems] == ["newer"]
    assert len(list(log.rows())) == 2


HOLDER = """
import sys
from mainspring.sessions import SqliteSessionStore as SqliteStore
log = SqliteStore(sys.argv[1]).open("s1")
print(log.writable, flush=True)
sys.stdin.read()
"""


def test_lock_excludes_another_process_until_it_dies(store: SqliteSessionStore) -> None:
    log = store.create(make_header())
    log.append([encode_entry(make_header())])
    log.close()
    call = [sys.executable, "-c", HOLDER, str(store.path)]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "True\n"
        assert [p.kind for p in store.open("s1").problems] == ["locked"]
        first.kill()

    assert store.open("s1").writable


def test_concurrent_creation_of_the_database_works(store: SqliteSessionStore) -> None:
    def create_session(i: int) -> None:
        created = make_header(f"s{i}")
        store.create(created).append([encode_entry(created), make_line("a")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create_session, range(16)))

    assert len(list(store.list())) == 16


def test_failed_transaction_is_rolled_back(store: SqliteSessionStore) -> None:
    log = store.create(make_header())
    log.append([encode_entry(make_header()), make_line("a")])
    with sqlite3.connect(store.path) as other:
        other.execute(
            "CREATE TRIGGER no BEFORE INSERT ON lines WHEN instr(NEW.data, CAST('bad' AS BLOB)) BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    other.close()

    with pytest.raises(OSError, match="full") as failed:
        log.append([make_line("b"), make_line("c", "bad")])

    assert failed.value.errno == 28
    assert len(list(log.rows())) == 2
    [info] = store.list()
    log.append([make_line("b")])
    assert len(list(log.rows())) == 3
    assert next(iter(store.list())).size > info.size


async def test_agent_resumes_a_stored_session(store: SqliteSessionStore) -> None:
    with Session.create("/work", home=store) as session:
        await Agent(ScriptedModel(Reply("hello")), session=session).run("hi")

    with Session.open(session.id, home=store) as again:
        agent = Agent(ScriptedModel(Reply("still here")), session=again)
        await agent.run("and now?")

    with Session.open(session.id, home=store, write=False) as last:
        assert [m.text for m in last.messages if isinstance(m, Message)] == ["hi", "hello", "and now?", "still here"]
    [info] = store.list()
    assert (info.preview, os.path.basename(info.place)) == ("hi", f"sessions.db#{session.id}")
