"""Azure OpenAI: the URL of a deployment, its protocol, and its credentials."""

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import ErrorCode, ModelNotFoundError, ProviderConfigError
from mainspring.messages import Message
from mainspring.models import (
    HttpModel,
    LLMClient,
    ModelProvider,
    ProviderConfig,
    ProviderRegistry,
    RetryConfig,
    create_model,
    create_model_provider,
    default_registry,
    is_model_error,
)
from mainspring.models.auth import ApiKey, AzureCliCredential, EntraIdCredential, FirstCredential, KeyVaultSecret
from mainspring.models.port import ModelRequest
from mainspring.models.providers import azure, http as versions
from mainspring.models.providers.azure import deployment_map
from tests.unit.models.auth.test_azure import fake_az, print_token
from tests.unit.models.responses_wire import completed, sse as responses_sse, text_item
from tests.unit.models.server import chunked, plain, serve
from tests.unit.models.wire import chunk, sse

ROOT = "https://r.openai.azure.com"
NOT_FOUND = (
    b'{"error":{"type":"invalid_request_error","code":"DeploymentNotFound","message":"The API deployment for this resource '
    b'does not exist."}}'
)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = [*azure.URL_VARIABLES, azure.RESOURCE_VARIABLE, *azure.DEPLOYMENT_VARIABLES]
    for name in [*names, azure.VERSION_VARIABLE, azure.MAP_VARIABLE, "AZURE_OPENAI_API_KEY"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def as_http_model(model: ModelProvider) -> HttpModel:
    assert isinstance(model, HttpModel)
    return model


def url_of(model: ModelProvider) -> str:
    http_model = as_http_model(model)
    return http_model._protocol.url(http_model.profile)


async def auth_headers(model: ModelProvider) -> dict[str, str]:
    """Return the authentication headers."""
    http_model = as_http_model(model)
    headers = http_model._headers(http_model.profile, await http_model._get_credential())
    return {name: headers[name] for name in ("api-key", "authorization") if name in headers}


# --- URLs --------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-08", "PRV-35")
async def test_endpoint_deployment_and_key_create_a_chat_model() -> None:
    model = create_model("azure", endpoint=f"{ROOT}/", deployment="my gpt", apiKey="k")

    assert url_of(model) == f"{ROOT}/openai/deployments/my%20gpt/chat/completions?api-version=2024-06-01"
    assert await auth_headers(model) == {"api-key": "k"}
    assert (model.provider, model.model) == ("azure", "my gpt")
    assert versions.AZURE_CHAT == "2024-06-01"
    caps = [
        as_http_model(
            create_model("azure", endpoint=ROOT, deployment=name, api_key="k")
        ).profile.dialect.max_tokens_field
        for name in ("gpt-4o", "gpt-5-mini", "my gpt")
    ]
    assert caps == ["max_tokens", "max_completion_tokens", "max_completion_tokens"]


@pytest.mark.covers("PRV-11", "PRV-12", "PRV-35")
def test_resource_or_v1_base_url_creates_a_responses_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"{ROOT}/openai/v1/responses?api-version=2024-12-01-preview"

    assert url_of(create_model("azure:gpt-5", resourceName="r", api_key="k")) == url
    assert url_of(create_model("azure:gpt-5", base_url=f"{ROOT}/openai/v1/", api_key="k")) == url
    monkeypatch.setenv("AZURE_OPENAI_RESOURCE_NAME", "r")
    assert url_of(create_model("azure:gpt-5", api_key="k")) == url
    monkeypatch.setenv("AZURE_OPENAI_BASE_URL", "https://other.openai.azure.com/openai/v1")
    assert url_of(create_model("azure:gpt-5", api_key="k")) == url.replace("//r.", "//other.")
    assert versions.AZURE_RESPONSES == "2024-12-01-preview"


@pytest.mark.covers("PRV-12", "MOD-33")
def test_api_version_and_deployment_names_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_VERSION", "2025-01-01")
    monkeypatch.setenv("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", " gpt-5 = prod-5 , gpt-4o=prod-4o,")

    model = create_model("azure:gpt-4o", endpoint=ROOT, api_key="k")

    assert url_of(model) == f"{ROOT}/openai/deployments/prod-4o/chat/completions?api-version=2025-01-01"
    assert (model.model, model.info.context_window) == ("prod-4o", 128_000)
    assert create_model("azure:other", endpoint=ROOT, api_key="k").model == "other"
    custom = create_model(
        "azure:gpt-4o", endpoint=ROOT, api_key="k", api_version="v9", deploymentNameMap={"gpt-4o": "mine"}
    )
    assert url_of(custom).endswith("/deployments/mine/chat/completions?api-version=v9")
    monkeypatch.setenv("AZURE_OPENAI_DEPLOYMENT", "from-environment")
    assert create_model("azure", endpoint=ROOT, api_key="k").model == "from-environment"
    assert create_model("azure", endpoint=ROOT, api_key="k", deployment="own").model == "own"


@pytest.mark.covers("PRV-12")
def test_deployment_map_is_validated() -> None:
    assert deployment_map("a=b,c=d") == {"a": "b", "c": "d"}
    assert deployment_map(" a = b ,, c=d=e ") == {"a": "b", "c": "d=e"}
    assert deployment_map(None) == deployment_map("") == {}
    for fail in ("a", "a=", "=b", "a=b,c"):
        with pytest.raises(ProviderConfigError, match="Use the form"):
            deployment_map(fail)


@pytest.mark.covers("PRV-10")
@pytest.mark.parametrize(
    ("settings", "protocol"),
    [
        ({"endpoint": ROOT, "deployment": "gpt-4o"}, "chat_completions"),
        ({"endpoint": ROOT, "deployment": "gpt-5.1-codex-max"}, "responses"),
        ({"endpoint": ROOT, "deployment": "o3-pro"}, "responses"),
        ({"endpoint": ROOT, "model": "gpt-5-pro", "deploymentNameMap": "gpt-5-pro=big"}, "responses"),
        ({"endpoint": ROOT, "deployment": "my-professional-gpt"}, "chat_completions"),
        ({"endpoint": ROOT, "deployment": "gpt-4o", "api": "responses"}, "responses"),
        ({"endpoint": ROOT, "deployment": "gpt-5-codex", "api": "chat"}, "chat_completions"),
        ({"resourceName": "r", "deployment": "gpt-4o"}, "responses"),
        ({"resourceName": "r", "deployment": "gpt-4o", "api": "chat"}, "chat_completions"),
    ],
)
def test_protocol_depends_on_the_deployment_unless_it_is_set(settings: dict[str, Any], protocol: str) -> None:
    assert as_http_model(create_model("azure", api_key="k", **settings))._protocol.name == protocol


@pytest.mark.parametrize(
    "url",
    [
        ROOT,
        f"{ROOT}/openai",
        f"{ROOT}/openai/v1",
        f"{ROOT}/openai/v1/responses",
        f"{ROOT}/openai/deployments/x/chat/completions?api-version=1",
    ],
)
def test_any_url_of_a_resource_is_accepted(url: str) -> None:
    model = create_model("azure", endpoint=url, deployment="d", api_key="k", api="chat")

    assert as_http_model(model).profile.base_url == f"{ROOT}/openai/deployments/d"


@pytest.mark.covers("PRV-32", "PRV-04")
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"deployment": "d", "api_key": "k"}, "Missing resource of provider azure. Set AZURE_OPENAI_BASE_URL"),
        ({"endpoint": "", "deployment": "d", "api_key": "k"}, "Missing resource"),
        ({"endpoint": ROOT, "api_key": "k"}, "Missing deployment"),
        ({"endpoint": ROOT, "deployment": " ", "api_key": "k"}, "Missing deployment"),
        ({"endpoint": ROOT, "deployment": "d"}, "AZURE_OPENAI_API_KEY.*az login.*mainspring\\[azure\\]"),
        ({"endpoint": "r.azure.com", "deployment": "d", "api_key": "k"}, "must start with http"),
        ({"endpoint": ROOT, "deployment": "d", "api_key": "k", "api": "soap"}, "Use chat, responses, or auto"),
        ({"endpoint": ROOT, "deployment": "d", "auth": "magic"}, "Use one of auto"),
        ({"endpoint": ROOT, "deployment": "d", "auth": "key_vault"}, "vaultUrl and secretName"),
        ({"endpoint": ROOT, "deployment": 5, "api_key": "k"}, "Invalid setting `deployment`"),
    ],
)
async def test_missing_or_invalid_setting_is_reported(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ProviderConfigError, match=text) as caught:
        await create_model_provider({"provider": "azure", **settings})

    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED


@pytest.mark.covers("PRV-32", "PRV-05")
async def test_typed_configuration_and_environment_variables_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "from-environment")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", ROOT)
    config = ProviderConfig(provider="azure", model="gpt-4o")

    assert await auth_headers(await create_model_provider(config)) == {"api-key": "from-environment"}
    config.api_key = "own"
    assert await auth_headers(await create_model_provider(config)) == {"api-key": "own"}
    with pytest.raises(ProviderConfigError, match="not sent to other hosts"):
        create_model("azure:gpt-4o", endpoint="https://gateway.example")


@pytest.mark.covers("PRV-15")
def test_registry_with_only_azure_works() -> None:
    only = ProviderRegistry(default="azure")
    only.register("azure", build=azure.build)

    assert only.names() == ["azure"]
    model = create_model("gpt-4o", registry=only, endpoint=ROOT, api_key="k")
    assert (model.provider, model.model) == ("azure", "gpt-4o")
    with pytest.raises(ProviderConfigError, match="Unknown provider: 'openai'"):
        only.factory("openai")


# --- credentials -------------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-09")
async def test_credential_order_is_configuration_environment_az(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    fake_az(tmp_path / "bin", print_token(expires_on=9e9))
    settings: dict[str, Any] = {"endpoint": ROOT, "deployment": "d"}

    assert await auth_headers(create_model("azure", **settings)) == {"authorization": "Bearer tok"}
    assert isinstance(as_http_model(create_model("azure", **settings, auth="cli"))._credential, AzureCliCredential)
    with pytest.raises(ProviderConfigError, match="No API key for azure"):
        create_model("azure", **settings, auth="key")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "from-environment")
    assert await auth_headers(create_model("azure", **settings)) == {"api-key": "from-environment"}
    assert await auth_headers(create_model("azure", **settings, api_key="own")) == {"api-key": "own"}


@pytest.mark.covers("PRV-13")
async def test_auth_setting_selects_the_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"endpoint": ROOT, "deployment": "d"}

    def credential_of(**more: Any) -> Any:
        return as_http_model(create_model("azure", **settings, **more))._credential

    assert isinstance(credential_of(auth="entra"), EntraIdCredential)
    assert not credential_of(auth="entra")._managed
    assert isinstance(credential_of(auth="managed-identity", clientId="c"), EntraIdCredential)
    assert credential_of(auth="managed-identity")._managed
    assert isinstance(credential_of(auth="key_vault", vaultUrl="https://v", secretName="s"), KeyVaultSecret)
    monkeypatch.setattr(azure, "is_identity_package_installed", lambda: True)
    assert isinstance(credential_of(), EntraIdCredential)
    monkeypatch.setattr(azure, "is_azure_cli_installed", lambda: True)
    assert isinstance(credential_of(), FirstCredential)


@pytest.mark.covers("MOD-35", "PRV-13")
async def test_key_function_can_return_a_key_or_a_token() -> None:
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"
    for key, header in (("k", {"api-key": "k"}), (token, {"authorization": f"Bearer {token}"})):
        model = create_model("azure", endpoint=ROOT, deployment="d", api_key=lambda key=key: key)
        assert await auth_headers(model) == header
    credential_of = ApiKey("own")
    for api in ("chat", "responses"):
        model = as_http_model(create_model("azure", endpoint=ROOT, deployment="d", api_key=credential_of, api=api))
        assert model._credential is credential_of
        assert await auth_headers(model) == {"api-key": "own"}


# --- over HTTP ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("STR-12", "PRV-10")
async def test_deployment_responds_over_both_protocols() -> None:
    chat = chunked(sse(chunk({"content": "Hi"}), chunk({}, "stop")))
    responses = chunked(responses_sse(completed(text_item("Hello"))))
    async with serve(chat, responses) as server:
        settings: dict[str, Any] = {"endpoint": server.url, "deployment": "d", "api_key": "k"}
        first = await create_model("azure", **settings).complete(ModelRequest([Message.user("Hi")]))
        second = await create_model("azure", **settings, api="responses").complete(
            ModelRequest([Message.user("Hi")], session_id="s")
        )

    assert (first.text, second.text) == ("Hi", "Hello")
    assert [r.target for r in server.requests] == [
        "/openai/deployments/d/chat/completions?api-version=2024-06-01",
        "/openai/v1/responses?api-version=2024-12-01-preview",
    ]
    assert {r.headers["api-key"] for r in server.requests} == {"k"}
    sent = json.loads(server.requests[1].body)
    assert (sent["model"], sent["prompt_cache_key"], sent["store"]) == ("d", "s", False)


@pytest.mark.covers("PRV-31")
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_missing_deployment_is_a_model_not_found_error(api: str) -> None:
    async with serve(plain(NOT_FOUND, "404 Not Found")) as server:
        model = create_model("azure", endpoint=server.url, deployment="nope", api_key="k", api=api)
        with pytest.raises(ModelNotFoundError) as caught:
            await model.complete(ModelRequest([Message.user("Hi")]))
    assert caught.value.code is ErrorCode.MODEL_NOT_FOUND


@pytest.mark.covers("PRV-32", "MOD-20", "MOD-33")
async def test_client_reports_the_deployment_and_returns_errors_as_failures() -> None:
    registry = default_registry()

    def fail(config: ProviderConfig) -> ModelProvider:
        raise RuntimeError("the constructor failed")

    registry.register("azure", build=fail)
    credential_of = {"provider": "azure", "endpoint": ROOT, "deployment": "d", "api_key": "k"}
    result = await LLMClient(credential_of, registry=registry).invoke("Hi")
    assert is_model_error(result)
    assert "the constructor failed" in result.message
    missing = await LLMClient({"provider": "azure"}).invoke("Hi")
    assert is_model_error(missing)
    assert missing.error is ErrorCode.PROVIDER_NOT_CONFIGURED

    async with serve(chunked(sse(chunk({"content": "Hi"}), chunk({}, "stop")))) as server:
        client = LLMClient({**credential_of, "endpoint": server.url}, retry_config=RetryConfig(enabled=False))
        await client.invoke("Hi")
        assert client.get_model_name() == "d"
        await client.invoke("Hi", deployment="other", api_version="2030-01-01")
    assert server.requests[1].target == "/openai/deployments/other/chat/completions?api-version=2030-01-01"
