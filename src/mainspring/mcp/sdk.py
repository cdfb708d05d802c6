"""What a server asks and tells, from the SDK's types to ours.

Connections by the official SDK, which is imported when the first one is made.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mainspring import __version__
from mainspring.errors import ConfigError
from mainspring.extras import install_command
from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.errors import EndpointState, to_mcp_error
from mainspring.mcp.http_transport import http_transport
from mainspring.mcp.message_repair import RepairingStream
from mainspring.mcp.stdio_transport import OrphanReaper, stdio_transport
from mainspring.mcp.types import (
    Answer,
    ClientHandler,
    ContentBlock,
    ElicitRequest,
    ListKind,
    McpConnection,
    McpError,
    ProgressCallback,
    PromptArgument,
    PromptInfo,
    PromptMessage,
    ResourceInfo,
    SamplingRequest,
    ServerInfo,
    ToolInfo,
)

if TYPE_CHECKING:
    from mcp import Client, types
    from mcp.client._transport import TransportStreams
    from mcp.client.session import ClientRequestContext


_LIST_CHANGED: dict[str, ListKind] = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}
_LOG = "notifications/message"
_RESUBSCRIBE_SECONDS = 5.0
_TRIES = 5


class SdkCallbacks:
    """Hands the SDK's calls on to a `ClientSide`.

    Args:
        server: The server's name.
        side: Whom to ask and tell.
    """

    def __init__(self, server: str, side: ClientHandler) -> None:
        self._server = server
        self._on_usage = side

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """The user is asked."""
        from mcp import types

        schema: Any = getattr(params, "requested_schema", None) or {}
        url = getattr(params, "url", "")
        asked = ElicitRequest(server=self._server, message=params.message, schema=schema, url=url)
        answer = await self._on_usage.elicit(asked)
        content = dict(answer.content) if answer.action == "accept" and not url else None
        return types.ElicitResult(action=answer.action, content=content)

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """The model is asked."""
        from mcp import types

        asked = SamplingRequest(
            server=self._server,
            messages=tuple([PromptMessage(role=m.role, content=_blocks(m.content)) for m in params.messages]),
            system=params.system_prompt or "",
            max_tokens=params.max_tokens,
            temperature=params.temperature,
        )
        answer = await self._on_usage.sample(asked)
        if isinstance(answer, str):
            return types.ErrorData(code=-1, message=answer)  # the code that the protocol has for a refusal by the user
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=answer.text),
            model=answer.model,
            stop_reason=answer.stop_reason,
        )

    async def roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        """Where it may work."""
        from mcp import types

        folders = [Path(folder) for folder in self._on_usage.roots()]
        return types.ListRootsResult.model_validate(
            {"roots": [{"uri": f.absolute().as_uri(), "name": f.name or str(f)} for f in folders]}
        )

    async def heard(self, method: str, params: Any) -> bool:
        """Take a notification; false if it is none of those that are taken here."""
        kind = _LIST_CHANGED.get(method)
        if kind is not None:
            self._on_usage.changed(kind)
        elif method == _LOG:
            await self._log(cast("dict[str, Any]", params) if isinstance(params, dict) else {})
        else:
            return False
        return True

    async def _log(self, params: dict[str, Any]) -> None:
        """A line of its log."""
        data, logger = params.get("data"), params.get("logger")
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        await self._on_usage.say(f"[{params.get('level', 'info')}] {f'{logger}: ' if logger else ''}{text}")

    @asynccontextmanager
    async def listening(self, client: Client) -> AsyncGenerator[None]:
        """Hear of lists that change, where the protocol has that asked for."""
        import anyio

        abilities = client.server_capabilities
        wanted = {
            f"{kind}_list_changed": True
            for kind in ("tools", "resources", "prompts")
            if getattr(getattr(abilities, kind, None), "list_changed", False)
        }
        if client.session.discover_result is None or not wanted:
            yield  # the older protocol tells without being asked
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, client, wanted)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _listen(self, client: Client, wanted: dict[str, Any]) -> None:
        import anyio
        from mcp import MCPError

        for tried in range(_TRIES):
            try:
                async with client.listen(**wanted) as events:
                    if tried:  # something may have changed meanwhile
                        self._on_usage.changed("tools")
                    async for event in events:
                        self._tell(type(event).__name__.removesuffix("ListChanged").lower())
            except (MCPError, RuntimeError, TimeoutError):
                pass  # a server need not keep what it promised; the connection is as good without
            await anyio.sleep(_RESUBSCRIBE_SECONDS)

    def _tell(self, kind: str) -> None:
        if kind in ("tools", "resources", "prompts"):
            self._on_usage.changed(kind)


def _blocks(content: Any) -> tuple[ContentBlock, ...]:
    several = cast("list[Any]", content) if isinstance(content, list) else [content]
    return tuple([block.model_dump(by_alias=True, exclude_none=True, mode="json") for block in several])


MAX_PAGES = 100
"""Most pages of a list; a server that has more has no end."""


T = TypeVar("T")
Page = tuple[Sequence[T], str | None]


class SdkConnector:
    """Makes connections.

    Args:
        environ: Our variables, of which programs get the base set.
        tokens: The folder where logins are kept; without one there are none.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, tokens: Path | None = None) -> None:
        self._environ = environ
        self._tokens = tokens
        self._orphans = OrphanReaper()

    async def ready(self) -> None:
        """See `ReadyingConnector.ready`: half a second of work, in a thread.

        Raises:
            ConfigError: If the SDK is not installed.
        """
        await asyncio.to_thread(load_sdk)

    def connect(self, config: McpServerConfig, side: ClientHandler) -> AbstractAsyncContextManager[McpConnection]:
        """See `McpConnector.connect`."""
        return self._connect(config, side)

    @asynccontextmanager
    async def _connect(self, config: McpServerConfig, side: ClientHandler) -> AsyncGenerator[McpConnection]:
        await self.ready()
        end = EndpointState(config)
        lost = asyncio.Event()
        stage = "connect"
        try:
            async with AsyncExitStack() as stack:
                if config.transport == "stdio":
                    started = stdio_transport(config, self._environ, side.say, self._orphans)
                    end.process, streams = await stack.enter_async_context(started)
                else:
                    streams = await stack.enter_async_context(http_transport(config, end, self._tokens))
                callbacks = SdkCallbacks(config.name, side)
                heard = _OpenTransport(streams, lost, callbacks)
                client = await stack.enter_async_context(_client(heard, config, callbacks))
                await stack.enter_async_context(callbacks.listening(client))
                stage = "lost"
                end.settled()
                yield SdkConnection(client, end, lost)
        except (
            Exception
        ) as error:  # of the handshake, or of a transport that failed later: a group, told when it is left
            raise await to_mcp_error(error, end, stage) from error


def load_sdk() -> None:
    """Load the parts of the SDK that every connection needs.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        for module in ("mcp", "mcp.types", "mcp.client.streamable_http", "mcp.shared.message"):
            importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"MCP servers need the extra mcp: {install_command('mcp')} ({error})") from error


def _client(streams: _OpenTransport, config: McpServerConfig, callbacks: SdkCallbacks) -> Client:
    from mcp import Client, types

    return Client(
        streams,
        mode=config.mode,
        client_info=types.Implementation(name="mainspring", version=__version__),
        sampling_callback=callbacks.sample,
        elicitation_callback=callbacks.elicit,
        list_roots_callback=callbacks.roots,
        cache=None,
    )


class _OpenTransport:
    """Streams that are open already, as the SDK takes a transport; what is read is mended, and what is told is heard here."""

    def __init__(self, streams: TransportStreams, lost: asyncio.Event, callbacks: SdkCallbacks) -> None:
        self._read, self._write = streams
        self._lost = lost
        self._callbacks = callbacks

    async def __aenter__(self) -> TransportStreams:
        return RepairingStream(self._read, self._lost, self._callbacks.heard), self._write

    async def __aexit__(self, *error: object) -> None:
        self._lost.set()


class SdkConnection:
    """See `McpConnection`."""

    def __init__(self, client: Client, end: EndpointState, lost: asyncio.Event) -> None:
        self._client = client
        self._end = end
        self.lost = lost
        info, abilities = client.server_info, client.server_capabilities
        self.facts = ServerInfo(
            name=info.name if info else "",
            version=info.version if info else "",
            protocol=client.protocol_version,
            instructions=client.instructions or "",
            capabilities=frozenset(abilities.model_dump(exclude_none=True)),
        )

    async def list_tools(self) -> Sequence[ToolInfo]:
        """See `McpConnection.list_tools`."""

        async def page(cursor: str | None) -> Page[Any]:
            found = await self._client.list_tools(cursor=cursor)
            return found.tools, found.next_cursor

        return [
            ToolInfo(
                name=t.name,
                description=t.description or "",
                title=t.title or "",
                input_schema=t.input_schema,
                annotations=_model_to_dict(t.annotations) if t.annotations else {},
            )
            for t in await self._list_all_pages(page)
        ]

    async def call_tool(self, name: str, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> Answer:
        """See `McpConnection.call_tool`."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            on_progress(progress, total, message)

        got = await self._request(lambda: self._client.call_tool(name, dict(arguments), progress_callback=told))
        return Answer(
            content=tuple([_model_to_dict(b) for b in got.content]),
            structured=got.structured_content,
            is_error=bool(got.is_error),
        )

    async def list_resources(self) -> Sequence[ResourceInfo]:
        """See `McpConnection.list_resources`."""

        async def page(cursor: str | None) -> Page[Any]:
            found = await self._client.list_resources(cursor=cursor)
            return found.resources, found.next_cursor

        async def templates(cursor: str | None) -> Page[Any]:
            found = await self._client.list_resource_templates(cursor=cursor)
            return found.resource_templates, found.next_cursor

        found = [_to_resource_info(r, str(r.uri)) for r in await self._list_all_pages(page)]
        try:
            more = await self._list_all_pages(templates)
        except McpError:  # a server that has resources need not have templates
            more = []
        return [*found, *(_to_resource_info(t, t.uri_template, template=True) for t in more)]

    async def read_resource(self, uri: str) -> Sequence[ContentBlock]:
        """See `McpConnection.read_resource`."""
        got = await self._request(lambda: self._client.read_resource(uri))
        return [{"type": "resource", "resource": _model_to_dict(c)} for c in got.contents]

    async def list_prompts(self) -> Sequence[PromptInfo]:
        """See `McpConnection.list_prompts`."""

        async def page(cursor: str | None) -> Page[Any]:
            found = await self._client.list_prompts(cursor=cursor)
            return found.prompts, found.next_cursor

        return [
            PromptInfo(
                name=p.name,
                title=p.title or "",
                description=p.description or "",
                arguments=tuple(
                    [
                        PromptArgument(name=a.name, description=a.description or "", required=bool(a.required))
                        for a in p.arguments or ()
                    ]
                ),
            )
            for p in await self._list_all_pages(page)
        ]

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """See `McpConnection.get_prompt`."""
        got = await self._request(lambda: self._client.get_prompt(name, dict(arguments) or None))
        return [PromptMessage(role=m.role, content=(_model_to_dict(m.content),)) for m in got.messages]

    async def _list_all_pages(self, page: Callable[[str | None], Awaitable[Page[Any]]]) -> list[Any]:
        """Everything of a list, page by page; a server that gives one page again and again is not asked for ever."""
        found: list[Any] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            items, cursor = await self._request(lambda at=cursor: page(at))
            found.extend(items)
            if not cursor or cursor in seen:
                break
            seen.add(cursor)
        return found

    async def _request(self, request: Callable[[], Awaitable[T]]) -> T:
        if self.lost.is_set():
            raise await to_mcp_error(ConnectionError("the connection is closed"), self._end, "lost")
        try:
            return await request()
        except Exception as error:
            failure = await to_mcp_error(error, self._end, "lost" if self.lost.is_set() else "refused")
            raise failure from error


def _model_to_dict(model: Any) -> dict[str, Any]:
    """The fields of a model of the SDK, by their names on the wire."""
    return model.model_dump(by_alias=True, exclude_none=True, mode="json")


def _to_resource_info(given: Any, uri: str, *, template: bool = False) -> ResourceInfo:
    return ResourceInfo(
        uri=uri,
        name=given.name or "",
        title=given.title or "",
        description=given.description or "",
        media_type=cast("str | None", given.mime_type) or "",
        template=template,
    )
