"""Execution environments from settings: sandboxes, limits, and language servers."""

import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.compose.client_services import ClientServices
from mainspring.app.compose.conversation import open_conversation
from mainspring.app.compose.environment import create_environment, with_language_servers
from mainspring.app.run.options import LaunchOptions, PermissionFlags, SandboxOptions, WorkspaceOptions
from mainspring.app.workspace.settings import Settings, load_settings
from mainspring.env import LocalEnv
from mainspring.errors import ConfigError
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools.builtin import builtin_tools
from tests.requires import on_linux, skip_missing


def write_settings(tmp_path: Path, values: str, **options: Any) -> Settings:
    file = tmp_path / "home" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(values, encoding="utf-8")
    return load_settings(str(tmp_path), environ={"MAINSPRING_HOME": str(file.parent)}, **options)


async def test_default_environment_is_local_with_limits(tmp_path: Path) -> None:
    env, notice = create_environment(write_settings(tmp_path, '{"execution": {"maxProcesses": 3}}'), str(tmp_path))

    assert (type(env), notice) == (LocalEnv, "")
    done = await env.run("for i in 1 2 3 4 5 6; do sleep 5 & done; wait", timeout=120)
    assert done.swarmed
    await env.aclose()


@on_linux
async def test_sandbox_from_settings_can_be_disabled_by_a_flag(tmp_path: Path) -> None:
    requested = '{"sandbox": {"layer": "auto", "hidden": ["secret"]}}'
    try:
        env, notice = create_environment(write_settings(tmp_path, requested), str(tmp_path))
    except ConfigError:
        skip_missing("a sandbox that works here")
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    assert notice
    assert (await env.run("cat secret")).exit_code != 0
    await env.aclose()
    off = LaunchOptions(prompt="x", sandbox=SandboxOptions(layer="none")).setting_overrides()
    env, notice = create_environment(write_settings(tmp_path, requested, flags=off), str(tmp_path))
    assert (type(env), notice) == (LocalEnv, "")
    await env.aclose()


@pytest.mark.covers("BYD-22")
async def test_language_servers_wrap_the_edit_tools(tmp_path: Path, repository: Path) -> None:
    server = repository / "tests" / "unit" / "tools" / "builtin" / "language_server.py"
    found = next(iter((repository / "tests").rglob("*language_server*.py")), server)
    command = f'["{sys.executable}", "{found}"]'
    loaded = write_settings(
        tmp_path, f'{{"languageServers": {{"fake": {{"command": {command}, "languages": {{".py": "python"}}}}}}}}'
    )

    wrapped = {t.name: t for t in with_language_servers(builtin_tools(include_optional=True), loaded)}
    plain = {t.name: t for t in builtin_tools(include_optional=True)}

    assert {name for name in plain if wrapped[name].execute is not plain[name].execute} == {
        "write_file", "edit", "multi_edit", "apply_patch",
    }  # fmt: skip
    off = write_settings(
        tmp_path, f'{{"languageServers": {{"fake": {{"command": {command}, "languages": {{}}, "enabled": false}}}}}}'
    )
    assert with_language_servers(builtin_tools(), off) == list(builtin_tools())
    model = ScriptedModel(Reply(calls=[ScriptedCall("write_file", {"path": "a.py", "content": "x = 1\n"})]), "done")
    request = LaunchOptions(
        prompt="x", place=WorkspaceOptions(cwd=str(tmp_path)), save=False, rules=PermissionFlags(allow=("write_file",))
    )
    conversation = await open_conversation(
        request, lambda notice: None, {"MAINSPRING_HOME": str(tmp_path / "home")}, ClientServices(model=model)
    )
    result = await conversation.agent.run("x")
    assert result.text == "done"
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == "x = 1\n"
    await conversation.aclose()
