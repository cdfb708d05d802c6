"""`write_file`: write the whole content of a file."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mainspring.env import RealPath
from mainspring.env.paths import composed_variants, display_path, is_inside
from mainspring.lazy import lazy_function
from mainspring.tools.support.paths import failure, os_error_result, resolve_spelling
from mainspring.tools.support.text_files import DecodedText, decode_text
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult

if TYPE_CHECKING:
    from mainspring.tools.support.editing.diffs import compute_diff
else:  # loaded on the first write
    compute_diff = lazy_function("mainspring.tools.support.editing.diffs", "compute_diff")

_MAX_COMPARED = 16 << 20


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    path, content = arguments["path"], arguments["content"]
    try:
        real = await resolve_spelling(ctx, path)
    except OSError as e:
        return os_error_result("write", display_path(path), e)
    name = display_path(real, ctx.env.cwd)
    try:
        async with ctx.env.lock(real):
            return await _write(ctx, real, name, content)
    except FileNotFoundError as e:
        if is_inside(real, ctx.env.cwd):
            return os_error_result("write", name, e)
        text = f"Cannot write {name}: its folder does not exist, and outside the project none is made. Make it first."
        return failure(ToolErrorCode.NOT_FOUND, text)
    except OSError as e:
        return os_error_result("write", name, e)


async def _write(ctx: ToolContext, real_path: RealPath, name: str, content: str) -> ToolResult:
    old: bytes | None = None
    document: DecodedText | None = None
    try:
        stat = await ctx.env.stat(real_path)
    except FileNotFoundError:
        stat = None
    if stat is not None and stat.kind == "file" and stat.size <= _MAX_COMPARED:
        old = await ctx.env.read_bytes(real_path)
        document = await asyncio.to_thread(decode_text, old)
    try:
        data = _encode_content(content, document)
    except UnicodeEncodeError as e:
        return failure(ToolErrorCode.VALIDATION_ERROR, _unencodable(name, e, document))
    if data == old:
        metadata = {"path": str(real_path), "bytes": len(data), "hash": _sha256(data), "changed": False}
        return ToolResult(output=f"No change needed: {name} already has this content.", title=name, metadata=metadata)
    await ctx.env.write_bytes(real_path, data, parents=is_inside(real_path, ctx.env.cwd))
    before = document.text if document else ""
    difference = await asyncio.to_thread(compute_diff, before, content, name)
    lines = content.count("\n") + (1 if content and not content.endswith("\n") else 0)
    verb = "Created" if stat is None else "Updated"
    encoding_note = f", {document.encoding_note} preserved" if document and document.encoding_note else ""
    return ToolResult(
        output=f"{verb} {name} ({lines} line{'' if lines == 1 else 's'}, {len(data)} byte{'' if len(data) == 1 else 's'}{encoding_note}).{_result_note(stat, document, content)}",
        title=f"{verb} {name}",
        metadata={
            "path": str(real_path),
            "bytes": len(data),
            "hash": await asyncio.to_thread(_sha256, data),
            "changed": True,
            "created": stat is None,
            **difference.metadata,
        },
    )


def _encode_content(content: str, document: DecodedText | None) -> bytes:
    """Encode the content unchanged, with the encoding and byte order mark of the file that it replaces."""
    if document is None:
        return content.encode()
    return document.encode(content.removeprefix("\ufeff") if document.mark else content)


def _unencodable(name: str, error: UnicodeEncodeError, document: DecodedText | None) -> str:
    wrong = error.object[error.start]
    if "\ud800" <= wrong <= "\udfff":
        return f"content has half a surrogate pair at character {error.start}, which no file can contain. Remove it."
    form = document.encoding_note if document else "UTF-8"
    return (
        f"{name} is in {form}, which has no {wrong!r} (character {error.start} of content). Leave it out, or delete the "
        "file first to write it as UTF-8."
    )


def _result_note(stat: Any, document: DecodedText | None, content: str) -> str:
    notes: list[str] = []
    if document and "\r\n" in document.text and "\n" in content and "\r\n" not in content:
        notes.append(" Its lines ended in CRLF and end in LF now.")
    if stat is not None and stat.links > 1:
        notes.append(f" The file has {stat.links} names (hard links); all show the change.")
    return "".join(notes)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _access(arguments: Mapping[str, Any]) -> list[Access]:
    path = str(arguments.get("path", ""))
    return [Access("fs-write", p) for p in (path, *composed_variants(path))]


write_file = Tool(
    name="write_file",
    description=(
        "Write a file's whole content, making it and its folders if needed. To change a part of a file use edit. What is "
        "given is written unchanged; an existing file keeps its encoding and mode."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file."},
            "content": {"type": "string", "description": "All of its text."},
        },
        "required": ["path", "content"],
        "additionalProperties": False,
    },
    execute=_execute,
    label="Write",
    source="builtin",
    concurrency_safe=False,
    idempotent=True,
    access=_access,
    path_params=("path",),
)
"""Write a file's whole content."""
