"""Client of a language server: started on demand, and restarted with growing delays after failures."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from mainspring.env import ExecutionEnv, ProcessConnection
from mainspring.tools.diagnostics.protocol import (
    ConfigurationParams,
    Diagnostic,
    DiagnosticReport,
    InitializeResult,
    LspDecoder,
    LspFramingError,
    LspMessage,
    PublishDiagnosticsParams,
    encode_message,
    parse_diagnostics,
    path_to_uri,
)

_T = TypeVar("_T")

INITIAL_BACKOFF = 1.0
"""Delay in seconds before the server restarts after a failure; doubled with each consecutive failure."""
MAX_BACKOFF = 300.0
QUIET_PERIOD = 0.25
"""Seconds to wait for more diagnostics from a server that does not report the version of the file."""
MAX_UNSOLICITED_BYTES = 64 << 20
"""Maximum number of bytes that a server may send between two requests; a server that sends more is stopped."""
MAX_TIMEOUTS = 3
"""Consecutive requests that may time out before the server is restarted."""


class LanguageServerConfig(Struct, frozen=True):
    """Configuration of a language server.

    Attributes:
        command: Program and its arguments; the server uses standard input and output.
        languages: Language IDs by file suffix, for example ``{".py": "python"}``.
        name: Display name; the program if empty.
        options: ``initializationOptions`` for the server.
        settings: Settings that the server can request, by section.
    """

    command: tuple[str, ...]
    languages: dict[str, str]
    name: str = ""
    options: dict[str, Any] = {}
    settings: dict[str, Any] = {}

    @property
    def title(self) -> str:
        """Display name."""
        return self.name or self.command[0].rpartition("/")[2]

    def language_of(self, path: str) -> str | None:
        """Return the language of a file, if the server supports it."""
        return next((name for ending, name in self.languages.items() if path.endswith(ending)), None)


class _OpenFile:
    """State of an open file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.version = 1
        self.found: tuple[Diagnostic, ...] | None = None
        self.about = 0  # version of the file that `found` refers to
        self.arrived = asyncio.Event()


class LanguageServerClient:
    """A running language server and its open files.

    Methods never raise; failures return no result.
    """

    def __init__(self, server: LanguageServerConfig, env: ExecutionEnv) -> None:
        self.server = server
        self._env = env
        self._connection: ProcessConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[bool] | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._files: dict[str, _OpenFile] = {}
        self._unasked = 0
        self._failures = 0
        self._missed = 0
        self._not_before = 0.0
        self._pulls = False
        self._turn = asyncio.Lock()

    async def ensure_running(self) -> bool:
        """Start the server if it is not running, and return True if it runs.

        Concurrent callers wait for the same start.
        """
        if self._connection is not None and self._starting is None:
            return True
        if self._starting is None:
            if time.monotonic() < self._not_before:
                return False
            self._starting = asyncio.ensure_future(self._start())
        return await asyncio.shield(self._starting)

    async def diagnose(self, path: str, text: str) -> tuple[Diagnostic, ...] | None:
        """Return the diagnostics of a file with this text; ``None`` if the server does not run.

        Has no time limit.
        """
        async with self._turn:
            if not await self.ensure_running():
                return None
            self._unasked = 0
            connection = self._connection
            file = self._files.get(path)
            try:
                if file is None:
                    file = self._files[path] = _OpenFile(text)
                    await self._open(path, file)
                elif file.text != text:
                    await self._change(path, file, text)
                elif file.found is not None and file.about >= file.version:
                    return file.found
                found = await (self._pull(path) if self._pulls else self._pushed(file))
            except OSError:
                await self._fail(connection)
                return None
            self._missed = self._failures = 0
            return found

    def known(self, path: str) -> bool:
        """Return True if a file is open in the server."""
        return path in self._files

    async def record_timeout(self) -> None:
        """Record a request that timed out; restart a server that never responds."""
        self._missed += 1
        if self._missed >= MAX_TIMEOUTS:
            self._missed = 0
            await self._fail(self._connection)

    # --- start and failure ------------------------------------------------------------------------------------------

    async def _start(self) -> bool:
        try:
            name, *arguments = self.server.command
            program = await self._env.find_program(name) or name  # also find programs next to the running Python
            self._connection = await self._env.connect([program, *arguments], cwd=self._env.cwd)
            self._reader = asyncio.ensure_future(self._read(self._connection))
            root = path_to_uri(self._env.cwd)
            answer = await self._request(
                "initialize",
                {
                    "processId": None,
                    "rootUri": root,
                    "rootPath": self._env.cwd,
                    "workspaceFolders": [{"uri": root, "name": self._env.cwd.rpartition("/")[2]}],
                    "initializationOptions": self.server.options,
                    "capabilities": _CAPABILITIES,
                },
            )
            self._pulls = (
                _convert_or(InitializeResult, answer, InitializeResult()).capabilities.diagnostic_provider is not None
            )
            await self._notify("initialized", {})
            return True
        except OSError:
            await self._fail(self._connection)
            return False
        finally:
            self._starting = None

    async def _fail(self, connection: ProcessConnection | None) -> None:
        """Release the process, unless already done; the server restarts after a growing delay."""
        if connection is not self._connection:
            return
        self._connection = None
        reader, self._reader = self._reader, None
        files, self._files = self._files, {}
        waiting, self._waiting = self._waiting, {}
        for file in files.values():
            file.arrived.set()
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the language server has ended"))
        pause = min(INITIAL_BACKOFF * 2**self._failures, MAX_BACKOFF)
        self._failures += 1
        self._not_before = time.monotonic() + pause
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
        if connection is not None:
            await connection.aclose()

    # --- files ------------------------------------------------------------------------------------------------------

    async def _open(self, path: str, file: _OpenFile) -> None:
        document = {
            "uri": path_to_uri(path),
            "languageId": self.server.language_of(path) or "",
            "version": file.version,
            "text": file.text,
        }
        await self._notify("textDocument/didOpen", {"textDocument": document})

    async def _change(self, path: str, file: _OpenFile, text: str) -> None:
        file.text = text
        file.version += 1
        file.arrived.clear()
        document = {"uri": path_to_uri(path), "version": file.version}
        await self._notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        await self._notify("textDocument/didSave", {"textDocument": {"uri": path_to_uri(path)}, "text": text})

    async def _pull(self, path: str) -> tuple[Diagnostic, ...]:
        answer = await self._request("textDocument/diagnostic", {"textDocument": {"uri": path_to_uri(path)}})
        found = parse_diagnostics(_convert_or(DiagnosticReport, answer, DiagnosticReport()).items)
        file = self._files.get(path)
        if file is not None:
            file.found, file.about = found, file.version
        return found

    async def _pushed(self, file: _OpenFile) -> tuple[Diagnostic, ...]:
        while True:
            await file.arrived.wait()
            if self._connection is None:
                raise ConnectionError("the language server has ended")
            if file.found is not None and file.about >= file.version:
                return file.found
            file.arrived.clear()

    # --- messages ---------------------------------------------------------------------------------------------------

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        self._count += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._count] = future
        await self._send({"id": self._count, "method": method, "params": params})
        return await future

    async def _notify(self, method: str, params: dict[str, Any]) -> None:
        await self._send({"method": method, "params": params})

    async def _send(self, message: dict[str, Any]) -> None:
        if self._connection is None:
            raise ConnectionError("the language server has ended")
        await self._connection.write(encode_message(message))

    async def _read(self, connection: ProcessConnection) -> None:
        decoder = LspDecoder()
        try:
            while data := await connection.read():
                self._unasked += len(data)
                if self._unasked > MAX_UNSOLICITED_BYTES:
                    break
                for message in decoder.feed(data):
                    await self._handle_message(message)
        except (LspFramingError, OSError):
            pass
        await self._fail(connection)

    async def _handle_message(self, message: LspMessage) -> None:
        if message.method is None:
            future = self._waiting.pop(message.id, None) if isinstance(message.id, int) else None
            if future is not None and not future.done():
                future.set_result(message.result)
        elif message.id is not None:
            await self._send({"id": message.id, "result": self._handle_request(message.method, message.params)})
        elif message.method == "textDocument/publishDiagnostics":
            self._handle_diagnostics(_convert_or(PublishDiagnosticsParams, message.params, PublishDiagnosticsParams()))

    def _handle_request(self, method: str, params: Any) -> Any:
        """Respond to a request from the server: send its settings, or nothing for all other requests."""
        if method == "workspace/configuration":
            items = _convert_or(ConfigurationParams, params, ConfigurationParams()).items
            return [self.server.settings.get(item.section, {}) for item in items]
        return None

    def _handle_diagnostics(self, params: PublishDiagnosticsParams) -> None:
        file = next((f for path, f in self._files.items() if path_to_uri(path) == params.uri), None)
        if file is None:
            return
        found = parse_diagnostics(params.diagnostics)
        if params.version is not None:
            if params.version >= file.version:
                file.found, file.about = found, file.version
                file.arrived.set()
            return
        file.found = found
        current = file.version

        def settled() -> None:
            if file.found is found and file.version == current:
                file.about = current
                file.arrived.set()

        asyncio.get_running_loop().call_later(QUIET_PERIOD, settled)


_CAPABILITIES: dict[str, Any] = {
    "workspace": {"configuration": True, "workspaceFolders": True},
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {},
    },
    "general": {"positionEncodings": ["utf-16"]},
}


def _convert_or(kind: type[_T], value: Any, otherwise: _T) -> _T:
    """Convert a value to a type; return ``otherwise`` if this fails."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return otherwise
