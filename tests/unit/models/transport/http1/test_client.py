"""What the transport of our own does that a library did before: names, addresses, lengths, packing, connections."""

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
from tests.unit.models.server import Received, chunked, head, plain, serve

__all__ = ["transport"]

pytestmark = pytest.mark.usefixtures("no_blocking")


async def test_who_logs_in_by_the_url_sends_it_as_a_header(transport: Http1Transport) -> None:
    async with serve(plain()) as server:
        await ask(transport, server.url.replace("//", "//me:p%40ss@") + "/v1/models?a=b c&d=%20#part")

    [request] = server.requests
    assert request.headers["authorization"] == "Basic bWU6cEBzcw=="
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert request.target == "/v1/models?a=b%20c&d=%20"


async def test_a_name_that_is_not_ascii_is_encoded(transport: Http1Transport) -> None:
    async with serve(plain()) as server:
        await ask(transport, f"{server.url}/b\u00fccher")
        with pytest.raises(ProviderConfigError, match="Invalid base URL"):
            await ask(transport, f"http://{'b' * 70}\u00fc.example/")

    assert server.requests[0].target == "/b%C3%BCcher"


async def test_a_header_that_no_request_can_have_is_told_of(transport: Http1Transport) -> None:
    with pytest.raises(ProviderConfigError, match="A header name contains"):
        async with transport.open("GET", "http://127.0.0.1:1/", {"two words": "x"}, b"", SOON):
            pass


@pytest.mark.parametrize(
    ("packing", "packed"),
    [("gzip", gzip.compress(b"hello" * 99, mtime=0)), ("deflate", zlib.compress(b"hello" * 99))],
    ids=["gzip", "deflate"],
)
async def test_what_a_host_packs_although_nobody_asked_is_unpacked(
    transport: Http1Transport, packing: str, packed: bytes
) -> None:
    async with serve(chunked(packed[:9], packed[9:], content_encoding=packing)) as server:
        assert await ask(transport, server.url) == (200, b"hello" * 99)

    async with serve(chunked(b"no such thing", content_encoding=packing)) as server:
        with pytest.raises(NetworkError):
            await ask(transport, server.url)


async def test_a_little_that_is_enormous_unpacked_comes_in_pieces(transport: Http1Transport) -> None:
    packed = gzip.compress(bytes(30_000_000))
    async with serve(chunked(packed, content_encoding="gzip")) as server:
        async with transport.open("GET", server.url, {}, b"", SOON) as response:
            sizes = [len(chunk) async for chunk in response.chunks()]

    assert sum(sizes) == 30_000_000
    assert max(sizes) <= 1 << 18


async def test_a_body_may_end_with_its_connection(transport: Http1Transport) -> None:
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
async def test_a_connection_that_is_over_is_not_used_again(transport: Http1Transport, answer: list[bytes]) -> None:
    async with serve(answer) as server:
        assert await ask(transport, server.url) == (200, b"ok")
        assert await ask(transport, server.url) == (200, b"ok")

    assert server.connections == 2


async def test_what_has_no_body_ends_at_once_and_keeps_the_connection(transport: Http1Transport) -> None:
    async with serve([head("204 No Content")], [head(**{"content-length": "9"})], plain(b"x")) as server:
        assert await ask(transport, server.url) == (204, b"")
        assert await ask(transport, server.url, method="HEAD") == (200, b"")
        assert await ask(transport, server.url, method="GET") == (200, b"x")

    assert server.connections == 1


async def test_words_before_the_answer_are_passed_over(transport: Http1Transport) -> None:
    async with serve([head("103 Early Hints", link="x"), 0.02, head("100 Continue"), *plain(b"x")]) as server:
        assert await ask(transport, server.url) == (200, b"x")


async def test_headers_come_piece_by_piece(transport: Http1Transport) -> None:
    [whole] = plain(b"x")
    assert isinstance(whole, bytes)
    async with serve([piece for n in range(len(whole)) for piece in (whole[n : n + 1], 0.001)]) as server:
        assert await ask(transport, server.url) == (200, b"x")


async def test_a_head_without_end_is_an_error(transport: Http1Transport) -> None:
    async with serve([head()[:-2] + b"x: " + b"y" * 600_000]) as server:
        with pytest.raises(NetworkError):
            await ask(transport, server.url)


async def test_who_reads_slowly_makes_the_host_wait(transport: Http1Transport) -> None:
    body = b"x" * 40_000_000
    sent = asyncio.Event()

    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head(content_length=str(len(body))))
        writer.write(body)
        await writer.drain()
        sent.set()
        writer.close()

    async with await asyncio.start_server(give, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with transport.open("GET", url, {}, b"", SOON) as answer:
            chunks = answer.chunks()
            got = len(await anext(chunks))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(sent.wait(), 0.3)
            got += sum([len(chunk) async for chunk in chunks])

    assert got == len(body)
    assert sent.is_set()


async def test_a_large_request_is_sent_whole(transport: Http1Transport) -> None:
    body = b"y" * 20_000_000

    def length(request: Received) -> list[Any]:
        return [*plain(str(len(request.body)).encode())]

    async with serve(length) as server:
        assert await ask(transport, server.url, body) == (200, b"20000000")
        assert await ask(transport, server.url, body) == (200, b"20000000")

    assert server.connections == 1


async def test_a_host_that_never_shakes_hands_is_given_up(transport: Http1Transport) -> None:
    async with serve([]) as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises(ModelTimeoutError, match="connect") as caught:
            await ask(transport, url, limits=Timeouts(connect=0.2))
        task = asyncio.ensure_future(ask(transport, url))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert caught.value.reason == "connect_timeout"


async def test_a_connection_is_closed_when_it_was_idle_for_long(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.models.transport.http1.client.KEEP_ALIVE", 0.0)
    async with serve(plain(b"x")) as server:
        await ask(transport, server.url)
        await ask(transport, server.url)
        await asyncio.wait_for(server.lost.wait(), 2)

    assert server.connections == 2


async def test_the_clock_of_a_piece_does_not_run_while_nobody_reads(transport: Http1Transport) -> None:
    async with serve(chunked(b"a", b"b")) as server:
        async with transport.open("POST", server.url, {}, b"x", Timeouts(idle=0.1)) as answer:
            got = b""
            async for chunk in answer.chunks():
                got += chunk
                await asyncio.sleep(0.25)

    assert got == b"ab"


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The addresses that a name has: what a test puts in."""
    known: list[Any] = []

    async def found(*_: object, **__: object) -> list[Any]:
        return known

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", found)
    return known


def address(target: tuple[Any, ...], family: int = socket.AF_INET) -> tuple[Any, ...]:
    return (family, socket.SOCK_STREAM, 0, "", target)


async def test_the_next_address_is_tried_where_one_is_refused(addresses: list[Any]) -> None:
    async with serve(plain()) as server:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            closed = nobody.getsockname()[1]
        addresses += [address(("::1", closed, 0, 0), socket.AF_INET6), address(("127.0.0.1", server.port))]

        with await dialing.open_connection("some.example", server.port) as reached:
            assert reached.getpeername() == ("127.0.0.1", server.port)


async def test_an_address_that_does_not_answer_is_not_waited_for(
    addresses: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent: list[asyncio.Future[None]] = []
    connect = asyncio.get_running_loop().sock_connect

    async def sometimes(sock: socket.socket, target: Any) -> None:
        if target[0] == "192.0.2.1":
            silent.append(asyncio.get_running_loop().create_future())
            await silent[-1]
        await connect(sock, target)

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", sometimes)
    async with serve(plain()) as server:
        addresses += [address(("192.0.2.1", 1)), address(("127.0.0.1", server.port))]

        with await dialing.open_connection("some.example", server.port) as reached:
            assert reached.getpeername() == ("127.0.0.1", server.port)

    assert silent[0].cancelled()


async def test_a_name_of_which_no_address_answers_is_told_as_the_system_says(
    transport: Http1Transport, addresses: list[Any]
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        closed = nobody.getsockname()[1]
    addresses += [address(("::1", closed, 0, 0), socket.AF_INET6), address(("127.0.0.1", closed))]

    with pytest.raises(NetworkError, match=r"Cannot connect to some\.example: Connection refused"):
        await ask(transport, "http://some.example/")


def test_no_connection_outlives_its_loop() -> None:
    transport = Http1Transport()

    async def once() -> None:
        async with serve(plain()) as server:
            await asyncio.gather(*(ask(transport, server.url) for _ in range(5)))
            assert server.open_connections == 5

    asyncio.run(once())  # what is left open warns, and warnings are errors
