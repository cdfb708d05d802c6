"""What `apply_patch` does: a patch is worked out on the files as they are, and then all of it is written, or nothing."""

from __future__ import annotations

import asyncio
import hashlib
import posixpath
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from msgspec import Struct, field

from mainspring.env import RealPath, explain
from mainspring.env.paths import shown
from mainspring.tools.support.editing.apply import MOST_BYTES
from mainspring.tools.support.editing.diff import Diff, diff
from mainspring.tools.support.editing.patch_match import ChunkError, patched
from mainspring.tools.support.editing.patch_parser import PatchError, Section, parse_patch
from mainspring.tools.support.editing.transaction import Move, Remove, Step, Write, commit
from mainspring.tools.support.paths import accesses, failure, find
from mainspring.tools.support.text_files import displayable, read_document
from mainspring.tools.tool import Access, ToolContext, ToolErrorCode, ToolResult


class _Done(Struct, frozen=True):
    """What became of one file."""

    letter: str
    name: str
    path: str
    diff: Diff
    notes: tuple[str, ...] = ()
    target: str = ""
    data: bytes | None = None


class _Plan(Struct):
    """What a patch does, worked out on the files as they are; nothing is written yet.

    Attributes:
        held: What files hold by now, by real path; ``None`` for one that is gone.
        steps: What is to be done, in order.
        done: The same, for people.
        problem: Why it cannot go on.
    """

    held: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    steps: list[Step] = field(default_factory=list[Step])
    done: list[_Done] = field(default_factory=list[_Done])
    problem: str = ""


class _RefusedError(Exception):
    """A section cannot be made; the text says why."""


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """Apply the patch of a call."""
    try:
        sections = parse_patch(arguments["patch"])
    except PatchError as e:
        return failure(ToolErrorCode.VALIDATION_ERROR, f"Not applied: {e}.")
    partial = bool(arguments.get("partial", False))
    async with AsyncExitStack() as locks:
        for path in sorted(await _real_paths(ctx, sections)):  # in one order everywhere, so that nobody waits in a ring
            await locks.enter_async_context(ctx.env.lock(path))
        plan = _Plan()
        for section in sections:
            try:
                await _add(ctx, plan, section)
            except (_RefusedError, ChunkError) as e:
                plan.problem = _told(shown(section.path), str(e))
            except OSError as e:
                plan.problem = f"{shown(section.path)}: {explain(e)}"
            if plan.problem:
                break
        if plan.problem and not (partial and plan.steps):
            return failure(
                ToolErrorCode.VALIDATION_ERROR, displayable(f"Not applied, no file was changed. {plan.problem}")
            )
        try:
            await commit(ctx, plan.steps)
        except OSError as e:
            about = shown(e.filename, ctx.env.cwd) if isinstance(e.filename, str) else "a file"
            text = f"Not applied: {about} could not be written: {explain(e)}. The changes before it were taken back."
            return failure(ToolErrorCode.IO_ERROR, text)
    return await asyncio.to_thread(_result, plan)


def _told(name: str, problem: str) -> str:
    """A problem with the name of its file, once."""
    return problem if problem.startswith(f"{name} ") else f"{name}: {problem}"


async def _real_paths(ctx: ToolContext, sections: Sequence[Section]) -> set[str]:
    found: set[str] = set()
    for section in sections:
        for path in (section.path, section.target):
            try:
                found.add(await ctx.resolve(path or section.path))
            except OSError:
                continue  # told where the section is worked out
        if section.action == "update":
            other = await find(ctx, section.path, "patch")  # perhaps under another spelling
            found |= set() if isinstance(other, ToolResult) else {other.path}
    return found


async def _add(ctx: ToolContext, plan: _Plan, section: Section) -> None:
    match section.action:
        case "add":
            await _plan_add(ctx, plan, section)
        case "delete":
            await _plan_delete(ctx, plan, section)
        case "update":
            await _plan_update(ctx, plan, section)


async def _plan_add(ctx: ToolContext, plan: _Plan, section: Section) -> None:
    real = await _settled(ctx, section.path)
    before = await _content(ctx, plan, real)
    if displayable(section.content) != section.content:
        raise _RefusedError("the content has half a surrogate pair, which no file can hold; send it without")
    data = section.content.encode()
    document = await asyncio.to_thread(read_document, before) if before else None
    name = shown(real, ctx.env.cwd)
    difference = await asyncio.to_thread(diff, document.text if document else "", section.content, name)
    _write(plan, real, data, before)
    note = ("it was there before and is replaced",) if before is not None else ()
    plan.done.append(_Done("A" if before is None else "M", name, real, difference, note, data=data))


async def _plan_delete(ctx: ToolContext, plan: _Plan, section: Section) -> None:
    real = await _settled(ctx, section.path)
    await _check_no_link(ctx, section.path, real)
    held = await _content(ctx, plan, real)
    if held is None:
        raise _RefusedError("it does not exist, so it cannot be deleted")
    plan.held[real] = None
    plan.steps.append(Remove(real))
    document = await asyncio.to_thread(read_document, held)
    name = shown(real, ctx.env.cwd)
    difference = await asyncio.to_thread(diff, document.text if document else "", "", name)
    plan.done.append(_Done("D", name, real, difference))


async def _plan_update(ctx: ToolContext, plan: _Plan, section: Section) -> None:
    real = await _settled(ctx, section.path)
    if real not in plan.held:
        found = await find(ctx, section.path, "patch")
        if isinstance(found, ToolResult):
            raise _RefusedError(found.text)
        real = found.path
    before = await _content(ctx, plan, real)
    if before is None:
        raise _RefusedError("it does not exist any more at this point of the patch")
    name = shown(real, ctx.env.cwd)
    data, difference, notes = before, Diff("", 0, 0), tuple[str, ...]()
    if section.chunks:
        data, difference, notes = await asyncio.to_thread(_changed, before, section, name)
    target = ""
    path = real
    if section.target:
        await _check_no_link(ctx, section.path, real)
        path = await _settled(ctx, section.target)
        if path != real:
            target = shown(path, ctx.env.cwd)
            replaces = await _content(ctx, plan, path) is not None
            plan.steps.append(Move(real, path, replaces))
            plan.held[real], plan.held[path] = None, before
    if data != before:
        _write(plan, path, data, before)
    letter = "R" if target else "M"
    plan.done.append(_Done(letter, name, path, difference, notes, target, data))


def _changed(before: bytes, section: Section, name: str) -> tuple[bytes, Diff, tuple[str, ...]]:
    document = read_document(before)
    if document is None:
        raise _RefusedError("it is binary, or in an encoding that cannot be written back as it was")
    if any(displayable(line) != line for chunk in section.chunks for line in chunk.new):
        raise _RefusedError("a new line has half a surrogate pair, which no file can hold; send it without")
    text, notes = patched(document.text, section.chunks)
    try:
        data = document.encode(text)
    except UnicodeEncodeError as e:
        wrong = e.object[e.start]
        raise _RefusedError(f"it is in {document.form or 'UTF-8'}, which has no {wrong!r}; write it without") from None
    return data, diff(document.text, text, name), notes


def _write(plan: _Plan, real: RealPath, data: bytes, before: bytes | None) -> None:
    plan.steps.append(Write(real, data, before))
    plan.held[real] = data


async def _settled(ctx: ToolContext, path: str) -> RealPath:
    return RealPath(await ctx.resolve(path))


async def _check_no_link(ctx: ToolContext, path: str, real: str) -> None:
    """A link would be deleted or moved in place of the file that was asked about."""
    folder, name = posixpath.split(path.rstrip("/"))
    if posixpath.join(await ctx.env.realpath(folder or "."), name) != real:
        raise _RefusedError(
            f"it is a symbolic link to {shown(real, ctx.env.cwd)}; a patch neither deletes nor moves links"
        )


async def _content(ctx: ToolContext, plan: _Plan, real: RealPath) -> bytes | None:
    """What a file holds at this point of the patch; ``None`` if there is none."""
    if real in plan.held:
        return plan.held[real]
    try:
        stat = await ctx.env.stat(real)
    except FileNotFoundError:
        return None
    if stat.kind == "directory":
        raise _RefusedError("it is a folder, not a file")
    if stat.kind != "file":
        raise _RefusedError(f"it is no regular file but a {stat.kind}")
    if stat.size > MOST_BYTES:
        raise _RefusedError(f"it has {stat.size} bytes, and the limit is {MOST_BYTES}; use a program in the shell")
    return await ctx.env.read_bytes(real)


def _result(plan: _Plan) -> ToolResult:
    added, removed = sum(d.diff.added for d in plan.done), sum(d.diff.removed for d in plan.done)
    count = len(plan.done)
    summary = f"{count} file{'' if count == 1 else 's'} changed (+{added} -{removed} lines)"
    lines = [f"Applied the patch in part: {summary}." if plan.problem else f"Applied the patch: {summary}."]
    for done in plan.done:
        lines.append(f"{done.letter} {done.name}" + (f" -> {done.target}" if done.target else ""))
        lines += [f"  {note}" for note in done.notes]
    if plan.problem:
        lines.append(f"Stopped there: {plan.problem}")
    files = [
        {
            "action": done.letter,
            "path": str(done.path),
            "diff": done.diff.text,
            "added": done.diff.added,
            "removed": done.diff.removed,
            "hash": None if done.data is None else hashlib.sha256(done.data).hexdigest(),
        }
        for done in plan.done
    ]
    metadata = {"files": files, "added": added, "removed": removed, "changed": bool(plan.steps)}
    is_error = bool(plan.problem)
    return ToolResult(
        output=displayable("\n".join(lines)),
        title=f"patch: {summary}",
        metadata=metadata,
        is_error=is_error,
        code=ToolErrorCode.VALIDATION_ERROR if is_error else None,
    )


def access(arguments: Mapping[str, Any]) -> list[Access]:
    """What the patch of a call touches."""
    try:
        sections = parse_patch(str(arguments.get("patch", "")))
    except PatchError:
        return []  # It touches nothing: the call ends with what is wrong with the patch.
    found: list[Access] = []
    for section in sections:
        if section.action == "delete":
            found.append(Access("fs-delete", section.path))
        elif section.action == "add":
            found.append(Access("fs-write", section.path))
        else:
            found += accesses("fs-write", {"path": section.path})
            if section.target:
                found += [Access("fs-delete", section.path), Access("fs-write", section.target)]
    return found
