"""Writing of session lines: order, failures, and retries."""

import asyncio
import resource
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mainspring.loop.hooks import BeforeToolRun
from mainspring.sessions import (
    MemorySessionLog,
    MemorySessionStore,
    Problem,
    Session,
    SessionEntry,
    SessionOptions,
    StoredLine,
)
from mainspring.sessions.journal import MAX_INLINE_BYTES, FsyncMode, LogWriter
from mainspring.tools import tool
from tests.unit.sessions.harness import (
    QUICK,
    check_paired,
    describe,
    encode_all,
    line_types,
    make_agent,
    make_calls,
    read_text,
)


class FakeDisk:
    """A log whose writes fail or wait on request."""

    def __init__(self) -> None:
        self.place = "disk"
        self.writable = True
        self.exists = True
        self.has_fast_append = True
        self.context_folder = None
        self.problems: list[Problem] = []
        self.lines: list[bytes] = []
        self.full = False
        self.tries = 0
        self.syncs = 0
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.threads: set[int] = set()

    def reserve(self) -> None:
        pass

    def append(self, lines: Sequence[bytes], *, sync: bool = False) -> None:
        self.tries += 1
        self.entered.set()
        self.threads.add(threading.get_ident())
        assert self.gate.wait(120)
        if self.full:
            raise OSError(28, "No space left on device", "disk")
        self.lines += lines
        self.syncs += sync

    def rows(self) -> Iterator[StoredLine]:
        return iter(())

    def iter_lines_backward(self) -> Iterator[StoredLine]:
        return iter(())

    def read(self, position: int) -> bytes:
        return self.lines[position]

    def close(self) -> None:
        self.writable = False


def make_writer(disk: FakeDisk, retry_after: float = 0.0) -> tuple[LogWriter, list[Problem]]:
    problems_seen: list[Problem] = []
    return LogWriter(disk, problems_seen.append, retry_after=retry_after), problems_seen


async def test_small_writes_run_in_the_loop_and_large_ones_in_a_thread() -> None:
    disk = FakeDisk()
    writer, _ = make_writer(disk)
    await writer.write([b"a"])
    assert disk.threads == {threading.get_ident()}
    await writer.write([b"x" * (MAX_INLINE_BYTES + 1)])
    await writer.write([b"b"], sync=True)
    assert len(disk.threads) > 1
    assert [line[:1] for line in disk.lines] == [b"a", b"x", b"b"]
    assert disk.syncs == 1


async def test_writes_stay_in_order_on_a_slow_disk() -> None:
    disk = FakeDisk()
    writer, _ = make_writer(disk)
    disk.gate.clear()
    first = asyncio.create_task(writer.write([b"1"], sync=True))
    await asyncio.to_thread(disk.entered.wait)
    rest = [asyncio.create_task(writer.write([str(i).encode()])) for i in range(2, 30)]
    await asyncio.sleep(0)
    assert not any(t.done() for t in (first, *rest))
    disk.gate.set()
    await asyncio.gather(first, *rest)
    assert disk.lines == [str(i).encode() for i in range(1, 30)]
    assert disk.tries == 2  # waiting lines are written in one batch


async def test_cancelled_caller_does_not_cancel_the_write() -> None:
    disk = FakeDisk()
    writer, _ = make_writer(disk)
    disk.gate.clear()
    first = asyncio.create_task(writer.write([b"1"], sync=True))
    await asyncio.to_thread(disk.entered.wait)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(writer.write([b"2"]))
    await asyncio.sleep(0)
    disk.gate.set()
    await second
    assert disk.lines == [b"1", b"2"]


async def test_write_failure_is_reported_once_and_nothing_is_lost() -> None:
    disk = FakeDisk()
    writer, problems_seen = make_writer(disk)
    await writer.write([b"1"])
    disk.full = True
    for i in (b"2", b"3", b"4"):
        await writer.write([i])
    assert [p.kind for p in problems_seen] == ["unsaved"]
    assert "No space left on device" in str(problems_seen[0])
    assert writer.unsaved == [b"2", b"3", b"4"]
    disk.full = False
    await writer.write([b"5"])
    assert disk.lines == [b"1", b"2", b"3", b"4", b"5"]
    assert [p.kind for p in problems_seen] == ["unsaved", "saved"]
    disk.full = True
    await writer.write([b"6"])
    assert [p.kind for p in problems_seen] == ["unsaved", "saved", "unsaved"]
    disk.full = False
    writer.flush()
    assert disk.lines[-1] == b"6"


async def test_failing_disk_is_not_retried_before_the_delay() -> None:
    disk = FakeDisk()
    writer, _ = make_writer(disk, retry_after=60.0)
    disk.full = True
    for i in range(10):
        await writer.write([str(i).encode()])
    assert disk.tries == 1
    disk.full = False
    writer.flush()
    assert len(disk.lines) == 10


def test_writer_can_be_used_in_consecutive_event_loops() -> None:
    disk = FakeDisk()
    writer, _ = make_writer(disk)
    for i in range(3):
        asyncio.run(writer.write([str(i).encode()], sync=True))
    assert disk.lines == [b"0", b"1", b"2"]


# --- runs on a full disk ----------------------------------------------------------------------------------------------


class FileSizeLimit:
    """Limits the size of files of this process."""

    def __init__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def none(self, session: Session, more: int = 0) -> None:
        size = Path(session.location).stat().st_size + more
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, self.before[1]))

    def enough(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


@pytest.fixture
def size_limit() -> Iterator[FileSizeLimit]:
    size_limit = FileSizeLimit()
    yield size_limit
    size_limit.enough()


async def test_run_continues_on_a_full_disk_and_is_saved_later(size_limit: FileSizeLimit) -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, "one", make_calls("a"), "two", "three")
    await agent.run("first")
    size_limit.none(session)
    await agent.run("second")
    assert [p.kind for p in session.problems] == ["unsaved"]
    assert describe(agent.messages)[3:] == ["assistant: a?", "user: a=value of a", "assistant: two"]
    with Session.open(session.location, write=False) as reader:
        assert describe(reader.messages) == ["user: first", "assistant: one"]
        assert reader.problems == []
    size_limit.enough()
    await agent.run("third")
    assert [p.kind for p in session.problems] == ["unsaved", "saved"]
    session.close()
    assert encode_all(Session.open(session.location).messages) == encode_all(agent.messages)


@pytest.mark.covers("SES-15")
async def test_call_does_not_run_if_its_start_cannot_be_stored(size_limit: FileSizeLimit) -> None:
    """The call would look as if it never ran, since its message is on disk. The next message is only in memory."""
    session = Session.create(options=QUICK)
    ran: list[str] = []

    @tool
    async def act(key: str) -> str:
        """Act."""
        ran.append(key)
        return "done"

    agent = make_agent(session, make_calls("a", tool="act"), make_calls("b", tool="act"), "end", tools=[act])
    agent.on(BeforeToolRun, lambda _: size_limit.none(session) if not ran else None)
    await agent.run("go")
    assert ran == ["b"]
    check_paired(agent.messages)
    assert "can no longer be saved" in describe(agent.messages)[2]
    assert line_types(session)[-1] == "intent"
    size_limit.enough()
    session.close()
    assert encode_all(Session.open(session.location).messages) == encode_all(agent.messages)


async def test_partial_write_is_rolled_back(size_limit: FileSizeLimit) -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, "one", "two " * 100)
    await agent.run("first")
    before = read_text(session)
    size_limit.none(session, more=50)
    await agent.run("second")
    assert read_text(session) == before


def test_in_memory_store_works_with_fsync() -> None:
    store = MemorySessionStore()
    session = Session.create(home=store, options=SessionOptions(fsync="always"))
    asyncio.run(make_agent(session, make_calls("a"), "end").run("go"))
    assert isinstance(session.journal.log, MemorySessionLog)
    session.close()
    assert len(Session.open(session.id, home=store).messages) == 4


@pytest.mark.parametrize(("sync", "expected"), [("never", 0), ("calls", 2), ("always", 7)])
async def test_fsync_mode_determines_the_number_of_syncs(sync: FsyncMode, expected: int) -> None:
    disk = FakeDisk()
    header = SessionEntry(id="s", parent=None, timestamp=datetime.now(UTC), version=1, cwd="/")
    session = Session(MemorySessionStore(), disk, header, SessionOptions(fsync=sync))
    session.journal.begin()
    await make_agent(session, make_calls("a"), "end").run("go")
    assert disk.syncs == expected
