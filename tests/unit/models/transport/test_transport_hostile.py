"""Hostile and broken hosts, and their effect on later requests."""

import asyncio
import contextlib
import gc
import gzip
import json
import socket
import ssl
import subprocess
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from mainspring.errors import ModelError, NetworkError, ProviderConfigError
from mainspring.models.transport.http1.client import Http1Transport
from mainspring.models.transport.port import Timeouts
from tests.requires import skip_missing
from tests.unit.models.direct_transport import SOON, ask, transport
from tests.unit.models.server import chunked, head, plain, serve

__all__ = ["transport"]

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """Run a host that handles its connections with ``handler``."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


async def test_data_on_an_idle_connection_is_not_a_response(transport: Http1Transport) -> None:
    """Some hosts send a 408 before they close an idle connection."""
    late = asyncio.Event()
    disconnected = asyncio.Event()
    connections = 0

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\nx")
        writer.write(OK)
        await writer.drain()
        await late.wait()
        writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 4\r\n\r\nlate")
        await writer.drain()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        disconnected.set()

    async with raw(host) as url:
        assert await ask(transport, url) == (200, b"ok")
        late.set()
        await disconnected.wait()
        assert await ask(transport, url) == (200, b"ok")

    assert connections == 2


def test_stale_connection_is_detected_before_the_next_request() -> None:
    """The end of a connection or unexpected data may be in the socket when the next request starts."""

    async def request_twice(listening: socket.socket, late: bytes) -> tuple[int, bytes]:
        transport = Http1Transport()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        loop = asyncio.get_running_loop()
        first = asyncio.ensure_future(ask(transport, url))
        peer, _ = await loop.sock_accept(listening)
        with peer:
            await loop.sock_sendall(peer, OK)
            await first
            peer.send(late)  # The event loop does not run in between.
            peer.shutdown(socket.SHUT_WR)
            second = asyncio.ensure_future(ask(transport, url))
            fresh, _ = await loop.sock_accept(listening)
            with fresh:
                await loop.sock_sendall(fresh, OK.replace(b"ok", b"ko"))
                result = await second
        await transport.aclose()
        return result

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        assert asyncio.run(request_twice(listening, b"")) == (200, b"ko")
        assert asyncio.run(request_twice(listening, OK)) == (200, b"ko")


async def test_disabled_idle_timeout_does_not_apply(transport: Http1Transport) -> None:
    async with serve([head(**{"content-length": "2"}) + b"o", 0.4, b"k"]) as server:
        limits = Timeouts(first_byte=0.15, idle=None)
        assert await ask(transport, server.url, limits=limits) == (200, b"ok")


async def test_request_is_repeated_only_on_a_stale_connection(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure after a long wait or after the first byte of a response is not due to a stale connection."""
    monkeypatch.setattr("mainspring.models.transport.http1.client.KEEP_ALIVE", 0.2)
    async with serve(plain(b"a"), [0.4, "reset"], plain(b"b"), [b"H", 0.02, "reset"], plain(b"c")) as server:
        assert await ask(transport, server.url) == (200, b"a")
        with pytest.raises(NetworkError):
            await ask(transport, server.url)
        assert await ask(transport, server.url) == (200, b"b")
        with pytest.raises(NetworkError):
            await ask(transport, server.url)

    assert len(server.requests) == 4


async def test_ambiguous_length_closes_the_connection(transport: Http1Transport) -> None:
    both = head(content_length="1", transfer_encoding="chunked") + b"2\r\nok\r\n0\r\n\r\n"
    async with serve([both]) as server:
        assert await ask(transport, server.url) == (200, b"ok")
        assert await ask(transport, server.url) == (200, b"ok")

    assert server.connections == 2


@pytest.mark.parametrize(
    "header_lines",
    [
        b"content-length: 2\r\ncontent-length: 3",
        b"content-length: -2",
        b"content-length: +2",
        b"content-length: 2_0",
        b"content-length: 0x2",
        b"content-length: ",
        b"content-length: " + b"9" * 30,
        b"transfer-encoding: gzip, chunked",
        b"transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        b"transfer-encoding: \x0bchunked",
        b"content-length : 2",
        b" folded: first",
        b"folded: a\r\n b",
        b"a\x00b: c",
        b"a: b\x00c",
    ],
)
async def test_ambiguous_headers_are_rejected(transport: Http1Transport, header_lines: bytes) -> None:
    async with serve([b"HTTP/1.1 200 OK\r\n" + header_lines + b"\r\n\r\nok", 0.02, "close"]) as server:
        with pytest.raises(NetworkError):
            await ask(transport, server.url)


GZIP = gzip.compress(b"hello" * 20, mtime=0)
ZLIB = zlib.compress(b"hello" * 20)


@pytest.mark.parametrize(
    ("encoding", "compressed", "times"),
    [
        ("gzip", GZIP + GZIP, 2),
        ("gzip", GZIP + bytes(40) + GZIP + bytes(9), 2),
        ("deflate", ZLIB[2:-4], 1),
        ("gzip, deflate", zlib.compress(GZIP), 1),
        ("Identity, GZIP", GZIP, 1),
        ("gzip", b"", 0),
        ("br", b"", 0),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_compressed_body_is_decompressed_in_any_chunks(
    transport: Http1Transport, encoding: str, compressed: bytes, times: int, size: int
) -> None:
    parts = [compressed[n : n + size] for n in range(0, len(compressed), size)]
    async with serve(chunked(*parts, content_encoding=encoding)) as server:
        assert await ask(transport, server.url) == (200, b"hello" * 20 * times)


@pytest.mark.parametrize(
    ("encoding", "compressed"),
    [("gzip", GZIP[:-1]), ("gzip", GZIP[:5]), ("deflate", ZLIB[:-1]), ("gzip", GZIP + b"x"), ("deflate", ZLIB + ZLIB)],
)
async def test_truncated_compressed_body_is_an_error(
    transport: Http1Transport, encoding: str, compressed: bytes
) -> None:
    async with serve(chunked(compressed, content_encoding=encoding)) as server:
        with pytest.raises(NetworkError, match="before the response was complete"):
            await ask(transport, server.url)


async def test_unsupported_encoding_is_an_error(transport: Http1Transport) -> None:
    async with serve(chunked(b"\x8b\x02\x80", content_encoding="br")) as server:
        with pytest.raises(NetworkError, match="unsupported Content-Encoding, 'br'") as caught:
            await ask(transport, server.url)

    assert caught.value.retryable is False


async def test_closing_the_pool_does_not_end_a_body_silently(transport: Http1Transport) -> None:
    async with serve([head() + b"some", 5.0]) as server:
        async with transport.open("GET", server.url, {}, b"", SOON) as answer:
            chunks = answer.chunks()
            assert await anext(chunks) == b"some"
            await transport.aclose()
            with pytest.raises(NetworkError, match="before the response was complete"):
                await anext(chunks)


async def test_connection_in_use_is_closed_if_the_pool_was_closed(transport: Http1Transport) -> None:
    started = asyncio.Event()
    closed = asyncio.Event()

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        started.set()
        await reader.read(100)
        writer.write(OK)
        await reader.read()
        closed.set()

    connect = asyncio.get_running_loop().sock_connect
    pool_closed = asyncio.Event()

    async def connect_slowly(sock: socket.socket, target: Any) -> None:
        await connect(sock, target)
        await pool_closed.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "sock_connect", connect_slowly)
        async with raw(host) as url:
            task = asyncio.ensure_future(ask(transport, url))
            await started.wait()
            await transport.aclose()
            pool_closed.set()
            assert await task == (200, b"ok")
            await closed.wait()


async def test_early_response_is_read_before_the_request_is_sent(transport: Http1Transport) -> None:
    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
        await writer.drain()
        while await reader.read(1 << 16):
            pass

    async with raw(host) as url:
        assert await ask(transport, url, b"x" * 20_000_000) == (413, b"big")


async def test_endless_trailers_are_an_error(transport: Http1Transport) -> None:
    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")
        while True:
            writer.write(b"a: b\r\n" * 1000)
            await writer.drain()

    async with raw(host) as url:
        with pytest.raises(NetworkError):
            await ask(transport, url)


async def test_endless_interim_responses_are_an_error(transport: Http1Transport) -> None:
    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        while True:
            writer.write(b"HTTP/1.1 102 Processing\r\n\r\n" * 1000)
            await writer.drain()

    async with raw(host) as url:
        with pytest.raises(NetworkError, match="before it responded"):
            await ask(transport, url)


async def test_port_zero_is_not_replaced_and_names_use_idna_2008(transport: Http1Transport) -> None:
    with pytest.raises(NetworkError, match="127.0.0.1:0"):
        await ask(transport, "http://127.0.0.1:0/")
    request: list[object] = []

    async def fail_to_resolve(host: object, *_: object, **__: object) -> list[object]:
        request.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail_to_resolve)
        with pytest.raises(NetworkError, match="Name or service not known"):
            await ask(transport, "http://stra\u00dfe.example/")

    assert request == [b"xn--strae-oqa.example"]


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hush@[::1",
        "http://me:hush/y@host/",
        "http://me:hush#y@host/",
        "http://me:hush@ho\u2100st/",
        "nonsense?key=hush",
        "me:hush@host",
        "http://127.0.0.1:1/?key=hush&a=\udc80",
        "http://me:hush@127.0.0.1:1",
        "http://127.0.0.1:1?key=hush",
        "http://127.0.0.1:1#hush@x",
    ],
)
async def test_errors_contain_no_secret_of_a_url(transport: Http1Transport, url: str) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(transport, url)

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("name", ["sk hush", "hush:", "h\u00fcsh", "hush\r\nx", "hush\x00"])
async def test_invalid_header_name_is_reported_without_its_value(transport: Http1Transport, name: str) -> None:
    with pytest.raises(ProviderConfigError, match="A header name contains") as caught:
        async with transport.open("POST", "http://127.0.0.1:1/", {name: "x"}, b"", SOON):
            pass

    assert "hush" not in str(caught.value)


async def test_configured_headers_cannot_change_the_request_framing(transport: Http1Transport) -> None:
    given = {"Content-Length": "5", "transfer-encoding ": "chunked", "x-key": "\x00 a\r\nb: c \x01"}
    async with serve(plain()) as server:
        for method, body in (("GET", b""), ("POST", b"abc"), ("GET", b"")):
            async with transport.open(method, f"{server.url}/a\r\nx: y", given, body, SOON) as answer:
                assert [c async for c in answer.chunks()] == [b"ok"]

    for request in server.requests:
        assert "transfer-encoding" not in request.headers
        assert request.headers["x-key"] == "ab: c"
        assert request.target == "/ax:%20y"
    assert [r.headers.get("content-length") for r in server.requests] == [None, "3", None]
    assert server.connections == 1


def certificate(folder: Path, names: str, *, expired: bool = False) -> tuple[Path, ssl.SSLContext]:
    """Create an untrusted certificate and a server context with it."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-subj", "/CN=127.0.0.1", "-addext", f"subjectAltName={names}"]
    try:
        subprocess.run([*command, "-days", "1"], check=True, capture_output=True)
        if expired:
            again = ["openssl", "x509", "-in", str(cert), "-signkey", str(key), "-days", "-1", "-out", str(cert)]
            subprocess.run(again, check=True, capture_output=True)
    except FileNotFoundError:
        skip_missing("openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


@pytest.mark.parametrize(
    ("names", "expired", "header_lines"),
    [
        ("DNS:other.example", False, "IP address mismatch"),
        ("DNS:127.0.0.1", False, "IP address mismatch"),
        ("IP:127.0.0.1", True, "expired"),
    ],
)
def test_certificate_of_another_host_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, expired: bool, header_lines: str
) -> None:
    cert, context = certificate(tmp_path, names, expired=expired)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))

    async def run_client() -> None:
        async with serve(plain(), tls=context) as server:
            with pytest.raises(NetworkError, match=header_lines) as caught:
                await ask(Http1Transport(), server.url)
            assert (caught.value.reason, caught.value.retryable) == ("tls", False)
        assert server.requests == []

    asyncio.run(run_client())


def test_sni_is_sent_and_only_http_1_1_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, context = certificate(tmp_path, "DNS:localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    context.set_alpn_protocols(["h2", "http/1.1"])
    named: list[str | None] = []

    def record_server_name(encrypted: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        named.append(name)

    context.sni_callback = record_server_name

    connections = 0

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        chosen = cast("ssl.SSLObject", writer.get_extra_info("ssl_object")).selected_alpn_protocol()
        while await reader.readuntil(b"\r\n\r\nx"):
            text = json.dumps(chosen).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)

    async def run_client() -> None:
        transport = Http1Transport()
        async with raw(host, context) as url:
            for _ in range(3):
                assert await ask(transport, url.replace("127.0.0.1", "localhost")) == (200, b'"http/1.1"')
            with pytest.raises(NetworkError, match="IP address mismatch"):
                await ask(transport, url)
        await transport.aclose()

    asyncio.run(run_client())
    assert named == ["localhost", None]
    assert connections == 1  # TLS messages between requests are not mistaken for unexpected data.


def test_plain_http_server_gets_no_request_over_tls() -> None:
    result = b""

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal result
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        result = await reader.read()

    async def run_client() -> None:
        async with raw(host) as url:
            with pytest.raises(NetworkError, match="TLS handshake failed") as caught:
                await ask(Http1Transport(), url.replace("http:", "https:"))
        assert (caught.value.reason, caught.value.retryable) == ("tls", False)

    asyncio.run(run_client())
    assert b"HTTP" not in result


def test_truncated_tls_body_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, context = certificate(tmp_path, "IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))

    async def send_without_close_notify(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        await writer.drain()
        under: socket.socket = writer.get_extra_info("socket")
        with socket.socket(fileno=socket.dup(under.fileno())) as same:
            same.shutdown(socket.SHUT_WR)
        await reader.read()

    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")

    async def run_client() -> None:
        transport = Http1Transport()
        async with raw(end, context) as url:
            assert await ask(transport, url) == (200, b"all of it")
        async with raw(send_without_close_notify, context) as url:
            with pytest.raises(NetworkError, match="before the response was complete"):
                await ask(transport, url)
        await transport.aclose()

    asyncio.run(run_client())


@pytest.mark.parametrize("content", [None, "nonsense"])
async def test_unreadable_certificate_file_is_reported_before_connecting(
    transport: Http1Transport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    file = tmp_path / "certificates.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    async with serve(plain()) as server:
        with pytest.raises(ProviderConfigError, match="certificates from SSL_CERT_FILE="):
            await ask(transport, server.url.replace("http:", "https:"))

    assert server.connections == 0
    gc.collect()  # An open socket would cause a warning.
