"""Writes a session: every entry passes through the journal into the history and the log."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import WeakSet

from msgspec import Struct, field

from mainspring.errors import AgentBusyError, SessionError
from mainspring.messages import Message, utc_now
from mainspring.redaction import Redactor
from mainspring.sessions.entries import (
    Before,
    BranchEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    LabelEntry,
    PairEntry,
    ResultEntry,
    RunStartEntry,
    SessionEntry,
    encode_entry,
)
from mainspring.sessions.history import History, PendingCalls, build_missing_results
from mainspring.sessions.loader import (
    Line,
    SessionTree,
    history_at,
    read_from_end,
    read_path,
    read_tree,
    repair_history,
)
from mainspring.sessions.log_writer import LogWriter
from mainspring.sessions.store import Problem, SessionLog, StoredLine
from mainspring.text import pluralize

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent

logger = logging.getLogger("mainspring.sessions")
logger.addHandler(logging.NullHandler())

FsyncMode = Literal["never", "calls", "always"]
"""When to wait for the disk, so that a power failure loses nothing (a killed process never does): before a tool runs that is not
idempotent and at the end of a run, with every entry, or never."""

E = TypeVar("E", bound=Entry)
_TITLE_REPEAT_BYTES = 8 * 1024  # bytes; less than the part at the end that a list reads
_WITHOUT_TEXT = (PairEntry, RunStartEntry, BranchEntry)

Redact = Callable[[bytes], bytes]
"""Redacts secrets in a line."""


class SessionOptions(Struct, frozen=True, kw_only=True):
    """Options for writing a session.

    Attributes:
        sync: When to wait for the disk.
        redact: Redacts every line. By default `Redactor.of`, which knows the secrets of the environment.
        clock: Returns the time.
        retry_after: Seconds after a failed write before the next attempt.
    """

    sync: FsyncMode = "calls"
    redact: Redact | None = field(default_factory=lambda: Redactor.of().line)
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
        wanted: Whether unstored entries are worth storing even if no message follows.
        agents: The agents that use this conversation.
        unread: Number of entries that were not read because they are before the last compaction.
        closed: Whether it was closed: nothing more is stored.
    """

    def __init__(self, log: SessionLog, header: SessionEntry, options: SessionOptions) -> None:
        self.log = log
        self.header = header
        self.history = History()
        self.leaf: str | None = None
        self.problems: list[Problem] = []
        self.wanted = self.closed = False
        self.unread = 0
        self.agents: WeakSet[CoreAgent] = WeakSet()
        self._options = options
        self._labels: dict[str, str] = {}
        self._entries = self._damaged = self._since_title = 0
        self._prefix = secrets.token_hex(4)
        self._count = 0
        self._waiting: list[bytes] = []
        self._lost = False
        self._writer = LogWriter(log, self.tell, retry_after=options.retry_after)
        for problem in log.problems:
            self.tell(problem)

    def begin(self, lines: list[bytes] | None = None) -> None:
        """Start a new session with a header and initial entries. Nothing is stored before the first message."""
        self._waiting = [self._encoded(self.header), *(lines or ())]
        if lines:
            self._restore(read_tree(self.view()))

    def resume(self) -> bool:
        """Load a stored session. Open calls of a killed program get their results with the next write.

        Returns:
            Whether the process of the last run was killed.

        Raises:
            SessionError: If it is not a session.
            OSError: If it cannot be read.
        """
        recent = read_from_end(self.log)
        if recent is None:
            self._restore(read_tree(self.log))
        else:
            self.unread, self._damaged = recent.unread, recent.damaged
            self._restore(recent.tree, recent.history)
        return self.history.run is not None

    def tell(self, problem: Problem) -> None:
        """Report a problem to the user."""
        self.problems.append(problem)
        logger.log(logging.INFO if problem.kind == "saved" else logging.WARNING, "%s", problem)

    # --- writing ----------------------------------------------------------------------------------------------------

    def record(self, kind: type[E], joined: Message | None = None, **fields: Any) -> E:
        """Create an entry after the last one. The next `flush` stores it.

        Args:
            kind: Its class.
            joined: For a ``pair``, the message with the results.
            fields: Its fields, except ID, parent, and time.
        """
        self._count += 1
        id = f"{self._prefix}-{self._count:x}"
        fields.setdefault("timestamp", joined.timestamp if joined else self._options.clock())
        if kind is CompactionEntry:
            fields["before"] = self._before()
        self._entries += 1
        entry = kind(id=id, parent=self.leaf, **fields)
        line = self._encoded(entry)
        self._waiting.append(line)
        self._since_title += len(line)
        self.history.apply(entry, joined)
        if isinstance(entry, LabelEntry):
            self._labels[entry.target] = entry.label
            if entry.target == self.header.id:
                self._since_title = 0
        self.leaf = id
        return entry

    def note(self, custom_type: str, data: Any) -> CustomEntry:
        """Create a custom entry that is only useful together with a message. Alone, it does not cause the session to be stored."""
        return self.record(CustomEntry, custom_type=custom_type, data=data)

    def repeat_title(self) -> None:
        """Repeat the session's title if it is far back in the file: a list reads only the beginning and the end of a session."""
        if self._since_title > _TITLE_REPEAT_BYTES and self._labels.get(self.header.id):
            self.record(LabelEntry, target=self.header.id, label=self.title)

    async def flush(self, *, durable: bool = False) -> bool:
        """Store recorded entries in one write.

        Args:
            durable: Whether to wait for the disk, if enabled.

        Returns:
            Whether they are stored now.
        """
        lines, self._waiting = self._waiting, []
        if self.closed and lines and not self._lost:  # The session was closed during a run.
            self._lost = True
            self.tell(Problem("unsaved", f"{self._closed_message}; later messages of the run are in memory only"))
        sync = self._options.sync
        return await self._writer.put(lines, sync=sync == "always" or (durable and sync == "calls"))

    def take_back(self, entry: Entry) -> bool:
        """Remove the last entry, if it is not stored yet."""
        if self.leaf != entry.id or not self._waiting:
            return False
        self._waiting.pop()
        self._entries -= 1
        self.leaf = entry.parent
        return True

    @property
    def saved(self) -> bool:
        """Whether writes reach the log."""
        return self.log.writable and not self._writer.failing

    def save(self) -> None:
        """Store everything that was recorded. Blocks."""
        if self.log.writable:
            self._writer.unsaved.extend(self._waiting)
            self._waiting = []
        self._writer.flush()

    def close(self) -> None:
        """Store the rest and release the session for other writers. A session that was only read is unchanged."""
        if self.wanted and self.log.exists:
            self.save()
        self.closed = True
        self._writer.flush()
        if self._writer.unsaved:
            entries = pluralize(len(self._writer.unsaved), "entry", "entries")
            self.tell(Problem("unsaved", f"{entries} of session {self.header.id} could not be saved"))
        self.log.close()

    @property
    def title(self) -> str:
        """The session's title for users."""
        return self._labels.get(self.header.id, self.header.title)

    def _encoded(self, entry: Entry) -> bytes:
        line = encode_entry(entry)
        redact = self._options.redact
        return line if redact is None or isinstance(entry, _WITHOUT_TEXT) else redact(line)

    # --- reading ----------------------------------------------------------------------------------------------------

    def view(self) -> SessionLog:
        """The log, including lines that are not written yet."""
        return _LogWithPending(self.log, [*self._writer.unsaved, *self._waiting])

    def path(self, *, whole: bool = False) -> Iterator[Line]:
        """Return the entries from the root to the current leaf. With ``whole``, those of all branches, the current leaf last."""
        view = self.view()
        tree = read_tree(view)
        return read_path(view, tree.nodes.values() if whole else tree.path(self.leaf))

    def read_tree_with(self, entry: str) -> SessionTree:
        """Read the whole tree again.

        Raises:
            SessionError: If the entry does not exist.
        """
        tree = read_tree(self.view())
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
        history = history_at(self.read_tree_with(to), self.view(), to)
        if any(calls.reasons is None for calls in history.open.values()):
            raise SessionError(
                f"Entry {to} is between tool calls and their results. Choose an entry before or after them."
            )
        return history

    def branch(self, to: str | None, label: str = "", summary: str = "") -> BranchEntry:
        """Continue from another entry, or from before the first one with ``None``.

        Raises:
            SessionError: If the entry does not exist or is between calls and their results.
        """
        history = History() if to is None else self.check_branch_point(to)
        repair_history(history)
        left, self.leaf, self.history = self.leaf, to, history
        return self.record(BranchEntry, left=left or "", label=label, summary=summary)

    def _before(self) -> Before:
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
        self.history = history or history_at(tree, self.view(), tree.leaf)
        self._labels = tree.labels
        self._since_title = _TITLE_REPEAT_BYTES + 1  # in any entry
        self._entries = self.unread + len(tree.nodes)
        self._damaged += len(tree.damaged)
        for calls in list(self.history.open.values()):
            if calls.reasons is None or calls.at < len(self.history.messages):
                self._close_calls(calls)
        for problem in [*tree.problems, *repair_history(self.history)]:
            self.tell(problem)

    def _close_calls(self, calls: PendingCalls) -> None:
        """Give each open call of a killed run its result, and add the pair."""
        intent = calls.entry.id
        for block in build_missing_results(calls):
            self.record(ResultEntry, intent=intent, call=block.tool_use_id, result=block, repaired=True)
        refs = tuple([calls.results[call.id][0] for call in calls.message.tool_uses])
        self.record(PairEntry, intent=intent, results=refs, message=f"{intent}-results", repaired=True)


class _LogWithPending:
    """A log followed by lines that are not stored yet."""

    writable = False
    quick = True

    def __init__(self, log: SessionLog, lines: list[bytes]) -> None:
        self.place = log.place
        self.problems: list[Problem] = []
        self.context_folder = log.context_folder
        self.exists = True
        self._log = log
        self._lines = lines

    def append(self, lines: object, *, sync: bool = False) -> None:
        raise OSError("This log is read-only.")

    def back(self) -> Iterator[StoredLine]:
        for i in range(len(self._lines), 0, -1):
            yield StoredLine(0, -i, self._lines[i - 1])
        yield from self._log.back()

    def rows(self) -> Iterator[StoredLine]:
        number = 0
        for row in self._log.rows():
            number = row.number
            yield row
        for i, line in enumerate(self._lines, 1):
            yield StoredLine(number + i, -i, line)

    def read(self, position: int) -> bytes:
        return self._lines[-position - 1] if position < 0 else self._log.read(position)

    def close(self) -> None:
        """Do nothing."""
