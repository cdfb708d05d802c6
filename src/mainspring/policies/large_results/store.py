"""Large tool results: stores for outputs that are read back by reference, and previews of results saved to a file.

The outputs in a store are deleted with the session.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import secrets
import shutil
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import SessionError
from mainspring.lazy import lazy_function, lazy_re
from mainspring.loop.hooks import ToolTransform
from mainspring.messages import ImageBlock, TextBlock
from mainspring.redaction import Redactor, redact_environment
from mainspring.state_files import make_private_folder, write_text_atomically
from mainspring.text import truncate_end
from mainspring.tools import ToolOutput

if TYPE_CHECKING:
    from html import escape as html_escape
else:
    html_escape = lazy_function("html", "escape")


PREVIEW_CHARS = 2048
"""Number of characters of an output in its reference."""


_UNSAFE = lazy_re(r"[^A-Za-z0-9_-]")
_NAME = lazy_re(r"[A-Za-z0-9_-]{1,64}_[0-9a-f]{12}")


class LargeOutput(Struct, frozen=True, kw_only=True, rename={"tool": "toolName", "query_id": "queryId"}):
    """A stored tool output.

    Attributes:
        tool: Name of the tool.
        args: Its arguments.
        result: The whole output.
        timestamp: Time of the call, in UTC.
        query_id: ID of the run.
    """

    tool: str
    args: dict[str, Any]
    result: str
    timestamp: datetime
    query_id: str


class OutputReference(Struct, frozen=True, kw_only=True):
    """The location of an output, with a preview of it.

    Attributes:
        name: Name of the output, ``TOOL_HASH``.
        tool: Name of the tool.
        args: Its arguments.
        size: Number of characters of the output.
        query_id: ID of the run.
        timestamp: Time of the call, in UTC.
        preview: Start of the output.
    """

    name: str
    tool: str
    args: dict[str, Any]
    size: int
    query_id: str
    timestamp: datetime
    preview: str


class LargeOutputStore(Protocol):
    """Saves and loads outputs. Its methods block; call a store on disk in a thread."""

    def save(self, record: LargeOutput) -> OutputReference:
        """Save an output; saving the same output twice stores it once.

        Raises:
            OSError: If it cannot be saved.
        """
        ...

    def load(self, name: str) -> LargeOutput:
        """Load an output by the name of its reference.

        Raises:
            SessionError: If it does not exist any more.
        """
        ...

    def list(self) -> tuple[OutputReference, ...]:
        """Return the references of all stored outputs, oldest first."""
        ...

    def clear(self) -> None:
        """Delete all stored outputs."""
        ...


IContextManager = LargeOutputStore
"""An alias of `LargeOutputStore`, the name in older frameworks."""


class MemoryOutputStore:
    """Outputs in the memory of the process."""

    def __init__(self) -> None:
        self._records: dict[str, LargeOutput] = {}

    def save(self, record: LargeOutput) -> OutputReference:
        """See `LargeOutputStore`."""
        pointer = _pointer(record)
        self._records.setdefault(pointer.name, record)
        return pointer

    def load(self, name: str) -> LargeOutput:
        """See `LargeOutputStore`."""
        record = self._records.get(name)
        if record is None:
            raise _missing_error(name)
        return record

    def list(self) -> tuple[OutputReference, ...]:
        """See `LargeOutputStore`."""
        return tuple([_pointer(record) for record in self._records.values()])

    def clear(self) -> None:
        """See `LargeOutputStore`."""
        self._records.clear()


class FileOutputStore:
    """Outputs in files ``TOOL_HASH.json`` in a folder, private to the user.

    Args:
        folder: The folder, for example `Session.context_folder`; created with the first output.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._pointers: dict[str, OutputReference] = {}

    def save(self, record: LargeOutput) -> OutputReference:
        """See `LargeOutputStore`."""
        pointer = _pointer(record)
        if pointer.name not in self._pointers:
            make_private_folder(self.folder)
            line = Redactor.of().line(msgspec.json.encode(record, enc_hook=str))
            write_text_atomically(self._path(pointer.name), line.decode("utf-8", "replace"))
            self._pointers[pointer.name] = pointer
        return pointer

    def load(self, name: str) -> LargeOutput:
        """See `LargeOutputStore`."""
        if not _NAME.fullmatch(name):
            raise _missing_error(name)
        try:
            return msgspec.json.decode(self._path(name).read_bytes(), type=LargeOutput)
        except (OSError, msgspec.DecodeError):
            raise _missing_error(name) from None

    def list(self) -> tuple[OutputReference, ...]:
        """See `LargeOutputStore`."""
        return tuple(self._pointers.values())

    def clear(self) -> None:
        """See `LargeOutputStore`. Removes the folder, too."""
        self._pointers.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _pointer(record: LargeOutput) -> OutputReference:
    args = msgspec.json.encode(record.args, enc_hook=str)
    digest = hashlib.sha256(
        b"%s\0%s\0%s" % (record.tool.encode(), args, record.result.encode("utf-8", "replace"))
    ).hexdigest()
    return OutputReference(
        name=f"{_UNSAFE.sub('_', record.tool)[:64] or 'tool'}_{digest[:12]}",
        tool=record.tool,
        args=record.args,
        size=len(record.result),
        query_id=record.query_id,
        timestamp=record.timestamp,
        preview=record.result[:PREVIEW_CHARS],
    )


def _missing_error(name: str) -> SessionError:
    return SessionError(
        f"The output {name} was deleted, as all outputs of a session that has ended. Make the call again."
    )


def summarize_call_arguments(args: Mapping[str, Any]) -> str:
    """Return arguments on one line, for lists."""
    return truncate_end(", ".join(f"{name}={value!r}" for name, value in args.items()), 200)


logger = logging.getLogger("mainspring")


PREVIEW_BYTES = 2048
"""Maximum bytes of the result that the model sees."""


_CLOSING = lazy_re(r"<(?=/persisted-output)", re.IGNORECASE)


class PersistLargeResults:
    """Saves the text of a large result to a file and replaces it with a preview.

    The history contains the preview, so the prompt's prefix does not change from turn to turn. If the file cannot be written, the
    result stays complete. Results read from the folder itself are not saved again.

    Args:
        folder: Folder for the files; created, private to the user, with the first file.
        threshold: Bytes of text above which a result is large.
        exclude: Tools whose results stay unchanged.
    """

    def __init__(self, folder: str, threshold: int, exclude: Collection[str] = ()) -> None:
        self._folder = os.path.abspath(folder)
        self._threshold = threshold
        self._exclude = exclude

    async def on_tool_transform(self, hook: ToolTransform) -> None:
        """Handle `tool:transform`.

        Runs after all other handlers, so that the file has their changes.
        """
        output, source = hook.result.output, hook.result.metadata.get("path")
        text = _text(output)
        if hook.name in self._exclude or len(text) * 4 <= self._threshold:
            return
        data = text.encode("utf-8", "replace")
        if len(data) <= self._threshold or (isinstance(source, str) and source.startswith(self._folder + os.sep)):
            return
        try:
            path = await asyncio.to_thread(self._write, hook.name, redact_environment(text).encode("utf-8", "replace"))
        except OSError as error:
            logger.warning(
                "Cannot store a large result of %s in a file, so it stays in the conversation: %s", hook.name, error
            )
            return
        stub = _preview_block(hook.name, data, path)
        images = () if isinstance(output, str) else tuple([b for b in output if isinstance(b, ImageBlock)])
        hook.result = replace(
            hook.result,
            output=(TextBlock(stub), *images) if images else stub,
            metadata={**hook.result.metadata, "persisted": path},
        )

    def _write(self, tool: str, data: bytes) -> str:
        """Write the file atomically; the same text always has the same name."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        name = f"{_UNSAFE.sub('_', tool)[:64]}_{hashlib.sha256(data).hexdigest()[:16]}.txt"
        path = os.path.join(self._folder, name)
        temporary = f"{path}.{secrets.token_hex(4)}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        return path


def _text(output: ToolOutput) -> str:
    return output if isinstance(output, str) else "\n".join([b.text for b in output if isinstance(b, TextBlock)])


def _preview_block(tool: str, data: bytes, path: str) -> str:
    """Return the preview in its tag; nothing in the preview or in a name can close the tag."""
    preview = _CLOSING.sub("&lt;", data[:PREVIEW_BYTES].decode("utf-8", "ignore"))
    attributes = "".join(
        f' {name}="{_attribute(value)}"' for name, value in (("tool", tool), ("bytes", len(data)), ("path", path))
    )
    note = f"[These are the first bytes of {len(data)}; the rest is in the file.]" if len(data) > PREVIEW_BYTES else ""
    return f"<persisted-output{attributes}>\n{preview}\n{note}\n</persisted-output>".replace("\n\n</", "\n</")


def _attribute(value: object) -> str:
    return html_escape(str(value)).replace("\n", "&#10;").replace("\r", "&#13;")
