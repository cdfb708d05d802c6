"""Large outputs of tools, put aside: each in a file of its own, with a pointer in memory. They end with the session."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from mainspring.errors import SessionError
from mainspring.lazy import lazy_re
from mainspring.redaction import Redactor
from mainspring.state_files import make_private_folder, write_text_atomically

PREVIEW_CHARS = 2048
"""Characters of an output that its pointer shows."""

_UNSAFE = lazy_re(r"[^A-Za-z0-9_-]")
_NAME = lazy_re(r"[A-Za-z0-9_-]{1,64}_[0-9a-f]{12}")


class LargeOutput(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a tool gave.

    Attributes:
        tool: Name of the tool.
        args: Its arguments.
        result: The whole output.
        timestamp: When, in UTC.
        query_id: The run that it came in.
    """

    tool: str
    args: dict[str, Any]
    result: str
    timestamp: datetime
    query_id: str


class OutputReference(Struct, frozen=True, kw_only=True):
    """Where an output is, and enough of it to see whether it matters.

    Attributes:
        name: Its name, ``TOOL_HASH``.
        tool: Name of the tool.
        args: Its arguments.
        size: Characters of the output.
        query_id: The run that it came in.
        timestamp: When, in UTC.
        preview: How it begins.
    """

    name: str
    tool: str
    args: dict[str, Any]
    size: int
    query_id: str
    timestamp: datetime
    preview: str


class LargeOutputStore(Protocol):
    """Keeps outputs and gives them back. Blocking; call it in a thread where it may touch a disk."""

    def store(self, record: LargeOutput) -> OutputReference:
        """Keep an output; the same one twice is kept once.

        Raises:
            OSError: If it cannot be kept.
        """
        ...

    def retrieve(self, name: str) -> LargeOutput:
        """An output by the name of its pointer.

        Raises:
            SessionError: If it is not there any more.
        """
        ...

    def pointers(self) -> tuple[OutputReference, ...]:
        """What is kept, oldest first."""
        ...

    def clear(self) -> None:
        """Let go of everything."""
        ...


IContextManager = LargeOutputStore
"""The same under the name of the field's older frameworks."""


class MemoryOutputStore:
    """Outputs in the memory of the process."""

    def __init__(self) -> None:
        self._records: dict[str, LargeOutput] = {}

    def store(self, record: LargeOutput) -> OutputReference:
        """See `ContextStore`."""
        pointer = _pointer(record)
        self._records.setdefault(pointer.name, record)
        return pointer

    def retrieve(self, name: str) -> LargeOutput:
        """See `ContextStore`."""
        record = self._records.get(name)
        if record is None:
            raise _missing_error(name)
        return record

    def pointers(self) -> tuple[OutputReference, ...]:
        """See `ContextStore`."""
        return tuple([_pointer(record) for record in self._records.values()])

    def clear(self) -> None:
        """See `ContextStore`."""
        self._records.clear()


class FileOutputStore:
    """Outputs in files ``TOOL_HASH.json`` of a folder, for their owner only.

    Args:
        folder: The folder, such as `Session.context_folder`; made with the first output.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._pointers: dict[str, OutputReference] = {}

    def store(self, record: LargeOutput) -> OutputReference:
        """See `ContextStore`."""
        pointer = _pointer(record)
        if pointer.name not in self._pointers:
            make_private_folder(self.folder)
            line = Redactor.of().line(msgspec.json.encode(record, enc_hook=str))
            write_text_atomically(self._path(pointer.name), line.decode("utf-8", "replace"))
            self._pointers[pointer.name] = pointer
        return pointer

    def retrieve(self, name: str) -> LargeOutput:
        """See `ContextStore`."""
        if not _NAME.fullmatch(name):
            raise _missing_error(name)
        try:
            return msgspec.json.decode(self._path(name).read_bytes(), type=LargeOutput)
        except (OSError, msgspec.DecodeError):
            raise _missing_error(name) from None

    def pointers(self) -> tuple[OutputReference, ...]:
        """See `ContextStore`."""
        return tuple(self._pointers.values())

    def clear(self) -> None:
        """See `ContextStore`. The folder goes too."""
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
    return SessionError(f"the output {name} is not there any more: outputs end with the session. Make the call again")


def summarize_arguments(args: Mapping[str, Any], limit: int = 200) -> str:
    """Arguments on one line, for lists."""
    text = ", ".join(f"{name}={value!r}" for name, value in args.items())
    return f"{text[:limit]}…" if len(text) > limit else text
