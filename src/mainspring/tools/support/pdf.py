"""Read the text of a PDF for a model, page by page. Needs pypdf (extra ``pdf``)."""

from __future__ import annotations

import asyncio
import io
import logging
import time
from collections.abc import Mapping
from typing import Any

from mainspring.errors import format_exception
from mainspring.extras import install_command
from mainspring.lazy import lazy_re
from mainspring.text import truncate_bytes
from mainspring.tools.support.paths import ResolvedFile, failure
from mainspring.tools.support.text_files import replace_surrogates
from mainspring.tools.tool import ToolContext, ToolErrorCode, ToolResult


class PdfError(ValueError):
    """The text cannot be read; the message contains the reason."""


class PypdfMissingError(PdfError):
    """pypdf is not installed."""


class Pdf:
    """An open PDF. All methods are slow; run them in a thread.

    Args:
        data: Content of the file.

    Raises:
        PypdfMissingError: pypdf is not installed.
        PdfError: The file is damaged or requires a password.
    """

    def __init__(self, data: bytes) -> None:
        try:
            from pypdf import PdfReader
        except ImportError:
            raise PypdfMissingError("pypdf is not installed") from None
        logger = logging.getLogger("pypdf")
        if logger.level == logging.NOTSET:  # It logs every small problem that it recovers from, on stderr by default.
            logger.setLevel(logging.CRITICAL)
        try:
            reader = PdfReader(io.BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):
                raise PdfError("it is protected by a password")
            self.pages = len(reader.pages)
        except PdfError:
            raise
        except Exception as e:  # damaged data can raise any exception
            raise PdfError(f"it is damaged or of an unknown kind: {format_exception(e)}") from None
        self._reader: Any = reader

    def text(self, number: int) -> str:
        """Return the text of a page, from 1; empty if the page has no text, for example, a scanned page.

        Raises:
            PdfError: The page is damaged.
        """
        try:
            return self._reader.pages[number - 1].extract_text().strip()
        except Exception as e:  # damaged data can raise any exception
            raise PdfError(format_exception(e)) from None


def describe_pdf(data: bytes) -> str:
    """Return the text of all pages, or the reason why it cannot be read. Slow; run it in a thread."""
    try:
        pdf = Pdf(data)
        return "\n\n".join([f"--- page {n} ---\n{pdf.text(n)}" for n in range(1, pdf.pages + 1)])
    except PdfError as e:
        return f"[PDF, {len(data)} bytes; its text cannot be read: {e}]"


MAX_PDF_BYTES = 64 << 20
_TIME_LIMIT = 30.0
"""Seconds after which the pages read so far are returned."""


_RANGE = lazy_re(r"\s*(\d+)\s*(?:(-)\s*(\d*)\s*)?")


async def read_pdf(ctx: ToolContext, file: ResolvedFile, arguments: Mapping[str, Any], max_bytes: int) -> ToolResult:
    """Return the text of the requested pages, up to ``max_bytes``."""
    if file.stat.size > MAX_PDF_BYTES:
        text = f"{file.name} is a PDF of {file.stat.size} bytes; text is taken from such with at most {MAX_PDF_BYTES}."
        return failure(ToolErrorCode.VALIDATION_ERROR, text)
    data = await ctx.env.read_bytes(file.path)
    try:
        pdf = await asyncio.to_thread(Pdf, data)
    except PypdfMissingError:
        text = (
            f"{file.name} is a PDF of {file.stat.size} bytes, and its text cannot be read here: pypdf is missing. The "
            f"user can install it with: {await asyncio.to_thread(install_command, 'pdf')}. A program in the shell, such as "
            "pdftotext, may do."
        )
        return failure(ToolErrorCode.CONFIG_ERROR, text)
    except PdfError as e:
        return failure(ToolErrorCode.IO_ERROR, f"The text of {file.name} (a PDF) cannot be read: {e}.")
    requested = _parse_page_range(str(arguments.get("pages", "")), pdf.pages)
    if isinstance(requested, str):
        return failure(ToolErrorCode.VALIDATION_ERROR, f"{requested} {file.name} has {_format_count(pdf.pages)}.")
    return await _read(ctx, file, pdf, requested, max_bytes)


def _parse_page_range(text: str, count: int) -> tuple[int, int] | str:
    """Parse a page range such as ``3``, ``3-5``, or ``3-`` to its first and last page, or return the error message."""
    if not text.strip():
        return 1, count
    match = _RANGE.fullmatch(text)
    if match is None:
        return f"pages is {text!r}; write it like 3, 3-5, or 3-."
    first = int(match[1])
    last = int(match[3]) if match[3] else (count if match[2] else first)
    if first < 1 or first > count or last < first:
        return f"The pages {text.strip()} do not exist."
    return first, min(last, count)


async def _read(
    ctx: ToolContext, file: ResolvedFile, pdf: Pdf, page_range: tuple[int, int], max_bytes: int
) -> ToolResult:
    first, end = page_range
    parts: list[str] = []
    size, last, reason = 0, first - 1, ""
    stop = time.monotonic() + _TIME_LIMIT
    empty = 0
    for number in range(first, end + 1):
        if ctx.is_aborted or time.monotonic() > stop:
            reason = ", cancelled" if ctx.is_aborted else ", stopped for time"
            break
        try:
            text = await asyncio.to_thread(pdf.text, number)
        except PdfError as e:
            text = f"(this page is damaged: {e})"
        empty += not text
        part = f"--- page {number} ---\n{replace_surrogates(text) or '(no text; it may be a picture)'}\n"
        size += len(part.encode())
        if max_bytes and size > max_bytes:
            reason = ", stopped at max_bytes"
            if not parts:
                parts.append(_truncate_page(part, max_bytes))
                last = number
            break
        parts.append(part)
        last = number
    more = f"{reason}; continue with pages={last + 1}-" if last < pdf.pages else ""
    footer = f"(PDF, pages {first}-{last} of {pdf.pages}{more})"
    metadata = {
        "path": file.path,
        "bytes": file.stat.size,
        "pages": pdf.pages,
        "first_page": first,
        "last_page": last,
        "without_text": empty,
        "truncated": last < pdf.pages or first > 1 or bool(reason),
    }
    return ToolResult(output="".join(parts) + footer, title=f"{file.name}: pages {first}-{last}", metadata=metadata)


def _truncate_page(part: str, limit: int) -> str:
    truncated = truncate_bytes(part, limit)
    return f"{truncated}… ({len(part) - len(truncated)} more characters on this page; raise max_bytes to see them)\n"


def _format_count(pages: int) -> str:
    return "1 page" if pages == 1 else f"{pages} pages"
