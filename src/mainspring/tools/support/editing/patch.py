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
from mainspring.env.paths import display_path
from mainspring.tools.support.editing.apply import MAX_FILE_BYTES
from mainspring.tools.support.editing.diff import Diff, diff
from mainspring.tools.support.editing.patch_match import PatchMatchError, apply_chunks
from mainspring.tools.support.editing.patch_parser import PatchError, PatchSection, parse_patch
from mainspring.tools.support.editing.transaction import FileStep, MoveStep, RemoveStep, WriteStep, apply_steps
from mainspring.tools.support.paths import failure, file_accesses, resolve_file
from mainspring.tools.support.text_files import decode_text, replace_surrogates
from mainspring.tools.tool import Access, ToolContext, ToolErrorCode, ToolResult


class _FileSummary(Struct, frozen=True):
    """What became of one file."""

    letter: str
    name: str
    path: str
    diff: Diff
    notes: tuple[str, ...] = ()
    target: str = ""
    data: bytes | None = None


class _PatchPlan(Struct):
    """What a patch does, worked out on the files as they are; nothing is written yet.

    Attributes:
        held: What files hold by now, by real path; ``None`` for one that is gone.
        steps: What is to be done, in order.
        done: The same, for people.
        problem: Why it cannot go on.
    """

    held: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    steps: list[FileStep] = field(default_factory=list[FileStep])
    done: list[_FileSummary] = field(default_factory=list[_FileSummary])
    problem: str = ""


class _PatchRejectedError(Exception):
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
        plan = _PatchPlan()
        for section in sections:
            try:
                await _add(ctx, plan, section)
            except (_PatchRejectedError, PatchMatchError) as e:
                plan.problem = _prefix_file_name(display_path(section.path), str(e))
            except OSError as e:
                plan.problem = f"{display_path(section.path)}: {explain(e)}"
            if plan.problem:
                break
        if plan.problem and not (partial and plan.steps):
            return failure(
                ToolErrorCode.VALIDATION_ERROR, replace_surrogates(f"Not applied, no file was changed. {plan.problem}")
            )
        try:
            await apply_steps(ctx, plan.steps)
        except OSError as e:
            about = display_path(e.filename, ctx.env.cwd) if isinstance(e.filename, str) else "a file"
            text = f"Not applied: {about} could not be written: {explain(e)}. The changes before it were taken back."
            return failure(ToolErrorCode.IO_ERROR, text)
    return await asyncio.to_thread(_result, plan)


def _prefix_file_name(name: str, problem: str) -> str:
    """A problem with the name of its file, once."""
    return problem if problem.startswith(f"{name} ") else f"{name}: {problem}"


async def _real_paths(ctx: ToolContext, sections: Sequence[PatchSection]) -> set[str]:
    found: set[str] = set()
    for section in sections:
        for path in (section.path, section.target):
            try:
                found.add(await ctx.resolve(path or section.path))
            except OSError:
                continue  # told where the section is worked out
        if section.action == "update":
            other = await resolve_file(ctx, section.path, "patch")  # perhaps under another spelling
            found |= set() if isinstance(other, ToolResult) else {other.path}
    return found


async def _add(ctx: ToolContext, plan: _PatchPlan, section: PatchSection) -> None:
    match section.action:
        case "add":
            await _plan_add(ctx, plan, section)
        case "delete":
            await _plan_delete(ctx, plan, section)
        case "update":
            await _plan_update(ctx, plan, section)


async def _plan_add(ctx: ToolContext, plan: _PatchPlan, section: PatchSection) -> None:
    real = await _resolve_checked(ctx, section.path)
    before = await _content(ctx, plan, real)
    if replace_surrogates(section.content) != section.content:
        raise _PatchRejectedError("the content has half a surrogate pair, which no file can hold; send it without")
    data = section.content.encode()
    document = await asyncio.to_thread(decode_text, before) if before else None
    name = display_path(real, ctx.env.cwd)
    difference = await asyncio.to_thread(diff, document.text if document else "", section.content, name)
    _write(plan, real, data, before)
    note = ("it was there before and is replaced",) if before is not None else ()
    plan.done.append(_FileSummary("A" if before is None else "M", name, real, difference, note, data=data))


async def _plan_delete(ctx: ToolContext, plan: _PatchPlan, section: PatchSection) -> None:
    real = await _resolve_checked(ctx, section.path)
    await _check_no_link(ctx, section.path, real)
    held = await _content(ctx, plan, real)
    if held is None:
        raise _PatchRejectedError("it does not exist, so it cannot be deleted")
    plan.held[real] = None
    plan.steps.append(RemoveStep(real))
    document = await asyncio.to_thread(decode_text, held)
    name = display_path(real, ctx.env.cwd)
    difference = await asyncio.to_thread(diff, document.text if document else "", "", name)
    plan.done.append(_FileSummary("D", name, real, difference))


async def _plan_update(ctx: ToolContext, plan: _PatchPlan, section: PatchSection) -> None:
    real = await _resolve_checked(ctx, section.path)
    if real not in plan.held:
        found = await resolve_file(ctx, section.path, "patch")
        if isinstance(found, ToolResult):
            raise _PatchRejectedError(found.text)
        real = found.path
    before = await _content(ctx, plan, real)
    if before is None:
        raise _PatchRejectedError("it does not exist any more at this point of the patch")
    name = display_path(real, ctx.env.cwd)
    data, difference, notes = before, Diff("", 0, 0), tuple[str, ...]()
    if section.chunks:
        data, difference, notes = await asyncio.to_thread(_patch_content, before, section, name)
    target = ""
    path = real
    if section.target:
        await _check_no_link(ctx, section.path, real)
        path = await _resolve_checked(ctx, section.target)
        if path != real:
            target = display_path(path, ctx.env.cwd)
            replaces = await _content(ctx, plan, path) is not None
            plan.steps.append(MoveStep(real, path, replaces))
            plan.held[real], plan.held[path] = None, before
    if data != before:
        _write(plan, path, data, before)
    letter = "R" if target else "M"
    plan.done.append(_FileSummary(letter, name, path, difference, notes, target, data))


def _patch_content(before: bytes, section: PatchSection, name: str) -> tuple[bytes, Diff, tuple[str, ...]]:
    document = decode_text(before)
    if document is None:
        raise _PatchRejectedError("it is binary, or in an encoding that cannot be written back as it was")
    if any(replace_surrogates(line) != line for chunk in section.chunks for line in chunk.new):
        raise _PatchRejectedError("a new line has half a surrogate pair, which no file can hold; send it without")
    text, notes = apply_chunks(document.text, section.chunks)
    try:
        data = document.encode(text)
    except UnicodeEncodeError as e:
        wrong = e.object[e.start]
        raise _PatchRejectedError(
            f"it is in {document.form or 'UTF-8'}, which has no {wrong!r}; write it without"
        ) from None
    return data, diff(document.text, text, name), notes


def _write(plan: _PatchPlan, real: RealPath, data: bytes, before: bytes | None) -> None:
    plan.steps.append(WriteStep(real, data, before))
    plan.held[real] = data


async def _resolve_checked(ctx: ToolContext, path: str) -> RealPath:
    return RealPath(await ctx.resolve(path))


async def _check_no_link(ctx: ToolContext, path: str, real: str) -> None:
    """A link would be deleted or moved in place of the file that was asked about."""
    folder, name = posixpath.split(path.rstrip("/"))
    if posixpath.join(await ctx.env.realpath(folder or "."), name) != real:
        raise _PatchRejectedError(
            f"it is a symbolic link to {display_path(real, ctx.env.cwd)}; a patch neither deletes nor moves links"
        )


async def _content(ctx: ToolContext, plan: _PatchPlan, real: RealPath) -> bytes | None:
    """What a file holds at this point of the patch; ``None`` if there is none."""
    if real in plan.held:
        return plan.held[real]
    try:
        stat = await ctx.env.stat(real)
    except FileNotFoundError:
        return None
    if stat.kind == "directory":
        raise _PatchRejectedError("it is a folder, not a file")
    if stat.kind != "file":
        raise _PatchRejectedError(f"it is no regular file but a {stat.kind}")
    if stat.size > MAX_FILE_BYTES:
        raise _PatchRejectedError(
            f"it has {stat.size} bytes, and the limit is {MAX_FILE_BYTES}; use a program in the shell"
        )
    return await ctx.env.read_bytes(real)


def _result(plan: _PatchPlan) -> ToolResult:
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
        output=replace_surrogates("\n".join(lines)),
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
            found += file_accesses("fs-write", {"path": section.path})
            if section.target:
                found += [Access("fs-delete", section.path), Access("fs-write", section.target)]
    return found
