"""OpenAI over both of its protocols."""

import json
from typing import Any

import pytest

from mainspring.errors import AuthenticationError, ErrorCode, ProviderConfigError
from mainspring.messages import Message
from mainspring.models import HttpModel, LLMClient, ModelProvider, create_model, default_registry, is_model_error
from mainspring.models.port import ModelRequest
from mainspring.models.providers.http import requires_responses_api
from tests.unit.models.responses_wire import completed, sse, text_item
from tests.unit.models.server import chunked, plain, serve

ASK = ModelRequest([Message.user("Hi")], session_id="s1", thinking="low")


def create_http_model(spec: str, **settings: Any) -> HttpModel:
    model = create_model(spec, api_key="k", **settings)
    assert isinstance(model, HttpModel)
    return model


@pytest.mark.covers("PRV-06")
@pytest.mark.parametrize(
    ("model", "settings", "protocol"),
    [
        ("gpt-5-mini", {}, "chat_completions"),
        ("gpt-5-mini", {"api": "responses"}, "responses"),
        ("gpt-5-mini", {"api": "Chat"}, "chat_completions"),
        ("gpt-5.3-codex", {}, "responses"),
        ("o3-pro-2025-06-10", {}, "responses"),
        ("gpt-5-pro", {"api": "chat"}, "chat_completions"),
        ("o4-mini-deep-research", {}, "responses"),
        ("computer-use-preview", {"api": ""}, "responses"),
    ],
)
def test_chat_completions_is_used_unless_the_model_needs_responses(
    model: str, settings: dict[str, Any], protocol: str
) -> None:
    assert create_http_model(f"openai:{model}", **settings)._protocol.name == protocol


def test_similar_model_names_do_not_need_the_responses_api() -> None:
    for name in ("gpt-4o", "gpt-5", "prose-writer", "gemini-2.5-pro", "my-o3-production", "approval"):
        assert not requires_responses_api(name)


@pytest.mark.covers("STR-12", "CAC-09", "MOD-36")
async def test_request_over_the_responses_api() -> None:
    async with serve(chunked(sse(completed(text_item("Hello"))))) as server:
        answer = await create_http_model(
            "openai:gpt-5-mini", api="responses", base_url=f"{server.url}/v1/responses"
        ).complete(ASK)

    assert answer.text == "Hello"
    assert server.requests[0].target == "/v1/responses"
    assert server.requests[0].headers["authorization"] == "Bearer k"
    body = json.loads(server.requests[0].body)
    assert body["reasoning"]["effort"] == "low"
    assert "prompt_cache_key" not in body  # The capabilities of this host are unknown.
    openai_profile = create_http_model("openai:gpt-5-mini", api="responses").profile
    assert openai_profile.responses.prompt_cache_key
    assert openai_profile.responses.strict_tools is False
    assert create_http_model("openai:gpt-4o", api="responses").profile.responses.efforts == ()


@pytest.mark.covers("PRV-31", "PRV-32")
async def test_invalid_key_and_invalid_setting_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = plain(b'{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}', "401 Unauthorized")
    async with serve(refusal) as server:
        with pytest.raises(AuthenticationError):
            await create_http_model("openai", api="responses", base_url=server.url).complete(ASK)
    with pytest.raises(ProviderConfigError, match="Use chat, responses, or auto"):
        create_http_model("openai", api="soap")
    with pytest.raises(ProviderConfigError, match="unknown: developer_role"):
        create_http_model("openai", api="responses", dialect={"developer_role": True})
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = await LLMClient({"provider": "openai", "api": "responses"}).invoke("Hi")
    assert is_model_error(result)
    assert result.error is ErrorCode.PROVIDER_NOT_CONFIGURED


@pytest.mark.covers("PRV-32")
@pytest.mark.parametrize("error", [KeyError("x"), ConnectionRefusedError("connection refused")])
async def test_constructor_error_is_a_failure(error: Exception) -> None:
    registry = default_registry()

    def fail(config: object) -> ModelProvider:
        raise error

    registry.register("openai", build=fail)
    result = await LLMClient("openai:m", registry=registry).invoke("Hi")

    assert is_model_error(result)
    assert result.error in (ErrorCode.UNKNOWN, ErrorCode.NETWORK_ERROR)
