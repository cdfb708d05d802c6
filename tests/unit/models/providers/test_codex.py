"""Codex: the models of a ChatGPT account over the Responses protocol, with a login that is refreshed."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import ErrorCode, ProviderConfigError
from mainspring.messages import ImageBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from mainspring.models import HttpModel, LLMClient, ProviderConfig, create_model, create_model_provider, is_model_error
from mainspring.models.auth import OAuthTokens, TokenFile, TokenRefreshed, token_refresh_listener
from mainspring.models.port import ModelRequest
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers import codex
from tests.unit.models.auth.test_oauth import form, given, make_web_token
from tests.unit.models.responses_wire import completed, sse, text_item
from tests.unit.models.server import Received, chunked, plain, serve

ANSWER = chunked(sse(completed(text_item("Hello"))))
ASK = ModelRequest([Message.user("Hi")], system="Be kind.")
ACCOUNT = {"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}}


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    file = TokenFile(tmp_path / "codex.json")
    file.write(OAuthTokens("good", "refresh-1", time.time() + 3600, "acc-1"))
    return file


def settings(url: str, file: TokenFile, **more: Any) -> dict[str, Any]:
    return {
        "provider": "codex",
        "base_url": f"{url}/backend-api/codex",
        "tokenFile": str(file.path),
        "issuer": url,
        **more,
    }


@pytest.mark.covers("PRV-33", "STR-12")
async def test_request_has_the_format_of_the_host(tokens: TokenFile) -> None:
    picture = ImageBlock("image/png", "QUJD")
    history = [
        Message.user("Look"),
        Message("assistant", (ToolUseBlock("c1", "shot"),)),
        Message("user", (ToolResultBlock("c1", "shot", (TextBlock("Here"), picture)),)),
    ]
    request = ModelRequest(
        history, system="Be kind.", session_id="s1", max_output_tokens=5, temperature=1, thinking="low"
    )
    async with serve(ANSWER) as server:
        model = await create_model_provider(settings(server.url, tokens))
        assert (await model.complete(request)).text == "Hello"

    sent = server.requests[0]
    assert sent.target == "/backend-api/codex/responses"
    assert sent.headers["authorization"] == "Bearer good"
    assert sent.headers["chatgpt-account-id"] == "acc-1"
    assert sent.headers["originator"] == "mainspring"
    body = json.loads(sent.body)
    assert (body["store"], body["stream"], body["instructions"]) == (False, True, "Be kind.")
    assert not {"prompt_cache_key", "max_output_tokens", "temperature"} & set(body)
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert [part["type"] for part in body["input"][-1]["output"]] == ["input_text", "input_image"]


@pytest.mark.covers("PRV-33")
async def test_default_instructions_are_sent(tokens: TokenFile) -> None:
    async with serve(ANSWER) as server:
        model = await create_model_provider(settings(server.url, tokens))
        await model.complete(ModelRequest([Message.user("Hi")]))

    assert json.loads(server.requests[0].body)["instructions"] == codex.INSTRUCTIONS


@pytest.mark.covers("PRV-29", "PRV-33")
async def test_rejected_token_is_refreshed_and_the_request_repeated(tokens: TokenFile) -> None:
    refreshes: list[TokenRefreshed] = []
    new = make_web_token(exp=time.time() + 3600, **ACCOUNT)

    def respond(request: Received) -> Any:
        if request.target == "/oauth/token":
            return given(access_token=new, refresh_token="refresh-2")
        if request.headers["authorization"] == "Bearer good":
            return plain(b'{"detail":"Could not parse your authentication token."}', "401 Unauthorized")
        return ANSWER

    async with serve(respond) as server:
        model = await create_model_provider(settings(server.url, tokens))
        with token_refresh_listener(refreshes.append):
            assert (await model.complete(ASK)).text == "Hello"

    assert [r.target for r in server.requests] == [
        "/backend-api/codex/responses",
        "/oauth/token",
        "/backend-api/codex/responses",
    ]
    assert form(server.requests[1])["refresh_token"] == "refresh-1"
    assert [(r.provider, r.account, r.reason) for r in refreshes] == [("codex", "acc-1", "refused")]
    saved = tokens.read()
    assert saved is not None
    assert saved.refresh == "refresh-2"


@pytest.mark.covers("PRV-32")
async def test_defaults_typed_configuration_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path))
    monkeypatch.delenv(codex.FILE_VARIABLE, raising=False)
    model = await create_model_provider(ProviderConfig(provider="codex"))

    assert isinstance(model, HttpModel)
    assert (model.provider, model.model) == ("codex", PROVIDERS["codex"].model)
    assert model.profile.base_url == "https://chatgpt.com/backend-api/codex"
    assert codex.token_file().path == tmp_path / "auth" / "codex.json"
    monkeypatch.setenv(codex.FILE_VARIABLE, str(tmp_path / "other.json"))
    assert codex.token_file().path == tmp_path / "other.json"
    monkeypatch.delenv(codex.FILE_VARIABLE)
    monkeypatch.delenv("MAINSPRING_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(ProviderConfigError, match="Cannot find your home directory"):
        create_model("codex")


@pytest.mark.covers("PRV-32")
async def test_missing_login_is_a_failure(tmp_path: Path) -> None:
    result = await LLMClient({"provider": "codex", "tokenFile": str(tmp_path / "none.json")}).invoke("Hi")

    assert is_model_error(result)
    assert result.error is ErrorCode.PROVIDER_NOT_CONFIGURED
    assert "mainspring login codex" in result.message
    assert "asyncio.run(login(" in (codex.__doc__ or "")
    with pytest.raises(ProviderConfigError, match="login_port"):
        codex.oauth_client(ProviderConfig(provider="codex", extra={"loginPort": "x"}))


def test_oauth_client_and_account_id() -> None:
    client = codex.oauth_client()

    assert client.token_url == "https://auth.openai.com/oauth/token"
    assert (client.port, client.path) == (1455, "/auth/callback")
    assert codex.account_id(OAuthTokens("x", id_token=make_web_token(**ACCOUNT))) == "acc-1"
    assert codex.account_id(OAuthTokens(make_web_token(**ACCOUNT))) == "acc-1"
    assert codex.account_headers(OAuthTokens("x")) == {}
