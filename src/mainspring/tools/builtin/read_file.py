"""`read_file`: lines of a text file, an image, or the text of a PDF."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mainspring.extras import how_to_install
from mainspring.lazy import later
from mainspring.messages import ImageBlock, TextBlock
from mainspring.tools.builtin.window import Layout, Shown, Window, lay_out
from mainspring.tools.support.images import MOST_BYTES, MOST_EDGE, examine, is_convertible, is_image, kind_of
from mainspring.tools.support.paths import Found, accesses, cannot, failure, find
from mainspring.tools.support.pictures import LONGEST_EDGE, NoPillowError, PictureError, fault_of, fitted
from mainspring.tools.support.text_files import looks_binary, mark_of, read_document
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult

if TYPE_CHECKING:
    from mainspring.tools.support.pdf_pages import read_pdf
else:
    read_pdf = later("mainspring.tools.support.pdf_pages", "read_pdf")

LIMIT = 2000
MAX_BYTES = 262_144
LONGEST_LINE = 2000
_PIECE = 8 << 20
_MOST_HELD = 64 << 20
_MOST_COUNTED = 256 << 20
_HEAD = 1 << 16
MOST_READ = 64 << 20
"""Bigger images are not even looked at."""


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    found = await find(ctx, arguments["path"], "read")
    if isinstance(found, ToolResult):
        return found
    try:
        head = await ctx.env.read_bytes(found.path, limit=_HEAD)
        if is_image(head) or is_convertible(head):
            return await _image(ctx, found, head)
        if head.startswith(b"%PDF-"):
            return await read_pdf(ctx, found, arguments, int(arguments.get("max_bytes", MAX_BYTES)))
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
    """Read through the file, whose first bytes are known; False if it is too long to count its lines to the end."""
    window.feed(head)
    at = skipped + len(head)
    if at < _HEAD:
        return True
    while at < _MOST_COUNTED or not window.is_full:
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
            "path": str(found.path),
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


async def _image(ctx: ToolContext, found: Found, head: bytes) -> ToolResult:
    size = found.stat.size
    if size > MOST_READ:
        return _not_shown(found, head, f"more than {MOST_READ} are not read. Make it smaller first", "too big")
    data = await ctx.env.read_bytes(found.path)
    image = await asyncio.to_thread(examine, data) if is_image(data) else None
    fault = image.fault if image is not None else ""
    is_fit = image is not None and size <= MOST_BYTES and max(image.width, image.height) <= LONGEST_EDGE
    if is_fit and not fault:
        fault = await asyncio.to_thread(fault_of, data)
    if image is not None and fault:
        text = f"{found.name} starts like {image.media_type}, but {fault}; it is not shown ({size} bytes)."
        return ToolResult(output=text, title=f"{found.name}: damaged image", metadata={"path": str(found.path)})
    if image is not None and is_fit:
        return _shown_image(found, data, image.media_type, image.width, image.height, "")
    try:
        fit = await asyncio.to_thread(fitted, data, MOST_BYTES)
    except NoPillowError:
        if image is not None and size <= MOST_BYTES and max(image.width, image.height) <= MOST_EDGE:
            return _shown_image(found, data, image.media_type, image.width, image.height, "")
        install = await asyncio.to_thread(how_to_install, "images")
        why = (
            f"an image of more than {MOST_BYTES} bytes or {MOST_EDGE} pixels, or of another kind than PNG, JPEG, GIF and "
            "WebP, cannot be shown as it is, and Pillow, which would change it, is missing. The user can install it with: "
            f"{install}"
        )
        return _not_shown(found, head, why, "not shown")
    except PictureError as e:
        return _not_shown(found, head, str(e), "damaged image")
    was = f"{image.width}x{image.height}, " if image is not None else ""
    note = f" (made smaller or converted; the file: {kind_of(head)}, {was}{size} bytes)"
    return _shown_image(found, fit.data, fit.media_type, fit.width, fit.height, note)


def _shown_image(found: Found, data: bytes, media_type: str, width: int, height: int, note: str) -> ToolResult:
    caption = f"{found.name}: {media_type}, {width}x{height}, {len(data)} bytes{note}"
    block = ImageBlock(media_type, base64.b64encode(data).decode())
    metadata = {"path": str(found.path), "bytes": len(data), "width": width, "height": height, "resized": bool(note)}
    return ToolResult(output=(TextBlock(caption), block), title=caption, metadata=metadata)


def _not_shown(found: Found, head: bytes, why: str, title: str) -> ToolResult:
    text = f"{found.name} ({kind_of(head)}, {found.stat.size} bytes) is not shown: {why}."
    return ToolResult(output=text, title=f"{found.name}: {title}", metadata={"path": str(found.path)})


def _binary(found: Found, head: bytes) -> ToolResult:
    text = (
        f"[binary file: {found.name}, {found.stat.size} bytes, {kind_of(head)}; not shown. "
        "Look at it with a program in the shell, such as xxd.]"
    )
    metadata = {"path": str(found.path), "bytes": found.stat.size, "binary": True}
    return ToolResult(output=text, title=f"{found.name}: binary", metadata=metadata)


def _access(arguments: Mapping[str, Any]) -> list[Access]:
    return accesses("fs-read", arguments)


read_file = Tool(
    name="read_file",
    description=(
        "Read a text file; lines come as number, tab, text. A long file comes in parts: the last line says how to go on. "
        "Images are shown; of a PDF the text, by pages."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file."},
            "offset": {"type": "integer", "minimum": 0, "default": 1, "description": "First line, from 1."},
            "limit": {"type": "integer", "minimum": 0, "default": LIMIT, "description": "Most lines; 0: all."},
            "max_bytes": {"type": "integer", "minimum": 0, "default": MAX_BYTES, "description": "Most bytes; 0: all."},
            "pages": {"type": "string", "description": "Of a PDF, as in 3, 3-5 or 3-."},
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
"""Read lines of a text file, an image, or the text of a PDF."""
