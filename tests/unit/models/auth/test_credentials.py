"""Keys, variables, and functions as credentials, and their use in a model."""

from collections.abc import Mapping
from typing import Any

import pytest

from mainspring.errors import AuthenticationError, ProviderConfigError
from mainspring.messages import Message
from mainspring.models import ProviderConfig, create_model, create_model_provider
from mainspring.models.auth import ApiKey, CallableKey, CredentialResolver, EnvironmentKey, FirstCredential
from mainspring.models.auth.credentials import CredentialValue
from mainspring.models.http_model import HttpModel
from mainspring.models.port import ModelRequest
from mainspring.models.transport.recording import MemoryResponse, MemoryTransport
from mainspring.models.wire.openai_responses import ResponsesProtocol
from tests.unit.models.responses_wire import completed, profile, sse, text_item

ANSWER = MemoryResponse(sse(completed(text_item("Hi"))))
REFUSAL = MemoryResponse(b'{"error":{"message":"Bad token secret-1","code":"invalid_token"}}', 401)
ASK = ModelRequest([Message.user("Hi")])


@pytest.mark.covers("PRV-13")
async def test_each_source_is_a_resolver_and_returns_a_key_or_headers() -> None:
    sources: list[tuple[CredentialResolver, CredentialValue]] = [
        (ApiKey("k"), "k"),
        (ApiKey("k", header="api-key"), {"api-key": "k"}),
        (EnvironmentKey("A", "B", environment={"A": " ", "B": "k"}), "k"),
        (EnvironmentKey("A", header="api-key", environment={"A": "k"}), {"api-key": "k"}),
        (CallableKey(lambda: "k"), "k"),
        (CallableKey(lambda: {"x-token": "k"}), {"x-token": "k"}),
        (CallableKey(lambda: " k\n", lambda key: {"api-key": key}), {"api-key": "k"}),
    ]
    for source, given in sources:
        assert isinstance(source, CredentialResolver)
        assert await source() == given
        source.invalidate(given)
        assert await source() == given


async def test_unset_variable_is_named() -> None:
    with pytest.raises(ProviderConfigError, match="variable A or B is not set"):
        await EnvironmentKey("A", "B", environment={})()


async def test_first_credential_keeps_the_source_that_worked() -> None:
    request: list[str] = []

    async def fail() -> str:
        request.append("nothing")
        raise ProviderConfigError("not here")

    def succeed() -> str:
        request.append("something")
        return "k"

    source = FirstCredential([CallableKey(fail), CallableKey(succeed)])

    assert [await source(), await source()] == ["k", "k"]
    assert request == ["nothing", "something", "something"]
    with pytest.raises(ProviderConfigError, match="not here; variable|not here; No API key"):
        await FirstCredential([CallableKey(fail), EnvironmentKey("A", environment={})])()


@pytest.mark.covers("MOD-35")
async def test_credential_headers_are_fetched_for_each_request() -> None:
    numbers = iter("12")

    async def given() -> Mapping[str, str]:
        return {"api-key": f"k{next(numbers)}", "x-account": "a"}

    transport = MemoryTransport(ANSWER)
    model = HttpModel(profile(), ResponsesProtocol(), given, transport=transport)
    await model.complete(ASK)
    await model.complete(ASK)

    assert [(r.headers["api-key"], r.headers["x-account"]) for r in transport.requests] == [("k1", "a"), ("k2", "a")]
    assert "authorization" not in transport.requests[0].headers


class RotatingCredential:
    """A credential that returns a newer token after a rejection."""

    def __init__(self) -> None:
        self.number = 1
        self.refused: list[CredentialValue] = []

    async def __call__(self) -> CredentialValue:
        return {"authorization": f"Bearer secret-{self.number}"}

    def invalidate(self, given: CredentialValue) -> None:
        self.refused.append(given)
        self.number += 1


@pytest.mark.covers("PRV-29")
async def test_rejected_token_is_renewed_once() -> None:
    credential = RotatingCredential()
    transport = MemoryTransport(REFUSAL, ANSWER)
    model = HttpModel(profile(), ResponsesProtocol(), credential, transport=transport)

    assert (await model.complete(ASK)).text == "Hi"
    assert [r.headers["authorization"] for r in transport.requests] == ["Bearer secret-1", "Bearer secret-2"]
    assert credential.refused == [{"authorization": "Bearer secret-1"}]


async def test_token_rejected_twice_raises_an_error_without_the_token() -> None:
    transport = MemoryTransport(REFUSAL)
    model = HttpModel(
        profile(), ResponsesProtocol(), ApiKey("Bearer secret-1", header="authorization"), transport=transport
    )

    with pytest.raises(AuthenticationError) as caught:
        await model.complete(ASK)

    assert len(transport.requests) == 1
    assert "secret-1" not in str(caught.value)


class SpecResolver:
    async def get_api_key(self) -> str:
        return "SPEC"


@pytest.mark.covers("PRV-13")
@pytest.mark.parametrize("provider", ["azure", "openai", "anthropic", "gemini", "foundry", "openrouter", "ollama"])
@pytest.mark.parametrize("key", [SpecResolver(), 123, object(), ["a"], b"k"])
@pytest.mark.parametrize("base_url", ["http://127.0.0.1:9/openai/v1", "https://r.openai.azure.com/openai/v1"])
async def test_key_of_a_type_that_would_be_ignored_is_refused(provider: str, key: Any, base_url: str) -> None:
    config = ProviderConfig(provider=provider, model="m", base_url=base_url, api_key=key)
    expected = f"Invalid api_key of provider '{provider}'.*or a function"
    with pytest.raises(ProviderConfigError, match=expected) as info:
        create_model(f"{provider}:m", base_url=base_url, api_key=key)
    with pytest.raises(ProviderConfigError, match=expected):
        await create_model_provider(config)
    assert ("resolver.get_api_key" in str(info.value)) == isinstance(key, SpecResolver)


def test_method_of_a_resolver_is_a_key() -> None:
    assert create_model("azure:m", base_url="http://127.0.0.1:9/openai/v1", api_key=SpecResolver().get_api_key)
