"""Implementation of `apply_patch`: compute the patch on the current files, then write all changes, or none."""

from __future__ import annotations

import asyncio
import hashlib
import posixpath
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from msgspec import Struct, field

from mainspring.env import RealPath, explain
from mainspring.env.paths import display_path, is_inside
from mainspring.tools.support.editing.apply import MAX_FILE_BYTES
from mainspring.tools.support.editing.closest_match import describe_closest_match
from mainspring.tools.support.editing.diffs import Diff, compute_diff
from mainspring.tools.support.editing.match import TOLERANCE_LABELS, Match, MatchTolerance, fold_lookalikes
from mainspring.tools.support.editing.patch_parser import PatchChunk, PatchError, PatchSection, parse_patch
from mainspring.tools.support.editing.splice import UnclearIndentationError, splice
from mainspring.tools.support.editing.text_view import NormalizedText
from mainspring.tools.support.paths import failure, file_accesses, resolve_file
from mainspring.tools.support.text_files import decode_text, replace_surrogates
from mainspring.tools.tool import Access, ToolContext, ToolErrorCode, ToolResult


class WriteStep(Struct, frozen=True):
    """Write new content to a file.

    Attributes:
        path: Real path of the file.
        data: New content.
        before: Previous content; ``None`` if the file did not exist.
    """

    path: RealPath
    data: bytes
    before: bytes | None


class MoveStep(Struct, frozen=True):
    """Rename a file, and replace any file with the new name."""

    path: RealPath
    target: RealPath
    replaces: bool = False


class RemoveStep(Struct, frozen=True):
    """Remove a file."""

    path: RealPath


FileStep = WriteStep | MoveStep | RemoveStep


async def apply_steps(ctx: ToolContext, steps: Sequence[FileStep]) -> None:
    """Execute all steps. If a step fails, the previous steps are undone.

    A removed file only gets a hidden name until all steps succeed, so that it can be restored.

    Raises:
        OSError: A step failed.
    """
    undo: list[Callable[[], Awaitable[None]]] = []
    set_aside: list[RealPath] = []
    try:
        for step in steps:
            await _apply_step(ctx, step, undo, set_aside)
    except BaseException:
        for back in reversed(undo):
            await _quietly(back)
        raise
    for path in set_aside:
        await _quietly(lambda path=path: ctx.env.remove(path))


async def _apply_step(
    ctx: ToolContext, step: FileStep, undo: list[Callable[[], Awaitable[None]]], set_aside: list[RealPath]
) -> None:
    env = ctx.env
    match step:
        case WriteStep(path, data, before):
            if before is None:
                undo.append(lambda: env.remove(path))
            else:
                undo.append(lambda: env.write_bytes(path, before))
            await env.write_bytes(path, data, parents=is_inside(path, env.cwd))
        case MoveStep(path, target, replaces):
            if replaces:
                await _set_aside(ctx, target, undo, set_aside)
            await env.rename(path, target, parents=is_inside(target, env.cwd))
            undo.append(lambda: env.rename(target, path))
        case RemoveStep(path):
            await _set_aside(ctx, path, undo, set_aside)


async def _set_aside(
    ctx: ToolContext, path: RealPath, undo: list[Callable[[], Awaitable[None]]], set_aside: list[RealPath]
) -> None:
    folder, name = posixpath.split(path)
    hidden = RealPath(folder) / f".{name[:100]}.{secrets.token_hex(4)}.removed"
    await ctx.env.rename(path, hidden)
    undo.append(lambda: ctx.env.rename(hidden, path))
    set_aside.append(hidden)


async def _quietly(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except OSError:
        pass  # Files that cannot be restored or cleaned up remain; the first failure is reported.


MatchKey = Callable[[str], str]


_LEVELS: tuple[tuple[MatchTolerance, MatchKey], ...] = (
    ("", lambda line: line),
    ("trailing spaces", str.rstrip),
    ("look-alikes", lambda line: fold_lookalikes(line)[0].rstrip()),
    ("indentation", lambda line: fold_lookalikes(line)[0].strip()),
)
"""Ignored differences, from the smallest."""


class PatchMatchError(ValueError):
    """A change does not match the file; the message contains the reason and the fix."""


def apply_chunks(raw: str, chunks: Sequence[PatchChunk]) -> tuple[str, tuple[str, ...]]:
    """Return the text after all changes, and a note for each change that did not match exactly.

    Raises:
        PatchMatchError: A change has no match, or several equally good matches.
    """
    cursor = 0
    notes: list[str] = []
    for chunk in chunks:
        raw, cursor, note = _apply_chunk(NormalizedText(raw), chunk, cursor)
        if note:
            notes.append(note)
    return raw, tuple(notes)


def _apply_chunk(view: NormalizedText, chunk: PatchChunk, cursor: int) -> tuple[str, int, str]:
    """Return the text after a change, the next line, and a note."""
    lines = _lines(view)
    start = cursor
    for context in chunk.contexts:
        start = _find_context(lines, context, start) + 1
    if not chunk.old:
        at = start if chunk.contexts else len(lines)
        return _insert_lines(view, lines, at, chunk.new), at + len(chunk.new), ""
    old, new = chunk.old, chunk.new
    if view.has_single_cr:
        old, new = ([part for line in each for part in line.split("\r")] for each in (old, new))
    found = _find(lines, old, start, chunk)
    if found is None and len(old) > 1 and not old[-1] and new and not new[-1]:
        old, new = (
            old[:-1],
            new[:-1],
        )  # Ignore the empty string after the last line feed, which is not a line of the file.
        found = _find(lines, old, start, chunk)
    if found is None:
        raise PatchMatchError(_not_found_message(view, chunk))
    at, fuzz = found
    if old == new:
        return view.raw, at + len(old), ""
    text = _replace_lines(view, lines, at, old, new, fuzz)
    note = f"lines {at + 1}-{at + len(old)} matched {TOLERANCE_LABELS[fuzz]}" if fuzz else ""
    return text, at + len(new), note


def _lines(view: NormalizedText) -> list[str]:
    return view.lines[:-1] if view.lines[-1] == "" else view.lines


def _find_context(lines: Sequence[str], context: str, start: int) -> int:
    for _, key in _LEVELS:
        requested = key(context)
        for i in range(start, len(lines)):
            if key(lines[i]) == requested:
                return i
    raise PatchMatchError(f"the line {context!r} that is named after @@ is not in the file after line {start}")


def _find(lines: Sequence[str], old: Sequence[str], start: int, chunk: PatchChunk) -> tuple[int, MatchTolerance] | None:
    """Return the start of the old lines: the first exact match, or a fuzzy match if it is unique."""
    last = len(lines) - len(old)
    for fuzz, key in _LEVELS:
        requested = [key(line) for line in old]
        keys = [key(line) for line in lines]
        places = [i for i in range(start, last + 1) if keys[i : i + len(old)] == requested]
        if chunk.at_end:
            places = [i for i in places if i == last]
        if not places:
            continue
        if fuzz and len(places) > 1:
            shown = ", ".join([str(i + 1) for i in places[:10]])
            raise PatchMatchError(
                f"the change at line {chunk.line} of the patch matches at {len(places)} places ({TOLERANCE_LABELS[fuzz]}), "
                f"starting at lines {shown}; give more lines around it, or name the place after @@"
            )
        return places[0], fuzz
    return None


def _replace_lines(
    view: NormalizedText, lines: Sequence[str], at: int, old: Sequence[str], new: Sequence[str], fuzz: MatchTolerance
) -> str:
    begin = view.line_starts[at]
    after = at + len(old)
    end = view.line_starts[after] if after < len(view.line_starts) else len(view.text)
    ends_open = after == len(lines) and not view.text.endswith("\n")
    before = "\n".join(old) + ("" if ends_open else "\n")
    text = "\n".join(new) + ("" if ends_open or not new else "\n")
    try:
        return splice(view, Match(((begin, end),), before, fuzz), text)
    except UnclearIndentationError:
        raise PatchMatchError(
            f"line {at + 1} of the file is found, but with another indentation, and how to indent the new lines cannot "
            "be derived from it; copy the lines from the file"
        ) from None


def _insert_lines(view: NormalizedText, lines: Sequence[str], at: int, new: Sequence[str]) -> str:
    place = view.line_starts[at] if at < len(lines) else len(view.text)
    ending = view.ending_around(max(0, place - 1))
    text = "".join([line + ending for line in new])
    if at >= len(lines) and view.text and not view.text.endswith("\n"):
        text = ending + text.removesuffix(ending)  # the file still ends without a newline
    here = view.to_raw_index(place)
    return view.raw[:here] + text + view.raw[here:]


def _not_found_message(view: NormalizedText, chunk: PatchChunk) -> str:
    where = " at the end of the file" if chunk.at_end else ""
    return (
        f"the old lines of the change at line {chunk.line} of the patch are not in the file{where}\n\n"
        f"{describe_closest_match(view, chr(10).join(chunk.old))}"
    )


class _FileSummary(Struct, frozen=True):
    """Summary of the change to a file."""

    letter: str
    name: str
    path: str
    diff: Diff
    notes: tuple[str, ...] = ()
    target: str = ""
    data: bytes | None = None


class _PatchPlan(Struct):
    """Effect of a patch, computed on the current files; nothing is written yet.

    Attributes:
        contents: Content of files after the steps so far, by real path; ``None`` for a removed file.
        steps: Steps to execute, in order.
        done: The same, for users.
        problem: Reason why the patch cannot continue.
    """

    contents: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    steps: list[FileStep] = field(default_factory=list[FileStep])
    done: list[_FileSummary] = field(default_factory=list[_FileSummary])
    problem: str = ""


class _PatchRejectedError(Exception):
    """A section cannot be applied; the message contains the reason."""


async def execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    """Apply the patch of a call."""
    try:
        sections = parse_patch(arguments["patch"])
    except PatchError as e:
        return failure(ToolErrorCode.VALIDATION_ERROR, f"Not applied: {e}.")
    partial = bool(arguments.get("partial", False))
    async with AsyncExitStack() as locks:
        for path in sorted(
            await _real_paths(ctx, sections)
        ):  # one global order, so that concurrent calls cannot deadlock
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
    """Return a problem with its file name, without a duplicate name."""
    return problem if problem.startswith(f"{name} ") else f"{name}: {problem}"


async def _real_paths(ctx: ToolContext, sections: Sequence[PatchSection]) -> set[str]:
    found: set[str] = set()
    for section in sections:
        for path in (section.path, section.target):
            try:
                found.add(await ctx.resolve(path or section.path))
            except OSError:
                continue  # reported when the section is computed
        if section.action == "update":
            other = await resolve_file(ctx, section.path, "patch")  # perhaps with another spelling
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
        raise _PatchRejectedError("the content has half a surrogate pair, which no file can contain; remove it")
    data = section.content.encode()
    document = await asyncio.to_thread(decode_text, before) if before else None
    name = display_path(real, ctx.env.cwd)
    difference = await asyncio.to_thread(compute_diff, document.text if document else "", section.content, name)
    _write(plan, real, data, before)
    note = ("it was there before and is replaced",) if before is not None else ()
    plan.done.append(_FileSummary("A" if before is None else "M", name, real, difference, note, data=data))


async def _plan_delete(ctx: ToolContext, plan: _PatchPlan, section: PatchSection) -> None:
    real = await _resolve_checked(ctx, section.path)
    await _check_no_link(ctx, section.path, real)
    content = await _content(ctx, plan, real)
    if content is None:
        raise _PatchRejectedError("it does not exist, so it cannot be deleted")
    plan.contents[real] = None
    plan.steps.append(RemoveStep(real))
    document = await asyncio.to_thread(decode_text, content)
    name = display_path(real, ctx.env.cwd)
    difference = await asyncio.to_thread(compute_diff, document.text if document else "", "", name)
    plan.done.append(_FileSummary("D", name, real, difference))


async def _plan_update(ctx: ToolContext, plan: _PatchPlan, section: PatchSection) -> None:
    real = await _resolve_checked(ctx, section.path)
    if real not in plan.contents:
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
            plan.contents[real], plan.contents[path] = None, before
    if data != before:
        _write(plan, path, data, before)
    message = "R" if target else "M"
    plan.done.append(_FileSummary(message, name, path, difference, notes, target, data))


def _patch_content(before: bytes, section: PatchSection, name: str) -> tuple[bytes, Diff, tuple[str, ...]]:
    document = decode_text(before)
    if document is None:
        raise _PatchRejectedError("it is binary, or in an encoding that cannot be restored")
    if any(replace_surrogates(line) != line for chunk in section.chunks for line in chunk.new):
        raise _PatchRejectedError("a new line has half a surrogate pair, which no file can contain; remove it")
    text, notes = apply_chunks(document.text, section.chunks)
    try:
        data = document.encode(text)
    except UnicodeEncodeError as e:
        wrong = e.object[e.start]
        raise _PatchRejectedError(
            f"it is in {document.encoding_note or 'UTF-8'}, which has no {wrong!r}; write it without"
        ) from None
    return data, compute_diff(document.text, text, name), notes


def _write(plan: _PatchPlan, real_path: RealPath, data: bytes, before: bytes | None) -> None:
    plan.steps.append(WriteStep(real_path, data, before))
    plan.contents[real_path] = data


async def _resolve_checked(ctx: ToolContext, path: str) -> RealPath:
    return RealPath(await ctx.resolve(path))


async def _check_no_link(ctx: ToolContext, path: str, real_path: str) -> None:
    """Reject a link: it would be deleted or moved instead of the approved file."""
    folder, name = posixpath.split(path.rstrip("/"))
    if posixpath.join(await ctx.env.realpath(folder or "."), name) != real_path:
        raise _PatchRejectedError(
            f"it is a symbolic link to {display_path(real_path, ctx.env.cwd)}; a patch neither deletes nor moves links"
        )


async def _content(ctx: ToolContext, plan: _PatchPlan, real_path: RealPath) -> bytes | None:
    """Return the content of a file at this point of the patch; ``None`` if it does not exist."""
    if real_path in plan.contents:
        return plan.contents[real_path]
    try:
        stat = await ctx.env.stat(real_path)
    except FileNotFoundError:
        return None
    if stat.kind == "directory":
        raise _PatchRejectedError("it is a folder, not a file")
    if stat.kind != "file":
        raise _PatchRejectedError(f"it is not a regular file but a {stat.kind}")
    if stat.size > MAX_FILE_BYTES:
        raise _PatchRejectedError(
            f"it has {stat.size} bytes, and the limit is {MAX_FILE_BYTES}; use a program in the shell"
        )
    return await ctx.env.read_bytes(real_path)


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
            **done.diff.metadata,
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
    """Return the file accesses of a call's patch."""
    try:
        sections = parse_patch(str(arguments.get("patch", "")))
    except PatchError:
        return []  # An invalid patch accesses no files: the call fails with the error.
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
