"""A session while it is written: every entry goes through here, into the history and towards the log."""

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
"""When to wait for the disk, so that a power failure loses nothing (the end of the process never does): before a tool runs
that is not idempotent and at the end of a run, with every entry, or never."""

E = TypeVar("E", bound=Entry)
_TITLE_REPEAT_BYTES = 8 * 1024  # bytes; less than what a list reads of the end
_WITHOUT_TEXT = (PairEntry, RunStartEntry, BranchEntry)

Redact = Callable[[bytes], bytes]
"""Takes secrets out of a line."""


class SessionOptions(Struct, frozen=True, kw_only=True):
    """How a session is written.

    Attributes:
        sync: When to wait for the disk.
        redact: Redacts every line; by default with `Redactor.of`, which knows the secrets of the environment.
        clock: Gives the time.
        retry_after: Seconds after a failed write before the next try.
    """

    sync: FsyncMode = "calls"
    redact: Redact | None = field(default_factory=lambda: Redactor.of().line)
    clock: Callable[[], datetime] = utc_now
    retry_after: float = 1.0


class SessionWriter:
    """Entries in, lines out.

    Attributes:
        header: The first line.
        history: What the entries on the path add up to.
        leaf: The entry that the next one hangs on.
        problems: What people should be told, oldest first.
        log: Where the lines go.
        wanted: Whether what is recorded and not stored yet matters even if no message follows.
        agents: Who has its conversation here.
        unread: How many entries were not read, because they lie before the last compaction.
        closed: Whether it is over: nothing is stored any more.
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
        """Start a new session: the header, and the entries it begins with; nothing is stored before the first message."""
        self._waiting = [self._encoded(self.header), *(lines or ())]
        if lines:
            self._restore(read_tree(self.view()))

    def resume(self) -> bool:
        """Take up a stored session. Calls that a stopped program left get their results with the next write.

        Returns:
            Whether the process of the last run was killed.

        Raises:
            SessionError: If it is none.
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
        """Have people told of something."""
        self.problems.append(problem)
        logger.log(logging.INFO if problem.kind == "saved" else logging.WARNING, "%s", problem)

    # --- writing ----------------------------------------------------------------------------------------------------

    def record(self, kind: type[E], joined: Message | None = None, **fields: Any) -> E:
        """Make an entry behind the last one. It is stored with the next `flush`.

        Args:
            kind: Which.
            joined: For a ``pair``, the message with the results.
            fields: What it holds, beside id, parent and time.
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
        """Make a custom entry that only matters beside a message: by itself it makes nobody store the session."""
        return self.record(CustomEntry, custom_type=custom_type, data=data)

    def repeat_title(self) -> None:
        """Say the session's name again where it stands far back: a list reads only the beginning and the end of a session."""
        if self._since_title > _TITLE_REPEAT_BYTES and self._labels.get(self.header.id):
            self.record(LabelEntry, target=self.header.id, label=self.title)

    async def flush(self, *, durable: bool = False) -> bool:
        """Store what was recorded, in one write.

        Args:
            durable: Whether to wait for the disk, if that was asked for at all.

        Returns:
            Whether it is stored now.
        """
        lines, self._waiting = self._waiting, []
        if self.closed and lines and not self._lost:  # closed under a run that goes on
            self._lost = True
            self.tell(Problem("unsaved", f"{self._closed_message}; what a run adds to it now is in memory only"))
        sync = self._options.sync
        return await self._writer.put(lines, sync=sync == "always" or (durable and sync == "calls"))

    def take_back(self, entry: Entry) -> bool:
        """Forget the last entry, if it is still waiting to be stored."""
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
        """Store everything that was recorded, and block meanwhile."""
        if self.log.writable:
            self._writer.unsaved.extend(self._waiting)
            self._waiting = []
        self._writer.flush()

    def close(self) -> None:
        """Store what is left and let others write. Looking at a session leaves nothing behind."""
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
        """The session's name for people."""
        return self._labels.get(self.header.id, self.header.title)

    def _encoded(self, entry: Entry) -> bytes:
        line = encode_entry(entry)
        redact = self._options.redact
        return line if redact is None or isinstance(entry, _WITHOUT_TEXT) else redact(line)

    # --- reading ----------------------------------------------------------------------------------------------------

    def view(self) -> SessionLog:
        """The log, with what has not reached it yet."""
        return _LogWithPending(self.log, [*self._writer.unsaved, *self._waiting])

    def path(self, *, whole: bool = False) -> Iterator[Line]:
        """The entries from the root to the current leaf; with ``whole`` those of all branches, the current leaf last."""
        view = self.view()
        tree = read_tree(view)
        return read_path(view, tree.nodes.values() if whole else tree.path(self.leaf))

    def read_tree_with(self, entry: str) -> SessionTree:
        """The whole tree, read anew.

        Raises:
            SessionError: If there is no such entry.
        """
        tree = read_tree(self.view())
        if entry not in tree.nodes:
            raise SessionError(f"session {self.header.id} has no entry {entry}")
        return tree

    def check_open(self) -> None:
        """Nothing, unless the session was closed: what would be recorded now would be lost.

        Raises:
            SessionError: If it was.
        """
        if self.closed:
            where = f"before it is closed (inside the `with` block), or in Session.open({self.header.id!r})"
            raise SessionError(f"{self._closed_message}; do this {where}")

    @property
    def _closed_message(self) -> str:
        return f"session {self.header.id} is closed, so that nothing more is saved in it"

    def check_idle(self) -> None:
        """Nothing, unless an agent is using the session right now.

        Raises:
            AgentBusyError: If one is.
        """
        if any(agent.running for agent in self.agents):
            raise AgentBusyError("an agent is running in this session; abort() it first")

    def check_branch_point(self, to: str) -> History:
        """The history at an entry where a branch may begin, not mended yet.

        Raises:
            SessionError: If there is no such entry, or it stands between calls and their results.
        """
        history = history_at(self.read_tree_with(to), self.view(), to)
        if any(calls.reasons is None for calls in history.open.values()):
            raise SessionError(f"entry {to} stands between tool calls and their results; choose one before or after")
        return history

    def branch(self, to: str | None, label: str = "", summary: str = "") -> BranchEntry:
        """Go on from another entry, or with ``None`` from before the first one.

        Raises:
            SessionError: If there is no such entry, or it stands between calls and their results.
        """
        history = History() if to is None else self.check_branch_point(to)
        repair_history(history)
        left, self.leaf, self.history = self.leaf, to, history
        return self.record(BranchEntry, left=left or "", label=label, summary=summary)

    def _before(self) -> Before:
        """What is stored so far, in short."""
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
        self._since_title = _TITLE_REPEAT_BYTES + 1  # wherever it stands
        self._entries = self.unread + len(tree.nodes)
        self._damaged += len(tree.damaged)
        for calls in list(self.history.open.values()):
            if calls.reasons is None or calls.at < len(self.history.messages):
                self._close_calls(calls)
        for problem in [*tree.problems, *repair_history(self.history)]:
            self.tell(problem)

    def _close_calls(self, calls: PendingCalls) -> None:
        """Give each call of a stopped run its result, and let the pair join."""
        intent = calls.entry.id
        for block in build_missing_results(calls):
            self.record(ResultEntry, intent=intent, call=block.tool_use_id, result=block, repaired=True)
        refs = tuple([calls.results[call.id][0] for call in calls.message.tool_uses])
        self.record(PairEntry, intent=intent, results=refs, message=f"{intent}-results", repaired=True)


class _LogWithPending:
    """A log with lines behind it that are not stored yet."""

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
        raise OSError("this is for reading only")

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
        """There is nothing to close."""
