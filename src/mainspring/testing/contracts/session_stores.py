"""Tests of session stores."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import SessionError
from mainspring.messages import Message, encode_messages
from mainspring.sessions import (
    AsyncSessions,
    AsyncSessionStore,
    LabelEntry,
    MessageEntry,
    Session,
    SessionEntry,
    SessionInfo,
    SessionLog,
    SessionOptions,
    SessionStore,
    encode_entry,
)
from mainspring.testing.contracts.runner import in_event_loop
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from mainspring.tools import tool

_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_QUICK = SessionOptions(redact_line=None)


def _header(id: str = "s1", cwd: str = "/work", title: str = "") -> SessionEntry:
    return SessionEntry(id=id, parent=None, timestamp=_NOW, version=1, cwd=cwd, title=title)


def _line(id: str, text: str = "hi", parent: str | None = None) -> bytes:
    message = Message.user(text, timestamp=_NOW)
    return encode_entry(MessageEntry(id=id, parent=parent, timestamp=_NOW, message=message, source="prompt"))


def _create_log(store: SessionStore, id: str = "s1", cwd: str = "/work", title: str = "") -> SessionLog:
    log = store.create(_header(id, cwd, title))
    log.append([encode_entry(_header(id, cwd, title)), _line("a")])
    return log


def _read_lines(log: SessionLog) -> list[bytes]:
    return [row.data for row in log.rows()]


class SessionStoreContract:
    """Tests of a `SessionStore`. Override `create_store`."""

    def create_store(self, folder: Path) -> SessionStore:
        """Return an empty store; each test has its own folder."""
        raise NotImplementedError("Override create_store.")

    @pytest.fixture
    def store(self, tmp_path: Path) -> SessionStore:
        """The store of a test."""
        return self.create_store(tmp_path)

    def test_lines_are_read_back_unchanged(self, store: SessionStore) -> None:
        """Lines are read back unchanged."""
        log = _create_log(store)
        log.append([_line("b", "x" * 300_000)], sync=True)
        log.append([_line("c"), _line("d", "ünïcode\n")])
        expected = [
            encode_entry(_header()),
            _line("a"),
            _line("b", "x" * 300_000),
            _line("c"),
            _line("d", "ünïcode\n"),
        ]
        assert _read_lines(log) == expected
        log.close()
        again = store.open("s1")
        assert _read_lines(again) == expected
        assert [again.read(row.position) for row in again.rows()] == expected
        assert [row.number for row in again.rows()] == [1, 2, 3, 4, 5]
        assert [(row.position, row.data) for row in again.iter_lines_backward()][::-1] == [
            (r.position, r.data) for r in again.rows()
        ]
        assert all(row.complete for row in again.rows())
        again.append([_line("e")])
        assert _read_lines(again)[5:] == [_line("e")]

    def test_a_new_session_is_not_stored_before_its_first_line(self, store: SessionStore) -> None:
        """A new session is not stored before its first line."""
        log = store.create(_header())
        assert not log.exists
        assert _read_lines(log) == list(log.iter_lines_backward()) == []
        assert not store.exists("s1")
        assert list(store.list()) == []
        log.append([encode_entry(_header())])
        assert log.exists
        assert store.exists("s1")

    def test_session_id_is_unique(self, store: SessionStore) -> None:
        """Session id is unique."""
        _create_log(store)
        with pytest.raises(SessionError, match="already"):
            store.create(_header())

    @pytest.mark.parametrize("id", ["", "../x", "a/b", "a b", ".x", "x" * 200])
    def test_session_id_cannot_escape_its_folder(self, store: SessionStore, id: str) -> None:
        """Session id cannot escape its folder."""
        with pytest.raises(SessionError, match="Invalid session ID"):
            store.create(_header(id))

    def test_session_has_one_writer(self, store: SessionStore) -> None:
        """Session has one writer."""
        first = _create_log(store)
        second = store.open("s1")
        assert first.writable
        assert not second.writable
        assert [p.kind for p in second.problems] == ["locked"]
        assert "fork" in str(second.problems[0])
        assert _read_lines(second) == _read_lines(first)
        with pytest.raises(OSError, match="reading only"):
            second.append([_line("b")])
        second.close()
        first.append([_line("b")])
        first.close()
        third = store.open("s1")
        assert third.writable
        assert third.problems == []
        assert len(_read_lines(third)) == 3

    def test_reading_takes_no_lock(self, store: SessionStore) -> None:
        """Reading takes no lock."""
        _create_log(store).close()
        reader = store.open("s1", write=False)
        assert not reader.writable
        assert reader.problems == []
        assert store.open("s1").writable

    def test_session_is_found_by_id_prefix_and_by_path(self, store: SessionStore) -> None:
        """Session is found by id prefix and by path."""
        _create_log(store, "abc1").close()
        log = _create_log(store, "abd2")
        place = log.place
        log.close()
        assert _read_lines(store.open("abd", write=False))[0] == encode_entry(_header("abd2"))
        assert _read_lines(store.open(place, write=False))[0] == encode_entry(_header("abd2"))
        with pytest.raises(SessionError, match="matches 2 sessions: abc1, abd2"):
            store.open("ab")
        with pytest.raises(SessionError, match="Unknown session: zz"):
            store.open("zz")

    def test_full_id_wins_over_a_prefix(self, store: SessionStore) -> None:
        """Full id wins over a prefix."""
        _create_log(store, "ab").close()
        _create_log(store, "abc").close()
        assert store.open("ab", write=False).place == store.open("ab").place

    def test_list_contains_title_preview_and_times(self, store: SessionStore) -> None:
        """List contains title preview and times."""
        _create_log(store, "s1", "/one").close()
        log = _create_log(store, "s2", "/two", "A title")
        log.append([encode_entry(LabelEntry(id="l", parent="a", timestamp=_NOW, target="s2", label="Another"))])
        log.close()
        (one,) = store.list("/one")
        (two,) = store.list("/two")
        assert (one.id, one.cwd, one.title, one.preview, one.created, one.problem) == ("s1", "/one", "", "hi", _NOW, "")
        assert two.title == "Another"
        assert two.size > one.size > 0
        assert one.updated is not None
        assert datetime.now(UTC) - one.updated < timedelta(minutes=1)
        assert {s.id for s in store.list()} == {"s1", "s2"}
        assert list(store.list("/three")) == []

    def test_delete_is_permanent_and_fails_while_open(self, store: SessionStore) -> None:
        """Delete is permanent and fails while open."""
        log = _create_log(store)
        with pytest.raises(SessionError, match="Cannot delete"):
            store.delete("s1")
        log.close()
        store.delete("s1")
        assert not store.exists("s1")
        assert list(store.list()) == []
        with pytest.raises(SessionError, match="Unknown session"):
            store.delete("s1")


_with_store = in_event_loop("create_store", "close_store")


def _agent(*script: Any) -> Agent:
    @tool
    async def look(key: str) -> str:
        """Look something up."""
        return f"found {key}"

    return Agent(ScriptedModel(*script), tools=[look], execution=MemoryEnv())


async def _converse(session: Session, prompt: str, answer: str) -> None:
    call = ScriptedCall("look", {"key": prompt})
    result = await _agent(call, answer).conversation(session=session).run(prompt)
    assert result.text == answer


class AsyncSessionStoreContract:
    """Tests of an `AsyncSessionStore`. Override `create_store`, and `close_store` if the store has connections.

    Each test runs in a separate event loop, so no plugin of pytest is required.
    """

    async def create_store(self, folder: Path) -> AsyncSessionStore:
        """Return an empty store; each test has its own folder."""
        raise NotImplementedError("Override create_store.")

    async def close_store(self, store: Any) -> None:
        """Close a store that `create_store` returned."""

    @_with_store
    async def test_lines_are_read_back_unchanged(self, store: AsyncSessionStore) -> None:
        """Lines are read back unchanged and in order, also long ones and those of another append."""
        lines = [_line("a"), _line("b", "x" * 300_000), _line("c", "ünïcode\n\0")]
        info = SessionInfo(id="s1", place="p")
        assert list(await store.read("s1")) == []
        await store.append("s1", lines[:2], info)
        await store.append("s1", lines[2:], info)
        assert [bytes(line) for line in await store.read("s1")] == lines
        assert list(await store.read("s")) == []

    @_with_store
    async def test_sessions_are_independent(self, store: AsyncSessionStore) -> None:
        """Appends to many sessions at the same time do not mix."""

        async def write(id: str) -> None:
            for i in range(5):
                await store.append(id, [_line(f"{id}-{i}")], SessionInfo(id=id, place="p"))

        await asyncio.gather(*[write(f"s{i}") for i in range(10)])
        for n in range(10):
            assert [bytes(line) for line in await store.read(f"s{n}")] == [_line(f"s{n}-{i}") for i in range(5)]

    @_with_store
    async def test_list_returns_the_last_metadata(self, store: AsyncSessionStore) -> None:
        """The metadata of the last append are listed, with times and all texts, for one folder or all."""
        first = SessionInfo(id="s1", place="p", cwd="/one", title="Ä", preview="hi", created=_NOW, updated=_NOW, size=3)
        last = SessionInfo(id="s1", place="p", cwd="/one", title="B", preview="hi", created=_NOW, updated=_NOW, size=9)
        other = SessionInfo(id="s2", place="p", cwd="/two")
        await store.append("s1", [_line("a")], first)
        await store.append("s1", [_line("b")], last)
        await store.append("s2", [_line("c")], other)
        assert list(await store.list("/one")) == [last]
        assert sorted(await store.list(None), key=lambda info: info.id) == [last, other]
        assert list(await store.list("/three")) == []

    @_with_store
    async def test_delete_removes_lines_and_metadata(self, store: AsyncSessionStore) -> None:
        """A deleted session is neither read nor listed, and its ID can be used again."""
        info = SessionInfo(id="s1", place="p")
        await store.append("s1", [_line("a")], info)
        await store.delete("s1")
        assert list(await store.read("s1")) == list(await store.list(None)) == []
        await store.append("s1", [_line("b")], info)
        assert [bytes(line) for line in await store.read("s1")] == [_line("b")]

    @_with_store
    async def test_id_has_one_writer(self, store: AsyncSessionStore) -> None:
        """An ID, stored or not, is reserved for one writer until it is released."""
        assert await store.acquire("s1")
        assert not await store.acquire("s1")
        assert await store.acquire("s2")
        await store.append("s1", [_line("a")], SessionInfo(id="s1", place="p"))
        assert not await store.acquire("s1")
        await store.release("s1")
        assert await store.acquire("s1")

    @_with_store
    async def test_conversation_is_stored_and_resumed(self, store: AsyncSessionStore) -> None:
        """A conversation with tool calls continues in another session object."""
        sessions = AsyncSessions(store, options=_QUICK)
        async with await sessions.create(id="trip", title="A trip") as session:
            await _converse(session, "Where?", "Oslo.")
            stored = session.messages
        assert session.problems == []
        async with await sessions.open("tri") as again:
            assert encode_messages(again.messages) == encode_messages(stored)
            assert again.title == "A trip"
            assert not again.was_interrupted
            await _converse(again, "When?", "In May.")
        [info] = await sessions.list()
        assert (info.id, info.title, info.preview) == ("trip", "A trip", "Where?")
        assert info.size == sum(len(line) + 1 for line in await store.read("trip"))
        async with await sessions.latest() as last:
            assert [m.text for m in last.messages if isinstance(m, Message) and m.role == "user" and m.text] == [
                "Where?",
                "When?",
            ]

    @_with_store
    async def test_fork_and_branch_leave_the_original(self, store: AsyncSessionStore) -> None:
        """A fork is another session in the store; a branch leaves earlier messages in it."""
        sessions = AsyncSessions(store, options=_QUICK)
        async with await sessions.create() as session:
            await _converse(session, "Where?", "Oslo.")
            fork = session.fork(title="Copy")
            async with fork:
                await _converse(fork, "Why?", "Snow.")
            session.branch(None, "again")
            await _converse(session, "Who?", "You.")
        async with await sessions.open(fork.id) as copy, await sessions.open(session.id) as original:
            assert [m.text for m in copy.messages if isinstance(m, Message) and m.text] == [
                "Where?",
                "Oslo.",
                "Why?",
                "Snow.",
            ]
            assert [m.text for m in original.messages if isinstance(m, Message) and m.text] == ["Who?", "You."]
        assert {info.title for info in await sessions.list()} == {"", "Copy"}

    @_with_store
    async def test_open_session_is_read_or_forked_by_others(self, store: AsyncSessionStore) -> None:
        """A second opener of a session reads it or continues in a copy; it cannot be deleted or created while it is open."""
        sessions = AsyncSessions(store, options=_QUICK)
        session = await sessions.create(id="s1")
        await _converse(session, "Where?", "Oslo.")
        reader = await sessions.open("s1")
        assert not reader.writable
        assert [p.kind for p in reader.problems] == ["locked"]
        fork = await sessions.open("s1", if_locked="fork")
        assert fork.id != "s1"
        assert encode_messages(fork.messages) == encode_messages(session.messages)
        with pytest.raises(SessionError, match="Cannot delete"):
            await sessions.delete("s1")
        with pytest.raises(SessionError, match="already exists"):
            await sessions.create(id="s1")
        for each in (reader, fork, session):
            await each.aclose()
        await sessions.delete("s1")
        with pytest.raises(SessionError, match="Unknown session"):
            await sessions.open("s1")
