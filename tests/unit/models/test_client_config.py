"""`LLMClient.from_config`: a client of the provider that an application's configuration selects."""

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.workspace.settings.load import load_settings
from mainspring.errors import ErrorCode, ProviderConfigError
from mainspring.models import Failure, LLMClient, ProviderConfig, ProviderRegistry, RetryConfig, Success
from mainspring.testing.scripted_model import ScriptedModel

AZURE = {"endpoint": "https://r.openai.azure.com", "deployment": "team-gpt", "model": "gpt-5"}


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def built() -> list[ProviderConfig]:
    return []


@pytest.fixture
def registry(built: list[ProviderConfig]) -> ProviderRegistry:
    def build(config: ProviderConfig) -> ScriptedModel:
        built.append(config)
        return ScriptedModel("Hi", loop=True, provider=config.provider, model=config.model or "default")

    registry = ProviderRegistry("one")
    for name in ("one", "two"):
        registry.register(name, build=build)
    return registry


@pytest.mark.covers("MOD-20", "MOD-21")
@pytest.mark.parametrize(
    ("config", "provider", "model"),
    [
        ({"providers": {"default": "anthropic", "anthropic": {"model": "claude-x"}}}, "anthropic", "claude-x"),
        ({"providers": {"default": "openai"}}, "openai", "gpt-5-mini"),
        ({}, "openai", "gpt-5-mini"),
        ({"model": "gemini:models/gemini-x"}, "gemini", "gemini-x"),
        ({"model": "llama3.3:latest", "providers": {"default": "ollama"}}, "ollama", "llama3.3:latest"),
        ({"providers": {"default": "azure", "azure": AZURE}}, "azure", "team-gpt"),
        ({"providers": {"default": "azure", "azure": {"model": "m", "deploymentNameMap": "m=d"}}}, "azure", "d"),
        ({"providers": {"default": "azure"}}, "azure", ""),
        ({"providers": {"default": "foundry"}}, "foundry", "phi-4"),
        ({"providers": {"default": "foundry", "foundry": {"modelAlias": "qwen"}}}, "foundry", "qwen"),
        ({"providers": {"default": "foundry", "foundry": {"mode": "cloud"}}}, "foundry", "gpt-4o"),
        ({"providers": {"default": "foundry", "foundry": {"mode": "cloud", "modelDeployment": "d"}}}, "foundry", "d"),
        ({"providers": {"default": "mine", "mine": {"base_url": "http://h/v1", "model": "m"}}}, "mine", "m"),
    ],
)
def test_names_are_known_before_the_first_call_and_without_a_key(config: Any, provider: str, model: str) -> None:
    for client in (LLMClient.from_config(config), LLMClient({"providers": {}, **config})):
        assert (client.get_provider_name(), client.get_model_name()) == (provider, model)


@pytest.mark.covers("MOD-20")
def test_azure_deployment_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_DEPLOYMENT", "from-env")

    assert LLMClient({"provider": "azure"}).get_model_name() == "from-env"


@pytest.mark.covers("MOD-18", "MOD-21", "MOD-22")
async def test_model_is_created_at_the_first_call_and_again_when_the_default_changes(
    built: list[ProviderConfig], registry: ProviderRegistry
) -> None:
    config: dict[str, Any] = {"providers": {"default": "one", "one": {"apiKey": "k1", "maxOutputTokens": 5}, "two": {}}}
    client = LLMClient.from_config(config, registry=registry)
    assert built == []

    result = await client.invoke("Hello")
    await client.invoke("Again")

    assert isinstance(result, Success)
    assert (result.result.content, len(built)) == ("Hi", 1)
    assert (built[0].api_key, built[0].max_output_tokens) == ("k1", 5)
    config["providers"]["default"] = "two"
    await client.invoke("Hello")
    assert [each.provider for each in built] == ["one", "two"]


@pytest.mark.covers("MOD-23")
def test_retry_settings_of_the_configuration_apply_unless_others_are_passed() -> None:
    config = {"retry": {"maxRetries": 1, "base_delay_ms": 20, "enableJitter": False}}

    assert LLMClient.from_config({})._retry == RetryConfig()
    assert LLMClient({"providers": {}, **config})._retry.max_retries == 1
    assert LLMClient.from_config(config)._retry == RetryConfig(max_retries=1, base_delay_seconds=0.02, jitter=0)
    assert LLMClient.from_config({"retry": {"enabled": False}})._retry.enabled is False
    assert LLMClient.from_config(config, retry_config=RetryConfig(max_retries=7))._retry.max_retries == 7


async def test_key_of_a_command_is_fetched_once(registry: ProviderRegistry, built: list[ProviderConfig]) -> None:
    client = LLMClient.from_config({"providers": {"one": {"apiKeyCommand": "echo k2"}}}, registry=registry)

    await client.invoke("Hello")
    await client.invoke("Again")

    [config] = built
    assert await config.api_key() == "k2"


async def test_get_api_key_is_used_for_a_provider_without_a_key(
    registry: ProviderRegistry, built: list[ProviderConfig]
) -> None:
    client = LLMClient.from_config({}, registry=registry, get_api_key=lambda name: f"key of {name}")
    await client.invoke("Hello")

    assert built[0].api_key() == "key of one"


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"retry": {"maxRetry": 1}}, "retry.*maxRetry"),
        ({"retry": {"maxRetries": "many"}}, "retry"),
        ({"providers": ["openai"]}, "providers"),
    ],
)
def test_invalid_configuration_is_reported_when_the_client_is_created(config: Any, match: str) -> None:
    with pytest.raises(ProviderConfigError, match=match):
        LLMClient.from_config(config)


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"providers": {"default": "nobody"}}, ErrorCode.PROVIDER_NOT_SUPPORTED),
        ({"providers": {"default": "openai"}}, ErrorCode.PROVIDER_NOT_CONFIGURED),
        ({"providers": {"openai": {"apiKy": "k"}}}, ErrorCode.PROVIDER_NOT_CONFIGURED),
    ],
)
async def test_provider_that_cannot_be_used_is_a_failure(config: Any, code: ErrorCode) -> None:
    result = await LLMClient.from_config(config).invoke("Hello")

    assert isinstance(result, Failure)
    assert result.error is code


async def test_settings_of_the_command_are_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "providers": {"default": "azure", "azure": {**AZURE, "apiKey": "k"}, "mine": {"baseUrl": "http://h/v1"}},
        "retry": {"maxRetries": 2},
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    environ = {"MAINSPRING_HOME": str(tmp_path), "AZURE_OPENAI_DEPLOYMENT": "from-env"}

    client = LLMClient.from_config(load_settings(str(tmp_path), environ=environ).config)

    assert (client.get_provider_name(), client.get_model_name()) == ("azure", "from-env")
    assert client._retry.max_retries == 2
    model: Any = await client._models.get(client._current(), {})
    assert (model.model, model.info.context_window) == ("from-env", 272_000)
