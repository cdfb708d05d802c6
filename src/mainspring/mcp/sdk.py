"""Connections with the official SDK, and the conversion of its types.

The SDK is imported with the first connection.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from msgspec.structs import replace

from mainspring import __version__
from mainspring.errors import ConfigError
from mainspring.extras import install_command
from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.errors import EndpointState, to_mcp_error
from mainspring.mcp.message_repair import RepairingStream
from mainspring.mcp.oauth import load_auth
from mainspring.mcp.stdio_transport import ServerReaper, stdio_transport
from mainspring.mcp.types import (
    Answer,
    ClientHandler,
    ElicitRequest,
    ListKind,
    McpConnection,
    McpContentBlock,
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
    import httpx2
    from mcp import Client, types
    from mcp.client._transport import TransportStreams, WriteStream
    from mcp.client.session import ClientRequestContext
    from mcp.shared.message import SessionMessage


_READ_SECONDS = 300.0
_MAX_EVENT_BYTES = 64 << 20
_MAX_REASON_BYTES = 10_000
_INITIALIZED = b'"notifications/initialized"'
_OLDER_VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
"""Versions for servers that refuse the latest one of the handshake, newest first."""


@asynccontextmanager
async def http_transport(
    config: McpServerConfig, end: EndpointState, tokens: Path | None
) -> AsyncGenerator[TransportStreams]:
    """Open the streams to a server for the duration of the block.

    Args:
        config: Configuration of the server.
        end: State that records HTTP errors.
        tokens: Folder of logins.
    """
    import httpx2
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    login = load_auth(config, tokens)

    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers={**(headers or {}), **config.headers},
            timeout=httpx2.Timeout(config.connect_timeout, read=max(_READ_SECONDS, config.timeout + 30)),
            auth=auth or login,
            event_hooks={"response": [_error_hook(end)]},
        )

    async with AsyncExitStack() as stack:
        if config.transport == "sse":
            streams = await stack.enter_async_context(sse_client(config.url, httpx_client_factory=client))
        else:
            http_client = await stack.enter_async_context(client())
            streams = await stack.enter_async_context(
                streamable_http_client(config.url, http_client=http_client, max_sse_event_size=_MAX_EVENT_BYTES)
            )
        yield streams


def _error_hook(end: EndpointState) -> Any:
    """Return a hook that records HTTP errors.

    The SDK drops the status, and does not report an expired session as such.
    """

    async def check_response(response: httpx2.Response) -> None:
        if not end.initialized.is_set() and _INITIALIZED in response.request.content:
            text = await _read_reason(response) if response.status_code == 400 else ""
            end.refusal = text if "version" in text.lower() else ""
            end.initialized.set()
        if response.status_code >= 400:
            if "mcp-session-id" in response.request.headers and await _is_session_expired(response):
                end.session_gone = True
            elif response.request.method == "POST" or end.config.transport == "sse":  # other requests are optional
                end.record_refusal(response.status_code, await _read_reason(response))
        elif not end.initialized.is_set() or end.status == 401:
            # The server may have refused only the first request, which needs the newest protocol, or an expired token.
            end.clear_refusals()

    return check_response


async def _read_reason(response: httpx2.Response) -> str:
    """Return the text of a short error response; empty for web pages."""
    length = response.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > _MAX_REASON_BYTES:
        return ""
    text = " ".join((await response.aread()).decode("utf-8", "replace").split())
    return "" if text.lstrip('"').startswith("<") else text


async def _is_session_expired(response: httpx2.Response) -> bool:
    """Return True if the server does not know the session.

    The protocol uses 404; some servers send 410, or 400 or 401 with a note.
    """
    if response.status_code == 400 or (response.status_code == 401 and "www-authenticate" not in response.headers):
        return b"session" in (await response.aread()).lower()
    return response.status_code in (404, 410)


_LIST_CHANGED: dict[str, ListKind] = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}
_LOG = "notifications/message"
_RESUBSCRIBE_SECONDS = 5.0
_TRIES = 5


class SdkCallbacks:
    """Adapter from the SDK's callbacks to a `ClientHandler`.

    Args:
        server: Name of the server.
        side: Handler of the server's requests.
    """

    def __init__(self, server: str, side: ClientHandler) -> None:
        self._server = server
        self._side = side

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Ask the user."""
        from mcp import types

        schema: Any = getattr(params, "requested_schema", None) or {}
        url = getattr(params, "url", "")
        request = ElicitRequest(server=self._server, message=params.message, schema=schema, url=url)
        answer = await self._side.elicit(request)
        content = dict(answer.content) if answer.action == "accept" and not url else None
        return types.ElicitResult(action=answer.action, content=content)

    async def sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """Call the model."""
        from mcp import types

        request = SamplingRequest(
            server=self._server,
            messages=tuple([PromptMessage(role=m.role, content=_blocks(m.content)) for m in params.messages]),
            system=params.system_prompt or "",
            max_tokens=params.max_tokens,
            temperature=params.temperature,
        )
        answer = await self._side.sample(request)
        if isinstance(answer, str):
            return types.ErrorData(code=-1, message=answer)  # the protocol's code for a denial by the user
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=answer.text),
            model=answer.model,
            stop_reason=answer.stop_reason,
        )

    async def roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        """Return the folders that the server may work in."""
        from mcp import types

        folders = [Path(folder) for folder in self._side.roots()]
        return types.ListRootsResult.model_validate(
            {"roots": [{"uri": f.absolute().as_uri(), "name": f.name or str(f)} for f in folders]}
        )

    async def handle_notification(self, method: str, params: Any) -> bool:
        """Handle a notification; return False if it is not handled here."""
        kind = _LIST_CHANGED.get(method)
        if kind is not None:
            self._side.on_list_changed(kind)
        elif method == _LOG:
            await self._log(cast("dict[str, Any]", params) if isinstance(params, dict) else {})
        else:
            return False
        return True

    async def _log(self, params: dict[str, Any]) -> None:
        """Handle a log message of the server."""
        data, logger = params.get("data"), params.get("logger")
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        await self._side.log_line(f"[{params.get('level', 'info')}] {f'{logger}: ' if logger else ''}{text}")

    @asynccontextmanager
    async def subscribe(self, client: Client) -> AsyncGenerator[None]:
        """Subscribe to list changes, if the protocol version requires it."""
        import anyio

        abilities = client.server_capabilities
        requested = {
            f"{kind}_list_changed": True
            for kind in ("tools", "resources", "prompts")
            if getattr(getattr(abilities, kind, None), "list_changed", False)
        }
        if client.session.discover_result is None or not requested:
            yield  # servers with the older protocol notify without a subscription
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, client, requested)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _listen(self, client: Client, filters: dict[str, Any]) -> None:
        import anyio
        from mcp import MCPError

        for tried in range(_TRIES):
            try:
                async with client.listen(**filters) as events:
                    if tried:  # a change may have been missed between subscriptions
                        self._side.on_list_changed("tools")
                    async for event in events:
                        self._notify_changed(type(event).__name__.removesuffix("ListChanged").lower())
            except (MCPError, RuntimeError, TimeoutError):
                pass  # a server may break its promise; the connection works without it
            await anyio.sleep(_RESUBSCRIBE_SECONDS)

    def _notify_changed(self, kind: str) -> None:
        if kind in ("tools", "resources", "prompts"):
            self._side.on_list_changed(kind)


def _blocks(content: Any) -> tuple[McpContentBlock, ...]:
    several = cast("list[Any]", content) if isinstance(content, list) else [content]
    return tuple([block.model_dump(by_alias=True, exclude_none=True, mode="json") for block in several])


MAX_PAGES = 100
"""Maximum number of pages of a list; more pages are treated as an endless list."""


_T = TypeVar("_T")


class SdkConnector:
    """Connector of the official SDK.

    Args:
        environ: Environment variables; programs get the base set.
        tokens: Folder of logins; without it, logins are not used.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, tokens: Path | None = None) -> None:
        self._environ = environ
        self._tokens = tokens
        self._orphans = ServerReaper()
        self._versions: dict[str, str] = {}  # of servers that refused the latest version

    async def preload(self) -> None:
        """See `PreloadingConnector.preload`: half a second of work, in a thread.

        Raises:
            ConfigError: The SDK is not installed.
        """
        await asyncio.to_thread(load_sdk)

    def connect(self, config: McpServerConfig, side: ClientHandler) -> AbstractAsyncContextManager[McpConnection]:
        """See `McpConnector.connect`."""
        return self._connect(config, side)

    @asynccontextmanager
    async def _connect(self, config: McpServerConfig, side: ClientHandler) -> AsyncGenerator[McpConnection]:
        await self.preload()
        async with AsyncExitStack() as stack:
            yield await self._negotiate(config, side, stack)

    async def _negotiate(self, config: McpServerConfig, side: ClientHandler, stack: AsyncExitStack) -> McpConnection:
        """Connect with the configured protocol, or an older version if the server refuses the version instead of offering its own."""
        version = self._versions.pop(config.name, "")
        older = replace(config, mode="legacy")
        tried = older if version else config
        end = EndpointState(tried)
        try:
            connection = await stack.enter_async_context(self._connect_once(tried, side, end, version))
        except McpError as failure:
            if config.mode == "auto" and await end.exit_code() is not None:
                # Some programs end at a request before `initialize`, and the newer protocol begins with one.
                return await stack.enter_async_context(self._connect_once(older, side, EndpointState(older)))
            if config.mode not in ("auto", "legacy") or not end.version_refused:
                raise
            for version in _OLDER_VERSIONS:
                with suppress(McpError):
                    again = self._connect_once(older, side, EndpointState(older), version)
                    connection = await stack.enter_async_context(again)
                    break
            else:
                raise failure
        if version:
            self._versions[config.name] = version
        return connection

    @asynccontextmanager
    async def _connect_once(
        self, config: McpServerConfig, side: ClientHandler, end: EndpointState, version: str = ""
    ) -> AsyncGenerator[McpConnection]:
        lost = asyncio.Event()
        stage = "connect"
        try:
            async with AsyncExitStack() as stack:
                if config.transport == "stdio":
                    started = stdio_transport(config, self._environ, side.log_line, self._orphans)
                    end.process, streams = await stack.enter_async_context(started)
                else:
                    streams = await stack.enter_async_context(http_transport(config, end, self._tokens))
                callbacks = SdkCallbacks(config.name, side)
                heard = _OpenTransport(streams, lost, callbacks, version)
                client = await stack.enter_async_context(_create_client(heard, config, callbacks))
                await _wait_initialized(client, end, lost)
                await stack.enter_async_context(callbacks.subscribe(client))
                stage = "lost"
                end.clear_refusals()
                yield SdkConnection(client, end, lost)
        except (
            Exception
        ) as error:  # an error of the handshake, or a later error of the transport: a group, raised on exit
            end.record_handshake(error)
            raise await to_mcp_error(error, end, stage) from error


def load_sdk() -> None:
    """Load the parts of the SDK that every connection needs.

    Raises:
        ConfigError: The SDK is not installed.
    """
    try:
        for module in ("mcp", "mcp.types", "mcp.client.streamable_http", "mcp.shared.message"):
            importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"MCP servers require the extra mcp. Run: {install_command('mcp')} ({error})") from error


def _create_client(streams: _OpenTransport, config: McpServerConfig, callbacks: SdkCallbacks) -> Client:
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


async def _wait_initialized(client: Client, end: EndpointState, lost: asyncio.Event) -> None:
    """Wait until an HTTP server has answered the end of the handshake; the SDK sends no request before, and ignores a refusal."""
    from mcp import MCPError

    if end.config.transport == "http" and client.session.initialize_result is not None:
        waiting = [asyncio.ensure_future(event.wait()) for event in (end.initialized, lost)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
        if end.refusal:
            raise MCPError(-1, end.refusal)


class _OfferingStream:
    """Write stream that offers an older protocol version in the handshake."""

    def __init__(self, inner: WriteStream[SessionMessage], version: str) -> None:
        self._inner = inner
        self._version = version

    async def send(self, item: SessionMessage, /) -> None:
        message: Any = item.message
        if getattr(message, "method", "") == "initialize":
            params = {**message.params, "protocolVersion": self._version}
            item = dataclasses.replace(item, message=message.model_copy(update={"params": params}))
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


class _OpenTransport:
    """Open streams as a transport of the SDK, with repaired messages and handled notifications."""

    def __init__(
        self, streams: TransportStreams, connection_lost: asyncio.Event, callbacks: SdkCallbacks, version: str
    ) -> None:
        self._read, self._write = streams
        if version:
            self._write = _OfferingStream(self._write, version)
        self._connection_lost = connection_lost
        self._callbacks = callbacks

    async def __aenter__(self) -> TransportStreams:
        return RepairingStream(self._read, self._connection_lost, self._callbacks.handle_notification), self._write

    async def __aexit__(self, *error: object) -> None:
        self._connection_lost.set()


class SdkConnection:
    """See `McpConnection`."""

    def __init__(self, client: Client, end: EndpointState, connection_lost: asyncio.Event) -> None:
        self._client = client
        self._end = end
        self.closed = connection_lost
        info, abilities = client.server_info, client.server_capabilities
        self.server_info = ServerInfo(
            name=info.name if info else "",
            version=info.version if info else "",
            protocol=client.protocol_version,
            instructions=client.instructions or "",
            capabilities=frozenset(abilities.model_dump(exclude_none=True)),
        )

    async def list_tools(self) -> Sequence[ToolInfo]:
        """See `McpConnection.list_tools`."""
        return [
            ToolInfo(
                name=t.name,
                description=t.description or "",
                title=t.title or "",
                input_schema=t.input_schema,
                annotations=_model_to_dict(t.annotations) if t.annotations else {},
            )
            for t in await self._list_all("tools")
        ]

    async def call_tool(self, name: str, arguments: Mapping[str, Any], on_progress: ProgressCallback) -> Answer:
        """See `McpConnection.call_tool`."""

        async def report_progress(progress: float, total: float | None, message: str | None) -> None:
            on_progress(progress, total, message)

        got = await self._request(
            lambda: self._client.call_tool(name, dict(arguments), progress_callback=report_progress)
        )
        return Answer(
            content=tuple([_model_to_dict(b) for b in got.content]),
            structured=got.structured_content,
            is_error=bool(got.is_error),
        )

    async def list_resources(self) -> Sequence[ResourceInfo]:
        """See `McpConnection.list_resources`."""
        found = [_to_resource_info(r, str(r.uri)) for r in await self._list_all("resources")]
        try:
            more = await self._list_all("resource_templates")
        except McpError:  # a server with resources need not have templates
            more = []
        return [*found, *(_to_resource_info(t, t.uri_template, template=True) for t in more)]

    async def read_resource(self, uri: str) -> Sequence[McpContentBlock]:
        """See `McpConnection.read_resource`."""
        got = await self._request(lambda: self._client.read_resource(uri))
        return [{"type": "resource", "resource": _model_to_dict(c)} for c in got.contents]

    async def list_prompts(self) -> Sequence[PromptInfo]:
        """See `McpConnection.list_prompts`."""
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
            for p in await self._list_all("prompts")
        ]

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        """See `McpConnection.get_prompt`."""
        got = await self._request(lambda: self._client.get_prompt(name, dict(arguments) or None))
        return [PromptMessage(role=m.role, content=(_model_to_dict(m.content),)) for m in got.messages]

    async def _list_all(self, kind: str) -> list[Any]:
        """Return all items of a kind, page by page; a server that repeats pages forever is stopped."""
        get_page: Callable[..., Awaitable[Any]] = getattr(self._client, f"list_{kind}")
        found: list[Any] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            page = await self._request(lambda at=cursor: get_page(cursor=at))
            found.extend(getattr(page, kind))
            cursor = page.next_cursor
            if not cursor or cursor in seen:
                break
            seen.add(cursor)
        return found

    async def _request(self, request: Callable[[], Awaitable[_T]]) -> _T:
        if self.closed.is_set():
            raise await to_mcp_error(ConnectionError("the connection is closed"), self._end, "lost")
        try:
            return await request()
        except Exception as error:
            failure = await to_mcp_error(error, self._end, "lost" if self.closed.is_set() else "refused")
            raise failure from error


def _model_to_dict(model: Any) -> dict[str, Any]:
    """Return the fields of an SDK model by their names on the wire."""
    return model.model_dump(by_alias=True, exclude_none=True, mode="json")


def _to_resource_info(value: Any, uri: str, *, template: bool = False) -> ResourceInfo:
    return ResourceInfo(
        uri=uri,
        name=value.name or "",
        title=value.title or "",
        description=value.description or "",
        media_type=cast("str | None", value.mime_type) or "",
        template=template,
    )
