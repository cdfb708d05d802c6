"""What tools find in their context beside the environment: where lists are kept, whom to tell of an end."""

from __future__ import annotations

from typing import Any

from mainspring.env import LocalEnv
from mainspring.loop import CoreAgent
from mainspring.runtime.home import Home
from mainspring.tools.builtin.terminal.background import WAKE
from mainspring.tools.builtin.todos import TODOS, EnvTodos


def services(home: Home | None) -> dict[str, Any]:
    """For ``Agent(extra=...)``: lists of todos in the user's folder, by session."""
    return {} if home is None else {TODOS: EnvTodos(LocalEnv(home.root))}


def tell_of_ends(agent: CoreAgent) -> None:
    """Let a command that ends in the background become a message to the agent."""
    agent.extra = {**agent.extra, WAKE: agent.follow_up}
