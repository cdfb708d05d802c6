"""Reading a session: the tree of its entries, the path to a leaf, and the history along it.

The first pass takes type, id and parent of each line and nothing else; the second reads the lines of the path. A line that
cannot be read is left out and told, with its number; what hung on it then hangs on the entry before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from mainspring.errors import SessionError
from mainspring.sessions.entries import (
    KNOWN,
    UNREADABLE,
    CompactionEntry,
    Entry,
    Kept,
    LabelEntry,
    PairEntry,
    SessionEntry,
    decode_entry,
    decode_link,
)
from mainspring.sessions.history import History, OpenCalls
from mainspring.sessions.repair import well_paired
from mainspring.sessions.store import Problem, Row, SessionLog


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
