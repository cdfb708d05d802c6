"""The few shapes of the language server protocol that are read here.

Messages of the language server protocol as bytes: a header with the length, then JSON.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

Severity = Literal["error", "warning", "information", "hint"]


_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "information", "hint")


class LspMessage(Struct):
    """A request, an answer or a piece of news."""

    id: int | str | None = None
    method: str | None = None
    params: Any = None
    result: Any = None


class Diagnostic(Struct, frozen=True):
    """A problem in a file. Line and column count from 1."""

    line: int
    column: int
    severity: Severity
    message: str
    code: str = ""
    source: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same problem although lines moved."""
        return self.severity, self.code, self.message


class PublishDiagnosticsParams(Struct, frozen=True):
    """News of a file's problems."""

    uri: str = ""
    version: int | None = None
    diagnostics: list[Any] = []


class DiagnosticReport(Struct, frozen=True):
    """The answer to a question for a file's problems."""

    items: list[Any] = []


class ConfigurationItem(Struct, frozen=True):
    """A part of the settings that a server asks for."""

    section: str = ""


class ConfigurationParams(Struct, frozen=True):
    """The settings that a server asks for."""

    items: list[ConfigurationItem] = []


class ServerCapabilities(Struct, frozen=True, rename="camel"):
    """What a server can do."""

    diagnostic_provider: Any = None


class InitializeResult(Struct, frozen=True):
    """The answer to the first request."""

    capabilities: ServerCapabilities = ServerCapabilities()


class _Position(Struct):
    line: int
    character: int


class _Range(Struct):
    start: _Position


class _Item(Struct):
    range: _Range
    message: str
    severity: int | None = None
    code: int | str | None = None
    source: str | None = None


def parse_diagnostics(items: list[Any]) -> tuple[Diagnostic, ...]:
    """The problems in a list, by place; what cannot be read is none."""
    found: list[Diagnostic] = []
    for raw in items:
        try:
            item = msgspec.convert(raw, _Item)
        except msgspec.ValidationError:
            continue
        start = item.range.start
        severity = _SEVERITIES[min(max(item.severity or 1, 1), len(_SEVERITIES)) - 1]
        code = "" if item.code is None else str(item.code)
        found.append(Diagnostic(start.line + 1, start.character + 1, severity, item.message, code, item.source or ""))
    return tuple(sorted(found, key=lambda d: (d.line, d.column)))


def path_to_uri(path: str) -> str:
    """The URI of a real path."""
    return "file://" + quote(path if path.startswith("/") else f"/{path}", safe="/", errors="surrogateescape")


MAX_MESSAGE_BYTES = 32 << 20
"""A longer message is taken for a fault."""
_MOST_HEADER = 4096


class LspFramingError(ValueError):
    """What came is no message."""


def encode_message(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    body = msgspec.json.encode({"jsonrpc": "2.0", **message})
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class LspDecoder:
    """Takes bytes as they come and gives whole messages."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> list[LspMessage]:
        """The messages that are complete now.

        Raises:
            FramingError: If there is no length, it is too big, or the content is no JSON object.
        """
        self._held += data
        found: list[LspMessage] = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> LspMessage | None:
        if self._length is None:
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                if len(self._held) > _MOST_HEADER:
                    raise LspFramingError("a header without an end")
                return None
            self._length = _length(bytes(self._held[:end]))
            del self._held[: end + 4]
        if len(self._held) < self._length:
            return None
        body = bytes(self._held[: self._length])
        del self._held[: self._length]
        self._length = None
        try:
            return msgspec.json.decode(body, type=LspMessage)
        except msgspec.DecodeError as e:
            raise LspFramingError(str(e)) from None


def _length(header: bytes) -> int:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
            if length <= MAX_MESSAGE_BYTES:
                return length
            raise LspFramingError(f"a message of {length} bytes")
    raise LspFramingError("a header without a length")
