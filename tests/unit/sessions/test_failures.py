"""Sessions whose files, databases, or disks fail."""

import asyncio
import re
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import SessionError
from mainspring.loop.hooks import BeforeToolRun, ToolFinished
from mainspring.messages import Cost, ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock, Usage
from mainspring.sessions import (
    CustomEntry,
    JsonlStore,
    MemorySessionStore,
    Session,
    SessionEntry,
    SessionStore,
    SqliteSessionStore,
    encode_entry,
    find_session,
    import_session,
    list_sessions,
    search_sessions,
)
from mainspring.sessions.blob_store import BlobStore
from mainspring.sessions.journal import MAX_INLINE_BYTES
from mainspring.sessions.jsonl_store import describe_last_writer
from tests.unit.sessions.harness import QUICK, describe, make_agent
from tests.unit.sessions.test_jsonl_store import make_line

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HEADER = SessionEntry(id="s1", parent=None, timestamp=NOW, version=1, cwd="/work")
STORES: dict[str, Callable[[Path], SessionStore]] = {
    "jsonl": JsonlStore,
    "sqlite": lambda folder: SqliteSessionStore(folder / "sessions.db"),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return STORES[request.param](tmp_path)


async def create_session(store: SessionStore, id: str = "s1", prompt: str = "Find zebras") -> Session:
    session = Session.create("/work", home=store, id=id, options=QUICK)
    await make_agent(session, "done").run(prompt)
    return session


# --- stores -------------------------------------------------------------------------------------------------------------


async def test_session_without_lock_support_is_written_with_a_warning(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (await create_session(store)).close()
    for module in ("jsonl_store", "sqlite_store"):
        monkeypatch.setattr(f"mainspring.sessions.{module}.try_lock", lambda handle: "unsupported")

    session = Session.open("s1", home=store, options=QUICK)

    assert [problem.kind for problem in session.problems] == ["locked"]
    assert "does not support locks: use this session in one process" in session.problems[0].text
    await make_agent(session, "again").run("Go on")
    session.close()
    assert describe(Session.open("s1", home=store, write=False).messages)[-1] == "assistant: again"


def test_incomplete_line_stays_if_another_process_may_have_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonlStore(tmp_path)
    store.create(HEADER).append([encode_entry(HEADER), make_line("a")])
    monkeypatch.setattr("mainspring.sessions.jsonl_store.try_lock", lambda handle: "unsupported")
    log = store.open("s1")
    with monkeypatch.context() as full:
        full.setattr("mainspring.sessions.jsonl_store.os.fdatasync", raise_no_space)
        with pytest.raises(OSError, match="No space"):
            log.append([make_line("b")], sync=True)

    log.append([make_line("c")])

    assert [line.data for line in log.rows()] == [encode_entry(HEADER), *map(make_line, "abc")]


def raise_no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_session_is_stored_without_a_folder_for_outputs(tmp_path: Path) -> None:
    (tmp_path / "context").write_text("")
    log = JsonlStore(tmp_path).create(HEADER)

    log.append([encode_entry(HEADER)])

    assert log.context_folder is None
    assert [line.data for line in log.rows()] == [encode_entry(HEADER)]


def test_empty_lines_of_a_file_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "s1.jsonl"
    file.write_bytes(encode_entry(HEADER) + b"\n\n" + make_line("a") + b"\r\n\n")
    log = JsonlStore(tmp_path / "home").open(str(file), write=False)

    assert [line.data for line in log.iter_lines_backward()] == [make_line("a"), encode_entry(HEADER)]
    assert [line.data for line in log.rows()] == [encode_entry(HEADER), make_line("a")]


def test_session_outside_the_store_is_deleted_alone(tmp_path: Path) -> None:
    file = tmp_path / "s1.jsonl"
    file.write_bytes(encode_entry(HEADER) + b"\n")
    kept = tmp_path / "home" / "context" / "s1" / "output"
    kept.parent.mkdir(parents=True)
    kept.write_text("")

    JsonlStore(tmp_path / "home").delete(str(file))

    assert not file.exists()
    assert kept.exists()


async def test_unreadable_session_files_are_listed_or_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = JsonlStore(tmp_path)
    session = await create_session(store)
    folder = Path(session.location).parent
    (folder / "gone.jsonl").symlink_to("nowhere")
    monkeypatch.setattr("mainspring.sessions.jsonl_store.read_header", raise_no_space)

    [info] = store.list()

    assert (info.id, info.problem) == ("s1", f"Cannot read {session.location}: No space left on device")
    with pytest.raises(SessionError, match="Cannot read .*: No space left on device"):
        store.open("s1", write=False)
    assert describe_last_writer(folder / "gone.jsonl") == ""


def test_preview_is_the_first_line_that_is_a_prompt(tmp_path: Path) -> None:
    lines = [
        encode_entry(CustomEntry(id="a", parent=None, timestamp=NOW, custom_type="prompt", data=1)),
        b'{"source":"prompt"}',
    ]
    file = tmp_path / "sessions" / "work" / "s1.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\n".join([encode_entry(HEADER), *lines, make_line("b", text="the prompt"), b""]))

    assert [info.preview for info in JsonlStore(tmp_path).list()] == ["the prompt"]


async def test_database_error_names_the_session(tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "sessions.db")
    session = await create_session(store)
    log = store.open("s1", write=False)
    with sqlite3.connect(store.path) as other:
        other.execute("CREATE TRIGGER t BEFORE DELETE ON lines BEGIN SELECT RAISE(ABORT, 'not today'); END")
    session.close()
    with pytest.raises(SessionError, match="Cannot delete session s1: not today"):
        store.delete("s1")
    with other:
        other.execute("DROP TABLE lines")
    other.close()

    with pytest.raises(OSError, match="database error: no such table: lines"):
        list(log.rows())


def test_database_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sessions.db").mkdir()

    with pytest.raises(SessionError, match=r"Cannot read .*sessions\.db: unable to open database file"):
        list(SqliteSessionStore(tmp_path / "sessions.db").list())


def test_many_lines_of_a_database_are_read_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.sessions.sqlite_store._PAGE", 2)
    log = SqliteSessionStore(tmp_path / "sessions.db").create(HEADER)
    lines = [encode_entry(HEADER), *(make_line(str(n)) for n in range(4))]
    log.append(lines)

    assert [line.data for line in log.rows()] == lines
    assert [line.data for line in log.iter_lines_backward()] == lines[::-1]


def test_second_process_does_not_create_the_same_session(tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "sessions.db")
    first, second = store.create(HEADER), store.create(HEADER)
    first.append([encode_entry(HEADER)])

    with pytest.raises(OSError, match="another process has created a session with this ID"):
        second.append([encode_entry(HEADER)])


def test_failed_write_of_a_blob_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.sessions.blob_store.os.replace", raise_no_space)

    with pytest.raises(OSError, match="No space"):
        BlobStore(tmp_path).put(b"content")

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


# --- sessions -----------------------------------------------------------------------------------------------------------


class FailingLog:
    """A log that fails to read, and records that it was closed."""

    def __init__(self, log: Any, data: bytes) -> None:
        self._log = log
        self._data = data
        self.is_closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def rows(self) -> Any:
        if not self._data:
            raise_no_space()
        for row in self._log.rows():
            yield type(row)(row.number, row.position, self._data)

    def close(self) -> None:
        self.is_closed = True
        self._log.close()


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "Cannot read .*: No space left on device"), (b"[]", "Not a session: the first line of .*")],
)
async def test_session_that_cannot_be_read_is_released(
    data: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonlStore(tmp_path)
    (await create_session(store)).close()
    log = FailingLog(store.open("s1"), data)
    monkeypatch.setattr(store, "open", lambda name, write: log)

    with pytest.raises(SessionError, match=message):
        Session.open("s1", home=store)

    assert log.is_closed


async def test_call_that_the_session_does_not_know_is_not_recorded(tmp_path: Path) -> None:
    session = Session.create("/work", home=tmp_path, id="s1", options=QUICK)
    agent = make_agent(session, "done")
    await agent.run("go")
    before = len(session.entries())
    call = ToolUseBlock("other", "look", {})

    start = await agent.bus.emit(BeforeToolRun(call, "turn", {}, True))
    result = ToolResultBlock("other", "look", "x")
    await agent.bus.emit(ToolFinished(call, "turn", result, output_bytes=1, seconds=0.0, metadata={}, tool_counts={}))

    assert not start.block
    assert len(session.entries()) == before


def test_event_loop_that_ends_stores_the_rest(tmp_path: Path) -> None:
    session = Session.create("/work", home=tmp_path, id="s1", options=QUICK)

    async def end_loop() -> None:
        session.add_custom("large", "x" * (MAX_INLINE_BYTES + 1))
        session.journal.save_without_message = True
        await asyncio.get_running_loop().shutdown_default_executor()
        await session.journal.flush()

    asyncio.run(end_loop())

    assert b"xxx" in Path(session.location).read_bytes()


def test_read_only_session_saves_nothing(tmp_path: Path) -> None:
    session = Session.create("/work", home=tmp_path, id="s1", options=QUICK)
    session.add_custom("mine", 1)
    session.journal.save()
    session.close()
    before = Path(session.location).read_bytes()
    reader = Session.open("s1", home=tmp_path, options=QUICK, write=False)

    reader.add_custom("mine", 2)
    reader.journal.save()
    reader.close()

    assert Path(session.location).read_bytes() == before


# --- search -------------------------------------------------------------------------------------------------------------


async def search(folder: Path) -> list[str]:
    return [hit.text for hit in search_sessions("zebras", "/work", home=JsonlStore(folder))]


def index_of(folder: Path) -> Path:
    [path] = [path for path in folder.iterdir() if path.suffix in (".db", ".sqlite")]
    return path


async def test_damaged_or_newer_index_is_created_again(tmp_path: Path) -> None:
    (await create_session(JsonlStore(tmp_path))).close()
    assert await search(tmp_path) == ["Find zebras"]
    path = index_of(tmp_path)

    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 7")
    newer.close()
    assert await search(tmp_path) == ["Find zebras"]
    with sqlite3.connect(path) as damaged:
        assert damaged.execute("PRAGMA user_version").fetchone() == (1,)
        damaged.execute("DROP TABLE seen")
    damaged.close()

    assert await search(tmp_path) == ["Find zebras"]


async def test_busy_index_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (await create_session(JsonlStore(tmp_path))).close()
    await search(tmp_path)
    inode = index_of(tmp_path).stat().st_ino
    connect = sqlite3.connect
    writer = connect(index_of(tmp_path), isolation_level=None)
    writer.execute("PRAGMA locking_mode = EXCLUSIVE")
    writer.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(sqlite3, "connect", lambda path, **options: connect(path, **{**options, "timeout": 0}))

    assert await search(tmp_path) == ["Find zebras"]

    writer.close()
    assert index_of(tmp_path).stat().st_ino == inode


async def test_unreadable_lines_are_not_found(tmp_path: Path) -> None:
    session = await create_session(JsonlStore(tmp_path))
    session.close()
    with open(session.location, "ab") as file:
        file.write(b'{"type":"message","text":"zebras"}\n')

    assert await search(tmp_path) == ["Find zebras"]


# --- names, import ------------------------------------------------------------------------------------------------------


async def test_session_is_found_by_an_unambiguous_name(tmp_path: Path) -> None:
    home = JsonlStore(tmp_path / "home")
    with pytest.raises(SessionError, match=r"No sessions in /work yet\."):
        find_session("", "/work", home=home)
    for id in ("aa1", "aa2"):
        (await create_session(home, id)).close()

    with pytest.raises(SessionError, match=r"'aa' matches 2 sessions: aa., aa.\. Use the ID\."):
        find_session("aa", "/work", home=home)
    outside = tmp_path / "other.jsonl"
    outside.write_bytes(encode_entry(HEADER) + b"\n")
    assert find_session(str(outside), "/work", home=home).place == str(outside)
    assert find_session("aa1", home=home).id == "aa1"


def test_import_skips_empty_and_unreadable_lines(tmp_path: Path) -> None:
    file = tmp_path / "s1.jsonl"
    odd = b'{"type":"custom","id":"c","parent":null,"customType":5}'
    mine = b'{"type":"custom","id":"d","parent":null,"timestamp":"2026-01-02T00:00:00Z","customType":"mine","data":1}'
    file.write_bytes(b"\n".join([encode_entry(HEADER), b"", odd, b"garbage", mine, make_line("a")]) + b"\n")

    id, problems = import_session(file, "/work", home=tmp_path / "home")

    assert problems == ("Line 4 cannot be read and was skipped.",)
    log = JsonlStore(tmp_path / "home").open(id, write=False)
    assert [line.data for line in log.rows()][1:] == [odd, mine, make_line("a")]
    memory = MemorySessionStore()
    import_session(file, "/work", home=memory)
    assert [info.id for info in memory.list()] == [id]


PARENT_ID_LINES = b"""\
{"type":"session","version":1,"id":"abc123","timestamp":"2026-02-03T10:00:00Z"}
{"type":"message","id":"m1","parentId":null,"message":{"role":"user","content":"Hello"}}
{"type":"message","id":"m2","parentId":"m1","message":{"role":"assistant","content":"Hi!"}}
{"type":"branch","id":"b1","parentId":"m2","label":"Alternative approach"}
{"type":"message","id":"m3","parentId":"m2","message":{"role":"user","content":"Try again"}}
"""
COMPACTION_LINE = b'{"type":"compaction","id":"c1","parentId":"m3","summary":"Greetings.","firstKeptId":"%s"}\n'


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (PARENT_ID_LINES, ["Hello", "Hi!", "Try again"]),
        (PARENT_ID_LINES + COMPACTION_LINE % b"m3", ["Greetings.", "Try again"]),
        (PARENT_ID_LINES + COMPACTION_LINE % b"m2", ["Greetings.", "Hi!", "Try again"]),
        (PARENT_ID_LINES + COMPACTION_LINE % b"gone", ["Greetings.", "Hello", "Hi!", "Try again"]),
    ],
)
def test_import_converts_parent_ids_and_kept_messages(tmp_path: Path, lines: bytes, texts: list[str]) -> None:
    file, home = tmp_path / "s.jsonl", tmp_path / "home"
    file.write_bytes(lines)

    id, problems = import_session(file, "/work", home=home)

    assert (id, problems) == ("abc123", ())
    messages = Session.open(id, home=home, write=False).messages
    assert [m.text.removeprefix("Summary of the conversation so far:\n\n") for m in messages] == texts


def test_import_of_damaged_parent_ids_skips_lines_and_ends(tmp_path: Path) -> None:
    circle = b'{"type":"%s","id":"%s","parentId":"%s"}\n'
    file, home = tmp_path / "s.jsonl", tmp_path / "home"
    file.write_bytes(
        PARENT_ID_LINES
        + b'{"id":"x","parentId":"m3"}\n{"type":"message","id":"y","parentId":["m3"]}\n{"type":"message","id":"z"}\n'
        + circle % (b"branch", b"b2", b"b3")
        + circle % (b"branch", b"b3", b"b2")
        + b'{"type":"compaction","id":"c1","parentId":"b3","summary":"","firstKeptId":5}\n'
        + b'{"type":"compaction","id":"c2","parentId":["b3"],"summary":""}\n'
    )

    _, problems = import_session(file, "/work", home=home)

    assert problems[:2] == tuple(f"Line {number} cannot be read and was skipped." for number in (6, 7))
    assert problems[2].startswith("Line 8 contains data that this version does not know")
    assert problems[3:] == ("Line 12 cannot be read and was skipped.",)


def test_import_of_lines_without_parent_keeps_their_order(tmp_path: Path) -> None:
    file, home = tmp_path / "s.jsonl", tmp_path / "home"
    file.write_bytes(re.sub(rb'"(parentId|timestamp)":[^,}]*,?', b"", PARENT_ID_LINES).replace(b",}", b"}"))

    id, problems = import_session(file, "/work", home=home)

    assert (id, problems) == ("abc123", ())
    assert [m.text for m in Session.open(id, home=home, write=False).messages] == ["Hello", "Hi!", "Try again"]


def test_import_reads_the_entries_that_a_session_reads(tmp_path: Path) -> None:
    file, home = tmp_path / "s1.jsonl", tmp_path / "home"
    file.write_bytes(
        encode_entry(HEADER) + b"\n"
        b'{"type":"message","id":"a","parent":"x","message":{"kind":"message","role":"user","content":[{"type":"text",'
        b'"text":"One"}],"timestamp":"2026-01-02T00:00:00Z"}}\n'
        b'{"type":"message","id":"b","parent":"a","message":{"kind":"message","role":"assistant","content":[{"type":"text",'
        b'"text":"Two"}],"timestamp":"2026-01-02T00:00:00Z"}}\n'
    )

    id, problems = import_session(file, "/work", home=home)

    assert problems == ()
    assert [m.text for m in Session.open(id, home=home, write=False).messages] == ["One", "Two"]


def test_import_of_a_newer_version_stores_nothing(tmp_path: Path) -> None:
    file = tmp_path / "s1.jsonl"
    file.write_bytes(encode_entry(HEADER).replace(b'"version":1', b'"version":99') + b"\n")

    with pytest.raises(SessionError, match=r"uses version 99 of the format.*Update Mainspring\."):
        import_session(file, "/work", home=tmp_path / "home")

    assert list_sessions(home=tmp_path / "home", everywhere=True) == []


def test_import_names_the_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "s1.jsonl"
    file.write_bytes(encode_entry(HEADER) + b"\n")
    store = MemorySessionStore()
    log = store.create(HEADER)
    monkeypatch.setattr(log, "append", lambda lines, sync: raise_no_space())
    monkeypatch.setattr(store, "create", lambda header: log)

    with pytest.raises(SessionError, match="Cannot write .*: No space left on device"):
        import_session(file, "/work", home=store)


CLASSIC_LINES = b"""\
{"type":"session","version":1,"id":"pi1","timestamp":"2026-02-03T10:00:00Z"}
{"type":"message","id":"m1","parentId":null,"message":{"role":"user","content":[{"type":"text","text":"Hello"},{"type":"image","data":"eA==","mimeType":"image/png"}],"timestamp":1770112800000}}
{"type":"message","id":"m2","parentId":"m1","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"s"},{"type":"toolCall","id":"c1","name":"look","arguments":{"path":"a"}},{"type":"toolCall","id":"c2","name":"look","arguments":{}}],"usage":{"input":3,"output":4,"cacheRead":0,"cacheWrite":0,"totalTokens":7,"cost":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"total":2}},"stopReason":"toolUse","timestamp":1770112801000}}
{"type":"message","id":"m3","parentId":"m2","message":{"role":"toolResult","toolCallId":"c1","toolName":"look","content":[{"type":"text","text":"seen"}],"isError":false,"timestamp":1770112802000}}
{"type":"message","id":"m4","parentId":"m3","message":{"role":"toolResult","toolCallId":"c2","toolName":"look","content":[{"type":"text","text":"no"}],"isError":true,"timestamp":1770112802000}}
{"type":"message","id":"m5","parentId":"m4","message":{"role":"assistant","content":[{"type":"text","text":"Done","textSignature":"t"}],"stopReason":"stop","timestamp":1770112803000}}
"""


@pytest.mark.covers("SES-09")
def test_import_reads_calls_results_images_and_numbers_as_times(tmp_path: Path) -> None:
    file, home = tmp_path / "pi.jsonl", tmp_path / "home"
    file.write_bytes(CLASSIC_LINES)

    id, problems = import_session(file, "/work", home=home)

    assert problems == ()
    opened = Session.open(id, home=home, write=False)
    messages = [m for m in opened.messages if isinstance(m, Message)]
    assert not opened.problems
    assert [m.role for m in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[0].content == (TextBlock("Hello"), ImageBlock("image/png", "eA=="))
    assert messages[0].timestamp == datetime(2026, 2, 3, 10, tzinfo=UTC)
    assert [(call.id, call.input) for call in messages[1].tool_uses] == [("c1", {"path": "a"}), ("c2", {})]
    assert messages[1].usage == Usage(3, 4, cost=Cost(1, 1))
    results = [result for m in messages for result in m.tool_results]
    assert [(r.tool_use_id, r.text, r.is_error) for r in results] == [("c1", "seen", False), ("c2", "no", True)]
    assert (messages[-1].stop_reason, messages[-1].content) == ("end_turn", (TextBlock("Done", "t"),))


@pytest.mark.parametrize("message", ['{"role":"robot","content":"Hi"}', '{"role":"user","content":5}', "7"])
def test_import_reports_messages_that_cannot_be_read(tmp_path: Path, message: str) -> None:
    bad = f'{{"type":"message","id":"m6","parentId":null,"message":{message}}}\n'.encode()
    file, home = tmp_path / "pi.jsonl", tmp_path / "home"
    file.write_bytes(CLASSIC_LINES + bad)
    assert import_session(file, "/work", home=home)[1][0].startswith("Line 7 contains data")

    file.write_bytes(CLASSIC_LINES.splitlines(keepends=True)[0].replace(b"pi1", b"pi2") + bad)
    with pytest.raises(SessionError, match="Nothing in .* can be read as part of a session, so it was not imported"):
        import_session(file, "/work", home=home)
    assert [info.id for info in list_sessions(home=home, everywhere=True)] == ["pi1"]


def test_import_keeps_branches_that_start_at_one_of_several_results(tmp_path: Path) -> None:
    branch = b'{"type":"message","id":"m6","parentId":"m3","message":{"role":"user","content":"Instead"}}\n'
    compaction = b'{"type":"compaction","id":"c9","parentId":"m6","summary":"S","firstKeptId":"m3"}\n'
    file, home = tmp_path / "pi.jsonl", tmp_path / "home"
    file.write_bytes(CLASSIC_LINES + branch + compaction)

    id, problems = import_session(file, "/work", home=home)

    assert problems == ()
    texts = [m.text for m in Session.open(id, home=home, write=False).messages if isinstance(m, Message)]
    assert texts[-1] == "Instead"
