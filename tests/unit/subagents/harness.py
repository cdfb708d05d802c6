"""What the tests of sub-agents are set on: a parent and children, each with a script of its own."""

from collections.abc import Callable, Iterable
from typing import Any

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.messages import Cost, Message, ToolResultBlock, Usage
from mainspring.subagents import AgentDefinition, Subagents
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel


def spawn(task: str, agent: str = "", **more: Any) -> ScriptedCall:
    """A call that starts a sub-agent."""
    return ScriptedCall("spawn", {"task": task, **({"agent": agent} if agent else {}), **more})


def paid(text: str, dollars: float, *calls: ScriptedCall, tokens: int = 10) -> Reply:
    """An answer that costs something."""
    return Reply(text, calls=calls, usage=Usage(output_tokens=tokens, cost=Cost(output=dollars)))


def kind(name: str, *script: Any, **fields: Any) -> AgentDefinition:
    """A kind of sub-agent that follows a script; all its children share it."""
    return AgentDefinition(name=name, model=ScriptedModel(*script, provider=name), **fields)


def parent(
    *script: Any, kinds: Iterable[AgentDefinition] = (), options: dict[str, Any] | None = None, **fields: Any
) -> Agent:
    """An agent that follows a script and may start these kinds."""
    subagents = Subagents(kinds, **(options or {}))
    return Agent(ScriptedModel(*script), execution=MemoryEnv({"a.txt": "text"}), subagents=subagents, **fields)


def results(agent: Agent) -> list[ToolResultBlock]:
    """Every result of a call in the agent's history."""
    return [r for m in agent.messages if isinstance(m, Message) for r in m.tool_results]


def requests_of(definition: AgentDefinition) -> list[Any]:
    """The requests that children of a kind made."""
    assert isinstance(definition.model, ScriptedModel)
    return [seen.request for seen in definition.model.requests]


def heard(agent: Agent, *events: str) -> list[tuple[str, Any]]:
    """A list that fills with what these hooks tell."""
    told: list[tuple[str, Any]] = []

    def listen(event: str) -> Callable[[Any], None]:
        return lambda hook: told.append((event, hook))

    for event in events:
        agent.on(event, listen(event))
    return told
