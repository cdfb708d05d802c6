"""Providers by name: model specs, settings, keys, local servers, and the catalog."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from mainspring.agent import Agent
from mainspring.errors import ErrorCode, ModelError, NetworkError, ProviderConfigError
from mainspring.messages import Message
from mainspring.models import (
    ChatCapabilities,
    HttpModel,
    LocalServer,
    ModelProvider,
    ProviderConfig,
    ProviderRegistry,
    Timeouts,
    create_model,
    create_model_provider,
    default_registry,
    detect_local_servers,
    get_provider_factory,
    get_supported_providers,
    is_provider_supported,
)
from mainspring.models.auth.credentials import KEY_VARIABLES, get_setting, require_key
from mainspring.models.config import to_provider_config
from mainspring.models.port import ModelRequest
from mainspring.models.providers.local_servers import KNOWN_SERVERS
from mainspring.models.transport.recording import MemoryResponse, MemoryTransport
from mainspring.testing.scripted_model import ScriptedModel
from tests.unit.models.server import Answer, Received, plain, serve
from tests.unit.models.wire import chunk, sse


def as_http_model(model: ModelProvider) -> HttpModel:
    assert isinstance(model, HttpModel)
    return model


async def get_key(model: ModelProvider) -> str:
    key = await as_http_model(model)._get_credential()
    assert isinstance(key, str)
    return key


# --- the registry ------------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-01", "PRV-34")
async def test_providers_are_found_by_name() -> None:
    assert is_provider_supported("openai")
    assert not is_provider_supported("nobody")
    assert set(get_supported_providers()) == {
        *("anthropic", "azure", "cerebras", "codex", "compatible", "embedded", "foundry", "gemini", "github", "groq"),
        *("langchain", "local", "ollama", "openai", "openrouter"),
    }
    assert get_supported_providers() == sorted(get_supported_providers())
    assert get_provider_factory("nobody") is None
    with pytest.raises(ProviderConfigError, match="Unknown provider: 'nobody'. Available: ") as caught:
        await create_model_provider({"provider": "nobody"})
    assert caught.value.code is ErrorCode.PROVIDER_NOT_SUPPORTED


@pytest.mark.covers("PRV-01", "PRV-03", "MOD-02")
@pytest.mark.parametrize(
    "config",
    [
        ProviderConfig(provider="openai", api_key="k", model="m"),
        {"provider": "openai", "apiKey": "k", "model": "m"},
        {"provider": "openai", "api_key": "k", "model": "m"},
    ],
)
async def test_factory_accepts_a_typed_configuration_or_a_dict(config: Any) -> None:
    factory = get_provider_factory("openai")
    assert factory is not None
    first_model = await factory(config)
    second_model = await create_model_provider(config)

    for model in (first_model, second_model):
        assert (model.provider, model.model) == ("openai", "m")
        assert await get_key(model) == "k"


@pytest.mark.covers("PRV-02", "MOD-02", "PRV-34")
async def test_provider_is_selected_by_its_name_not_by_the_model_name() -> None:
    model = await create_model_provider({"provider": "local", "model": "gpt-5-mini"})

    assert model.provider == "local"
    with pytest.raises(ProviderConfigError, match="contains no provider") as caught:
        await create_model_provider({"model": "gpt-5-mini"})
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED


async def test_registries_are_independent() -> None:
    custom_registry = default_registry()

    async def factory(_: Any) -> ModelProvider:
        return ScriptedModel("Hi")

    custom_registry.register("mine", factory)
    custom_registry.register("openai", build=lambda _: ScriptedModel("Hi"))

    assert "mine" in custom_registry
    assert "mine" not in default_registry()
    assert (await create_model_provider({"provider": "mine"}, registry=custom_registry)).provider == "scripted"
    assert create_model("openai:x", registry=custom_registry).provider == "scripted"
    with pytest.raises(ProviderConfigError, match="await create_model_provider"):
        create_model("mine:x", registry=custom_registry)
    with pytest.raises(ValueError, match="factory or a build function"):
        custom_registry.register("nothing")


@pytest.mark.parametrize(
    ("spec", "provider", "model"),
    [
        ("openai:gpt-5-mini", "openai", "gpt-5-mini"),
        ("gpt-5-mini", "openai", "gpt-5-mini"),
        ("llama3.3:latest", "openai", "llama3.3:latest"),
        ("local:llama3.3:latest", "local", "llama3.3:latest"),
        ("local:org/model:q4", "local", "org/model:q4"),
        ("org/model", "openai", "org/model"),
        ("qwen2.5-coder:7b", "openai", "qwen2.5-coder:7b"),
        ("my-model:latest", "openai", "my-model:latest"),
        ("phi4:mini", "openai", "phi4:mini"),
        ("ft:gpt-4o-mini:org::id", "openai", "ft:gpt-4o-mini:org::id"),
        ("us.anthropic.claude-v1:0", "openai", "us.anthropic.claude-v1:0"),
        ("local", "local", None),
        ("local:", "local", None),
    ],
)
def test_model_spec_is_split_only_at_a_known_provider(spec: str, provider: str, model: str | None) -> None:
    assert default_registry().split(spec) == (provider, model)


@pytest.mark.covers("PRV-34")
@pytest.mark.parametrize(
    "spec", ["xyz:model", "bedrock:claude-sonnet", "mistral:mistral-large", "xai:grok-4", "http://host/v1", "xyz:"]
)
def test_prefix_of_an_unknown_provider_is_an_error(spec: str) -> None:
    with pytest.raises(ProviderConfigError) as caught:
        create_model(spec, api_key="k")
    assert caught.value.code is ErrorCode.PROVIDER_NOT_SUPPORTED
    assert f"For a model of openai with this name, write openai:{spec}." in str(caught.value)
    assert create_model(f"openai:{spec}", api_key="k").model == spec


@pytest.mark.parametrize("name", ["ollama", "local", "compatible"])
def test_any_tag_is_a_model_of_a_host_without_catalog(name: str) -> None:
    registry = default_registry()
    registry.default = name

    assert registry.split("xyz:model") == (name, "xyz:model")


@pytest.mark.covers("PRV-34")
@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("antropic:claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
        ("opnai:gpt-5", "openai:gpt-5"),
        ("open-ai:gpt-5", "openai:gpt-5"),
        ("OpenAI:gpt-5", "openai:gpt-5"),
        ("gorq:llama3:8b", "groq:llama3:8b"),
        ("olama:llama3.3:latest", "ollama:llama3.3:latest"),
        ("ollama3:8b", "ollama:8b"),
    ],
)
def test_misspelled_provider_is_an_error_with_the_meant_name(
    spec: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    for create in (create_model, Agent):
        with pytest.raises(ProviderConfigError, match=f"Did you mean {meant}\\?") as caught:
            create(spec)
        assert caught.value.code is ErrorCode.PROVIDER_NOT_SUPPORTED
    assert create_model(f"openai:{spec}").model == spec


@pytest.mark.parametrize(
    "name",
    [
        *(
            "llama3.3",
            "llama3",
            "llama2",
            "llama",
            "codellama",
            "llava",
            "gemma3",
            "gemini-3-flash-preview",
            "grok",
            "openchat",
        ),
        *(
            "mixtral",
            "qwen3",
            "qwen2.5-coder",
            "deepseek-r1",
            "opencoder",
            "phi4",
            "gpt-oss",
            "openai/gpt-oss",
            "codeqwen",
        ),
    ],
)
def test_model_names_with_tags_are_not_misspelled_providers(name: str) -> None:
    custom_registry = default_registry()
    for provider in ("mistral", "qwen", "deepseek"):
        custom_registry.register(provider, build=lambda _: ScriptedModel("Hi"))

    assert custom_registry.split(f"{name}:latest") == ("openai", f"{name}:latest")


def test_default_provider_can_be_changed() -> None:
    custom_registry = ProviderRegistry("local")
    custom_registry.register("local", build=lambda config: ScriptedModel("Hi", model=config.model or "?"))

    assert create_model("llama3.3:latest", registry=custom_registry).model == "llama3.3:latest"


# --- configuration and keys --------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-06", "MOD-10", "PRV-36")
async def test_openai_has_defaults_and_ignores_empty_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    model = as_http_model(create_model("openai", base_url="", api_key=" ", model="", max_output_tokens=""))

    assert (model.provider, model.model) == ("openai", "gpt-5-mini")
    assert model.profile.base_url == "https://api.openai.com/v1"
    assert model.profile.dialect.max_tokens_field == "max_completion_tokens"
    assert await get_key(model) == "from-environment"
    typed = as_http_model(await create_model_provider(ProviderConfig(provider="openai", base_url=" ")))
    assert typed.profile.base_url == "https://api.openai.com/v1"
    other = as_http_model(create_model("openai:m", base_url="http://127.0.0.1:1/v1/", api_key="k"))
    assert other.profile.base_url == "http://127.0.0.1:1/v1"
    assert other.profile.dialect == ChatCapabilities(text_markup=True)


@pytest.mark.covers("PRV-05")
@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("azure", "AZURE_OPENAI_API_KEY"),
        ("gemini", "GOOGLE_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
        ("github", "GITHUB_TOKEN"),
        ("foundry", "AZURE_FOUNDRY_API_KEY"),
    ],
)
def test_key_comes_from_the_configuration_or_the_environment(provider: str, variable: str) -> None:
    home = "https://api.example.com/v1"

    def key(value: str | None, environment: Mapping[str, str]) -> str:
        return require_key(provider, value, base_url=home, home=home, environment=environment)

    assert key(None, {variable: "env"}) == "env"
    assert key("", {variable: " env\n"}) == "env"
    assert key("own", {variable: "env"}) == "own"
    with pytest.raises(ProviderConfigError, match=f"{variable}.*providers.{provider}.apiKey") as caught:
        key(None, {variable: "  "})
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED
    assert variable in KEY_VARIABLES[provider]


@pytest.mark.covers("PRV-04")
async def test_missing_settings_are_reported_before_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for config in ({"provider": "openai"}, {"provider": "openai", "api_key": ""}):
        with pytest.raises(ProviderConfigError, match="OPENAI_API_KEY") as caught:
            await create_model_provider(config)
        assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED
    with pytest.raises(ProviderConfigError, match="OPENAI_COMPATIBLE_BASE_URL"):
        create_model("compatible:m", api_key="k")
    with pytest.raises(ProviderConfigError, match="Missing model"):
        create_model("compatible", base_url="http://h/v1", api_key="k")
    with pytest.raises(ProviderConfigError, match="must start with http"):
        create_model("openai:m", base_url="api.openai.com", api_key="k")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    for provider in ("openai", "compatible"):  # The address is wrong, not the key.
        with pytest.raises(ProviderConfigError, match=f"base URL of {provider} must start with http"):
            create_model(f"{provider}:m", base_url="host:8000")
        with pytest.raises(ProviderConfigError, match="and contain a host: 'http://'"):
            create_model(f"{provider}:m", base_url="http://")
    monkeypatch.setenv("OPENAI_BASE_URL", "foo")
    with pytest.raises(ProviderConfigError, match="base URL of openai, OPENAI_BASE_URL, must start with http"):
        create_model("openai:m")


async def test_environment_key_is_not_sent_to_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    with pytest.raises(ProviderConfigError, match="belongs to api.openai.com and is not sent to other hosts"):
        create_model("openai:m", base_url="https://gateway.example/v1")
    assert await get_key(create_model("openai:m", base_url="http://localhost:9/v1")) == "secret"
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    model = as_http_model(create_model("openai:m"))
    assert model.profile.base_url == "https://gateway.example/v1"
    assert await get_key(model) == "secret"


async def test_key_can_be_a_function() -> None:
    async def fetch() -> str:
        return "fetched"

    assert await get_key(create_model("openai:m", api_key=fetch)) == "fetched"


def test_settings_reach_the_model() -> None:
    model = as_http_model(
        create_model(
            "openai:some-model",
            api_key="k",
            base_url="http://h/v1/chat/completions?api-version=1",
            headers={"x-team": "blue"},
            contextWindow=1000,
            max_output_tokens=50,
            vision=False,
            connect_timeout=1,
            firstByteTimeout=0,
            idle_timeout=2,
            dialect={"stream_usage": False},
        )
    )

    profile = model.profile
    assert (profile.base_url, profile.query) == ("http://h/v1", "api-version=1")
    assert (profile.info.context_window, profile.info.vision, profile.max_output_tokens) == (1000, False, 50)
    assert profile.headers == {"x-team": "blue"}
    assert profile.dialect == ChatCapabilities(stream_usage=False, text_markup=True)
    assert model._timeouts == Timeouts(1, None, 2)
    assert to_provider_config({"region": "eu", "extra": {"a": 1}}).extra == {"region": "eu", "a": 1}


@pytest.mark.parametrize(
    "invalid",
    [
        {"base_url": 5},
        {"headers": "x"},
        {"idle_timeout": "soon"},
        {"dialect": {"strem_usage": True}},
        {"dialect": {"stop": "x"}},
    ],
)
def test_setting_of_the_wrong_type_is_rejected(invalid: dict[str, Any]) -> None:
    with pytest.raises(ProviderConfigError, match="openai"):
        create_model("openai:m", api_key="k", **invalid)


def test_get_setting_returns_the_first_value_found() -> None:
    assert get_setting(" own ", "A", environment={"A": "a"}) == "own"
    assert get_setting("", "A", "B", environment={"A": " ", "B": "b"}) == "b"
    assert get_setting(None, "A", environment={}) is None


# --- local servers -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-19")
async def test_local_provider_needs_no_settings() -> None:
    model = as_http_model(create_model("local"))

    assert (model.provider, model.model) == ("local", "llama3.3:latest")
    assert model.profile.base_url == "http://localhost:11434/v1"
    assert await get_key(model) == "not-needed"
    assert model._timeouts.idle is None


@pytest.mark.covers("PRV-20")
@pytest.mark.parametrize("path", ["/v1", "/engines/llama.cpp/v1"])
async def test_local_provider_works_with_any_compatible_server(path: str) -> None:
    answer = sse(chunk({"content": "Hi"}), chunk({}, "stop"))
    async with serve(plain(answer, **{"content-type": "text/event-stream"})) as server:
        model = create_model("local:some-model", base_url=f"{server.url}{path}", context_window=8192)
        assert (await model.complete(ModelRequest([Message.user("Hi")]))).text == "Hi"

    [request] = server.requests
    assert request.target == f"{path}/chat/completions"
    assert request.headers["authorization"] == "Bearer not-needed"
    assert json.loads(request.body)["model"] == "some-model"


@pytest.mark.covers("PRV-31")
async def test_unreachable_local_server_is_a_network_error() -> None:
    with pytest.raises(NetworkError) as caught:
        await create_model("local", base_url="http://127.0.0.1:1/v1").complete(ModelRequest([Message.user("Hi")]))

    assert caught.value.code is ErrorCode.NETWORK_ERROR
    assert caught.value.provider == "local"


@pytest.mark.covers("PRV-20")
async def test_running_local_servers_are_detected_concurrently() -> None:
    models = plain(b'{"object":"list","data":[{"id":"a"},{"id":"b"}]}')
    last_asked = asyncio.Event()

    def respond_last(_: Received) -> Answer:
        last_asked.set()
        return plain(b'{"data":[]}')

    async with (
        serve(models) as first,
        serve([last_asked, *models]) as slow,
        serve(plain(b"<html>not a model server</html>")) as other,
        serve(plain(b"{}")) as empty,
        serve(plain(b'{"data":[]}', "401 Unauthorized")) as closed,
        serve(respond_last) as bare,
    ):
        servers = [
            LocalServer(n, f"{s.url}/v1")
            for n, s in zip("123456", (slow, first, other, empty, closed, bare), strict=True)
        ]
        found = await detect_local_servers([*servers, LocalServer("none", "http://127.0.0.1:1/v1")], timeout=120)

    assert found == [
        LocalServer("1", f"{slow.url}/v1", ("a", "b")),
        LocalServer("2", f"{first.url}/v1", ("a", "b")),
        LocalServer("6", f"{bare.url}/v1", ()),
    ]
    assert first.requests[0].target == "/v1/models"
    assert "authorization" not in first.requests[0].headers


async def test_local_server_that_does_not_respond_is_left_out() -> None:
    async with serve([600.0]) as server:
        assert await detect_local_servers([LocalServer("x", server.url)], timeout=0.05) == []


@pytest.mark.covers("PRV-20")
def test_known_servers_include_the_common_ones() -> None:
    assert {s.base_url for s in KNOWN_SERVERS} >= {
        "http://localhost:11434/v1",
        "http://localhost:1234/v1",
        "http://localhost:8080/v1",
        "http://model-runner.docker.internal/engines/llama.cpp/v1",
    }


async def test_server_detection_uses_the_provided_transport() -> None:
    transport = MemoryTransport(MemoryResponse(b'{"data":[{"id":"a"}]}'))

    found = await detect_local_servers([LocalServer("x", "http://h/v1")], transport=transport)

    assert found == [LocalServer("x", "http://h/v1", ("a",))]
    assert not transport.closed
    await asyncio.sleep(0)


# --- the catalog -------------------------------------------------------------------------------------------------------


def test_model_without_reasoning_has_no_efforts() -> None:
    assert as_http_model(create_model("openai:gpt-4o", api_key="k")).profile.dialect.efforts == ()
    assert as_http_model(create_model("openai:gpt-5", api_key="k")).profile.dialect.efforts != ()


def test_configuration_errors_are_model_errors() -> None:
    with pytest.raises(ModelError):
        create_model("openai:m")
