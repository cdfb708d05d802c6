"""The composition root: options and settings become a model, tools, permissions and a session, plugged into one agent."""

from __future__ import annotations

import asyncio
import difflib
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
from mainspring.app.providers.select_model import Choice, make, select_model
from mainspring.app.run.events import Notice, RunEventHandler
from mainspring.app.run.options import LaunchOptions
from mainspring.app.workspace.load import broad_folder_warnings, load
from mainspring.app.workspace.mcp_servers import build_mcp_plug
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.paths import UserPaths, find_project_root
from mainspring.app.workspace.permissions import build_permissions
from mainspring.app.workspace.secrets import redactor_of
from mainspring.app.workspace.settings import AppConfig, RetrySettings, Settings
from mainspring.app.workspace.skills import SKILL_TOOL_NAMES, build_skills
from mainspring.app.workspace.trust import TrustStore, trust_warnings
from mainspring.env import EditorEnv, LocalEnv
from mainspring.errors import ConfigError, SessionError
from mainspring.lazy import lazy_function
from mainspring.loop import Plugin, RunOptions
from mainspring.loop.option_types import Compaction
from mainspring.memory import Memory
from mainspring.messages import Message
from mainspring.models import RetryConfig
from mainspring.permissions import Permissions, RuleSet, find_unused_rules
from mainspring.policies.large_results.store import FileOutputStore, MemoryOutputStore
from mainspring.policies.plan_mode import PlanMode
from mainspring.redaction import Redactor
from mainspring.sessions import Session, SessionOptions, SessionPlug, resolve_store
from mainspring.sessions.event_log import SessionEventLog
from mainspring.sessions.output_offload import OffloadOutputsPlug, count_missing_outputs
from mainspring.sessions.rewind import FileSnapshots
from mainspring.subagents import SPAWN_TOOL, Subagents, load_definitions
from mainspring.tools import Tool, ToolRegistry
from mainspring.tools.builtin import ALL_TOOL_NAMES, COMMON_ALIASES, builtin_tools

if TYPE_CHECKING:
    from mainspring.app.compose.tool_selection import are_skills_allowed, is_server_allowed, tools_for_small_model
    from mainspring.app.compose.tracing import build_telemetry, telemetry_plugs
    from mainspring.sessions import find_session
    from mainspring.telemetry import Telemetry
else:  # most runs have none
    find_session = lazy_function("mainspring.sessions", "find_session")
    is_server_allowed = lazy_function("mainspring.app.compose.tool_selection", "is_server_allowed")
    are_skills_allowed = lazy_function("mainspring.app.compose.tool_selection", "are_skills_allowed")
    tools_for_small_model = lazy_function("mainspring.app.compose.tool_selection", "tools_for_small_model")
    build_telemetry = lazy_function("mainspring.app.compose.tracing", "build_telemetry")
    telemetry_plugs = lazy_function("mainspring.app.compose.tracing", "telemetry_plugs")

DEFAULT_MAX_TURNS = 50
"""Most model calls of a run, where nobody says otherwise."""

REPEAT_HINT = 3
"""Turns that bring nothing new before the model is told, where nobody says otherwise."""

_CLOSE_SECONDS = 5.0


class Conversation(Struct, eq=False):
    """An agent with everything it needs, and what of it must be given back."""

    agent: Agent
    choice: Choice
    env: LocalEnv | EditorEnv
    permissions: Permissions
    settings: Settings
    session: Session | None = None
    outputs: OffloadOutputsPlug | None = None
    plan: PlanMode | None = None
    telemetry: Telemetry | None = None
    sandbox: str = ""

    async def aclose(self) -> None:
        """Tell that it is over, end programs, close connections, finish the session; what does not end in time is left."""
        await _suppress_errors(lambda: asyncio.wait_for(self.agent.shutdown(), _CLOSE_SECONDS))
        closing: list[Callable[[], Awaitable[object]]] = [self.env.aclose, self.choice.model.aclose]
        if self.outputs is not None:
            closing.append(self.outputs.close)
        if self.session is not None:
            session = self.session
            closing.append(lambda: asyncio.to_thread(session.close))
        if self.telemetry is not None:
            closing.append(partial(asyncio.to_thread, self.telemetry.close))
        await asyncio.wait(
            [asyncio.ensure_future(_suppress_errors(close)) for close in closing], timeout=_CLOSE_SECONDS
        )


async def _suppress_errors(close: Callable[[], Awaitable[object]]) -> None:
    try:
        await close()
    except Exception:  # noqa: BLE001 - the run is over; what it gave stands
        pass


async def open_conversation(
    options: LaunchOptions, report: RunEventHandler, environ: Mapping[str, str], front: ClientServices | None = None
) -> Conversation:
    """Everything for a run. Asks no model, and creates no file and starts no process unless a sandbox is asked for.

    Args:
        options: What was asked for.
        report: Is told what people should know.
        environ: The environment.
        front: The front end, where somebody is there to answer.

    Raises:
        ConfigError: If something is wrong with options or settings.
        SessionError: If the session to go on with cannot be opened.
    """
    front = front or ClientServices()
    cwd, settings = load(options.place, options.flags(), environ)
    for warning in (*settings.warnings, *broad_folder_warnings(cwd, environ), *trust_warnings(cwd, settings.home)):
        report(Notice(warning))
    redactor = redactor_of(settings, environ)
    audit = build_audit_log(settings, redactor)
    permissions = build_permissions(
        settings, options.rules, cwd, on_deny=options.on_deny, on_decision=audit.decided if audit else None
    )
    permissions.on_permission_request, permissions.unattended = front.ask, front.unattended
    permissions.accept_edits = options.accept_edits
    offered = [*builtin_tools(), *(select_tools(builtin_tools(every=True), front.tools) if front.tools else ())]
    if options.tools is not None:
        names = [n for n in options.tools if COMMON_ALIASES.get(n, n) != SPAWN_TOOL]
        offered = select_tools(builtin_tools(every=True), names)
    choice = Choice(front.model, "given") if front.model else await select_model(settings, environ)
    small = choice.model.info.tools == "union"
    rules = permissions.engine.rules
    if small and options.tools is None:
        offered = tools_for_small_model(offered, rules)
        missing = [name for name in ("write_file", "shell") if not any(t.name == name for t in offered)]
        if missing:
            report(
                Notice(f"a model this small only reads; to let it do more: {' '.join(f'--allow {n}' for n in missing)}")
            )
    _report_rules_without_tool(rules, report)
    session = await asyncio.to_thread(open_session, options, cwd, settings.home, redactor)
    try:
        env, confined = await asyncio.to_thread(create_environment, settings, cwd)
        if confined:
            report(Notice(confined))
        held = bool(confined) or settings.config.execution.max_processes is not None
        terminals = None if held else front.terminals
        works = EditorEnv(env, front.buffers, terminals) if front.buffers is not None else env
        told = await build_prompt_setup(
            works, settings, choice, permissions, report, small=small, alone=front.ask is None
        )
        telemetry = (
            await build_telemetry(settings, environ, redactor, report) if settings.config.telemetry.enabled else None
        )
        plan = build_plan_mode(options, session, report, switchable=front.ask is not None)
        named = options.tools is not None  # and so nothing else is offered
        plugs, outputs = build_plugs(cwd, settings, session, redactor, bare=small or named)
        skilled = not named and (not small or are_skills_allowed(rules))
        agent = Agent(
            front.wrap(choice.model) if front.wrap else choice.model,
            name="mainspring",
            system=told.system,
            tools=with_language_servers(offered, settings),
            behavior=build_behavior(settings.config, build_compaction(settings)),
            execution=works,
            permissions=permissions,
            skills=await asyncio.to_thread(build_skills, cwd, settings, asks=front.ask is not None)
            if skilled
            else None,
            mcp_servers=None
            if named
            else await asyncio.to_thread(
                build_mcp_plug,
                cwd,
                settings,
                report,
                front.ask is None,
                front.servers,
                (lambda key: is_server_allowed(key, rules)) if small else None,
            ),
            tool_disclosure=settings.config.mcp.disclosure,
            subagents=None if small else await asyncio.to_thread(build_subagents, cwd, settings, options, report),
            plugs=[
                *(telemetry_plugs(telemetry) if telemetry else ()),
                *safety_plugs(plan, audit),
                *plugs,
                *told.plugs,
                *await build_extension_plugs(cwd, settings, env, report, session, environ, front),
            ],
            extra={**tool_services(settings.home), **front.extra},
            steps=front.steps,
        )
        enable_background_wakeups(agent)
    except BaseException:
        if session is not None:
            session.close()
        raise
    if session is not None:
        record_model_change(session, agent, choice)
        gone = count_missing_outputs(agent.messages, outputs.store) if outputs else 0
        if gone:
            report(Notice(f"{gone} large outputs of earlier calls were not kept; the model can make the calls again"))
    layer = await asyncio.to_thread(layer_of, env, settings)
    return Conversation(agent, choice, works, permissions, settings, session, outputs, plan, telemetry, layer)


def _report_rules_without_tool(rules: RuleSet, report: RunEventHandler) -> None:
    """Report rules that name a tool which does not exist; tools of MCP servers are not known yet."""
    for rule in find_unused_rules(rules, [*ALL_TOOL_NAMES, *SKILL_TOOL_NAMES]):
        if not (rule.tool or "").startswith("mcp__"):
            report(Notice(f"no tool fits the rule {rule}; it does nothing"))


def build_plugs(
    cwd: str, settings: Settings, session: Session | None, redactor: Redactor, *, bare: bool
) -> tuple[list[Plugin], OffloadOutputsPlug | None]:
    """What the agent of the command has beside its tools and permissions; one that is ``bare`` has no use for more."""
    stored: list[Plugin] = (
        []
        if session is None
        else [FileSnapshots(session), SessionPlug(session), SessionEventLog(session, redactor=redactor)]
    )
    if bare:
        return stored, None
    folder = session.context_folder if session else None
    outputs = OffloadOutputsPlug(FileOutputStore(folder) if folder else MemoryOutputStore())
    memory = Memory.for_folder(cwd, user_folder(settings), trusted=is_trusted(cwd, settings))
    return [memory, outputs, *stored], outputs


def build_subagents(cwd: str, settings: Settings, options: LaunchOptions, report: RunEventHandler) -> Subagents | None:
    """The sub-agents that may be started: plain ones, and those of the user's and the project's files."""
    if options.tools is not None and not any(COMMON_ALIASES.get(n, n) == SPAWN_TOOL for n in options.tools):
        return None
    home = settings.home
    root = find_project_root(cwd, "agents", home)
    if root is None and Path(cwd, ".agents", "agents").is_dir():
        root = Path(cwd)
    user = [home.root / "agents"] if home else []
    found = load_definitions(user=user, project=root, trusted=root is not None and is_trusted(str(root), settings))
    for skipped in found.skipped:
        report(Notice(f"the sub-agent {skipped.path} is left out: {skipped.reason}"))
    return Subagents(found.definitions)


def user_folder(settings: Settings) -> Path | None:
    """The user's folder."""
    return settings.home.root if settings.home else None


def is_trusted(cwd: str, settings: Settings) -> bool:
    """Whether what the folder brings may act."""
    return TrustStore(settings.home).covers(cwd)


def select_tools(tools: Sequence[Tool], names: Sequence[str]) -> list[Tool]:
    """The tools of these names; those that other programs use (`read`, `write`, `bash`) stand for ours.

    Raises:
        ConfigError: If there is none of a name.
    """
    known = [t.name for t in tools]
    names = [n if n in known else COMMON_ALIASES.get(n, n) for n in names]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise ConfigError(f"there is no tool {name!r}; {hint}")
    return list(ToolRegistry(tools).only(names))


def build_behavior(config: AppConfig, compaction: Compaction | None = None) -> RunOptions:
    """Limits and options of the settings."""
    agent = config.agent
    return RunOptions(
        max_turns=agent.max_turns or DEFAULT_MAX_TURNS,
        max_seconds=agent.max_seconds,
        max_cost=agent.max_cost,
        max_total_tokens=agent.max_total_tokens,
        max_output_tokens=agent.max_tokens or UNSET,
        temperature=agent.temperature,
        thinking=UNSET if agent.thinking is None else agent.thinking,
        repeat_hint=REPEAT_HINT if agent.repeat_hint is None else agent.repeat_hint or None,
        retry=build_retry(config.retry),
        compaction=compaction,
    )


def build_compaction(settings: Settings) -> Compaction | None:
    """When and how a conversation is summed up; ``None`` is never.

    Raises:
        ConfigError: If the model that is to sum up cannot be made.
    """
    wanted = settings.config.compaction
    if not wanted.enabled:
        return None
    given: dict[str, Any] = {
        "reserve": wanted.reserve_tokens,
        "keep_recent": wanted.keep_recent_tokens,
        "threshold": wanted.threshold,
        "prompt": wanted.prompt,
        "model": make(wanted.model, settings.config, registry_of(settings.config)) if wanted.model else None,
    }
    return Compaction(**{name: value for name, value in given.items() if value is not None})


def build_retry(settings: RetrySettings) -> RetryConfig | None:
    """How to try again; ``None`` is not at all."""
    if not settings.enabled:
        return None
    given: dict[str, Any] = {
        "max_retries": settings.max_retries,
        "base_delay_ms": settings.base_delay_ms,
        "max_delay_ms": settings.max_delay_ms,
        "jitter": 0.0 if settings.enable_jitter is False else None,
    }
    return RetryConfig(**{name: value for name, value in given.items() if value is not None})


def open_session(
    options: LaunchOptions, cwd: str, home: UserPaths | None, redactor: Redactor | None = None
) -> Session | None:
    """The session of a run; ``None`` where nothing is to be saved.

    Raises:
        SessionError: If the one to go on with does not exist or cannot be read.
    """
    if not options.save:
        return None
    folder = home.root if home else None
    how = SessionOptions(redact=redactor.line) if redactor else None
    if options.session_id and not resolve_store(folder).exists(options.session_id):
        return Session.create(cwd, home=folder, id=options.session_id, options=how)
    name = options.session or options.session_id
    if name:
        session = Session.open(find_session(name, cwd, home=folder).place, home=folder, if_taken="fork", options=how)
    elif options.continued:
        try:
            session = Session.latest(cwd, home=folder, if_taken="fork", options=how)
        except SessionError as error:
            raise SessionError(
                f"--continue: {error}; leave it out to begin one, or name one with --session ID"
            ) from error
    else:
        return Session.create(cwd, home=folder, options=how)
    if not options.fork:
        return session
    with session:
        return session.fork()


def record_model_change(session: Session, agent: Agent, choice: Choice) -> None:
    """Note in the session that another model answers from here on."""
    answers = (m for m in reversed(agent.messages) if isinstance(m, Message) and m.role == "assistant")
    last = next(answers, None)
    if last is not None and (last.provider, last.model) != (choice.model.provider, choice.model.model):
        session.model_change(choice.name.spec)
