"""Each environment variable of each provider wins over settings files, and arguments in code win over both."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.providers.select_model import make
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.settings.load import load_settings
from mainspring.models import HttpModel, LLMClient, create_model
from mainspring.models.provider_table import PROVIDERS, URL_SETTINGS, SettingVariables

VALUES = {
    "apiKey": ("key-1", "key-2"),
    "baseUrl": ("https://one.example/v1", "https://two.example/v1"),
    "endpoint": ("https://one.openai.azure.com", "https://two.openai.azure.com"),
    "projectEndpoint": ("https://one.services.ai.azure.com", "https://two.services.ai.azure.com"),
    "deploymentNameMap": ("m=one", "m=two"),
}
"""Two valid values of settings, if not every text is valid."""

REQUIRED: dict[str, dict[str, str]] = {
    "azure": {"endpoint": "https://r.openai.azure.com", "deployment": "d", "apiKey": "k"},
    "azure deploymentNameMap": {"endpoint": "https://r.openai.azure.com", "model": "m", "apiKey": "k"},
    "azure clientId": {"endpoint": "https://r.openai.azure.com", "deployment": "d", "auth": "managed_identity"},
    "azure resourceName": {"deployment": "d", "apiKey": "k"},
    "foundry": {"mode": "cloud", "projectEndpoint": "https://r.services.ai.azure.com", "apiKey": "k"},
    "compatible": {"model": "m"},
}
"""Settings that a provider needs besides the tested one."""

ADDRESSES = {
    "compatible apiKey": ("OPENAI_COMPATIBLE_BASE_URL", "https://one.example/v1"),
    "ollama apiKey": ("OLLAMA_HOST", "https://ollama.com"),
}
"""Variables with the host that receives a key of the environment, if the provider has none of its own."""

CASES = [
    pytest.param(profile.name, each, variable, id=f"{profile.name}-{variable}")
    for profile in PROVIDERS.values()
    for each in profile.setting_variables
    for variable in each.variables
]
"""A provider with a new variable in the table is tested without a change here."""

each_variable = pytest.mark.parametrize(("name", "tested", "variable"), CASES)


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for profile in PROVIDERS.values():
        for each in profile.setting_variables:
            for variable in each.variables:
                monkeypatch.delenv(variable, raising=False)


def two_values(tested: SettingVariables) -> tuple[str, str]:
    return VALUES.get(tested.setting, ("one", "two"))


def required_settings(name: str, tested: SettingVariables) -> dict[str, Any]:
    required = REQUIRED.get(f"{name} {tested.setting}", REQUIRED.get(name, {}))
    key = {"apiKey": "k"} if PROVIDERS[name].key_variables and tested.setting != "clientId" else {}
    return {k: v for k, v in {**key, **required}.items() if k not in (tested.setting, *tested.replaces)}


def set_address(name: str, tested: SettingVariables, monkeypatch: pytest.MonkeyPatch) -> None:
    if address := ADDRESSES.get(f"{name} {tested.setting}"):
        monkeypatch.setenv(*address)


def describe(value: Any) -> Any:
    """Return the contents of a model, also those of its credential."""
    if isinstance(value, str | int | float | Path | None):
        return value
    if isinstance(value, Mapping):
        return {str(k): describe(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if closure := getattr(value, "__closure__", None):
        return [describe(cell.cell_contents) for cell in closure]
    fields = getattr(value, "__struct_fields__", None) or sorted(getattr(value, "__dict__", {}))
    return [type(value).__name__, *(describe(getattr(value, field)) for field in fields)]


def describe_model(model: Any) -> Any:
    assert isinstance(model, HttpModel)
    return [model.model, describe(model.profile), describe(model._credential)]


def load_model(name: str, section: Mapping[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the model of a settings file, with the environment of the process."""
    (folder / "settings.json").write_text(json.dumps({"providers": {name: section}}))
    monkeypatch.setenv("MAINSPRING_HOME", str(folder))
    config = load_settings(str(folder)).config
    return make(f"{name}:", config, registry_of(config))


@pytest.mark.covers("CFG-03")
@each_variable
def test_variable_wins_over_the_settings_file(
    name: str, tested: SettingVariables, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_environment, in_file = two_values(tested)
    required = required_settings(name, tested)
    set_address(name, tested, monkeypatch)
    settings: dict[str, Any] = {**required, tested.setting: in_environment}
    explicit = describe_model(create_model(name, **settings))
    from_file = load_model(name, {**required, tested.setting: in_file}, tmp_path, monkeypatch)
    assert describe_model(from_file) != explicit

    monkeypatch.setenv(variable, in_environment)

    for setting in (tested.setting, *tested.replaces):
        if setting not in PROVIDERS[name].settings and setting not in ("apiKey", "baseUrl", "apiKeyCommand"):
            continue
        is_resource = tested.setting == "resourceName" and setting in URL_SETTINGS
        section = {**required, setting: f"https://{in_file}.openai.azure.com" if is_resource else in_file}
        assert describe_model(load_model(name, section, tmp_path, monkeypatch)) == explicit
    assert load_settings(str(tmp_path)).origins[f"providers.{name}.{tested.setting}"] == "environment"


@pytest.mark.covers("CFG-03")
@each_variable
async def test_argument_in_code_wins_over_the_variable(
    name: str, tested: SettingVariables, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_environment, in_code = two_values(tested)
    required = required_settings(name, tested)
    set_address(name, tested, monkeypatch)
    settings: dict[str, Any] = {**required, tested.setting: in_code}
    expected = describe_model(create_model(name, **settings))
    other: dict[str, Any] = {**required, tested.setting: in_environment}
    explicit = describe_model(create_model(name, **other))

    monkeypatch.setenv(variable, in_environment)

    client = LLMClient({**settings, "provider": name})
    assert describe_model(create_model(name, **settings)) == expected
    assert describe_model(await client._models.get(client._current(), {})) == expected
    without = {k: v for k, v in required.items() if k != "model" or not tested.fallback}
    assert describe_model(create_model(name, **without)) == explicit
    client = LLMClient({**without, "provider": name})
    assert describe_model(await client._models.get(client._current(), {})) == explicit


@pytest.mark.parametrize(
    ("variable", "section", "expected"),
    [
        ("AZURE_OPENAI_DEPLOYMENT", {"model": "file"}, "env"),
        ("AZURE_OPENAI_DEPLOYMENT", {"model": "gpt-5", "deployment": "file"}, "env"),
        ("AZURE_OPENAI_API_VERSION", {"model": "gpt-5", "deployment": "file"}, "file"),
    ],
)
def test_deployment_variable_replaces_a_model_that_named_the_deployment(
    variable: str, section: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "env")
    required = {"endpoint": "https://r.openai.azure.com", "apiKey": "k"}

    assert load_model("azure", {**required, **section}, tmp_path, monkeypatch).model == expected


@pytest.mark.parametrize("address", ["https://proxy.example/v1", "http://localhost:4000/v1"])
def test_key_of_another_host_in_the_file_is_not_replaced(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of the environment")
    other = load_model("openai", {"baseUrl": address, "apiKey": "of the file"}, tmp_path, monkeypatch)
    own = load_model("openai", {"baseUrl": "https://api.openai.com/v1", "apiKey": "f"}, tmp_path, monkeypatch)

    assert (other._credential(), own._credential()) == ("of the file", "of the environment")


def test_variable_alone_adds_no_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"GITHUB_TOKEN": "t", "OPENAI_API_KEY": "k"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path))

    assert load_settings(str(tmp_path)).config.providers.sections == {}
