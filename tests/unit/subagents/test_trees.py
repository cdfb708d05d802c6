"""Any tree of subagents respects cost, depth, and concurrency limits, and has valid histories."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import NetworkError
from mainspring.events import StreamEvent
from mainspring.loop.hooks import BeforeSpawn
from mainspring.messages import Cost, Message, Usage
from mainspring.models import ModelInfo, ModelRequest, ModelResponse
from mainspring.run_options import RunOptions
from mainspring.subagents import Subagents
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from tests.unit.loop.harness import assert_results_follow_calls

Node = tuple[int, bool, list[Any]]
"""Cost in cents of each of its two model calls, whether it fails after the first call, and its children."""

node_trees: st.SearchStrategy[Node] = st.recursive(
    st.tuples(st.integers(1, 9), st.booleans(), st.just([])),
    lambda inner: st.tuples(st.integers(1, 9), st.booleans(), st.lists(inner, max_size=3)),
    max_leaves=8,
)


class TreeModel:
    """Acts as the model of every agent of a tree; the task names the node."""

    info = ModelInfo("tree", "tree")
    provider = model = "tree"

    def __init__(self, root: Node) -> None:
        self.root = root
        self.spent: list[float] = []
        self.cents = 0
        self.agent: Agent | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        assert self.agent is not None
        assert_results_follow_calls(request.messages)
        self.spent.append(self.agent.ledger.cost)
        path = request.messages[0].text.split(":")[1]
        cents, fails, children = self._node(path)
        first = len(request.messages) == 1
        may_spawn = any(t.name == "spawn" for t in request.tools)
        await asyncio.sleep(0)
        if fails and not first:
            raise NetworkError("it broke", retryable=False)
        self.cents += cents
        calls = (
            [ScriptedCall("spawn", {"task": f"node:{path}.{i}"}) for i in range(len(children))]
            if first and may_spawn
            else []
        )
        usage = Usage(output_tokens=cents, cost=Cost(output=cents / 100))
        script = ScriptedModel(Reply(f"end of {path}" if not calls else "", calls=calls, usage=usage))
        async for event in script.stream(request):
            yield event

    def _node(self, path: str) -> Node:
        node = self.root
        for step in path.split(".")[1:]:
            node = node[2][int(step)]
        return node

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise AssertionError

    async def aclose(self) -> None: ...


def flatten(stats: Any) -> list[Any]:
    return [each for s in stats for each in (s, *flatten(s.children))]


@pytest.mark.covers("SUB-03", "SUB-04", "SUB-06", "SUB-07", "BYD-20", "AGT-42")
@settings(max_examples=60)
@given(node_trees, st.integers(1, 3), st.integers(1, 3), st.none() | st.integers(1, 60))
def test_every_tree_respects_limits_and_counts_all_costs(
    root: Node, depth: int, places: int, cents: int | None
) -> None:
    model = TreeModel((root[0], False, root[2]))
    running: dict[str, int] = {}
    limit: list[int] = [0]

    def watch(agent: Agent) -> None:
        def before(hook: BeforeSpawn) -> None:
            running[agent.name] = running.get(agent.name, 0) + 1
            limit[0] = max(limit[0], running[agent.name])
            assert hook.depth <= depth
            watch(hook.agent)

        def after(hook: Any) -> None:
            running[agent.name] -= 1

        agent.on(BeforeSpawn, before)
        agent.on("spawn:complete", after)
        agent.on("spawn:error", after)

    async def run_tree() -> Any:
        agent = Agent(
            model,
            execution=MemoryEnv({}),
            subagents=Subagents(depth=depth, concurrency=places),
            behavior=RunOptions(max_cost=None if cents is None else cents / 100, retry=None),
        )
        model.agent = agent
        watch(agent)
        result = await agent.run("node:r")
        assert_results_follow_calls(m for m in agent.messages if isinstance(m, Message))
        return agent, result

    agent, result = asyncio.run(run_tree())

    assert result.cost.total == pytest.approx(model.cents / 100)
    assert agent.ledger.cost == pytest.approx(model.cents / 100)
    assert result.usage.total_tokens == model.cents
    children = flatten(result.stats.children)
    assert all(1 <= c.depth <= depth for c in children)
    assert len({c.child_id for c in children}) == len(children)
    assert limit[0] <= places
    assert all(n == 0 for n in running.values())
    if cents is None:
        assert result.status == "completed"
    else:
        assert all(spent < cents / 100 for spent in model.spent)
