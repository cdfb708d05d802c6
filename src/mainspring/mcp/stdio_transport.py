"""Transport to a server program: lines of JSON over its pipes.

The SDK's transport is not used, since it does not stop detached child processes, passes the program's stderr through to
the terminal, and breaks on other output of a program. When this process dies, even by SIGKILL, a helper shell that waits on
a pipe kills the process groups of the servers.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.env.process import ProgramPipes
from mainspring.env.process_tree import RUN_ID_VARIABLE, find_orphans, find_processes, kill_tree, terminate_tree
from mainspring.line_transport import LineReader, LineTooLongError, LineTransport, stream_writer
from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.message_repair import error_response, repair_message
from mainspring.mcp.types import McpError
from mainspring.programs import find_program

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


_SCRIPT = """
trap '' INT TERM HUP
groups=
while read -r line; do
  case $line in
    -*) kept=; for g in $groups; do [ "$g" = "${line#-}" ] || kept="$kept $g"; done; groups=$kept ;;
    *) groups="$groups $line" ;;
  esac
done
[ -n "$groups" ] || exit 0
for g in $groups; do kill -s TERM -- "-$g" 2>/dev/null; done
sleep 1
for g in $groups; do kill -s KILL -- "-$g" 2>/dev/null; done
"""


class ServerReaper:
    """Watcher of process groups. The helper shell runs while there are any."""

    def __init__(self) -> None:
        self._shell: asyncio.subprocess.Process | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Lock | None = None
        self._count = 0

    @asynccontextmanager
    async def watching(self, group: int) -> AsyncGenerator[None]:
        """Kill a process group if this process dies during the block.

        Does nothing if no shell is available.
        """
        await self._begin()
        self._tell(str(group))
        try:
            yield
        finally:
            self._tell(f"-{group}")
            await self._end()

    async def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._starting is None:
            self._loop, self._starting, self._shell, self._count = loop, asyncio.Lock(), None, 0
        self._count += 1
        async with self._starting:
            if self._shell is not None and self._shell.returncode is None:
                return
            shell = find_program("sh") if os.name == "posix" else None
            if shell is None:
                return
            quiet = asyncio.subprocess.DEVNULL
            with suppress(OSError):
                self._shell = await asyncio.create_subprocess_exec(
                    shell, "-c", _SCRIPT, stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet,
                    start_new_session=True, env={"PATH": os.environ.get("PATH", os.defpath)}, cwd="/",
                )  # fmt: skip

    def _tell(self, line: str) -> None:
        pipe = self._shell.stdin if self._shell is not None else None
        if pipe is not None and not pipe.is_closing():
            with suppress(OSError, RuntimeError):
                pipe.write(f"{line}\n".encode())

    async def _end(self) -> None:
        """Close the shell's input after the last group; the shell then exits."""
        self._count -= 1
        if self._count > 0 or self._shell is None:
            return
        shell, self._shell = self._shell, None
        if shell.stdin is not None:
            shell.stdin.close()
        try:
            await asyncio.wait_for(shell.wait(), 1.0)
        except TimeoutError:
            shell.kill()
            await shell.wait()


INHERITED_VARIABLES = (
    "HOME LANG LC_ALL LC_CTYPE LOGNAME PATH SHELL TERM TMPDIR TZ USER "
    "SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy "
    "APPDATA COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES SYSTEMDRIVE "
    "SYSTEMROOT TEMP TMP USERNAME USERPROFILE WINDIR"
).split()
"""Variables that a server inherits: those that programs need to run and to reach the network, without keys."""


_MAX_LINE_BYTES = 64 << 20
"""Maximum bytes of a message; a server that sends more is broken."""
EXIT_TIMEOUT = 1.0
"""Maximum seconds for a server to exit after its input is closed."""
TERMINATE_TIMEOUT = 1.0
"""Maximum seconds for a server and its child processes to exit after SIGTERM."""
_PIECE = 1 << 16
_MAX_STRAY_LOGGED = 5


LogFunction = Callable[[str], Awaitable[None]]


def server_environment(config: McpServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a server: the base set, and the configured variables."""
    base = {k: v for k in INHERITED_VARIABLES if (v := environ.get(k)) is not None and not v.startswith("()")}
    return {**base, **config.env}


class ServerProcess:
    """A running server program.

    Attributes:
        pid: Process ID, which is also the ID of its process group.
        exit_code: Exit code; ``None`` while it runs.
        ended_by_client: Whether it was still running when the connection was closed.
    """

    def __init__(self, transport: asyncio.SubprocessTransport, pipes: ProgramPipes, mark: str) -> None:
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        assert pipes.stderr is not None
        self.stdin, self.stdout, self.stderr = pipes.stdin, pipes.stdout, pipes.stderr
        self.pid = transport.get_pid()
        self._transport = transport
        self._pipes = pipes
        self._mark = mark
        self.ended_by_client = False

    @property
    def exit_code(self) -> int | None:
        """Exit code; ``None`` while it runs."""
        return self._transport.get_returncode()

    async def wait(self) -> None:
        """Wait for the exit, even if other processes still have its pipes open."""
        await asyncio.shield(self._pipes.ended)

    async def end(self) -> None:
        """Close its input, wait, terminate it and all its child processes, and kill the rest."""
        self.ended_by_client = self.exit_code is None and not self.stdout.at_eof()
        self.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), EXIT_TIMEOUT)
        has_ended = self._pipes.ended.done()
        await terminate_tree(
            self.pid,
            self._mark,
            TERMINATE_TIMEOUT,
            find_orphans if has_ended and sys.platform == "linux" else find_processes,
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), TERMINATE_TIMEOUT)

    def kill(self) -> None:
        """Kill it immediately; blocks for some milliseconds."""
        kill_tree(self.pid, self._mark, find_orphans if self._pipes.ended.done() else find_processes)

    def close(self) -> None:
        """Close its pipes."""
        with suppress(PermissionError):
            self._transport.close()


async def start_server(config: McpServerConfig, environ: Mapping[str, str]) -> ServerProcess:
    """Start the program of a server in a new process session.

    Raises:
        McpError: The program cannot be started.
    """
    env = server_environment(config, environ)
    mark = secrets.token_hex(8)
    loop = asyncio.get_running_loop()
    command, cwd = await asyncio.to_thread(_resolve_program, config, env)
    try:
        transport, pipes = await loop.subprocess_exec(
            lambda: ProgramPipes(_PIECE),
            command,
            *config.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env={**env, RUN_ID_VARIABLE: mark},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise McpError(
            config.name,
            f"Cannot start MCP server {config.name!r}: {command}: {reason}. Check its command, args, and cwd.",
            "connect",
        ) from error
    return ServerProcess(transport, pipes, mark)


def _resolve_program(config: McpServerConfig, env: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the program and its folder, found on the server's own PATH; ``npx`` is ``npx.cmd`` on some systems.

    Raises:
        McpError: The program is not found.
    """
    command = os.path.expanduser(config.command)
    found = shutil.which(command, path=env.get("PATH")) if os.sep not in command else command
    if found is None:
        raise McpError(
            config.name,
            f"Cannot start MCP server {config.name!r}: Program not found on its PATH: {config.command!r}. Install it, or use its "
            "full path.",
            "connect",
        )
    return found, os.path.expanduser(config.cwd) if config.cwd else None


class _MessagePump:
    """Pump that moves messages between a program's pipes and the SDK's streams."""

    def __init__(self, process: ServerProcess, log: LogFunction) -> None:
        import anyio
        from mcp.shared.message import SessionMessage

        self._process = process
        self._wire = LineTransport(
            lambda: process.stdout.read(_PIECE), stream_writer(process.stdin), _MAX_LINE_BYTES, peer="server"
        )
        self._decoder = _MessageDecoder(log)
        self.into, self.reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.writing, self.out_of = anyio.create_memory_object_stream[SessionMessage](0)
        self._all_read = asyncio.Event()

    async def read(self) -> None:
        """Read the output of the program until it ends."""
        import anyio
        from mcp.shared.message import SessionMessage

        try:
            while (line := await self._wire.line()) is not None:
                message = await self._decoder.message(line)
                if message is not None:
                    await self.into.send(SessionMessage(message))
        except (LineTooLongError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self._all_read.set()
            await self.into.aclose()
        while await self._process.stdout.read(
            _PIECE
        ):  # drain the output, so that a server that is exiting does not block
            pass

    async def write(self) -> None:
        """Write messages to the program in a separate task, so that a slow server does not block reading."""
        try:
            async for item in self.out_of:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await self._wire.send(text.encode("utf-8", "replace"))
        except OSError:
            await self.into.aclose()

    async def wait_for_exit(self) -> None:
        """Close the streams when the program exits, even if a child process still has its pipes open."""
        await self._process.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_read.wait(), 0.3)
        await self.into.aclose()

    def close(self) -> None:
        """Close the streams."""
        for stream in (self.into, self.reading, self.writing, self.out_of):
            stream.close()


@asynccontextmanager
async def stdio_streams(process: ServerProcess, log: LogFunction) -> AsyncGenerator[TransportStreams]:
    """Open the streams of a started program for the SDK; leaving the block stops the program.

    Args:
        process: The program.
        log: Function that logs a line that is not a message.
    """
    import anyio

    pump = _MessagePump(process, log)
    try:
        async with anyio.create_task_group() as tasks:
            for work in (pump.read, pump.write, pump.wait_for_exit):
                tasks.start_soon(work)
            tasks.start_soon(_log_stderr, process.stderr, log)
            try:
                yield pump.reading, pump.writing
            finally:
                with anyio.CancelScope(shield=True):
                    pump.reading.close()
                    pump.writing.close()
                    await process.end()
                tasks.cancel_scope.cancel()
    except BaseException:
        process.kill()
        raise
    finally:
        pump.close()
        process.close()


@asynccontextmanager
async def stdio_transport(
    config: McpServerConfig, environ: Mapping[str, str], log: LogFunction, orphans: ServerReaper
) -> AsyncGenerator[tuple[ServerProcess, TransportStreams]]:
    """Start a server's program and open its streams for the duration of the block."""
    process = await start_server(config, environ)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(orphans.watching(process.pid))
            streams = await stack.enter_async_context(stdio_streams(process, log))
        except BaseException:
            process.kill()
            process.close()
            raise
        yield process, streams


class _MessageDecoder:
    """Decoder that separates messages from other output of a server."""

    def __init__(self, log: LogFunction) -> None:
        self._log = log
        self._strays = 0

    async def message(self, line: bytes) -> Any:
        """Return the message in a line; ``None`` if it is not a message.

        A broken response is repaired or becomes an error.
        """
        from mcp.types import jsonrpc_message_adapter

        def read(message: Any) -> Any:
            return jsonrpc_message_adapter.validate_python(message, by_name=False)

        text = line.strip().removeprefix(b"\xef\xbb\xbf")
        if not text:
            return None
        try:
            return read(_decoded(text))
        except (ValueError, RecursionError):  # not JSON, or not a message
            pass
        repaired = repair_message(text) if text.startswith(b"{") else None
        try:
            if repaired is not None:
                return read(repaired)
        except ValueError:
            repaired = error_response(repaired) if repaired is not None else None
        await self._log_stray(text)
        return read(repaired) if repaired is not None else None

    async def _log_stray(self, text: bytes) -> None:
        self._strays += 1
        if self._strays <= _MAX_STRAY_LOGGED or self._strays % 1000 == 0:
            shown = text[:200].decode("utf-8", "replace")
            await self._log(f"[not a message, on stdout; {self._strays} so far] {shown}")


def _decoded(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(text.decode("utf-8", "replace"))


async def _log_stderr(pipe: asyncio.StreamReader, log: LogFunction) -> None:
    """Log stderr line by line until it ends."""
    lines = LineReader(lambda: pipe.read(_PIECE), _PIECE, split_long_lines=True)
    while (line := await lines.line()) is not None:
        await log(line.decode("utf-8", "replace"))
