"""Lines on their way to the disk: order, failures and retries."""

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
from tests.unit.sessions.harness import QUICK, agent, calling, check_paired, encoded, text_of, texts, types


class Disk:
    """A log whose writes fail or wait when a test wants it."""

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

    def append(self, lines: Sequence[bytes], *, sync: bool = False) -> None:
        self.tries += 1
        self.entered.set()
        self.threads.add(threading.get_ident())
        assert self.gate.wait(10)
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


def made(disk: Disk, retry_after: float = 0.0) -> tuple[LogWriter, list[Problem]]:
    told: list[Problem] = []
    return LogWriter(disk, told.append, retry_after=retry_after), told


async def test_small_writes_stay_in_the_loop_and_large_ones_leave_it() -> None:
    disk = Disk()
    writer, _ = made(disk)
    await writer.write([b"a"])
    assert disk.threads == {threading.get_ident()}
    await writer.write([b"x" * (MAX_INLINE_BYTES + 1)])
    await writer.write([b"b"], sync=True)
    assert len(disk.threads) > 1
    assert [line[:1] for line in disk.lines] == [b"a", b"x", b"b"]
    assert disk.syncs == 1


async def test_the_order_is_kept_while_the_disk_is_slow() -> None:
    disk = Disk()
    writer, _ = made(disk)
    disk.gate.clear()
    first = asyncio.create_task(writer.write([b"1"], sync=True))
    await asyncio.to_thread(disk.entered.wait, 10)
    rest = [asyncio.create_task(writer.write([str(i).encode()])) for i in range(2, 30)]
    await asyncio.sleep(0)
    assert not any(t.done() for t in (first, *rest))
    disk.gate.set()
    await asyncio.gather(first, *rest)
    assert disk.lines == [str(i).encode() for i in range(1, 30)]
    assert disk.tries == 2  # all that waited went together


async def test_who_waits_may_be_cancelled_and_the_write_is_not() -> None:
    disk = Disk()
    writer, _ = made(disk)
    disk.gate.clear()
    first = asyncio.create_task(writer.write([b"1"], sync=True))
    await asyncio.to_thread(disk.entered.wait, 10)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(writer.write([b"2"]))
    await asyncio.sleep(0)
    disk.gate.set()
    await second
    assert disk.lines == [b"1", b"2"]


async def test_a_failure_is_told_once_and_nothing_is_lost() -> None:
    disk = Disk()
    writer, told = made(disk)
    await writer.write([b"1"])
    disk.full = True
    for i in (b"2", b"3", b"4"):
        await writer.write([i])
    assert [p.kind for p in told] == ["unsaved"]
    assert "No space left on device" in str(told[0])
    assert writer.unsaved == [b"2", b"3", b"4"]
    disk.full = False
    await writer.write([b"5"])
    assert disk.lines == [b"1", b"2", b"3", b"4", b"5"]
    assert [p.kind for p in told] == ["unsaved", "saved"]
    disk.full = True
    await writer.write([b"6"])
    assert [p.kind for p in told] == ["unsaved", "saved", "unsaved"]
    disk.full = False
    writer.flush()
    assert disk.lines[-1] == b"6"


async def test_a_failing_disk_is_left_in_peace_for_a_while() -> None:
    disk = Disk()
    writer, _ = made(disk, retry_after=60.0)
    disk.full = True
    for i in range(10):
        await writer.write([str(i).encode()])
    assert disk.tries == 1
    disk.full = False
    writer.flush()
    assert len(disk.lines) == 10


def test_a_writer_serves_one_event_loop_after_the_other() -> None:
    disk = Disk()
    writer, _ = made(disk)
    for i in range(3):
        asyncio.run(writer.write([str(i).encode()], sync=True))
    assert disk.lines == [b"0", b"1", b"2"]


# --- whole runs on a full disk ----------------------------------------------------------------------------------------


class Room:
    """How far files of this process may grow."""

    def __init__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def none(self, session: Session, more: int = 0) -> None:
        size = Path(session.location).stat().st_size + more
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, self.before[1]))

    def enough(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


@pytest.fixture
def room() -> Iterator[Room]:
    room = Room()
    yield room
    room.enough()


async def test_a_run_goes_on_when_the_disk_is_full_and_is_stored_when_it_is_not(room: Room) -> None:
    session = Session.create(options=QUICK)
    one = agent(session, "one", calling("a"), "two", "three")
    await one.run("first")
    room.none(session)
    await one.run("second")
    assert [p.kind for p in session.problems] == ["unsaved"]
    assert texts(one.messages)[3:] == ["assistant: a?", "user: a=value of a", "assistant: two"]
    with Session.open(session.location, write=False) as reader:
        assert texts(reader.messages) == ["user: first", "assistant: one"]
        assert reader.problems == []
    room.enough()
    await one.run("third")
    assert [p.kind for p in session.problems] == ["unsaved", "saved"]
    session.close()
    assert encoded(Session.open(session.location).messages) == encoded(one.messages)


@pytest.mark.covers("SES-15")
async def test_a_call_whose_start_cannot_be_stored_does_not_run_behind_the_back_of_its_record(room: Room) -> None:
    """Its message is on disk: a reader would take it for a call that never ran. The next one is in memory as a whole."""
    session = Session.create(options=QUICK)
    ran: list[str] = []

    @tool
    async def act(key: str) -> str:
        """Act."""
        ran.append(key)
        return "done"

    one = agent(session, calling("a", tool="act"), calling("b", tool="act"), "end", tools=[act])
    one.on(BeforeToolRun, lambda _: room.none(session) if not ran else None)
    await one.run("go")
    assert ran == ["b"]
    check_paired(one.messages)
    assert "can no longer be saved" in texts(one.messages)[2]
    assert types(session)[-1] == "intent"
    room.enough()
    session.close()
    assert encoded(Session.open(session.location).messages) == encoded(one.messages)


async def test_a_torn_write_is_taken_back(room: Room) -> None:
    session = Session.create(options=QUICK)
    one = agent(session, "one", "two " * 100)
    await one.run("first")
    before = text_of(session)
    room.none(session, more=50)
    await one.run("second")
    assert text_of(session) == before


def test_a_store_that_is_not_a_disk_works_too() -> None:
    store = MemorySessionStore()
    session = Session.create(home=store, options=SessionOptions(fsync="always"))
    asyncio.run(agent(session, calling("a"), "end").run("go"))
    assert isinstance(session.journal.log, MemorySessionLog)
    session.close()
    assert len(Session.open(session.id, home=store).messages) == 4


@pytest.mark.parametrize(("sync", "expected"), [("never", 0), ("calls", 2), ("always", 7)])
async def test_the_disk_is_waited_for_as_often_as_was_asked(sync: FsyncMode, expected: int) -> None:
    disk = Disk()
    header = SessionEntry(id="s", parent=None, timestamp=datetime.now(UTC), version=1, cwd="/")
    session = Session(MemorySessionStore(), disk, header, SessionOptions(fsync=sync))
    session.journal.begin()
    await agent(session, calling("a"), "end").run("go")
    assert disk.syncs == expected
