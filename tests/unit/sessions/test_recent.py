"""A session is read from its last compaction on, and what is found is what reading all of it gives."""

import io
import os
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.messages import Message, ToolResultBlock, ToolUseBlock
from mainspring.sessions import (
    CompactionEntry,
    JsonlStore,
    Kept,
    MemorySessionStore,
    MessageEntry,
    Session,
    SessionEntry,
    SessionLog,
    SessionStore,
    SqliteSessionStore,
    encode_entry,
)
from mainspring.sessions.entries import Before, IntentEntry, PairEntry, ResultEntry, RunStartEntry
from mainspring.sessions.jsonl_reading import iter_lines_backward
from mainspring.sessions.loader import NEAR_LINES, apply_entries, read_from_end, read_path, read_tree
from tests.unit.sessions.harness import QUICK, agent, calling, encoded, texts

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(params=["jsonl", "memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    """Each store there is, empty."""
    made: dict[str, Callable[[], SessionStore]] = {
        "jsonl": lambda: JsonlStore(tmp_path),
        "memory": MemorySessionStore,
        "sqlite": lambda: SqliteSessionStore(tmp_path / "sessions.db"),
    }
    return made[request.param]()


def shorten(one: Any, keep: int, summary: str = "summary") -> None:
    """What a compaction does to an agent's history: a summary, then the newest messages."""
    one.context.messages[:] = [Message.user(summary, timestamp=NOW), *one.context.messages[-keep:]]


class Counting:
    """A log that counts the lines that are read from its end."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    def back(self) -> Any:
        for row in self.log.back():
            self.count += 1
            yield row


def check_same(store: SessionStore, name: str = "s1") -> int:
    """How many lines were read from the end; what they gave is what all lines give."""
    log = Counting(store.open(name, write=False))
    recent = read_from_end(cast("SessionLog", log))
    assert recent is not None
    tree = read_tree(log.log)
    full = apply_entries(tree, read_path(log.log, tree.path(tree.leaf)))
    fast = recent.history
    assert encoded(fast.messages) == encoded(full.messages)
    assert (fast.refs, list(fast.open), fast.model) == (full.refs, list(full.open), full.model)
    assert [r and r.id for r in (fast.run, fast.ended)] == [r and r.id for r in (full.run, full.ended)]
    assert (recent.tree.leaf, recent.tree.labels) == (tree.leaf, tree.labels)
    log.log.close()
    return log.count


async def long_session(store: SessionStore, *, keep: int = 3, more: int = 2) -> Session:
    """A session with many turns, a compaction in the next run, and some turns behind it."""
    session = Session.create("/work", home=store, id="s1", options=QUICK, title="given")
    session.label("early name")
    turns = [r for i in range(20) for r in (calling(f"c{i}a", f"c{i}b"), f"answer {i}")]
    one = agent(session, *turns, *["later"] * more)
    for i in range(20):
        await one.run(f"prompt {i}")
    session.label("the point", session.entries()[2].id)
    session.model_change("scripted:other")
    shorten(one, keep)
    for i in range(more):
        await one.run(f"more {i}")
    return session


@pytest.mark.covers("SES-18", "SES-16")
@pytest.mark.parametrize("keep", [1, 3, 7])
async def test_only_what_comes_after_the_last_compaction_is_read(store: SessionStore, keep: int) -> None:
    session = await long_session(store, keep=keep)
    expected, title, model = texts(session.messages), session.title, session.journal.history.model
    lines = len(list(session.journal.log.rows()))
    session.close()
    assert check_same(store) < 120 < lines
    again = Session.open("s1", home=store, options=QUICK)
    assert texts(again.messages) == expected
    assert (again.title, again.journal.history.model) == (title, model) == ("early name", "scripted:other")
    assert again.problems == []
    assert 120 < again.unread < lines
    assert len(again.entries()) > again.unread  # whoever asks for all of it gets all of it
    last = agent(again, "on")
    await last.run("and now?")
    again.label("late name")
    again.close()
    assert Session.open("s1", home=store, write=False).title == "late name"
    check_same(store)


async def test_a_second_compaction_keeps_what_the_first_one_knew(store: SessionStore) -> None:
    session = await long_session(store)
    session.close()
    again = Session.open("s1", home=store, options=QUICK)
    unread = again.unread
    one = agent(again, "x", "y")
    await one.run("a")
    shorten(one, 2, "second summary")
    await one.run("b")
    again.close()
    check_same(store)
    third = Session.open("s1", home=store, options=QUICK, write=False)
    assert texts(third.messages) == ["user: second summary", "user: a", "assistant: x", "user: b", "assistant: y"]
    assert third.title == "early name"
    assert third.unread > unread


async def test_a_compaction_on_another_branch_does_not_count(store: SessionStore) -> None:
    session = await long_session(store)
    entries = session.entries()
    early = next(e for e in entries if isinstance(e, MessageEntry) and e.source == "assistant")
    session.branch(early.id, "again")
    await agent(session, "other").run("instead")
    session.label("kept on a branch", early.id)
    expected = texts(session.messages)
    session.close()
    again = Session.open("s1", home=store, options=QUICK)
    assert texts(again.messages) == expected
    assert again.journal._labels[early.id] == "kept on a branch"
    assert again.title == "early name"
    again.branch(entries[-1].id)  # and back to where the compaction is
    again.close()
    check_same(store)


async def test_a_history_that_was_forgotten_needs_only_the_names(store: SessionStore) -> None:
    session = await long_session(store)
    session.branch(None)
    await agent(session, "fresh").run("new start")
    session.close()
    assert check_same(store) < 60
    again = Session.open("s1", home=store, options=QUICK, write=False)
    assert texts(again.messages) == ["user: new start", "assistant: fresh"]
    assert again.title == "early name"


async def test_without_a_compaction_all_is_read(store: SessionStore) -> None:
    session = Session.create("/work", home=store, id="s1", options=QUICK)
    await agent(session, calling("c1"), "done").run("go")
    session.close()
    log = store.open("s1", write=False)
    assert read_from_end(log) is None
    log.close()
    assert Session.open("s1", home=store, write=False).unread == 0


async def test_a_process_killed_after_a_compaction_is_noticed(store: SessionStore) -> None:
    session = await long_session(store)
    session.journal.record(RunStartEntry, run="r9")
    session.journal.record(MessageEntry, message=Message.user("go", timestamp=NOW), source="prompt")
    calls = Message.assistant([ToolUseBlock("c9", "look")], timestamp=NOW, id="m9")
    session.journal.record(IntentEntry, message=calls)
    session.close()
    check_same(store)
    again = Session.open("s1", home=store, options=QUICK)
    assert again.interrupted
    assert "Not started" in texts(again.messages)[-1]


async def test_a_compaction_in_the_middle_of_a_run_knows_that_run(store: SessionStore) -> None:
    session = Session.create("/work", home=store, id="s1", options=QUICK)
    session.journal.record(RunStartEntry, run="r1")
    session.journal.record(MessageEntry, message=Message.user("go", timestamp=NOW), source="prompt")
    one = agent(session, "x")
    shorten(one, 1)
    session.plug()._replace(one.context.messages, "threshold")
    session.journal.record(MessageEntry, message=Message.user("more", timestamp=NOW), source="steer")
    session.save()
    session.close()
    check_same(store)
    assert Session.open("s1", home=store, options=QUICK, write=False).interrupted


# --- files that are not as they should be ------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path


async def stored(path: Path) -> Path:
    session = await long_session(JsonlStore(path))
    session.close()
    return Path(session.place)


async def test_a_torn_tail_is_told_and_the_rest_is_read_from_the_end(path: Path) -> None:
    file = await stored(path)
    expected = texts(Session.open("s1", home=path, write=False).messages)
    spoil(file, b'{"type":"message","id":"torn","par')
    again = Session.open("s1", home=path, options=QUICK)
    assert [p.kind for p in again.problems] == ["torn"]
    assert again.unread > 0
    assert texts(again.messages) == expected
    await agent(again, "fine").run("go on")
    again.close()
    last = Session.open("s1", home=path, options=QUICK, write=False)
    assert [p.kind for p in last.problems] == ["damaged"]  # the torn line has an end now
    assert texts(last.messages) == [*expected, "user: go on", "assistant: fine"]


def spoil(file: Path, data: bytes) -> None:
    with file.open("ab") as out:
        out.write(data)


@pytest.mark.parametrize(
    "line", [b"garbage", b'{"type":"hologram","id":"h","parent":null,"timestamp":"2030-01-01T00:00:00Z"}']
)
async def test_where_something_is_out_of_order_all_is_read(path: Path, line: bytes) -> None:
    file = await stored(path)
    spoil(file, line + b"\n")
    log = JsonlStore(path).open("s1", write=False)
    assert read_from_end(log) is None
    log.close()
    again = Session.open("s1", home=path, options=QUICK, write=False)
    assert again.unread == 0
    assert len(again.problems) == 1


async def test_damage_before_a_compaction_is_remembered(path: Path) -> None:
    store = JsonlStore(path)
    session = Session.create("/work", home=store, id="s1", options=QUICK)
    await agent(session, "one").run("first")
    session.close()
    spoil(Path(session.place), b"garbage\nmore garbage\n")
    again = Session.open("s1", home=path, options=QUICK)
    assert len(again.problems) == 2
    one = agent(again, "two", "three")
    await one.run("second")
    shorten(one, 1)
    await one.run("third")
    again.close()
    last = Session.open("s1", home=path, options=QUICK, write=False)
    assert last.unread > 0
    assert [p.kind for p in last.problems] == ["damaged"]
    assert "2 lines before the last compaction" in str(last.problems[0])


def lines_of(count: int, kept: list[str], *, extra: int = 0) -> list[bytes]:
    """A session whose compaction keeps some entries of many."""
    lines = [encode_entry(SessionEntry(id="s1", parent=None, timestamp=NOW, version=1, cwd="/work"))]
    parent: str | None = None

    def add(kind: type[Any], id: str, **fields: Any) -> None:
        nonlocal parent
        lines.append(encode_entry(kind(id=id, parent=parent, timestamp=NOW, **fields)))
        parent = id

    for i in range(count):
        if i % 4 == 1:
            add(IntentEntry, f"i{i}", message=Message.assistant([ToolUseBlock(f"c{i}", "look")], timestamp=NOW))
            add(ResultEntry, f"r{i}", intent=f"i{i}", call=f"c{i}", result=ToolResultBlock(f"c{i}", "look", "x"))
            add(PairEntry, f"p{i}", intent=f"i{i}", results=(f"r{i}",))
        else:
            add(MessageEntry, f"e{i}", message=Message.user(f"text {i}", timestamp=NOW), source="prompt")
    history = (Message.user("summary", timestamp=NOW), *[Kept(id) for id in kept])
    add(CompactionEntry, "comp", history=history, before=Before(entries=count))
    for i in range(extra):
        add(MessageEntry, f"x{i}", message=Message.user(f"extra {i}", timestamp=NOW), source="prompt")
    return lines


@pytest.mark.parametrize(
    ("kept", "is_near"),
    [
        (["e0", "i9997", "p9997", "e9999"], True),
        (["e0", "i1", "p1", "e9999"], True),
        (["i5", "p5"], True),
        (["e5000"], False),
        (["gone"], False),
    ],
)
async def test_what_is_kept_is_found_near_or_at_the_beginning(path: Path, kept: list[str], is_near: bool) -> None:
    file = path / "s1.jsonl"
    file.write_bytes(b"\n".join(lines_of(10_000, kept)) + b"\n")
    log = Counting(JsonlStore(path).open(str(file), write=False))
    recent = read_from_end(cast("SessionLog", log))
    assert (recent is not None) is is_near
    assert log.count <= NEAR_LINES + 2
    log.log.close()
    session = Session.open(file, write=False)
    assert len(texts(session.messages)) == 1 + len([k for k in kept if k != "gone"])
    assert [p.kind for p in session.problems] == (["damaged"] if "gone" in kept else [])


@pytest.mark.covers("SES-18")
def test_the_memory_of_a_resume_does_not_grow_with_what_lies_before(path: Path) -> None:
    peaks: list[int] = []
    for count in (200, 20_000):
        file = path / f"{count}.jsonl"
        file.write_bytes(b"\n".join(lines_of(count, ["e0"], extra=20)) + b"\n")
        tracemalloc.start()
        session = Session.open(file, write=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(session.messages) == 22
        session.close()
    assert peaks[1] < peaks[0] * 1.5 + 1_000_000


@given(
    st.lists(st.sampled_from([b"", b"a", b"bc", b"x" * 7, b"y" * 8, b"z" * 9, b"\r", b"\xc3\xbc" * 5]), max_size=12),
    st.booleans(),
    st.integers(1, 20),
)
def test_lines_from_the_end_are_the_lines(pieces: list[bytes], ended: bool, block: int) -> None:
    data = b"\n".join(pieces) + (b"\n" if ended and pieces else b"")
    forward: list[tuple[int, bytes]] = []
    position = 0
    for line in io.BytesIO(data):
        forward.append((position, line))
        position += len(line)
    assert list(iter_lines_backward(io.BytesIO(data), block))[::-1] == forward


def test_a_line_of_many_blocks_is_one_line(path: Path) -> None:
    file = path / "long"
    file.write_bytes(b"first\n" + b"x" * 5_000_000 + b"\n" + b"last" + os.linesep.encode())
    with file.open("rb") as stream:
        assert [len(line) for _, line in iter_lines_backward(stream)] == [5, 5_000_001, 6]
