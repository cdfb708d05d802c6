"""What the plug needs of whoever speaks the protocol. `mainspring.mcp.sdk` is the real one; `mainspring.mcp.in_memory` is one in
memory, for tests and for servers that are plain functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from mainspring.errors import MainspringError
from mainspring.mcp.config import McpServerConfig

McpContentBlock = dict[str, Any]
"""A content block as it goes over the wire: ``{"type": "text", "text": "..."}``."""

ListKind = Literal["tools", "resources", "prompts"]


class McpError(MainspringError):
    """A server could not be connected, died, refused, or did not answer in time.

    Attributes:
        server: Its name.
        reason: ``connect``, ``lost``, ``timeout``, ``login`` (it wants a login first), ``session`` (it has forgotten this
            connection), ``disabled``, or ``refused`` (it answered with an error).
    """

    def __init__(self, server: str, text: str, reason: str = "refused") -> None:
        super().__init__(text)
        self.server = server
        self.reason = reason


class ToolInfo(Struct, frozen=True, kw_only=True):
    """A tool as its server describes it. ``annotations`` are its hints: ``readOnlyHint`` and so on; a server's word, no more."""

    name: str
    description: str = ""
    title: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = {}


class ResourceInfo(Struct, frozen=True, kw_only=True):
    """Something to read. Of a template, ``uri`` has places to fill in: ``file:///{path}``."""

    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    media_type: str = ""
    template: bool = False


class PromptArgument(Struct, frozen=True, kw_only=True):
    """Something that a prompt asks for."""

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
    """A message of a prompt that was filled in."""

    role: Literal["user", "assistant"]
    content: tuple[McpContentBlock, ...]


class Answer(Struct, frozen=True, kw_only=True):
    """What a call gave: content blocks, and the same as data where the tool has that."""

    content: tuple[McpContentBlock, ...] = ()
    structured: Any = None
    is_error: bool = False


class ServerInfo(Struct, frozen=True, kw_only=True):
    """What a server says of itself."""

    name: str = ""
    version: str = ""
    protocol: str = ""
    instructions: str = ""
    capabilities: frozenset[str] = frozenset()


class ElicitRequest(Struct, frozen=True, kw_only=True):
    """A server asks the user.

    Attributes:
        server: Which.
        message: What it says.
        schema: What it wants to know, a JSON Schema with simple properties; empty for a ``url``.
        url: A page that the user is to visit.
    """

    server: str
    message: str
    schema: dict[str, Any] = {}
    url: str = ""


class ElicitResult(Struct, frozen=True):
    """What the user says to that; ``content`` where they accept."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, str | int | float | bool | list[str] | None] = {}


class SamplingRequest(Struct, frozen=True, kw_only=True):
    """A server asks the model.

    Attributes:
        server: Which.
        messages: The conversation, each with role and content blocks.
        system: A system prompt.
        max_tokens: Most tokens of the answer.
        temperature: 0 to 2, if set.
    """

    server: str
    messages: tuple[PromptMessage, ...]
    system: str = ""
    max_tokens: int = 0
    temperature: float | None = None


class SamplingResult(Struct, frozen=True):
    """The model's answer."""

    text: str
    model: str = ""
    stop_reason: str = "endTurn"


ProgressCallback = Callable[[float, float | None, str | None], None]
"""Told how far a call is, of how much, and in words."""


class ClientHandler(Protocol):
    """Whom a connection asks and tells."""

    async def elicit(self, request: ElicitRequest) -> ElicitResult:
        """Ask the user."""
        ...

    async def sample(self, request: SamplingRequest) -> SamplingResult | str:
        """Ask the model; a text says why not."""
        ...

    def roots(self) -> Sequence[str]:
        """The folders that the server may work in."""
        ...

    def log_line(self, line: str) -> Awaitable[None]:
        """Keep a line that the server wrote."""
        ...

    def on_list_changed(self, kind: ListKind) -> None:
        """A list of the server's is another now."""
        ...


class McpConnection(Protocol):
    """An open connection. Its methods may be called from any task; cancelling one cancels the request at the server.

    Attributes:
        server_info: What the server says of itself.
        closed: Set when the connection is over.
    """

    server_info: ServerInfo
    closed: asyncio.Event

    async def list_tools(self) -> Sequence[ToolInfo]:
        """All tools, of all pages."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> Answer:
        """Call a tool.

        Raises:
            McpFailure: If there is no result.
        """
        ...

    async def list_resources(self) -> Sequence[ResourceInfo]:
        """All resources, then all templates."""
        ...

    async def read_resource(self, uri: str) -> Sequence[McpContentBlock]:
        """The contents of a resource, each as an embedded resource."""
        ...

    async def list_prompts(self) -> Sequence[PromptInfo]:
        """All prompts."""
        ...

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """A prompt, filled in."""
        ...


class McpConnector(Protocol):
    """Opens connections. ``Agent(mcp_connector=...)`` puts another in place of the real one."""

    def connect(self, config: McpServerConfig, side: ClientHandler) -> AbstractAsyncContextManager[McpConnection]:
        """A connection for as long as the block lasts; it is entered and left in one task.

        Raises:
            McpFailure: If there is none to be had.
        """
        ...


@runtime_checkable
class PreloadingConnector(McpConnector, Protocol):
    """A connector that has something to load first, which takes none of the time that a server has to connect."""

    async def preload(self) -> None:
        """Load it; at once where that was done before."""
        ...
