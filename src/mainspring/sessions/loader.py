"""The reader of a session: the tree of its entries, the path to a leaf, and the history along it.

The first pass reads only type, ID, and parent of each line; the second reads the lines of the path. A line that cannot be read is
skipped and reported with its number; its children are attached to the entry before it.

A session can also be read from its end back to the last compaction, without the entries before it. A compaction contains what a
reader needs of them (`Before`), and most messages that it keeps are directly before it. So the time and memory of a resume depend
on the messages since the compaction, not on the size of the session. If anything is out of order (an unreadable line, an entry of
a newer version, an old message that a compaction preserved), the result is `None`, and the whole session is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct, field

from mainspring.sessions.entries import (
    ENTRY_ERRORS,
    ENTRY_TYPES,
    Before,
    CompactionEntry,
    Entry,
    EntryHeader,
    Kept,
    LabelEntry,
    MessageEntry,
    PairEntry,
    SessionEntry,
    decode_header,
    decode_session_header,
    try_decode_entry,
)
from mainspring.sessions.history import History, UnfinishedCalls, repair_pairs
from mainspring.sessions.store import Problem, ReadableLog, SessionLog, StoredLine
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
        nodes: Every other entry, by ID, in the order of the lines.
        leaf: The last entry. ``None`` without entries.
        labels: Labels of entries (and of the session), by ID.
        damaged: Numbers of unreadable lines, without an incomplete last one.
        problems: Problems to report.
        lost_parents: Whether an entry that cannot start a history has no parent, so that the order of the lines applies.
    """

    header: SessionEntry
    nodes: dict[str, EntryNode] = field(default_factory=dict[str, EntryNode])
    leaf: str | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    damaged: list[int] = field(default_factory=list[int])
    problems: list[Problem] = field(default_factory=list[Problem])
    lost_parents: bool = False

    def path(self, leaf: str | None) -> list[EntryNode]:
        """Return the entries from the root to a leaf."""
        nodes: list[EntryNode] = []
        while leaf is not None:
            node = self.nodes[leaf]
            nodes.append(node)
            leaf = node.parent
        nodes.reverse()
        return nodes


class Line(Struct, frozen=True):
    """A line that was read. ``entry`` is ``None`` if this version does not know its type."""

    number: int
    data: bytes
    entry: Entry | None


def read_tree(log: ReadableLog) -> SessionTree:
    """Read the tree of a session.

    Raises:
        SessionError: If it is not a session.
        OSError: If it cannot be read.
    """
    rows = iter(log.rows())
    tree = SessionTree(decode_header_row(log, next(rows, None)))
    for row in rows:
        _handle_event(tree, row)
    return tree


def decode_header_row(log: ReadableLog, row: StoredLine | None) -> SessionEntry:
    """Decode the header of a session from its first row.

    Raises:
        SessionError: If it is not a session.
    """
    return decode_session_header(row.data if row else b"", log.place)


def _handle_event(tree: SessionTree, row: StoredLine) -> None:
    try:
        link = decode_header(row.data)
    except ENTRY_ERRORS:
        _damaged(tree, row)
        return
    if link.id in tree.nodes or link.type == "session":
        tree.problems.append(Problem("damaged", f"line {row.number} was skipped: its ID {link.id} is a duplicate"))
        return
    parent = link.parent
    if parent is not None and parent not in tree.nodes:
        text = f"line {row.number} has an unknown parent ({parent}); it was attached to the line before it"
        tree.problems.append(Problem("damaged", text))
        parent = tree.leaf
    elif parent is None and tree.leaf is not None and (tree.lost_parents or not _can_be_root(link.type, row.data)):
        if not tree.lost_parents and link.type in ENTRY_TYPES and try_decode_entry(row.data) is not None:
            tree.lost_parents = True
            text = f"line {row.number} has no parent; it and later entries without one were attached to the line before them"
            tree.problems.append(Problem("damaged", text))
        parent = tree.leaf
    tree.nodes[link.id] = EntryNode(link.id, link.type, parent, row.position, row.number)
    tree.leaf = link.id
    if link.type not in ENTRY_TYPES:
        text = f"line {row.number} has a type that this version does not know ({link.type}); it was ignored"
        tree.problems.append(Problem("unknown", text))
        tree.damaged.append(row.number)
    elif link.type == "label":
        _label(tree, row)


def _can_be_root(kind: str, data: bytes) -> bool:
    """Return True if an entry after the first one can start a new history: a branch, or a prompt of an imported session."""
    if kind != "message":
        return kind == "branch"
    entry = try_decode_entry(data)
    return isinstance(entry, MessageEntry) and (entry.message.role == "user" and not entry.message.tool_results)


def _damaged(tree: SessionTree, row: StoredLine) -> None:
    if row.complete:
        tree.damaged.append(row.number)
        tree.problems.append(Problem("damaged", f"line {row.number} cannot be read and was skipped"))
    else:
        text = f"line {row.number}, the last one, is incomplete and was skipped"
        tree.problems.append(Problem("torn", text))


def _label(tree: SessionTree, row: StoredLine) -> None:
    entry = try_decode_entry(row.data)
    if isinstance(entry, LabelEntry):
        tree.labels[entry.target] = entry.label


def read_path(log: ReadableLog, nodes: Iterable[EntryNode]) -> Iterator[Line]:
    """Read the entries of a path."""
    for node in nodes:
        data = log.read(node.position)
        yield Line(node.number, data, try_decode_entry(data))


def history_at(tree: SessionTree, log: ReadableLog, leaf: str | None) -> History:
    """Return the history at a leaf. Open calls are still open; `repair` closes them."""
    return apply_entries(tree, read_path(log, select_history_nodes(tree, log, tree.path(leaf))))


_STATE = {"run_start", "run_end", "model_change"}


def select_history_nodes(tree: SessionTree, log: ReadableLog, nodes: list[EntryNode]) -> list[EntryNode]:
    """Select the entries of a path that form its history: those from the last compaction on, and those that it references."""
    last = next((i for i in range(len(nodes) - 1, -1, -1) if nodes[i].kind == "compaction"), 0)
    compaction = next(read_path(log, nodes[last : last + 1])).entry if last else None
    if not isinstance(compaction, CompactionEntry):
        return nodes
    kept_ids = {item.entry for item in compaction.history if isinstance(item, Kept)}
    pairs = [node for i in kept_ids if (node := tree.nodes.get(i)) is not None and node.kind == "pair"]
    for line in read_path(log, pairs):
        if isinstance(line.entry, PairEntry):
            kept_ids.update((line.entry.intent, *line.entry.results))
    return [n for n in nodes[:last] if n.id in kept_ids or n.kind in _STATE] + nodes[last:]


def apply_entries(tree: SessionTree, lines: Iterable[Line], history: History | None = None) -> History:
    """Apply the entries of a path to a history."""
    history = history or History()
    for line in lines:
        if line.entry is not None:
            history.apply(line.entry)
        elif line.number not in tree.damaged:
            tree.damaged.append(line.number)
            text = f"line {line.number} contains data that this version does not know; it was ignored"
            tree.problems.append(Problem("unknown", text))
    for calls in history.open.values():
        calls.doubtful = _is_incomplete(tree, history, calls)
    tree.problems.extend([Problem("damaged", f"entry {text}; it was skipped") for text in history.skipped])
    return history


def _is_incomplete(tree: SessionTree, history: History, calls: UnfinishedCalls) -> bool:
    """Return True if a missing line proves nothing: lines after a call were lost, or the conversation continued after it."""
    number = tree.nodes[calls.entry.id].number
    return any(n > number for n in tree.damaged) or (calls.reasons is None and calls.at < len(history.messages))


def repair_history(history: History) -> list[Problem]:
    """Repair the pairs of calls and results. Repairs are reported."""
    repaired = repair_pairs(history.messages, history.entry_ids)
    if repaired is None:
        return []
    history.messages, history.entry_ids, count = repaired
    for calls in history.open.values():
        calls.at = len(history.messages)
    text = f"{count} mismatches of tool calls and results were repaired; each call now has one result"
    return [Problem("damaged", text)]


NEAR_LINES, FAR_LINES = 4096, 1024
"""Number of lines directly before a compaction, and at the beginning, that are searched for the messages it keeps."""


_STEP = 64


class RecentHistory(Struct):
    """The newest part of a session.

    Attributes:
        tree: Its entries: the path from the compaction on, the entries it references, and the labels of all entries.
        history: The history of these entries.
        unread_entries: Number of earlier entries that were not read.
        damaged: Number of earlier lines that cannot be read.
    """

    tree: SessionTree
    history: History
    unread_entries: int = 0
    damaged: int = 0


class _BackwardScan(Struct):
    """State of the backward scan."""

    path: list[EntryNode] = field(default_factory=list[EntryNode])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    before: Before | None = None  # of the compaction nearest to the end, on any branch
    compaction: CompactionEntry | None = None  # on the path
    problems: list[Problem] = field(default_factory=list[Problem])
    count: int = 0


def read_from_end(log: SessionLog) -> RecentHistory | None:
    """Read the newest part of a session. ``None`` if the whole session must be read.

    Raises:
        SessionError: If it is not a session.
        OSError: If it cannot be read.
    """
    header = decode_header_row(log, next(iter(log.rows()), None))
    back = log.iter_lines_backward()
    found = _scan_back(back)
    if found is None or found.before is None:
        return None
    kept_entries = _find_kept_entries(log, back, found.compaction) if found.compaction else []
    if kept_entries is None:
        return None
    nodes = [*kept_entries, *reversed(found.path)]
    labels = {**found.before.labels, **found.labels}
    tree = SessionTree(header, {n.id: n for n in nodes}, found.path[0].id, labels, [], found.problems)
    before = found.compaction.before if found.compaction else None
    history = History()
    if before is not None:
        history.run, history.ended, history.model = before.run, before.ended, before.model
    apply_entries(tree, read_path(log, nodes), history)
    if tree.damaged or history.skipped:
        return None
    known = found.before
    if known.damaged:
        lines = pluralize(known.damaged, "line")
        text = f"{lines} before the last compaction cannot be read and were skipped; an export lists them"
        tree.problems.append(Problem("damaged", text))
    return RecentHistory(tree, history, known.entries, known.damaged)


def _scan_back(back: Iterator[StoredLine]) -> _BackwardScan | None:
    """Scan back along the path to its last compaction, or to its root.

    Collects the labels of all branches.
    """
    found = _BackwardScan()
    requested: str | None = None
    settled = False
    for row in back:
        link = _decode_link(row)
        if link is None:
            if row.complete:
                return None
            found.problems.append(Problem("torn", "the last line is incomplete and was skipped"))
            continue
        if link.type == "session" or link.type not in ENTRY_TYPES:
            return None
        found.count += 1
        if not found.path:
            requested = link.id
        if link.id == requested and not settled:
            found.path.append(EntryNode(link.id, link.type, link.parent, row.position, row.number))
            requested = link.parent
            if requested is None and link.type != "branch":
                return None  # Its parent may be lost.
            settled = requested is None
        if link.type == "label" and not _name(found, row):
            return None
        if link.type == "compaction" and not _add_compaction(found, row, is_on_path=found.path[-1].id == link.id):
            return None
        settled = settled or found.compaction is not None
        if settled and found.before is not None:
            return found
    return None


def _add_compaction(found: _BackwardScan, row: StoredLine, *, is_on_path: bool) -> bool:
    """Add a compaction; return False if it does not contain what a reader needs."""
    entry = try_decode_entry(row.data)
    if not isinstance(entry, CompactionEntry) or entry.before is None:
        return False
    found.before = found.before or entry.before
    if is_on_path:
        found.compaction = entry
    return True


def _name(scan: _BackwardScan, row: StoredLine) -> bool:
    entry = try_decode_entry(row.data)
    if isinstance(entry, LabelEntry) and scan.before is None:
        scan.labels.setdefault(entry.target, entry.label)
    return entry is not None


def _decode_link(row: StoredLine) -> EntryHeader | None:
    try:
        return decode_header(row.data)
    except ENTRY_ERRORS:
        return None


def _find_kept_entries(
    log: SessionLog, back: Iterator[StoredLine], compaction: CompactionEntry
) -> list[EntryNode] | None:
    """Return the entries of the messages that a compaction keeps, in order.

    ``None`` if one is neither near nor at the beginning.
    """
    requested = {item.entry for item in compaction.history if isinstance(item, Kept)}
    finder = _EntryFinder(log, requested)
    finder.search_back(back, NEAR_LINES // 8)
    finder.search(islice(log.rows(), FAR_LINES))
    finder.search_back(back, NEAR_LINES - NEAR_LINES // 8)
    return None if finder.missing else finder.nodes()


class _EntryFinder:
    """Finds entries among rows, including the call and the results of a pair."""

    def __init__(self, log: SessionLog, requested: set[str]) -> None:
        self.missing = requested
        self._log = log
        self._seen: dict[str, EntryNode] = {}
        self._found: dict[str, EntryNode] = {}

    def search_back(self, rows: Iterator[StoredLine], count: int) -> None:
        """Search the next rows, a few at a time."""
        for _ in range(0, count, _STEP):
            self.search(islice(rows, _STEP))

    def search(self, rows: Iterator[StoredLine]) -> None:
        """Search rows, if entries are missing."""
        if not self.missing:
            return
        for row in rows:
            link = _decode_link(row)
            if link is not None:
                self._seen[link.id] = EntryNode(link.id, link.type, link.parent, row.position, row.number)
        while found := [self._seen[id] for id in self.missing if id in self._seen]:
            self._found.update({n.id: n for n in found})
            self.missing.difference_update(self._found)
            for line in read_path(self._log, [n for n in found if n.kind == "pair"]):
                if isinstance(line.entry, PairEntry):
                    self.missing.update({line.entry.intent, *line.entry.results} - self._found.keys())

    def nodes(self) -> list[EntryNode]:
        return sorted(self._found.values(), key=lambda n: n.position)
