"""The HTTP client: URLs, headers, lengths, compression, connections, and addresses."""

import asyncio
import gzip
import socket
import zlib
from typing import Any

import pytest

from mainspring.errors import ModelTimeoutError, NetworkError, ProviderConfigError
from mainspring.models.transport.http1 import connect as dialing
from mainspring.models.transport.http1.client import Http1Transport
from mainspring.models.transport.port import Timeouts
from tests.unit.models.direct_transport import SOON, ask, transport
from tests.unit.models.server import Received, chunked, head, plain, serve, wait_until

__all__ = ["transport"]

pytestmark = pytest.mark.usefixtures("no_blocking")


async def test_credentials_of_the_url_are_sent_as_a_header(transport: Http1Transport) -> None:
    async with serve(plain()) as server:
        await ask(transport, server.url.replace("//", "//me:p%40ss@") + "/v1/models?a=b c&d=%20#part")

    [request] = server.requests
    assert request.headers["authorization"] == "Basic bWU6cEBzcw=="
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert request.target == "/v1/models?a=b%20c&d=%20"


async def test_non_ascii_url_is_encoded(transport: Http1Transport) -> None:
    async with serve(plain()) as server:
        await ask(transport, f"{server.url}/b\u00fccher")
        with pytest.raises(ProviderConfigError, match="Invalid base URL"):
            await ask(transport, f"http://{'b' * 70}\u00fc.example/")
        with pytest.raises(ProviderConfigError, match="Invalid request for"):
            await ask(transport, "http://a\x7fb.example/")

    assert server.requests[0].target == "/b%C3%BCcher"


async def test_invalid_header_name_is_reported(transport: Http1Transport) -> None:
    with pytest.raises(ProviderConfigError, match="A header name contains"):
        async with transport.open("GET", "http://127.0.0.1:1/", {"two words": "x"}, b"", SOON):
            pass


@pytest.mark.parametrize(
    ("encoding", "compressed"),
    [("gzip", gzip.compress(b"hello" * 99, mtime=0)), ("deflate", zlib.compress(b"hello" * 99))],
    ids=["gzip", "deflate"],
)
async def test_compressed_response_is_decompressed(transport: Http1Transport, encoding: str, compressed: bytes) -> None:
    async with serve(chunked(compressed[:9], compressed[9:], content_encoding=encoding)) as server:
        assert await ask(transport, server.url) == (200, b"hello" * 99)

    async with serve(chunked(b"no such thing", content_encoding=encoding)) as server:
        with pytest.raises(NetworkError):
            await ask(transport, server.url)


async def test_huge_decompressed_body_is_returned_in_pieces(transport: Http1Transport) -> None:
    compressed = gzip.compress(bytes(30_000_000))
    async with serve(chunked(compressed, content_encoding="gzip")) as server:
        async with transport.open("GET", server.url, {}, b"", SOON) as response:
            sizes = [len(chunk) async for chunk in response.chunks()]

    assert sum(sizes) == 30_000_000
    assert max(sizes) <= 1 << 18


async def test_body_can_end_with_the_connection(transport: Http1Transport) -> None:
    async with serve([head() + b"all ", 0.02, b"of it", "close"]) as server:
        assert await ask(transport, server.url) == (200, b"all of it")
        assert await ask(transport, server.url) == (200, b"all of it")

    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        plain(b"ok", connection="close"),
        [b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
        [head(**{"content-length": "2"}) + b"ok and more"],
    ],
)
async def test_finished_connection_is_not_reused(transport: Http1Transport, answer: list[bytes]) -> None:
    async with serve(answer) as server:
        assert await ask(transport, server.url) == (200, b"ok")
        assert await ask(transport, server.url) == (200, b"ok")

    assert server.connections == 2


async def test_response_without_a_body_ends_immediately_and_keeps_the_connection(transport: Http1Transport) -> None:
    async with serve([head("204 No Content")], [head(**{"content-length": "9"})], plain(b"x")) as server:
        assert await ask(transport, server.url) == (204, b"")
        assert await ask(transport, server.url, method="HEAD") == (200, b"")
        assert await ask(transport, server.url, method="GET") == (200, b"x")

    assert server.connections == 1


async def test_interim_responses_are_skipped(transport: Http1Transport) -> None:
    async with serve([head("103 Early Hints", link="x"), 0.02, head("100 Continue"), *plain(b"x")]) as server:
        assert await ask(transport, server.url) == (200, b"x")


async def test_headers_can_arrive_byte_by_byte(transport: Http1Transport) -> None:
    [whole] = plain(b"x")
    assert isinstance(whole, bytes)
    async with serve([piece for n in range(len(whole)) for piece in (whole[n : n + 1], 0.001)]) as server:
        assert await ask(transport, server.url) == (200, b"x")


async def test_endless_header_is_an_error(transport: Http1Transport) -> None:
    async with serve([head()[:-2] + b"x: " + b"y" * 600_000]) as server:
        with pytest.raises(NetworkError):
            await ask(transport, server.url)


async def test_slow_reader_slows_the_server(transport: Http1Transport) -> None:
    body = b"x" * 40_000_000
    sent = asyncio.Event()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head(content_length=str(len(body))))
        writer.write(body)
        await writer.drain()
        sent.set()
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with transport.open("GET", url, {}, b"", SOON) as answer:
            chunks = answer.chunks()
            received = len(await anext(chunks))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(sent.wait(), 0.3)
            received += sum([len(chunk) async for chunk in chunks])

    assert received == len(body)
    assert sent.is_set()


async def test_large_request_is_sent_completely(transport: Http1Transport) -> None:
    body = b"y" * 20_000_000

    def respond_with_length(request: Received) -> list[Any]:
        return [*plain(str(len(request.body)).encode())]

    async with serve(respond_with_length) as server:
        assert await ask(transport, server.url, body) == (200, b"20000000")
        assert await ask(transport, server.url, body) == (200, b"20000000")

    assert server.connections == 1


async def test_tls_handshake_times_out(transport: Http1Transport) -> None:
    async with serve([]) as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises(ModelTimeoutError, match="connect") as caught:
            await ask(transport, url, limits=Timeouts(connect=0.2))
        task = asyncio.ensure_future(ask(transport, url))
        await wait_until(lambda: server.connections == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert caught.value.reason == "connect_timeout"


async def test_idle_connection_is_closed(transport: Http1Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.models.transport.http1.client.KEEP_ALIVE", 0.0)
    async with serve(plain(b"x")) as server:
        await ask(transport, server.url)
        await ask(transport, server.url)
        await server.lost.wait()

    assert server.connections == 2


async def test_idle_timeout_does_not_run_while_the_caller_is_busy(transport: Http1Transport) -> None:
    async with serve(chunked(b"a", b"b")) as server:
        async with transport.open("POST", server.url, {}, b"x", Timeouts(idle=0.5)) as answer:
            received = b""
            async for chunk in answer.chunks():
                received += chunk
                await asyncio.sleep(0.7)

    assert received == b"ab"


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list of addresses to which every name resolves."""
    resolved: list[Any] = []

    async def resolve(*_: object, **__: object) -> list[Any]:
        return resolved

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    return resolved


def address(target: tuple[Any, ...], family: int = socket.AF_INET) -> tuple[Any, ...]:
    return (family, socket.SOCK_STREAM, 0, "", target)


async def test_next_address_is_tried_after_a_refused_connection(addresses: list[Any]) -> None:
    async with serve(plain()) as server:
        with socket.socket() as unused_socket:
            unused_socket.bind(("127.0.0.1", 0))
            closed = unused_socket.getsockname()[1]
        addresses += [address(("::1", closed, 0, 0), socket.AF_INET6), address(("127.0.0.1", server.port))]

        with await dialing.open_connection("some.example", server.port) as reached:
            assert reached.getpeername() == ("127.0.0.1", server.port)


async def test_unresponsive_address_does_not_delay_the_connection(
    addresses: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent: list[asyncio.Future[None]] = []
    connect = asyncio.get_running_loop().sock_connect

    async def connect_or_hang(sock: socket.socket, target: Any) -> None:
        if target[0] == "192.0.2.1":
            silent.append(asyncio.get_running_loop().create_future())
            await silent[-1]
        await connect(sock, target)

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", connect_or_hang)
    async with serve(plain()) as server:
        addresses += [address(("192.0.2.1", 1)), address(("127.0.0.1", server.port))]

        with await dialing.open_connection("some.example", server.port) as reached:
            assert reached.getpeername() == ("127.0.0.1", server.port)

    assert silent[0].cancelled()


async def test_failure_of_all_addresses_reports_the_system_error(
    transport: Http1Transport, addresses: list[Any]
) -> None:
    with socket.socket() as unused_socket:
        unused_socket.bind(("127.0.0.1", 0))
        closed = unused_socket.getsockname()[1]
    addresses += [address(("::1", closed, 0, 0), socket.AF_INET6), address(("127.0.0.1", closed))]

    with pytest.raises(NetworkError, match=r"Cannot connect to some\.example: Connection refused"):
        await ask(transport, "http://some.example/")


def test_connections_close_with_their_event_loop() -> None:
    transport = Http1Transport()

    async def run_requests() -> None:
        async with serve(plain()) as server:
            await asyncio.gather(*(ask(transport, server.url) for _ in range(5)))
            assert server.open_connections == 5

    asyncio.run(run_requests())  # An open connection would cause a warning, and warnings are errors.
