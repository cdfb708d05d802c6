"""A model over HTTP: requests, responses, and rejections."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mainspring.errors import (
    AuthenticationError,
    ContextExceededError,
    InvalidResponseError,
    ModelError,
    ModelTimeoutError,
    NetworkError,
    ProviderConfigError,
    RateLimitedError,
)
from mainspring.events import StreamEvent
from mainspring.messages import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from mainspring.models.codec import response_reader as answer
from mainspring.models.http_model import HttpModel
from mainspring.models.port import EncodingCache, ModelProvider, ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.transport.port import Timeouts
from mainspring.models.transport.recording import MemoryResponse, MemoryTransport
from mainspring.models.wire.openai_chat import ChatCompletionsProtocol
from tests.unit.models.server import chunked, serve
from tests.unit.models.wire import chunk, profile, sse

pytestmark = pytest.mark.usefixtures("no_blocking")

HI = [Message.user("Hi")]
GOOD = sse(chunk({"content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop"))


def model(
    *answers: MemoryResponse | Exception, key: Any = lambda: "sk-test-key-123456", using: ModelProfile | None = None
) -> HttpModel:
    return HttpModel(using or profile(), ChatCompletionsProtocol(), key, transport=MemoryTransport(*answers))


def requests_of(of: HttpModel) -> list[Any]:
    transport = of._own_transport
    assert isinstance(transport, MemoryTransport)
    return transport.requests


async def collect_events(of: HttpModel, **fields: Any) -> list[StreamEvent]:
    return [event async for event in of.stream(ModelRequest(HI, **fields))]


async def record_event_types(of: HttpModel, seen: list[str]) -> None:
    async for event in of.stream(ModelRequest(HI)):
        seen.append(event.type)


@pytest.mark.covers("MOD-01", "MOD-05", "MOD-03")
async def test_http_model_is_a_model_provider() -> None:
    provider = model(MemoryResponse(GOOD))

    assert isinstance(provider, ModelProvider)
    assert (await provider.complete(ModelRequest(HI))).text == "Hello"
    assert [e.type for e in await collect_events(model(MemoryResponse(GOOD)))] == [
        *("start", "text_start", "text_delta", "text_delta", "text_end", "done")
    ]


class CountingBody(list[bytes | float | Exception]):
    """The pieces of a body, and how many of them were read."""

    read = 0

    def __iter__(self) -> Iterator[bytes | float | Exception]:
        for piece in super().__iter__():
            self.read += 1
            yield piece


@pytest.mark.covers("MOD-05")
async def test_stream_reads_no_further_than_its_reader() -> None:
    body = CountingBody(sse(chunk({"content": text}), done=False) for text in "abcd")
    stream = model(MemoryResponse(body)).stream(ModelRequest(HI))

    assert [(await anext(stream)).type for _ in range(3)] == ["start", "text_start", "text_delta"]
    assert body.read == 1
    await anext(stream)
    assert body.read == 2
    await stream.aclose()


@pytest.mark.covers("MOD-10")
async def test_key_is_sent_only_to_the_base_url() -> None:
    http_model = model(MemoryResponse(GOOD))
    await http_model.complete(ModelRequest(HI))

    [request] = requests_of(http_model)
    assert (request.method, request.url) == ("POST", "http://host/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer sk-test-key-123456"

    other = model(
        MemoryResponse(GOOD),
        using=ModelProfile(profile().info, "http://host", key_header="api-key", query="v=1", headers={"x": "y"}),
    )
    await other.complete(ModelRequest(HI))
    [request] = requests_of(other)
    assert request.url == "http://host/chat/completions?v=1"
    assert request.headers["api-key"] == "sk-test-key-123456"
    assert request.headers["x"] == "y"
    assert "authorization" not in request.headers


async def test_redirect_is_rejected_to_protect_the_key() -> None:
    moved = model(MemoryResponse(b"", 301, {"location": "http://elsewhere/v1"}))

    with pytest.raises(ProviderConfigError, match="redirects to http://elsewhere/v1") as caught:
        await moved.complete(ModelRequest(HI))

    assert (caught.value.status, caught.value.retryable, len(requests_of(moved))) == (301, False, 1)


async def test_key_can_be_fetched_for_each_request() -> None:
    async def fetch() -> str:
        return " token\n"

    http_model = model(MemoryResponse(GOOD), key=fetch)
    await http_model.complete(ModelRequest(HI))
    assert requests_of(http_model)[0].headers["authorization"] == "Bearer token"

    def broken() -> str:
        raise OSError("vault is closed")

    with pytest.raises(ProviderConfigError, match="vault is closed"):
        await model(MemoryResponse(GOOD), key=broken).complete(ModelRequest(HI))


async def test_rejected_key_is_fetched_again_once() -> None:
    keys = iter(["old", "new", "newer", "newest"])
    refusal = MemoryResponse(b'{"error":{"message":"expired"}}', 401)
    http_model = model(refusal, MemoryResponse(GOOD), key=lambda: next(keys))
    assert (await http_model.complete(ModelRequest(HI))).text == "Hello"
    assert [r.headers["authorization"] for r in requests_of(http_model)] == ["Bearer old", "Bearer new"]

    always = model(refusal, key=lambda: next(keys))
    with pytest.raises(AuthenticationError):
        await always.complete(ModelRequest(HI))
    assert len(requests_of(always)) == 2

    fixed = model(refusal)
    with pytest.raises(AuthenticationError):
        await fixed.complete(ModelRequest(HI))
    assert len(requests_of(fixed)) == 1


@pytest.mark.covers("BYD-27")
async def test_unreadable_image_is_left_out_and_other_images_stay() -> None:
    good, bad = ImageBlock("image/png", "R09PRA=="), ImageBlock("image/png", "QkFE")
    history = [
        Message.user([good]),
        Message.assistant("Nice."),
        Message("assistant", (ToolUseBlock("c1", "shot"),)),
        Message("user", (ToolResultBlock("c1", "shot", (bad,)),)),
    ]
    refusal = MemoryResponse(b'{"error":{"message":"You uploaded an unsupported image. Make sure it is valid."}}', 400)
    http_model = model(refusal, MemoryResponse(GOOD))

    for _ in range(2):
        assert (await http_model.complete(ModelRequest(history, scratch=EncodingCache()))).text == "Hello"

    bodies = [r.body.decode() for r in requests_of(http_model)]
    assert ["QkFE" in body for body in bodies] == [True, False, False]
    assert ["R09PRA==" in body for body in bodies] == [True, True, True]
    assert "image left out: the provider could not read it" in bodies[1]


async def test_rejected_signature_removes_the_reasoning_and_keeps_the_session() -> None:
    history = [
        Message("assistant", (ThinkingBlock("Hm.", "reasoning"), TextBlock("So.")), provider="host", model="m1"),
        *HI,
    ]
    refusal = MemoryResponse(b'{"error":{"message":"Invalid `signature` in `thinking` block"}}', 400)
    http_model = model(refusal, MemoryResponse(GOOD))

    assert (await http_model.complete(ModelRequest(history))).text == "Hello"
    assert ["Hm." in r.body.decode() for r in requests_of(http_model)] == [True, False]


async def test_http_errors_are_classified_and_redact_the_key() -> None:
    body = b'{"error":{"message":"Slow down, sk-test-key-123456","type":"rate_limit_error"}}'
    rejected = model(MemoryResponse(body, 429, {"retry-after": "7", "x-request-id": "req_1"}))

    with pytest.raises(RateLimitedError) as caught:
        await rejected.complete(ModelRequest(HI))

    error = caught.value
    assert (error.retry_after, error.retryable, error.request_id) == (7.0, True, "req_1")
    assert error.message == "Slow down, [redacted] (HTTP 429, host, host, request req_1)"
    assert (error.provider, error.model) == ("host", "m1")


async def test_truncated_error_response_is_still_classified() -> None:
    cut = model(MemoryResponse([b'{"error":{"message":"x"', NetworkError("cut")], 500))

    with pytest.raises(NetworkError) as caught:
        await cut.complete(ModelRequest(HI))

    assert caught.value.status == 500


async def test_rejected_field_is_left_out_of_later_requests() -> None:
    refusal = b'{"error":{"message":"Unrecognized request argument supplied: stream_options"}}'
    http_model = model(MemoryResponse(refusal, 400), MemoryResponse(GOOD))

    assert (await http_model.complete(ModelRequest(HI))).text == "Hello"
    assert (await http_model.complete(ModelRequest(HI))).text == "Hello"

    assert ["stream_options" in json.loads(r.body) for r in requests_of(http_model)] == [True, False, False]
    assert http_model.profile.dialect.stream_usage is False


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "Unsupported value: 'messages[0].content'"),
        (400, "temperature is not supported"),
        (401, "stream_options not supported"),
        (413, "stream_options not supported"),
    ],
)
async def test_unchanged_request_is_not_repeated(status: int, text: str) -> None:
    http_model = model(MemoryResponse(json.dumps({"error": {"message": text}}).encode(), status))

    with pytest.raises(ModelError):
        await http_model.complete(ModelRequest(HI))

    bodies = [request.body for request in requests_of(http_model)]
    assert len(set(bodies)) == len(bodies)
    assert len(bodies) == 1 or status == 400


async def test_number_of_repeated_requests_is_limited() -> None:
    texts = ["stream_options", "temperature", "stop", "reasoning_effort", "response_format", "max_tokens"]
    refusals = [MemoryResponse(json.dumps({"error": {"message": f"unsupported: {t}"}}).encode(), 400) for t in texts]
    http_model = model(*refusals)
    fields: dict[str, Any] = {"temperature": 1, "stop": ["#"], "thinking": "low", "schema": {}, "max_output_tokens": 5}

    with pytest.raises(ModelError, match="response_format"):
        await http_model.complete(ModelRequest(HI, **fields))

    assert len(requests_of(http_model)) == 5


@pytest.mark.covers("STR-13")
@pytest.mark.parametrize(
    "error", [NetworkError("gone", reason="stream_cut"), ModelTimeoutError("late", reason="idle_timeout")]
)
async def test_partial_message_is_kept_if_the_connection_breaks(error: ModelError) -> None:
    http_model = model(MemoryResponse([sse(chunk({"content": "Hel"}), done=False), error]))
    seen: list[str] = []

    with pytest.raises(type(error)) as caught:
        await record_event_types(http_model, seen)

    assert seen == ["start", "text_start", "text_delta"]
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hel"
    assert (caught.value.provider, caught.value.model) == ("host", "m1")


async def test_connection_that_breaks_after_a_complete_response_is_ignored() -> None:
    http_model = model(MemoryResponse([sse(chunk({"content": "Hello"}, "stop"), done=False), NetworkError("gone")]))

    assert (await http_model.complete(ModelRequest(HI))).text == "Hello"


async def test_error_in_the_stream_follows_earlier_events() -> None:
    body = sse(chunk({"content": "Hel"}), {"error": {"message": "Overloaded", "type": "overloaded_error"}}, done=False)
    http_model = model(MemoryResponse(body))
    seen: list[str] = []

    with pytest.raises(RateLimitedError, match="Overloaded") as caught:
        await record_event_types(http_model, seen)

    assert seen == ["start", "text_start", "text_delta"]
    assert caught.value.reason == "overloaded"
    assert caught.value.partial is not None


async def test_invalid_response_is_reported() -> None:
    with pytest.raises(InvalidResponseError, match="web page"):
        await model(MemoryResponse(b"<!doctype html><title>Login</title>")).complete(ModelRequest(HI))
    with pytest.raises(ContextExceededError):
        await model(MemoryResponse(b"payload too large", 413)).complete(ModelRequest(HI))


async def test_open_connection_after_the_response_causes_no_wait() -> None:
    answer = MemoryResponse([GOOD, 3600.0])
    http_model = model(answer)

    assert (await http_model.complete(ModelRequest(HI))).text == "Hello"

    assert answer.closed


async def test_closing_the_stream_closes_the_connection() -> None:
    async with serve(chunked(sse(chunk({"content": "a"}), done=False), 600.0)) as server:
        http_model = HttpModel(
            ModelProfile(profile().info, server.url), ChatCompletionsProtocol(), timeouts=Timeouts(5, 5, 5)
        )
        stream = http_model.stream(ModelRequest(HI))
        async for event in stream:
            if event.type == "text_delta":
                break
        await stream.aclose()
        await server.lost.wait()

    assert "authorization" not in server.requests[0].headers


async def test_request_can_have_its_own_timeout() -> None:
    async with serve([5.0]) as server:
        http_model = HttpModel(ModelProfile(profile().info, server.url), ChatCompletionsProtocol())
        with pytest.raises(ModelTimeoutError, match="within 0.1s"):
            await http_model.complete(ModelRequest(HI, timeout=0.1))


async def test_models_share_connections_by_default() -> None:
    async with serve(chunked(GOOD)) as server:
        for _ in range(3):
            http_model = HttpModel(ModelProfile(profile().info, server.url), ChatCompletionsProtocol())
            await http_model.complete(ModelRequest(HI))
            await http_model.aclose()

    assert server.connections == 1


def test_repr_has_the_name_and_no_key() -> None:
    assert repr(model(MemoryResponse(GOOD))) == "<HttpModel host:m1 at http://host/v1>"


@pytest.mark.parametrize(
    "begin", [b"data: ", b": alive\n\n", b"{", sse(chunk({"content": "Hel"})).partition(b"data: [DONE]")[0] + b"data: "]
)
async def test_endless_response_is_an_error(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    monkeypatch.setattr(answer, "MAX_RESPONSE_BYTES", 10_000)

    with pytest.raises(InvalidResponseError, match="longer than") as caught:
        await model(MemoryResponse([begin, *[b"y" * 1000] * 20])).complete(ModelRequest(HI))

    assert caught.value.reason == "too_long"
    assert (caught.value.partial is not None) == (b"Hel" in begin)
