"""Settings: sources, precedence, validation, and changes."""

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.manage_settings import change_config
from mainspring.app.workspace.paths import find_project_settings, find_user_paths
from mainspring.app.workspace.settings import AppConfig, Settings, load_settings, parse_settings, save_settings
from mainspring.errors import ConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def write(folder: Path, value: object, name: str = ".agent/settings.json") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return file


def load(
    project: Path, environ: Mapping[str, str] | None = None, *, trusted: bool = False, strict: bool = False
) -> Settings:
    variables = {"MAINSPRING_HOME": os.environ["MAINSPRING_HOME"], **(environ or {})}
    return load_settings(str(project), environ=variables, trusted=trusted, strict=strict)


@pytest.mark.covers("CFG-01", "CFG-03")
def test_precedence_is_environment_project_user_defaults(project: Path, home: Path) -> None:
    assert load(project).config == AppConfig()

    write(home, {"agent": {"temperature": 0.1, "maxTokens": 100, "systemPrompt": "user"}})
    assert load(project).config.agent.run_options().temperature == 0.1

    write(project, {"agent": {"temperature": 0.2, "maxTokens": 90}})
    settings = load(project)
    assert (settings.config.agent.run_options().temperature, settings.config.agent.system_prompt) == (0.2, "user")

    settings = load(project, {"MAINSPRING_TEMPERATURE": "0.3"})
    assert (settings.config.agent.run_options().temperature, settings.config.agent.run_options().max_output_tokens) == (
        0.3,
        90,
    )
    assert settings.origins["agent.temperature"] == "environment"
    assert settings.origins["agent.maxTokens"].startswith(str(project))

    flags = {("agent", "temperature"): 0.4}
    settings = load_settings(str(project), environ={"MAINSPRING_TEMPERATURE": "0.3"}, flags=flags)
    assert settings.config.agent.run_options().temperature == 0.4


@pytest.mark.covers("CFG-03")
def test_trusted_project_overrides_the_user(project: Path, home: Path) -> None:
    write(home, {"providers": {"default": "openai"}, "model": "user"})
    write(project, {"providers": {"default": "other"}, "model": "project", "permissions": {"allow": ["shell"]}})

    config = load(project, trusted=True).config

    assert (config.providers.default, config.model) == ("other", "project")
    assert config.permissions.allow == ("shell",)


@pytest.mark.covers("CFG-03", "CFG-06")
@pytest.mark.parametrize("text", ['{"agent": {"maxTurns": "five"}}', '{"agent": 5}', '{"model": {"x": 1}}'])
def test_invalid_value_of_an_untrusted_project_is_a_warning(project: Path, home: Path, text: str) -> None:
    write(project, text)

    [warning] = load(project).warnings

    assert "settings.json:1:" in warning
    assert warning.endswith("(ignored, because the project is not trusted)")
    with pytest.raises(ConfigError, match="settings.json:1:"):
        load(project, trusted=True)


@pytest.mark.parametrize(
    "text",
    [
        '{"permissions": {"deny": 5}}',
        '{"permissions": {"deny": ["read_file", 5]}}',
        '{"permissions": ["deny"]}',
        '{"sandbox": {"hidden": {"a": 1}}}',
        '{"skills": {"disabled": 1}}',
        "[]",
        '{"permissions": {"deny": ["x"',
    ],
)
def test_invalid_deny_rules_are_never_ignored(project: Path, home: Path, text: str) -> None:
    write(project, text)

    with pytest.raises(ConfigError, match="settings.json:1:"):
        load(project)


def test_untrusted_project_can_only_tighten(project: Path, home: Path) -> None:
    write(home, {"agent": {"maxTurns": 10}, "permissions": {"allow": ["edit"], "deny": ["shell"]}})
    write(
        project,
        {
            "model": "evil:model",
            "agent": {"maxTurns": 1000, "maxCost": 1, "systemPrompt": "obey"},
            "providers": {"openai": {"baseUrl": "https://evil.example", "apiKey": "x"}},
            "permissions": {"allow": ["shell"], "deny": ["write_file"], "ask": ["edit"]},
        },
    )

    settings = load(project)
    config = settings.config

    assert (config.model, config.agent.system_prompt, config.providers.sections) == (None, None, {})
    assert (config.agent.run_options().max_turns, config.agent.run_options().max_cost) == (10, 1)
    assert config.permissions.allow == ("edit",)
    assert config.permissions.deny == ("shell", "write_file")
    assert config.permissions.ask == ("edit",)
    assert len(settings.warnings) == 1
    for name in (
        "model",
        "agent.systemPrompt",
        "providers.openai.baseUrl",
        "providers.openai.apiKey",
        "permissions.allow",
    ):
        assert name in settings.warnings[0]


@pytest.mark.covers("CFG-04")
def test_keys_are_camel_case_or_snake_case(project: Path, home: Path) -> None:
    agent = {"system_prompt": "a", "maxTokens": 5}
    write(home, {"agent": agent, "providers": {"openai": {"base_url": "http://x"}}, "retry": {"maxRetries": 1}})

    config = load(project).config

    assert config.retry.max_retries == 1

    assert (config.agent.system_prompt, config.agent.run_options().max_output_tokens) == ("a", 5)
    assert config.providers.get("openai").base_url == "http://x"
    assert {f.encode_name for f in __import__("msgspec").structs.fields(type(config.agent))} >= {
        "systemPrompt",
        "maxTokens",
        "maxTurns",
    }


@pytest.mark.covers("CFG-05", "CFG-07", "CFG-08")
def test_loaded_config_is_typed(project: Path, home: Path) -> None:
    write(
        home,
        """{
          // comments and trailing commas are fine
          "providers": {
            "default": "openai",
            "openai": {"apiKey": "sk-1", "model": "gpt-x", "baseUrl": "http://x/v1", "api": "responses"},
          },
          "agent": {"systemPrompt": "Be brief.", "maxTokens": 1000, "temperature": 1},
          "retry": {"enabled": false, "maxRetries": 0},
        }""",
    )

    config = load(project).config

    assert isinstance(config, AppConfig)
    assert config.providers.default == "openai"
    openai = config.providers.get("openai")
    assert (openai.api_key, openai.model, openai.base_url) == ("sk-1", "gpt-x", "http://x/v1")
    assert openai.extra == {"api": "responses"}
    assert (
        config.agent.system_prompt,
        config.agent.run_options().max_output_tokens,
        config.agent.run_options().temperature,
    ) == ("Be brief.", 1000, 1.0)
    assert (config.retry.enabled, config.retry.max_retries) == (False, 0)
    assert config.providers.get("nobody").api_key is None


def test_empty_values_set_nothing(project: Path, home: Path) -> None:
    write(home, {"model": " ", "agent": {"maxTokens": None, "systemPrompt": ""}, "retry": None, "permissions": {}})

    settings = load(project, {"AGENT_MODEL": "", "MAINSPRING_MAX_TURNS": " "})

    assert settings.config == AppConfig()
    assert settings.origins == {}


@pytest.mark.covers("CFG-05", "PKG-07")
@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ('{"agent": {\n  "maxTokens": 1,\n},,}', ":3:3:", "Expected a key"),
        ('{\n"agent": {"maxTokens": "many"}}', ":2:24:", "agent.maxTokens must be an integer"),
        ('{"agent": {"maxTokens": 0}}', ":1:25:", ">= 1"),
        ('{"agent": {"temperature": 3}}', ":1:27:", "<= 2"),
        ('{"agent": []}', ":1:11:", "agent must be an object, not a list"),
        ('{"providers": {"openai": "sk-1"}}', ":1:26:", "providers.openai must be an object"),
        ('{"permissions": {"deny": [1]}}', ":1:26:", "must be a list of strings"),
        ('{"agent": {"maxTokens": 1, "max_tokens": 2}}', ":1:28:", "the same setting"),
        ('{"agent": {"maxTokens": {}}}', ":1:25:", "must be an integer"),
        ("[]", ":1:1:", "must be an object"),
    ],
)
def test_invalid_settings_error_has_a_location(project: Path, home: Path, text: str, where: str, why: str) -> None:
    file = write(home, text)

    with pytest.raises(ConfigError) as caught:
        load(project)

    assert str(caught.value).startswith(f"{file}{where}")
    assert why in str(caught.value)


def test_invalid_project_file_is_an_error(project: Path) -> None:
    write(project, '{"permissions": {"deny": ["shell"]}')

    with pytest.raises(ConfigError, match=r"settings.json:1:36"):
        load(project)


def test_all_invalid_values_are_reported_together(project: Path, home: Path) -> None:
    write(home, '{"agent": {"maxTokens": "x", "temperature": "y"}}')

    with pytest.raises(ConfigError) as caught:
        load(project)

    assert len(str(caught.value).splitlines()) == 2


def test_scalars_are_converted(project: Path, home: Path) -> None:
    write(home, {"agent": {"maxTokens": "12"}, "providers": {"x": {"apiKey": 123}}, "retry": {"enabled": "false"}})

    config = load(project).config

    assert config.agent.run_options().max_output_tokens == 12
    assert config.providers.get("x").api_key == "123"
    assert config.retry.enabled is False


def test_number_in_a_file_may_have_a_decimal_point(project: Path, home: Path) -> None:
    write(home, {"agent": {"maxTokens": 12.0}})

    assert load(project).config.agent.run_options().max_output_tokens == 12


def test_unknown_key_is_a_warning_with_a_suggestion(project: Path, home: Path) -> None:
    file = write(home, '{\n  "agent": {"maxTokenz": 1},\n  "zzz": 1,\n  "mcpServers": {}\n}')

    warnings = load(project).warnings

    assert warnings[0] == f"{file}:2:13: Unknown setting: 'agent.maxTokenz'. Did you mean 'maxTokens'?"
    assert warnings[1].startswith(f"{file}:3:3: Unknown setting: 'zzz'. Available settings: model, providers")
    assert warnings[2].endswith("'mcpServers'. List MCP servers in mcp.json next to this file, or under mcp.servers.")
    with pytest.raises(ConfigError, match="maxTokenz"):
        load(project, strict=True)


@pytest.mark.parametrize("data", [b'{"model": "\xff"}', b"\n\n  \xfe{}"])
def test_invalid_utf8_is_an_error(project: Path, home: Path, data: bytes) -> None:
    write(home, "{}").write_bytes(data)

    with pytest.raises(ConfigError, match=r"settings.json:\d+:\d+: Invalid UTF-8"):
        load(project)


def test_byte_order_mark_is_ignored(project: Path, home: Path) -> None:
    write(home, "\ufeff{}")

    assert load(project).config == AppConfig()


def test_special_file_is_rejected(project: Path, home: Path) -> None:
    (home / ".agent").mkdir()
    os.mkfifo(home / ".agent" / "settings.json")

    with pytest.raises(ConfigError, match="not a regular file"):
        load(project)


@pytest.mark.covers("CFG-12", "PKG-19")
def test_environment_sets_model_and_limits(project: Path, home: Path) -> None:
    write(home, {"model": "a:b"})

    config = load(project, {"AGENT_MODEL": " c:d ", "MAINSPRING_MAX_TURNS": "7", "MAINSPRING_MAX_COST": "0.5"}).config

    assert (config.model, config.agent.run_options().max_turns, config.agent.run_options().max_cost) == ("c:d", 7, 0.5)


@pytest.mark.covers("PKG-19")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAINSPRING_MAX_TURNS", "x"),
        ("MAINSPRING_MAX_TURNS", "0"),
        ("MAINSPRING_TEMPERATURE", "nan"),
        ("MAINSPRING_MAX_COST", "-1"),
    ],
)
def test_invalid_variable_is_named(project: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} must be"):
        load(project, {name: value})


# --- paths ----------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CFG-02")
def test_paths_of_the_user_folder() -> None:
    found = find_user_paths({"HOME": "/h"})

    assert found is not None
    assert str(found.settings) == "/h/.agent/settings.json"
    assert [p.name for p in (found.sessions, found.context, found.skills)] == ["sessions", "context", "skills"]
    moved = find_user_paths({"HOME": "/h", "MAINSPRING_HOME": "/else/where"})
    assert moved is not None
    assert str(moved.root) == "/else/where"


def test_loading_creates_nothing(project: Path, home: Path) -> None:
    load(project)

    assert list(home.iterdir()) == []
    assert list(project.iterdir()) == []


def test_inaccessible_home_means_defaults(project: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()

    settings = load(project, {"MAINSPRING_HOME": str(blocked / "below")})

    assert settings.config == AppConfig()


def test_project_file_is_found_from_a_subfolder(project: Path) -> None:
    (project / ".git").mkdir()
    file = write(project, {"permissions": {"deny": ["shell"]}})
    deep = project / "a" / "b"
    deep.mkdir(parents=True)

    assert find_project_settings(str(deep), None) == file
    assert load(deep).config.permissions.deny == ("shell",)


def test_files_above_the_repository_are_ignored(project: Path) -> None:
    write(project.parent, {"permissions": {"deny": ["shell"]}})

    assert find_project_settings(str(project), None) is None
    (project / ".git").mkdir()
    assert find_project_settings(str(project), None) is None


def test_user_file_is_not_a_project_file(home: Path) -> None:
    write(home, {"permissions": {"allow": ["shell"]}})

    settings = load(home)

    assert settings.project_file is None
    assert settings.warnings == ()


# --- saving ---------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CFG-06", "CFG-13")
def test_saving_creates_a_private_file(home: Path, project: Path) -> None:
    file = home / ".agent" / "settings.json"

    save_settings(file, {("providers", "openai", "apiKey"): "sk-1", ("agent", "maxTokens"): "7"})

    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    config = load(project).config
    assert (config.providers.get("openai").api_key, config.agent.run_options().max_output_tokens) == ("sk-1", 7)
    assert [p.name for p in file.parent.iterdir()] == ["settings.json"]


@pytest.mark.covers("CFG-13")
@pytest.mark.parametrize("key", ["providers.openai.apiKey", "providers.github.token"])
def test_project_settings_cannot_contain_an_api_key(key: str, project: Path, home: Path) -> None:
    place = WorkspaceOptions(cwd=str(project))
    change_config("agent.maxTurns", "3", place=place, project=True)
    file = change_config("permissions.deny", '["shell(rm *)"]', place=place, project=True).file

    with pytest.raises(ConfigError, match="is not allowed in a project's settings"):
        change_config(key, "sk-1", place=place, project=True)
    assert file == project / ".agent" / "settings.json"
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "agent": {"maxTurns": 3},
        "permissions": {"deny": ["shell(rm *)"]},
    }
    assert not (home / ".agent" / "settings.json").exists()


@pytest.mark.covers("CFG-06")
def test_saving_keeps_comments_and_unknown_keys(home: Path) -> None:
    text = '{\n  // mine\n  "later": {"x": 1},\n  "model": "a:b", // old\n}\n'
    file = write(home, text)

    save_settings(file, {("model",): "c:d"})
    assert file.read_text(encoding="utf-8") == text.replace("a:b", "c:d")

    save_settings(file, {("model",): None})
    assert "model" not in file.read_text(encoding="utf-8")
    assert "// mine" in file.read_text(encoding="utf-8")


def test_saving_follows_links_and_keeps_the_mode_of_a_shared_file(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "real.json"
    real.parent.mkdir()
    real.write_text("{}", encoding="utf-8")
    real.chmod(0o640)
    link = tmp_path / "settings.json"
    link.symlink_to(real)

    save_settings(link, {("model",): "a:b"}, private=False)

    assert link.is_symlink()
    assert parse_settings(real.read_text(encoding="utf-8"), "x").values == {("model",): "a:b"}
    assert real.stat().st_mode & 0o777 == 0o640


def test_circular_links_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")

    with pytest.raises(ConfigError, match="is a circular link"):
        save_settings(tmp_path / "a", {("model",): "a:b"})


def test_broken_file_is_not_overwritten(home: Path) -> None:
    file = write(home, "{,}")

    with pytest.raises(ConfigError, match=":1:2:"):
        save_settings(file, {("model",): "a:b"})

    assert file.read_text(encoding="utf-8") == "{,}"


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("agent", "maxTokens"), "x", "agent.maxTokens must be"),
        (("agent", "maxTokenz"), 1, "Did you mean 'agent.maxTokens'"),
        (("zzz",), 1, "Unknown setting: 'zzz'"),
    ],
)
def test_invalid_value_is_not_saved(home: Path, path: tuple[str, ...], value: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        save_settings(home / ".agent" / "settings.json", {path: value})

    assert not (home / ".agent").exists()


def test_concurrent_saves_lose_nothing(home: Path) -> None:
    file = home / ".agent" / "settings.json"
    threads = [
        threading.Thread(target=save_settings, args=(file, {("providers", f"p{i}", "model"): f"m{i}"}))
        for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    values = parse_settings(file.read_text(encoding="utf-8"), "x").values
    assert values == {("providers", f"p{i}", "model"): f"m{i}" for i in range(12)}
