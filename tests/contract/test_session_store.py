"""The common behavior of every `SessionStore`: files, memory, and SQLite."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring.errors import SessionError
from mainspring.messages import Message
from mainspring.sessions import (
    JsonlStore,
    LabelEntry,
    MemorySessionStore,
    MessageEntry,
    SessionEntry,
    SessionLog,
    SessionStore,
    SqliteSessionStore,
    encode_entry,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(params=["jsonl", "memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    """Return each store, empty."""
    factories: dict[str, Callable[[], SessionStore]] = {
        "jsonl": lambda: JsonlStore(tmp_path),
        "memory": MemorySessionStore,
        "sqlite": lambda: SqliteSessionStore(tmp_path / "sessions.db"),
    }
    return factories[request.param]()


def create_header(id: str = "s1", cwd: str = "/work", title: str = "") -> SessionEntry:
    return SessionEntry(id=id, parent=None, timestamp=NOW, version=1, cwd=cwd, title=title)


def encode_line(id: str, text: str = "hi", parent: str | None = None) -> bytes:
    message = Message.user(text, timestamp=NOW)
    return encode_entry(MessageEntry(id=id, parent=parent, timestamp=NOW, message=message, source="prompt"))


def create_log(store: SessionStore, id: str = "s1", cwd: str = "/work", title: str = "") -> SessionLog:
    log = store.create(create_header(id, cwd, title))
    log.append([encode_entry(create_header(id, cwd, title)), encode_line("a")])
    return log


def read_lines(log: SessionLog) -> list[bytes]:
    return [row.data for row in log.rows()]


@pytest.mark.covers("SES-09")
def test_lines_are_read_back_unchanged(store: SessionStore) -> None:
    log = create_log(store)
    log.append([encode_line("b", "x" * 300_000)], sync=True)
    log.append([encode_line("c"), encode_line("d", "ünïcode\n")])
    expected = [
        encode_entry(create_header()),
        encode_line("a"),
        encode_line("b", "x" * 300_000),
        encode_line("c"),
        encode_line("d", "ünïcode\n"),
    ]
    assert read_lines(log) == expected
    log.close()
    again = store.open("s1")
    assert read_lines(again) == expected
    assert [again.read(row.position) for row in again.rows()] == expected
    assert [row.number for row in again.rows()] == [1, 2, 3, 4, 5]
    assert [(row.position, row.data) for row in again.iter_lines_backward()][::-1] == [
        (r.position, r.data) for r in again.rows()
    ]
    assert all(row.complete for row in again.rows())
    again.append([encode_line("e")])
    assert read_lines(again)[5:] == [encode_line("e")]


def test_a_new_session_is_not_stored_before_its_first_line(store: SessionStore) -> None:
    log = store.create(create_header())
    assert not log.exists
    assert read_lines(log) == list(log.iter_lines_backward()) == []
    assert not store.exists("s1")
    assert list(store.list()) == []
    log.append([encode_entry(create_header())])
    assert log.exists
    assert store.exists("s1")


def test_session_id_is_unique(store: SessionStore) -> None:
    create_log(store)
    with pytest.raises(SessionError, match="already"):
        store.create(create_header())


@pytest.mark.parametrize("id", ["", "../x", "a/b", "a b", ".x", "x" * 200])
def test_session_id_cannot_escape_its_folder(store: SessionStore, id: str) -> None:
    with pytest.raises(SessionError, match="Invalid session ID"):
        store.create(create_header(id))


def test_session_has_one_writer(store: SessionStore) -> None:
    first = create_log(store)
    second = store.open("s1")
    assert first.writable
    assert not second.writable
    assert [p.kind for p in second.problems] == ["locked"]
    assert "fork" in str(second.problems[0])
    assert read_lines(second) == read_lines(first)
    with pytest.raises(OSError, match="reading only"):
        second.append([encode_line("b")])
    second.close()
    first.append([encode_line("b")])
    first.close()
    third = store.open("s1")
    assert third.writable
    assert third.problems == []
    assert len(read_lines(third)) == 3


def test_reading_takes_no_lock(store: SessionStore) -> None:
    create_log(store).close()
    reader = store.open("s1", write=False)
    assert not reader.writable
    assert reader.problems == []
    assert store.open("s1").writable


def test_session_is_found_by_id_prefix_and_by_path(store: SessionStore) -> None:
    create_log(store, "abc1").close()
    log = create_log(store, "abd2")
    place = log.place
    log.close()
    assert read_lines(store.open("abd", write=False))[0] == encode_entry(create_header("abd2"))
    assert read_lines(store.open(place, write=False))[0] == encode_entry(create_header("abd2"))
    with pytest.raises(SessionError, match="matches 2 sessions: abc1, abd2"):
        store.open("ab")
    with pytest.raises(SessionError, match="Unknown session: zz"):
        store.open("zz")


def test_full_id_wins_over_a_prefix(store: SessionStore) -> None:
    create_log(store, "ab").close()
    create_log(store, "abc").close()
    assert store.open("ab", write=False).place == store.open("ab").place


def test_list_contains_title_preview_and_times(store: SessionStore) -> None:
    create_log(store, "s1", "/one").close()
    log = create_log(store, "s2", "/two", "A title")
    log.append([encode_entry(LabelEntry(id="l", parent="a", timestamp=NOW, target="s2", label="Another"))])
    log.close()
    (one,) = store.list("/one")
    (two,) = store.list("/two")
    assert (one.id, one.cwd, one.title, one.preview, one.created, one.problem) == ("s1", "/one", "", "hi", NOW, "")
    assert two.title == "Another"
    assert two.size > one.size > 0
    assert one.updated is not None
    assert datetime.now(UTC) - one.updated < timedelta(minutes=1)
    assert {s.id for s in store.list()} == {"s1", "s2"}
    assert list(store.list("/three")) == []


def test_delete_is_permanent_and_fails_while_open(store: SessionStore) -> None:
    log = create_log(store)
    with pytest.raises(SessionError, match="Cannot delete"):
        store.delete("s1")
    log.close()
    store.delete("s1")
    assert not store.exists("s1")
    assert list(store.list()) == []
    with pytest.raises(SessionError, match="Unknown session"):
        store.delete("s1")
