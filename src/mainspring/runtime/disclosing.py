"""What an agent is told of disclosure, as plugs."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.errors import ConfigError
from mainspring.loop import Plug
from mainspring.mcp.tool_search import ToolSearch
from mainspring.policies.disclosure import Disclosure, DisclosureMode
from mainspring.tools import Tool

DisclosureOption = Disclosure | DisclosureMode
"""The plug itself, or what holds for servers that do not say it themselves."""


def disclosing(option: DisclosureOption | None, plugs: Sequence[Plug]) -> list[Plug]:
    """The plugs to add to these.

    Raises:
        ConfigError: If the option is none, or there is such a plug already.
    """
    given = next((p for p in plugs if isinstance(p, Disclosure)), None)
    if given is not None and option is not None:
        raise ConfigError("give either tool_disclosure or a Disclosure among the plugs, not both")
    if option is not None and not isinstance(option, Disclosure):
        option = Disclosure(option)
    added: list[Plug] = [] if given is not None else [option or Disclosure()]
    return added if any(isinstance(p, ToolSearch) for p in plugs) else [*added, ToolSearch()]


def own_search(plugs: Sequence[Plug]) -> Tool | None:
    """The search tool that is for the agent of these plugs alone; a sub-agent gets another."""
    return next((p.tool for p in plugs if isinstance(p, ToolSearch)), None)
