"""The transports to a server elsewhere: streamable HTTP, and the older one of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.mcp.config import McpServerConfig
from mainspring.mcp.errors import EndpointState
from mainspring.mcp.oauth import load_auth

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

_READ_SECONDS = 300.0
_MAX_EVENT_BYTES = 64 << 20


@asynccontextmanager
async def http_transport(
    config: McpServerConfig, end: EndpointState, tokens: Path | None
) -> AsyncGenerator[TransportStreams]:
    """The streams to a server, for as long as the block lasts.

    Args:
        config: The server.
        end: Learns how it refuses.
        tokens: The folder of logins.
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
            event_hooks={"response": [_seen(end)]},
        )

    async with AsyncExitStack() as stack:
        if config.transport == "sse":
            streams = await stack.enter_async_context(sse_client(config.url, httpx_client_factory=client))
        else:
            made = await stack.enter_async_context(client())
            streams = await stack.enter_async_context(
                streamable_http_client(config.url, http_client=made, max_sse_event_size=_MAX_EVENT_BYTES)
            )
        yield streams


def _seen(end: EndpointState) -> Any:
    """Notes a refusal: the SDK keeps no status, and does not tell a forgotten session from another refusal."""

    async def look(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            end.refused(response.status_code)
            if "mcp-session-id" in response.request.headers and await _is_session_expired(response):
                end.session_gone = True

    return look


async def _is_session_expired(response: httpx2.Response) -> bool:
    """Whether it does not know our session: 404 says the protocol, 410 and 400 with a word about it say some servers."""
    if response.status_code == 400:
        return b"session" in (await response.aread()).lower()
    return response.status_code in (404, 410)
