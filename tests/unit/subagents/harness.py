"""Helpers for subagent tests: scripted parents and subagents."""

from collections.abc import Callable, Iterable
from typing import Any

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.messages import Cost, Message, ToolResultBlock, Usage
from mainspring.subagents import AgentDefinition, Subagents
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel


def spawn_call(task: str, agent: str = "", **more: Any) -> ScriptedCall:
    """Return a call that starts a subagent."""
    return ScriptedCall("spawn", {"task": task, **({"agent": agent} if agent else {}), **more})


def make_reply(text: str, dollars: float, *calls: ScriptedCall, tokens: int = 10) -> Reply:
    """Return a response with a cost."""
    return Reply(text, calls=calls, usage=Usage(output_tokens=tokens, cost=Cost(output=dollars)))


def make_definition(name: str, *script: Any, **fields: Any) -> AgentDefinition:
    """Define a subagent with a script; all its instances share the script."""
    return AgentDefinition(name=name, model=ScriptedModel(*script, provider=name), **fields)


def make_parent(
    *script: Any, kinds: Iterable[AgentDefinition] = (), options: dict[str, Any] | None = None, **fields: Any
) -> Agent:
    """Create a scripted agent that can start these subagents."""
    subagents = Subagents(kinds, **(options or {}))
    return Agent(ScriptedModel(*script), execution=MemoryEnv({"a.txt": "text"}), subagents=subagents, **fields)


def results(agent: Agent) -> list[ToolResultBlock]:
    """Return all tool results in the history of an agent."""
    return [r for m in agent.messages if isinstance(m, Message) for r in m.tool_results]


def requests_of(definition: AgentDefinition) -> list[Any]:
    """Return the requests of all subagents of a definition."""
    assert isinstance(definition.model, ScriptedModel)
    return [seen.request for seen in definition.model.requests]


def record_events(agent: Agent, *events: str) -> list[tuple[str, Any]]:
    """Return a list that records these events of an agent."""
    recorded: list[tuple[str, Any]] = []

    def make_listener(event: str) -> Callable[[Any], None]:
        return lambda hook: recorded.append((event, hook))

    for event in events:
        agent.on(event, make_listener(event))
    return recorded
