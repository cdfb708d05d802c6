"""A model behind HTTP: what it sends, how it reads, what it makes of refusals."""

import asyncio
import json
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


def sent(of: HttpModel) -> list[Any]:
    transport = of._own_transport
    assert isinstance(transport, MemoryTransport)
    return transport.requests


async def events_of(of: HttpModel, **fields: Any) -> list[StreamEvent]:
    return [event async for event in of.stream(ModelRequest(HI, **fields))]


async def note_types(of: HttpModel, seen: list[str]) -> None:
    async for event in of.stream(ModelRequest(HI)):
        seen.append(event.type)


@pytest.mark.covers("MOD-01", "MOD-05", "MOD-03")
async def test_it_is_a_model_provider() -> None:
    provider = model(MemoryResponse(GOOD))

    assert isinstance(provider, ModelProvider)
    assert (await provider.complete(ModelRequest(HI))).text == "Hello"
    assert [e.type for e in await events_of(model(MemoryResponse(GOOD)))] == [
        *("start", "text_start", "text_delta", "text_delta", "text_end", "done")
    ]


@pytest.mark.covers("MOD-10")
async def test_the_key_goes_to_the_base_url_and_nowhere_else() -> None:
    own = model(MemoryResponse(GOOD))
    await own.complete(ModelRequest(HI))

    [request] = sent(own)
    assert (request.method, request.url) == ("POST", "http://host/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer sk-test-key-123456"

    other = model(
        MemoryResponse(GOOD),
        using=ModelProfile(profile().info, "http://host", key_header="api-key", query="v=1", headers={"x": "y"}),
    )
    await other.complete(ModelRequest(HI))
    [request] = sent(other)
    assert request.url == "http://host/chat/completions?v=1"
    assert request.headers["api-key"] == "sk-test-key-123456"
    assert request.headers["x"] == "y"
    assert "authorization" not in request.headers


async def test_a_redirect_is_refused_so_that_the_key_stays() -> None:
    moved = model(MemoryResponse(b"", 301, {"location": "http://elsewhere/v1"}))

    with pytest.raises(ProviderConfigError, match="redirects to http://elsewhere/v1") as caught:
        await moved.complete(ModelRequest(HI))

    assert (caught.value.status, caught.value.retryable, len(sent(moved))) == (301, False, 1)


async def test_a_key_may_be_fetched_for_each_request() -> None:
    async def fetch() -> str:
        return " token\n"

    own = model(MemoryResponse(GOOD), key=fetch)
    await own.complete(ModelRequest(HI))
    assert sent(own)[0].headers["authorization"] == "Bearer token"

    def broken() -> str:
        raise OSError("vault is closed")

    with pytest.raises(ProviderConfigError, match="vault is closed"):
        await model(MemoryResponse(GOOD), key=broken).complete(ModelRequest(HI))


async def test_a_key_that_has_expired_is_fetched_anew_once() -> None:
    keys = iter(["old", "new", "newer", "newest"])
    refusal = MemoryResponse(b'{"error":{"message":"expired"}}', 401)
    own = model(refusal, MemoryResponse(GOOD), key=lambda: next(keys))
    assert (await own.complete(ModelRequest(HI))).text == "Hello"
    assert [r.headers["authorization"] for r in sent(own)] == ["Bearer old", "Bearer new"]

    always = model(refusal, key=lambda: next(keys))
    with pytest.raises(AuthenticationError):
        await always.complete(ModelRequest(HI))
    assert len(sent(always)) == 2

    fixed = model(refusal)
    with pytest.raises(AuthenticationError):
        await fixed.complete(ModelRequest(HI))
    assert len(sent(fixed)) == 1


@pytest.mark.covers("BYD-27")
async def test_an_image_that_the_host_cannot_read_is_left_out_and_the_others_stay() -> None:
    good, bad = ImageBlock("image/png", "R09PRA=="), ImageBlock("image/png", "QkFE")
    history = [
        Message.user([good]),
        Message.assistant("Nice."),
        Message("assistant", (ToolUseBlock("c1", "shot"),)),
        Message("user", (ToolResultBlock("c1", "shot", (bad,)),)),
    ]
    refusal = MemoryResponse(b'{"error":{"message":"You uploaded an unsupported image. Make sure it is valid."}}', 400)
    own = model(refusal, MemoryResponse(GOOD))

    for _ in range(2):
        assert (await own.complete(ModelRequest(history, scratch=EncodingCache()))).text == "Hello"

    bodies = [r.body.decode() for r in sent(own)]
    assert ["QkFE" in body for body in bodies] == [True, False, False]
    assert ["R09PRA==" in body for body in bodies] == [True, True, True]
    assert "image left out: the provider could not read it" in bodies[1]


async def test_a_refused_signature_drops_the_reasoning_and_not_the_session() -> None:
    history = [
        Message("assistant", (ThinkingBlock("Hm.", "reasoning"), TextBlock("So.")), provider="host", model="m1"),
        *HI,
    ]
    refusal = MemoryResponse(b'{"error":{"message":"Invalid `signature` in `thinking` block"}}', 400)
    own = model(refusal, MemoryResponse(GOOD))

    assert (await own.complete(ModelRequest(history))).text == "Hello"
    assert ["Hm." in r.body.decode() for r in sent(own)] == [True, False]


async def test_refusals_are_classified_and_name_the_host_but_not_the_key() -> None:
    body = b'{"error":{"message":"Slow down, sk-test-key-123456","type":"rate_limit_error"}}'
    rejected = model(MemoryResponse(body, 429, {"retry-after": "7", "x-request-id": "req_1"}))

    with pytest.raises(RateLimitedError) as caught:
        await rejected.complete(ModelRequest(HI))

    error = caught.value
    assert (error.retry_after, error.retryable, error.request_id) == (7.0, True, "req_1")
    assert error.message == "Slow down, [redacted] (HTTP 429, host, host, request req_1)"
    assert (error.provider, error.model) == ("host", "m1")


async def test_a_refusal_whose_text_breaks_off_is_still_classified() -> None:
    cut = model(MemoryResponse([b'{"error":{"message":"x"', NetworkError("cut")], 500))

    with pytest.raises(NetworkError) as caught:
        await cut.complete(ModelRequest(HI))

    assert caught.value.status == 500


async def test_a_refused_field_is_left_out_and_stays_out() -> None:
    refusal = b'{"error":{"message":"Unrecognized request argument supplied: stream_options"}}'
    own = model(MemoryResponse(refusal, 400), MemoryResponse(GOOD))

    assert (await own.complete(ModelRequest(HI))).text == "Hello"
    assert (await own.complete(ModelRequest(HI))).text == "Hello"

    assert ["stream_options" in json.loads(r.body) for r in sent(own)] == [True, False, False]
    assert own.profile.dialect.stream_usage is False


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "Unsupported value: 'messages[0].content'"),
        (400, "temperature is not supported"),
        (401, "stream_options not supported"),
        (413, "stream_options not supported"),
    ],
)
async def test_nothing_is_sent_again_unchanged(status: int, text: str) -> None:
    own = model(MemoryResponse(json.dumps({"error": {"message": text}}).encode(), status))

    with pytest.raises(ModelError):
        await own.complete(ModelRequest(HI))

    assert len(sent(own)) == 1


async def test_a_host_that_refuses_everything_is_not_asked_for_ever() -> None:
    texts = ["stream_options", "temperature", "stop", "reasoning_effort", "response_format", "max_tokens"]
    refusals = [MemoryResponse(json.dumps({"error": {"message": f"unsupported: {t}"}}).encode(), 400) for t in texts]
    own = model(*refusals)
    fields: dict[str, Any] = {"temperature": 1, "stop": ["#"], "thinking": "low", "schema": {}, "max_output_tokens": 5}

    with pytest.raises(ModelError, match="response_format"):
        await own.complete(ModelRequest(HI, **fields))

    assert len(sent(own)) == 5


@pytest.mark.covers("STR-13")
@pytest.mark.parametrize(
    "error", [NetworkError("gone", reason="stream_cut"), ModelTimeoutError("late", reason="idle_timeout")]
)
async def test_what_had_arrived_is_kept_when_the_connection_breaks(error: ModelError) -> None:
    own = model(MemoryResponse([sse(chunk({"content": "Hel"}), done=False), error]))
    seen: list[str] = []

    with pytest.raises(type(error)) as caught:
        await note_types(own, seen)

    assert seen == ["start", "text_start", "text_delta"]
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hel"
    assert (caught.value.provider, caught.value.model) == ("host", "m1")


async def test_a_connection_that_breaks_behind_a_complete_answer_is_no_matter() -> None:
    own = model(MemoryResponse([sse(chunk({"content": "Hello"}, "stop"), done=False), NetworkError("gone")]))

    assert (await own.complete(ModelRequest(HI))).text == "Hello"


async def test_an_error_in_the_stream_comes_behind_the_events_before_it() -> None:
    body = sse(chunk({"content": "Hel"}), {"error": {"message": "Overloaded", "type": "overloaded_error"}}, done=False)
    own = model(MemoryResponse(body))
    seen: list[str] = []

    with pytest.raises(RateLimitedError, match="Overloaded") as caught:
        await note_types(own, seen)

    assert seen == ["start", "text_start", "text_delta"]
    assert caught.value.reason == "overloaded"
    assert caught.value.partial is not None


async def test_what_is_no_answer_is_told_as_that() -> None:
    with pytest.raises(InvalidResponseError, match="web page"):
        await model(MemoryResponse(b"<!doctype html><title>Login</title>")).complete(ModelRequest(HI))
    with pytest.raises(ContextExceededError):
        await model(MemoryResponse(b"payload too large", 413)).complete(ModelRequest(HI))


async def test_a_server_that_keeps_the_connection_open_behind_its_answer_costs_no_wait() -> None:
    answer = MemoryResponse([GOOD, 30.0])
    own = model(answer)

    async with asyncio.timeout(5):
        assert (await own.complete(ModelRequest(HI))).text == "Hello"

    assert answer.closed


async def test_closing_the_stream_closes_the_connection() -> None:
    async with serve(chunked(sse(chunk({"content": "a"}), done=False), 10.0)) as server:
        own = HttpModel(ModelProfile(profile().info, server.url), ChatCompletionsProtocol(), timeouts=Timeouts(5, 5, 5))
        stream = own.stream(ModelRequest(HI))
        async for event in stream:
            if event.type == "text_delta":
                break
        await stream.aclose()
        await asyncio.wait_for(server.lost.wait(), 2)

    assert "authorization" not in server.requests[0].headers


async def test_a_request_may_have_a_limit_of_its_own() -> None:
    async with serve([5.0]) as server:
        own = HttpModel(ModelProfile(profile().info, server.url), ChatCompletionsProtocol())
        with pytest.raises(ModelTimeoutError, match="within 0.1s"):
            await own.complete(ModelRequest(HI, timeout=0.1))


async def test_models_share_connections_unless_told_otherwise() -> None:
    async with serve(chunked(GOOD)) as server:
        for _ in range(3):
            own = HttpModel(ModelProfile(profile().info, server.url), ChatCompletionsProtocol())
            await own.complete(ModelRequest(HI))
            await own.aclose()

    assert server.connections == 1


def test_its_name_says_what_it_is_and_holds_no_key() -> None:
    assert repr(model(MemoryResponse(GOOD))) == "<HttpModel host:m1 at http://host/v1>"


@pytest.mark.parametrize(
    "begin", [b"data: ", b": alive\n\n", b"{", sse(chunk({"content": "Hel"})).partition(b"data: [DONE]")[0] + b"data: "]
)
async def test_an_answer_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    monkeypatch.setattr(answer, "MAX_RESPONSE_BYTES", 10_000)

    with pytest.raises(InvalidResponseError, match="longer than") as caught:
        await model(MemoryResponse([begin, *[b"y" * 1000] * 20])).complete(ModelRequest(HI))

    assert caught.value.reason == "too_long"
    assert (caught.value.partial is not None) == (b"Hel" in begin)
