"""What going back would do. Nothing is changed here.

Files have one past, whatever branches the conversation took: what counts is the order in which things happened. Going back to an
entry gives every file that was changed after it the content that it had before the first of these changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from mainspring.env import ExecutionEnv, explain
from mainspring.errors import SessionError
from mainspring.sessions.entries import CustomEntry
from mainspring.sessions.loader import Node, read_path, read_tree
from mainspring.sessions.rewind.state import (
    BEFORE,
    TOO_LARGE,
    FileNote,
    FileState,
    RewoundNote,
    Uncovered,
    decode_note,
    state_of,
)
from mainspring.sessions.session import Session

Action = Literal["change", "create", "delete"]
"""What happens to a file: it gets another content, comes back, or goes."""


class Restore(Struct, frozen=True):
    """A file that gets back what it was.

    Attributes:
        path: Its real path.
        action: What happens to it.
        state: What it gets.
        current: What it is like now.
    """

    path: str
    action: Action
    state: FileState
    current: FileState


class Conflict(Struct, frozen=True):
    """A file that is not as the last tool left it, or whose content was or is not kept.

    When it is insisted on, it is replaced if it is ``forcible``; else it is left as it is.
    """

    path: str
    reason: str
    forcible: bool = True


class RewindPlan(Struct, frozen=True, kw_only=True):
    """What a rewind would do.

    Attributes:
        target: The entry to go back to; ``None`` is before the first.
        leaf: The entry that the conversation goes on from afterwards.
        left: Where the conversation stands now.
        restores: What happens to files; those that are as they were are left out.
        conflicts: Files that somebody else changed since, or that cannot be brought back.
        uncovered: Commands that ran since then: what they changed stays as it is.
        messages: How many messages of the conversation would be left behind.
    """

    target: str | None
    leaf: str | None
    left: str
    restores: tuple[Restore, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    uncovered: tuple[str, ...] = ()
    messages: int = 0


async def plan_rewind(session: Session, env: ExecutionEnv, target: str | None) -> RewindPlan:
    """What going back to an entry would do.

    Args:
        session: The session.
        env: Where its files are.
        target: The entry that shall be the last one; ``None`` goes back to before the first.

    Raises:
        SessionError: If there is no such entry.
    """
    return await _plan(session, env, target, target)


async def plan_undo(session: Session, env: ExecutionEnv) -> RewindPlan:
    """What undoing the last rewind would do; after an undo that is the undo itself.

    Raises:
        SessionError: If nothing was rewound.
    """
    failed: set[str] = set()
    for node, note in reversed(list(_notes(session, 0))):
        if isinstance(note, RewoundNote) and note.failed:
            failed.add(note.failed)
        elif isinstance(note, RewoundNote) and node.id not in failed:
            leaf = note.left if note.conversation else session.journal.leaf
            return await _plan(session, env, node.id, leaf)
    raise SessionError("nothing was rewound in this session, so there is nothing to undo")


async def _plan(session: Session, env: ExecutionEnv, target: str | None, leaf: str | None) -> RewindPlan:
    tree = read_tree(session.journal.view())
    for entry in {target, leaf} - {None}:
        if entry not in tree.nodes:
            raise SessionError(f"session {session.id} has no entry {entry}")
    after = tree.nodes[target].number if target else 0
    notes = [note for _, note in _notes(session, after)]
    first, last = _changes(notes)
    restores: list[Restore] = []
    conflicts: list[Conflict] = []
    for path, state in first.items():
        current = await _now(env, path)
        if current == state and current.skipped != TOO_LARGE:
            continue
        known = not state.skipped and not current.skipped
        reason = _conflict(state, last[path], current)
        if reason:
            conflicts.append(Conflict(path, reason, forcible=known))
        if known:
            restores.append(Restore(path, _action(state, current), state, current))
    kept = {node.id for node in tree.path(leaf)}
    left = [node for node in tree.path(session.journal.leaf) if node.id not in kept]
    return RewindPlan(
        target=target,
        leaf=leaf,
        left=session.journal.leaf or "",
        restores=tuple(restores),
        conflicts=tuple(conflicts),
        uncovered=tuple(f"{n.tool}: {n.what}" if n.what else n.tool for n in notes if isinstance(n, Uncovered)),
        messages=sum(2 if node.kind == "pair" else 1 for node in left if node.kind in {"message", "pair"}),
    )


def _notes(session: Session, after: int) -> Iterator[tuple[Node, FileNote | Uncovered | RewoundNote]]:
    """What was noted of files after a line, oldest first, whatever branch it stands on."""
    view = session.journal.view()
    nodes = [n for n in read_tree(view).nodes.values() if n.kind == "custom" and n.number > after]
    for node, line in zip(nodes, read_path(view, nodes), strict=True):
        if not isinstance(line.entry, CustomEntry):
            continue
        note = decode_note(line.entry.custom_type, line.entry.data)
        if isinstance(note, FileNote) and line.entry.custom_type == BEFORE:
            note = _Before(note.path, note.state, note.call)
        if note is not None:
            yield node, note


class _Before(FileNote, frozen=True):
    """A note of what a file was like before a call."""


class _Last(Struct):
    """What a file may be like now without anybody else having changed it; ``broken`` if the last change has no end."""

    states: tuple[FileState, ...]
    broken: bool = True


def _changes(notes: Iterable[object]) -> tuple[dict[str, FileState], dict[str, _Last]]:
    """For each file its state before the first change, and what is known of the last."""
    first: dict[str, FileState] = {}
    last: dict[str, _Last] = {}
    for note in notes:
        if isinstance(note, _Before):
            first.setdefault(note.path, note.state)
            last[note.path] = _Last((note.state,))
        elif isinstance(note, FileNote) and note.path in first:
            before = last[note.path]
            # A rewind says beforehand what it will do; killed, it has done that or nothing.
            states = (*before.states, note.state) if before.broken and not note.call else (note.state,)
            last[note.path] = _Last(states, broken=False)
    return first, last


async def _now(env: ExecutionEnv, path: str) -> FileState:
    try:
        return await state_of(env, path, None)
    except OSError as error:
        return FileState(skipped=explain(error))


def _conflict(state: FileState, last: _Last, current: FileState) -> str:
    if state.skipped:
        return f"what it was cannot be brought back: {state.skipped}"
    if current.skipped:
        return f"what it is now cannot be kept: {current.skipped}"
    if current in last.states:
        return ""
    if last.broken:
        return "the call that changed it was broken off, so what it holds now is not known to be the tool's"
    return "it was changed since, by something else than a tool of this session"


def _action(state: FileState, current: FileState) -> Action:
    if not state.exists:
        return "delete"
    return "change" if current.exists else "create"
