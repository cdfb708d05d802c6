"""Tests of transports, against a local server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainspring.errors import ModelTimeoutError, NetworkError
from mainspring.models import Timeouts, Transport
from mainspring.testing.contracts.runner import in_event_loop

_with_transport = in_event_loop("create_transport", "close_transport")
_SOON = Timeouts(connect=5, first_byte=5, idle=5)


class TransportContract:
    """Tests of a `Transport`. Override `create_transport`."""

    def create_transport(self, folder: Path) -> Transport:
        """Return a transport that reaches servers on this machine."""
        raise NotImplementedError("Override create_transport.")

    async def close_transport(self, transport: Transport) -> None:
        """Close a transport that `create_transport` returned."""
        await transport.aclose()

    @_with_transport
    async def test_request_arrives_and_response_is_returned(self, transport: Transport) -> None:
        """Method, path, headers, and body arrive; the status, the lower-case headers, and the body are returned."""
        async with _serve(_response(b"hel", b"lo", status="201 Created", headers=["X-Request-Id: r1"])) as server:
            url, requests = server
            headers = {"content-type": "application/json", "Authorization": "Bearer k"}
            async with transport.open("POST", f"{url}/v1/x?y=1", headers, b'{"a":1}', _SOON) as response:
                assert response.status == 201
                assert response.headers["x-request-id"] == "r1"
                assert b"".join([chunk async for chunk in response.chunks()]) == b"hello"
        [request] = requests
        head, _, body = request.partition(b"\r\n\r\n")
        assert head.startswith(b"POST /v1/x?y=1 HTTP/1.1")
        assert b"authorization: bearer k" in head.lower()
        assert body == b'{"a":1}'

    @_with_transport
    async def test_redirects_are_not_followed(self, transport: Transport) -> None:
        """A redirect is returned, so that a key is not sent to another host."""
        async with _serve(_response(status="302 Found", headers=["Location: http://127.0.0.1:1/"])) as server:
            async with transport.open("POST", server[0], {}, b"", _SOON) as response:
                assert response.status == 302

    @_with_transport
    async def test_status_of_an_error_is_returned(self, transport: Transport) -> None:
        """An HTTP error is a response, not an exception."""
        async with _serve(_response(b"busy", status="503 Service Unavailable")) as server:
            async with transport.open("POST", server[0], {}, b"", _SOON) as response:
                assert (response.status, b"".join([chunk async for chunk in response.chunks()])) == (503, b"busy")

    @_with_transport
    async def test_unreachable_host_is_a_network_error(self, transport: Transport) -> None:
        """A host that refuses the connection."""
        async with _serve([]) as server:
            url = server[0]
        with pytest.raises(NetworkError):
            async with transport.open("POST", url, {}, b"", _SOON):
                pass

    @_with_transport
    async def test_silent_host_is_a_timeout(self, transport: Transport) -> None:
        """A host that accepts the request and does not respond."""
        async with _serve([]) as server:
            with pytest.raises(ModelTimeoutError):
                async with transport.open("POST", server[0], {}, b"", Timeouts(first_byte=0.05)):
                    pass

    @_with_transport
    async def test_truncated_body_is_a_network_error(self, transport: Transport) -> None:
        """A body that ends before its announced length."""
        truncated = [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel", b""]
        async with _serve(truncated) as server, transport.open("POST", server[0], {}, b"", _SOON) as response:
            with pytest.raises(NetworkError):
                _ = [chunk async for chunk in response.chunks()]

    @_with_transport
    async def test_requests_at_the_same_time_are_independent(self, transport: Transport) -> None:
        """Several requests share the transport; one that is left early does not disturb the others."""

        async def send(url: str, *, early: bool) -> bytes:
            async with transport.open("POST", url, {}, b"", _SOON) as response:
                return b"" if early else b"".join([chunk async for chunk in response.chunks()])

        async with _serve(_response(b"a" * 10_000, b"b" * 10_000)) as server:
            bodies = await asyncio.gather(*[send(server[0], early=i % 3 == 0) for i in range(12)])
        assert {len(body) for body in bodies} == {0, 20_000}


def _response(*chunks: bytes, status: str = "200 OK", headers: Sequence[str] = ()) -> list[bytes]:
    lines = [f"HTTP/1.1 {status}", f"content-length: {sum(map(len, chunks))}", *headers, "", ""]
    return ["\r\n".join(lines).encode(), *chunks]


@asynccontextmanager
async def _serve(pieces: Sequence[bytes]) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """Serve the same response for each request; an empty last piece closes the connection, no pieces never respond."""
    requests: list[bytes] = []
    writers: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while head := await _read_head(reader):
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
            )
            requests.append(head + await reader.readexactly(length))
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if pieces and not pieces[-1]:
                break
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
    finally:
        server.close()
        for writer in writers:
            writer.close()


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
