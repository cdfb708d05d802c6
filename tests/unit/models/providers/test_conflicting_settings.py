"""Two settings of which one would have no effect are rejected."""

from typing import Any

import pytest

from mainspring.errors import ProviderConfigError
from mainspring.models import create_model

CLOUD = {"mode": "cloud", "project_endpoint": "https://p.azure.com"}
AZURE = {"endpoint": "https://r.openai.azure.com", "deployment": "d"}


@pytest.mark.parametrize(
    ("name", "settings", "hint"),
    [
        ("github", {"endpoint": "https://a.example/inference", "base_url": "https://b.example"}, "endpoint and base_url"),
        ("azure", {**AZURE, "base_url": "https://b.azure.com"}, "endpoint and base_url contain different addresses"),
        ("azure", {**AZURE, "resource_name": "other"}, "resource_name is 'other', but the address is https://r."),
        ("azure", {**AZURE, "vault_url": "https://v.vault.azure.net"}, "`vault_url` of azure has no effect with `auth` auto"),
        ("azure", {**AZURE, "secret_name": "s", "auth": "key"}, "`secret_name` of azure has no effect with `auth` key"),
        ("azure", {**AZURE, "client_id": "c", "auth": "cli"}, "`client_id` of azure has no effect with `auth` cli"),
        ("foundry", {**CLOUD, "base_url": "https://b.azure.com"}, "project_endpoint and base_url"),
        ("foundry", {"project_endpoint": "https://p.azure.com"}, "The mode local of foundry, which is the default, ignores project_endpoint"),
        ("foundry", {"model_deployment": "d", "api": "chat"}, "Set `mode` to cloud or local."),
    ],
)  # fmt: skip
def test_conflicting_settings_are_rejected(name: str, settings: dict[str, Any], hint: str) -> None:
    with pytest.raises(ProviderConfigError, match=hint.replace("(", r"\(")) as caught:
        create_model(name, api_key="k", **settings)
    assert caught.value.reason == "conflicting_settings"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("azure", {**AZURE, "base_url": AZURE["endpoint"]}),
        ("azure", {**AZURE, "resource_name": "r"}),
        ("azure", {**AZURE, "client_id": "c"}),
        ("foundry", {**CLOUD, "mode": "local"}),
        ("foundry", {**CLOUD, "model_deployment": "d"}),
    ],
)
def test_settings_that_agree_are_accepted(name: str, settings: dict[str, Any]) -> None:
    assert create_model(name, api_key="k", **settings).provider == name
