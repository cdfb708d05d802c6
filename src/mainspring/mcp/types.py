"""Protocols and types between the plugin and a connector.

`mainspring.mcp.sdk` uses the real protocol; `mainspring.mcp.in_memory` provides servers in memory, for tests and for servers
that are plain functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from mainspring.errors import MainspringError
from mainspring.mcp.config import McpServerConfig
from mainspring.tools import ToolContext

McpContentBlock = dict[str, Any]
"""A content block in the wire format: ``{"type": "text", "text": "..."}``."""

ListKind = Literal["tools", "resources", "prompts"]
"""A list of a server, which it may change."""


class McpError(MainspringError):
    """A server could not be connected, died, returned an error, or did not respond in time.

    Attributes:
        server: Name of the server.
        reason: ``connect``, ``lost``, ``timeout``, ``login`` (it requires a login), ``session`` (it no longer knows the
            session), ``disabled``, or ``refused`` (it returned an error).
    """

    def __init__(self, server: str, text: str, reason: str = "refused") -> None:
        super().__init__(text)
        self.server = server
        self.reason = reason


class ToolInfo(Struct, frozen=True, kw_only=True):
    """A tool as its server describes it.

    ``annotations`` are untrusted hints such as ``readOnlyHint``.
    """

    name: str
    description: str = ""
    title: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = {}


class ResourceInfo(Struct, frozen=True, kw_only=True):
    """A resource. The ``uri`` of a template has placeholders: ``file:///{path}``."""

    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    media_type: str = ""
    template: bool = False


class PromptArgument(Struct, frozen=True, kw_only=True):
    """Argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class PromptInfo(Struct, frozen=True, kw_only=True):
    """A prompt that a server offers."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class PromptMessage(Struct, frozen=True, kw_only=True):
    """Message of a filled-in prompt."""

    role: Literal["user", "assistant"]
    content: tuple[McpContentBlock, ...]


class Answer(Struct, frozen=True, kw_only=True):
    """Response of a call: content blocks, and structured data if the tool provides it."""

    content: tuple[McpContentBlock, ...] = ()
    structured: Any = None
    is_error: bool = False


class ServerInfo(Struct, frozen=True, kw_only=True):
    """Information from a server about itself."""

    name: str = ""
    version: str = ""
    protocol: str = ""
    instructions: str = ""
    capabilities: frozenset[str] = frozenset()


class ElicitRequest(Struct, frozen=True, kw_only=True):
    """Request of a server to ask the user.

    Attributes:
        server: Name of the server.
        message: Message to the user.
        schema: JSON Schema of the requested data with simple properties; empty for a ``url``.
        url: Page that the user should open.
        context: Context of the tool call during which the server asks, with the ``deps`` of its conversation. ``None`` outside of calls,
            and if several conversations are calling the server, since the protocol does not relate requests to calls.
    """

    server: str
    message: str
    schema: dict[str, Any] = {}
    url: str = ""
    context: ToolContext[Any] | None = None


class ElicitResult(Struct, frozen=True):
    """Answer of the user; ``content`` if accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, str | int | float | bool | list[str] | None] = {}


class SamplingRequest(Struct, frozen=True, kw_only=True):
    """Request of a server to call the model.

    Attributes:
        server: Name of the server.
        messages: Messages with role and content blocks.
        system: System prompt.
        max_tokens: Maximum number of output tokens.
        temperature: 0 to 2, if set.
        context: Context of the tool call; see `ElicitRequest`.
    """

    server: str
    messages: tuple[PromptMessage, ...]
    system: str = ""
    max_tokens: int = 0
    temperature: float | None = None
    context: ToolContext[Any] | None = None


class SamplingResult(Struct, frozen=True):
    """Response of the model."""

    text: str
    model: str = ""
    stop_reason: str = "endTurn"


ProgressCallback = Callable[[float, float | None, str | None], None]
"""Function that receives the progress, the total, and a message of a call."""


class ClientHandler(Protocol):
    """Handler of a connection's requests and notifications."""

    async def elicit(self, request: ElicitRequest) -> ElicitResult:
        """Ask the user."""
        ...

    async def sample(self, request: SamplingRequest) -> SamplingResult | str:
        """Call the model; a text is the reason for a failure."""
        ...

    def roots(self) -> Sequence[str]:
        """Return the folders that the server may work in."""
        ...

    def log_line(self, line: str) -> Awaitable[None]:
        """Log a line of the server."""
        ...

    def on_list_changed(self, kind: ListKind) -> None:
        """Handle a changed list of the server."""
        ...


class McpConnection(Protocol):
    """An open connection. Methods may be called from any task.

    Cancelling a method cancels the request on the server.

    Attributes:
        server_info: Information from the server.
        closed: Set when the connection has ended.
    """

    server_info: ServerInfo
    closed: asyncio.Event

    async def list_tools(self) -> Sequence[ToolInfo]:
        """Return all tools, of all pages."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> Answer:
        """Call a tool.

        Raises:
            McpError: The server returned no result.
        """
        ...

    async def list_resources(self) -> Sequence[ResourceInfo]:
        """Return all resources, then all templates."""
        ...

    async def read_resource(self, uri: str) -> Sequence[McpContentBlock]:
        """Return the contents of a resource, each as an embedded resource."""
        ...

    async def list_prompts(self) -> Sequence[PromptInfo]:
        """Return all prompts."""
        ...

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """Return a filled-in prompt."""
        ...


class McpConnector(Protocol):
    """Connector that opens connections.

    ``Agent(mcp_connector=...)`` replaces the default connector.
    """

    def connect(self, config: McpServerConfig, side: ClientHandler) -> AbstractAsyncContextManager[McpConnection]:
        """Open a connection for the duration of the block; it is entered and left in one task.

        Raises:
            McpError: The connection failed.
        """
        ...


@runtime_checkable
class PreloadingConnector(McpConnector, Protocol):
    """Connector with a preload step, whose time does not count toward the connect timeout."""

    async def preload(self) -> None:
        """Run the preload step; do nothing if it already ran."""
        ...
