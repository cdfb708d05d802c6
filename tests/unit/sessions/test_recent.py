"""A session is read from its last compaction on, with the same history as a full read."""

import io
import os
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

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
from mainspring.sessions.jsonl_store import iter_lines_backward
from mainspring.sessions.loader import NEAR_LINES, apply_entries, read_from_end, read_path, read_tree
from tests.unit.sessions.harness import QUICK, describe, encode_all, make_agent, make_calls

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(params=["jsonl", "memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    """Return an empty store of each kind."""
    factories: dict[str, Callable[[], SessionStore]] = {
        "jsonl": lambda: JsonlStore(tmp_path),
        "memory": MemorySessionStore,
        "sqlite": lambda: SqliteSessionStore(tmp_path / "sessions.db"),
    }
    return factories[request.param]()


def compact_history(agent: Any, keep: int, summary: str = "summary") -> None:
    """Replace the history of an agent by a summary and its newest messages."""
    agent.context.messages[:] = [Message.user(summary, timestamp=NOW), *agent.context.messages[-keep:]]


class CountingLog:
    """A log that counts the lines read from its end."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    def back(self) -> Any:
        for row in self.log.iter_lines_backward():
            self.count += 1
            yield row


def check_partial_read(store: SessionStore, name: str = "s1") -> int:
    """Assert that a partial read gives the full history; return the number of lines read from the end."""
    log = CountingLog(store.open(name, write=False))
    recent = read_from_end(cast("SessionLog", log))
    assert recent is not None
    tree = read_tree(log.log)
    full = apply_entries(tree, read_path(log.log, tree.path(tree.leaf)))
    fast = recent.history
    assert encode_all(fast.messages) == encode_all(full.messages)
    assert (fast.entry_ids, list(fast.open), fast.model) == (full.entry_ids, list(full.open), full.model)
    assert [r and r.id for r in (fast.run, fast.ended)] == [r and r.id for r in (full.run, full.ended)]
    assert (recent.tree.leaf, recent.tree.labels) == (tree.leaf, tree.labels)
    log.log.close()
    return log.count


async def create_long_session(store: SessionStore, *, keep: int = 3, more: int = 2) -> Session:
    """Create a session with many turns, a compaction in the next run, and some turns after it."""
    session = Session.create("/work", home=store, id="s1", options=QUICK, title="given")
    session.label("early name")
    turns = [r for i in range(20) for r in (make_calls(f"c{i}a", f"c{i}b"), f"answer {i}")]
    agent = make_agent(session, *turns, *["later"] * more)
    for i in range(20):
        await agent.run(f"prompt {i}")
    session.label("the point", session.entries()[2].id)
    session.record_model("scripted:other")
    compact_history(agent, keep)
    for i in range(more):
        await agent.run(f"more {i}")
    return session


@pytest.mark.covers("SES-18", "SES-16")
@pytest.mark.parametrize("keep", [1, 3, 7])
async def test_only_entries_after_the_last_compaction_are_read(store: SessionStore, keep: int) -> None:
    session = await create_long_session(store, keep=keep)
    expected, title, model = describe(session.messages), session.title, session.journal.history.model
    lines = len(list(session.journal.log.rows()))
    session.close()
    assert check_partial_read(store) < 120 < lines
    again = Session.open("s1", home=store, options=QUICK)
    assert describe(again.messages) == expected
    assert (again.title, again.journal.history.model) == (title, model) == ("early name", "scripted:other")
    assert again.problems == []
    assert 120 < again.unread_entries < lines
    assert len(again.entries()) > again.unread_entries  # entries() reads the rest
    last = make_agent(again, "on")
    await last.run("and now?")
    again.label("late name")
    again.close()
    assert Session.open("s1", home=store, write=False).title == "late name"
    check_partial_read(store)


async def test_second_compaction_preserves_facts_of_the_first(store: SessionStore) -> None:
    session = await create_long_session(store)
    session.close()
    again = Session.open("s1", home=store, options=QUICK)
    unread = again.unread_entries
    agent = make_agent(again, "x", "y")
    await agent.run("a")
    compact_history(agent, 2, "second summary")
    await agent.run("b")
    again.close()
    check_partial_read(store)
    third = Session.open("s1", home=store, options=QUICK, write=False)
    assert describe(third.messages) == ["user: second summary", "user: a", "assistant: x", "user: b", "assistant: y"]
    assert third.title == "early name"
    assert third.unread_entries > unread


async def test_compaction_on_another_branch_is_ignored(store: SessionStore) -> None:
    session = await create_long_session(store)
    entries = session.entries()
    early = next(e for e in entries if isinstance(e, MessageEntry) and e.source == "assistant")
    session.branch(early.id, "again")
    await make_agent(session, "other").run("instead")
    session.label("kept on a branch", early.id)
    expected = describe(session.messages)
    session.close()
    again = Session.open("s1", home=store, options=QUICK)
    assert describe(again.messages) == expected
    assert again.journal._labels[early.id] == "kept on a branch"
    assert again.title == "early name"
    again.branch(entries[-1].id)  # back to the branch with the compaction
    again.close()
    check_partial_read(store)


async def test_reset_history_needs_only_the_labels(store: SessionStore) -> None:
    session = await create_long_session(store)
    session.branch(None)
    await make_agent(session, "fresh").run("new start")
    session.close()
    assert check_partial_read(store) < 60
    again = Session.open("s1", home=store, options=QUICK, write=False)
    assert describe(again.messages) == ["user: new start", "assistant: fresh"]
    assert again.title == "early name"


async def test_everything_is_read_without_a_compaction(store: SessionStore) -> None:
    session = Session.create("/work", home=store, id="s1", options=QUICK)
    await make_agent(session, make_calls("c1"), "done").run("go")
    session.close()
    log = store.open("s1", write=False)
    assert read_from_end(log) is None
    log.close()
    assert Session.open("s1", home=store, write=False).unread_entries == 0


async def test_kill_after_a_compaction_is_detected(store: SessionStore) -> None:
    session = await create_long_session(store)
    session.journal.record(RunStartEntry, run="r9")
    session.journal.record(MessageEntry, message=Message.user("go", timestamp=NOW), source="prompt")
    calls = Message.assistant([ToolUseBlock("c9", "look")], timestamp=NOW, id="m9")
    session.journal.record(IntentEntry, message=calls)
    session.close()
    check_partial_read(store)
    again = Session.open("s1", home=store, options=QUICK)
    assert again.was_interrupted
    assert "Not started" in describe(again.messages)[-1]


async def test_compaction_during_a_run_records_that_run(store: SessionStore) -> None:
    session = Session.create("/work", home=store, id="s1", options=QUICK)
    session.journal.record(RunStartEntry, run="r1")
    session.journal.record(MessageEntry, message=Message.user("go", timestamp=NOW), source="prompt")
    agent = make_agent(session, "x")
    compact_history(agent, 1)
    session.plug()._record_replacement(agent.context.messages, "threshold")
    session.journal.record(MessageEntry, message=Message.user("more", timestamp=NOW), source="steer")
    session.save()
    session.close()
    check_partial_read(store)
    assert Session.open("s1", home=store, options=QUICK, write=False).was_interrupted


# --- damaged files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path


async def read_lines(path: Path) -> Path:
    session = await create_long_session(JsonlStore(path))
    session.close()
    return Path(session.location)


async def test_incomplete_tail_is_reported_and_the_rest_is_read_from_the_end(path: Path) -> None:
    file = await read_lines(path)
    expected = describe(Session.open("s1", home=path, write=False).messages)
    append_bytes(file, b'{"type":"message","id":"torn","par')
    again = Session.open("s1", home=path, options=QUICK)
    assert [p.kind for p in again.problems] == ["torn"]
    assert again.unread_entries > 0
    assert describe(again.messages) == expected
    await make_agent(again, "fine").run("go on")
    again.close()
    last = Session.open("s1", home=path, options=QUICK, write=False)
    assert [p.kind for p in last.problems] == ["damaged"]  # the incomplete line was terminated
    assert describe(last.messages) == [*expected, "user: go on", "assistant: fine"]


def append_bytes(file: Path, data: bytes) -> None:
    with file.open("ab") as out:
        out.write(data)


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        *(
            b'{"type":"%b","id":"h","parent":null,"timestamp":"2030-01-01T00:00:00Z"}' % kind
            for kind in (b"hologram", b"label", b"compaction", b"message")
        ),
    ],
)
async def test_everything_is_read_if_the_tail_is_damaged(path: Path, line: bytes) -> None:
    file = await read_lines(path)
    append_bytes(file, line + b"\n")
    log = JsonlStore(path).open("s1", write=False)
    assert read_from_end(log) is None
    log.close()
    again = Session.open("s1", home=path, options=QUICK, write=False)
    assert again.unread_entries == 0
    assert len(again.problems) == 1


async def test_damage_before_a_compaction_is_reported_later(path: Path) -> None:
    store = JsonlStore(path)
    session = Session.create("/work", home=store, id="s1", options=QUICK)
    await make_agent(session, "one").run("first")
    session.close()
    append_bytes(Path(session.location), b"garbage\nmore garbage\n")
    again = Session.open("s1", home=path, options=QUICK)
    assert len(again.problems) == 2
    agent = make_agent(again, "two", "three")
    await agent.run("second")
    compact_history(agent, 1)
    await agent.run("third")
    again.close()
    last = Session.open("s1", home=path, options=QUICK, write=False)
    assert last.unread_entries > 0
    assert [p.kind for p in last.problems] == ["damaged"]
    assert "2 lines before the last compaction" in str(last.problems[0])


def compacted_lines(count: int, kept: list[str], *, extra: int = 0) -> list[bytes]:
    """Return the lines of a session whose compaction keeps a few of many entries."""
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
async def test_kept_entries_are_found_near_the_end_or_at_the_start(path: Path, kept: list[str], is_near: bool) -> None:
    file = path / "s1.jsonl"
    file.write_bytes(b"\n".join(compacted_lines(10_000, kept)) + b"\n")
    log = CountingLog(JsonlStore(path).open(str(file), write=False))
    recent = read_from_end(cast("SessionLog", log))
    assert (recent is not None) is is_near
    assert log.count <= NEAR_LINES + 2
    log.log.close()
    session = Session.open(file, write=False)
    assert len(describe(session.messages)) == 1 + len([k for k in kept if k != "gone"])
    assert [p.kind for p in session.problems] == (["damaged"] if "gone" in kept else [])


@pytest.mark.covers("SES-18")
def test_memory_of_a_resume_does_not_depend_on_older_entries(path: Path) -> None:
    peaks: list[int] = []
    for count in (200, 20_000):
        file = path / f"{count}.jsonl"
        file.write_bytes(b"\n".join(compacted_lines(count, ["e0"], extra=20)) + b"\n")
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
def test_lines_from_the_end_equal_lines_from_the_start(pieces: list[bytes], ended: bool, block: int) -> None:
    data = b"\n".join(pieces) + (b"\n" if ended and pieces else b"")
    forward: list[tuple[int, bytes]] = []
    position = 0
    for line in io.BytesIO(data):
        forward.append((position, line))
        position += len(line)
    assert list(iter_lines_backward(io.BytesIO(data), block))[::-1] == forward


def test_line_longer_than_a_block_is_one_line(path: Path) -> None:
    file = path / "long"
    file.write_bytes(b"first\n" + b"x" * 5_000_000 + b"\n" + b"last" + os.linesep.encode())
    with file.open("rb") as stream:
        assert [len(line) for _, line in iter_lines_backward(stream)] == [5, 5_000_001, 6]
