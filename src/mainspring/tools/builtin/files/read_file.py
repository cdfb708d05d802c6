"""`read_file`: lines of a text file, or an image."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

from mainspring.env.text import looks_binary, mark_of, read_document
from mainspring.messages import ImageBlock, TextBlock
from mainspring.tools.builtin.files.images import MOST_BYTES, examine, is_image, kind_of
from mainspring.tools.builtin.files.names import Found, accesses, cannot, failure, find
from mainspring.tools.builtin.files.window import Layout, Shown, Window, lay_out
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult

LIMIT = 2000
MAX_BYTES = 262_144
LONGEST_LINE = 2000
_PIECE = 8 << 20
_MOST_HELD = 64 << 20
_MOST_COUNTED = 1 << 30
_HEAD = 1 << 16


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    found = await find(ctx, arguments["path"], "read")
    if isinstance(found, ToolResult):
        return found
    try:
        head = await ctx.env.read_bytes(found.path, limit=_HEAD)
        if is_image(head):
            return await _image(ctx, found)
        if looks_binary(head):
            return _binary(found, head)
        return await _text(ctx, found, head, arguments)
    except OSError as e:
        return cannot("read", found.name, e)


async def _text(ctx: ToolContext, found: Found, head: bytes, arguments: Mapping[str, Any]) -> ToolResult:
    offset, limit = max(1, int(arguments.get("offset", 1))), int(arguments.get("limit", LIMIT))
    max_bytes = int(arguments.get("max_bytes", MAX_BYTES))
    layout = Layout(
        offset=offset,
        column=max(1, int(arguments.get("column", 1))),
        numbers=bool(arguments.get("line_numbers", True)),
        longest=0 if limit == 1 or not max_bytes else LONGEST_LINE,
        max_bytes=max_bytes,
    )
    window = Window(offset, limit, _MOST_HELD)
    mark, encoding = mark_of(head)
    form = ""
    if encoding not in ("", "utf-8"):
        data = await ctx.env.read_bytes(found.path, limit=_MOST_HELD)
        document = await asyncio.to_thread(read_document, data)
        if document is None:
            return _binary(found, head)
        form = document.form
        await asyncio.to_thread(window.feed, document.text.encode("utf-8", "replace"), data)
        counted_all = len(data) >= found.stat.size
    else:
        window.feed(b"", mark)
        counted_all = await _feed(ctx, found, window, head[len(mark) :], len(mark))
        form = "UTF-8 with byte order mark" if mark else ""
    if offset > max(window.lines, 1) and counted_all:
        lines = "1 line" if window.lines == 1 else f"{window.lines} lines"
        return failure(
            ToolErrorCode.VALIDATION_ERROR, f"offset {offset} is past the end of {found.name}, which has {lines}."
        )
    shown = await asyncio.to_thread(lay_out, window.held, layout, form)
    if shown is None:
        return _binary(found, head)
    return _result(found, window, shown, counted_all)


async def _feed(ctx: ToolContext, found: Found, window: Window, head: bytes, skipped: int) -> bool:
    """Read through the file, whose first bytes are known; False if it is too long to read to its end."""
    window.feed(head)
    at = skipped + len(head)
    if at < _HEAD:
        return True
    while at < _MOST_COUNTED:
        piece = await ctx.env.read_bytes(found.path, offset=at, limit=_PIECE)
        await asyncio.to_thread(window.feed, piece)
        at += len(piece)
        if len(piece) < _PIECE:
            return True
        if ctx.aborted:
            return False
    return False


def _result(found: Found, window: Window, shown: Shown, counted_all: bool) -> ToolResult:
    total = f"{window.lines}" if counted_all else f"more than {window.lines}"
    at_end = counted_all and shown.last >= window.lines
    if window.size == 0:
        footer = "empty file"
    elif at_end and shown.first == 1:
        footer = f"end of file, {total} line{'' if window.lines == 1 else 's'}"
    elif at_end:
        footer = f"lines {shown.first}-{shown.last} of {total}, end of file"
    else:
        why = ", stopped at max_bytes" if shown.is_full else ""
        footer = f"lines {shown.first}-{shown.last} of {total}{why}; continue with offset={shown.last + 1}"
    if at_end and window.ends_open:
        footer += "; no newline at the end"
    if shown.form:
        footer += f"; {shown.form}"
    text = f"{shown.text}\n({footer})" if shown.text or window.size else f"({footer})"
    return ToolResult(
        output=text,
        title=f"{found.name}: lines {shown.first}-{shown.last}" if window.size else f"{found.name}: empty",
        metadata={
            "path": found.path,
            "first_line": shown.first,
            "last_line": shown.last,
            "total_lines": window.lines,
            "bytes": found.stat.size,
            "hash": window.digest if counted_all else None,
            "mtime_ns": found.stat.mtime_ns,
            "form": shown.form,
            "truncated": not at_end or shown.first > 1 or bool(shown.cut_at),
        },
    )


async def _image(ctx: ToolContext, found: Found) -> ToolResult:
    size = found.stat.size
    if size > MOST_BYTES:
        text = (
            f"{found.name} is an image of {size} bytes; more than {MOST_BYTES} cannot be shown. Make it smaller first."
        )
        return ToolResult(output=text, title=f"{found.name}: image, too big", metadata={"path": found.path})
    data = await ctx.env.read_bytes(found.path)
    image = await asyncio.to_thread(examine, data)
    if image.fault:
        text = f"{found.name} starts like {image.media_type}, but {image.fault}; it is not shown ({size} bytes)."
        return ToolResult(output=text, title=f"{found.name}: damaged image", metadata={"path": found.path})
    caption = f"{found.name}: {image.media_type}, {image.width}x{image.height}, {size} bytes"
    block = ImageBlock(image.media_type, base64.b64encode(data).decode())
    metadata = {"path": found.path, "bytes": size, "width": image.width, "height": image.height}
    return ToolResult(output=(TextBlock(caption), block), title=caption, metadata=metadata)


def _binary(found: Found, head: bytes) -> ToolResult:
    text = (
        f"[binary file: {found.name}, {found.stat.size} bytes, {kind_of(head)}; not shown. "
        "Look at it with a program in the shell, such as xxd.]"
    )
    metadata = {"path": found.path, "bytes": found.stat.size, "binary": True}
    return ToolResult(output=text, title=f"{found.name}: binary", metadata=metadata)


def _access(arguments: Mapping[str, Any]) -> list[Access]:
    return accesses("fs-read", arguments)


read_file = Tool(
    name="read_file",
    description=(
        "Read a text file; lines come as number, tab, text. A long file comes in parts: the last line says how to go on. "
        "Images are shown."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file."},
            "offset": {"type": "integer", "minimum": 0, "default": 1, "description": "First line, from 1."},
            "limit": {"type": "integer", "minimum": 0, "default": LIMIT, "description": "Most lines; 0: all."},
            "max_bytes": {"type": "integer", "minimum": 0, "default": MAX_BYTES, "description": "Most bytes; 0: all."},
            "line_numbers": {"type": "boolean", "default": True},
            "column": {
                "type": "integer",
                "minimum": 1,
                "default": 1,
                "description": "First character of each line, to go on in a very long line.",
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    execute=_execute,
    label="Read",
    source="builtin",
    idempotent=True,
    access=_access,
    path_params=("path",),
)
"""Read lines of a text file, or an image."""
