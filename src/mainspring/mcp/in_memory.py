"""In-memory MCP servers backed by plain functions, for tests and for applications that provide their own server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.types import (
    Answer,
    ClientHandler,
    McpConnection,
    McpContentBlock,
    McpError,
    ProgressCallback,
    PromptInfo,
    PromptMessage,
    ResourceInfo,
    ServerInfo,
    ToolInfo,
)

InMemoryHandler = Callable[..., "Answer | str | Awaitable[Answer | str]"]
"""Function that executes a tool: arguments by name, and ``side`` and ``on_progress`` if it has such parameters."""


class InMemoryServer:
    """An in-memory server.

    Args:
        tools: Tools with their handlers.
        resources: Text of each resource by URI.
        prompts: Text of each prompt by name.
        instructions: Instructions on how to use the server.
        delay: Event to wait for before the connection is ready; the connection hangs until it is set.
        connect_error: Text of the error that every connection raises. Empty: connections succeed.

    Attributes:
        connections: Number of connections so far.
        calls: Received calls.
        cancelled: Cancelled calls.
    """

    def __init__(
        self,
        tools: Mapping[ToolInfo, InMemoryHandler] | Sequence[tuple[ToolInfo, InMemoryHandler]] = (),
        *,
        resources: Mapping[str, str] | None = None,
        prompts: Mapping[str, str] | None = None,
        instructions: str = "",
        delay: asyncio.Event | None = None,
        connect_error: str = "",
    ) -> None:
        pairs = tools.items() if isinstance(tools, Mapping) else tools
        self.tools: dict[str, tuple[ToolInfo, InMemoryHandler]] = {info.name: (info, work) for info, work in pairs}
        self.resources = dict(resources or {})
        self.prompts = dict(prompts or {})
        self.instructions = instructions
        self.delay = delay
        self.connect_error = connect_error
        self.connections = 0
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.cancelled: list[str] = []
        self.lost = asyncio.Event()
        self.side: ClientHandler | None = None

    def crash(self) -> None:
        """Close the connection, as if the program crashed."""
        self.lost.set()

    def set_tools(self, tools: Sequence[tuple[ToolInfo, InMemoryHandler]]) -> None:
        """Change the tools and notify the client."""
        self.tools = {info.name: (info, work) for info, work in tools}
        if self.side is not None:
            self.side.on_list_changed("tools")


class InMemoryConnector:
    """Connector to in-memory servers, by the name of the configuration.

    Args:
        servers: Servers by name.
    """

    def __init__(self, servers: Mapping[str, InMemoryServer]) -> None:
        self.servers = dict(servers)

    def connect(self, config: McpServerConfig, side: ClientHandler) -> AbstractAsyncContextManager[McpConnection]:
        """See `McpConnector.connect`."""
        return self._connect(config, side)

    @asynccontextmanager
    async def _connect(self, config: McpServerConfig, side: ClientHandler) -> AsyncGenerator[McpConnection]:
        server = self.servers.get(config.name)
        if server is None:
            raise McpError(config.name, f"MCP server {config.name!r} does not exist", "connect")
        if server.delay is not None:
            await server.delay.wait()
        if server.connect_error:
            raise McpError(config.name, server.connect_error, "connect")
        server.connections += 1
        server.lost, server.side = asyncio.Event(), side
        yield _InMemoryConnection(config.name, server, side)


class _InMemoryConnection:
    def __init__(self, name: str, server: InMemoryServer, side: ClientHandler) -> None:
        self._name = name
        self._server = server
        self._side = side
        self.closed = server.lost
        has = {"tools": True, "resources": bool(server.resources), "prompts": bool(server.prompts)}
        self.server_info = ServerInfo(
            name=name,
            version="1",
            protocol="twin",
            instructions=server.instructions,
            capabilities=frozenset(kind for kind, there in has.items() if there),
        )

    async def list_tools(self) -> Sequence[ToolInfo]:
        return [info for info, _ in self._server.tools.values()]

    async def call_tool(self, name: str, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> Answer:
        server = self._server
        if name not in server.tools:
            raise McpError(self._name, f"MCP server {self._name!r}: Unknown tool: {name!r}.")
        server.calls.append((name, dict(arguments)))
        work = asyncio.ensure_future(self._call_handler(server.tools[name][1], arguments, on_progress))
        lost = asyncio.ensure_future(self.closed.wait())
        try:
            await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                answer = work.result()
                return Answer(content=({"type": "text", "text": answer},)) if isinstance(answer, str) else answer
            raise McpError(self._name, f"MCP server {self._name!r} ended", "lost")
        except asyncio.CancelledError:
            server.cancelled.append(name)
            raise
        finally:
            work.cancel()
            lost.cancel()

    async def _call_handler(
        self, work: InMemoryHandler, arguments: Mapping[str, Any], on_progress: ProgressCallback
    ) -> Answer | str:
        requested = work.__code__.co_varnames[: work.__code__.co_argcount] if hasattr(work, "__code__") else ()
        offered = {"side": self._side, "on_progress": on_progress}
        given = work(**arguments, **{name: value for name, value in offered.items() if name in requested})
        return given if isinstance(given, Answer | str) else await given

    async def list_resources(self) -> Sequence[ResourceInfo]:
        return [ResourceInfo(uri=uri, name=uri, media_type="text/plain") for uri in self._server.resources]

    async def read_resource(self, uri: str) -> Sequence[McpContentBlock]:
        text = self._server.resources.get(uri)
        if text is None:
            raise McpError(self._name, f"MCP server {self._name!r}: Resource not found: {uri}.")
        return [{"type": "resource", "resource": {"uri": uri, "text": text, "mimeType": "text/plain"}}]

    async def list_prompts(self) -> Sequence[PromptInfo]:
        return [PromptInfo(name=name) for name in self._server.prompts]

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        text = self._server.prompts.get(name)
        if text is None:
            raise McpError(self._name, f"MCP server {self._name!r}: Unknown prompt: {name!r}.")
        return [PromptMessage(role="user", content=({"type": "text", "text": text.format(**arguments)},))]
