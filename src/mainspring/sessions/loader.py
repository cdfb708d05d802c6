"""Reading a session: the tree of its entries, the path to a leaf, and the history along it.

The first pass takes type, id and parent of each line and nothing else; the second reads the lines of the path. A line that
cannot be read is left out and told, with its number; what hung on it then hangs on the entry before it.

Reading a session from its end, as far back as the last compaction, whatever lies before it.

A compaction says what a reader needs of what came earlier (`Before`), and the messages that it keeps mostly stand right before
it. So the time and memory of a resume depend on what was said since, not on the whole. Where anything is out of order (a line that
cannot be read, an entry of a newer version, a message that stands far back in the middle) the answer is `None`, and the whole
session is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct, field

from mainspring.errors import SessionError
from mainspring.sessions.entries import (
    DECODE_ERRORS,
    ENTRY_TYPES,
    Before,
    CompactionEntry,
    Entry,
    EntryHeader,
    Kept,
    LabelEntry,
    PairEntry,
    SessionEntry,
    decode_entry,
    decode_header,
)
from mainspring.sessions.history import History, PendingCalls, repair_pairs
from mainspring.sessions.store import Problem, SessionLog, StoredLine
from mainspring.text import pluralize


class EntryNode(Struct, frozen=True):
    """An entry in the tree."""

    id: str
    kind: str
    parent: str | None
    position: int
    number: int


class SessionTree(Struct):
    """The entries of a session.

    Attributes:
        header: The first line.
        nodes: Every other entry, by id, in the order of the lines.
        leaf: The last entry; ``None`` where there is none.
        labels: Names of entries (and of the session), by id.
        damaged: Numbers of the lines that cannot be read, an incomplete last one left out.
        problems: What to tell.
    """

    header: SessionEntry
    nodes: dict[str, EntryNode] = field(default_factory=dict[str, EntryNode])
    leaf: str | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    damaged: list[int] = field(default_factory=list[int])
    problems: list[Problem] = field(default_factory=list[Problem])

    def path(self, leaf: str | None) -> list[EntryNode]:
        """The entries from the root to a leaf."""
        nodes: list[EntryNode] = []
        while leaf is not None:
            node = self.nodes[leaf]
            nodes.append(node)
            leaf = node.parent
        nodes.reverse()
        return nodes


class Line(Struct, frozen=True):
    """An entry that was read: ``entry`` is ``None`` if this version does not know what it is."""

    number: int
    data: bytes
    entry: Entry | None


def read_tree(log: SessionLog) -> SessionTree:
    """The tree of a session.

    Raises:
        SessionError: If it is none.
        OSError: If it cannot be read.
    """
    rows = iter(log.rows())
    tree = SessionTree(decode_header_row(log, next(rows, None)))
    for row in rows:
        _handle_event(tree, row)
    return tree


def decode_header_row(log: SessionLog, row: StoredLine | None) -> SessionEntry:
    """The header of a session, from its first row.

    Raises:
        SessionError: If it is none.
    """
    try:
        entry = decode_entry(row.data) if row else None
    except DECODE_ERRORS:
        entry = None
    if not isinstance(entry, SessionEntry):
        raise SessionError(f"{log.place} is no session: its first line is not the header of one")
    return entry


def _handle_event(tree: SessionTree, row: StoredLine) -> None:
    try:
        link = decode_header(row.data)
    except DECODE_ERRORS:
        _damaged(tree, row)
        return
    if link.id in tree.nodes or link.type == "session":
        tree.problems.append(
            Problem("damaged", f"line {row.number} was left out: there is an entry {link.id} before it")
        )
        return
    parent = link.parent
    if parent is not None and parent not in tree.nodes:
        text = f"line {row.number} hangs on an entry that is not there ({parent}); it was put behind the line before it"
        tree.problems.append(Problem("damaged", text))
        parent = tree.leaf
    tree.nodes[link.id] = EntryNode(link.id, link.type, parent, row.position, row.number)
    tree.leaf = link.id
    if link.type not in ENTRY_TYPES:
        text = f"line {row.number} is of a type that this version does not know ({link.type}); it was left alone"
        tree.problems.append(Problem("unknown", text))
        tree.damaged.append(row.number)
    elif link.type == "label":
        _label(tree, row)


def _damaged(tree: SessionTree, row: StoredLine) -> None:
    if row.complete:
        tree.damaged.append(row.number)
        tree.problems.append(Problem("damaged", f"line {row.number} cannot be read; it was left out"))
    else:
        text = f"line {row.number}, the last one, is incomplete; it was left out"
        tree.problems.append(Problem("torn", text))


def _label(tree: SessionTree, row: StoredLine) -> None:
    try:
        entry = decode_entry(row.data)
    except DECODE_ERRORS:
        return
    if isinstance(entry, LabelEntry):
        tree.labels[entry.target] = entry.label


def read_path(log: SessionLog, nodes: Iterable[EntryNode]) -> Iterator[Line]:
    """The entries of a path."""
    for node in nodes:
        data = log.read(node.position)
        try:
            yield Line(node.number, data, decode_entry(data))
        except DECODE_ERRORS:
            yield Line(node.number, data, None)


def history_at(tree: SessionTree, log: SessionLog, leaf: str | None) -> History:
    """The history at a leaf. Calls that are open there are still open; `repair` says what becomes of them."""
    return apply_entries(tree, read_path(log, select_history_nodes(tree, log, tree.path(leaf))))


_STATE = {"run_start", "run_end", "model_change"}


def select_history_nodes(tree: SessionTree, log: SessionLog, nodes: list[EntryNode]) -> list[EntryNode]:
    """The entries of a path that its history is made of: from the last compaction on, and what that one keeps."""
    last = next((i for i in range(len(nodes) - 1, -1, -1) if nodes[i].kind == "compaction"), 0)
    compaction = next(read_path(log, nodes[last : last + 1])).entry if last else None
    if not isinstance(compaction, CompactionEntry):
        return nodes
    kept = {item.entry for item in compaction.history if isinstance(item, Kept)}
    pairs = [node for i in kept if (node := tree.nodes.get(i)) is not None and node.kind == "pair"]
    for line in read_path(log, pairs):
        if isinstance(line.entry, PairEntry):
            kept.update((line.entry.intent, *line.entry.results))
    return [n for n in nodes[:last] if n.id in kept or n.kind in _STATE] + nodes[last:]


def apply_entries(tree: SessionTree, lines: Iterable[Line], history: History | None = None) -> History:
    """What the entries of a path add up to, on top of what is known already."""
    history = history or History()
    for line in lines:
        if line.entry is not None:
            history.apply(line.entry)
        elif line.number not in tree.damaged:
            tree.damaged.append(line.number)
            text = f"line {line.number} holds something that this version does not know; it was left alone"
            tree.problems.append(Problem("unknown", text))
    for calls in history.open.values():
        calls.doubtful = _is_incomplete(tree, history, calls)
    tree.problems.extend([Problem("damaged", f"entry {text}; it was left out") for text in history.lost])
    return history


def _is_incomplete(tree: SessionTree, history: History, calls: PendingCalls) -> bool:
    """Where lines after a call were lost, a missing record says nothing; nor does it where the conversation went on."""
    number = tree.nodes[calls.entry.id].number
    return any(n > number for n in tree.damaged) or (calls.reasons is None and calls.at < len(history.messages))


def repair_history(history: History) -> list[Problem]:
    """See that calls and results fit together, whatever was stored; what was put right is told."""
    mended = repair_pairs(history.messages, history.refs)
    if mended is None:
        return []
    history.messages, history.refs, count = mended
    for calls in history.open.values():
        calls.at = len(history.messages)
    text = f"calls and results did not fit together in {count} places; each call now has one result"
    return [Problem("damaged", text)]


NEAR_LINES, FAR_LINES = 4096, 1024
"""Lines right before a compaction, and at the beginning, in which the messages that it keeps are looked for."""


_STEP = 64


class RecentHistory(Struct):
    """The newest part of a session.

    Attributes:
        tree: Its entries: the path from the compaction on, and what that one keeps; names of all entries.
        history: What they add up to.
        unread: How many entries before them were not read.
        damaged: How many lines before them cannot be read.
    """

    tree: SessionTree
    history: History
    unread: int = 0
    damaged: int = 0


class _BackwardScan(Struct):
    """What is known on the way back."""

    path: list[EntryNode] = field(default_factory=list[EntryNode])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    before: Before | None = None  # of the compaction nearest to the end, on whatever branch
    compaction: CompactionEntry | None = None  # on the path
    problems: list[Problem] = field(default_factory=list[Problem])
    count: int = 0


def read_from_end(log: SessionLog) -> RecentHistory | None:
    """The newest part of a session; ``None`` where the whole is to be read.

    Raises:
        SessionError: If it is none.
        OSError: If it cannot be read.
    """
    header = decode_header_row(log, next(iter(log.rows()), None))
    back = log.back()
    found = _scan_back(back)
    if found is None or found.before is None:
        return None
    kept = _kept(log, back, found.compaction) if found.compaction else []
    if kept is None:
        return None
    nodes = [*kept, *reversed(found.path)]
    labels = {**found.before.labels, **found.labels}
    tree = SessionTree(header, {n.id: n for n in nodes}, found.path[0].id, labels, [], found.problems)
    before = found.compaction.before if found.compaction else None
    history = History()
    if before is not None:
        history.run, history.ended, history.model = before.run, before.ended, before.model
    apply_entries(tree, read_path(log, nodes), history)
    if tree.damaged or history.lost:
        return None
    known = found.before
    if known.damaged:
        lines = pluralize(known.damaged, "line")
        text = f"left out, as it cannot be read: {lines} before the last compaction; an export says which"
        tree.problems.append(Problem("damaged", text))
    return RecentHistory(tree, history, known.entries, known.damaged)


def _scan_back(back: Iterator[StoredLine]) -> _BackwardScan | None:
    """Back along the path to its last compaction, or to its root; names are taken on the way, from all branches."""
    found = _BackwardScan()
    wanted: str | None = None
    settled = False
    for row in back:
        link = _link(row)
        if link is None:
            if row.complete:
                return None
            found.problems.append(Problem("torn", "the last line is incomplete; it was left out"))
            continue
        if link.type == "session" or link.type not in ENTRY_TYPES:
            return None
        found.count += 1
        if not found.path:
            wanted = link.id
        if link.id == wanted and not settled:
            found.path.append(EntryNode(link.id, link.type, link.parent, row.position, row.number))
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


def _name(found: _BackwardScan, row: StoredLine) -> bool:
    try:
        entry = decode_entry(row.data)
    except DECODE_ERRORS:
        return False
    if isinstance(entry, LabelEntry) and found.before is None:
        found.labels.setdefault(entry.target, entry.label)
    return True


def _link(row: StoredLine) -> EntryHeader | None:
    try:
        return decode_header(row.data)
    except DECODE_ERRORS:
        return None


def _compaction(row: StoredLine) -> CompactionEntry | None:
    try:
        entry = decode_entry(row.data)
    except DECODE_ERRORS:
        return None
    return entry if isinstance(entry, CompactionEntry) else None


def _kept(log: SessionLog, back: Iterator[StoredLine], compaction: CompactionEntry) -> list[EntryNode] | None:
    """The entries of the messages that a compaction keeps, in their order; ``None`` if one is neither near nor at the beginning."""
    wanted = {item.entry for item in compaction.history if isinstance(item, Kept)}
    finder = _EntryFinder(log, wanted)
    finder.search_back(back, NEAR_LINES // 8)
    finder.look(islice(log.rows(), FAR_LINES))
    finder.search_back(back, NEAR_LINES - NEAR_LINES // 8)
    return None if finder.missing else finder.nodes()


class _EntryFinder:
    """Looks for entries among rows; a pair brings the call and the results that it joins."""

    def __init__(self, log: SessionLog, wanted: set[str]) -> None:
        self.missing = wanted
        self._log = log
        self._seen: dict[str, EntryNode] = {}
        self._register_incoming: dict[str, EntryNode] = {}

    def search_back(self, rows: Iterator[StoredLine], count: int) -> None:
        """Look among the next rows, a few at a time."""
        for _ in range(0, count, _STEP):
            self.look(islice(rows, _STEP))

    def look(self, rows: Iterator[StoredLine]) -> None:
        """Look among rows, if something is missing."""
        if not self.missing:
            return
        for row in rows:
            link = _link(row)
            if link is not None:
                self._seen[link.id] = EntryNode(link.id, link.type, link.parent, row.position, row.number)
        while found := [self._seen[id] for id in self.missing if id in self._seen]:
            self._register_incoming.update({n.id: n for n in found})
            self.missing.difference_update(self._register_incoming)
            for line in read_path(self._log, [n for n in found if n.kind == "pair"]):
                if isinstance(line.entry, PairEntry):
                    self.missing.update({line.entry.intent, *line.entry.results} - self._register_incoming.keys())

    def nodes(self) -> list[EntryNode]:
        return sorted(self._register_incoming.values(), key=lambda n: n.position)
