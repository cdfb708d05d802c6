"""Foundry: Foundry Local with a fake of its package, and cloud projects."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import ErrorCode, ModelNotFoundError, ProviderConfigError
from mainspring.messages import Message
from mainspring.models import HttpModel, LLMClient, ProviderConfig, create_model, create_model_provider, is_model_error
from mainspring.models.auth import ApiKey
from mainspring.models.port import ZERO_PRICES, ModelRequest
from mainspring.models.providers.foundry import FoundryModel
from tests.unit.models.responses_wire import completed, sse as responses_sse, text_item
from tests.unit.models.server import chunked, serve
from tests.unit.models.wire import chunk, sse

ANSWER = chunked(sse(chunk({"content": "Hi"}), chunk({}, "stop")))
ASK = ModelRequest([Message.user("Hi")])

SDK = """
log = []
url = ""

class Configuration:
    def __init__(self, app_name):
        self.app_name = app_name

class _Model:
    is_cached = False
    is_loaded = False

    def __init__(self, alias):
        self.id = alias + "-generic-cpu:1"

    def download(self):
        log.append("download")
        self.is_cached = True

    def load(self):
        log.append("load")
        self.is_loaded = True

class _Catalog:
    def __init__(self):
        self.models = {}

    def get_model(self, alias):
        if alias == "broken":
            raise RuntimeError("native library failed")
        return None if alias == "unknown" else self.models.setdefault(alias, _Model(alias))

class FoundryLocalManager:
    instance = None

    def __init__(self, config):
        log.append("init " + config.app_name)
        self.catalog = _Catalog()
        self.urls = None

    @staticmethod
    def initialize(config):
        FoundryLocalManager.instance = FoundryLocalManager(config)

    def start_web_service(self):
        log.append("serve")
        self.urls = [url]
"""


@pytest.fixture(autouse=True)
def no_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "foundry_local_sdk", None)
    for name in ("AZURE_FOUNDRY_API_KEY", "AZURE_FOUNDRY_PROJECT_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_sdk: None) -> None:
    """Put a fake of foundry-local-sdk on the path."""
    (tmp_path / "foundry_local_sdk.py").write_text(SDK)
    monkeypatch.syspath_prepend(str(tmp_path))
    del sys.modules["foundry_local_sdk"]


def read_sdk_log(module: str = "foundry_local_sdk") -> list[str]:
    return sys.modules[module].log


# --- on this machine ---------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-21", "STR-12")
@pytest.mark.usefixtures("sdk")
async def test_service_starts_and_model_loads_on_the_first_request() -> None:
    async with serve(ANSWER) as server:
        model = create_model("foundry", temperature=0.3)
        assert (model.provider, model.model, model.info.prices) == ("foundry", "phi-4", ZERO_PRICES)
        assert "foundry_local_sdk" not in sys.modules
        import foundry_local_sdk  # pyright: ignore[reportMissingImports] - the stand-in

        foundry_local_sdk.url = server.url
        assert (await model.complete(ASK)).text == "Hi"
        await model.complete(ModelRequest([Message.user("Hi")], temperature=0.9))
        await create_model("foundry").complete(ASK)
        await create_model("foundry", modelAlias="qwen").complete(ASK)
        await model.aclose()

    assert read_sdk_log() == ["init mainspring", "download", "load", "serve", "download", "load"]
    sent = [json.loads(r.body) for r in server.requests]
    assert [r.target for r in server.requests] == ["/v1/chat/completions"] * 4
    assert [s["model"] for s in sent] == ["phi-4-generic-cpu:1"] * 3 + ["qwen-generic-cpu:1"]
    assert [s.get("temperature") for s in sent] == [0.3, 0.9, None, None]


@pytest.mark.covers("PRV-22", "PRV-31")
@pytest.mark.parametrize(
    ("alias", "text"), [("broken", "native library failed"), ("unknown", "does not contain the model 'unknown'")]
)
@pytest.mark.usefixtures("sdk")
async def test_failed_start_is_a_model_not_found_error(alias: str, text: str) -> None:
    with pytest.raises(ModelNotFoundError, match=text) as caught:
        await create_model("foundry", modelAlias=alias).complete(ASK)
    assert caught.value.code is ErrorCode.MODEL_NOT_FOUND
    result = await LLMClient({"provider": "foundry", "modelAlias": alias}).invoke("Hi")
    assert is_model_error(result)
    assert result.error is ErrorCode.MODEL_NOT_FOUND


@pytest.mark.covers("PRV-22")
async def test_missing_package_is_named() -> None:
    with pytest.raises(ModelNotFoundError, match=r"pip install .*\[foundry\]"):
        await create_model("foundry").complete(ASK)


# --- in the cloud ------------------------------------------------------------------------------------------------------


@pytest.mark.covers("PRV-23", "STR-12")
async def test_cloud_project_gets_its_key_in_a_header() -> None:
    async with serve(ANSWER, ANSWER, chunked(responses_sse(completed(text_item("Hello"))))) as server:
        settings = {
            "provider": "foundry",
            "mode": "cloud",
            "projectEndpoint": f"{server.url}/api/projects/p/",
            "apiKey": "k",
        }
        model = await create_model_provider(settings)
        assert isinstance(model, HttpModel)
        assert model.model == "gpt-4o"
        await model.complete(ASK)
        warm = await create_model_provider({**settings, "temperature": 0.5, "modelDeployment": "phi"})
        assert isinstance(warm, FoundryModel)
        assert warm.model == "phi"
        await warm.complete(ASK)
        other = await create_model_provider({**settings, "modelDeployment": "gpt-5-codex"})
        assert (await other.complete(ASK)).text == "Hello"

    assert [r.target for r in server.requests] == [
        "/api/projects/p/openai/v1/chat/completions",
        "/api/projects/p/openai/v1/chat/completions",
        "/api/projects/p/openai/v1/responses",
    ]
    assert {r.headers["api-key"] for r in server.requests} == {"k"}
    assert "authorization" not in server.requests[0].headers
    assert json.loads(server.requests[1].body)["temperature"] == 0.5


@pytest.mark.covers("PRV-23", "PRV-31", "PRV-32")
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mode": "cloud", "api_key": "k"}, "projectEndpoint"),
        ({"mode": "cloud", "projectEndpoint": "", "api_key": "k"}, "projectEndpoint"),
        ({"mode": "cloud", "projectEndpoint": "https://p.services.ai.azure.com"}, "AZURE_FOUNDRY_API_KEY"),
        ({"mode": "moon"}, "Use local or cloud"),
        ({"temperature": "hot"}, "temperature"),
        ({"mode": "cloud", "projectEndpoint": "p.azure.com", "api_key": "k"}, "must start with http"),
    ],
)
async def test_missing_or_invalid_setting_is_reported(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ProviderConfigError, match=text) as caught:
        await create_model_provider({"provider": "foundry", **settings})
    assert caught.value.code is ErrorCode.PROVIDER_NOT_CONFIGURED


@pytest.mark.covers("PRV-05", "PRV-32")
async def test_key_and_endpoint_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_FOUNDRY_API_KEY", "from-environment")
    monkeypatch.setenv("AZURE_FOUNDRY_PROJECT_ENDPOINT", "https://p.services.ai.azure.com/openai/v1")
    config = ProviderConfig(provider="foundry", extra={"mode": "cloud"})
    model = await create_model_provider(config)

    assert isinstance(model, HttpModel)
    assert model.profile.base_url == "https://p.services.ai.azure.com/openai/v1"
    assert model._headers(model.profile, await model._get_credential())["api-key"] == "from-environment"
    config.api_key = lambda: "asked"
    model = await create_model_provider(config)
    assert isinstance(model, HttpModel)
    assert model._headers(model.profile, await model._get_credential())["api-key"] == "asked"
    config.api_key = ApiKey("resolved")
    model = await create_model_provider(config)
    assert isinstance(model, HttpModel)
    assert model._headers(model.profile, await model._get_credential())["api-key"] == "resolved"
    with pytest.raises(ProviderConfigError, match="not sent to other hosts"):
        create_model("foundry", mode="cloud", projectEndpoint="https://gateway.example")
