"""Plan and perform a rewind.

Files have one history across all branches of the conversation, in the order of the changes. A rewind to an entry restores each
file that was changed later to its content before the first of these changes. A rewind can be undone in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
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
"""What happens to a file: its content is replaced, it is restored, or it is deleted."""


class FileRestore(Struct, frozen=True):
    """A file to restore.

    Attributes:
        path: Its real path.
        action: The action.
        state: Its future state.
        current: Its current state.
    """

    path: str
    action: FileAction
    state: FileState
    current: FileState


class Conflict(Struct, frozen=True):
    """A file that changed after the last tool wrote it, or whose content is not stored.

    With ``force``, it is replaced if it is ``forcible``; otherwise, it is unchanged.
    """

    path: str
    reason: str
    forcible: bool = True


class RewindPlan(Struct, frozen=True, kw_only=True):
    """The effects of a rewind.

    Attributes:
        target: The entry to go back to. ``None`` is before the first.
        leaf: The entry from which the conversation continues.
        left: The current leaf of the conversation.
        restores: Changes of files, without files that are already as they were.
        conflicts: Files that another program changed since, or that cannot be restored.
        uncovered: Commands that ran since then. Their changes are not undone.
        messages: Number of messages that the conversation loses.
        returned: Number of messages that it gets back, by the undo of a rewind.
    """

    target: str | None
    leaf: str | None
    left: str
    restores: tuple[FileRestore, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    uncovered: tuple[str, ...] = ()
    messages: int = 0
    returned: int = 0


async def plan_rewind(session: Session, env: ExecutionEnv, target: str | None) -> RewindPlan:
    """Plan a rewind to an entry.

    Args:
        session: The session.
        env: The environment with its files.
        target: The new last entry. ``None`` goes back to before the first.

    Raises:
        SessionError: If the entry does not exist.
    """
    return await _plan(session, env, target, target)


async def plan_undo(session: Session, env: ExecutionEnv) -> RewindPlan:
    """Plan the undo of the last rewind, which may be an undo itself.

    Raises:
        SessionError: If the session has no rewind.
    """
    failed: set[str] = set()
    for node, note in reversed(list(_iter_notes(session, 0))):
        if isinstance(note, RewindRecord) and note.failed:
            failed.add(note.failed)
        elif isinstance(note, RewindRecord) and node.id not in failed:
            leaf = note.left if note.conversation else session.journal.leaf
            return await _plan(session, env, node.id, leaf)
    raise SessionError("Nothing to undo: this session has no rewind.")


async def _plan(session: Session, env: ExecutionEnv, target: str | None, leaf: str | None) -> RewindPlan:
    tree = read_tree(session.journal.log_with_pending())
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
    before, then = list(tree.path(session.journal.leaf)), list(tree.path(leaf))
    return RewindPlan(
        target=target,
        leaf=leaf,
        left=session.journal.leaf or "",
        restores=tuple(restores),
        conflicts=tuple(conflicts),
        uncovered=tuple(f"{n.tool}: {n.what}" if n.what else n.tool for n in notes if isinstance(n, UntrackedCommand)),
        messages=_count_messages(before, then),
        returned=_count_messages(then, before),
    )


def _count_messages(nodes: Sequence[EntryNode], others: Sequence[EntryNode]) -> int:
    """Return the number of messages in the nodes of a branch that another branch does not have."""
    ids = {node.id for node in others}
    return sum(2 if n.kind == "pair" else 1 for n in nodes if n.id not in ids and n.kind in {"message", "pair"})


def _iter_notes(
    session: Session, after: int
) -> Iterator[tuple[EntryNode, FileSnapshot | UntrackedCommand | RewindRecord]]:
    """Iterate over the file records after a line, oldest first, on all branches."""
    view = session.journal.log_with_pending()
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
    """A record of a file's state before a call."""


class _LastState(Struct):
    """The expected current state of a file if no other program changed it.

    ``broken`` if the last change has no end.
    """

    states: tuple[FileState, ...]
    broken: bool = True


def _collect_changes(notes: Iterable[object]) -> tuple[dict[str, FileState], dict[str, _LastState]]:
    """Return for each file its state before the first change, and the known state after the last."""
    first: dict[str, FileState] = {}
    last: dict[str, _LastState] = {}
    for note in notes:
        if isinstance(note, _BeforeNote):
            first.setdefault(note.path, note.state)
            last[note.path] = _LastState((note.state,))
        elif isinstance(note, FileSnapshot) and note.path in first:
            before = last[note.path]
            # A rewind records its plan first. If the process was killed, the rewind has changed all files or none.
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
        return f"its earlier content cannot be restored: {state.skipped}"
    if current.skipped:
        return f"its current content cannot be stored: {current.skipped}"
    if current in last.states:
        return ""
    if last.broken:
        return "the call that changed it was interrupted, so its current content may not be the tool's"
    return "another program changed it after the last tool of this session"


def _choose_action(state: FileState, current: FileState) -> FileAction:
    if not state.exists:
        return "delete"
    return "change" if current.exists else "create"


class RewindResult(Struct, frozen=True):
    """The result of a rewind.

    Attributes:
        files: The changed files.
        conversation: Whether the conversation was rewound.
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
    overwrite: bool = False,
) -> RewindResult:
    """Perform a plan, all or nothing. `plan_undo` reverts it.

    Args:
        session: The session.
        env: The environment with its files.
        plan: The result of `plan_rewind` or `plan_undo`.
        files: Whether to restore files.
        conversation: Whether to rewind the conversation.
        overwrite: Whether to also replace files that another program changed, and to skip those that cannot be restored. The replaced
            content is stored, so that an undo restores it.

    Raises:
        SessionError: If there are conflicts, a file changed since the plan was made, or a file cannot be written.
        AgentBusyError: If an agent is running in the session.
    """
    if any(agent.running for agent in session.journal.agents):
        raise AgentBusyError("An agent is running in this session. Call abort() first.")
    if not session.writable:
        raise SessionError(f"Cannot write to session {session.id}. Nothing was rewound.")
    if conversation and plan.leaf:
        session.journal.check_branch_point(plan.leaf)
    restores = plan.restores if files else ()
    if files:
        _check_conflicts(plan, overwrite)
    contents = await _contents(session.blobs, restores)
    for restore in restores:
        await _check(session, env, restore)
    note = RewindRecord(plan.target, plan.left, files, conversation)
    noted = session.add_custom(REWOUND, msgspec.to_builtins(note))
    for restore in restores:  # On disk before anything changes, so that it can be undone if the process is killed.
        _note(session, BEFORE, restore.path, restore.current)
        _note(session, AFTER, restore.path, restore.state)
    trouble = f"Cannot save session {session.id}. Nothing was rewound."
    if await session.journal.flush(durable=True):
        trouble = await _write_files(env, session.blobs, restores, contents)
    for restore in restores:
        await _record_current(session, env, restore.path)
    if trouble:
        session.add_custom(REWOUND, msgspec.to_builtins(msgspec.structs.replace(note, failed=noted.id)))
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
        raise SessionError(f"Nothing was rewound. {named}{more}")


async def _contents(blobs: BlobStore, restores: tuple[FileRestore, ...]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for restore in restores:
        if restore.state.sha256 is None:
            continue
        data = await asyncio.to_thread(blobs.get, restore.state.sha256)
        if data is None:
            raise SessionError(f"{restore.path}: the stored content is missing. Nothing was rewound.")
        contents[restore.path] = data
    return contents


async def _check(session: Session, env: ExecutionEnv, restore: FileRestore) -> None:
    """Store the current content of a file, and check it against the plan."""
    try:
        state = await read_file_state(env, restore.path, session.blobs)
    except OSError as error:
        raise SessionError(f"{restore.path}: {explain(error)}. Nothing was rewound.") from error
    if state != restore.current:
        raise SessionError(f"{restore.path} changed just now. Nothing was rewound. Review the plan again.")


async def _record_current(session: Session, env: ExecutionEnv, path: str) -> None:
    try:
        state = await read_file_state(env, path, session.blobs)
    except OSError as error:
        state = FileState(skipped=explain(error))
    _note(session, AFTER, path, state)


def _note(session: Session, kind: str, path: str, state: FileState) -> None:
    session.journal.record(CustomEntry, custom_type=kind, data=msgspec.to_builtins(FileSnapshot(path, state)))


async def _write_files(
    env: ExecutionEnv, blobs: BlobStore, restores: tuple[FileRestore, ...], contents: dict[str, bytes]
) -> str:
    """Change the files. On failure, restores them and returns the error."""
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
    """Restore the previous content of files. Returns a message with the outcome."""
    lost: list[str] = []
    for restore in reversed(done):
        data = blobs.get(restore.current.sha256) if restore.current.sha256 else None
        try:
            if await read_file_state(env, restore.path, None) != restore.current:
                await _write_file(env, restore.path, restore.current, data)
        except OSError:
            lost.append(restore.path)
    return f"{', '.join(lost)} could not be restored; all other files are unchanged" if lost else "nothing was rewound"
