"""What an agent is told of disclosure, as plugs."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.agent.mcp_option import mcp_of
from mainspring.errors import ConfigError
from mainspring.loop import CoreAgent, Plug
from mainspring.mcp.tool_search import ToolSearch
from mainspring.messages import ToolSpec
from mainspring.policies.disclosure import Disclosure, DisclosureMode
from mainspring.tools import Tool

DisclosureOption = Disclosure | DisclosureMode
"""The plug itself, or what holds for servers that do not say it themselves."""


def disclosing(option: DisclosureOption | None, plugs: Sequence[Plug]) -> list[Plug]:
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
    said: dict[str, DisclosureMode] = {
        s.name: s.config.disclosure for p in mcp_of(plugs) for s in p.servers if s.config.disclosure
    }
    chosen.servers = {**said, **chosen.servers}
    added: list[Plug] = [] if given is not None else [chosen]
    return added if any(isinstance(p, ToolSearch) for p in plugs) else [*added, ToolSearch()]


def own_search(plugs: Sequence[Plug]) -> Tool | None:
    """The search tool that is for the agent of these plugs alone; a sub-agent gets another."""
    return next((p.tool for p in plugs if isinstance(p, ToolSearch)), None)


def offered_tools(agent: CoreAgent) -> Sequence[ToolSpec]:
    """What the next request would offer: the agent's tools without those that are locked."""
    specs = agent.context.tools.specs
    disclosure = next((p for p in agent.plugs if isinstance(p, Disclosure)), None)
    return specs if disclosure is None else disclosure.offered(specs)
