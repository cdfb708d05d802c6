"""The journal of a session: writes every entry to the history and the log."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import WeakSet

from msgspec import Struct, field

from mainspring.errors import AgentBusyError, SessionError
from mainspring.lazy import lazy_class
from mainspring.messages import Message, utc_now
from mainspring.redaction import Redactor
from mainspring.sessions.entries import (
    Before,
    BranchEntry,
    CompactionEntry,
    Entry,
    LabelEntry,
    PairEntry,
    ResultEntry,
    RunStartEntry,
    SessionEntry,
    encode_entry,
)
from mainspring.sessions.history import History, UnfinishedCalls, build_missing_results
from mainspring.sessions.loader import (
    Line,
    SessionTree,
    history_at,
    read_from_end,
    read_path,
    read_tree,
    repair_history,
)
from mainspring.sessions.store import Problem, ReadableLog, SessionLog, StoredLine
from mainspring.text import pluralize

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.sessions.async_log import AsyncSessionLog
else:
    AsyncSessionLog = lazy_class("mainspring.sessions.async_log", "AsyncSessionLog")


MAX_INLINE_BYTES = 256 * 1024
"""Maximum bytes that are written in the event loop: there a write takes microseconds, and a thread costs more."""


def check_blocking(log: SessionLog) -> None:
    """Raise if a session cannot be written or released by a blocking call.

    Raises:
        SessionError: If it is in an asynchronous store, and open for writing.
    """
    if isinstance(log, AsyncSessionLog):
        log.check_blocking()


class LogWriter:
    """The only writer of a log.

    A small append to a fast log happens immediately. Large appends, the first one (which creates the file), and those that wait for the
    disk use a thread; lines that arrive in the meantime are written after them together.

    Args:
        log: Where to write.
        publish: Receives messages for the user.
        retry_after: Seconds after a failure before the next attempt.
    """

    def __init__(self, log: SessionLog, publish: Callable[[Problem], None], *, retry_after: float = 1.0) -> None:
        self.unsaved: list[bytes] = []
        self._log = log
        self._report = publish
        self._retry_after = retry_after
        self._failed: float | None = None
        self._sync = False
        self._busy: Future[None] | None = None
        self._writing: list[bytes] = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, lines: Sequence[bytes], *, sync: bool = False) -> bool:
        """Write lines.

        Args:
            lines: One or several, in order.
            sync: Whether to wait until they would survive a power failure.

        Returns:
            True if they are in the log. If not, they are `unsaved`, and the problem was reported.
        """
        if not self._log.writable:
            return False
        self.unsaved.extend(lines)
        self._sync = self._sync or sync
        while self._busy is not None:
            await asyncio.wrap_future(self._busy)
        if (self.unsaved or self._sync) and not self._is_in_backoff():
            batch, sync = self._take()
            if isinstance(self._log, AsyncSessionLog):
                await self._in_task(self._log, batch)
            elif (
                sync or not self._log.has_fast_append or not self._log.exists or sum(map(len, batch)) > MAX_INLINE_BYTES
            ):
                await self._in_thread(batch, sync)
            else:
                self._append(batch, sync)
        return not self.is_failing

    @property
    def is_failing(self) -> bool:
        """True if the last write failed."""
        return self._failed is not None

    async def retry(self) -> None:
        """Write the rest now, even right after a failure."""
        failed, self._failed = self._failed, None
        if not await self.write([]) and failed is not None:
            self._failed = failed

    def flush(self) -> None:
        """Write the rest. Blocks."""
        if self._busy is not None:
            self._busy.result()
        if self.unsaved and self._log.writable:
            self._append(*self._take())

    def _take(self) -> tuple[list[bytes], bool]:
        batch, sync = self.unsaved, self._sync
        self.unsaved, self._sync = [], False
        return batch, sync

    def _is_in_backoff(self) -> bool:
        return self._failed is not None and time.monotonic() - self._failed < self._retry_after

    async def _in_thread(self, batch: list[bytes], sync: bool) -> None:
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # The caller may be cancelled, the write must not be.
        self._busy = done

        def work() -> None:
            try:
                self._append(batch, sync)
            finally:
                self._busy = None
                done.set_result(None)

        try:
            asyncio.get_running_loop().run_in_executor(None, work)
        except RuntimeError:  # The event loop is shutting down and accepts no more work.
            work()
        await asyncio.wrap_future(done)

    async def _in_task(self, log: AsyncSessionLog, batch: list[bytes]) -> None:
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # The caller may be cancelled, the write must not be.
        self._busy, self._writing = done, batch

        async def work() -> None:
            error: OSError | None = None
            try:
                await log.append_lines(batch)
            except OSError as raised:
                error = raised
            except BaseException:  # The event loop is closing: the lines stay unsaved.
                self.unsaved[:0] = batch
                raise
            finally:  # In the same step of the loop as the end of the write, so that a reader sees the lines once.
                self._writing, self._busy = [], None
                done.set_result(None)
            self._settle(batch, error)

        self._task = asyncio.get_running_loop().create_task(work())
        await asyncio.wrap_future(done)

    def unwritten(self) -> list[bytes]:
        """Return the lines that are not in the log. Waits for a thread that is writing some."""
        if self._busy is not None and not isinstance(self._log, AsyncSessionLog):
            self._busy.result()
        return [*self._writing, *self.unsaved]

    def _append(self, batch: list[bytes], sync: bool) -> None:
        try:
            self._log.append(batch, sync=sync)
        except OSError as error:
            self._settle(batch, error)
        else:
            self._settle(batch, None)

    def _settle(self, batch: list[bytes], error: OSError | None) -> None:
        if error is not None:
            self.unsaved[:0] = batch
            first, self._failed = self._failed is None, time.monotonic()
            if first:
                text = f"cannot save the session to {self._log.place} ({error.strerror or error})"
                self._report(Problem("unsaved", f"{text}: it continues in memory, and saving will be retried"))
            return
        if self._failed is not None:
            self._failed = None
            self._report(Problem("saved", f"saving the session to {self._log.place} works again, nothing is missing"))


logger = logging.getLogger("mainspring.sessions")
logger.addHandler(logging.NullHandler())


FsyncMode = Literal["never", "calls", "always"]
"""When to wait for the disk, so that a power failure loses nothing.

``calls``: before a tool runs that is not idempotent, and at the end of a run. ``always``: with every entry. A killed process
loses nothing in any mode.
"""


_E = TypeVar("_E", bound=Entry)
_TITLE_REPEAT_BYTES = 8 * 1024  # bytes; less than the part at the end that a list reads
_WITHOUT_TEXT = (PairEntry, RunStartEntry, BranchEntry)


Redact = Callable[[bytes], bytes]
"""Redacts secrets in a line."""


class SessionOptions(Struct, frozen=True, kw_only=True):
    """Options for writing a session.

    Attributes:
        fsync: When to wait for the disk.
        redact_line: Redacts every line. By default `Redactor.of`, which knows the secrets of the environment.
        clock: Returns the time.
        retry_after: Seconds after a failed write before the next attempt.
    """

    fsync: FsyncMode = "calls"
    redact_line: Redact | None = field(default_factory=lambda: Redactor.of().line)
    clock: Callable[[], datetime] = utc_now
    retry_after: float = 1.0


class SessionWriter:
    """Records entries and writes lines.

    Attributes:
        header: The first line.
        history: The history of the entries on the path.
        leaf: The parent of the next entry.
        problems: Messages for the user, oldest first.
        log: Where the lines are written.
        save_without_message: Whether unstored entries are worth storing even if no message follows.
        agents: The agents that use this conversation.
        unread_entries: Number of entries that were not read because they are before the last compaction.
        closed: Whether it was closed: nothing more is stored.
    """

    def __init__(self, log: SessionLog, header: SessionEntry, options: SessionOptions) -> None:
        self.log = log
        self.header = header
        self.history = History()
        self.leaf: str | None = None
        self.problems: list[Problem] = []
        self.save_without_message = self.closed = False
        self.unread_entries = 0
        self.agents: WeakSet[CoreAgent] = WeakSet()
        self._options = options
        self._labels: dict[str, str] = {}
        self._entries = self._damaged = self._since_title = 0
        self._prefix = secrets.token_hex(4)
        self._count = 0
        self._waiting: list[bytes] = []
        self._lost = False
        self._writer = LogWriter(log, self.add_warning, retry_after=options.retry_after)
        for problem in log.problems:
            self.add_warning(problem)

    def begin(self, lines: list[bytes] | None = None) -> None:
        """Start a new session with a header and initial entries.

        Nothing is stored before the first message.
        """
        self._waiting = [self._encode(self.header), *(lines or ())]
        if lines:
            self._restore(read_tree(self.log_with_pending()))

    def resume(self) -> bool:
        """Load a stored session.

        Open calls of a killed program get their results with the next write.

        Returns:
            True if the process of the last run was killed.

        Raises:
            SessionError: If it is not a session.
            OSError: If it cannot be read.
        """
        recent = read_from_end(self.log)
        if recent is None:
            self._restore(read_tree(self.log))
        else:
            self.unread_entries, self._damaged = recent.unread_entries, recent.damaged
            self._restore(recent.tree, recent.history)
        return self.history.run is not None

    def add_warning(self, problem: Problem) -> None:
        """Report a problem to the user."""
        self.problems.append(problem)
        logger.log(logging.INFO if problem.kind == "saved" else logging.WARNING, "%s", problem)

    # --- writing ----------------------------------------------------------------------------------------------------

    def record(self, kind: type[_E], merged_message: Message | None = None, **fields: Any) -> _E:
        """Create an entry after the last one. The next `flush` stores it.

        Args:
            kind: Its class.
            merged_message: For a ``pair``, the message with the results.
            fields: Its fields, except ID, parent, and time.
        """
        self._count += 1
        id = f"{self._prefix}-{self._count:x}"
        fields.setdefault("timestamp", merged_message.timestamp if merged_message else self._options.clock())
        if kind is CompactionEntry:
            fields["before"] = self._snapshot()
        self._entries += 1
        entry = kind(id=id, parent=self.leaf, **fields)
        line = self._encode(entry)
        self._waiting.append(line)
        self._since_title += len(line)
        self.history.apply(entry, merged_message)
        if isinstance(entry, LabelEntry):
            self._labels[entry.target] = entry.label
            if entry.target == self.header.id:
                self._since_title = 0
        self.leaf = id
        return entry

    def repeat_title(self) -> None:
        """Repeat the session's title if it is far back in the file: a list reads only the beginning and the end of a session."""
        if self._since_title > _TITLE_REPEAT_BYTES and self._labels.get(self.header.id):
            self.record(LabelEntry, target=self.header.id, label=self.title)

    async def flush(self, *, durable: bool = False) -> bool:
        """Store recorded entries in one write.

        Args:
            durable: Whether to wait for the disk, if enabled.

        Returns:
            True if they are stored now.
        """
        lines, self._waiting = self._waiting, []
        if self.closed and lines and not self._lost:  # The session was closed during a run.
            self._lost = True
            self.add_warning(
                Problem("unsaved", f"{self._closed_message}; later messages of the run are in memory only")
            )
        sync = self._options.fsync
        return await self._writer.write(lines, sync=sync == "always" or (durable and sync == "calls"))

    def undo_last(self, entry: Entry) -> bool:
        """Remove the last entry, if it is not stored yet."""
        if self.leaf != entry.id or not self._waiting:
            return False
        self._waiting.pop()
        self._entries -= 1
        self.leaf = entry.parent
        return True

    @property
    def is_saving(self) -> bool:
        """True if writes reach the log."""
        return self.log.writable and not self._writer.is_failing

    def save(self) -> None:
        """Store everything that was recorded. Blocks.

        Raises:
            SessionError: If it is in an asynchronous store.
        """
        check_blocking(self.log)
        if self.log.writable:
            self._writer.unsaved.extend(self._waiting)
            self._waiting = []
        self._writer.flush()

    def close(self) -> None:
        """Store the rest and release the session for other writers.

        A session that was only read is unchanged.
        """
        if self.save_without_message and self.log.exists:
            self.save()
        self.closed = True
        self._writer.flush()
        self._warn_unsaved()
        self.log.close()

    async def aclose(self) -> None:
        """Do what `close` does without blocking the event loop, with any log."""
        if not isinstance(self.log, AsyncSessionLog):
            await asyncio.to_thread(self.close)
            return
        if self.save_without_message and self.log.exists:
            await self.flush()
        self.closed = True
        await self._writer.retry()
        self._warn_unsaved()
        await self.log.aclose()

    def _warn_unsaved(self) -> None:
        if self._writer.unsaved:
            entries = pluralize(len(self._writer.unsaved), "entry", "entries")
            text = f"{entries} of session {self.header.id} could not be saved: they are missing when you resume it"
            self.add_warning(Problem("unsaved", text))

    @property
    def title(self) -> str:
        """The session's title for users."""
        return self._labels.get(self.header.id, self.header.title)

    def _encode(self, entry: Entry) -> bytes:
        line = encode_entry(entry)
        redact = self._options.redact_line
        return line if redact is None or isinstance(entry, _WITHOUT_TEXT) else redact(line)

    # --- reading ----------------------------------------------------------------------------------------------------

    def log_with_pending(self) -> ReadableLog:
        """The log, including lines that are not written yet."""
        return _LogWithPending(self.log, [*self._writer.unwritten(), *self._waiting])

    def path(self, *, whole: bool = False) -> Iterator[Line]:
        """Return the entries from the root to the current leaf.

        With ``whole``, those of all branches, the current leaf last.
        """
        if self.leaf is None and not whole:
            return iter(())  # a new session
        view = self.log_with_pending()
        tree = read_tree(view)
        return read_path(view, tree.nodes.values() if whole else tree.path(self.leaf))

    def read_tree_with(self, entry: str) -> SessionTree:
        """Read the whole tree again.

        Raises:
            SessionError: If the entry does not exist.
        """
        tree = read_tree(self.log_with_pending())
        if entry not in tree.nodes:
            raise SessionError(f"session {self.header.id} has no entry {entry}")
        return tree

    def check_open(self) -> None:
        """Raise if the session was closed: new entries would be lost.

        Raises:
            SessionError: If it was closed.
        """
        if self.closed:
            where = f"before it is closed (inside the `with` block), or in Session.open({self.header.id!r})"
            raise SessionError(f"{self._closed_message}; do this {where}")

    @property
    def _closed_message(self) -> str:
        return f"session {self.header.id} is closed, so nothing more is saved in it"

    def check_idle(self) -> None:
        """Raise if an agent is using the session.

        Raises:
            AgentBusyError: If one is.
        """
        if any(agent.running for agent in self.agents):
            raise AgentBusyError("An agent is running in this session. Call abort() first.")

    def check_branch_point(self, to: str) -> History:
        """Return the history at an entry where a branch may start, not repaired yet.

        Raises:
            SessionError: If the entry does not exist or is between calls and their results.
        """
        history = history_at(self.read_tree_with(to), self.log_with_pending(), to)
        if any(calls.reasons is None for calls in history.open.values()):
            raise SessionError(
                f"Entry {to} is between tool calls and their results. Choose an entry before or after them."
            )
        return history

    def branch(self, entry_id: str | None, label: str = "", summary: str = "") -> BranchEntry:
        """Continue from another entry, or from before the first one with ``None``.

        Raises:
            SessionError: If the entry does not exist or is between calls and their results.
        """
        history = History() if entry_id is None else self.check_branch_point(entry_id)
        repair_history(history)
        left, self.leaf, self.history = self.leaf, entry_id, history
        return self.record(BranchEntry, left=left or "", label=label, summary=summary)

    def _snapshot(self) -> Before:
        """Summarize the entries stored so far."""
        history = self.history
        return Before(
            entries=self._entries,
            damaged=self._damaged,
            labels=dict(self._labels),
            model=history.model,
            run=history.run,
            ended=history.ended,
        )

    def _restore(self, tree: SessionTree, history: History | None = None) -> None:
        self.leaf = tree.leaf
        self.history = history or history_at(tree, self.log_with_pending(), tree.leaf)
        self._labels = tree.labels
        self._since_title = _TITLE_REPEAT_BYTES + 1  # in any entry
        self._entries = self.unread_entries + len(tree.nodes)
        self._damaged += len(tree.damaged)
        for calls in list(self.history.open.values()):
            if calls.reasons is None or calls.at < len(self.history.messages):
                self._close_calls(calls)
        for problem in [*tree.problems, *repair_history(self.history)]:
            self.add_warning(problem)

    def _close_calls(self, calls: UnfinishedCalls) -> None:
        """Give each open call of a killed run its result, and add the pair."""
        intent = calls.entry.id
        for block in build_missing_results(calls):
            self.record(ResultEntry, intent=intent, call=block.tool_use_id, result=block, repaired=True)
        refs = tuple([calls.results[call.id][0] for call in calls.message.tool_uses])
        self.record(PairEntry, intent=intent, results=refs, message=f"{intent}-results", repaired=True)


class _LogWithPending:
    """A log followed by lines that are not stored yet."""

    def __init__(self, log: SessionLog, lines: list[bytes]) -> None:
        self.place = log.place
        self._log = log
        self._lines = lines

    def rows(self) -> Iterator[StoredLine]:
        number = 0
        for row in self._log.rows():
            number = row.number
            yield row
        for i, line in enumerate(self._lines, 1):
            yield StoredLine(number + i, -i, line)

    def read(self, position: int) -> bytes:
        return self._lines[-position - 1] if position < 0 else self._log.read(position)
