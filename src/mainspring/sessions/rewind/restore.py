"""Going back, as a plan says; what is done can be undone in the same way."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec import Struct

from mainspring.env import ExecutionEnv, RealPath, explain
from mainspring.errors import AgentBusyError, SessionError
from mainspring.sessions.blob_store import Blobs
from mainspring.sessions.rewind.plan import Restore, RewindPlan
from mainspring.sessions.rewind.state import AFTER, BEFORE, REWOUND, FileNote, FileState, RewoundNote, state_of
from mainspring.sessions.session import Session


class Rewound(Struct, frozen=True):
    """What was done.

    Attributes:
        files: The files that were changed.
        conversation: Whether the conversation went back.
    """

    files: tuple[Restore, ...]
    conversation: bool


async def rewind(
    session: Session,
    env: ExecutionEnv,
    plan: RewindPlan,
    *,
    files: bool = True,
    conversation: bool = True,
    force: bool = False,
) -> Rewound:
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
        session.journal.check_place(plan.leaf)
    restores = plan.restores if files else ()
    if files:
        _refuse(plan, force)
    contents = await _contents(session.blobs, restores)
    for restore in restores:
        await _check(session, env, restore)
    note = RewoundNote(plan.target, plan.left, files, conversation)
    noted = session.custom(REWOUND, msgspec.to_builtins(note))
    for restore in restores:  # on disk before anything happens, so that it can be undone whenever the process ends
        _note(session, BEFORE, restore.path, restore.current)
        _note(session, AFTER, restore.path, restore.state)
    trouble = f"session {session.id} cannot be saved, so nothing was rewound"
    if await session.journal.flush(durable=True):
        trouble = await _put_all(env, session.blobs, restores, contents)
    for restore in restores:
        await _note_now(session, env, restore.path)
    if trouble:
        session.custom(REWOUND, msgspec.to_builtins(msgspec.structs.replace(note, failed=noted.id)))
    await session.journal.flush(durable=True)
    if trouble:
        raise SessionError(trouble)
    if conversation and plan.leaf != session.journal.leaf:
        session.branch(plan.leaf, "rewind")
        await session.journal.flush(durable=True)
    return Rewound(tuple(restores), conversation)


def _refuse(plan: RewindPlan, force: bool) -> None:
    standing = () if force else plan.conflicts
    if standing:
        named = "; ".join(f"{c.path}: {c.reason}" for c in standing[:5])
        more = f" and {len(standing) - 5} more" if len(standing) > 5 else ""
        raise SessionError(f"nothing was rewound. {named}{more}")


async def _contents(blobs: Blobs, restores: tuple[Restore, ...]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for restore in restores:
        if restore.state.sha256 is None:
            continue
        data = await asyncio.to_thread(blobs.get, restore.state.sha256)
        if data is None:
            raise SessionError(f"{restore.path}: the content that was kept is gone; nothing was rewound")
        contents[restore.path] = data
    return contents


async def _check(session: Session, env: ExecutionEnv, restore: Restore) -> None:
    """Keep what a file holds, and see that it is what the plan says."""
    try:
        state = await state_of(env, restore.path, session.blobs)
    except OSError as error:
        raise SessionError(f"{restore.path}: {explain(error)}; nothing was rewound") from error
    if state != restore.current:
        raise SessionError(f"{restore.path} changed just now; nothing was rewound, look at the plan again")


async def _note_now(session: Session, env: ExecutionEnv, path: str) -> None:
    try:
        state = await state_of(env, path, session.blobs)
    except OSError as error:
        state = FileState(skipped=explain(error))
    _note(session, AFTER, path, state)


def _note(session: Session, kind: str, path: str, state: FileState) -> None:
    session.journal.note(kind, msgspec.to_builtins(FileNote(path, state)))


async def _put_all(env: ExecutionEnv, blobs: Blobs, restores: tuple[Restore, ...], contents: dict[str, bytes]) -> str:
    """Change the files; what went wrong if they are as they were again."""
    for i, restore in enumerate(restores):
        try:
            await _put(env, restore.path, restore.state, contents.get(restore.path))
        except OSError as error:
            return f"{restore.path}: {explain(error)}; {await _take_back(env, blobs, restores[: i + 1])}"
    return ""


async def _put(env: ExecutionEnv, path: str, state: FileState, data: bytes | None) -> None:
    if data is None:
        await env.remove(RealPath(path))
    else:
        await env.write_bytes(RealPath(path), data, parents=True)


async def _take_back(env: ExecutionEnv, blobs: Blobs, done: tuple[Restore, ...]) -> str:
    """Give files back what they held; says what came of it."""
    lost: list[str] = []
    for restore in reversed(done):
        data = blobs.get(restore.current.sha256) if restore.current.sha256 else None
        try:
            if await state_of(env, restore.path, None) != restore.current:
                await _put(env, restore.path, restore.current, data)
        except OSError:
            lost.append(restore.path)
    return f"{', '.join(lost)} could not be put back; the rest is as it was" if lost else "nothing was rewound"
