"""Settings of the parts around an agent, and errors of invalid values."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mainspring.app.workspace.settings import (
    AppConfig,
    LanguageServerSettings,
    TelemetrySettings,
    load_settings,
    parse_settings,
)
from mainspring.app.workspace.settings.json_schema import settings_schema
from mainspring.app.workspace.settings.load import build_config
from mainspring.app.workspace.settings.validation import SettingValueError, convert_value, iter_settings
from mainspring.errors import ConfigError
from mainspring.models.auth.key_sources import resolve_api_key


def write(folder: Path, value: object) -> None:
    file = folder / ".agent" / "settings.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")


def build(value: object) -> AppConfig:
    return build_config(parse_settings(json.dumps(value), "f.json").values)


@pytest.mark.covers("CFG-09")
def test_telemetry_settings() -> None:
    unset = build({}).telemetry
    assert (unset.enabled, unset.endpoint, unset.enable_sensitive_data) == (False, None, False)

    result = build({"telemetry": {"enabled": True, "endpoint": "http://x:4318", "enableSensitiveData": True}}).telemetry

    assert result == TelemetrySettings(enabled=True, endpoint="http://x:4318", enable_sensitive_data=True)


@pytest.mark.covers("CFG-11", "CFG-14")
def test_retry_and_compaction_settings() -> None:
    retry = {"enabled": False, "maxRetries": 5, "baseDelayMs": 10, "maxDelayMs": 20, "enableJitter": False}
    result = build({"retry": retry, "compaction": {"enabled": False, "reserveTokens": 9, "keepRecentTokens": 8}})

    assert (result.retry.enabled, result.retry.max_retries, result.retry.base_delay_ms) == (False, 5, 10)
    assert (result.retry.max_delay_ms, result.retry.enable_jitter) == (20, False)
    assert (result.compaction.reserve_tokens, result.compaction.keep_recent_tokens) == (9, 8)


@pytest.mark.covers("CFG-16")
def test_provider_settings() -> None:
    result = build({"providers": {"mine": {"model": "m", "apiKey": "k", "baseUrl": "http://x/v1"}}})

    section = result.providers.get("mine")
    assert (section.model, section.api_key, section.base_url) == ("m", "k", "http://x/v1")
    assert resolve_api_key("mine", section) == "k"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"ui": {"theme": "drak"}}, "f.json:1:18: ui.theme must be one of auto, dark, light, plain, not 'drak'. Did you mean 'dark'?"),
        ({"notifications": {"ways": ["bell", "osc8"]}}, "Did you mean 'osc9'"),
        ({"languageServers": {"py": {"command": "x", "languages": {}}}}, "languageServers.py in command: must be a list"),
        ({"languageServers": {"py": {"command": ["x"], "languages": {}, "foo": 1}}}, "languageServers.py has no foo"),
        ({"languageServers": {"py": {"command": [], "languages": {}}}}, "requires a command"),
        ({"languageServers": []}, "languageServers must be an object"),
        ({"execution": {"maxProcesses": 0}}, "execution.maxProcesses must be an integer >= 1"),
        ({"hooks": {"Stop": [{"command": "a", "timeout": "x"}]}}, "hooks.Stop in [0].timeout: must be a number"),
        ({"providers": {"a": {"models": {"x": {"contextWindow": "k"}}}}}, "providers.a.models in x: contextWindow"),
        ({"agent": {"thinking": "hgih"}}, "Did you mean 'high'"),
    ],
)  # fmt: skip
def test_invalid_value_error_lists_valid_values(value: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings(json.dumps(value), "f.json")

    assert message in str(caught.value)
    assert str(caught.value).startswith("f.json:1:")


def test_language_servers_are_keyed_by_name(tmp_path: Path, home: Path) -> None:
    server = {"command": ["a", "--stdio"], "languages": {".py": "python"}}
    write(home, {"languageServers": {"one": server, "two.x": {**server, "enabled": False}}})

    loaded = load_settings(str(tmp_path))

    assert set(loaded.config.language_servers) == {"one", "two.x"}
    assert loaded.config.language_servers["one"] == LanguageServerSettings(
        command=("a", "--stdio"), languages={".py": "python"}
    )


@pytest.mark.covers("CFG-13")
def test_untrusted_project_can_only_tighten(tmp_path: Path, home: Path) -> None:
    write(home, {"execution": {"maxProcesses": 10}, "sandbox": {"hidden": ["a"]}})
    theirs = {
        "execution": {"maxProcesses": 5, "reachable": ["10.0.0.1"]},
        "sandbox": {"hidden": ["b"], "writable": ["/"]},
        "languageServers": {"x": {"command": ["evil"], "languages": {}}},
        "notifications": {"command": "evil"},
        "telemetry": {"enabled": True},
        "providers": {"openai": {"apiKeyCommand": "evil"}},
    }
    write(tmp_path, theirs)

    loaded = load_settings(str(tmp_path))

    assert (loaded.config.execution.max_processes, loaded.config.execution.reachable) == (5, ())
    assert (loaded.config.sandbox.hidden, loaded.config.sandbox.writable) == (("a", "b"), ())
    assert not loaded.config.language_servers
    assert loaded.config.notifications.command is None
    assert not loaded.config.telemetry.enabled
    assert loaded.config.providers.get("openai").api_key_command is None
    [warning] = loaded.warnings
    assert "languageServers.x" in warning
    trusted = load_settings(str(tmp_path), trusted=True)
    assert trusted.config.execution.reachable == ("10.0.0.1",)


def test_schema_key_is_not_a_setting() -> None:
    layer = parse_settings('{"$schema": "https://x/settings.schema.json", "model": "a:b"}', "f.json")

    assert (layer.values, layer.warnings) == ({("model",): "a:b"}, [])


def test_published_schema_is_current(repository: Path) -> None:
    published = (repository / "docs" / "settings.schema.json").read_text(encoding="utf-8")

    assert json.loads(published) == json.loads(settings_schema()), (
        "run: mainspring config schema > docs/settings.schema.json"
    )


@pytest.mark.covers("CFG-05")
def test_schema_has_every_setting_and_rejects_invalid_ones() -> None:
    result = json.loads(settings_schema())
    validator = Draft202012Validator(result)
    for path, _ in iter_settings():
        section = result
        for name in path:
            properties = section.get("properties") or result["$defs"][section["$ref"].rpartition("/")[2]]["properties"]
            assert name in properties, path
            section = properties[name]
    good = {
        "$schema": "x",
        "model": "a:b",
        "providers": {
            "default": "openai",
            "mine": {"baseUrl": "http://x", "apiKeyFile": "~/k"},
            "azure": {"endpoint": "y"},
        },
        "agent": {"maxTokens": 5, "thinking": "high"},
        "languageServers": {"py": {"command": ["x"], "languages": {".py": "python"}}},
        "hooks": {"Stop": [{"command": "true"}]},
    }
    assert validator.is_valid(good)
    assert not parse_settings(json.dumps(good), "f.json").warnings
    for bad in (
        {"modle": "x"},
        {"agent": {"maxTokens": "many"}},
        {"ui": {"theme": "drak"}},
        {"providers": {"a": 1}},
        {"providers": {"mine": {"endpoint": "y"}}},
        {"providers": {"openai": {"endpoint": "y"}}},
        {"providers": {"openai": {"vision": "y"}}},
    ):
        assert not validator.is_valid(bad)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3), max_leaves=8))  # fmt: skip
def test_any_value_is_converted_or_rejected(value: object) -> None:
    for _, kind in iter_settings():
        with suppress(SettingValueError):
            convert_value(value, kind)
