"""Fetching web pages: allowed addresses, rejected addresses, and limits, with real local servers and an injected resolver."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mainspring.env import LocalEnv
from mainspring.env.http_fetch import FetchError, HttpFetcher, PrivateAddressError

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Server:
    """A server that sends the same bytes for every request and records the requests."""

    def __init__(self) -> None:
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
        self.requests: list[str] = []
        self.port = 0
        self.hangs = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self.answer[:20] if self.hangs else self.answer)
            await writer.drain()
            if self.hangs:
                await reader.read()  # Wait until the client disconnects.
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    http_server = Server()
    listening = await asyncio.start_server(http_server.serve, "127.0.0.1", 0)
    http_server.port = listening.sockets[0].getsockname()[1]
    yield http_server
    listening.close()


def web(server: Server, **options: Any) -> HttpFetcher:
    return HttpFetcher([f"127.0.0.1:{server.port}"], **options)


async def get(web: HttpFetcher, url: str, **options: Any) -> Any:
    return await web.get(url, **{"timeout": 10.0, "max_bytes": 1 << 20, **options})


async def test_page_is_returned_with_its_headers(server: Server) -> None:
    answer = await get(web(server), f"http://127.0.0.1:{server.port}/a%20b/ü?q=1#part")
    assert (answer.status, answer.body, answer.cut) == (200, b"hello", False)
    assert answer.headers["content-type"] == "text/plain"
    [request] = server.requests
    assert request.startswith("GET /a%20b/%C3%BC?q=1 HTTP/1.1\r\n")
    assert "cookie" not in request.lower()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://0.0.0.0/", "http://10.1.2.3/", "http://192.168.0.1/",
        "http://172.16.0.1/", "http://169.254.169.254/latest/meta-data/", "http://100.100.100.200/", "http://[fd00::1]/",
        "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::7f00:1]/", "http://[fe80::1]/", "http://2130706433/", "http://0x7f.1/",
        "http://127.1/", "http://224.0.0.1/", "http://[2002:7f00:1::]/", "http://017700000001/",
    ],
)  # fmt: skip
async def test_private_addresses_are_rejected_in_every_spelling(url: str) -> None:
    with pytest.raises(FetchError, match="private|no address"):
        await get(HttpFetcher(), url)


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://example.com/", "gopher://x/", "example.com", "http://", "http://user:pw@example.com/",
     "http://exa mple.com/", "http://example.com:99999/", "http://a\r\nb/", "data:text/plain,x", "http://[::1/", ""],
)  # fmt: skip
async def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(FetchError, match="URL"):
        await get(HttpFetcher(resolve=lambda host, port: ["93.184.216.34"]), url)


@pytest.mark.parametrize("host", ["\u2028127.0.0.1", "a..\u00e9", "\u00e9" * 70])
async def test_invalid_host_name_is_rejected(host: str) -> None:
    with pytest.raises(FetchError, match="not a valid name"):
        await get(HttpFetcher(resolve=lambda host, port: ["93.184.216.34"]), f"http://{host}/")


async def test_host_is_resolved_once_and_connected_by_that_address(server: Server) -> None:
    """A name that changes its address between check and use is rejected."""
    answers = [["127.0.0.1"], ["169.254.169.254"]]
    looked_up: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return answers.pop(0)

    fetcher = HttpFetcher([f"rebinding.test:{server.port}"], resolve)
    assert (await get(fetcher, f"http://rebinding.test:{server.port}/")).body == b"hello"
    assert looked_up == ["rebinding.test"]
    assert f"Host: rebinding.test:{server.port}" in server.requests[0]
    with pytest.raises(PrivateAddressError):
        await get(HttpFetcher(resolve=lambda host, port: ["93.184.216.34", "10.0.0.1"]), "http://half-private.test/")


async def test_hanging_server_raises_a_timeout(server: Server) -> None:
    server.hangs = True
    with pytest.raises(TimeoutError):
        await get(web(server), f"http://127.0.0.1:{server.port}/", timeout=0.3)


async def test_body_is_truncated_at_the_limit_also_if_compressed(server: Server) -> None:
    compressed = gzip.compress(b"x" * 10_000_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(compressed)
    server.answer = head + compressed
    answer = await get(web(server), f"http://127.0.0.1:{server.port}/", max_bytes=1000)
    assert (answer.body, answer.cut) == (b"x" * 1000, True)
    server.answer = head + b"no gzip" * 9000
    with pytest.raises(FetchError, match="damaged"):
        await get(web(server), f"http://127.0.0.1:{server.port}/")


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n"])
async def test_invalid_response_is_reported(server: Server, answer: bytes) -> None:
    server.answer = answer
    with pytest.raises(FetchError, match="sent an invalid response"):
        await get(web(server), f"http://127.0.0.1:{server.port}/")


async def test_connection_of_a_failed_fetch_is_closed_at_once() -> None:
    disconnected = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\nnot gzip")
        await reader.read()
        disconnected.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        with pytest.raises(FetchError, match="damaged") as failed:
            await get(HttpFetcher([address]), f"http://{address}/")
        await disconnected.wait()
    assert failed.value.__traceback__ is not None  # it would keep the response open


async def test_private_hosts_are_not_sent_to_a_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:pw@127.0.0.1:{server.port}")
    fetcher = HttpFetcher(resolve=lambda host, port: ["93.184.216.34"])
    assert (await get(fetcher, "http://public.test/page")).body == b"hello"
    assert server.requests[0].startswith("GET http://public.test/page HTTP/1.1\r\n")
    assert server.requests[0].count("Host: public.test\r\n") == 1
    assert "Proxy-Authorization: Basic bWU6cHc=" in server.requests[0]
    with pytest.raises(PrivateAddressError):
        await get(HttpFetcher(resolve=lambda host, port: ["10.0.0.1"]), "http://private.test/")

    def fail_to_resolve(host: str, port: int) -> list[str]:
        raise OSError("unknown here")

    assert (await get(HttpFetcher(resolve=fail_to_resolve), "http://only-the-proxy-knows.test/")).body == b"hello"
    with pytest.raises(FetchError):
        await get(HttpFetcher(resolve=fail_to_resolve), "http://printer.local/")


async def test_environment_can_reach_allowed_hosts(server: Server, tmp_path: Any) -> None:
    env = await asyncio.to_thread(LocalEnv, tmp_path, reachable=[f"127.0.0.1:{server.port}"])
    assert (await env.fetch(f"http://127.0.0.1:{server.port}/", timeout=120, max_bytes=100)).body == b"hello"
    with pytest.raises(OSError, match="private"):
        await env.fetch("http://127.0.0.1:1/", timeout=120, max_bytes=100)
