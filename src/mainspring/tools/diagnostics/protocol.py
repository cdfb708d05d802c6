"""The few shapes of the language server protocol that are read here."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

Severity = Literal["error", "warning", "information", "hint"]

_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "information", "hint")


class Message(Struct):
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


class Published(Struct, frozen=True):
    """News of a file's problems."""

    uri: str = ""
    version: int | None = None
    diagnostics: list[Any] = []


class Report(Struct, frozen=True):
    """The answer to a question for a file's problems."""

    items: list[Any] = []


class ConfigurationItem(Struct, frozen=True):
    """A part of the settings that a server asks for."""

    section: str = ""


class Configuration(Struct, frozen=True):
    """The settings that a server asks for."""

    items: list[ConfigurationItem] = []


class Capabilities(Struct, frozen=True, rename="camel"):
    """What a server can do."""

    diagnostic_provider: Any = None


class Initialized(Struct, frozen=True):
    """The answer to the first request."""

    capabilities: Capabilities = Capabilities()


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


def diagnostics_of(items: list[Any]) -> tuple[Diagnostic, ...]:
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


def uri_of(path: str) -> str:
    """The URI of a real path."""
    return "file://" + quote(path if path.startswith("/") else f"/{path}", safe="/", errors="surrogateescape")
