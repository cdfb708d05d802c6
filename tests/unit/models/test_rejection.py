"""Errors 401, 403, and 404 of every provider: they name provider, model, credentials, and the command to run next."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import pytest

from mainspring.errors import AuthenticationError, ErrorCode, ModelError
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.rejection import add_advice, read_rejection

HOSTS = [name for name, profile in PROVIDERS.items() if profile.protocols] + ["my-proxy"]
"""The providers with requests over HTTP, and one that only settings name."""


@dataclass
class Rejection:
    """A response with an error."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    async def chunks(self) -> AsyncIterator[bytes]:
        yield json.dumps({"error": {"message": self.message}}).encode()


async def reject(
    provider: str, status: int, message: str, *, model: str = "m-1", path: str = "/v1/chat/completions"
) -> ModelError:
    url = f"https://host.test{path}"
    return add_advice(await read_rejection(Rejection(status, message), url, (), provider=provider, model=model), url)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("provider", HOSTS)
async def test_rejected_credentials_name_what_to_set_and_to_run(provider: str, status: int) -> None:
    error = await reject(provider, status, "no")

    profile = PROVIDERS.get(provider)
    assert isinstance(error, AuthenticationError)
    assert error.message.startswith(f"no (HTTP {status}, {provider}, host.test). ")
    assert "the model m-1" in str(error)
    assert "`mainspring check`" in str(error)
    if profile is not None and profile.login:
        assert f"`mainspring login {provider}`" in str(error)
        return
    assert f"providers.{provider}.apiKey" in str(error)
    assert all(name in str(error) for name in (profile.key_variables if profile else ()))
    assert profile is None or f"`{profile.login_command}`" in str(error) or not profile.login_command


@pytest.mark.parametrize("provider", HOSTS)
async def test_unknown_model_names_the_list_of_models(provider: str) -> None:
    error = await reject(provider, 404, "The model m-1 does not exist")

    assert error.code is ErrorCode.MODEL_NOT_FOUND
    assert f"{provider} does not offer the model m-1 to you." in str(error)
    assert "`mainspring models` lists" in str(error)


@pytest.mark.parametrize("provider", HOSTS)
async def test_wrong_base_url_is_not_an_unknown_model(provider: str) -> None:
    error = await reject(provider, 404, "Not Found", path="/chat/completions")

    assert error.code is ErrorCode.UNKNOWN
    assert "Nothing was found at https://host.test/chat/completions, so the base URL" in str(error)
    assert f"providers.{provider}.baseUrl, perhaps to https://host.test/v1." in str(error)
    assert "m-1" in str(error)
    assert "`mainspring check`" in str(error)
    assert "perhaps" not in str(await reject(provider, 404, "Not Found"))
    profile = PROVIDERS.get(provider)
    assert all(name in str(error) for name in (profile.url_variables if profile else ()))


@pytest.mark.parametrize(
    ("provider", "model", "similar"),
    [("openai", "gpt-5-mni", "gpt-5-mini"), ("anthropic", "claude-sonet-4-5", "claude-sonnet-4-5")],
)
async def test_similar_models_are_suggested(provider: str, model: str, similar: str) -> None:
    error = await reject(provider, 404, f"The model {model} does not exist", model=model)

    assert similar in str(error).partition("Similar models: ")[2]


async def test_other_rejections_have_no_such_advice() -> None:
    for status in (400, 422, 429, 500):
        assert "mainspring" not in str(await reject("openai", status, "no"))


async def test_proxy_without_credentials_is_not_a_rejected_key() -> None:
    error = await reject("openai", 407, "no")

    assert (error.reason, error.retryable) == ("proxy", False)
    assert "set HTTPS_PROXY to http://USER:PASSWORD@PROXY:PORT, or add host.test to NO_PROXY" in str(error)
    assert "OPENAI_API_KEY" not in str(error)


async def test_blocked_model_names_the_list_of_models() -> None:
    error = await reject("openai", 451, "no")

    assert "openai may not serve the model m-1 to you or in your region" in str(error)
    assert "`mainspring models` lists other models" in str(error)


@pytest.mark.parametrize("source", ["apiKeyCommand", "apiKeyFile", "apiKeyKeyring"])
async def test_rejected_key_of_a_setting_names_the_setting(source: str) -> None:
    url = "https://host.test/v1"
    refusal = await read_rejection(Rejection(401, "expired"), url, (), provider="openai", model="m-1")

    text = str(add_advice(refusal, url, source))

    assert f"the key from the setting providers.openai.{source}, which was read again" in text
    assert "OPENAI_API_KEY" not in text
