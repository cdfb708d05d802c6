"""Every setting that a provider knows reaches its requests or the facts about its model; every other setting is rejected."""

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from mainspring.errors import ModelError
from mainspring.messages import ImageBlock, Message, TextBlock
from mainspring.models import HttpModel, ModelProvider, ModelRequest, create_model
from mainspring.models.config import PROVIDER_SPECIFIC_SETTINGS, known_settings
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers.foundry import FoundryModel
from mainspring.models.transport.port import Timeouts, TransportResponse
from mainspring.text import to_snake_case
from tests.rows import each_row

COMMON: dict[str, Any] = {
    "model": "another-model",
    "apiKey": "another-key",
    "baseUrl": "https://another.example/v1",
    "headers": {"x-team": "blue"},
    "contextWindow": 5432,
    "maxOutputTokens": 77,
    "vision": False,
    "prices": [1, 2],
    "knownAs": "gpt-4o",
    "models": {"model-1": {"contextWindow": 4321}},
    "connectTimeout": 3,
    "firstByteTimeout": 4,
    "idleTimeout": 5,
}
DIALECTS = {"anthropic": {"temperature": False}, "gemini": {"temperature": False}, "codex": {"temperature": True}}
OWN: dict[str, dict[str, Any]] = {
    "openai": {"api": "responses"},
    "anthropic": {
        "anthropicVersion": "2030-01-01",
        "cacheTtl": "1h",
        "contextManagement": True,
        "extraBetas": ["new"],
    },
    "gemini": {"apiVersion": "v9"},
    "azure": {
        "api": "responses",
        "apiVersion": "2030-01-01",
        "auth": "cli",
        "clientId": "client",
        "deployment": "another",
        "deploymentNameMap": {"model-1": "another"},
        "endpoint": "https://another.azure.com",
        "resourceName": "another",
        "secretName": "another",
        "vaultUrl": "https://another.vault.azure.net",
    },
    "foundry": {
        "api": "responses",
        "mode": "local",
        "modelAlias": "another",
        "modelDeployment": "another",
        "projectEndpoint": "https://another.azure.com",
        "temperature": 0.3,
    },
    "github": {"endpoint": "https://another.example/inference", "org": "mine", "token": "another-key"},
    "codex": {"clientId": "another", "issuer": "https://another.example", "loginPort": 99, "tokenFile": "another.json"},
    "ollama": {"keepAlive": "5m", "numCtx": 4321},
    "langchain": {"class": "every_setting_chat:Other", "options": {"top_p": 0.5}},
}
BASE: dict[str, dict[str, Any]] = {
    "azure": {"endpoint": "https://r.openai.azure.com"},
    "foundry": {"mode": "cloud", "projectEndpoint": "https://p.azure.com"},
    "compatible": {"baseUrl": "https://h.example/v1"},
    "codex": {"tokenFile": "tokens.json"},
    "langchain": {"class": "every_setting_chat:Chat"},
    "embedded": {"model": "qwen-coder-0.5b"},
}
NEEDS: dict[tuple[str, str], dict[str, Any]] = {
    ("azure", "baseUrl"): {"endpoint": None},
    ("azure", "resourceName"): {"endpoint": None, "baseUrl": None},
    ("azure", "clientId"): {"auth": "entra"},
    ("azure", "secretName"): {"auth": "key_vault", "vaultUrl": "https://v.vault.azure.net", "secretName": "s"},
    ("azure", "vaultUrl"): {"auth": "key_vault", "vaultUrl": "https://v.vault.azure.net", "secretName": "s"},
    ("foundry", "baseUrl"): {"projectEndpoint": None},
    ("foundry", "modelAlias"): {"mode": "local", "projectEndpoint": None},
}
"""Other settings that a setting needs to have an effect."""

VALUES = {("embedded", "model"): "qwen-coder-1.5b", ("embedded", "contextWindow"): 4096}
REJECTED = {("gemini", "useVertexai"): True}
"""Settings whose only value that means something is rejected with instructions."""

CHAT = """
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

class Chat(GenericFakeChatModel):
    messages: object = None
    model: str = ""
    api_key: str = ""
    base_url: str = ""
    top_p: float = 1.0

class Other(Chat):
    pass
"""

EVERY = sorted({*COMMON, "dialect", *PROVIDER_SPECIFIC_SETTINGS})
KNOWN = [(name, setting) for name in PROVIDERS for setting in known_settings(name)]
UNKNOWN = [(name, setting) for name in PROVIDERS for setting in EVERY if setting not in known_settings(name)]


class RecordingTransport:
    """A transport that records one request and fails."""

    def __init__(self) -> None:
        self.sent: Any = None

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        self.sent = (url, dict(headers), json.loads(body), asdict(timeouts))
        raise ModelError("sent")
        yield

    async def aclose(self) -> None: ...


REQUEST = ModelRequest(
    [Message("user", (TextBlock("Hi"), ImageBlock("image/png", "iVBORw0KGgo=")))], temperature=0.7, system="Be kind"
)


def describe(value: Any, depth: int = 3) -> Any:
    """Return a value that equals that of an equal object."""
    if isinstance(value, str | int | float | Path | None):
        return value
    names = (
        getattr(value, "__slots__", None) or getattr(value, "__struct_fields__", None) or getattr(value, "__dict__", ())
    )
    return type(value).__name__, depth and {name: describe(getattr(value, name, None), depth - 1) for name in names}


async def observe(model: ModelProvider) -> dict[str, Any]:
    """Return all that a model sends, and the facts about it."""
    seen: dict[str, Any] = {"info": model.info}
    if isinstance(model, FoundryModel):
        inner = await model._connect()
        seen["temperature"] = model._temperature
    else:
        inner = model
    if isinstance(inner, HttpModel):
        credential: Any = inner._credential
        seen["credential"] = describe(credential)
        if type(credential).__name__ not in ("function", "ApiKey"):
            inner = HttpModel(inner.profile, inner._protocol, lambda: "", timeouts=inner._timeouts)
        transport = RecordingTransport()
        with pytest.raises(ModelError, match="sent"):
            await inner.with_transport(transport).complete(REQUEST)
        seen["sent"] = transport.sent
    else:
        seen |= {"chat": repr(getattr(inner, "chat_model", "")), "context": getattr(inner, "_context", None)}
    return seen


@pytest.fixture(autouse=True)
def _prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "every_setting_chat.py").write_text(CHAT)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "every_setting_chat", raising=False)
    monkeypatch.setattr(
        "mainspring.models.providers.foundry.start_foundry_local", lambda alias: ("http://127.0.0.1:1", alias)
    )
    for profile in PROVIDERS.values():
        for variable in (*profile.key_variables, *profile.url_variables):
            monkeypatch.delenv(variable, raising=False)


def settings_of(name: str, **changed: Any) -> dict[str, Any]:
    usual = {"model": "model-1", "apiKey": "key-1"}
    given = {each: value for each, value in usual.items() if each in known_settings(name)}
    return {each: value for each, value in {**given, **BASE.get(name, {}), **changed}.items() if value is not None}


@pytest.mark.parametrize(("name", "setting"), KNOWN, ids=[f"{name}.{setting}" for name, setting in KNOWN])
async def test_known_setting_has_an_effect(name: str, setting: str) -> None:
    if (name, setting) in REJECTED:
        with pytest.raises(ModelError, match="useVertexai"):
            create_model(f"{name}:", **settings_of(name, **{setting: REJECTED[name, setting]}))
        return
    dialect = DIALECTS.get(name, {"think": "none", "num_ctx": 99} if name == "ollama" else {"temperature": False})
    value = VALUES.get((name, setting), {**COMMON, "dialect": dialect, **OWN.get(name, {})}[setting])
    needs = NEEDS.get((name, setting), {})
    plain = settings_of(name, **needs)
    if (name, setting) in (("azure", "baseUrl"), ("azure", "resourceName")):
        plain["baseUrl"] = "https://r.openai.azure.com"
    if (name, setting) == ("foundry", "baseUrl"):
        plain["baseUrl"] = "https://p.azure.com"
    changed = {**plain, setting: value}
    if setting == "resourceName":
        del changed["baseUrl"]

    before, after = await observe(create_model(f"{name}:", **plain)), await observe(create_model(f"{name}:", **changed))
    assert before != after


@each_row("name, setting", UNKNOWN)
def test_unknown_setting_is_rejected(name: str, setting: str) -> None:
    value = {"class": "a:B", "dialect": {"temperature": False}}.get(setting, COMMON.get(setting, "x"))
    with pytest.raises(TypeError, match=f"{setting}|{to_snake_case(setting)}"):
        create_model(f"{name}:", **settings_of(name, **{setting: value}))
