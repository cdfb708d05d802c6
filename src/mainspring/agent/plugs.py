"""Skills as an option of an agent. What they need is imported where somebody has some.

Sub-agents as `Subagents` needs them: made by the public Agent, with what its run has.

What an agent is told of MCP servers, as a plug; and the model, for servers that may ask it.

What an agent is told of disclosure, as plugs.

Renewed tokens of logins, told on the bus of the run whose request had them renewed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import mainspring.skills as package
from mainspring import mcp
from mainspring.errors import AgentError, ConfigError
from mainspring.loop import CoreAgent, Plugin
from mainspring.loop.hooks import OAuthRefresh, SessionEnd, SessionStart
from mainspring.mcp.tool_search import ToolSearchPlug
from mainspring.messages import AgentMessage, Message, TextBlock, ToolDefinition
from mainspring.models import ModelRequest
from mainspring.models.auth.oauth import TokenRefreshed, on_token_refresh
from mainspring.policies.disclosure import Disclosure, LoadMode
from mainspring.subagents import AgentDefinition, Subagents
from mainspring.tools import Tool

if TYPE_CHECKING:
    from mainspring.mcp import McpConnector, McpPlug, SamplingRequest, SamplingResult
    from mainspring.skills import Skill, SkillsConfig, SkillsPlug

    SkillsOption = SkillsPlug | SkillsConfig | str | os.PathLike[str] | Iterable[str | os.PathLike[str] | Skill]


@runtime_checkable
class SkillActivator(Protocol):
    """A plug by which skills become active."""

    async def set_active(self, name: str) -> None:
        """Make one active."""
        ...

    async def deactivate(self, name: str) -> bool:
        """Make one inactive."""
        ...


@runtime_checkable
class PreservesMessages(Protocol):
    """A plug that says which messages no summary may take the place of."""

    def keeps(self, message: AgentMessage, /) -> bool:
        """Whether it must stay as it is."""
        ...


def skills_plugs(option: SkillsOption | None) -> list[Plugin]:
    """The plug that an option stands for; none for none.

    Raises:
        ConfigError: If it is no such option.
    """
    if option is None:
        return []
    if isinstance(option, package.SkillsPlug):
        return [option]
    if isinstance(option, package.SkillsConfig):
        return [package.SkillsPlug(option)]
    if isinstance(option, str | os.PathLike):
        option = [option]
    given: list[Any] = list(option) if isinstance(cast("object", option), Iterable) else [option]
    folders = tuple([os.path.expanduser(each) for each in given if isinstance(each, str | os.PathLike)])
    inline = tuple([each for each in given if isinstance(each, package.Skill)])
    if len(folders) + len(inline) != len(given):
        raise ConfigError("skills=... takes Skills(...), SkillsConfig(...), or a list of folders and Skill(...)")
    return [package.SkillsPlug(package.SkillsConfig(user=folders, inline=inline)), _FolderCheckPlug(folders)]


class _FolderCheckPlug(Plugin):
    """Looks whether the folders are there, when the first run gets ready: that takes a disk, which making an agent does not."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders

    def install(self, agent: CoreAgent) -> None:
        """Nothing to listen to."""

    def for_child(self) -> None:
        """Nothing: they were looked at."""

    async def prepare(self) -> None:
        """Raise ConfigError where one is missing: of a misspelt one nobody would notice that it has no skills."""
        for folder in self._folders:
            if not await asyncio.to_thread(os.path.isdir, folder):
                raise ConfigError(
                    f"skills: there is no folder {folder}; a SkillsConfig takes folders that may come later"
                )


def find_skill_activator(plugs: Iterable[Plugin]) -> SkillActivator:
    """The plug that has the skills.

    Raises:
        AgentError: If there is none.
    """
    found = next((p for p in plugs if isinstance(p, SkillActivator)), None)
    if found is None:
        raise AgentError("this agent has no skills; give it some: Agent(..., skills=...)")
    return found


def combine_preserve_checks(
    plugs: Iterable[object], keep: Callable[[AgentMessage], bool] | None
) -> Callable[[AgentMessage], bool] | None:
    """What stays of a conversation that is summed up: what plugs keep, and what ``keep`` says."""
    asked: list[Callable[[AgentMessage], bool]] = [p.keeps for p in plugs if isinstance(p, PreservesMessages)]
    if not asked:
        return keep
    if keep is not None:
        asked.append(keep)
    return lambda message: any(each(message) for each in asked)


SubagentsOption = Subagents | Iterable[AgentDefinition] | bool
"""The plug itself; kinds of sub-agents for one with its defaults; or whether there are any."""


def subagents_plug(option: SubagentsOption | None) -> Subagents | None:
    """The plug that an option stands for."""
    if option is None or isinstance(option, Subagents):
        return option
    if isinstance(option, bool):
        return Subagents() if option else None
    return Subagents(option)


SAMPLING_PURPOSE = "mcp:sampling"
"""Under which a server's questions to the model are counted."""


def mcp_plugs(servers: Any, connector: McpConnector | None) -> list[Plugin]:
    """The plug of an option; none where there are no servers.

    Raises:
        ConfigError: If a configuration is none, or there is a connector with nothing to connect.
    """
    if servers is None:
        if connector is not None:
            raise ConfigError("mcp_connector is of no use without mcp_servers=[...]")
        return []
    if isinstance(servers, mcp.McpPlug):
        if connector is not None:
            raise ConfigError("give the connector to the Mcp itself: Mcp([...], connector=...)")
        return [servers]
    return [mcp.McpPlug(servers, connector=connector)]


def bind_sampling(agent: CoreAgent) -> None:
    """Let the servers of an agent ask its model, where the user agrees."""
    for plug in find_mcp_plugs(agent.plugs):
        plug.set_sampler(lambda asked: _answer_sampling_request(agent, asked))


async def close_servers(agent: CoreAgent) -> None:
    """End the servers of an agent; they are started again where they are needed again."""
    for plug in find_mcp_plugs(agent.plugs):
        await plug.aclose()


def find_mcp_plugs(plugs: Iterable[Plugin]) -> list[McpPlug]:
    """The servers among plugs. Where there are none, the plug is not even imported."""
    return [p for p in plugs if type(p).__module__ == "mainspring.mcp.plug" and isinstance(p, mcp.McpPlug)]


async def _answer_sampling_request(agent: CoreAgent, asked: SamplingRequest) -> SamplingResult:
    request = ModelRequest(
        messages=tuple(
            [Message(m.role, tuple([TextBlock(_block_text(block)) for block in m.content])) for m in asked.messages]
        ),
        system=asked.system,
        max_output_tokens=asked.max_tokens or None,
        temperature=asked.temperature,
    )
    answer = await agent.side_call(SAMPLING_PURPOSE, request)
    stopped = "maxTokens" if answer.stop_reason == "max_tokens" else "endTurn"
    return mcp.SamplingResult(answer.text, answer.model or agent.model.model, stopped)


def _block_text(block: dict[str, Any]) -> str:
    return str(block.get("text", f"[{block.get('type')}]"))


DisclosureOption = Disclosure | LoadMode
"""The plug itself, or what holds for servers that do not say it themselves."""


def disclosure_plugs(option: DisclosureOption | None, plugs: Sequence[Plugin]) -> list[Plugin]:
    """The plugs to add to these. What a server's configuration says holds for it, unless the option names it too.

    Raises:
        ConfigError: If the option is none, or there is such a plug already.
    """
    given = next((p for p in plugs if isinstance(p, Disclosure)), None)
    if given is not None and option is not None:
        raise ConfigError("give either tool_disclosure or a Disclosure among the plugs, not both")
    if option is not None and not isinstance(option, Disclosure):
        option = Disclosure(option)
    chosen = given or option or Disclosure()
    said: dict[str, LoadMode] = {
        s.name: s.config.disclosure for p in find_mcp_plugs(plugs) for s in p.servers if s.config.disclosure
    }
    chosen.servers = {**said, **chosen.servers}
    added: list[Plugin] = [] if given is not None else [chosen]
    return added if any(isinstance(p, ToolSearchPlug) for p in plugs) else [*added, ToolSearchPlug()]


def find_tool_search(plugs: Sequence[Plugin]) -> Tool | None:
    """The search tool that is for the agent of these plugs alone; a sub-agent gets another."""
    return next((p.tool for p in plugs if isinstance(p, ToolSearchPlug)), None)


def offered_tool_specs(agent: CoreAgent) -> Sequence[ToolDefinition]:
    """What the next request would offer: the agent's tools without those that are locked."""
    specs = agent.context.tools.specs
    disclosure = next((p for p in agent.plugs if isinstance(p, Disclosure)), None)
    return specs if disclosure is None else disclosure.offered(specs)


class TokenRefreshPlug:
    """A plug that fires `oauth:refresh`.

    Models are shared between agents, so a model cannot know whom to tell: each run listens to what its own requests do.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None

    def install(self, agent: CoreAgent) -> None:
        """Listen from the start of each run to its end."""
        bus = agent.bus

        def start(hook: SessionStart) -> None:
            side_call = hook.side_call

            async def told(refreshed: TokenRefreshed) -> None:
                if bus.has(OAuthRefresh):
                    news = OAuthRefresh(refreshed.provider, refreshed.account, refreshed.expires, refreshed.reason)
                    news.side_call = side_call
                    await bus.emit(news)

            self._stop = on_token_refresh(told)

        def end(hook: SessionEnd) -> None:
            if self._stop is not None:
                self._stop()
                self._stop = None

        agent.on(SessionStart, start, order=-1000)
        agent.on(SessionEnd, end, order=1000)

    def for_child(self) -> None:
        """A sub-agent has its own; one that has none is told of through its parent."""
