"""Settings of the parts around an agent, and errors of invalid values."""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.manage_settings import validate_config
from mainspring.app.workspace.settings import (
    AppConfig,
    LanguageServerSettings,
    PermissionSettings,
    TelemetrySettings,
    load_settings,
    parse_settings,
)
from mainspring.app.workspace.settings.json_schema import settings_schema
from mainspring.app.workspace.settings.load import build_config
from mainspring.app.workspace.settings.validation import (
    SettingValueError,
    convert_value,
    iter_settings,
    provider_setting_types,
)
from mainspring.errors import ConfigError
from mainspring.models.auth.key_sources import resolve_api_key
from mainspring.models.provider_table import PROVIDERS
from tests.rows import each_row


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
        ({"ui": {"theme": "drak"}}, "f.json:1:18: ui.theme must be one of auto, dark, light, high-contrast, color-blind, plain, not 'drak'. Did you mean 'dark'?"),
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
            ref = next((each["$ref"] for each in section.get("anyOf", ()) if "$ref" in each), "")
            properties = section.get("properties") or result["$defs"][ref.rpartition("/")[2]]["properties"]
            assert name in properties, path
            section = properties[name]
    good = {
        "$schema": "x",
        "model": "a:b",
        "providers": {
            "default": "openai",
            "mine": {"baseUrl": "http://x", "apiKeyFile": "~/k"},
            "azure": {"endpoint": "https://y"},
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


WRONG_VALUES: list[object] = [
    *(None, True, False, 0, 5, -1, 2.5, 3.0, "x", "5", "true", "", " ", "foo", "http://", "https://host/v1", "ftp://host"),
    *([], [5], ["x"], [None], [[]], [True], {}, {"x": 5}, {"x": "y"}, {"x": None}, {"x": {}}, {"x": ["y"]}, {"x": True}),
]  # fmt: skip
EVERY_SETTING = sorted(
    {path for path, _ in iter_settings()}
    | {path[:1] for path, _ in iter_settings()}
    | {("providers", name, setting) for name in (*PROVIDERS, "mine") for setting in provider_setting_types(name)}
    | {("providers", "openai"), ("providers", "mine"), ("languageServers", "x")}
)


@cache
def schema_validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(settings_schema()))


def parse_error(value: object) -> str:
    try:
        return "\n".join(parse_settings(json.dumps(value), "f.json").warnings)
    except ConfigError as error:
        return str(error)


@pytest.mark.covers("CFG-05")
@each_row("path", EVERY_SETTING)
def test_check_accepts_all_that_the_published_schema_allows(path: tuple[str, ...]) -> None:
    for value in WRONG_VALUES:
        tree: Any = value
        for name in reversed(path):
            tree = {name: tree}
        error = parse_error(tree)
        assert not (error and schema_validator().is_valid(tree)), (path, value)
        assert not error or error.startswith("f.json:1:")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"providers": {"openai": {"baseUrl": 5}}}, "1:38: providers.openai.baseUrl must be a string, not an integer"),
        ({"providers": {"openai": {"baseUrl": "foo"}}}, "baseUrl must start with http:// or https:// and contain a host"),
        ({"providers": {"azure": {"endpoint": "foo"}}}, "endpoint must start with http:// or https:// and contain a host"),
        ({"permissions": {"allow": 5}}, "1:27: permissions.allow must be a list of strings, but contains 5"),
        ({"mcp": {"servers": 5}}, "mcp.servers must be an object or a list, not an integer"),
    ],
)  # fmt: skip
def test_value_of_another_type_is_an_error_with_its_position(
    value: object, message: str, tmp_path: Path, home: Path
) -> None:
    write(home, value)

    with pytest.raises(ConfigError) as caught:
        load_settings(str(tmp_path))

    assert message in str(caught.value)
    [issue] = validate_config(WorkspaceOptions(cwd=str(tmp_path)))
    assert (issue.level, issue.text) == ("error", str(caught.value))
    assert issue.text.startswith(f"{issue.file}:1:")


def test_list_of_texts_may_be_a_single_text() -> None:
    assert build({"permissions": {"allow": "x", "deny": ""}}).permissions == PermissionSettings(allow=("x",))


def test_ollama_address_may_be_a_host() -> None:
    assert build({"providers": {"ollama": {"baseUrl": "gpu:11434"}}}).providers.get("ollama").base_url == "gpu:11434"


def test_texts_of_the_environment_are_converted(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, {"providers": {"openai": {"baseUrl": "http://x/v1"}}})
    monkeypatch.setenv("MAINSPRING_MAX_TOKENS", "5")
    assert load_settings(str(tmp_path)).values["agent", "maxTokens"] == 5

    monkeypatch.setenv("OPENAI_BASE_URL", "foo")

    with pytest.raises(ConfigError, match="OPENAI_BASE_URL must start with http:// or https:// and contain a host"):
        load_settings(str(tmp_path))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3), max_leaves=8))  # fmt: skip
def test_any_value_is_converted_or_rejected(value: object) -> None:
    for _, kind in iter_settings():
        with suppress(SettingValueError):
            convert_value(value, kind)
        with suppress(SettingValueError):
            convert_value(value, kind)
