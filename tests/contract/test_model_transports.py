"""The common behavior of transports, against a real local server."""

import asyncio
import gc
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import httpcore2  # noqa: F401 - its files are read on import, which must not be inside a test
import pytest

from mainspring.errors import ModelError, ModelTimeoutError, NetworkError, ProviderConfigError
from mainspring.models.transport.default import DefaultTransport
from mainspring.models.transport.httpx_transport import HttpxTransport
from mainspring.models.transport.port import Timeouts, Transport
from mainspring.models.transport.recording import RecordingTransport
from mainspring.testing.contracts import TransportContract
from tests.requires import skip_missing
from tests.unit.models.server import chunked, head, plain, serve

pytestmark = pytest.mark.usefixtures("no_blocking")

TRANSPORTS: list[type[DefaultTransport] | type[HttpxTransport]] = [DefaultTransport, HttpxTransport]
SOON = Timeouts(connect=120, first_byte=120, idle=120)


@pytest.fixture(params=TRANSPORTS, ids=lambda kind: kind.__name__)
def make(request: pytest.FixtureRequest) -> Callable[[], Transport]:
    return request.param


@pytest.fixture
async def transport(make: Callable[[], Transport]) -> AsyncGenerator[Transport, None]:
    created = make()
    yield created
    await created.aclose()


async def send(
    transport: Transport, url: str, body: bytes = b"", limits: Timeouts = SOON, **headers: str
) -> tuple[int, bytes]:
    async with transport.open("POST", url, headers, body, limits) as answer:
        return answer.status, b"".join([chunk async for chunk in answer.chunks()])


async def test_request_headers_and_body_arrive(transport: Transport) -> None:
    async with serve(plain(b"hello", "201 Created", **{"X-Request-Id": "r1"})) as server:
        headers = {
            "content-type": "application/json",
            "authorization": "Bearer k\u00e9y ",
            "x-host": " b\u00fcro\r\nx: y\t",
        }
        async with transport.open("POST", f"{server.url}/v1/x?y=1", headers, b'{"a":1}', SOON) as answer:
            assert answer.status == 201
            assert answer.headers["x-request-id"] == "r1"
            assert b"".join([c async for c in answer.chunks()]) == b"hello"

    [request] = server.requests
    assert (request.method, request.target, request.body) == ("POST", "/v1/x?y=1", b'{"a":1}')
    assert request.headers["authorization"] == "Bearer ky"
    assert request.headers["x-host"] == "broxy" or request.headers["x-host"] == "brox: y"
    assert request.headers["content-type"] == "application/json"
    assert "cookie" not in request.headers


async def test_a_get_has_no_body(transport: Transport) -> None:
    async with serve(plain()) as server, transport.open("GET", server.url, {}, b"", SOON) as answer:
        assert [c async for c in answer.chunks()] == [b"ok"]

    assert server.requests[0].headers.get("content-length", "0") == "0"


async def test_chunks_are_yielded_as_they_arrive(transport: Transport) -> None:
    received = b""
    first_arrived = asyncio.Event()  # the second chunk is sent after it
    async with serve(chunked(b"data: a\r\n\r\n", first_arrived, b"data: b\r\n\r\n")) as server:
        async with transport.open("POST", server.url, {}, b"x", SOON) as answer:
            async for chunk in answer.chunks():
                received += chunk
                first_arrived.set()

    assert received == b"data: a\r\n\r\ndata: b\r\n\r\n"


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_broken_stream_is_a_network_error(transport: Transport, end: str) -> None:
    async with serve(chunked(b"data: a\n\n", 0.05, end, end=False)) as server:
        received: list[bytes] = []

        async def read() -> None:
            async with transport.open("POST", server.url, {}, b"x", SOON) as answer:
                async for chunk in answer.chunks():
                    received.append(chunk)

        with pytest.raises(NetworkError, match="before the response was complete") as caught:
            await read()

    assert received == [b"data: a\n\n"]
    assert (caught.value.reason, caught.value.retryable) == ("stream_cut", True)


async def test_body_shorter_than_content_length_is_a_network_error(transport: Transport) -> None:
    async with serve([head(**{"content-length": "10"}) + b"1234", 0.05, "close"]) as server:
        with pytest.raises(NetworkError):
            await send(transport, server.url)


async def test_refused_connection_is_a_network_error(transport: Transport) -> None:
    async with serve(plain()) as server:
        url = server.url
    with pytest.raises(NetworkError, match="Cannot connect to 127.0.0.1") as caught:
        await send(transport, url)

    assert (caught.value.reason, caught.value.retryable) == ("connect", True)


async def test_non_http_response_is_a_network_error(transport: Transport) -> None:
    async with serve([b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "close"]) as server:
        with pytest.raises(NetworkError):
            await send(transport, server.url)


@pytest.mark.parametrize("url", ["http://[::1", "nonsense", "http://", "http://127.0.0.1:1/\udc80"])
async def test_invalid_url_is_a_configuration_error(transport: Transport, url: str) -> None:
    with pytest.raises(ProviderConfigError, match="Invalid base URL"):
        await send(transport, url)


@pytest.mark.parametrize(
    ("answer", "limits", "reason"),
    [
        ([600.0, head()], Timeouts(first_byte=0.1), "first_byte_timeout"),
        (chunked(b"a", 600.0, b"b"), Timeouts(idle=0.1), "idle_timeout"),
        (chunked(b"a", 0.1, b"b", 0.1, b"c", 600.0, b"d"), Timeouts(total=0.2), "total_timeout"),
        ([600.0, head()], Timeouts(total=0.1), "total_timeout"),
    ],
)
async def test_each_timeout_has_its_own_error(
    transport: Transport, answer: list[bytes], limits: Timeouts, reason: str
) -> None:
    async with serve(answer) as server:
        with pytest.raises(ModelTimeoutError) as caught:
            await send(transport, server.url, b"x", limits)

    assert (caught.value.reason, caught.value.retryable) == (reason, True)


async def test_every_byte_resets_the_idle_timeout(transport: Transport) -> None:
    pieces = [piece for _ in range(5) for piece in (b": ping\n\n", 0.5)]
    async with serve(chunked(*pieces, b"data: a\n\n")) as server:
        _, body = await send(transport, server.url, b"x", Timeouts(idle=2.0))

    assert body.endswith(b"data: a\n\n")


async def test_first_byte_may_take_longer_than_the_idle_timeout(transport: Transport) -> None:
    async with serve([0.3, *plain(b"late")]) as server:
        assert await send(transport, server.url, b"x", Timeouts(first_byte=60, idle=0.1)) == (200, b"late")


async def test_early_exit_closes_the_connection(transport: Transport) -> None:
    async with serve(chunked(b"a", 600.0, b"b")) as server:
        async with transport.open("POST", server.url, {}, b"x", SOON) as answer:
            async for _ in answer.chunks():
                break
        await server.lost.wait()

    assert server.open_connections == 0


async def test_cancelling_closes_the_connection(transport: Transport) -> None:
    async with serve(chunked(b"a", 600.0, b"b")) as server:
        task = asyncio.ensure_future(send(transport, server.url, b"x"))
        await server.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.lost.wait()


async def test_connection_is_reused(transport: Transport) -> None:
    async with serve(chunked(b"a"), plain(b"b")) as server:
        assert await send(transport, server.url) == (200, b"a")
        assert await send(transport, server.url) == (200, b"b")

    assert server.connections == 1


async def test_stale_connection_is_retried_once(transport: Transport) -> None:
    async with serve(plain(b"a"), ["reset"], plain(b"b")) as server:
        await send(transport, server.url)
        assert await send(transport, server.url, b"x") == (200, b"b")

    assert len(server.requests) == 3


async def test_broken_new_connection_is_not_retried(transport: Transport) -> None:
    async with serve(["reset"]) as server:
        with pytest.raises(NetworkError) as caught:
            await send(transport, server.url, b"x")

    assert len(server.requests) == 1
    assert caught.value.reason == "connection_lost"


async def test_redirects_are_not_followed(transport: Transport) -> None:
    async with serve(plain(b"", "307 Temporary Redirect", location="http://127.0.0.1:1/other")) as server:
        status, _ = await send(transport, server.url, b"x", authorization="Bearer k")

    assert status == 307
    assert len(server.requests) == 1


async def test_number_of_connections_is_not_limited(transport: Transport) -> None:
    async with serve([0.3, *plain(b"a")]) as server:
        answers = await asyncio.gather(*(send(transport, server.url, b"x") for _ in range(150)))

    assert answers == [(200, b"a")] * 150
    assert server.most_open == 150


@pytest.mark.parametrize("closed", [True, False])
def test_transport_works_across_event_loops(make: Callable[[], Transport], closed: bool) -> None:
    transport = make()

    async def run_once() -> tuple[int, bytes]:
        async with serve(plain(b"a")) as server:
            try:
                return await send(transport, server.url)
            finally:
                if closed:
                    await transport.aclose()

    assert [asyncio.run(run_once()) for _ in range(3)] == [(200, b"a")] * 3
    gc.collect()  # An open connection would warn here, and warnings are errors.


async def test_environment_proxy_is_used_except_for_localhost(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(plain(b"by proxy")) as proxy, serve(plain(b"direct")) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "inside.example")
        assert await send(transport, "http://model.example/v1", b"x", authorization="Bearer k") == (200, b"by proxy")
        assert await send(transport, server.url) == (200, b"direct")
        with pytest.raises(NetworkError):
            await send(transport, "http://inside.example:1/v1")

    assert proxy.requests[0].target == "http://model.example/v1"
    assert proxy.requests[0].headers["authorization"] == "Bearer k"


async def test_socks_proxy_is_rejected_with_a_hint(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")

    with pytest.raises(NetworkError, match="socks5 proxy, which is not supported. Set HTTPS_PROXY") as caught:
        await send(transport, "https://model.example/v1")

    assert caught.value.retryable is False


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """Return a local certificate that nothing else trusts, and a server context with it."""
    if shutil.which("openssl") is None:
        skip_missing("openssl")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key, "-out", cert]
        + ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


async def test_private_certificate_is_trusted_with_ssl_cert_file(
    transport: Transport, certificate: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, context = certificate
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    async with serve(plain(b"secret"), tls=context) as server:
        with pytest.raises(NetworkError, match="SSL_CERT_FILE.*self-signed certificate") as caught:
            await send(transport, server.url)
        assert (caught.value.reason, caught.value.retryable) == ("tls", False)
        assert "not permitted" not in str(caught.value)
        await transport.aclose()

        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert await send(transport, server.url) == (200, b"secret")


async def test_unreadable_certificates_are_a_configuration_error(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file.pem")
    with pytest.raises(ProviderConfigError, match="SSL_CERT_FILE='/no/such/file.pem' .*No such file"):
        await send(transport, "https://127.0.0.1:1/")


async def test_plain_http_host_reports_a_failed_tls_handshake(transport: Transport) -> None:
    async def answer_plain_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer_plain_http, "127.0.0.1", 0)
    async with server:
        with pytest.raises(NetworkError, match="TLS handshake failed") as caught:
            await send(transport, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")

    assert (caught.value.reason, caught.value.retryable) == ("tls", False)


async def test_invalid_response_headers_are_reported_without_secrets(transport: Transport) -> None:
    """The host was reached, and the URL, which libraries quote, may contain a key."""
    async with serve([head(**{"content-length": "2", "Content-Length": "3"}) + b"ok", 0.02, "close"]) as server:
        with pytest.raises(NetworkError) as caught:
            await send(transport, f"{server.url}/?key=hush")

    assert caught.value.reason == "connection_lost"
    assert "hush" not in str(caught.value)


async def test_disabled_timeout_does_not_apply(transport: Transport) -> None:
    async with serve([head(**{"content-length": "2"}) + b"o", 0.4, b"k"]) as server:
        assert await send(transport, server.url, b"x", Timeouts(first_byte=0.15, idle=None)) == (200, b"ok")


@pytest.mark.parametrize("name", ["sk hush", "hush:", "h\u00fcsh", "hush\r\nx"])
async def test_invalid_header_name_is_a_configuration_error(transport: Transport, name: str) -> None:
    with pytest.raises(ProviderConfigError, match="A header name contains") as caught:
        async with transport.open("POST", "http://127.0.0.1:1/", {name: "x"}, b"", SOON):
            pass

    assert "hush" not in str(caught.value)


async def test_custom_content_length_headers_are_ignored(transport: Transport) -> None:
    given = {"Content-Length": "7", "transfer-encoding": "chunked", "x-key": "\x00 a \x01"}
    async with serve(plain()) as server:
        async with transport.open("POST", server.url, given, b"abc", SOON) as answer:
            assert [c async for c in answer.chunks()] == [b"ok"]

    [request] = server.requests
    assert request.body == b"abc"
    assert request.headers["x-key"] == "a"
    assert "transfer-encoding" not in request.headers


async def test_protocol_errors_become_model_errors(transport: Transport) -> None:
    broken = [
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"],
        [b"HTTP/1.1 banana\r\n\r\n", "close"],
        ["close"],
    ]
    for answer in broken:
        async with serve([*answer, 0.05, "close"]) as server:
            with pytest.raises(ModelError):
                await send(transport, server.url, b"x")


async def test_server_that_closes_each_connection_causes_no_errors(transport: Transport) -> None:
    """The server promises to keep the connection but closes it after each response, so the next request may find it half closed."""
    answered = 0

    async def answer_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\r\nkeep-alive: timeout=5, max=100\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()
        answered += 1

    server = await asyncio.start_server(answer_and_close, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
        for _ in range(30):
            assert await send(transport, url, b"body") == (200, b"ok")

    assert answered == 30


class TestDefaultTransport(TransportContract):
    def create_transport(self, folder: Path) -> Transport:
        return DefaultTransport()


class TestHttpxTransport(TransportContract):
    def create_transport(self, folder: Path) -> Transport:
        return HttpxTransport()


class TestRecordingTransport(TransportContract):
    def create_transport(self, folder: Path) -> Transport:
        return RecordingTransport(folder, DefaultTransport())
