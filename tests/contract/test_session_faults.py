"""Known problems of sessions, one by one, on every store on disk."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from mainspring.errors import AgentProviderError, ModelError, SessionError
from mainspring.messages import Message
from mainspring.sessions import (
    JsonlStore,
    MessageEntry,
    Session,
    SessionEntry,
    SessionOptions,
    SessionStore,
    SqliteSessionStore,
    encode_entry,
    find_session,
    list_sessions,
    read_events,
    read_transcript,
    search_sessions,
)
from tests.requires import skip_missing
from tests.unit.sessions.harness import (
    QUICK,
    check_paired,
    describe as texts,
    make_agent as agent,
    make_calls as calling,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)
STORES: dict[str, Callable[[Path], SessionStore]] = {
    "jsonl": JsonlStore,
    "sqlite": lambda folder: SqliteSessionStore(folder / "sessions.db"),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return STORES[request.param](tmp_path)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a separate disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.name != "posix" or os.geteuid() or not mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)):
        skip_missing("the right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


def fill_disk(folder: Path) -> Path:
    """Fill the disk."""
    file = folder / "ballast"
    with file.open("wb", buffering=0) as out:
        try:
            while out.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return file


def reopen(session: Session) -> Session:
    session.close()
    return Session.open(session.id, home=session.store, options=QUICK)


def create_session(store: SessionStore, id: str = "s1") -> Session:
    return Session.create("/work", home=store, id=id, options=QUICK)


# --- the disk ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STORES)
async def test_full_disk_is_reported_and_data_is_saved_later(kind: str, disk: Path) -> None:
    """S-13: writes never fail silently."""
    store = STORES[kind](disk)
    session = create_session(store)
    one = agent(session, "one", calling("c1", "c2"), "two " + "x" * 50_000, "three", "four")
    await one.run("first")
    ballast = fill_disk(disk)
    assert (await one.run("second")).text.startswith("two")
    assert [p.kind for p in session.problems] == ["unsaved"]
    assert "No space left" in str(session.problems[0]) or "full" in str(session.problems[0])
    other = Session.open("s1", home=store, write=False)
    check_paired(other.messages)  # a reader finds complete turns
    assert texts(other.messages)[:2] == ["user: first", "assistant: one"]
    other.close()
    ballast.unlink()
    await one.run("third")
    assert [p.kind for p in session.problems] == ["unsaved", "saved"]
    expected = texts(session.messages)
    again = reopen(session)
    assert again.problems == []
    assert texts(again.messages) == expected
    assert len(expected) == 8


@pytest.mark.parametrize("kind", STORES)
async def test_disk_that_stays_full_is_reported_on_close(kind: str, disk: Path) -> None:
    store = STORES[kind](disk)
    session = create_session(store)
    one = agent(session, "one", "two")
    await one.run("first")
    fill_disk(disk)
    await one.run("x" * 20_000)
    session.close()
    assert "could not be saved" in str(session.problems[-1])
    again = Session.open("s1", home=store, options=QUICK)
    assert texts(again.messages) == ["user: first", "assistant: one"]


@pytest.mark.parametrize("kind", STORES)
async def test_session_on_a_read_only_disk_continues_in_memory(kind: str, disk: Path) -> None:
    store = STORES[kind](disk)
    session = create_session(store)
    await agent(session, "one").run("first")
    session.close()
    assert mount("-o", "remount,ro", str(disk))
    again = Session.open("s1", home=store, options=QUICK)
    assert texts(again.messages) == ["user: first", "assistant: one"]
    assert (await agent(again, "two").run("second")).text == "two"
    again.close()
    kinds = {p.kind for p in again.problems}
    assert kinds <= {"unsaved", "locked"}
    assert kinds
    assert "ead-only" in " ".join(map(str, again.problems)) or "readonly" in " ".join(map(str, again.problems))
    assert [info.id for info in store.list()] == ["s1"]


@pytest.mark.parametrize("kind", STORES)
async def test_new_session_on_a_read_only_disk_stays_in_memory(kind: str, disk: Path) -> None:
    assert mount("-o", "remount,ro", str(disk))
    session = create_session(STORES[kind](disk / "home"))
    assert (await agent(session, "one").run("first")).text == "one"
    session.close()
    assert session.problems[0].kind == "unsaved"
    assert "ead-only" in str(session.problems[0])


# --- two processes -----------------------------------------------------------------------------------------------------

TWO = """
import asyncio, json, sys
from pathlib import Path
from mainspring.loop import CoreAgent
from mainspring.sessions import Session, SessionPlug
from mainspring.env.memory import MemoryEnv; from mainspring.testing.scripted_model import ScriptedModel
from tests.contract.test_session_faults import STORES
session = Session.open("s1", home=STORES[sys.argv[1]](Path(sys.argv[2])), if_locked="fork")
print("open", flush=True)
sys.stdin.readline()
agent = CoreAgent(ScriptedModel(*["answer"] * 20), env=MemoryEnv(), plugs=[SessionPlug(session)])
async def talk():
    for i in range(20):
        await agent.run(f"{sys.argv[3]} {i}")
asyncio.run(talk())
session.close()
print(json.dumps([session.id, len(session.messages)]), flush=True)
"""


@pytest.mark.parametrize("kind", STORES)
def test_second_process_on_a_session_works_in_a_copy(kind: str, tmp_path: Path, repository: Path) -> None:
    """S-03: the second process continues in a copy, and both store everything."""
    store = STORES[kind](tmp_path)
    session = create_session(store)
    asyncio.run(agent(session, "one").run("first"))
    session.close()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TWO, kind, str(tmp_path), name],
            cwd=repository,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("left", "right")
    ]
    for process in started:
        assert process.stdout
        assert process.stdout.readline() == "open\n"
    outs = [process.communicate("go\n", timeout=240)[0] for process in started]
    found = dict(json.loads(out) for out in outs)
    assert "s1" in found
    assert list(found.values()) == [42, 42]
    prompts: list[str] = []
    for name in found:
        with Session.open(name, home=store, write=False) as one:
            assert one.problems == []
            users = [t.removeprefix("user: ") for t in texts(one.messages) if t.startswith("user")]
            sides = {u.split()[0] for u in users[1:]}
            assert len(sides) == 1  # no prompts of the other process
            prompts += users[1:]
    assert len(set(prompts)) == 40


async def test_session_waits_for_a_busy_database(tmp_path: Path) -> None:
    """S-04: parallel programs are not a problem to report."""
    store = SqliteSessionStore(tmp_path / "s.db")
    session = create_session(store)
    await agent(session, "one").run("first")
    other = sqlite3.connect(store.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    release.start()
    await agent(session, "two").run("second")
    release.join()
    other.close()
    assert session.problems == []
    assert len(reopen(session).messages) == 4


# --- file content -------------------------------------------------------------------------------------------------------


def rewrite(file: Path, change: Callable[[list[bytes]], bytes]) -> None:
    file.write_bytes(change(file.read_bytes().splitlines(keepends=True)))


@pytest.mark.covers("SES-09")
async def test_line_appended_to_a_torn_line_loses_only_these_two(tmp_path: Path) -> None:
    """S-01: another program appended to an incomplete line."""
    session = create_session(JsonlStore(tmp_path))
    await agent(session, "one", "two").run("first")
    session.close()
    rewrite(Path(session.location), lambda lines: b"".join(lines[:-1]) + lines[-1][:30] + lines[-1])
    again = Session.open("s1", home=tmp_path, options=QUICK)
    assert texts(again.messages) == ["user: first", "assistant: one"]
    assert [p.kind for p in again.problems] == ["damaged"]
    await agent(again, "two").run("second")
    assert len(reopen(again).messages) == 4
    assert [info.id for info in list_sessions("/work", home=tmp_path)] == ["s1"]


@pytest.mark.parametrize("kind", ["jsonl", pytest.param("sqlite", marks=pytest.mark.soak)])
async def test_a_line_of_64_megabytes_is_stored_and_read(kind: str, tmp_path: Path) -> None:
    store = STORES[kind](tmp_path)
    session = Session.create("/work", home=store, id="s1", options=SessionOptions(fsync="never", redact_line=None))
    long = "y" * (64 << 20)
    await agent(session, "one").run("first")
    await agent(session, long).run("and at length?")
    await agent(session, "three").run("and now?")
    again = reopen(session)
    assert [len(m.text) for m in again.messages if isinstance(m, Message)] == [5, 3, 14, 64 << 20, 8, 5]
    assert next(iter(store.list())).preview == "first"


async def test_clock_running_backwards_does_not_affect_a_session(store: SessionStore) -> None:
    times = iter(NOW - timedelta(hours=i) for i in range(1000))
    backwards = SessionOptions(fsync="never", clock=lambda: next(times))
    session = Session.create("/work", home=store, id="s1", options=backwards)
    one = agent(session, calling("c1"), "one", "two", "three")
    await one.run("first")
    session.label("named")
    await one.run("second")
    one.context.messages[:] = [Message.user("short"), *one.context.messages[-2:]]
    await one.run("third")
    expected = texts(one.messages)
    session.close()
    again = Session.open("s1", home=store, options=backwards)
    assert (texts(again.messages), again.title, again.problems) == (expected, "named", [])
    stamps = [e.timestamp for e in again.entries()]
    assert stamps != sorted(stamps)
    other = Session.create("/work", home=store, options=backwards)
    await agent(other, "x").run("y")
    assert len(list(store.list())) == 2


@pytest.mark.parametrize("count", [1, 3])
async def test_rejected_request_is_not_sent_again(store: SessionStore, count: int) -> None:
    """S-05: a response that was an error is not part of the next request."""
    session = create_session(store)
    one = agent(session, *[ModelError("bad image", status=400)] * count)
    for _ in range(count):
        with pytest.raises(AgentProviderError):
            await one.run("look at this")
    again = reopen(session)
    assert set(texts(again.messages)) == {"user: look at this"}
    two = agent(again, "fine")
    await two.run("and without it?")
    assert texts(reopen(again).messages)[-1] == "assistant: fine"


async def test_entries_follow_their_parents_and_results_their_calls(store: SessionStore) -> None:
    """S-06: the order in the file is the order in which things happened."""
    session = create_session(store)
    await agent(session, calling(*"abcdef"), calling("g", "h"), "done").run("go")
    seen: set[str] = set()
    for line in session.journal.path(whole=True):
        assert line.entry is not None
        assert line.entry.parent is None or line.entry.parent in seen
        named = getattr(line.entry, "intent", None)
        assert named is None or named in seen
        seen.add(line.entry.id)


async def test_streamed_and_plain_runs_store_the_same_entries(store: SessionStore) -> None:
    """S-17: both store all calls and results, so that none is repeated."""
    kinds: list[list[str]] = []
    for id in ("plain", "streamed"):
        session = create_session(store, id)
        one = agent(session, calling("c1", "c2"), "done", "more")
        if id == "plain":
            await one.run("go")
        else:
            async with one.stream("go") as run:
                async for _ in run:
                    pass
        kinds.append([type(e).__name__ for e in session.entries()])
        again = reopen(session)
        assert texts(again.messages)[1:3] == ["assistant: c1? c2?", "user: c1=value of c1 c2=value of c2"]
        two = agent(again, "more")
        await two.run("and?")
        assert texts(cast("Any", two.model).requests[0].messages)[:4] == texts(again.messages)[:4]
        again.close()
    assert kinds[0] == kinds[1]


async def test_fifty_parallel_runs_stay_in_their_own_session(store: SessionStore) -> None:
    """S-18: the sessions share no state."""
    sessions = [create_session(store, f"s{i}") for i in range(50)]
    agents = [agent(s, calling(f"c{i}"), f"answer {i}") for i, s in enumerate(sessions)]
    await asyncio.gather(*[a.run(f"prompt {i}") for i, a in enumerate(agents)])
    for i, session in enumerate(sessions):
        assert texts(reopen(session).messages) == [
            f"user: prompt {i}", f"assistant: c{i}?", f"user: c{i}=value of c{i}", f"assistant: answer {i}",
        ]  # fmt: skip


# --- lists and versions -------------------------------------------------------------------------------------------------


@pytest.mark.covers("OPT-05", "BYD-12")
async def test_search_index_follows_deleted_and_renamed_sessions(store: SessionStore) -> None:
    """S-10: the search index never returns a deleted session and finds an added one."""
    for id in ("a1", "b1"):
        session = create_session(store, id)
        await agent(session, f"badgers of {id}").run("what digs?")
        session.close()
    assert {hit.session.id for hit in search_sessions("badgers", "/work", home=store)} == {"a1", "b1"}
    store.delete("a1")
    assert [hit.session.id for hit in search_sessions("badgers", "/work", home=store)] == ["b1"]
    if isinstance(store, JsonlStore):
        [file] = store.root.glob("*/b1.jsonl")
        rewrite(file, lambda lines: b"".join(lines).replace(b'"b1"', b'"c1"'))
        file.rename(file.with_name("c1.jsonl"))
        assert [hit.session.id for hit in search_sessions("badgers", "/work", home=store)] == ["c1"]
        assert find_session("", "/work", home=store).id == "c1"


async def test_reading_a_session_changes_nothing(store: SessionStore, tmp_path: Path) -> None:
    """S-12."""
    session = create_session(store)
    await agent(session, "one").run("first")
    session.close()
    before = [row.data for row in store.open("s1", write=False).rows()]
    for _ in range(3):
        Session.open("s1", home=store).close()
        Session.create("/work", home=store).close()
        read_transcript(store, "s1")
        list_sessions("/work", home=store)
        read_events("s1", home=store)
    assert [row.data for row in store.open("s1", write=False).rows()] == before
    assert [info.id for info in store.list()] == ["s1"]
    assert not (tmp_path / "logs").exists()


async def test_newer_session_is_read_but_not_written(store: SessionStore) -> None:
    """S-14."""
    header = SessionEntry(id="s1", parent=None, timestamp=NOW, version=2, cwd="/work")
    message = Message.user("from the future", timestamp=NOW)
    entry = MessageEntry(id="1", parent=None, timestamp=NOW, message=message, source="prompt")
    newer = b'{"type":"dream","id":"2","parent":"1","timestamp":"2030-01-01T00:00:00Z","of":{"sheep":[1]}}'
    log = store.create(header)
    log.append([encode_entry(header), encode_entry(entry), newer])
    before = [row.data for row in log.rows()]
    log.close()
    session = Session.open("s1", home=store, options=QUICK)
    assert texts(session.messages) == ["user: from the future"]
    assert {p.kind for p in session.problems} == {"newer", "unknown"}
    assert not session.writable
    await agent(session, "fine").run("go on")
    session.close()
    assert [row.data for row in store.open("s1", write=False).rows()] == before
    with pytest.raises(SessionError, match="newer version"):
        session.fork()


async def test_older_session_without_newer_fields_is_read(store: SessionStore) -> None:
    """A compaction of an older version lacks "before": everything is read, and the next compaction writes it."""
    session = create_session(store)
    one = agent(session, "one", "two", "three", "four")
    await one.run("first")
    one.context.messages[:] = [Message.user("short"), *one.context.messages[-1:]]
    await one.run("second")
    session.close()
    lines = [row.data for row in store.open("s1", write=False).rows()]
    old = [json.loads(line) for line in lines]
    for line in old:
        line.pop("before", None)
        if line["type"] == "session":
            line["id"] = "old"
    log = store.create(SessionEntry(id="old", parent=None, timestamp=NOW, version=1, cwd="/work"))
    log.append([json.dumps(line).encode() for line in old])
    log.close()
    again = Session.open("old", home=store, options=QUICK)
    assert (texts(again.messages), again.unread_entries) == (texts(session.messages), 0)
    two = agent(again, "three", "four")
    two.context.messages[:] = [Message.user("shorter"), *two.context.messages[-1:]]
    await two.run("third")
    assert reopen(again).unread_entries > 0
