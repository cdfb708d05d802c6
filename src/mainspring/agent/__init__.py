"""The composition root: options become plugins, settings and commands become runs. Importing this loads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.agent.agent import Agent as Agent, create_agent as create_agent
    from mainspring.agent.conversation import Conversation as Conversation


lazy_exports(
    __name__,
    {
        "agent": "Agent create_agent",
        "conversation": "Conversation",
    },
)
