"""Workspace commands return data."""

import json
import re
from pathlib import Path

import pytest

from mainspring.app.commands.check import run_checks
from mainspring.app.commands.replay import ReplaySummary, decode_recordings
from mainspring.app.commands.tools import call_tool, list_tools
from mainspring.app.compose.conversation import build_behavior
from mainspring.app.providers.availability import download_model, list_models
from mainspring.app.run.options import PermissionFlags, WorkspaceOptions
from mainspring.app.run.tool_summaries import TOOL_SUMMARIES
from mainspring.app.workspace.manage_settings import change_config, describe_settings, find_setting
from mainspring.app.workspace.saved_sessions import list_saved_sessions
from mainspring.app.workspace.settings import AppConfig
from mainspring.cancellation import CancelToken
from mainspring.errors import ConfigError
from mainspring.extras import install_command
from mainspring.models.provider_table import PROVIDERS
from mainspring.policies.compaction import Compaction
from mainspring.sessions import Session
from tests.unit.models.server import plain, serve


@pytest.fixture
def place(tmp_path: Path) -> WorkspaceOptions:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    return WorkspaceOptions(cwd=str(tmp_path))


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"MAINSPRING_HOME": str(home / ".agent")}


# --- tools ------------------------------------------------------------------------------------------------------------------


def test_tools_are_listed_with_their_schemas() -> None:
    found = {tool.name: tool for tool in list_tools()}
    assert {name: tool.summary for name, tool in found.items()} == TOOL_SUMMARIES

    assert set(found) > {
        "read_file",
        "write_file",
        "edit",
        "multi_edit",
        "glob",
        "grep",
        "list_files",
        "shell",
        "apply_patch",
    }
    assert found["read_file"].input_schema["properties"]["path"]
    assert all(tool.summary for tool in found.values())


async def test_call_returns_the_result_of_the_tool(place: WorkspaceOptions, environ: dict[str, str]) -> None:
    result = await call_tool("read_file", '{"path": "a.txt"}', place, PermissionFlags(), environ=environ)

    assert "one" in result.output
    assert (result.is_error, result.code) == (False, None)
    assert result.metadata["total_lines"] == 1


async def test_typed_call_needs_no_approval(place: WorkspaceOptions, environ: dict[str, str], tmp_path: Path) -> None:
    result = await call_tool(
        "write_file", '{"path": "b.txt", "content": "x"}', place, PermissionFlags(), environ=environ
    )

    assert not result.is_error
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize(
    ("rules", "path"),
    [
        (PermissionFlags(deny=("write_file",)), "b.txt"),
        (PermissionFlags(ask=("scope:fs-write",)), "b.txt"),
        (PermissionFlags(), ".env"),
    ],
)
async def test_permission_rules_apply_to_a_call(
    place: WorkspaceOptions, environ: dict[str, str], tmp_path: Path, rules: PermissionFlags, path: str
) -> None:
    result = await call_tool("write_file", json.dumps({"path": path, "content": "x"}), place, rules, environ=environ)

    assert (result.is_error, result.code) == (True, "PERMISSION_DENIED")
    assert not (tmp_path / path).exists()


@pytest.mark.covers("SEC-06")
async def test_guardrails_apply_to_a_call(place: WorkspaceOptions, environ: dict[str, str], tmp_path: Path) -> None:
    call = json.dumps({"command": "echo 'DROP DATABASE x' > out.txt"})
    result = await call_tool("shell", call, place, PermissionFlags(allow=("shell",)), environ=environ)

    assert (result.is_error, result.code) == (True, "PERMISSION_DENIED")
    assert "guardrail" in result.output
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize("arguments", ['{"path": ', "[]", '{"paht": "a.txt"}', ""])
async def test_invalid_arguments_are_a_tool_error(
    place: WorkspaceOptions, environ: dict[str, str], arguments: str
) -> None:
    result = await call_tool("read_file", arguments, place, PermissionFlags(), environ=environ)

    assert (result.is_error, result.code) == (True, "VALIDATION_ERROR")


async def test_unknown_tool_is_an_error(place: WorkspaceOptions, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'read_file'"):
        await call_tool("readfile", "{}", place, PermissionFlags(), environ=environ)


# --- config -----------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("CFG-06")
def test_settings_are_changed_and_described_with_their_origin(place: WorkspaceOptions, environ: dict[str, str]) -> None:
    file = change_config("providers.openai.apiKey", "sk-secret", environ).file
    change_config("providers.openai.baseUrl", "https://me:hunter2@host/v1", environ)
    change_config("agent.max_tokens", "100", environ)
    change_config("permissions.deny", "shell\nedit(.github/**)", environ)

    described = {s.key: s for s in describe_settings(place, {**environ, "AGENT_MODEL": "a:b"}).settings}

    assert described["providers.openai.apiKey"].value == "[redacted]"
    assert described["providers.openai.baseUrl"].value == "https://[redacted]@host/v1"
    assert (described["agent.maxTokens"].value, described["agent.maxTokens"].origin) == (100, str(file))
    assert described["permissions.deny"].value == ("shell", "edit(.github/**)")
    assert (described["model"].value, described["model"].origin) == ("a:b", "environment")
    change_config("agent.maxTokens", None, environ)
    assert "agent.maxTokens" not in {s.key for s in describe_settings(place, environ).settings}


def test_value_that_names_nothing_is_saved_with_the_closest_name(
    place: WorkspaceOptions, environ: dict[str, str]
) -> None:
    for key, value, *problems in (
        ("model", "openai:gpt-5-mini"),
        ("model", "ollama:anything"),
        ("model", "gpt5-mini", "Unknown model of openai: gpt5-mini. Did you mean 'gpt-5-mini'?"),
        ("model", "opneai:gpt-5", "Unknown provider: 'opneai'. Did you mean openai:gpt-5?"),
        ("model", "embedded:x", "Unknown model of embedded: x. Available: qwen-coder-0.5b"),
        ("model", "openai:gpt-5-mini"),
        ("providers.anthropic.model", "claude-sonet-4-5", "Unknown model of anthropic: claude-sonet-4-5. Did you mean"),
        ("providers.default", "opnai", "Unknown provider: 'opnai'"),
        ("permissions.deny", "shel(rm *)\nmcp__x\nscope:network", "The deny rule 'shel(rm *)'"),
        ("permissions.allow", "Bash(git *)", "matches no tool and has no effect. Did you mean 'shell'?"),
    ):
        found = change_config(key, value, environ, place=place).problems
        assert bool(found) == bool(problems), (key, value, found)
        assert all(any(problem in text for text in found) for problem in problems), (key, value, found)
    assert [change_config("model", None, environ).changed for _ in range(2)] == [True, False]


def test_one_setting_or_section_is_shown(place: WorkspaceOptions, environ: dict[str, str]) -> None:
    change_config("agent.maxTurns", "7", environ)
    change_config("model", "openai:gpt-5-mini", environ)

    assert [each.key for each in describe_settings(place, environ, section="agent").settings] == ["agent.maxTurns"]
    assert find_setting("agent.max_turns", place, environ).value == 7
    assert find_setting("agent.maxTokens", place, environ).value == 16384
    assert find_setting("providers.openai.apiKey", place, environ).value is None
    for key, problem in (
        ("agent", "is a section"),
        ("agent.maxTurn", "Did you mean 'agent.maxTurns'?"),
        ("no", "List all"),
    ):
        with pytest.raises(ConfigError, match=re.escape(problem)):
            find_setting(key, place, environ)


def test_defaults_are_those_that_a_run_uses(place: WorkspaceOptions, environ: dict[str, str]) -> None:
    described = {s.key: s for s in describe_settings(place, environ, include_unset=True).settings}

    behavior = build_behavior(AppConfig(), Compaction())
    assert behavior.retry is not None
    assert behavior.compaction is not None
    used = {
        "agent.maxTokens": behavior.max_output_tokens,
        "agent.maxTurns": behavior.max_turns,
        "agent.repeatHint": behavior.repeat_hint,
        "agent.temperature": behavior.temperature,
        "retry.maxRetries": behavior.retry.max_retries,
        "retry.baseDelayMs": behavior.retry.base_delay_seconds * 1000,
        "retry.maxDelayMs": behavior.retry.max_delay_seconds * 1000,
        "retry.enableJitter": behavior.retry.jitter > 0,
        "compaction.reserveTokens": behavior.compaction.reserve,
        "compaction.keepRecentTokens": behavior.compaction.keep_recent,
    }
    assert {key: described[key].value for key in used} == used
    assert (described["agent.maxTokens"].value, described["retry.maxRetries"].value) == (16384, 3)
    assert {described[key].origin for key in used} == {"default"}


@pytest.mark.parametrize(
    ("value", "saved"), [('["usr"]', ["usr"]), ("usr\nfoo\n", ["usr", "foo"]), ("false", False), ("true", True)]
)
def test_setting_that_is_a_list_or_a_boolean_is_changed(environ: dict[str, str], value: str, saved: object) -> None:
    file = change_config("skills.enabled", value, environ).file

    assert json.loads(file.read_text())["skills"]["enabled"] == saved


@pytest.mark.covers("CFG-06")
def test_section_of_a_provider_is_changed_as_an_object(
    place: WorkspaceOptions, environ: dict[str, str], home: Path
) -> None:
    change_config("providers.azure.model", "m", environ)
    file = change_config(
        "providers.azure", '{"endpoint": "https://x", "deployment": "d", "max_output_tokens": 5}', environ
    ).file

    section = {"model": "m", "endpoint": "https://x", "deployment": "d", "maxOutputTokens": 5}
    assert json.loads(file.read_text())["providers"]["azure"] == section
    for value, problem in (
        ('{"endpont": "x"}', "Unknown setting: 'providers.azure.endpont'"),
        ('["x"]', "providers.azure must be a JSON object"),
        ("x", "providers.azure must be a JSON object"),
        ('{"maxOutputTokens": -1}', "providers.azure.maxOutputTokens must be"),
    ):
        with pytest.raises(ConfigError, match=problem):
            change_config("providers.azure", value, environ)
    with pytest.raises(ConfigError, match=r"providers\.azure\.apiKey is not allowed in a project"):
        change_config("providers.azure", '{"apiKey": "k"}', environ, place=place, project=True)
    assert json.loads(file.read_text())["providers"]["azure"] == section


@pytest.mark.parametrize(("key", "value"), [("agent.maxTokens", "x"), ("nonsense", "1"), ("model", " ")])
def test_invalid_changes_are_rejected(environ: dict[str, str], home: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigError):
        change_config(key, value, environ)

    assert not (home / ".agent").exists()


def test_settings_cannot_be_saved_without_a_home() -> None:
    with pytest.raises(ConfigError, match="MAINSPRING_HOME"):
        change_config("model", "a:b", {"HOME": "nowhere"})


# --- sessions, recordings, models, and checks -------------------------------------------------------------------------------


def test_sessions_of_the_folder_are_listed(place: WorkspaceOptions, environ: dict[str, str], tmp_path: Path) -> None:
    with Session.create(tmp_path, title="mine") as session:
        session.save()
    with Session.create(tmp_path / "else") as other:
        other.save()

    assert [s.title for s in list_saved_sessions(place, environ=environ)] == ["mine"]
    assert len(list_saved_sessions(place, everywhere=True, environ=environ)) == 2
    assert list_saved_sessions(place, environ={"HOME": "nowhere"}) == []


EXCHANGE = {
    "provider": "openai",
    "api": "chat_completions",
    "response": {
        "status": 200,
        "body_text": json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}),
    },
}


def test_recordings_are_decoded(tmp_path: Path) -> None:
    folder = tmp_path / "traffic" / "openai"
    folder.mkdir(parents=True)
    (folder / "b.json").write_text(json.dumps(EXCHANGE), encoding="utf-8")
    (folder / "INDEX.json").write_text("[]", encoding="utf-8")
    single = tmp_path / "a.json"
    single.write_text(json.dumps({**EXCHANGE, "response": {"status": 429, "body_text": "{}"}}), encoding="utf-8")

    results = list(decode_recordings([str(tmp_path / "traffic"), str(single)]))

    assert [r["file"] for r in results] == [str(folder / "b.json"), str(single)]
    assert results[0]["text"] == "hello"
    assert results[1]["error"]["code"] == "RATE_LIMITED"


def test_unreadable_recording_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{", encoding="utf-8")
    (tmp_path / "b.json").write_text(json.dumps({**EXCHANGE, "api": "embeddings"}), encoding="utf-8")
    (tmp_path / "c.json").write_text(json.dumps(EXCHANGE), encoding="utf-8")
    tally = ReplaySummary()

    results = list(decode_recordings([str(tmp_path)]))
    for result in results:
        tally.add(result)

    assert [r["error"] and r["error"]["reason"] for r in results] == ["unreadable", "unsupported_api", None]
    assert str(tally) == "3 recordings: 1 decoded (0 with errors), 2 unsupported"


@pytest.mark.parametrize("name", ["none", "bad.json"])
def test_missing_or_invalid_recording_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")

    with pytest.raises(ConfigError, match=name):
        list(decode_recordings([str(tmp_path / name)]))


async def test_available_models_are_listed(
    place: WorkspaceOptions, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = WorkspaceOptions(cwd=place.cwd, offline=True)
    found = {view.spec: view for view in await list_models(place, environ)}

    assert "OPENAI_API_KEY" in found["openai:MODEL"].note
    assert "MAINSPRING_LOCAL_BASE_URL" in found["local:MODEL"].note
    assert {"embedded:qwen-coder-0.5b", "embedded:qwen-coder-1.5b", "embedded:smollm2-135m"} <= set(found)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    found = {view.spec: view for view in await list_models(place, {**environ, "OPENAI_API_KEY": "sk-1"})}
    assert (found["openai:gpt-5-mini"].state, found["openai:gpt-5-mini"].chosen) == ("ready", True)
    assert "openai:MODEL" not in found
    mini = found["openai:gpt-5-mini"]
    assert (mini.context_window, mini.max_output_tokens, mini.prices) == (400_000, 128_000, (0.25, 2.0, 0.025, 0.25))
    assert (found["openai:gpt-5.4"].dearer_above, mini.dearer_above, mini.reachable) == (272_000, None, None)
    assert found["embedded:qwen-coder-0.5b"].prices == (0.0, 0.0, 0.0, 0.0)


SETTINGS = """{"providers": {
  "mine": {"baseUrl": "%s/v1", "model": "m1", "models": {"m2": {"contextWindow": 5000, "prices": [1, 2]}}},
  "dead": {"baseUrl": "http://127.0.0.1:9/v1", "model": "x"}
}}"""


@pytest.fixture
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove providers on other hosts, so that no test uses the network."""
    monkeypatch.delitem(PROVIDERS, "ollama")


@pytest.mark.usefixtures("quick_probes")
async def test_hosts_of_configured_models_are_probed(
    place: WorkspaceOptions, environ: dict[str, str], home: Path
) -> None:
    async with serve(plain(b"{}", "401 Unauthorized")) as server:
        (home / ".agent").mkdir()
        (home / ".agent" / "settings.json").write_text(SETTINGS % server.url, encoding="utf-8")
        found = {view.spec: view for view in await list_models(place, environ)}
        quiet = {view.spec: view for view in await list_models(WorkspaceOptions(cwd=place.cwd, offline=True), environ)}

    assert (found["mine:m1"].state, found["mine:m1"].reachable) == ("ready", True)
    assert (found["mine:m2"].context_window, found["mine:m2"].prices) == (5000, (1.0, 2.0, 1.0, 1.0))
    assert (found["dead:x"].state, found["dead:x"].reachable, found["dead:x"].prices) == ("down", False, None)
    assert "Not logged in to codex" in found["codex:MODEL"].note
    assert found["dead:x"].note == "Nothing answers at http://127.0.0.1:9/v1. Start the server, or change its address."
    assert (quiet["dead:x"].state, quiet["dead:x"].reachable) == ("ready", None)
    assert [request.target for request in server.requests] == ["/v1/models"]
    assert "authorization" not in server.requests[0].headers


async def test_unknown_embedded_model_cannot_be_downloaded(place: WorkspaceOptions) -> None:
    with pytest.raises(ConfigError, match="qwen-coder-0.5b"):
        await download_model("gpt-9", place, print, CancelToken())


async def test_check_reports_missing_setup(place: WorkspaceOptions, environ: dict[str, str]) -> None:
    found = await run_checks(WorkspaceOptions(cwd=place.cwd, offline=True), model="gpt-9", environ=environ)

    items = {item.name: item for item in found.items}
    assert items["home"].state == "ok"
    assert items["model"].state == "missing"
    assert "OPENAI_API_KEY" in items["model"].advice
    assert found.error is not None
    for name, variable in (
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", "GOOGLE_API_KEY"),
    ):
        missing = items[f"provider {name}"]
        assert (missing.state, missing.text) == ("note", "not set up")
        assert variable in missing.advice
        assert f"providers.{name}.apiKey" in missing.advice


async def test_check_reports_configured_providers(
    place: WorkspaceOptions, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    found = await run_checks(
        WorkspaceOptions(cwd=place.cwd, offline=True), environ={**environ, "ANTHROPIC_API_KEY": "k"}
    )

    item = next(item for item in found.items if item.name == "provider anthropic")
    assert (item.state, item.advice) == ("ok", "")
    assert "claude-sonnet-5-5 at https://api.anthropic.com" in item.text


@pytest.mark.covers("PRV-11")
@pytest.mark.parametrize("model", [None, "azure:gpt-5"])
async def test_check_of_azure_needs_only_a_key_and_a_base_url(
    place: WorkspaceOptions, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, model: str | None
) -> None:
    variables = {"AZURE_OPENAI_BASE_URL": "https://r.openai.azure.com/openai/v1"}
    monkeypatch.setenv(*next(iter(variables.items())))
    without_key = await run_checks(
        WorkspaceOptions(cwd=place.cwd, offline=True), model=model, environ={**environ, **variables}
    )
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    variables["AZURE_OPENAI_API_KEY"] = "k"
    found = await run_checks(
        WorkspaceOptions(cwd=place.cwd, offline=True), model=model, environ={**environ, **variables}
    )

    first = next(item for item in without_key.items if item.name == "provider azure")
    assert (first.state, "AZURE_OPENAI_API_KEY" in first.advice) == ("note", True)
    item = next(item for item in found.items if item.name == "provider azure")
    assert (item.state, item.advice) == ("ok", "")
    assert item.text == "set up; azure:DEPLOYMENT at https://r.openai.azure.com/openai/v1"


async def test_check_reports_an_unreachable_address(
    place: WorkspaceOptions, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")

    found = await run_checks(place, environ={**environ, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})

    assert found.model is not None
    assert found.model.spec == "openai:gpt-5-mini"
    assert {item.name: item.state for item in found.items}["reachable"] == "wrong"
    assert found.error is not None


async def test_check_reports_a_local_server_that_is_not_running(
    place: WorkspaceOptions, environ: dict[str, str]
) -> None:
    report = await run_checks(place, environ={**environ, "OLLAMA_HOST": "127.0.0.1:9"})

    [item] = [i for i in report.items if i.name == "provider ollama"]
    assert (item.state, "no response from http://" in item.text) == ("note", True)


@pytest.mark.covers("MCP-01")
async def test_check_reports_a_missing_mcp_extra(
    place: WorkspaceOptions, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check_mcp_servers() -> tuple[str, str, str]:
        report = await run_checks(WorkspaceOptions(cwd=place.cwd, offline=True), model="nobody:x", environ=environ)
        item = next((i for i in report.items if i.name == "MCP servers"), None)
        return (item.state, item.text, item.advice) if item else ("", "", "")

    assert await check_mcp_servers() == ("", "", "")
    home = Path(environ["MAINSPRING_HOME"])
    home.mkdir(exist_ok=True)
    (home / "mcp.json").write_text('{"mcpServers": {"mine": {"command": "serve"}}}')
    assert (await check_mcp_servers())[:2] == ("ok", "configured: mine")
    monkeypatch.setattr("mainspring.app.commands.check.find_spec", lambda name: None)
    lacking = "mine: the mcp extra is not installed", install_command("mcp")
    assert await check_mcp_servers() == ("note", *lacking)
