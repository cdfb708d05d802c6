"""Faults between the client and a host, on every protocol, against a real server: a documented error or a success."""

import json
import socket
from collections.abc import AsyncGenerator
from typing import Any

import httpcore2  # noqa: F401 - its files are read on import, which must not be inside a test
import pytest

from mainspring.errors import ErrorCode, ModelError
from mainspring.events import StreamError, StreamEvent, TextDelta
from mainspring.messages import Message, ToolDefinition
from mainspring.models import Failure, LLMClient, ModelCallbacks, RetryConfig, RetryInfo, Success
from mainspring.models.transport.default import DefaultTransport
from mainspring.models.transport.httpx_transport import HttpxTransport
from mainspring.models.transport.port import Transport
from tests.contract.wire_scenarios import SPEAKERS, TEXT, THINKING, Speaker
from tests.unit.models.server import Answer, Server, chunked, head, plain, serve

QUICK = RetryConfig(base_delay_seconds=0.001, jitter=0, mid_stream=False)
TOOL = ToolDefinition("look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}}})

each_protocol = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda s: s.name)


@pytest.fixture(params=[DefaultTransport, HttpxTransport], ids=["default", "httpx2"])
async def transport(request: pytest.FixtureRequest) -> AsyncGenerator[Transport, None]:
    http_transport = request.param()
    yield http_transport
    await http_transport.aclose()


class ClientRun:
    """One call through the client, with its events and retries."""

    def __init__(self, speaker: Speaker, server: Server | str, transport: Transport, **limits: float) -> None:
        url = server if isinstance(server, str) else f"{server.url}/v1"
        self.retries: list[RetryInfo] = []
        self.events: list[StreamEvent] = []
        self.failure: Failure | None = None
        callbacks = ModelCallbacks(on_retry=self.retries.append)
        self._client = LLMClient(
            speaker.model(url, **limits).with_transport(transport), retry_config=QUICK, callbacks=callbacks
        )

    async def __call__(self) -> "ClientRun":
        result = await self._client.stream([Message.user("Hi")], tools=[TOOL])
        if isinstance(result, Success):
            self.events = [event async for event in result.result]
        else:
            self.failure = result
        return self

    @property
    def text(self) -> str:
        return "".join(e.text for e in self.events if isinstance(e, TextDelta))

    @property
    def error(self) -> ModelError:
        if self.failure is not None:
            assert self.failure.cause is not None
            return self.failure.cause
        last = self.events[-1]
        assert isinstance(last, StreamError)
        assert isinstance(last.exception, ModelError)
        return last.exception


def good_response(speaker: Speaker) -> Answer:
    return chunked(*speaker.plain)


def partial_response(speaker: Speaker, *then: float | str) -> Answer:
    """Return a response that breaks or stalls after its first content."""
    return chunked(*speaker.scenario[: speaker.content_at + 1], *then, end=False)


@pytest.mark.covers("TST-05", "PRV-31")
@each_protocol
async def test_refused_connection_is_retried_and_reported(speaker: Speaker, transport: Transport) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        run = await ClientRun(speaker, f"http://127.0.0.1:{port}/v1", transport)()

    assert (run.error.code, run.error.reason, run.error.retryable) == (ErrorCode.NETWORK_ERROR, "connect", True)
    assert [r.attempt for r in run.retries] == [1, 2, 3]
    assert f"127.0.0.1:{port}" in run.error.message


@pytest.mark.covers("RET-15", "STR-13", "TST-05")
@each_protocol
@pytest.mark.parametrize("ending", ["reset", "close"])
async def test_connection_lost_after_content_keeps_the_partial_response(
    speaker: Speaker, transport: Transport, ending: str
) -> None:
    async with serve(partial_response(speaker, ending), good_response(speaker)) as server:
        run = await ClientRun(speaker, server, transport)()

    assert (run.error.code, run.error.reason) == (ErrorCode.NETWORK_ERROR, "stream_cut")
    assert (len(server.requests), run.retries) == (1, [])
    partial = run.error.partial
    assert partial is not None
    assert partial.thinking
    assert THINKING.startswith(partial.thinking)
    assert run.events[-1].type == "error"


@pytest.mark.covers("RET-15", "TST-05")
@each_protocol
async def test_connection_lost_before_content_is_retried(speaker: Speaker, transport: Transport) -> None:
    no_content: Answer = [head(content_type="text/event-stream", transfer_encoding="chunked"), "reset"]
    async with serve(["reset"], no_content, good_response(speaker)) as server:
        run = await ClientRun(speaker, server, transport)()

    assert (run.text, run.failure) == ("Hello", None)
    assert [e.type for e in run.events].count("start") == 1
    assert len(server.requests) == 3


@each_protocol
async def test_stalled_stream_ends_at_the_idle_timeout(speaker: Speaker, transport: Transport) -> None:
    async with serve(partial_response(speaker, 600.0), good_response(speaker)) as server:
        run = await ClientRun(speaker, server, transport, idle_timeout=0.5)()

    assert (run.error.code, run.error.reason) == (ErrorCode.TIMEOUT, "idle_timeout")
    assert run.error.partial is not None
    assert len(server.requests) == 1


@each_protocol
async def test_missing_first_byte_is_retried(speaker: Speaker, transport: Transport) -> None:
    async with serve([600.0], good_response(speaker)) as server:
        run = await ClientRun(speaker, server, transport, first_byte_timeout=0.5)()

    assert run.text == "Hello"
    assert [(r.error.code, r.error.reason) for r in run.retries] == [(ErrorCode.TIMEOUT, "first_byte_timeout")]
    assert len(server.requests) == 2


@each_protocol
async def test_slow_first_byte_is_awaited(speaker: Speaker, transport: Transport) -> None:
    async with serve([0.05, *good_response(speaker)]) as server:
        run = await ClientRun(speaker, server, transport, first_byte_timeout=120)()

    assert (run.text, run.retries, len(server.requests)) == ("Hello", [], 1)


HINTS: list[tuple[dict[str, str], dict[str, Any], float]] = [
    ({"retry-after": "0"}, {}, 0.0),
    ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, {}, 0.0),
    ({"retry-after-ms": "20"}, {}, 0.02),
    ({"x-ratelimit-reset": "0.03"}, {}, 0.03),
    ({"x-ratelimit-reset-requests": "15ms", "x-ratelimit-remaining-requests": "0"}, {}, 0.015),
    ({}, {"retry_after": 0.02}, 0.02),
    ({}, {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.025s"}]}, 0.025),
    ({}, {"message": "Rate limit reached. Please try again in 12ms."}, 0.012),
    ({}, {}, 0.001),
]


@pytest.mark.covers("RET-07", "RET-08", "RET-09", "RET-10", "RET-11", "RET-12", "TST-05")
@each_protocol
@pytest.mark.parametrize(("headers", "error", "delay"), HINTS)
async def test_rate_limit_waits_for_the_requested_delay(
    speaker: Speaker, headers: dict[str, str], error: dict[str, Any], delay: float
) -> None:
    body = json.dumps({"error": {"message": "Slow down", **error}}).encode()
    http_transport = HttpxTransport()
    async with serve(plain(body, "429 Too Many Requests", **headers), good_response(speaker)) as server:
        run = await ClientRun(speaker, server, http_transport)()
    await http_transport.aclose()

    assert run.text == "Hello"
    assert [(r.error.code, r.delay) for r in run.retries] == [(ErrorCode.RATE_LIMITED, pytest.approx(delay))]


@pytest.mark.covers("RET-12", "TST-05")
@each_protocol
async def test_too_long_retry_delay_fails_immediately(speaker: Speaker, transport: Transport) -> None:
    async with serve(plain(b"{}", "429 Too Many Requests", retry_after="600"), good_response(speaker)) as server:
        run = await ClientRun(speaker, server, transport)()

    assert run.failure is not None
    assert (run.failure.error, run.failure.retry_after, len(server.requests)) == (ErrorCode.RATE_LIMITED, 600, 1)


@pytest.mark.covers("TST-05", "RET-17")
@each_protocol
@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        ("500 Internal Server Error", ErrorCode.NETWORK_ERROR, "server_error"),
        ("502 Bad Gateway", ErrorCode.NETWORK_ERROR, "server_error"),
        ("503 Service Unavailable", ErrorCode.NETWORK_ERROR, "unavailable"),
        ("504 Gateway Timeout", ErrorCode.NETWORK_ERROR, "gateway_timeout"),
        ("529 Overloaded", ErrorCode.RATE_LIMITED, "overloaded"),
        ("408 Request Timeout", ErrorCode.TIMEOUT, "timeout"),
    ],
)
async def test_server_error_is_retried(speaker: Speaker, status: str, code: ErrorCode, reason: str) -> None:
    http_transport = HttpxTransport()
    async with serve(plain(b"<html><title>trouble</title></html>", status), good_response(speaker)) as server:
        run = await ClientRun(speaker, server, http_transport)()
    await http_transport.aclose()

    assert run.text == "Hello"
    assert [(r.error.code, r.error.reason) for r in run.retries] == [(code, reason)]


@pytest.mark.covers("RET-21", "TST-05")
@each_protocol
async def test_invalid_json_in_a_stream_is_not_retried(speaker: Speaker, transport: Transport) -> None:
    async with serve(chunked(b"event: message\ndata: {nonsense\n\n"), good_response(speaker)) as server:
        run = await ClientRun(speaker, server, transport)()

    assert (run.error.code, run.error.retryable, len(server.requests)) == (ErrorCode.INVALID_RESPONSE, False, 1)


@pytest.mark.covers("RET-21")
@each_protocol
async def test_stream_torn_within_an_event_is_reported_as_cut(speaker: Speaker, transport: Transport) -> None:
    pieces = [*speaker.scenario[: speaker.content_at + 1], speaker.scenario[speaker.content_at + 1][:20]]
    async with serve(chunked(*pieces), good_response(speaker)) as server:
        run = await ClientRun(speaker, server, transport)()

    assert (run.error.code, run.error.reason, len(server.requests)) == (ErrorCode.NETWORK_ERROR, "stream_cut", 1)


@pytest.mark.covers("RET-21")
@each_protocol
@pytest.mark.parametrize("body", [b'{"id": "x", "cho', b"<!doctype html><title>Login</title>", b"", b"[]", b"null"])
async def test_unusable_body_is_an_error(speaker: Speaker, transport: Transport, body: bytes) -> None:
    async with serve(plain(body, **{"content-type": "application/json"})) as server:
        run = await ClientRun(speaker, server, transport)()

    assert run.error.code in (ErrorCode.INVALID_RESPONSE, ErrorCode.NETWORK_ERROR)
    assert len(server.requests) == (4 if run.error.retryable else 1)
    assert not run.text


@each_protocol
async def test_stream_cut_within_a_call_yields_no_complete_call(speaker: Speaker, transport: Transport) -> None:
    at = next(n for n, piece in enumerate(speaker.scenario) if b"call_a1" in piece)
    async with serve(chunked(*speaker.scenario[: at + 1], "reset", end=False), good_response(speaker)) as server:
        run = await ClientRun(speaker, server, transport)()

    kinds = [e.type for e in run.events]
    assert kinds.count("toolcall_start") == 1
    assert "done" not in kinds
    assert (run.text, len(server.requests)) == (TEXT, 1)
    assert run.error.reason == "stream_cut"
    assert run.error.partial is not None
    assert run.error.partial.stop_reason != "tool_use"
