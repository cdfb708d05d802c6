"""`LLMClient`: results instead of exceptions, callbacks, and a model that is built on first use."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from mainspring.errors import AuthenticationError, ErrorCode, ModelError, NetworkError, RateLimitedError
from mainspring.events import StreamError, StreamEvent
from mainspring.messages import Message, TextBlock, Usage
from mainspring.models import (
    Failure,
    LLMClient,
    ModelCallbacks,
    ModelRequest,
    ModelResponse,
    ProviderConfig,
    ProviderRegistry,
    RetryConfig,
    Success,
    is_model_error,
    is_model_success,
)
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel

QUICK = RetryConfig(base_delay_seconds=0.001, jitter=0)


def make_client(*script: Any, retry: RetryConfig = QUICK, callbacks: ModelCallbacks | None = None) -> LLMClient:
    return LLMClient(ScriptedModel(*script), retry_config=retry, callbacks=callbacks)


def record_callbacks() -> tuple[list[Any], ModelCallbacks]:
    published: list[Any] = []
    return published, ModelCallbacks(
        on_stream_start=lambda: published.append("start"),
        on_stream_chunk=lambda text: published.append(text),
        on_stream_end=lambda usage: published.append(usage),
        on_error=lambda code, message: published.append((code, message)),
        on_retry=lambda info: published.append((info.attempt, info.max_retries, info.delay, info.message)),
    )


@pytest.mark.covers("MOD-18", "MOD-12", "MOD-13", "MSG-25")
async def test_invoke_accepts_text_or_messages_and_returns_text_and_usage() -> None:
    model = ScriptedModel(Reply("Hello", usage=Usage(3, 2)), "Again")
    llm_client = LLMClient(model)

    first = await llm_client.invoke("Hi", system="Be kind.")
    second = await llm_client.invoke([Message.user("Hi"), Message.assistant("Hello"), Message.user("Once more")])

    assert isinstance(first, Success)
    assert is_model_success(first)
    assert not is_model_error(first)
    assert (first.result.content, first.result.text, first.result.usage) == ("Hello", "Hello", Usage(3, 2))
    assert (first.success, first.message) == (True, "Response of scripted:scripted-1.")
    assert first.result.response.content == (TextBlock("Hello"),)
    assert isinstance(second, Success)
    assert second.result.text == "Again"
    sent = [[(m.role, m.text) for m in s.request.messages] for s in model.requests]
    assert sent == [[("user", "Hi")], [("user", "Hi"), ("assistant", "Hello"), ("user", "Once more")]]


@pytest.mark.covers("MOD-17", "MOD-15")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AuthenticationError("no key"), ErrorCode.AUTHENTICATION_ERROR),
        (RateLimitedError("slow", retry_after=99.0), ErrorCode.RATE_LIMITED),
        (ModelError("odd"), ErrorCode.UNKNOWN),
        (ConnectionRefusedError("refused"), ErrorCode.NETWORK_ERROR),
        (ValueError("odd"), ErrorCode.UNKNOWN),
    ],
)
async def test_client_returns_failures_instead_of_raising(error: Exception, code: ErrorCode) -> None:
    llm_client = LLMClient(ScriptedModel(error, loop=True), retry_config=QUICK)

    for result in (await llm_client.invoke("Hi"), await llm_client.stream("Hi")):
        assert isinstance(result, Failure)
        assert is_model_error(result)
        assert (result.error, result.success) == (code, False)
        assert str(error) in result.message
        assert result.cause is not None
    assert isinstance(await llm_client.invoke(5), Failure)  # type: ignore[arg-type]


@pytest.mark.covers("MOD-17", "MOD-12")
async def test_failure_contains_a_long_retry_after() -> None:
    result = await make_client(RateLimitedError("slow", retry_after=99.0)).invoke("Hi")

    assert isinstance(result, Failure)
    assert result.retry_after == 99.0


@pytest.mark.covers("MOD-19", "MOD-24", "MOD-25", "MOD-26", "MOD-27")
async def test_callbacks_are_called_in_order() -> None:
    published, callbacks = record_callbacks()
    llm_client = make_client(
        NetworkError("gone"), Reply("Hello", usage=Usage(3, 2), chunk_count=2), callbacks=callbacks
    )

    result = await llm_client.stream("Hi")

    assert isinstance(result, Success)
    assert published == ["start", (1, 3, 0.001, "gone")]
    assert [e.type async for e in result.result] == [
        *("start", "text_start", "text_delta", "text_delta", "text_end", "done")
    ]
    assert published[2:] == ["Hel", "lo", Usage(3, 2)]


@pytest.mark.covers("MOD-24", "MOD-28", "MOD-27")
async def test_on_error_is_called_once_after_the_last_attempt() -> None:
    published, callbacks = record_callbacks()
    llm_client = make_client(
        NetworkError("a"),
        NetworkError("b"),
        retry=RetryConfig(max_retries=1, base_delay_seconds=0.001),
        callbacks=callbacks,
    )

    assert isinstance(await llm_client.stream("Hi"), Failure)

    assert [t if isinstance(t, str) else t[0] for t in published] == ["start", 1, "NETWORK_ERROR"]
    assert published[-1] == (ErrorCode.NETWORK_ERROR, "b")


@pytest.mark.covers("MOD-17", "MOD-19", "STR-09", "STR-13")
async def test_broken_stream_ends_with_an_error_event_and_the_partial_message() -> None:
    published, callbacks = record_callbacks()
    result = await make_client(Reply("Hello", chunk_count=5, truncate_after=2), callbacks=callbacks).stream("Hi")

    assert isinstance(result, Success)
    events = [event async for event in result.result]

    last = events[-1]
    assert isinstance(last, StreamError)
    assert (last.reason, last.message.text, last.message.stop_reason) == ("error", "He", "error")
    assert isinstance(last.exception, NetworkError)
    assert published[-1][0] is ErrorCode.NETWORK_ERROR
    assert [event async for event in result.result] == []


async def test_callback_can_be_async_and_its_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    published: list[str] = []

    async def start() -> None:
        published.append("start")

    def broken(_: object) -> None:
        raise RuntimeError("callback")

    result = await make_client("Hi", callbacks=ModelCallbacks(on_stream_start=start, on_stream_chunk=broken)).stream(
        "Hi"
    )

    assert isinstance(result, Success)
    assert len([e async for e in result.result]) == 5
    assert published == ["start"]
    assert "A model callback failed." in caplog.text


async def test_closing_the_result_closes_the_stream() -> None:
    model = ScriptedModel(Reply("Hello", chunk_count=5))
    result = await LLMClient(model).stream("Hi")

    assert isinstance(result, Success)
    await anext(result.result)
    await result.result.aclose()

    assert model.closed == 1
    assert [e async for e in result.result] == []


@pytest.mark.covers("MOD-23")
async def test_retry_settings_can_be_passed() -> None:
    model = ScriptedModel(NetworkError("a"), loop=True)

    await LLMClient(model, retry_config=RetryConfig(enabled=False)).invoke("Hi")
    assert len(model.requests) == 1
    await LLMClient(model, retry_config=RetryConfig(max_retries=2, base_delay_seconds=0.001)).invoke("Hi")
    assert len(model.requests) == 4


def registry(built: list[ScriptedModel]) -> ProviderRegistry:
    llm_client = ProviderRegistry("one")

    def build(config: ProviderConfig) -> ScriptedModel:
        built.append(ScriptedModel("Hi", loop=True, provider=config.provider, model=config.model or "default-1"))
        return built[-1]

    llm_client.register("one", build=build)
    llm_client.register("two", build=build)
    return llm_client


@pytest.mark.covers("MOD-20", "MOD-21", "MOD-22")
async def test_model_is_built_on_first_use_and_again_after_a_config_change() -> None:
    built: list[ScriptedModel] = []
    current: dict[str, Any] = {"provider": "one"}
    llm_client = LLMClient(lambda: current, registry=registry(built))

    assert (llm_client.get_provider_name(), llm_client.get_model_name()) == ("one", "")
    assert built == []
    await llm_client.invoke("Hi")
    await llm_client.invoke("Hi")
    assert len(built) == 1
    assert (llm_client.get_provider_name(), llm_client.get_model_name()) == ("one", "default-1")

    current = {"provider": "two", "model": "m2"}
    assert (llm_client.get_provider_name(), llm_client.get_model_name()) == ("two", "m2")
    await llm_client.invoke("Hi")
    assert [m.provider for m in built] == ["one", "two"]
    await llm_client.aclose()


class SlowProvider:
    """A provider whose models are created asynchronously, and answer when ``answer`` is set."""

    def __init__(self) -> None:
        self.created: list[str | None] = []
        self.closed: list[tuple[str, bool]] = []
        self.failures: list[Exception] = []
        self.answer = asyncio.Event()
        self.streaming = asyncio.Semaphore(0)
        self.registry = ProviderRegistry("slow")
        self.registry.register("slow", self.create)

    async def create(self, config: ProviderConfig) -> ScriptedModel:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        self.created.append(config.model)
        return SlowModel(self, config.model or "")


class SlowModel(ScriptedModel):
    def __init__(self, provider: SlowProvider, name: str) -> None:
        super().__init__("Hi", loop=True, model=name)
        self.slow = provider
        self.busy = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        self.busy = True
        self.slow.streaming.release()
        await self.slow.answer.wait()
        try:
            async for event in super().stream(request):
                yield event
        finally:
            self.busy = False

    async def aclose(self) -> None:
        self.slow.closed.append((self.model, self.busy))


@pytest.mark.covers("MOD-22")
async def test_concurrent_first_calls_share_one_model() -> None:
    provider = SlowProvider()
    provider.answer.set()
    client = LLMClient("slow:m", registry=provider.registry)

    results = await asyncio.gather(*[client.invoke("Hi") for _ in range(8)])

    assert all(isinstance(result, Success) for result in results)
    assert (provider.created, provider.closed) == (["m"], [])


@pytest.mark.covers("MOD-22")
async def test_model_in_use_is_not_closed_for_another_one() -> None:
    provider = SlowProvider()
    client = LLMClient("slow:m", registry=provider.registry)

    calls = [asyncio.create_task(client.invoke("Hi", model=f"m{n}")) for n in range(8)]
    for _ in calls:
        await provider.streaming.acquire()
    assert (sorted(map(str, provider.created)), provider.closed) == ([f"m{n}" for n in range(8)], [])
    provider.answer.set()
    results = await asyncio.gather(*calls)

    assert all(isinstance(result, Success) for result in results)
    stream = await client.stream("Hi", model="m7")
    assert isinstance(stream, Success)
    for n in range(8, 14):
        await client.invoke("Hi", model=f"m{n}")
    assert len(provider.closed) == len(provider.created) - 4  # The cache has its size again.
    assert [busy for _, busy in provider.closed if busy] == []
    assert "m7" not in [name for name, _ in provider.closed]
    await stream.result.aclose()
    for n in range(14, 18):
        await client.invoke("Hi", model=f"m{n}")
    assert "m7" in [name for name, _ in provider.closed]


@pytest.mark.covers("MOD-22", "RET-20")
async def test_failure_to_create_a_model_is_not_kept() -> None:
    provider = SlowProvider()
    provider.answer.set()
    provider.failures = [AuthenticationError("no key")]
    client = LLMClient("slow:m", registry=provider.registry)

    first, second = await asyncio.gather(client.invoke("Hi"), client.invoke("Hi"))
    assert isinstance(first, Failure)
    assert first.error is ErrorCode.AUTHENTICATION_ERROR
    assert isinstance(second, Success)

    provider.failures = [NetworkError("down")]
    assert isinstance(await client.invoke("Hi", model="other"), Failure)
    assert isinstance(await client.invoke("Hi", model="other"), Success)
    assert provider.created == ["m", "other"]


@pytest.mark.covers("MOD-12", "MOD-14")
async def test_success_has_a_message() -> None:
    client = make_client("Hello", "Hello", '{"a": 1}')

    results = [
        await client.invoke("Hi"),
        await client.stream("Hi"),
        await client.structured("Hi", {"type": "object"}),
    ]

    assert [result.message for result in results] == [
        "Response of scripted:scripted-1.",
        "Stream of scripted:scripted-1.",
        "Response of scripted:scripted-1.",
    ]


@pytest.mark.covers("RET-20")
async def test_provider_that_cannot_be_built_is_a_failure() -> None:
    for config, code in (
        ({"provider": "three"}, ErrorCode.PROVIDER_NOT_SUPPORTED),
        ("antropic:claude", ErrorCode.PROVIDER_NOT_SUPPORTED),
        ({}, ErrorCode.PROVIDER_NOT_CONFIGURED),
        ({"provider": "openai"}, ErrorCode.PROVIDER_NOT_CONFIGURED),
    ):
        result = await LLMClient(config).invoke("Hi")
        assert isinstance(result, Failure)
        assert result.error is code


@pytest.mark.covers("RET-20")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError("Invalid API key"), ErrorCode.AUTHENTICATION_ERROR),
        (ConnectionRefusedError("refused"), ErrorCode.NETWORK_ERROR),
        (ValueError("odd"), ErrorCode.UNKNOWN),
    ],
)
async def test_error_of_a_factory_is_a_failure(error: Exception, code: ErrorCode) -> None:
    async def factory(_: Any) -> ScriptedModel:
        raise error

    failing = ProviderRegistry("failing")
    failing.register("failing", factory)
    client = LLMClient("failing:m", registry=failing)

    for result in (await client.invoke("Hi"), await client.stream("Hi")):
        assert isinstance(result, Failure)
        assert (result.error, result.message) == (code, str(error))


def test_client_of_a_model_has_its_names() -> None:
    llm_client = make_client("Hi")

    assert (llm_client.get_provider_name(), llm_client.get_model_name()) == ("scripted", "scripted-1")


async def test_scripted_model_returns_its_script() -> None:
    model = ScriptedModel(
        ScriptedCall("look", {"at": "x"}),
        [ScriptedCall("a"), ScriptedCall("b", raw='{"x": ', id="own")],
        lambda request: f"You said {request.messages[-1].text}",
        Reply("Hm", thinking="Well", stop_reason="max_tokens"),
    )
    llm_client = LLMClient(model)
    answers = [await llm_client.invoke(f"{n}") for n in range(4)]
    messages = [a.result.message for a in answers if isinstance(a, Success)]

    assert [(c.id, c.name, c.input, c.raw_input) for c in messages[0].tool_uses] == [
        ("call_1_0", "look", {"at": "x"}, None)
    ]
    assert [(c.id, c.name, c.raw_input) for c in messages[1].tool_uses] == [
        ("call_2_0", "a", None),
        ("own", "b", '{"x": '),
    ]
    assert messages[2].text == "You said 2"
    assert (messages[3].thinking, messages[3].text, messages[3].stop_reason) == ("Well", "Hm", "max_tokens")
    assert [m.stop_reason for m in messages[:3]] == ["tool_use", "tool_use", "end_turn"]
    assert [seen.messages[0].text for seen in model.requests] == ["0", "1", "2", "3"]
    assert model.remaining == 0
    exhausted = await llm_client.invoke("more")
    assert isinstance(exhausted, Failure)
    assert "its script has 4 responses" in exhausted.message


@pytest.mark.covers("MOD-04")
def test_content_of_a_response_is_never_empty() -> None:
    assert ModelResponse(Message("assistant")).content == (TextBlock(""),)
    assert ModelResponse(Message.assistant("Hi")).content == (TextBlock("Hi"),)
