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
    KNOWN,
    UNREADABLE,
    Before,
    CompactionEntry,
    Entry,
    Kept,
    LabelEntry,
    Link,
    PairEntry,
    SessionEntry,
    decode_entry,
    decode_link,
)
from mainspring.sessions.history import History, OpenCalls, well_paired
from mainspring.sessions.store import Problem, Row, SessionLog
from mainspring.text import counted


class Node(Struct, frozen=True):
    """An entry in the tree."""

    id: str
    kind: str
    parent: str | None
    position: int
    number: int


class Tree(Struct):
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
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    leaf: str | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    damaged: list[int] = field(default_factory=list[int])
    problems: list[Problem] = field(default_factory=list[Problem])

    def path(self, leaf: str | None) -> list[Node]:
        """The entries from the root to a leaf."""
        nodes: list[Node] = []
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


def read_tree(log: SessionLog) -> Tree:
    """The tree of a session.

    Raises:
        SessionError: If it is none.
        OSError: If it cannot be read.
    """
    rows = iter(log.rows())
    tree = Tree(header_of(log, next(rows, None)))
    for row in rows:
        _take(tree, row)
    return tree


def header_of(log: SessionLog, row: Row | None) -> SessionEntry:
    """The header of a session, from its first row.

    Raises:
        SessionError: If it is none.
    """
    try:
        entry = decode_entry(row.data) if row else None
    except UNREADABLE:
        entry = None
    if not isinstance(entry, SessionEntry):
        raise SessionError(f"{log.place} is no session: its first line is not the header of one")
    return entry


def _take(tree: Tree, row: Row) -> None:
    try:
        link = decode_link(row.data)
    except UNREADABLE:
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
    tree.nodes[link.id] = Node(link.id, link.type, parent, row.position, row.number)
    tree.leaf = link.id
    if link.type not in KNOWN:
        text = f"line {row.number} is of a type that this version does not know ({link.type}); it was left alone"
        tree.problems.append(Problem("unknown", text))
        tree.damaged.append(row.number)
    elif link.type == "label":
        _label(tree, row)


def _damaged(tree: Tree, row: Row) -> None:
    if row.complete:
        tree.damaged.append(row.number)
        tree.problems.append(Problem("damaged", f"line {row.number} cannot be read; it was left out"))
    else:
        text = f"line {row.number}, the last one, is incomplete; it was left out"
        tree.problems.append(Problem("torn", text))


def _label(tree: Tree, row: Row) -> None:
    try:
        entry = decode_entry(row.data)
    except UNREADABLE:
        return
    if isinstance(entry, LabelEntry):
        tree.labels[entry.target] = entry.label


def read_path(log: SessionLog, nodes: Iterable[Node]) -> Iterator[Line]:
    """The entries of a path."""
    for node in nodes:
        data = log.read(node.position)
        try:
            yield Line(node.number, data, decode_entry(data))
        except UNREADABLE:
            yield Line(node.number, data, None)


def history_at(tree: Tree, log: SessionLog, leaf: str | None) -> History:
    """The history at a leaf. Calls that are open there are still open; `repair` says what becomes of them."""
    return fold(tree, read_path(log, relevant(tree, log, tree.path(leaf))))


_STATE = {"run_start", "run_end", "model_change"}


def relevant(tree: Tree, log: SessionLog, nodes: list[Node]) -> list[Node]:
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


def fold(tree: Tree, lines: Iterable[Line], history: History | None = None) -> History:
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
        calls.doubtful = _doubtful(tree, history, calls)
    tree.problems.extend([Problem("damaged", f"entry {text}; it was left out") for text in history.lost])
    return history


def _doubtful(tree: Tree, history: History, calls: OpenCalls) -> bool:
    """Where lines after a call were lost, a missing record says nothing; nor does it where the conversation went on."""
    number = tree.nodes[calls.entry.id].number
    return any(n > number for n in tree.damaged) or (calls.reasons is None and calls.at < len(history.messages))


def mend(history: History) -> list[Problem]:
    """See that calls and results fit together, whatever was stored; what was put right is told."""
    mended = well_paired(history.messages, history.refs)
    if mended is None:
        return []
    history.messages, history.refs, count = mended
    for calls in history.open.values():
        calls.at = len(history.messages)
    text = f"calls and results did not fit together in {count} places; each call now has one result"
    return [Problem("damaged", text)]


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
