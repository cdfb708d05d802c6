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


def header(id: str = "s1", version: int = 1) -> SessionEntry:
    return SessionEntry(id=id, parent=None, timestamp=NOW, version=version, cwd="/work")


def line(id: str, text: str = "hi") -> bytes:
    message = Message.user(text, timestamp=NOW)
    return encode_entry(MessageEntry(id=id, parent=None, timestamp=NOW, message=message, source="prompt"))


@pytest.fixture
def store(tmp_path: Path) -> SqliteSessionStore:
    return SqliteSessionStore(tmp_path / "home" / "sessions.db")


def test_the_file_is_the_owner_s_only(store: SqliteSessionStore) -> None:
    store.create(header()).append([encode_entry(header())])

    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


def test_looking_makes_no_file(store: SqliteSessionStore) -> None:
    assert list(store.list()) == []
    assert not store.exists("s1")
    assert not store.path.parent.exists()


def test_a_database_of_something_else_is_left_alone(store: SqliteSessionStore) -> None:
    store.path.parent.mkdir()
    with sqlite3.connect(store.path) as other:
        other.execute("CREATE TABLE sessions (mine TEXT)")
    other.close()
    before = store.path.read_bytes()

    with pytest.raises(SessionError, match="another program"):
        list(store.list())
    with pytest.raises(SessionError, match="another program"):
        store.create(header())

    assert store.path.read_bytes() == before


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\0" + b"\xff" * 2000])
def test_what_is_no_database_is_left_alone(store: SqliteSessionStore, content: bytes) -> None:
    store.path.parent.mkdir()
    store.path.write_bytes(content)

    with pytest.raises(SessionError, match="Cannot read|another program"):
        list(store.list())

    assert store.path.read_bytes() == content


def test_a_newer_layout_is_told(store: SqliteSessionStore) -> None:
    store.create(header()).append([encode_entry(header())])
    with sqlite3.connect(store.path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()

    with pytest.raises(SessionError, match="newer version of Mainspring"):
        store.open("s1")


def test_a_session_of_a_newer_version_is_read_and_not_written(store: SqliteSessionStore) -> None:
    with_new = header(version=99)
    store.create(with_new).append([encode_entry(with_new), line("a")])

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


@pytest.mark.timeout(60)
def test_another_process_is_kept_out_and_a_dead_one_is_not(store: SqliteSessionStore) -> None:
    log = store.create(header())
    log.append([encode_entry(header())])
    log.close()
    call = [sys.executable, "-c", HOLDER, str(store.path)]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "True\n"
        assert [p.kind for p in store.open("s1").problems] == ["locked"]
        first.kill()

    assert store.open("s1").writable


def test_two_that_make_the_file_at_once_both_find_it(store: SqliteSessionStore) -> None:
    def make(i: int) -> None:
        made = header(f"s{i}")
        store.create(made).append([encode_entry(made), line("a")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(16)))

    assert len(list(store.list())) == 16


def test_a_transaction_that_fails_leaves_nothing(store: SqliteSessionStore) -> None:
    log = store.create(header())
    log.append([encode_entry(header()), line("a")])
    with sqlite3.connect(store.path) as other:
        other.execute(
            "CREATE TRIGGER no BEFORE INSERT ON lines WHEN instr(NEW.data, CAST('bad' AS BLOB)) BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    other.close()

    with pytest.raises(OSError, match="full") as failed:
        log.append([line("b"), line("c", "bad")])

    assert failed.value.errno == 28
    assert len(list(log.rows())) == 2
    [info] = store.list()
    log.append([line("b")])
    assert len(list(log.rows())) == 3
    assert next(iter(store.list())).size > info.size


async def test_an_agent_goes_on_where_it_stopped(store: SqliteSessionStore) -> None:
    with Session.create("/work", home=store) as session:
        await Agent(ScriptedModel(Reply("hello")), session=session).run("hi")

    with Session.open(session.id, home=store) as again:
        agent = Agent(ScriptedModel(Reply("still here")), session=again)
        await agent.run("and now?")

    with Session.open(session.id, home=store, write=False) as last:
        assert [m.text for m in last.messages if isinstance(m, Message)] == ["hi", "hello", "and now?", "still here"]
    [info] = store.list()
    assert (info.preview, os.path.basename(info.place)) == ("hi", f"sessions.db#{session.id}")
