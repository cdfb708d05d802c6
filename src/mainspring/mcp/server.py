"""A server: its connection, its tools, and calls to it. A task connects and reconnects."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import Context
from typing import Any, Literal, Protocol, TypeVar

from mainspring.errors import ConfigError
from mainspring.mcp.client_features import CallTimer, ClientFeatures, ServerCalls
from mainspring.mcp.config import McpServerConfig, expand_config
from mainspring.mcp.errors import first_error
from mainspring.mcp.server_log import ServerLog
from mainspring.mcp.tools import create_server_tools
from mainspring.mcp.types import (
    Answer,
    ElicitRequest,
    ElicitResult,
    ListKind,
    McpConnection,
    McpConnector,
    McpContentBlock,
    McpError,
    PreloadingConnector,
    ProgressCallback,
    PromptInfo,
    PromptMessage,
    ResourceInfo,
    SamplingRequest,
    SamplingResult,
    ServerInfo,
    ToolInfo,
)
from mainspring.redaction import environment_secrets, redact_environment
from mainspring.tools import Tool, ToolContext, Toolset

Status = Literal["disabled", "idle", "connecting", "ready", "lost", "failed", "closed"]
"""``lost``: the connection ended and will be retried; ``failed``: not retried until the next call."""


MAX_RECONNECTS = 5
"""Maximum number of reconnects after a lost connection."""
MIN_RECONNECT_WAIT = 0.5
MAX_RECONNECT_WAIT = 30.0
STABLE_SECONDS = 60.0
"""Seconds after which a connection is stable: the next loss begins with the shortest wait."""
CLOSE_SECONDS = 5.0
RELIST_SECONDS = 1.0
"""Minimum seconds between two lists of tools, even if a server reports endless changes."""


_T = TypeVar("_T")


class ServerObserver(Protocol):
    """Observer of servers."""

    async def on_connected(self, server: McpServer, seconds: float) -> None:
        """Handle a server that is connected, with known tools."""
        ...

    async def on_failed(self, server: McpServer, error: McpError) -> None:
        """Handle a server that failed to connect or was lost."""
        ...

    def on_tools_changed(self, server: McpServer) -> None:
        """Handle changed tools of a server."""
        ...


class McpServer:
    """A server.

    Attributes:
        config: Configuration of the server.
        status: State of the connection.
        tools: Tools of the server for an agent.
        tool_infos: The same tools as the server describes them.
        info: Information from the server; ``info.instructions`` explain how to use it.
        error: Reason why the server is not ready; ``None`` if it is ready, or was never connected.
        log: Log output of the server.
        seconds: Seconds that the connection took.
    """

    def __init__(
        self,
        config: McpServerConfig,
        key: str,
        connector: McpConnector,
        *,
        asking: ClientFeatures | None = None,
        roots: Callable[[], Sequence[str]] = tuple,
        environ: Mapping[str, str] = os.environ,
        watcher: ServerObserver | None = None,
        log: ServerLog | None = None,
    ) -> None:
        self.config = config
        self.key = key
        self.status: Status = "idle" if config.enabled else "disabled"
        self.tools: tuple[Tool, ...] = ()
        self.tool_infos: tuple[ToolInfo, ...] = ()
        self.info = ServerInfo()
        self.error: McpError | None = None
        self.log = log or ServerLog()
        self.seconds = 0.0
        self.roots = roots
        self._connector = connector
        self._environ = environ
        self._watcher = watcher
        self._calls = ServerCalls(config.name, asking or ClientFeatures())
        self._connection: McpConnection | None = None
        self._connection_task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._settled = asyncio.Event()
        self._wakeup = asyncio.Event()
        self._stop = False
        self._reconnect_reason: McpError | None = None
        self._since: float | None = None
        self._waiting = 0
        self._changed: set[ListKind] = set()

    @property
    def name(self) -> str:
        """Name of the server."""
        return self.config.name

    @property
    def instructions(self) -> str:
        """Instructions on how to use the server. Written by others: data, not instructions to obey."""
        return self.info.instructions

    def toolset(self) -> Toolset:
        """Return the current tools as a set, for ``Agent(tools=...)``: to prefix, rename, filter, or approve them.

        The tools of an agent's own servers change with the servers: use `McpPlug.change_tools` for these.
        """
        return Toolset(self.tools)

    # --- connection -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to connect, unless connected or connecting; the connection belongs to the running event loop."""
        loop = asyncio.get_running_loop()
        if self.status == "disabled" or (
            self._connection_task is not None and self._loop is loop and not self._connection_task.done()
        ):
            return
        self._loop = loop
        self._connection, self._stop, self._reconnect_reason = None, False, None
        self._settled, self._wakeup = asyncio.Event(), asyncio.Event()
        self._changed = set()
        self.status = "connecting"
        # An empty context, since the connection is not related to the run that happens to start it.
        self._connection_task = loop.create_task(
            self._run_connection_loop(), name=f"mcp server {self.name}", context=Context()
        )

    async def wait_ready(self) -> None:
        """Wait until the server is ready or has failed."""
        if self._connection_task is not None and self._loop is asyncio.get_running_loop():
            await self._settled.wait()

    async def restart(self) -> None:
        """Close the connection, if open, and connect again."""
        await self.aclose()
        self.start()
        await self.wait_ready()

    async def aclose(self) -> None:
        """Close the connection, and stop the program and all its child processes.

        The server can be started again.
        """
        owner, self._connection_task = self._connection_task, None
        if owner is None or self._loop is not asyncio.get_running_loop():
            return
        self._stop = True
        self._wakeup.set()
        if self._connection is None and self.status in ("connecting", "lost"):
            owner.cancel()  # connecting to a server that may never respond
        try:
            _, pending = await asyncio.wait({owner}, timeout=CLOSE_SECONDS)
        except asyncio.CancelledError:
            owner.cancel()
            raise
        if pending:
            owner.cancel()
            await asyncio.wait({owner}, timeout=CLOSE_SECONDS)
        await self.log.flush()

    async def connection(self) -> McpConnection:
        """Return the connection; connect, or wait for the connection, if required.

        Raises:
            McpError: The connection failed.
        """
        if self.status == "disabled":
            raise McpError(self.name, f"MCP server {self.name!r} is disabled", "disabled")
        self.start()
        if self._connection is not None and self._connection.closed.is_set():
            self._mark_lost(self._connection, McpError(self.name, f"MCP server {self.name!r} ended", "lost"))
        if self.status == "lost":
            self._wakeup.set()  # a caller waits: reconnect now
        self._waiting += 1
        try:
            await self._settled.wait()
        finally:
            self._waiting -= 1
        if self._connection is None:
            raise self.error or McpError(self.name, f"MCP server {self.name!r} is closed", "lost")
        return self._connection

    async def _run_connection_loop(self) -> None:
        """Own the connection: a single task enters and leaves it."""
        tries = 0
        try:
            while not self._stop:
                self._since = self._reconnect_reason = None
                failure = await self._connect_once()
                if self._stop:
                    break
                if self._reconnect_reason is not None:
                    failure = self._reconnect_reason
                failure = _with_log(failure, self.config, self.log)
                if self._since is None and tries == 0:  # the first connection failed, so do not reconnect
                    await self._set_failed(failure, "failed")
                    return
                was_stable = self._since is not None and time.monotonic() - self._since > STABLE_SECONDS
                tries = 1 if was_stable else tries + 1
                await self._set_failed(failure, "lost" if tries <= MAX_RECONNECTS else "failed")
                if tries > MAX_RECONNECTS:
                    return
                if tries > 1 or not self._waiting:
                    await self._pause(min(MIN_RECONNECT_WAIT * 2 ** (tries - 1), MAX_RECONNECT_WAIT))
        finally:
            self._connection = None
            if self.status not in ("failed", "disabled"):
                self.status = "closed"
            self._settled.set()

    async def _pause(self, seconds: float) -> None:
        self._wakeup.clear()
        if not self._stop:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wakeup.wait(), seconds)

    async def _connect_once(self) -> McpError:
        """Connect, list the tools, and stay connected until the connection is lost or closed.

        Return the reason.
        """
        try:
            config = expand_config(self.config, self._environ)
        except ConfigError as error:
            return McpError(self.name, str(error), "connect")
        stack = AsyncExitStack()
        failure = McpError(self.name, f"MCP server {self.name!r} ended", "lost")
        try:
            async with stack:
                if isinstance(self._connector, PreloadingConnector):
                    await self._connector.preload()  # loading is local work, so it does not use the server's time
                began = time.monotonic()
                try:
                    async with asyncio.timeout(config.connect_timeout):
                        connection = await stack.enter_async_context(self._connector.connect(config, self))
                        self.info = connection.server_info
                        await self._list(connection)
                except TimeoutError:
                    return McpError(
                        self.name,
                        f"MCP server {self.name!r} did not respond within {config.connect_timeout:g} seconds",
                        "connect",
                    )
                self.seconds = time.monotonic() - began
                self._connection, self.status, self.error, self._since = connection, "ready", None, time.monotonic()
                self._settled.set()
                if self._watcher is not None:
                    await self._watcher.on_connected(self, self.seconds)
                await self._wait_until_lost(connection)
        except ConfigError as error:  # a local problem, not a fault of the server
            return McpError(self.name, f"Cannot connect to MCP server {self.name!r}: {error}", "connect")
        except Exception as error:  # a group of the SDK's task groups: an `McpError`, or an error of a transport
            found = first_error(error)
            text = redact_environment(
                str(found) or type(found).__name__, *environment_secrets({**self.config.env, **self.config.headers})
            )[:500]
            lost = McpError(self.name, f"Lost the connection to MCP server {self.name!r}: {text}", "lost")
            failure = found if isinstance(found, McpError) else lost
        return failure

    async def _wait_until_lost(self, connection: McpConnection) -> None:
        lost = asyncio.ensure_future(connection.closed.wait())
        listed = time.monotonic() - RELIST_SECONDS
        try:
            while not (self._stop or self._reconnect_reason is not None or lost.done()):
                self._wakeup.clear()
                delay: float | None = None
                if "tools" in self._changed:
                    delay = listed + RELIST_SECONDS - time.monotonic()
                    if delay <= 0:
                        await self._refresh_tools(connection)
                        listed = time.monotonic()
                        continue
                woken = asyncio.ensure_future(self._wakeup.wait())
                try:
                    await asyncio.wait({lost, woken}, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
        finally:
            lost.cancel()
            self._connection = None
            if not self._stop:
                self._settled.clear()

    async def _refresh_tools(self, connection: McpConnection) -> None:
        self._changed.discard("tools")
        try:
            async with asyncio.timeout(self.config.connect_timeout):
                await self._list(connection)
        except (TimeoutError, McpError) as error:
            self.log.note(f"Cannot list the tools again: {error or 'no response'}")
        else:
            if self._watcher is not None:
                self._watcher.on_tools_changed(self)

    async def _list(self, connection: McpConnection) -> None:
        listed = await connection.list_tools() if "tools" in self.info.capabilities else ()
        infos = {i.name: i for i in listed if self.config.includes_tool(i.name)}
        self.tool_infos = tuple([infos[name] for name in sorted(infos)])
        self.tools = create_server_tools(self, self.tool_infos)

    async def _set_failed(self, failure: McpError, status: Status) -> None:
        self.error, self.status = failure, status
        if status == "failed":
            self._settled.set()
        self.log.note(str(failure))
        await self.log.flush()
        if self._watcher is not None:
            await self._watcher.on_failed(self, failure)

    # --- requests ---------------------------------------------------------------------------------------------------

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        on_progress: ProgressCallback | None = None,
        *,
        context: ToolContext | None = None,
    ) -> Answer:
        """Call a tool by its name on the server. A cancellation also cancels the call on the server.

        Args:
            tool: Name of the tool on the server.
            arguments: Its arguments.
            on_progress: Function that receives the progress.
            context: Context of the agent's call, whose user and model answer requests of the server.

        Raises:
            McpError: The server returned no result. The effects of the call are unknown, unless the reason is ``connect``.
        """

        async def work(clock: CallTimer) -> Answer:
            def report_progress(progress: float, total: float | None, message: str | None) -> None:
                clock.reset()
                if on_progress is not None:
                    on_progress(progress, total, message)

            return await self._request(lambda connection: connection.call_tool(tool, arguments, report_progress))

        def slow() -> McpError:
            return McpError(
                self.name,
                f"MCP server {self.name!r} sent no response or progress for {self.config.timeout:g} seconds while running {tool!r}. "
                "The call was cancelled; its effects are unknown",
                "timeout",
            )

        with self._calls.tool_call(context):
            return await self._calls.run(self.config.timeout, work, slow)

    async def list_resources(self) -> Sequence[ResourceInfo]:
        """Return the resources and resource templates; empty if not supported.

        Raises:
            McpError: The request failed.
        """
        return await self._list_kind("resources", lambda c: c.list_resources())

    async def read_resource(self, uri: str) -> Sequence[McpContentBlock]:
        """Read a resource.

        Raises:
            McpError: The request failed.
        """
        return await self._with_timeout(uri, lambda connection: connection.read_resource(uri))

    async def list_prompts(self) -> Sequence[PromptInfo]:
        """Return the prompts; empty if not supported.

        Raises:
            McpError: The request failed.
        """
        return await self._list_kind("prompts", lambda c: c.list_prompts())

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> Sequence[PromptMessage]:
        """Return a filled-in prompt.

        Raises:
            McpError: The request failed.
        """
        return await self._with_timeout(name, lambda connection: connection.get_prompt(name, arguments or {}))

    async def _list_kind(self, kind: ListKind, ask: Callable[[McpConnection], Awaitable[Sequence[_T]]]) -> Sequence[_T]:
        await self.connection()
        if kind not in self.info.capabilities:
            return ()
        return await self._with_timeout(kind, ask)

    async def _with_timeout(self, subject: str, ask: Callable[[McpConnection], Awaitable[_T]]) -> _T:
        text = f"MCP server {self.name!r} did not respond within {self.config.timeout:g} seconds ({subject})"
        return await self._calls.run(
            self.config.timeout, lambda _: self._request(ask), lambda: McpError(self.name, text, "timeout")
        )

    async def _request(self, request: Callable[[McpConnection], Awaitable[_T]]) -> _T:
        """Send a request.

        Repeat it once after an expired session, since the server has not executed it.
        """
        again = False
        while True:
            connection = await self.connection()
            try:
                return await request(connection)
            except McpError as failure:
                if failure.reason not in ("session", "lost"):
                    raise
                self._mark_lost(connection, failure)
                if failure.reason == "session" and not again:
                    again = True
                    continue
                raise _with_log(failure, self.config, self.log) from failure

    def _mark_lost(self, connection: McpConnection, failure: McpError) -> None:
        if self._connection is connection:
            self._connection, self._reconnect_reason = None, failure
            self._settled.clear()
            self._wakeup.set()

    # --- requests and notifications of the server: see `ClientHandler` ------------------------------------------------

    async def elicit(self, request: ElicitRequest) -> ElicitResult:
        """Ask the user; the timeouts of calls pause."""
        return await self._calls.elicit(request)

    async def sample(self, request: SamplingRequest) -> SamplingResult | str:
        """Ask the user for approval, then call the model; the timeouts of calls pause."""
        return await self._calls.sample(request)

    async def log_line(self, line: str) -> None:
        """Log a line of the server."""
        self.log.add(line)

    def on_list_changed(self, kind: ListKind) -> None:
        """Handle a changed list. A pending change covers all further changes of the same list."""
        if kind not in self._changed:
            self._changed.add(kind)
            self._wakeup.set()


def _with_log(failure: McpError, config: McpServerConfig, log: ServerLog) -> McpError:
    """Add the last log output of a server to an error."""
    output = log.tail() if config.transport == "stdio" and failure.reason in ("connect", "lost") else ""
    text = f"{failure}. Last server output:\n{output}" if output else str(failure)
    return McpError(failure.server, text, failure.reason)


@asynccontextmanager
async def connected_server(server: McpServer) -> AsyncGenerator[McpServer]:
    """Connect to a server for the duration of the block.

    Raises:
        McpError: The connection failed.
    """
    try:
        await server.connection()
        yield server
    finally:
        await server.aclose()
