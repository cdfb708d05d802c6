"""Reading a session from its end, as far back as the last compaction, whatever lies before it.

A compaction says what a reader needs of what came earlier (`Before`), and the messages that it keeps mostly stand right before
it. So the time and memory of a resume depend on what was said since, not on the whole. Where anything is out of order (a line that
cannot be read, an entry of a newer version, a message that stands far back in the middle) the answer is `None`, and the whole
session is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct, field

from mainspring.counting import counted
from mainspring.sessions.entries import (
    KNOWN,
    UNREADABLE,
    Before,
    CompactionEntry,
    Kept,
    LabelEntry,
    Link,
    PairEntry,
    decode_entry,
    decode_link,
)
from mainspring.sessions.history import History
from mainspring.sessions.loader import Node, Tree, fold, header_of, read_path
from mainspring.sessions.store import Problem, Row, SessionLog

NEAR, FAR = 4096, 1024
"""Lines right before a compaction, and at the beginning, in which the messages that it keeps are looked for."""

_STEP = 64


class Recent(Struct):
    """The newest part of a session.

    Attributes:
        tree: Its entries: the path from the compaction on, and what that one keeps; names of all entries.
        history: What they add up to.
        unread: How many entries before them were not read.
        damaged: How many lines before them cannot be read.
    """

    tree: Tree
    history: History
    unread: int = 0
    damaged: int = 0


class _Found(Struct):
    """What is known on the way back."""

    path: list[Node] = field(default_factory=list[Node])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    before: Before | None = None  # of the compaction nearest to the end, on whatever branch
    compaction: CompactionEntry | None = None  # on the path
    problems: list[Problem] = field(default_factory=list[Problem])
    count: int = 0


def read_recent(log: SessionLog) -> Recent | None:
    """The newest part of a session; ``None`` where the whole is to be read.

    Raises:
        SessionError: If it is none.
        OSError: If it cannot be read.
    """
    header = header_of(log, next(iter(log.rows()), None))
    back = log.back()
    found = _walk(back)
    if found is None or found.before is None:
        return None
    kept = _kept(log, back, found.compaction) if found.compaction else []
    if kept is None:
        return None
    nodes = [*kept, *reversed(found.path)]
    labels = {**found.before.labels, **found.labels}
    tree = Tree(header, {n.id: n for n in nodes}, found.path[0].id, labels, [], found.problems)
    before = found.compaction.before if found.compaction else None
    history = History()
    if before is not None:
        history.run, history.ended, history.model = before.run, before.ended, before.model
    fold(tree, read_path(log, nodes), history)
    if tree.damaged or history.lost:
        return None
    known = found.before
    if known.damaged:
        lines = counted(known.damaged, "line")
        text = f"left out, as it cannot be read: {lines} before the last compaction; an export says which"
        tree.problems.append(Problem("damaged", text))
    return Recent(tree, history, known.entries, known.damaged)


def _walk(back: Iterator[Row]) -> _Found | None:
    """Back along the path to its last compaction, or to its root; names are taken on the way, from all branches."""
    found = _Found()
    wanted: str | None = None
    settled = False
    for row in back:
        link = _link(row)
        if link is None:
            if row.complete:
                return None
            found.problems.append(Problem("torn", "the last line is incomplete; it was left out"))
            continue
        if link.type == "session" or link.type not in KNOWN:
            return None
        found.count += 1
        if not found.path:
            wanted = link.id
        if link.id == wanted and not settled:
            found.path.append(Node(link.id, link.type, link.parent, row.position, row.number))
            wanted = link.parent
            settled = wanted is None
        if link.type == "label" and not _name(found, row):
            return None
        if link.type == "compaction":
            entry = _compaction(row)
            if entry is None or entry.before is None:
                return None
            found.before = found.before or entry.before
            if found.path[-1].id == link.id:
                found.compaction = entry
                settled = True
        if settled and found.before is not None:
            return found
    return None


def _name(found: _Found, row: Row) -> bool:
    try:
        entry = decode_entry(row.data)
    except UNREADABLE:
        return False
    if isinstance(entry, LabelEntry) and found.before is None:
        found.labels.setdefault(entry.target, entry.label)
    return True


def _link(row: Row) -> Link | None:
    try:
        return decode_link(row.data)
    except UNREADABLE:
        return None


def _compaction(row: Row) -> CompactionEntry | None:
    try:
        entry = decode_entry(row.data)
    except UNREADABLE:
        return None
    return entry if isinstance(entry, CompactionEntry) else None


def _kept(log: SessionLog, back: Iterator[Row], compaction: CompactionEntry) -> list[Node] | None:
    """The entries of the messages that a compaction keeps, in their order; ``None`` if one is neither near nor at the beginning."""
    wanted = {item.entry for item in compaction.history if isinstance(item, Kept)}
    finder = _Finder(log, wanted)
    finder.look_back(back, NEAR // 8)
    finder.look(islice(log.rows(), FAR))
    finder.look_back(back, NEAR - NEAR // 8)
    return None if finder.missing else finder.nodes()


class _Finder:
    """Looks for entries among rows; a pair brings the call and the results that it joins."""

    def __init__(self, log: SessionLog, wanted: set[str]) -> None:
        self.missing = wanted
        self._log = log
        self._seen: dict[str, Node] = {}
        self._taken: dict[str, Node] = {}

    def look_back(self, rows: Iterator[Row], count: int) -> None:
        """Look among the next rows, a few at a time."""
        for _ in range(0, count, _STEP):
            self.look(islice(rows, _STEP))

    def look(self, rows: Iterator[Row]) -> None:
        """Look among rows, if something is missing."""
        if not self.missing:
            return
        for row in rows:
            link = _link(row)
            if link is not None:
                self._seen[link.id] = Node(link.id, link.type, link.parent, row.position, row.number)
        while found := [self._seen[id] for id in self.missing if id in self._seen]:
            self._taken.update({n.id: n for n in found})
            self.missing.difference_update(self._taken)
            for line in read_path(self._log, [n for n in found if n.kind == "pair"]):
                if isinstance(line.entry, PairEntry):
                    self.missing.update({line.entry.intent, *line.entry.results} - self._taken.keys())

    def nodes(self) -> list[Node]:
        return sorted(self._taken.values(), key=lambda n: n.position)
