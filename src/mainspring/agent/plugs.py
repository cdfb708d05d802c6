"""Creation of plugins from options: skills, subagents, MCP servers, tool disclosure, and token refresh.

Their modules are imported only if an option needs them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import mainspring.skills as skills_package
from mainspring import mcp
from mainspring.agent.lifecycle import AssistPlug
from mainspring.errors import AgentError, ConfigError
from mainspring.events import OauthRefresh
from mainspring.lazy import lazy_class, lazy_function
from mainspring.loop import CoreAgent, Plugin
from mainspring.loop.hooks import SessionEnd, SessionStart
from mainspring.mcp.tool_search import ToolSearchPlug
from mainspring.messages import Message, TextBlock, ToolDefinition
from mainspring.models import ModelRequest
from mainspring.models.auth.credentials import TokenRefreshed, on_token_refresh
from mainspring.policies.disclosure import Disclosure, DisclosureOptions, LoadMode
from mainspring.tools import Tool

if TYPE_CHECKING:
    from mainspring.agent.options import AgentOptions, DisclosureOption, SkillsOption, SubagentsOption
    from mainspring.callbacks import CallbacksPlug
    from mainspring.env import ExecutionEnv, LocalEnv
    from mainspring.extensions.plug import Extensions
    from mainspring.mcp import McpConnector, SamplingRequest, SamplingResult
    from mainspring.mcp.plug import McpPlug, SharedServers
    from mainspring.subagents import Subagents
else:
    LocalEnv = lazy_function("mainspring.env.local", "LocalEnv")
    Extensions = lazy_class("mainspring.extensions.plug", "Extensions")
    McpPlug = lazy_class("mainspring.mcp.plug", "McpPlug")
    SharedServers = lazy_class("mainspring.mcp.plug", "SharedServers")
    Subagents = lazy_class("mainspring.subagents.plug", "Subagents")
    CallbacksPlug = lazy_function("mainspring.callbacks", "CallbacksPlug")


def to_environment(execution: ExecutionEnv | str | os.PathLike[str] | None) -> ExecutionEnv:
    """Return the environment of the option ``execution``: a folder of this machine, or an environment."""
    if execution is None or isinstance(execution, str | os.PathLike):
        return LocalEnv(execution or ".")
    return execution


def create_plugs(options: AgentOptions) -> list[Plugin]:
    """Create the plugins of an agent, in the order in which they are installed, and remove their options.

    Raises:
        ConfigError: If an option is invalid.
    """
    installed: list[Plugin] = []
    if (permissions := options.pop("permissions", None)) is not None:
        installed.append(_check_plug(permissions, "permissions=Permissions(...)"))
    if (session := options.pop("session", None)) is not None:
        plug = session.plug() if hasattr(session, "plug") else cast("Any", session)
        installed.append(_check_plug(plug, "session=Session.create(), or session=Session.open(ID)"))
    if (memory := options.pop("memory", None)) is not None:
        installed.append(_check_plug(memory, "memory=Memory(...)"))
    installed += skills_plugs(options.pop("skills", None))
    installed += [
        _check_plug(plug, "plugs=[...], of objects with install(agent) and for_child()")
        for plug in options.pop("plugs", ())
    ]
    installed += mcp_plugs(options.pop("mcp_servers", None), options.pop("mcp_connector", None))
    installed += disclosure_plugs(options.pop("tool_disclosure", None), installed)
    if (spawning := subagents_plug(options.pop("subagents", None))) is not None:
        installed.append(spawning)
    if (extensions := options.pop("extensions", None)) is not None:
        installed.append(extensions if isinstance(extensions, Extensions) else Extensions(extensions))
    if not any(isinstance(p, AssistPlug) for p in installed):
        installed.append(AssistPlug())
    installed.append(TokenRefreshPlug())
    if (callbacks := options.pop("callbacks", None)) is not None:
        installed.append(CallbacksPlug(callbacks))
    return installed


def _check_plug(value: Any, expected: str) -> Plugin:
    if isinstance(value, type) or not isinstance(value, Plugin):
        raise ConfigError(f"{value!r:.80} cannot be used here. An agent takes {expected}.")
    return value


@runtime_checkable
class ActivatesSkills(Protocol):
    """A plugin that activates skills."""

    async def set_active(self, name: str) -> None:
        """Activate a skill."""
        ...

    async def deactivate(self, name: str) -> bool:
        """Deactivate a skill."""
        ...


def skills_plugs(option: SkillsOption | None) -> list[Plugin]:
    """Create the plugin of the option, if it is set.

    Raises:
        ConfigError: If the option is invalid.
    """
    if option is None:
        return []
    if isinstance(option, skills_package.SkillsPlug):
        return [option]
    if isinstance(option, skills_package.SkillsConfig):
        return [skills_package.SkillsPlug(option)]
    if isinstance(option, str | os.PathLike):
        option = [option]
    given: list[Any] = list(option) if isinstance(cast("object", option), Iterable) else [option]
    folders = tuple([os.path.expanduser(each) for each in given if isinstance(each, str | os.PathLike)])
    inline = tuple([each for each in given if isinstance(each, skills_package.Skill)])
    if len(folders) + len(inline) != len(given):
        raise ConfigError("skills=... takes Skills(...), SkillsConfig(...), or a list of folders and Skill(...)..")
    return [
        skills_package.SkillsPlug(skills_package.SkillsConfig(user=folders, inline=inline)),
        _FolderCheckPlug(folders),
    ]


class _FolderCheckPlug(Plugin):
    """Checks that the folders exist when the first run is prepared: this needs disk access, which creating an agent avoids."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders

    def install(self, agent: CoreAgent) -> None:
        """Do nothing."""

    def for_child(self) -> None:
        """Return ``None``: the folders have been checked."""

    async def prepare(self) -> None:
        """Raise ConfigError if a folder is missing: a misspelled folder would otherwise silently have no skills."""
        for folder in self._folders:
            if not await asyncio.to_thread(os.path.isdir, folder):
                raise ConfigError(
                    f"Skills folder not found: {folder}. Use a SkillsConfig for folders that may be created later."
                )


def find_skill_activator(plugs: Iterable[Plugin]) -> ActivatesSkills:
    """Return the plugin that has the skills.

    Raises:
        AgentError: If no plugin has skills.
    """
    found = next((p for p in plugs if isinstance(p, ActivatesSkills)), None)
    if found is None:
        raise AgentError("This agent has no skills. Add some: Agent(..., skills=...).")
    return found


def subagents_plug(option: SubagentsOption | None) -> Subagents | None:
    """Create the plugin of the option."""
    if option is None or isinstance(option, Subagents):
        return option
    if isinstance(option, bool):
        return Subagents() if option else None
    return Subagents(option)


SAMPLING_PURPOSE = "mcp:sampling"
"""The purpose under which a server's requests to the model are counted."""


def mcp_plugs(servers: Any, connector: McpConnector | None) -> list[Plugin]:
    """Create the plugin of the option; none without servers.

    Raises:
        ConfigError: If a configuration is invalid, or a connector is set without servers.
    """
    if servers is None:
        if connector is not None:
            raise ConfigError("mcp_connector needs mcp_servers=[...].")
        return []
    if isinstance(servers, McpPlug):
        if connector is not None:
            raise ConfigError("Pass the connector to the Mcp itself: Mcp([...], connector=...).")
        return [servers]
    return [McpPlug(servers, connector=connector)]


def bind_sampling(agent: CoreAgent) -> None:
    """Let the servers of an agent call its model, if the user agrees."""
    for plug in agent.plugs:
        if isinstance(plug, (McpPlug, SharedServers)):
            plug.set_sampler(lambda request: _answer_sampling_request(agent, request))


async def close_servers(agents: Iterable[CoreAgent], *, shared: bool = False) -> None:
    """Stop the servers of agents; they are started again when needed.

    Args:
        agents: The agents.
        shared: Whether to stop servers that they share with other conversations, too.
    """
    for agent in agents:
        for plug in agent.plugs:
            if isinstance(plug, McpPlug) or (shared and isinstance(plug, SharedServers)):
                await plug.aclose()


INHERITED_OPTIONS = frozenset({"convert", "extra", "hooks", "name", "tool_aliases", "tools", "transform"})
"""Options of an agent that its conversations have, too."""


def conversation_plugs(plugs: Iterable[Plugin]) -> list[Plugin]:
    """Return plugins in their form for another conversation."""
    found: Iterable[Plugin | None] = (getattr(p, "for_conversation", p.for_child)() for p in plugs)
    return [plug for plug in found if plug is not None]


async def _answer_sampling_request(agent: CoreAgent, sampling_request: SamplingRequest) -> SamplingResult:
    request = ModelRequest(
        messages=tuple(
            [
                Message(m.role, tuple([TextBlock(_block_text(block)) for block in m.content]))
                for m in sampling_request.messages
            ]
        ),
        system=sampling_request.system,
        max_output_tokens=sampling_request.max_tokens or None,
        temperature=sampling_request.temperature,
    )
    answer = await agent.side_call(SAMPLING_PURPOSE, request)
    stopped = "maxTokens" if answer.stop_reason == "max_tokens" else "endTurn"
    return mcp.SamplingResult(answer.text, answer.model or agent.model.model, stopped)


def _block_text(block: dict[str, Any]) -> str:
    return str(block.get("text", f"[{block.get('type')}]"))


def disclosure_plugs(option: DisclosureOption | None, plugs: Sequence[Plugin]) -> list[Plugin]:
    """Return the plugins to add. A server's configuration sets its mode, unless the option names the server, too.

    Raises:
        ConfigError: If the option is invalid, or such a plugin exists already.
    """
    given = next((p for p in plugs if isinstance(p, Disclosure)), None)
    if given is not None and option is not None:
        raise ConfigError("Pass either tool_disclosure or a Disclosure in plugs, not both.")
    if option is not None and not isinstance(option, Disclosure):
        option = Disclosure(option)
    chosen = given or option or Disclosure()
    modes: dict[str, LoadMode] = {
        s.name: s.config.disclosure for p in plugs if isinstance(p, McpPlug) for s in p.servers if s.config.disclosure
    }
    chosen.servers = {**modes, **chosen.servers}
    added: list[Plugin] = [] if given is not None else [chosen]
    return added if any(isinstance(p, ToolSearchPlug) for p in plugs) else [*added, ToolSearchPlug()]


def configure_disclosure(agent: CoreAgent, options: DisclosureOptions) -> None:
    """Apply the options of the next run to the disclosure, and to the search tool."""
    disclosure = next((p for p in agent.plugs if isinstance(p, Disclosure)), None)
    search = next((p for p in agent.plugs if isinstance(p, ToolSearchPlug)), None)
    if disclosure is None:
        return
    disclosure.configure(options)
    if search is not None:
        search.update(agent, disclosure)


def find_tool_search(plugs: Sequence[Plugin]) -> Tool | None:
    """Return the search tool of this agent's plugins; a subagent gets another."""
    return next((p.tool for p in plugs if isinstance(p, ToolSearchPlug)), None)


def offered_tool_specs(agent: CoreAgent) -> Sequence[ToolDefinition]:
    """Return the tools that the next request would offer: the agent's tools without the locked ones."""
    specs = agent.context.tools.specs
    disclosure = next((p for p in agent.plugs if isinstance(p, Disclosure)), None)
    return specs if disclosure is None else disclosure.visible_specs(specs)


class TokenRefreshPlug:
    """A plugin that fires `oauth:refresh`.

    Agents share models, so a model does not know which agent to notify: each run listens to its own requests.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None

    def install(self, agent: CoreAgent) -> None:
        """Listen from the start of each run to its end."""
        bus = agent.bus

        def start(hook: SessionStart) -> None:
            async def forward(refreshed: TokenRefreshed) -> None:
                event = OauthRefresh(refreshed.provider, refreshed.account, refreshed.expires, refreshed.reason)
                await bus.notify(event)

            self._stop = on_token_refresh(forward)

        def end(hook: SessionEnd) -> None:
            if self._stop is not None:
                self._stop()
                self._stop = None

        agent.on(SessionStart, start, order=-1000)
        agent.on(SessionEnd, end, order=1000)

    def for_child(self) -> None:
        """Return ``None``: a subagent without the plugin is reported through its parent."""
