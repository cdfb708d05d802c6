"""The composition root: create a model, tools, permissions, and a session from options and settings, and compose them into one agent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from mainspring.agent.agent import Agent
from mainspring.app.compose.client_services import ClientServices
from mainspring.app.compose.environment import (
    create_environment,
    enable_background_wakeups,
    layer_of,
    tool_services,
    with_language_servers,
)
from mainspring.app.compose.extensions import build_extension_plugs
from mainspring.app.compose.plan_mode import build_audit_log, build_plan_mode, safety_plugs
from mainspring.app.compose.system_prompt import build_prompt_setup
from mainspring.app.providers.select_model import Choice, add_model_advice, make, select_model
from mainspring.app.run.events import RunEventHandler
from mainspring.app.run.options import LaunchOptions, Surface
from mainspring.app.workspace.load import broad_folder_warnings, load_rules, session_store
from mainspring.app.workspace.mcp_servers import build_mcp_plug
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.paths import find_project_root
from mainspring.app.workspace.permissions import KNOWN_TOOL_NAMES, build_permissions
from mainspring.app.workspace.secrets import redactor_of
from mainspring.app.workspace.settings import AppConfig, RetrySettings, Settings, iter_agent_settings
from mainspring.app.workspace.skills import build_skills
from mainspring.app.workspace.trust import TrustStore, trust_warnings
from mainspring.env import LocalEnv
from mainspring.errors import ConfigError, SessionError
from mainspring.events import Notice
from mainspring.globs import matches_any
from mainspring.lazy import lazy_function
from mainspring.loop import Plugin
from mainspring.memory import Memory
from mainspring.messages import Message
from mainspring.models import RetryConfig
from mainspring.permissions import Permissions, RuleSet, describe_unused_rules
from mainspring.permissions.rules import FILE_TOOLS
from mainspring.policies.compaction import Compaction
from mainspring.policies.disclosure import Disclosure
from mainspring.policies.large_results.store import FileOutputStore, MemoryOutputStore
from mainspring.policies.plan_mode import PlanMode
from mainspring.redaction import Redactor
from mainspring.run_options import RunOptions
from mainspring.sessions import Problem, Session, SessionOptions, SessionPlug, resolve_store
from mainspring.sessions.event_log import SessionEventLog
from mainspring.sessions.output_offload import OffloadOutputsPlug, count_missing_outputs
from mainspring.sessions.rewind import FileSnapshots
from mainspring.subagents import SPAWN_TOOL, Subagents, load_definitions
from mainspring.text import suggest_name
from mainspring.tools import Tool, ToolRegistry
from mainspring.tools.builtin import COMMON_ALIASES, builtin_tools

if TYPE_CHECKING:
    from mainspring.app.workspace.session_summaries import create_fork_title
    from mainspring.env import EditorEnv
    from mainspring.mcp import McpPlug
    from mainspring.sessions import find_session
    from mainspring.sessions.home import HomeOrStore
    from mainspring.telemetry import Telemetry, TelemetryOptions, Tracing
else:
    create_fork_title = lazy_function("mainspring.app.workspace.session_summaries", "create_fork_title")
    EditorEnv = lazy_function("mainspring.env.editor", "EditorEnv")
    find_session = lazy_function("mainspring.sessions", "find_session")
    Telemetry = lazy_function("mainspring.telemetry", "Telemetry")
    TelemetryOptions = lazy_function("mainspring.telemetry", "TelemetryOptions")
    Tracing = lazy_function("mainspring.telemetry", "Tracing")


_CLOSE_SECONDS = 5.0


class OpenConversation(Struct, eq=False):
    """An agent with its dependencies, and the resources to release at the end."""

    agent: Agent
    choice: Choice
    env: LocalEnv | EditorEnv
    permissions: Permissions
    settings: Settings
    session: Session | None = None
    output_store: OffloadOutputsPlug | None = None
    plan: PlanMode | None = None
    telemetry: Telemetry | None = None
    sandbox: str = ""
    missing_tools: tuple[str, ...] = ()
    """Common tools that a small model gets only if a rule allows them."""

    def model_notice(self, place: Surface) -> str:
        """Return what the user should know about the model, and what to do about it; empty if nothing."""
        return add_model_advice(self.choice.name.notice, self.missing_tools, place)

    async def aclose(self, report: RunEventHandler | None = None) -> None:
        """End extensions, programs, connections, and the session; abandon anything that does not end in time.

        Args:
            report: Receives a notice if messages of the session could not be saved.
        """
        await _suppress_errors(lambda: asyncio.wait_for(self.agent.shutdown(), _CLOSE_SECONDS))
        known = len(self.session.problems) if self.session is not None else 0
        closing: list[Callable[[], Awaitable[object]]] = [self.env.aclose, self.choice.model.aclose]
        if self.output_store is not None:
            closing.append(self.output_store.close)
        if self.session is not None:
            session = self.session
            closing.append(lambda: asyncio.to_thread(session.close))
        if self.telemetry is not None:
            closing.append(partial(asyncio.to_thread, self.telemetry.close))
        await asyncio.wait(
            [asyncio.ensure_future(_suppress_errors(close)) for close in closing], timeout=_CLOSE_SECONDS
        )
        if report is not None and self.session is not None:
            for problem in self.session.problems[known:]:
                report(Notice(str(problem), "warn"))


async def _suppress_errors(close: Callable[[], Awaitable[object]]) -> None:
    try:
        await close()
    except Exception:  # noqa: BLE001 - the run has ended, and its result is unaffected
        pass


async def open_conversation(
    options: LaunchOptions, report: RunEventHandler, environ: Mapping[str, str], client: ClientServices | None = None
) -> OpenConversation:
    """Open the agent for a run. Calls no model, creates no file, and starts no process unless a sandbox is requested.

    Args:
        options: Options of the command line.
        report: Callback for notices to the user.
        environ: Environment variables.
        client: Services of an interactive front end.

    Raises:
        ConfigError: If options or settings are invalid.
        SessionError: If the session to resume cannot be opened.
    """
    client = client or ClientServices()
    cwd, settings = load_rules(options.place, options.setting_overrides(), environ)
    for warning in (*settings.warnings, *broad_folder_warnings(cwd, environ), *trust_warnings(cwd, settings.home)):
        report(Notice(warning))
    redactor = redactor_of(settings, environ)
    audit = build_audit_log(settings, redactor)
    permissions = build_permissions(
        settings, options.rules, cwd, on_deny=options.on_deny, on_decision=audit.record_decision if audit else None
    )
    permissions.on_permission_request, permissions.unattended = client.ask, client.unattended
    permissions.accept_edits = options.accept_edits
    offered = [
        *builtin_tools(),
        *(select_tools(builtin_tools(include_optional=True), client.tools) if client.tools else ()),
    ]
    if options.tools is not None:
        names = [n for n in options.tools if COMMON_ALIASES.get(n, n) != SPAWN_TOOL]
        offered = select_tools(builtin_tools(include_optional=True), names)
    choice = Choice(client.model, "given") if client.model else await select_model(settings, environ)
    small = choice.model.info.tools == "union"
    rules = permissions.engine.rules
    missing: tuple[str, ...] = ()
    if small and options.tools is None:
        offered = tools_for_small_model(offered, rules)
        missing = tuple([name for name in ("write_file", "shell") if not any(t.name == name for t in offered)])
    session = await asyncio.to_thread(open_session, options, cwd, session_store(settings), redactor)
    try:
        env, confined = await asyncio.to_thread(create_environment, settings, cwd)
        if confined:
            report(Notice(confined))
        is_limited = bool(confined) or settings.config.execution.max_processes is not None
        terminals = None if is_limited else client.terminals
        works = EditorEnv(env, client.buffers, terminals) if client.buffers is not None else env
        setup = await build_prompt_setup(
            works, settings, choice, permissions, report, is_small_model=small, is_unattended=client.ask is None
        )
        telemetry = (
            await build_telemetry(settings, environ, redactor, report) if settings.config.telemetry.enabled else None
        )
        plan = build_plan_mode(options, session, report, switchable=client.ask is not None)
        named = options.tools is not None  # so that no other tool is offered
        plugs, outputs = build_plugs(cwd, settings, session, redactor, minimal=small or named)
        allows_server = partial(is_server_allowed, rules=rules) if small else None
        servers = await asyncio.to_thread(build_servers, cwd, settings, options, client, report, allows_server)
        skilled = not named and (not small or are_skills_allowed(rules))
        agent = Agent(
            client.wrap(choice.model) if client.wrap else choice.model,
            name="mainspring",
            system=setup.system,
            tools=with_language_servers(offered, settings),
            behavior=build_behavior(settings.config, build_compaction(settings)),
            execution=works,
            permissions=permissions,
            skills=await asyncio.to_thread(build_skills, cwd, settings, asks=client.ask is not None)
            if skilled
            else None,
            mcp_servers=servers,
            tool_disclosure=build_disclosure(settings) if servers else None,
            subagents=None if small else await asyncio.to_thread(build_subagents, cwd, settings, options, report),
            plugs=[
                *(telemetry_plugs(telemetry) if telemetry else ()),
                *safety_plugs(plan, audit),
                *plugs,
                *setup.plugs,
                *await build_extension_plugs(cwd, settings, env, report, session, environ, client),
            ],
            extra={**tool_services(settings.home), **client.extra},
            steps=client.steps,
        )
        enable_background_wakeups(agent)
        _report_rules_without_tool(rules, [tool.name for tool in agent.tools], report)
    except BaseException:
        if session is not None:
            session.close()
        raise
    if session is not None:
        record_model_change(session, agent, choice)
        missing_outputs = count_missing_outputs(agent.messages, outputs.store) if outputs else 0
        if missing_outputs:
            report(
                Notice(
                    f"{missing_outputs} large outputs of earlier tool calls are no longer stored. The model can repeat the calls."
                )
            )
    layer = await asyncio.to_thread(layer_of, env, settings)
    return OpenConversation(
        agent, choice, works, permissions, settings, session, outputs, plan, telemetry, layer, missing
    )


def _report_rules_without_tool(rules: RuleSet, offered: Sequence[str], report: RunEventHandler) -> None:
    for text in describe_unused_rules(rules, (*KNOWN_TOOL_NAMES, *offered)):
        report(Notice(text))


def build_plugs(
    cwd: str, settings: Settings, session: Session | None, redactor: Redactor, *, minimal: bool
) -> tuple[list[Plugin], OffloadOutputsPlug | None]:
    """Create the plugins of the agent in addition to its tools and permissions; ``minimal`` skips those that a small agent does not need."""
    stored: list[Plugin] = (
        []
        if session is None
        else [FileSnapshots(session), SessionPlug(session), SessionEventLog(session, redactor=redactor)]
    )
    if minimal:
        return stored, None
    folder = session.context_folder if session else None
    store = FileOutputStore(folder) if folder else MemoryOutputStore()
    outputs = OffloadOutputsPlug(store, select=settings.config.large_outputs.select)
    # The permission prompt confirms each note: it shows the change of the file.
    memory = Memory.for_folder(cwd, user_folder(settings), trusted=is_trusted(cwd, settings), confirm=lambda note: True)
    return [memory, outputs, *stored], outputs


def build_servers(
    cwd: str,
    settings: Settings,
    options: LaunchOptions,
    client: ClientServices,
    report: RunEventHandler,
    is_allowed: Callable[[str], bool] | None,
) -> McpPlug | None:
    """Create the plugin with the MCP servers; None without servers, or if the options name the only tools. Blocks.

    Raises:
        ConfigError: If the options require servers, and none would start.
    """
    plug = None
    if options.tools is None:
        plug = build_mcp_plug(cwd, settings, report, client.ask is None, client.servers, is_allowed)
    if options.require_mcp and plug is None:
        why = "with --tools" if options.tools is not None else "here. Run `mainspring mcp list`"
        raise ConfigError(f"--require-mcp: No MCP server is used {why}.")
    return plug


def build_disclosure(settings: Settings) -> Disclosure:
    """Create the disclosure of the tools of MCP servers from the settings."""
    return Disclosure(settings.config.mcp.disclosure, budget=settings.config.mcp.schema_budget)


def build_subagents(cwd: str, settings: Settings, options: LaunchOptions, report: RunEventHandler) -> Subagents | None:
    """Create the available subagents: the built-in ones, and those of user and project files."""
    if options.tools is not None and not any(COMMON_ALIASES.get(n, n) == SPAWN_TOOL for n in options.tools):
        return None
    home = settings.home
    root = find_project_root(cwd, "agents", home)
    if root is None and os.path.isdir(Path(cwd, ".agents", "agents")):
        root = Path(cwd)
    user = [home.root / "agents"] if home else []
    found = load_definitions(user=user, project=root, trusted=root is not None and is_trusted(str(root), settings))
    for skipped in found.skipped:
        report(Notice(f"Skipped the subagent {skipped.path}: {skipped.reason}"))
    return Subagents(found.definitions)


def user_folder(settings: Settings) -> Path | None:
    """Return the user's folder."""
    return settings.home.root if settings.home else None


def is_trusted(cwd: str, settings: Settings) -> bool:
    """Return True if the folder is trusted."""
    return TrustStore(settings.home).covers(cwd)


def select_tools(tools: Sequence[Tool], names: Sequence[str]) -> list[Tool]:
    """Select tools by name; common names of other programs (`read`, `write`, `bash`) are aliases.

    Raises:
        ConfigError: If a name is unknown.
    """
    known = [t.name for t in tools]
    names = [n if n in known else COMMON_ALIASES.get(n, n) for n in names]
    for name in names:
        if name not in known:
            hint = suggest_name(name, known, f"Available tools: {', '.join(known)}.")
            raise ConfigError(f"Unknown tool: {name!r}. {hint}")
    return list(ToolRegistry(tools).subset(names))


def build_behavior(config: AppConfig, compaction: Compaction | None = None) -> RunOptions:
    """Create the run options from the settings."""
    defaults = {name: setting.default for name, _, setting in iter_agent_settings() if setting.default is not UNSET}
    own = RunOptions(retry=build_retry(config.retry), compaction=compaction)
    return config.agent.run_options().merged_with(own).merged_with(RunOptions(**defaults))


def build_compaction(settings: Settings) -> Compaction | None:
    """Create the compaction from the settings, or return ``None`` if it is off.

    Raises:
        ConfigError: If the model for summaries cannot be created.
    """
    requested = settings.config.compaction
    if not requested.enabled:
        return None
    given: dict[str, Any] = {
        "reserve": requested.reserve_tokens,
        "keep_recent": requested.keep_recent_tokens,
        "threshold": requested.threshold,
        "prompt": requested.prompt,
        "model": make(requested.model, settings.config, registry_of(settings.config)) if requested.model else None,
    }
    return Compaction(**{name: value for name, value in given.items() if value is not None})


def build_retry(settings: RetrySettings) -> RetryConfig | None:
    """Create the retry policy from the settings, or return ``None`` if it is off."""
    return RetryConfig.from_settings(settings) if settings.enabled else None


def open_session(
    options: LaunchOptions, cwd: str, home: HomeOrStore | None, redactor: Redactor | None = None
) -> Session | None:
    """Open or create the session of a run, or return ``None`` if nothing is saved.

    Raises:
        SessionError: If the session to resume does not exist or cannot be read.
    """
    if not options.save:
        return None
    how = SessionOptions(redact_line=redactor.line) if redactor else None
    if options.session_id and (session := _create_session(options.session_id, cwd, home, how)):
        return session
    name = options.session or options.session_id
    if name:
        session = Session.open(find_session(name, cwd, home=home).place, home=home, if_locked="fork", options=how)
    elif options.continued:
        try:
            session = Session.latest(cwd, home=home, if_locked="fork", options=how)
        except SessionError as error:
            raise SessionError(
                f"Cannot continue: {error} Omit --continue to start a session, or choose one of another folder with --session ID "
                "(`mainspring sessions --all` lists them)."
            ) from error
    else:
        return Session.create(cwd, home=home, options=how)
    if not options.fork:
        return session
    with session:
        return session.fork(title=create_fork_title(session))


def _create_session(id: str, cwd: str, home: HomeOrStore | None, how: SessionOptions | None) -> Session | None:
    """Create a session with this ID, or one with another ID if another process is just creating it; None if it exists."""
    store = resolve_store(home)
    if store.exists(id):
        return None
    try:
        return Session.create(cwd, home=home, id=id, options=how)
    except SessionError:
        if store.exists(id):
            return None
    session = Session.create(cwd, home=home, options=how)
    text = f"Session {id} is already open in another process. Continuing in a new session: {session.id}."
    session.journal.add_warning(Problem("locked", text))
    return session


def record_model_change(session: Session, agent: Agent, choice: Choice) -> None:
    """Record in the session that the model has changed."""
    answers = (m for m in reversed(agent.messages) if isinstance(m, Message) and m.role == "assistant")
    last = next(answers, None)
    if last is not None and (last.provider, last.model) != (choice.model.provider, choice.model.model):
        session.record_model(choice.name.spec)


SMALL_MODEL_TOOLS = ("read_file", "list_files", "grep")
"""Tools that a small model gets by default; rules or the user can add more."""


def tools_for_small_model(tools: Sequence[Tool], rules: RuleSet) -> list[Tool]:
    """Return the tools for a small model: those that read, and those that a rule allows."""

    def is_allowed(name: str) -> bool:
        scope = FILE_TOOLS.get(name, "shell-run" if name == "shell" else None)
        return any(r.scope == scope if r.scope else matches_any(name, (r.tool,)) for r in rules.with_effect("allow"))

    return [t for t in tools if t.name in SMALL_MODEL_TOOLS or is_allowed(t.name)]


def is_server_allowed(key: str, rules: RuleSet) -> bool:
    """Return True if a rule allows tools of an MCP server, which have names like ``mcp__KEY__...``."""
    server = f"mcp__{key}__"
    return any(
        r.tool.startswith(server) or matches_any(server, (r.tool,))
        for r in rules.with_effect("allow")
        if r.tool.startswith("mcp__")
    )


def are_skills_allowed(rules: RuleSet) -> bool:
    """Return True if a rule allows tools of skills."""
    return any(r.tool.startswith("skills_") for r in rules.with_effect("allow"))


async def build_telemetry(
    settings: Settings, environ: Mapping[str, str], redactor: Redactor, report: RunEventHandler
) -> Telemetry | None:
    """Create the telemetry from the settings, or return ``None`` if it is off, without importing its packages."""
    requested = settings.config.telemetry
    if not requested.enabled:
        return None
    # The exporters read the variable themselves, and those of single signals.
    endpoint = None if settings.origins.get("telemetry.endpoint") == "environment" else requested.endpoint
    options = TelemetryOptions(
        endpoint=endpoint, sensitive=requested.enable_sensitive_data, span_names=requested.span_names
    )
    telemetry = await asyncio.to_thread(Telemetry, options, environ=environ, redactor=redactor)
    if telemetry.disabled_reason:
        report(Notice(f"Telemetry is enabled, but nothing is sent: {telemetry.disabled_reason}"))
    return telemetry


def telemetry_plugs(telemetry: Telemetry | None) -> list[Plugin]:
    """Return the plugin that traces an agent, if telemetry is enabled."""
    return [Tracing(telemetry)] if telemetry is not None and telemetry.on else []
