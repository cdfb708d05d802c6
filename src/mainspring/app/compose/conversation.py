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
from mainspring.app.compose.client_services import Front
from mainspring.app.compose.environment import environment, layer_of, services, tell_of_ends, with_language_servers
from mainspring.app.compose.extensions import extending
from mainspring.app.compose.plan_mode import audit_of, plan_of, safety_plugs
from mainspring.app.compose.system_prompt import guidance
from mainspring.app.providers.select_model import Choice, choose_model, make
from mainspring.app.run.events import Notice, Reporter
from mainspring.app.run.options import AskOptions
from mainspring.app.workspace.load import load, wide_folder
from mainspring.app.workspace.mcp_servers import mcp_of
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.paths import Home, project_root
from mainspring.app.workspace.permissions import permissions_of
from mainspring.app.workspace.secrets import redactor_of
from mainspring.app.workspace.settings import AppConfig, RetrySettings, Settings
from mainspring.app.workspace.skills import NAMES_OF_SKILLS, skills_of
from mainspring.app.workspace.trust import TrustStore, trust_notes
from mainspring.env import EditorEnv, LocalEnv
from mainspring.errors import ConfigError, SessionError
from mainspring.lazy import later
from mainspring.loop import Behavior, Plug
from mainspring.memory import Memory
from mainspring.messages import Message
from mainspring.models import RetryConfig
from mainspring.permissions import Permissions, RuleSet, rules_without_tool
from mainspring.policies.compaction import Compaction
from mainspring.policies.large_results.store import FileContext, MemoryContext
from mainspring.policies.plan_mode import PlanMode
from mainspring.redaction import Redactor
from mainspring.sessions import Session, SessionOptions, SessionPlug, store_of
from mainspring.sessions.event_log import EventLog
from mainspring.sessions.output_offload import ContextOutputs, missing_outputs
from mainspring.sessions.rewind import FileRecorder
from mainspring.subagents import SPAWN_TOOL, Subagents, load_definitions
from mainspring.tools import Tool, ToolRegistry
from mainspring.tools.builtin import BUILTIN_NAMES, CLASSIC_ALIASES, builtin_tools

if TYPE_CHECKING:
    from mainspring.app.compose.tool_selection import allows_server, allows_skills, for_small
    from mainspring.app.compose.tracing import telemetry_of, tracing_of
    from mainspring.sessions import find_session
    from mainspring.telemetry import Telemetry
else:  # most runs have none
    find_session = later("mainspring.sessions", "find_session")
    allows_server = later("mainspring.app.compose.tool_selection", "allows_server")
    allows_skills = later("mainspring.app.compose.tool_selection", "allows_skills")
    for_small = later("mainspring.app.compose.tool_selection", "for_small")
    telemetry_of = later("mainspring.app.compose.tracing", "telemetry_of")
    tracing_of = later("mainspring.app.compose.tracing", "tracing_of")

MAX_TURNS = 50
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
    outputs: ContextOutputs | None = None
    plan: PlanMode | None = None
    telemetry: Telemetry | None = None
    sandbox: str = ""

    async def aclose(self) -> None:
        """Tell that it is over, end programs, close connections, finish the session; what does not end in time is left."""
        await _quiet(lambda: asyncio.wait_for(self.agent.shutdown(), _CLOSE_SECONDS))
        closing: list[Callable[[], Awaitable[object]]] = [self.env.aclose, self.choice.model.aclose]
        if self.outputs is not None:
            closing.append(self.outputs.close)
        if self.session is not None:
            session = self.session
            closing.append(lambda: asyncio.to_thread(session.close))
        if self.telemetry is not None:
            closing.append(partial(asyncio.to_thread, self.telemetry.close))
        await asyncio.wait([asyncio.ensure_future(_quiet(close)) for close in closing], timeout=_CLOSE_SECONDS)


async def _quiet(close: Callable[[], Awaitable[object]]) -> None:
    try:
        await close()
    except Exception:  # noqa: BLE001 - the run is over; what it gave stands
        pass


async def converse(
    options: AskOptions, report: Reporter, environ: Mapping[str, str], front: Front | None = None
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
    front = front or Front()
    cwd, settings = load(options.place, options.flags(), environ)
    for warning in (*settings.warnings, *wide_folder(cwd, environ), *trust_notes(cwd, settings.home)):
        report(Notice(warning))
    redactor = redactor_of(settings, environ)
    audit = audit_of(settings, redactor)
    permissions = permissions_of(
        settings, options.rules, cwd, on_deny=options.on_deny, on_decision=audit.decided if audit else None
    )
    permissions.on_permission_request, permissions.unattended = front.ask, front.unattended
    permissions.accept_edits = options.accept_edits
    offered = [*builtin_tools(), *(chosen(builtin_tools(every=True), front.tools) if front.tools else ())]
    if options.tools is not None:
        names = [n for n in options.tools if CLASSIC_ALIASES.get(n, n) != SPAWN_TOOL]
        offered = chosen(builtin_tools(every=True), names)
    choice = Choice(front.model, "given") if front.model else await choose_model(settings, environ)
    small = choice.model.info.tools == "union"
    rules = permissions.engine.rules
    if small and options.tools is None:
        offered = for_small(offered, rules)
        missing = [name for name in ("write_file", "shell") if not any(t.name == name for t in offered)]
        if missing:
            report(
                Notice(f"a model this small only reads; to let it do more: {' '.join(f'--allow {n}' for n in missing)}")
            )
    _report_rules_without_tool(rules, report)
    session = await asyncio.to_thread(open_session, options, cwd, settings.home, redactor)
    try:
        env, confined = await asyncio.to_thread(environment, settings, cwd)
        if confined:
            report(Notice(confined))
        held = bool(confined) or settings.config.execution.max_processes is not None
        terminals = None if held else front.terminals
        works = EditorEnv(env, front.buffers, terminals) if front.buffers is not None else env
        told = await guidance(works, settings, choice, permissions, report, small=small, alone=front.ask is None)
        telemetry = (
            await telemetry_of(settings, environ, redactor, report) if settings.config.telemetry.enabled else None
        )
        plan = plan_of(options, session, report, switchable=front.ask is not None)
        named = options.tools is not None  # and so nothing else is offered
        plugs, outputs = plugs_of(cwd, settings, session, redactor, bare=small or named)
        skilled = not named and (not small or allows_skills(rules))
        agent = Agent(
            front.wrap(choice.model) if front.wrap else choice.model,
            name="mainspring",
            system=told.system,
            tools=with_language_servers(offered, settings),
            behavior=behavior_of(settings.config, compaction_of(settings)),
            execution=works,
            permissions=permissions,
            skills=await asyncio.to_thread(skills_of, cwd, settings, asks=front.ask is not None) if skilled else None,
            mcp_servers=None
            if named
            else await asyncio.to_thread(
                mcp_of,
                cwd,
                settings,
                report,
                front.ask is None,
                front.servers,
                (lambda key: allows_server(key, rules)) if small else None,
            ),
            tool_disclosure=settings.config.mcp.disclosure,
            subagents=None if small else await asyncio.to_thread(subagents_of, cwd, settings, options, report),
            plugs=[
                *(tracing_of(telemetry) if telemetry else ()),
                *safety_plugs(plan, audit),
                *plugs,
                *told.plugs,
                *await extending(cwd, settings, env, report, session, environ, front),
            ],
            extra={**services(settings.home), **front.extra},
            steps=front.steps,
        )
        tell_of_ends(agent)
    except BaseException:
        if session is not None:
            session.close()
        raise
    if session is not None:
        tell_model(session, agent, choice)
        gone = missing_outputs(agent.messages, outputs.store) if outputs else 0
        if gone:
            report(Notice(f"{gone} large outputs of earlier calls were not kept; the model can make the calls again"))
    layer = await asyncio.to_thread(layer_of, env, settings)
    return Conversation(agent, choice, works, permissions, settings, session, outputs, plan, telemetry, layer)


def _report_rules_without_tool(rules: RuleSet, report: Reporter) -> None:
    """Report rules that name a tool which does not exist; tools of MCP servers are not known yet."""
    for rule in rules_without_tool(rules, [*BUILTIN_NAMES, *NAMES_OF_SKILLS]):
        if not (rule.tool or "").startswith("mcp__"):
            report(Notice(f"no tool fits the rule {rule}; it does nothing"))


def plugs_of(
    cwd: str, settings: Settings, session: Session | None, redactor: Redactor, *, bare: bool
) -> tuple[list[Plug], ContextOutputs | None]:
    """What the agent of the command has beside its tools and permissions; one that is ``bare`` has no use for more."""
    stored: list[Plug] = (
        [] if session is None else [FileRecorder(session), SessionPlug(session), EventLog(session, redactor=redactor)]
    )
    if bare:
        return stored, None
    folder = session.context_folder if session else None
    outputs = ContextOutputs(FileContext(folder) if folder else MemoryContext())
    memory = Memory.of_folder(cwd, home_of(settings), trusted=is_trusted(cwd, settings))
    return [memory, outputs, *stored], outputs


def subagents_of(cwd: str, settings: Settings, options: AskOptions, report: Reporter) -> Subagents | None:
    """The sub-agents that may be started: plain ones, and those of the user's and the project's files."""
    if options.tools is not None and not any(CLASSIC_ALIASES.get(n, n) == SPAWN_TOOL for n in options.tools):
        return None
    home = settings.home
    root = project_root(cwd, "agents", home)
    if root is None and Path(cwd, ".agents", "agents").is_dir():
        root = Path(cwd)
    user = [home.root / "agents"] if home else []
    found = load_definitions(user=user, project=root, trusted=root is not None and is_trusted(str(root), settings))
    for skipped in found.skipped:
        report(Notice(f"the sub-agent {skipped.path} is left out: {skipped.reason}"))
    return Subagents(found.definitions)


def home_of(settings: Settings) -> Path | None:
    """The user's folder."""
    return settings.home.root if settings.home else None


def is_trusted(cwd: str, settings: Settings) -> bool:
    """Whether what the folder brings may act."""
    return TrustStore(settings.home).covers(cwd)


def chosen(tools: Sequence[Tool], names: Sequence[str]) -> list[Tool]:
    """The tools of these names; those that other programs use (`read`, `write`, `bash`) stand for ours.

    Raises:
        ConfigError: If there is none of a name.
    """
    known = [t.name for t in tools]
    names = [n if n in known else CLASSIC_ALIASES.get(n, n) for n in names]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise ConfigError(f"there is no tool {name!r}; {hint}")
    return list(ToolRegistry(tools).only(names))


def behavior_of(config: AppConfig, compaction: Compaction | None = None) -> Behavior:
    """Limits and options of the settings."""
    agent = config.agent
    return Behavior(
        max_turns=agent.max_turns or MAX_TURNS,
        max_seconds=agent.max_seconds,
        max_cost=agent.max_cost,
        max_total_tokens=agent.max_total_tokens,
        max_output_tokens=agent.max_tokens or UNSET,
        temperature=agent.temperature,
        thinking=UNSET if agent.thinking is None else agent.thinking,
        repeat_hint=REPEAT_HINT if agent.repeat_hint is None else agent.repeat_hint or None,
        retry=retry_of(config.retry),
        compaction=compaction,
    )


def compaction_of(settings: Settings) -> Compaction | None:
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


def retry_of(settings: RetrySettings) -> RetryConfig | None:
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


def open_session(options: AskOptions, cwd: str, home: Home | None, redactor: Redactor | None = None) -> Session | None:
    """The session of a run; ``None`` where nothing is to be saved.

    Raises:
        SessionError: If the one to go on with does not exist or cannot be read.
    """
    if not options.save:
        return None
    folder = home.root if home else None
    how = SessionOptions(redact=redactor.line) if redactor else None
    if options.session_id and not store_of(folder).exists(options.session_id):
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


def tell_model(session: Session, agent: Agent, choice: Choice) -> None:
    """Note in the session that another model answers from here on."""
    answers = (m for m in reversed(agent.messages) if isinstance(m, Message) and m.role == "assistant")
    last = next(answers, None)
    if last is not None and (last.provider, last.model) != (choice.model.provider, choice.model.model):
        session.model_change(choice.name.spec)
