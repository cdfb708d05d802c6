"""What going back would do. Nothing is changed here.

Files have one past, whatever branches the conversation took: what counts is the order in which things happened. Going back to an
entry gives every file that was changed after it the content that it had before the first of these changes.

Going back, as a plan says; what is done can be undone in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from mainspring.env import ExecutionEnv, RealPath, explain
from mainspring.errors import AgentBusyError, SessionError
from mainspring.sessions.blob_store import BlobStore
from mainspring.sessions.entries import CustomEntry
from mainspring.sessions.loader import EntryNode, read_path, read_tree
from mainspring.sessions.rewind.snapshots import (
    AFTER,
    BEFORE,
    REWOUND,
    TOO_LARGE,
    FileSnapshot,
    FileState,
    RewindRecord,
    UntrackedCommand,
    decode_record,
    read_file_state,
)
from mainspring.sessions.session import Session

FileAction = Literal["change", "create", "delete"]
"""What happens to a file: it gets another content, comes back, or goes."""


class FileRestore(Struct, frozen=True):
    """A file that gets back what it was.

    Attributes:
        path: Its real path.
        action: What happens to it.
        state: What it gets.
        current: What it is like now.
    """

    path: str
    action: FileAction
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
    restores: tuple[FileRestore, ...] = ()
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
    for node, note in reversed(list(_iter_notes(session, 0))):
        if isinstance(note, RewindRecord) and note.failed:
            failed.add(note.failed)
        elif isinstance(note, RewindRecord) and node.id not in failed:
            leaf = note.left if note.conversation else session.journal.leaf
            return await _plan(session, env, node.id, leaf)
    raise SessionError("nothing was rewound in this session, so there is nothing to undo")


async def _plan(session: Session, env: ExecutionEnv, target: str | None, leaf: str | None) -> RewindPlan:
    tree = read_tree(session.journal.view())
    for entry in {target, leaf} - {None}:
        if entry not in tree.nodes:
            raise SessionError(f"session {session.id} has no entry {entry}")
    after = tree.nodes[target].number if target else 0
    notes = [note for _, note in _iter_notes(session, after)]
    first, last = _collect_changes(notes)
    restores: list[FileRestore] = []
    conflicts: list[Conflict] = []
    for path, state in first.items():
        current = await _current_state(env, path)
        if current == state and current.skipped != TOO_LARGE:
            continue
        known = not state.skipped and not current.skipped
        reason = _conflict(state, last[path], current)
        if reason:
            conflicts.append(Conflict(path, reason, forcible=known))
        if known:
            restores.append(FileRestore(path, _choose_action(state, current), state, current))
    kept = {node.id for node in tree.path(leaf)}
    left = [node for node in tree.path(session.journal.leaf) if node.id not in kept]
    return RewindPlan(
        target=target,
        leaf=leaf,
        left=session.journal.leaf or "",
        restores=tuple(restores),
        conflicts=tuple(conflicts),
        uncovered=tuple(f"{n.tool}: {n.what}" if n.what else n.tool for n in notes if isinstance(n, UntrackedCommand)),
        messages=sum(2 if node.kind == "pair" else 1 for node in left if node.kind in {"message", "pair"}),
    )


def _iter_notes(
    session: Session, after: int
) -> Iterator[tuple[EntryNode, FileSnapshot | UntrackedCommand | RewindRecord]]:
    """What was noted of files after a line, oldest first, whatever branch it stands on."""
    view = session.journal.view()
    nodes = [n for n in read_tree(view).nodes.values() if n.kind == "custom" and n.number > after]
    for node, line in zip(nodes, read_path(view, nodes), strict=True):
        if not isinstance(line.entry, CustomEntry):
            continue
        note = decode_record(line.entry.custom_type, line.entry.data)
        if isinstance(note, FileSnapshot) and line.entry.custom_type == BEFORE:
            note = _BeforeNote(note.path, note.state, note.call)
        if note is not None:
            yield node, note


class _BeforeNote(FileSnapshot, frozen=True):
    """A note of what a file was like before a call."""


class _LastState(Struct):
    """What a file may be like now without anybody else having changed it; ``broken`` if the last change has no end."""

    states: tuple[FileState, ...]
    broken: bool = True


def _collect_changes(notes: Iterable[object]) -> tuple[dict[str, FileState], dict[str, _LastState]]:
    """For each file its state before the first change, and what is known of the last."""
    first: dict[str, FileState] = {}
    last: dict[str, _LastState] = {}
    for note in notes:
        if isinstance(note, _BeforeNote):
            first.setdefault(note.path, note.state)
            last[note.path] = _LastState((note.state,))
        elif isinstance(note, FileSnapshot) and note.path in first:
            before = last[note.path]
            # A rewind says beforehand what it will do; killed, it has done that or nothing.
            states = (*before.states, note.state) if before.broken and not note.call else (note.state,)
            last[note.path] = _LastState(states, broken=False)
    return first, last


async def _current_state(env: ExecutionEnv, path: str) -> FileState:
    try:
        return await read_file_state(env, path, None)
    except OSError as error:
        return FileState(skipped=explain(error))


def _conflict(state: FileState, last: _LastState, current: FileState) -> str:
    if state.skipped:
        return f"what it was cannot be brought back: {state.skipped}"
    if current.skipped:
        return f"what it is now cannot be kept: {current.skipped}"
    if current in last.states:
        return ""
    if last.broken:
        return "the call that changed it was broken off, so what it holds now is not known to be the tool's"
    return "it was changed since, by something else than a tool of this session"


def _choose_action(state: FileState, current: FileState) -> FileAction:
    if not state.exists:
        return "delete"
    return "change" if current.exists else "create"


class RewindResult(Struct, frozen=True):
    """What was done.

    Attributes:
        files: The files that were changed.
        conversation: Whether the conversation went back.
    """

    files: tuple[FileRestore, ...]
    conversation: bool


async def rewind(
    session: Session,
    env: ExecutionEnv,
    plan: RewindPlan,
    *,
    files: bool = True,
    conversation: bool = True,
    force: bool = False,
) -> RewindResult:
    """Go back as a plan says. Either all of it happens or nothing does; `plan_undo` takes it back.

    Args:
        session: The session.
        env: Where its files are.
        plan: What `plan_rewind` or `plan_undo` gave.
        files: Whether files go back.
        conversation: Whether the conversation does.
        force: Whether files that somebody else changed since are replaced too, and those that cannot be brought back are left
            alone. What is replaced is kept, so that an undo brings it back.

    Raises:
        SessionError: If there are conflicts, a file changed since the plan was made, or one cannot be written.
        AgentBusyError: If an agent is running in the session.
    """
    if any(agent.running for agent in session.journal.agents):
        raise AgentBusyError("an agent is running in this session; abort() it first")
    if not session.writable:
        raise SessionError(f"session {session.id} cannot be written to, so nothing is rewound")
    if conversation and plan.leaf:
        session.journal.check_branch_point(plan.leaf)
    restores = plan.restores if files else ()
    if files:
        _check_conflicts(plan, force)
    contents = await _contents(session.blobs, restores)
    for restore in restores:
        await _check(session, env, restore)
    note = RewindRecord(plan.target, plan.left, files, conversation)
    noted = session.custom(REWOUND, msgspec.to_builtins(note))
    for restore in restores:  # on disk before anything happens, so that it can be undone whenever the process ends
        _note(session, BEFORE, restore.path, restore.current)
        _note(session, AFTER, restore.path, restore.state)
    trouble = f"session {session.id} cannot be saved, so nothing was rewound"
    if await session.journal.flush(durable=True):
        trouble = await _write_files(env, session.blobs, restores, contents)
    for restore in restores:
        await _record_current(session, env, restore.path)
    if trouble:
        session.custom(REWOUND, msgspec.to_builtins(msgspec.structs.replace(note, failed=noted.id)))
    await session.journal.flush(durable=True)
    if trouble:
        raise SessionError(trouble)
    if conversation and plan.leaf != session.journal.leaf:
        session.branch(plan.leaf, "rewind")
        await session.journal.flush(durable=True)
    return RewindResult(tuple(restores), conversation)


def _check_conflicts(plan: RewindPlan, force: bool) -> None:
    standing = () if force else plan.conflicts
    if standing:
        named = "; ".join(f"{c.path}: {c.reason}" for c in standing[:5])
        more = f" and {len(standing) - 5} more" if len(standing) > 5 else ""
        raise SessionError(f"nothing was rewound. {named}{more}")


async def _contents(blobs: BlobStore, restores: tuple[FileRestore, ...]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for restore in restores:
        if restore.state.sha256 is None:
            continue
        data = await asyncio.to_thread(blobs.get, restore.state.sha256)
        if data is None:
            raise SessionError(f"{restore.path}: the content that was kept is gone; nothing was rewound")
        contents[restore.path] = data
    return contents


async def _check(session: Session, env: ExecutionEnv, restore: FileRestore) -> None:
    """Keep what a file holds, and see that it is what the plan says."""
    try:
        state = await read_file_state(env, restore.path, session.blobs)
    except OSError as error:
        raise SessionError(f"{restore.path}: {explain(error)}; nothing was rewound") from error
    if state != restore.current:
        raise SessionError(f"{restore.path} changed just now; nothing was rewound, look at the plan again")


async def _record_current(session: Session, env: ExecutionEnv, path: str) -> None:
    try:
        state = await read_file_state(env, path, session.blobs)
    except OSError as error:
        state = FileState(skipped=explain(error))
    _note(session, AFTER, path, state)


def _note(session: Session, kind: str, path: str, state: FileState) -> None:
    session.journal.note(kind, msgspec.to_builtins(FileSnapshot(path, state)))


async def _write_files(
    env: ExecutionEnv, blobs: BlobStore, restores: tuple[FileRestore, ...], contents: dict[str, bytes]
) -> str:
    """Change the files; what went wrong if they are as they were again."""
    for i, restore in enumerate(restores):
        try:
            await _write_file(env, restore.path, restore.state, contents.get(restore.path))
        except OSError as error:
            return f"{restore.path}: {explain(error)}; {await _undo_writes(env, blobs, restores[: i + 1])}"
    return ""


async def _write_file(env: ExecutionEnv, path: str, state: FileState, data: bytes | None) -> None:
    if data is None:
        await env.remove(RealPath(path))
    else:
        await env.write_bytes(RealPath(path), data, parents=True)


async def _undo_writes(env: ExecutionEnv, blobs: BlobStore, done: tuple[FileRestore, ...]) -> str:
    """Give files back what they held; says what came of it."""
    lost: list[str] = []
    for restore in reversed(done):
        data = blobs.get(restore.current.sha256) if restore.current.sha256 else None
        try:
            if await read_file_state(env, restore.path, None) != restore.current:
                await _write_file(env, restore.path, restore.current, data)
        except OSError:
            lost.append(restore.path)
    return f"{', '.join(lost)} could not be put back; the rest is as it was" if lost else "nothing was rewound"
