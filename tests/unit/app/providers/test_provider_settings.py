"""All settings of a provider reach the model."""

import re
from pathlib import Path

import pytest

from mainspring.app.providers.select_model import make
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.settings.load import build_config, parse_settings
from mainspring.app.workspace.settings.schema import ProviderSettings
from mainspring.errors import ConfigError
from mainspring.models.config import PROVIDER_SPECIFIC_SETTINGS
from mainspring.models.http_model import HttpModel
from mainspring.models.port import ModelProvider
from mainspring.models.provider_table import PROVIDERS, ProviderProfile

FILE = """{
  "providers": {
    "compatible": {
      "apiKey": "k", "baseUrl": "http://section-host/v1", "model": "m1", "headers": {"x-team": "a"},
      "contextWindow": 9000, "maxOutputTokens": 700, "vision": false, "prices": [1, 2],
      "firstByteTimeout": 7, "idleTimeout": 0, "dialect": {"stream_usage": false},
      "models": {"m2": {"contextWindow": 50000, "prices": [3, 4, 0.3]}}
    },
    "azure": {"apiKey": "k", "endpoint": "https://r.openai.azure.com", "deployment": "d1", "api_version": "2030-01-01", "knownAs": "gpt-4o"}
  }
}"""


def make_model(text: str, spec: str) -> HttpModel:
    layer = parse_settings(text, "settings.json")
    assert layer.warnings == []
    config = build_config(layer.values)
    provider: ModelProvider = make(spec, config, registry_of(config))
    assert isinstance(provider, HttpModel)
    return provider


@pytest.mark.covers("MOD-32", "MOD-33")
def test_section_settings_reach_the_model() -> None:
    model = make_model(FILE, "compatible:")

    assert (model.model, model.profile.base_url, model.profile.headers) == (
        "m1",
        "http://section-host/v1",
        {"x-team": "a"},
    )
    assert (model.info.context_window, model.info.vision, model.info.prices) == (9000, False, (1.0, 2.0, 1.0, 1.0))
    assert model.profile.max_output_tokens == 700
    assert model.profile.dialect.stream_usage is False
    assert make_model(FILE, "compatible:m2").info.context_window == 50_000
    assert make_model(FILE, "compatible:m2").info.prices == (3.0, 4.0, 0.3, 3.0)


def test_provider_specific_settings_work_with_common_ones() -> None:
    model = make_model(FILE, "azure:")

    assert model.model == "d1"
    assert model.profile.base_url.startswith("https://r.openai.azure.com/")
    assert model.info.context_window == 128_000


@pytest.mark.parametrize(
    ("section", "hint"),
    [
        ('{"azure": {"endpiont": "x"}}', "Did you mean 'endpoint'?"),
        (
            '{"openai": {"endpoint": "x"}}',
            "'endpoint' is a setting of azure and github, not of openai. Did you mean 'baseUrl'?",
        ),
        ('{"openai": {"deployment": "x"}}', "Did you mean 'model'?"),
        ('{"openai": {"org": "x"}}', "'org' is a setting of github, not of openai. Did you mean 'headers'?"),
        ('{"openai": {"temprature": 1}}', "the setting agent.temperature"),
        ('{"openai": {"timeot": 1}}', "the setting agent.timeout"),
        ('{"mine": {"baseUrl": "http://h/v1", "token": "x"}}', "'token' is a setting of github, not of mine."),
        ('{"codex": {"apiKeyFile": "x"}}', "codex does not support it."),
    ],
)
def test_setting_that_the_provider_does_not_know_is_an_error(section: str, hint: str) -> None:
    text = f'{{"providers": {section}}}'
    with pytest.raises(ConfigError, match=re.escape(hint)) as caught:
        parse_settings(text, "s.json")
    assert str(caught.value).startswith("s.json:1:")

    [warning] = parse_settings(text, "s.json", trusted=False).warnings
    assert hint in warning
    assert warning.endswith("(ignored, because the project is not trusted)")


@pytest.mark.parametrize("profile", PROVIDERS.values(), ids=lambda profile: profile.name)
def test_profile_names_the_settings_that_the_provider_reads(profile: ProviderProfile, repository: Path) -> None:
    path = repository / "src" / f"{profile.module.replace('.', '/')}.py"
    source = path.read_text(encoding="utf-8") if profile.module else ""
    read = set(re.findall(r'provider_setting\(config, "(\w+)"|(select_api)\(config', source))
    names = {name or "api" for name, _ in read}

    assert {head + "".join(word.title() for word in tail) for head, *tail in (n.split("_") for n in names)} == set(
        profile.settings
    )


def test_provider_specific_settings_are_not_common_ones() -> None:
    assert not PROVIDER_SPECIFIC_SETTINGS & set(ProviderSettings.__struct_encode_fields__)
