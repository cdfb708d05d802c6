"""`read_file`: read lines of a text file, an image, or the text of a PDF.

Text files are read in pieces and only the requested lines are stored, so files can have any size.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mainspring.extras import install_command
from mainspring.lazy import lazy_function
from mainspring.messages import ImageBlock, TextBlock
from mainspring.text import truncate_bytes
from mainspring.tools.support.images import (
    MAX_EDGE,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_EDGE,
    ImageError,
    PillowMissingError,
    describe_file_type,
    image_error,
    inspect_image,
    is_convertible,
    is_image,
    shrink_image,
)
from mainspring.tools.support.paths import ResolvedFile, failure, file_accesses, os_error_result, resolve_file
from mainspring.tools.support.text_files import decode_text, detect_bom, looks_binary, replace_surrogates
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult

if TYPE_CHECKING:
    from mainspring.tools.support.pdf import read_pdf
else:
    read_pdf = lazy_function("mainspring.tools.support.pdf", "read_pdf")


class RenderedLines(Struct, frozen=True):
    """Text for the model, and its position in the file.

    Attributes:
        text: Rendered lines.
        first: Number of the first line.
        last: Number of the last line; one less than ``first`` if no lines are shown.
        cut_at: Number of the first truncated line, or 0.
        is_full: Whether rendering stopped at ``max_bytes``.
        form: Encoding and line endings, if not UTF-8 and LF.
    """

    text: str
    first: int
    last: int
    cut_at: int = 0
    is_full: bool = False
    form: str = ""


class LineWindow:
    """Lines ``offset`` to ``offset + limit - 1`` of bytes fed in order; the other lines are counted.

    Lines end in CR if the first piece has no LF.
    """

    __slots__ = (
        "_ends_in_cr",
        "_hash",
        "_held",
        "_held_all",
        "_held_size",
        "_limit",
        "_max_bytes",
        "_newlines",
        "_offset",
        "ends_open",
        "size",
    )

    def __init__(self, offset: int, limit: int, max_bytes: int) -> None:
        self._offset = offset
        self._limit = limit
        self._max_bytes = max_bytes
        self._newlines = 0
        self._held: list[bytes] = []
        self._held_size = 0
        self._held_all = True
        self._hash = hashlib.sha256()
        self._ends_in_cr: bool | None = None
        self.size = 0
        self.ends_open = False

    @property
    def ends_in_cr(self) -> bool:
        """Whether lines end in CR alone."""
        return self._ends_in_cr is True

    def feed(self, data: bytes, raw: bytes | None = None) -> None:
        """Process the next piece; ``raw`` are the bytes in the file if they differ."""
        self._hash.update(data if raw is None else raw)
        if not data:
            return
        self.size += len(data)
        if self._ends_in_cr is None:
            self._ends_in_cr = b"\r" in data and b"\n" not in data
        if self._ends_in_cr:
            data = data.replace(b"\r", b"\n")
        self.ends_open = data[-1:] != b"\n"
        count = data.count(b"\n")
        first, last = self._offset - 1, self._offset - 1 + self._limit
        begin, end = 0, len(data)
        if self._newlines < first:
            begin = _offset_after_lines(data, first - self._newlines) if self._newlines + count >= first else end
        if self._limit and self._newlines + count >= last:
            end = _offset_after_lines(data, last - self._newlines) if self._newlines < last else 0
        if begin < end:
            self._held_all = self._held_size < self._max_bytes
            if self._held_all:
                self._held.append(data[begin:end])
                self._held_size += end - begin
        self._newlines += count

    @property
    def lines(self) -> int:
        """Number of lines so far."""
        return self._newlines + (1 if self.ends_open else 0)

    @property
    def is_full(self) -> bool:
        """Whether all requested lines were read, or the size limit is reached."""
        return (
            bool(self._limit and self._newlines >= self._offset - 1 + self._limit) or self._held_size >= self._max_bytes
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the file's bytes so far."""
        return self._hash.hexdigest()

    @property
    def buffered(self) -> bytes:
        """Bytes of the requested lines, limited to the whole lines that fit the size limit."""
        data = b"".join(self._held)
        return data if self._held_all else data[: data.rfind(b"\n") + 1] or data


def _offset_after_lines(data: bytes, count: int) -> int:
    """Return the index right after the ``count``-th line feed."""
    at = 0
    for _ in range(count):
        at = data.index(b"\n", at) + 1
    return at


class LineFormat(Struct, frozen=True):
    """Format of rendered lines.

    Attributes:
        offset: Number of the first line.
        column: First character of each line, from 1.
        numbers: Whether each line starts with its number and a tab.
        longest: Maximum number of characters per line; 0: no limit.
        max_bytes: Maximum total number of bytes; 0: no limit.
    """

    offset: int
    column: int
    numbers: bool
    longest: int
    max_bytes: int


def render_lines(data: bytes, layout: LineFormat, form: str) -> RenderedLines | None:
    """Return the requested lines as text; ``None`` if they are not text. Slow for many lines."""
    document = decode_text(data)
    if document is None:
        return None
    lines = document.text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    crlf = sum(line.endswith("\r") for line in lines)
    forms = [form or document.encoding_note]
    if crlf:
        forms.append("CRLF line endings" if crlf >= len(lines) - 1 else "mixed LF and CRLF line endings")
    out: list[str] = []
    remaining = layout.max_bytes
    cut_at, is_full = 0, False
    for i, line in enumerate(lines):
        number = layout.offset + i
        line, cut = _truncate(line.removesuffix("\r"), layout, number)
        size = len(line.encode("utf-8", "replace")) + 1
        if layout.max_bytes and size > remaining:
            is_full = True
            if not out:
                line, cut = _fit(line, layout, number)
                cut_at = number
                out.append(f"{number}\t{line}" if layout.numbers else line)
            break
        remaining -= size
        cut_at = cut_at or (number if cut else 0)
        out.append(f"{number}\t{line}" if layout.numbers else line)
    last = layout.offset + len(out) - 1
    return RenderedLines(
        replace_surrogates("\n".join(out)), layout.offset, last, cut_at, is_full, ", ".join([f for f in forms if f])
    )


def _truncate(line: str, layout: LineFormat, number: int) -> tuple[str, bool]:
    line = line[layout.column - 1 :] if layout.column > 1 else line
    if layout.longest and len(line) > layout.longest:
        return line[: layout.longest] + _truncation_note(
            len(line) - layout.longest, number, layout.column + layout.longest
        ), True
    return line, False


def _fit(line: str, layout: LineFormat, number: int) -> tuple[str, bool]:
    """Return the part of a line that fits in ``max_bytes``."""
    fitted = truncate_bytes(line, layout.max_bytes)
    return fitted + _truncation_note(len(line) - len(fitted), number, layout.column + len(fitted)), True


def _truncation_note(missing: int, number: int, column: int) -> str:
    return f"… ({missing} more characters in this line: offset={number} limit=1 column={column})"


DEFAULT_LINE_LIMIT = 2000
_MAX_BYTES = 262_144
_MAX_LINE_CHARS = 2000
_READ_SIZE = 8 << 20
_MAX_BUFFERED_BYTES = 64 << 20
_MAX_COUNTED_BYTES = 256 << 20
_HEAD_BYTES = 1 << 16
MAX_IMAGE_READ_BYTES = 64 << 20
"""Maximum size of an image to read, in bytes."""


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    found = await resolve_file(ctx, arguments["path"], "read")
    if isinstance(found, ToolResult):
        return found
    try:
        head = await ctx.env.read_bytes(found.path, limit=_HEAD_BYTES)
        if is_image(head) or is_convertible(head):
            return await _image(ctx, found, head)
        if head.startswith(b"%PDF-"):
            return await read_pdf(ctx, found, arguments, int(arguments.get("max_bytes", _MAX_BYTES)))
        if looks_binary(head):
            return _binary(found, head)
        return await _text(ctx, found, head, arguments)
    except OSError as e:
        return os_error_result("read", found.name, e)


async def _text(ctx: ToolContext, file: ResolvedFile, head: bytes, arguments: Mapping[str, Any]) -> ToolResult:
    offset, limit = max(1, int(arguments.get("offset", 1))), int(arguments.get("limit", DEFAULT_LINE_LIMIT))
    max_bytes = int(arguments.get("max_bytes", _MAX_BYTES))
    layout = LineFormat(
        offset=offset,
        column=max(1, int(arguments.get("column", 1))),
        numbers=bool(arguments.get("line_numbers", True)),
        longest=0 if limit == 1 or not max_bytes else _MAX_LINE_CHARS,
        max_bytes=max_bytes,
    )
    window = LineWindow(offset, limit, _MAX_BUFFERED_BYTES)
    mark, encoding = detect_bom(head)
    form = ""
    if encoding not in ("", "utf-8"):
        data = await ctx.env.read_bytes(file.path, limit=_MAX_BUFFERED_BYTES)
        document = await asyncio.to_thread(decode_text, data)
        if document is None:
            return _binary(file, head)
        form = document.encoding_note
        await asyncio.to_thread(window.feed, document.text.encode("utf-8", "replace"), data)
        counted_all = len(data) >= file.stat.size
    else:
        window.feed(b"", mark)
        counted_all = await _feed(ctx, file, window, head[len(mark) :], len(mark))
        form = "UTF-8 with byte order mark" if mark else ""
    if offset > max(window.lines, 1) and counted_all:
        lines = "1 line" if window.lines == 1 else f"{window.lines} lines"
        return failure(
            ToolErrorCode.VALIDATION_ERROR, f"offset {offset} is past the end of {file.name}, which has {lines}."
        )
    if window.ends_in_cr:
        form = ", ".join(filter(None, (form, "CR line endings")))
    shown = await asyncio.to_thread(render_lines, window.buffered, layout, form)
    if shown is None:
        return _binary(file, head)
    return _result(file, window, shown, counted_all)


async def _feed(ctx: ToolContext, file: ResolvedFile, window: LineWindow, head: bytes, skipped: int) -> bool:
    """Read the file, whose first bytes are given.

    Return False if it is too long to count all lines.
    """
    window.feed(head)
    at = skipped + len(head)
    if at < _HEAD_BYTES:
        return True
    while at < _MAX_COUNTED_BYTES or not window.is_full:
        piece = await ctx.env.read_bytes(file.path, offset=at, limit=_READ_SIZE)
        await asyncio.to_thread(window.feed, piece)
        at += len(piece)
        if len(piece) < _READ_SIZE:
            return True
        if ctx.is_aborted:
            return False
    return False


def _result(file: ResolvedFile, window: LineWindow, rendered: RenderedLines, counted_all: bool) -> ToolResult:
    total = f"{window.lines}" if counted_all else f"more than {window.lines}"
    at_end = counted_all and rendered.last >= window.lines
    if window.size == 0:
        footer = "empty file"
    elif at_end and rendered.first == 1:
        footer = f"end of file, {total} line{'' if window.lines == 1 else 's'}"
    elif at_end:
        footer = f"lines {rendered.first}-{rendered.last} of {total}, end of file"
    else:
        reason = ", stopped at max_bytes" if rendered.is_full else ""
        footer = f"lines {rendered.first}-{rendered.last} of {total}{reason}; continue with offset={rendered.last + 1}"
    if at_end and window.ends_open:
        footer += "; no newline at the end"
    if rendered.form:
        footer += f"; {rendered.form}"
    text = f"{rendered.text}\n({footer})" if rendered.text or window.size else f"({footer})"
    return ToolResult(
        output=text,
        title=f"{file.name}: lines {rendered.first}-{rendered.last}" if window.size else f"{file.name}: empty",
        metadata={
            "path": str(file.path),
            "first_line": rendered.first,
            "last_line": rendered.last,
            "total_lines": window.lines,
            "bytes": file.stat.size,
            "hash": window.digest if counted_all else None,
            "mtime_ns": file.stat.mtime_ns,
            "form": rendered.form,
            "truncated": not at_end or rendered.first > 1 or bool(rendered.cut_at),
        },
    )


async def _image(ctx: ToolContext, file: ResolvedFile, head: bytes) -> ToolResult:
    size = file.stat.size
    if size > MAX_IMAGE_READ_BYTES:
        return _unsupported_result(
            file, head, f"more than {MAX_IMAGE_READ_BYTES} are not read. Make it smaller first", "too big"
        )
    data = await ctx.env.read_bytes(file.path)
    image = await asyncio.to_thread(inspect_image, data) if is_image(data) else None
    fault = image.fault if image is not None else ""
    is_fit = image is not None and size <= MAX_IMAGE_BYTES and max(image.width, image.height) <= MAX_EDGE
    if is_fit and not fault:
        fault = await asyncio.to_thread(image_error, data)
    if image is not None and fault:
        text = f"{file.name} starts like {image.media_type}, but {fault}; it is not shown ({size} bytes)."
        return ToolResult(output=text, title=f"{file.name}: damaged image", metadata={"path": str(file.path)})
    if image is not None and is_fit:
        return _image_result(file, data, image.media_type, image.width, image.height, "")
    try:
        fit = await asyncio.to_thread(shrink_image, data, MAX_IMAGE_BYTES)
    except PillowMissingError:
        if image is not None and size <= MAX_IMAGE_BYTES and max(image.width, image.height) <= MAX_IMAGE_EDGE:
            return _image_result(file, data, image.media_type, image.width, image.height, "")
        install = await asyncio.to_thread(install_command, "images")
        reason = (
            f"an image of more than {MAX_IMAGE_BYTES} bytes or {MAX_IMAGE_EDGE} pixels, or of another kind than PNG, JPEG, GIF and "
            "WebP, cannot be shown, and Pillow, which would convert it, is missing. The user can install it with: "
            f"{install}"
        )
        return _unsupported_result(file, head, reason, "not shown")
    except ImageError as e:
        return _unsupported_result(file, head, str(e), "damaged image")
    was = f"{image.width}x{image.height}, " if image is not None else ""
    note = f" (made smaller or converted; the file: {describe_file_type(head)}, {was}{size} bytes)"
    return _image_result(file, fit.data, fit.media_type, fit.width, fit.height, note)


def _image_result(file: ResolvedFile, data: bytes, media_type: str, width: int, height: int, note: str) -> ToolResult:
    caption = f"{file.name}: {media_type}, {width}x{height}, {len(data)} bytes{note}"
    block = ImageBlock(media_type, base64.b64encode(data).decode())
    metadata = {"path": str(file.path), "bytes": len(data), "width": width, "height": height, "resized": bool(note)}
    return ToolResult(output=(TextBlock(caption), block), title=caption, metadata=metadata)


def _unsupported_result(file: ResolvedFile, head: bytes, reason: str, title: str) -> ToolResult:
    text = f"{file.name} ({describe_file_type(head)}, {file.stat.size} bytes) is not shown: {reason}."
    return ToolResult(output=text, title=f"{file.name}: {title}", metadata={"path": str(file.path)})


def _binary(file: ResolvedFile, head: bytes) -> ToolResult:
    text = (
        f"[binary file: {file.name}, {file.stat.size} bytes, {describe_file_type(head)}; not shown. "
        "Inspect it with a program in the shell, such as xxd.]"
    )
    metadata = {"path": str(file.path), "bytes": file.stat.size, "binary": True}
    return ToolResult(output=text, title=f"{file.name}: binary", metadata=metadata)


def _access(arguments: Mapping[str, Any]) -> list[Access]:
    return file_accesses("fs-read", arguments)


read_file = Tool(
    name="read_file",
    description=(
        "Read a text file; lines come as number, tab, text. A long file comes in parts: the last line shows how to continue. "
        "Images are shown; of a PDF the text, by pages."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file."},
            "offset": {"type": "integer", "minimum": 0, "default": 1, "description": "First line, from 1."},
            "limit": {
                "type": "integer",
                "minimum": 0,
                "default": DEFAULT_LINE_LIMIT,
                "description": "Most lines; 0: all.",
            },
            "max_bytes": {"type": "integer", "minimum": 0, "default": _MAX_BYTES, "description": "Most bytes; 0: all."},
            "pages": {"type": "string", "description": "Of a PDF, for example 3, 3-5 or 3-."},
            "line_numbers": {"type": "boolean", "default": True},
            "column": {
                "type": "integer",
                "minimum": 1,
                "default": 1,
                "description": "First character of each line, to continue in a very long line.",
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
