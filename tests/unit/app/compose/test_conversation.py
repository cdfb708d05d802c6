"""Options and settings become an agent."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring import Agent
from mainspring.app.compose.client_services import ClientServices
from mainspring.app.compose.conversation import (
    OpenConversation,
    are_skills_allowed,
    build_behavior,
    build_plugs,
    build_retry,
    is_server_allowed,
    open_conversation,
    open_session,
    select_tools,
    tools_for_small_model,
)
from mainspring.app.compose.system_prompt import build_system_prompt
from mainspring.app.run.options import LaunchOptions, PermissionFlags, WorkspaceOptions
from mainspring.app.workspace.paths import resolve_working_folder
from mainspring.app.workspace.permissions import build_permissions
from mainspring.app.workspace.settings import AppConfig, PermissionSettings, RetrySettings, Settings
from mainspring.app.workspace.settings.load import RuleFile, build_config, env_bool, env_float, env_int, env_str
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError, SessionError
from mainspring.events import Event, Notice
from mainspring.mcp import McpPlug
from mainspring.messages import utc_now
from mainspring.models import ModelInfo, RetryConfig
from mainspring.permissions import RuleSet
from mainspring.policies.large_results.store import FileOutputStore, LargeOutput
from mainspring.redaction import Redactor
from mainspring.sessions import Session
from mainspring.sessions.output_offload import OffloadOutputsPlug
from mainspring.skills import SkillsPlug
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from mainspring.tools import Tool, ToolContext, tool
from mainspring.tools.builtin import builtin_tools
from tests.unit.env.test_process import is_running


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch, home: Path) -> dict[str, str]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    return {"OPENAI_API_KEY": "sk-1", "MAINSPRING_HOME": str(home / ".agent")}


def make_options(folder: Path, **more: Any) -> LaunchOptions:
    return LaunchOptions(prompt="x", place=WorkspaceOptions(cwd=str(folder)), **more)


async def open_and_close(
    given: LaunchOptions, environ: dict[str, str], report: Callable[[Event], None] = print
) -> OpenConversation:
    conversation = await open_conversation(given, report, environ)
    await conversation.aclose()
    return conversation


@pytest.mark.covers("AGT-36")
async def test_options_and_settings_become_an_agent(tmp_path: Path, environ: dict[str, str]) -> None:
    conversation = await open_and_close(make_options(tmp_path, system="Only rhyme.", agent={"maxTurns": 7}), environ)

    agent = conversation.agent
    assert [t.name for t in agent.tools] == [*[t.name for t in builtin_tools()], "remember", "context_read", "spawn"]
    assert agent.context.system.startswith("Only rhyme.")
    assert str(tmp_path) in agent.context.system
    assert agent.behavior.max_turns == 7
    assert conversation.session is not None
    assert agent.session_id == conversation.session.id


@pytest.mark.covers("CFG-10")
@pytest.mark.parametrize(("text", "select", "mode"), [
    ("{}", "keywords", "catalog"),
    ('{"largeOutputs": {"select": "model"}, "skills": {"catalogMode": "breadcrumb"}}', "model", "breadcrumb"),
])  # fmt: skip
async def test_settings_choose_how_outputs_and_skills_are_disclosed(
    tmp_path: Path, environ: dict[str, str], home: Path, text: str, select: str, mode: str
) -> None:
    (home / ".agent").mkdir()
    (home / ".agent" / "settings.json").write_text(text, encoding="utf-8")
    conversation = await open_and_close(make_options(tmp_path), environ)

    assert conversation.output_store is not None
    assert conversation.output_store.selection == select
    assert [p.catalog_mode for p in conversation.agent.plugs if isinstance(p, SkillsPlug)] == [mode]


@pytest.fixture
def project_with_unknown_setting(tmp_path: Path) -> Path:
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent" / "settings.json").write_text('{"modle": 1}', encoding="utf-8")
    return tmp_path


async def test_warnings_are_reported(project_with_unknown_setting: Path, environ: dict[str, str]) -> None:
    events: list[Event] = []

    await open_and_close(make_options(project_with_unknown_setting), environ, events.append)

    assert [type(t) for t in events] == [Notice]


@pytest.mark.covers("EXE-05", "CTX-05")
async def test_programs_end_and_outputs_are_deleted_with_the_conversation(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    conversation = await open_conversation(make_options(tmp_path), print, environ)
    process = int((await conversation.env.run("sleep 60 >/dev/null 2>&1 & echo $!")).stdout.text)
    assert conversation.output_store is not None
    store = conversation.output_store.store
    store.save(LargeOutput(tool="look", args={}, result="x", timestamp=utc_now(), query_id="r"))
    assert is_running(process)

    await conversation.aclose()

    assert not is_running(process)
    assert store.list() == ()


@pytest.mark.covers("CTX-06")
async def test_missing_outputs_of_a_resumed_session_are_reported(
    tmp_path: Path, home: Path, environ: dict[str, str]
) -> None:
    @tool
    async def report() -> str:
        """Report."""
        return "x" * 100_000

    session = Session.create(tmp_path, home=home / ".agent")
    outputs = OffloadOutputsPlug(FileOutputStore(session.context_folder or ""))
    model = ScriptedModel(ScriptedCall("report"), "done")
    await Agent(model, tools=[report], session=session, plugs=[outputs], execution=MemoryEnv()).run("go")
    events: list[Event] = []
    await outputs.close()
    session.close()

    await open_and_close(make_options(tmp_path, continued=True), environ, events.append)

    [notice] = [event for event in events if isinstance(event, Notice)]
    assert notice.text.startswith("1 large outputs of earlier tool calls are no longer stored.")


async def test_session_is_closed_if_the_agent_cannot_be_built(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'read_file'"):
        await open_and_close(make_options(tmp_path, tools=("raed_file",)), environ)
    with pytest.raises(ConfigError, match="--deny"):
        await open_and_close(make_options(tmp_path, rules=PermissionFlags(deny=("shell(",))), environ)


@pytest.mark.parametrize(
    ("rules", "extra"),
    [
        ({}, []),
        ({"allow": ["write_file(out/**)"]}, ["write_file"]),
        ({"allow": ["scope:fs-write"]}, ["write_file", "edit", "multi_edit"]),
        ({"allow": ["shell(ls *)"]}, ["shell"]),
        ({"deny": ["shell"]}, []),
    ],
)
def test_small_model_gets_read_tools_and_allowed_tools(rules: dict[str, Any], extra: list[str]) -> None:
    offered = {t.name for t in tools_for_small_model(builtin_tools(), RuleSet.build(**rules))}

    assert offered == {"read_file", "list_files", "grep", *extra}


@pytest.mark.parametrize(
    ("allowed", "server", "skills"),
    [
        ([], False, False),
        (["mcp__mine"], True, False),
        (["mcp__mine__add"], True, False),
        (["mcp__*"], True, False),
        (["mcp__mi"], False, False),
        (["mcp__other", "skills_*"], False, True),
        (["*"], False, False),
    ],
)
def test_small_model_needs_rules_for_servers_and_skills(allowed: list[str], server: bool, skills: bool) -> None:
    rules = RuleSet.build(allow=allowed)

    assert is_server_allowed("mine", rules) is server
    assert are_skills_allowed(rules) is skills


class SmallModel(ScriptedModel):
    """A model that is too small for all tools at the same time."""

    @property
    def info(self) -> ModelInfo:
        return replace(super().info, tools="union")


async def test_small_model_gets_allowed_servers_and_a_hint_about_others(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    home = Path(environ["MAINSPRING_HOME"])
    home.mkdir()
    servers = {name: {"command": "serve"} for name in ("mine", "other")}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    events: list[Event] = []
    notices: list[str] = []

    async def open_plugins(*allowed: str, **more: Any) -> list[Any]:
        events.clear()
        given = make_options(tmp_path, rules=PermissionFlags(allow=allowed), **more)
        conversation = await open_conversation(given, events.append, environ, ClientServices(model=SmallModel("x")))
        await conversation.aclose()
        notices[:] = [conversation.model_notice("command"), conversation.model_notice("chat")]
        return [p for p in conversation.agent.plugs if isinstance(p, (McpPlug, SkillsPlug))]

    assert await open_plugins() == []
    assert notices[0] == "It gets only tools that read files. Allow others with --allow write_file --allow shell."
    assert "/permissions allow write_file or shell" in notices[1]
    assert "--" not in notices[1]
    assert "allow mcp__mine` or `mainspring permissions allow mcp__other`" in str(events)
    mcp, skills = sorted(await open_plugins("mcp__mine", "skills_activate"), key=lambda p: type(p).__name__)
    assert isinstance(mcp, McpPlug)
    assert isinstance(skills, SkillsPlug)
    assert [s.name for s in mcp.servers] == ["mine"]
    assert "`mainspring permissions allow mcp__other`" in str(events)
    await open_plugins("write_file", "shell")
    assert notices == ["", ""]
    assert await open_plugins("mcp__mine", tools=("read_file",)) == [], "--tools selects exactly these tools"


def test_selected_tools_keep_the_built_in_order() -> None:
    assert [t.name for t in select_tools(builtin_tools(), ["grep", "read_file"])] == ["read_file", "grep"]
    assert select_tools(builtin_tools(), []) == []
    assert [t.name for t in select_tools(builtin_tools(), ["bash", "read"])] == ["read_file", "shell"]


def agent_config(**values: Any) -> AppConfig:
    """Return settings with these keys of ``agent``."""
    return build_config({("agent", name): value for name, value in values.items()})


@pytest.mark.covers("AGT-37")
def test_agent_settings_become_run_limits() -> None:
    behavior = build_behavior(agent_config(maxTokens=9, temperature=0.5, maxCost=2.0))

    assert (behavior.max_output_tokens, behavior.temperature, behavior.max_cost) == (9, 0.5, 2.0)
    assert build_behavior(AppConfig()).max_turns == 50
    assert build_behavior(AppConfig()).max_output_tokens == 16384
    assert build_behavior(AppConfig()).require_read_before_edit
    assert not build_behavior(agent_config(requireReadBeforeEdit=False)).require_read_before_edit
    for given, expected in ((None, 3), (5, 5), (0, None)):
        assert build_behavior(agent_config(repeatHint=given)).repeat_hint == expected


@pytest.mark.covers("CFG-11", "CFG-14")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (RetrySettings(), RetryConfig()),
        (RetrySettings(max_retries=5), RetryConfig(max_retries=5)),
        (RetrySettings(max_retries=0), RetryConfig(max_retries=0)),
        (RetrySettings(base_delay_ms=10), RetryConfig(base_delay_seconds=0.01)),
        (RetrySettings(max_delay_ms=60_000), RetryConfig(max_delay_seconds=60)),
        (RetrySettings(enable_jitter=False), RetryConfig(jitter=0.0)),
        (RetrySettings(enable_jitter=True), RetryConfig()),
        (RetrySettings(enabled=False, max_retries=5), None),
    ],
)
def test_retry_settings_become_a_retry_config(settings: RetrySettings, expected: RetryConfig | None) -> None:
    assert build_retry(settings) == expected
    assert build_behavior(AppConfig(retry=settings)).retry == expected


@pytest.mark.covers("CTX-09")
async def test_default_list_of_tools_keeps_their_large_output_in_the_history(tmp_path: Path) -> None:
    names = ("read_file", "skills_use", "skills_read", "spawn", "context_read", "other")
    plugs, outputs = build_plugs(str(tmp_path), Settings(config=AppConfig()), None, Redactor(), minimal=False)
    assert outputs is not None

    async def print_much(arguments: dict[str, Any], ctx: ToolContext) -> str:
        return "x" * 40_000

    def large_tool(name: str) -> Tool:
        return Tool(name=name, description="Large.", input_schema={"type": "object"}, execute=print_much)

    tools = [large_tool(name) for name in names]
    model = ScriptedModel([ScriptedCall(name) for name in names], "done")
    agent = Agent(model, tools=tools, plugs=plugs, execution=MemoryEnv())

    result = await agent.run("go")

    kept = {block.name for m in result.messages for block in m.tool_results if block.text == "x" * 40_000}
    assert kept == {*names} - {"other"}
    assert [pointer.tool for pointer in outputs.store.list()] == ["other"]


def test_invalid_rule_error_names_the_file() -> None:
    source = RuleFile("user", "/x/settings.json", PermissionSettings(ask=("shell", "fs-write")))

    with pytest.raises(ConfigError, match=r"/x/settings.json: permissions.ask\[1\].*scope:fs-write"):
        build_permissions(Settings(config=AppConfig(), rules=(source,)), PermissionFlags(), "/x")


def test_open_session_creates_and_continues_sessions(tmp_path: Path, home: Path) -> None:
    given = make_options(tmp_path)

    assert open_session(make_options(tmp_path, save=False), str(tmp_path), None) is None
    with pytest.raises(SessionError, match="Cannot continue: No sessions in"):
        open_session(make_options(tmp_path, continued=True), str(tmp_path), None)
    session = open_session(given, str(tmp_path), None)
    assert isinstance(session, Session)
    session.save()
    session.close()
    again = open_session(make_options(tmp_path, continued=True), str(tmp_path), None)
    assert again is not None
    assert again.id == session.id
    again.close()


# --- system prompt, folders, and variables ----------------------------------------------------------------------------------


@pytest.mark.covers("AGT-36")
def test_system_prompt_is_stable_within_a_day() -> None:
    day = date(2026, 11, 28)

    prompt = build_system_prompt("/work", day)

    assert prompt == build_system_prompt("/work", day)
    assert "Folder: /work" in prompt
    assert "2026-11-28" in prompt
    assert len(prompt) < 1500
    assert build_system_prompt("/work", day, instructions="Mine.").startswith("Mine.\n\nFolder:")
    assert build_system_prompt("/work", day, is_small_model=True) == ""
    assert build_system_prompt("/work", day, instructions="Mine.", is_small_model=True) == "Mine."


def test_working_folder_is_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert resolve_working_folder(str(tmp_path / "link"), {}) == (str(tmp_path / "real"), "")
    monkeypatch.chdir(tmp_path)
    assert resolve_working_folder(None, {})[0] == str(tmp_path)
    with pytest.raises(NotADirectoryError):
        resolve_working_folder(str(tmp_path / "none"), {})


def test_unreadable_working_folder_has_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root can read every folder, so the system call itself is replaced."""
    monkeypatch.setattr("os.access", lambda *_: False)
    expected = f"Cannot read the working folder {tmp_path} (Permission denied). Use --cwd DIR to choose another folder."

    assert resolve_working_folder(str(tmp_path), {}) == (str(tmp_path), expected)
    monkeypatch.chdir(tmp_path)
    assert resolve_working_folder(None, {}) == (str(tmp_path), expected)


@pytest.mark.covers("PKG-19")
def test_environment_variables_are_parsed() -> None:
    environ = {"S": " x ", "E": " ", "I": "3", "F": "1.5", "Y": "Yes", "N": "off"}

    assert (env_str(environ, "S"), env_str(environ, "E"), env_str(environ, "none")) == ("x", None, None)
    assert (env_int(environ, "I"), env_int(environ, "E")) == (3, None)
    assert (env_float(environ, "F"), env_float(environ, "E")) == (1.5, None)
    assert (env_bool(environ, "Y"), env_bool(environ, "N"), env_bool(environ, "E")) == (True, False, None)
    for read in (env_int, env_float, env_bool):
        with pytest.raises(ConfigError, match="^S must be"):
            read(environ, "S")


@pytest.mark.covers("MEM-04", "TOL-18")
@pytest.mark.parametrize("rule", ["", "remember(.agent/MEMORY.md)"])
async def test_remember_is_offered_without_a_user_and_needs_a_rule(
    tmp_path: Path, environ: dict[str, str], home: Path, rule: str
) -> None:
    allow = (rule.replace(".agent", f"/{home}/.agent").replace("//", "/"),) if rule else ()
    call = ScriptedCall("remember", {"note": "Likes tea", "where": "user"})
    notices: list[Event] = []
    client = ClientServices(model=ScriptedModel(call, "done"))
    given = make_options(tmp_path, rules=PermissionFlags(allow=allow))
    conversation = await open_conversation(given, notices.append, environ, client)
    await conversation.agent.run("remember that I like tea")
    await conversation.aclose()

    [result] = [r for m in conversation.agent.messages for r in m.tool_results]
    assert result.is_error == (not rule), result.text
    assert (home / ".agent" / "MEMORY.md").exists() == bool(rule)
    assert not [n for n in notices if isinstance(n, Notice) and "matches no tool" in n.text]


async def test_messages_that_could_not_be_saved_are_reported_when_the_conversation_ends(
    tmp_path: Path, home: Path, environ: dict[str, str]
) -> None:
    (home / ".agent").mkdir(exist_ok=True)
    (home / ".agent" / "sessions").write_text("")
    events: list[Event] = []
    client = ClientServices(model=ScriptedModel("yes"))
    conversation = await open_conversation(make_options(tmp_path), events.append, environ, client)
    await conversation.agent.run("go")

    await conversation.aclose(events.append)

    assert conversation.session is not None
    assert [str(event.text) for event in events if isinstance(event, Notice)][-1] == (
        f"5 entries of session {conversation.session.id} could not be saved: they are missing when you resume it"
    )
