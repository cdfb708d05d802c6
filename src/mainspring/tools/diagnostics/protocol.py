"""The supported types of the Language Server Protocol, and its framing: a header with the length, then JSON."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

Severity = Literal["error", "warning", "information", "hint"]


_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "information", "hint")


class LspMessage(Struct):
    """A request, response, or notification."""

    id: int | str | None = None
    method: str | None = None
    params: Any = None
    result: Any = None


class Diagnostic(Struct, frozen=True):
    """A problem in a file. Lines and columns start at 1."""

    line: int
    column: int
    severity: Severity
    message: str
    code: str = ""
    source: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Key that identifies the same problem after lines moved."""
        return self.severity, self.code, self.message


class PublishDiagnosticsParams(Struct, frozen=True):
    """Notification of a file's problems."""

    uri: str = ""
    version: int | None = None
    diagnostics: list[Any] = []


class DiagnosticReport(Struct, frozen=True):
    """Response to a request for a file's problems."""

    items: list[Any] = []


class ConfigurationItem(Struct, frozen=True):
    """Section of the settings that a server requests."""

    section: str = ""


class ConfigurationParams(Struct, frozen=True):
    """Parameters of a request for settings."""

    items: list[ConfigurationItem] = []


class ServerCapabilities(Struct, frozen=True, rename="camel"):
    """Capabilities of a server."""

    diagnostic_provider: Any = None


class InitializeResult(Struct, frozen=True):
    """Response to the first request."""

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
    """Return the diagnostics in a list, sorted by position; invalid items are skipped."""
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
    """Return the URI of a real path."""
    return "file://" + quote(path if path.startswith("/") else f"/{path}", safe="/", errors="surrogateescape")


MAX_MESSAGE_BYTES = 32 << 20
"""Maximum size of a message; a larger size is a framing error."""
_MAX_HEADER_BYTES = 4096


class LspFramingError(ValueError):
    """The received bytes are not a valid message."""


def encode_message(message: dict[str, Any]) -> bytes:
    """Encode a message as bytes."""
    body = msgspec.json.encode({"jsonrpc": "2.0", **message})
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class LspDecoder:
    """Decoder that accepts bytes in pieces and returns whole messages."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> list[LspMessage]:
        """Return the messages that are complete.

        Raises:
            LspFramingError: The length is missing or too large, or the content is not a JSON object.
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
                if len(self._held) > _MAX_HEADER_BYTES:
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
