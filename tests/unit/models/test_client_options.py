"""Options of a single call, structured responses, and the helpers of the client."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

import mainspring.models as models
from mainspring.cancellation import CancelToken
from mainspring.errors import (
    AgentAbortedError,
    AuthenticationError,
    ContextExceededError,
    ErrorCode,
    ModelError,
    NetworkError,
    RateLimitedError,
)
from mainspring.messages import ImageBlock, Message, TextBlock, Usage
from mainspring.models import (
    PROVIDER_REGISTRY,
    Failure,
    HttpModel,
    LLMClient,
    ModelRequest,
    ProviderConfig,
    ProviderRegistry,
    RetryConfig,
    RetryContext,
    RetryInfo,
    RetryOptions,
    Success,
    agent_error_kind,
    complete,
    create_anthropic_adapter,
    create_openai_compat_adapter,
    error_response,
    extract_text,
    extract_token_usage,
    is_model_error,
    is_model_success,
    map_error_to_code,
    success_response,
    with_retry,
)
from mainspring.models.client import split_options
from mainspring.testing.scripted_model import Reply, ScriptedModel


class ModelFactory:
    """A registry that records the configurations of its models."""

    def __init__(self, *script: Any) -> None:
        self.configs: list[ProviderConfig] = []
        self.models: list[ScriptedModel] = []
        self.registry = ProviderRegistry("mine")
        self._script = script or ("Hi",)
        self.registry.register("mine", build=self._build)

    def _build(self, config: ProviderConfig) -> ScriptedModel:
        self.configs.append(config)
        self.models.append(ScriptedModel(*self._script, loop=True, provider="mine", model=config.model or "m"))
        return self.models[-1]

    @property
    def request(self) -> ModelRequest:
        return self.models[-1].requests[-1].request


@pytest.mark.covers("MOD-33")
async def test_call_can_override_options() -> None:
    factory = ModelFactory()
    client = LLMClient({"provider": "mine", "apiKey": "old"}, registry=factory.registry)

    result = await client.invoke(
        "Hi",
        temperature=0.5,
        max_tokens=100,
        reasoning_effort="high",
        session_id="s1",
        timeout=5.0,
        api_key="new",
        base_url="http://h/v1",
        api_version="2030-01-01",
        deployment="d1",
    )

    assert isinstance(result, Success)
    request, config = factory.request, factory.configs[-1]
    assert (request.temperature, request.max_output_tokens, request.thinking) == (0.5, 100, "high")
    assert (request.session_id, request.timeout) == ("s1", 5.0)
    assert (config.api_key, config.base_url) == ("new", "http://h/v1")
    assert config.extra == {"api_version": "2030-01-01", "deployment": "d1"}
    await client.invoke("Hi")
    assert (factory.configs[-1].api_key, factory.configs[-1].base_url, factory.configs[-1].extra) == ("old", None, {})
    await client.invoke("Hi")
    assert len(factory.configs) == 2


@pytest.mark.covers("MOD-33")
async def test_call_option_wins_over_a_setting_of_the_provider_with_the_same_meaning() -> None:
    settings = {
        "endpoint": "https://one.openai.azure.com",
        "deployment": "d1",
        "api_version": "2024-06-01",
        "apiKey": "k",
    }
    client: Any = LLMClient({"provider": "azure", **settings})
    github: Any = LLMClient({"provider": "github", "token": "configured"})

    async def model_of(client: Any, **options: Any) -> Any:
        return await client._models.get(client._current(), split_options(options)[1])

    moved = await model_of(client, base_url="https://two.openai.azure.com", model="m2")
    assert moved.profile.base_url == "https://two.openai.azure.com/openai/deployments/m2"
    named = await model_of(client, deployment_name="d3", api_version="2030-01-01")
    assert (named.model, named.profile.query) == ("d3", "api-version=2030-01-01")
    assert (await model_of(client)).profile.base_url == "https://one.openai.azure.com/openai/deployments/d1"
    assert await (await model_of(github, api_key="of the call"))._get_credential() == "of the call"


@pytest.mark.covers("MOD-33")
async def test_signal_ends_the_retries_of_a_call() -> None:
    signal = CancelToken()
    signal.cancel()
    model = ScriptedModel(NetworkError("gone"), "never")

    result = await LLMClient(model, retry_config=RetryConfig(base_delay_seconds=0.001)).invoke("Hi", signal=signal)

    assert isinstance(result, Failure)
    assert len(model.requests) == 1


@pytest.mark.covers("MOD-33")
async def test_unknown_or_unsupported_option_is_a_failure() -> None:
    misspelled = await LLMClient(ScriptedModel("Hi")).invoke("Hi", temprature=1)
    ready = await LLMClient(ScriptedModel("Hi")).invoke("Hi", api_key="k")

    assert isinstance(misspelled, Failure)
    assert "temprature" in misspelled.message
    assert isinstance(ready, Failure)
    assert ready.error is ErrorCode.PROVIDER_NOT_CONFIGURED
    assert "Cannot set api_key" in ready.message


async def test_model_cache_is_bounded() -> None:
    factory = ModelFactory()
    client = LLMClient({"provider": "mine"}, registry=factory.registry)
    for number in range(9):
        await client.invoke("Hi", model=f"m{number % 5}")

    assert len(factory.configs) == 9
    assert client.get_model_name() == ""


@pytest.mark.covers("MOD-35")
async def test_get_api_key_is_called_with_the_provider_name() -> None:
    request: list[str] = []

    async def key(provider: str) -> str:
        request.append(provider)
        return f"key-{len(request)}"

    factory = ModelFactory()
    client = LLMClient("mine:m1", registry=factory.registry, get_api_key=key)
    await client.invoke("Hi")
    await client.invoke("Hi")
    source = factory.configs[0].api_key

    assert (len(factory.configs), client.get_model_name()) == (1, "m1")
    assert [await source(), await source()] == ["key-1", "key-2"]  # The model calls the function before each request.
    assert request == ["mine", "mine"]
    await client.invoke("Hi", api_key="own")
    assert factory.configs[-1].api_key == "own"


@pytest.mark.covers("MOD-34")
async def test_complete_returns_one_message() -> None:
    message = await complete(ScriptedModel(Reply("Hello", usage=Usage(1, 2))), "Hi", system="Be kind")

    assert (message.role, message.text, message.usage, message.stop_reason) == (
        "assistant",
        "Hello",
        Usage(1, 2),
        "end_turn",
    )
    factory = ModelFactory(AuthenticationError("no"))
    with pytest.raises(AuthenticationError):
        await complete("mine:m", [Message.user("Hi")], registry=factory.registry)
    retried = ScriptedModel(NetworkError("gone"), "Back")
    assert (await complete(retried, "Hi", retry_config=RetryConfig(base_delay_seconds=0.001))).text == "Back"


# --- structured responses ----------------------------------------------------------------------------------------------

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}


@dataclass
class City:
    city: str
    days: int = 1


class PydanticCity(BaseModel):
    city: str
    days: int = 1


@pytest.mark.covers("MOD-37")
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (CITY, {"city": "Oslo", "days": 2}),
        (City, City("Oslo", 2)),
        (PydanticCity, PydanticCity(city="Oslo", days=2)),
    ],
)
@pytest.mark.parametrize("text", ['{"city":"Oslo","days":2}', ' ```json\n{"city":"Oslo","days":2}\n``` '])
async def test_structured_response_is_parsed_by_its_schema(schema: Any, value: Any, text: str) -> None:
    model = ScriptedModel(text)

    result = await LLMClient(model).structured("Where?", schema)

    assert isinstance(result, Success)
    assert (result.result.value, result.result.problems) == (value, ())
    sent = model.requests[0].request.schema
    assert sent is not None
    assert "city" in str(sent)


@pytest.mark.covers("MOD-37", "ERR-08")
@pytest.mark.parametrize("schema", [CITY, City, PydanticCity])
@pytest.mark.parametrize("text", ["Oslo, of course.", '{"city": 5}', '{"days": 1}', "", "[" * 5000])
async def test_response_that_violates_the_schema_is_returned_as_text(schema: Any, text: str) -> None:
    result = await LLMClient(ScriptedModel(text)).structured("Where?", schema)

    assert isinstance(result, Success)
    assert (result.result.value, result.result.text) == (None, text)
    assert result.result.problems


async def test_invalid_schema_or_failed_call_is_a_failure() -> None:
    assert isinstance(await LLMClient(ScriptedModel("x")).structured("Hi", object), Failure)
    assert isinstance(await LLMClient(ScriptedModel(ModelError("no"))).structured("Hi", City), Failure)


# --- helpers -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("MOD-14", "MOD-12", "MOD-13")
def test_success_and_error_responses_can_be_created() -> None:
    good = success_response({"a": 1}, "fine")
    bad = error_response("RATE_LIMITED", "slow down", 1500)

    assert (good.success, good.result, good.message) == (True, {"a": 1}, "fine")
    assert (bad.success, bad.error, bad.message, bad.retry_after) == (False, ErrorCode.RATE_LIMITED, "slow down", 1.5)
    assert error_response(ErrorCode.UNKNOWN, "x").retry_after is None
    assert is_model_success(good)
    assert is_model_error(bad)
    assert not is_model_success(bad)
    assert not is_model_error(good)


@pytest.mark.covers("MOD-38")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (None, "none"),
        (ValueError("a bug"), "none"),
        (ContextExceededError("long"), "context_exceeded"),
        (Exception("prompt is too long: 9 tokens > 8 maximum"), "context_exceeded"),
        (NetworkError("gone"), "provider_error"),
        (ModelError("odd"), "provider_error"),
        (ConnectionResetError(), "provider_error"),
        (Exception("429 too many requests"), "provider_error"),
        (asyncio.CancelledError(), "aborted"),
        (KeyboardInterrupt(), "aborted"),
        (AgentAbortedError("stop"), "aborted"),
    ],
)
def test_agent_error_kind_groups_errors(error: BaseException | None, kind: str) -> None:
    assert agent_error_kind(error) == kind


def test_error_or_error_text_maps_to_a_code() -> None:
    assert map_error_to_code("Invalid API key") is ErrorCode.AUTHENTICATION_ERROR
    assert map_error_to_code(RateLimitedError("x")) is ErrorCode.RATE_LIMITED
    assert map_error_to_code(TimeoutError()) is ErrorCode.TIMEOUT


class ForeignError:
    """An error of a library that is not an exception."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


CIRCULAR: dict[str, Any] = {"message": "request timed out"}
CIRCULAR["self"] = CIRCULAR


@pytest.mark.covers("RET-06")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, ErrorCode.UNKNOWN),
        (42, ErrorCode.UNKNOWN),
        (4.2, ErrorCode.UNKNOWN),
        (object(), ErrorCode.UNKNOWN),
        ([], ErrorCode.UNKNOWN),
        ({}, ErrorCode.UNKNOWN),
        ("", ErrorCode.UNKNOWN),
        (429, ErrorCode.RATE_LIMITED),
        (503, ErrorCode.NETWORK_ERROR),
        (b'{"error": {"message": "request timed out"}}', ErrorCode.TIMEOUT),
        ("MODEL_NOT_FOUND", ErrorCode.MODEL_NOT_FOUND),
        ({"message": "rate limit"}, ErrorCode.RATE_LIMITED),
        ({"message": 42}, ErrorCode.UNKNOWN),
        ({"error": {"message": "Invalid API key"}}, ErrorCode.AUTHENTICATION_ERROR),
        ({"status": 401}, ErrorCode.AUTHENTICATION_ERROR),
        ({"code": "PROVIDER_NOT_SUPPORTED"}, ErrorCode.PROVIDER_NOT_SUPPORTED),
        ({("a", "tuple"): object(), "error": TimeoutError()}, ErrorCode.TIMEOUT),
        ({("a", "tuple"): object()}, ErrorCode.UNKNOWN),
        (CIRCULAR, ErrorCode.TIMEOUT),
        (ForeignError(message="429 too many requests"), ErrorCode.RATE_LIMITED),
        (ForeignError(status=404, message="The model x was not found"), ErrorCode.MODEL_NOT_FOUND),
        (error_response("TIMEOUT", "slow"), ErrorCode.TIMEOUT),
    ],
)
def test_any_object_maps_to_a_code(error: object, code: ErrorCode) -> None:
    assert map_error_to_code(error) is code


@pytest.mark.covers("MOD-40")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hi", "Hi"),
        ([{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "no"}, "b"], "ab"),
        ([TextBlock("a"), ImageBlock("image/png", "x"), TextBlock("b")], "ab"),
        ({"type": "output_text", "text": "a"}, "a"),
        ({"role": "assistant", "content": [{"text": "a"}]}, "a"),
        (Message.assistant("a"), "a"),
        ([], ""),
        (None, ""),
        (5, ""),
        ([{"type": "image_url", "image_url": {}}], ""),
    ],
)
def test_extract_text_accepts_any_content(content: Any, text: str) -> None:
    assert extract_text(content) == text


class Answer:
    def __init__(self, usage: Any) -> None:
        self.usage = usage


@pytest.mark.covers("MOD-30", "MOD-29")
@pytest.mark.parametrize(
    ("source", "usage"),
    [
        ({"usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}, Usage(10, 5)),
        ({"usage": {"input_tokens": 10, "output_tokens": 5}}, Usage(10, 5)),
        # Anthropic counts cached tokens separately from the input.
        ({"usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}}, Usage(10, 5, 100, 20)),
        ({"prompt_tokens": 130, "completion_tokens": 5, "total_tokens": 135, "cache_read_input_tokens": 100}, Usage(30, 5, 100)),
        ({"token_usage": {"prompt_tokens": 1, "completion_tokens": 2}}, Usage(1, 2)),
        ({"llmOutput": {"tokenUsage": {"promptTokens": 1, "completionTokens": 2, "totalTokens": 3}}}, Usage(1, 2)),
        ({"response_metadata": {"token_usage": {"prompt_tokens": 1, "completion_tokens": 2}}}, Usage(1, 2)),
        ({"usage_metadata": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_token_details": {"cache_read": 4}}}, Usage(6, 5, 4)),
        ({"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "cachedContentTokenCount": 4}}, Usage(6, 8, 4, 0, 3)),
        (Answer(Answer({"input_tokens": 1, "output_tokens": 2})), Usage(1, 2)),
        ({}, None),
        (None, None),
        ("text", None),
    ],
)  # fmt: skip
def test_extract_token_usage_finds_counts_in_any_format(source: Any, usage: Usage | None) -> None:
    assert extract_token_usage(source) == usage


async def test_retry_options_configure_with_retry() -> None:
    slept: list[float] = []
    retries: list[RetryContext] = []
    failures: list[Exception] = [NetworkError("a"), NetworkError("b")]

    async def sleep(seconds: float, signal: object) -> bool:
        slept.append(seconds)
        return True

    async def call() -> str:
        if failures:
            raise failures.pop(0)
        return "done"

    options = RetryOptions(
        RetryConfig(base_delay_seconds=0.5, max_delay_seconds=60, jitter=0), retries.append, sleep=sleep
    )

    assert await with_retry(call, options) == "done"
    assert slept == [0.5, 1.0]
    assert [(t.attempt, t.delay) for t in retries] == [(1, 0.5), (2, 1)]
    assert RetryContext is RetryInfo


@pytest.mark.covers("MOD-16")
async def test_with_retry_repeats_calls_that_return_failures() -> None:
    results: list[Any] = [
        error_response("TIMEOUT", "late"),
        error_response("RATE_LIMITED", "slow", 5),
        success_response(1),
    ]
    retries: list[RetryContext] = []
    options = RetryOptions(RetryConfig(base_delay_seconds=0.001), retries.append)

    async def call() -> Any:
        return results.pop(0)

    assert is_model_success(await with_retry(call, options))
    assert [(t.error.code, t.delay) for t in retries][1] == ("RATE_LIMITED", 0.005)
    results += [error_response("UNKNOWN", "odd"), success_response(1)]
    assert (await with_retry(call, options)).error == "UNKNOWN"
    assert [code for code in ErrorCode if models.is_retryable_error(code)] == [
        "RATE_LIMITED",
        "NETWORK_ERROR",
        "TIMEOUT",
    ]


@pytest.mark.covers("RET-04")
def test_longer_delays_can_be_configured() -> None:
    patient = RetryConfig(max_delay_seconds=60, jitter=0)

    assert [models.calculate_delay(n, patient) for n in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


# --- exports of the package --------------------------------------------------------------------------------------------

NAMED_BY_SOURCES = """
    ModelProvider ModelRequest ModelResponse ModelInfo ModelResult Success Failure ModelErrorCode TokenUsage ProviderConfig
    InvokeResult is_model_success is_model_error success_response error_response map_error_to_code extract_token_usage extract_text
    PROVIDER_REGISTRY ProviderRegistry get_provider_factory is_provider_supported get_supported_providers create_model
    create_model_provider LLMClient ModelCallbacks complete with_retry is_retryable_error calculate_delay extract_retry_after
    RetryConfig RetryContext RetryOptions create_anthropic_adapter create_openai_compat_adapter
    build_anthropic_system_param normalize_message FallbackModel RateLimitedModel classify_error
    ModelError ModelFactory AsyncModelFactory ResultStream
    Message ContentBlock TextBlock ImageBlock ThinkingBlock RedactedThinkingBlock ToolUseBlock ToolResultBlock StopReason Usage
""".split()


@pytest.mark.covers("PKG-17")
def test_every_promised_name_is_exported() -> None:
    providers = models.get_supported_providers()
    names = [*NAMED_BY_SOURCES, *(f"create_{provider}_client" for provider in providers)]

    assert [name for name in names if name not in dir(models)] == []
    assert all(getattr(models, name) is not None for name in names)
    assert sorted(PROVIDER_REGISTRY) == providers
    with pytest.raises(TypeError):
        PROVIDER_REGISTRY["x"] = None  # type: ignore[index]


@pytest.mark.covers("PKG-17", "PRV-01", "PRV-03")
async def test_each_provider_has_its_own_create_function() -> None:
    openai = await models.create_openai_client({"apiKey": "k", "model": "gpt-5"})
    local = await models.create_local_client(ProviderConfig(model="llama"))

    assert (openai.provider, openai.model, local.provider, local.model) == ("openai", "gpt-5", "local", "llama")
    assert models.create_openai_client.__name__ == "create_openai_client"
    with pytest.raises(ModelError) as caught:
        await models.create_compatible_client({})
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED


@pytest.mark.covers("PKG-17", "MOD-02")
def test_adapters_are_created_synchronously() -> None:
    claude = create_anthropic_adapter({"api_key": "k", "model": "claude-sonnet-4-5"})
    other = create_openai_compat_adapter(ProviderConfig(api_key="k", base_url="http://h/v1", model="m", vision=False))

    assert isinstance(claude, HttpModel)
    assert (claude.provider, claude.model) == ("anthropic", "claude-sonnet-4-5")
    assert isinstance(other, HttpModel)
    assert (other.profile.base_url, other.info.vision) == ("http://h/v1", False)
