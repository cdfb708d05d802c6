"""Rate limits of tools; blocks override cached and substituted results."""

import pytest

from mainspring import Agent, RunOptions, tool
from mainspring.env.memory import MemoryEnv
from mainspring.errors import ConfigError
from mainspring.loop.hooks import PermissionCheck, ToolGate
from mainspring.policies.rate_limit import RateLimit
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import ToolResult
from tests.unit.policies.harness import results, texts


@tool
def lookup(word: str) -> str:
    """Look a word up.

    Args:
        word: The word.
    """
    return f"found {word}"


def lookup_calls(count: int) -> list[ScriptedCall]:
    return [ScriptedCall("lookup", {"word": f"w{i}"}, id=f"c{i}") for i in range(count)]


class FakeClock:
    """A clock with a settable time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.covers("SEC-10")
async def test_calls_over_the_limit_are_blocked_until_time_passes() -> None:
    clock = FakeClock()
    agent = Agent(
        ScriptedModel(lookup_calls(3), "done", lookup_calls(3), "done"),
        tools=[lookup],
        execution=MemoryEnv({}),
        plugs=[RateLimit({"lookup": 2}, per=10, clock=clock)],
    )
    await agent.run("go")
    clock.now = 10.5
    await agent.run("again")

    found = results(agent.messages)
    assert [b.is_error for b in found] == [False, False, True, False, False, True]
    assert found[2].details == {"code": "RATE_LIMITED"}
    assert "Try again in 10.0s" in found[2].text


async def test_each_pattern_has_its_own_count() -> None:
    agent = Agent(
        ScriptedModel(lookup_calls(3), "done"),
        tools=[lookup],
        execution=MemoryEnv({}),
        plugs=[RateLimit({"look*": 2, "*": 10, "other": 1})],
    )
    await agent.run("go")

    assert [b.is_error for b in results(agent.messages)] == [False, False, True]


@pytest.mark.covers("SEC-10")
async def test_subagents_share_the_limit() -> None:
    limit = RateLimit({"lookup": 2})
    agent = Agent(
        ScriptedModel(lookup_calls(1), [ScriptedCall("spawn", {"task": "look"})], lookup_calls(3), "child", "done"),
        tools=[lookup],
        execution=MemoryEnv({}),
        plugs=[limit],
        subagents=True,
    )
    rejected: list[str] = []
    limit_gate = limit.on_tool_gate

    def gate(hook: ToolGate) -> None:
        limit_gate(hook)
        if hook.result is not None:
            rejected.append(hook.name)

    limit.on_tool_gate = gate
    await agent.run("go")

    assert rejected == ["lookup", "lookup"]


def test_limit_must_be_positive() -> None:
    with pytest.raises(ConfigError):
        RateLimit({"a": 0})
    with pytest.raises(ConfigError):
        RateLimit({"a": 1}, per=0)


@pytest.mark.parametrize("order", [-500, 500])
@pytest.mark.covers("SEC-09")
async def test_block_overrides_a_substituted_result(order: int) -> None:
    def substitute(hook: ToolGate) -> None:
        hook.result = ToolResult(output="cached")

    def policy(hook: ToolGate) -> None:
        hook.block = "not today"

    agent = Agent(ScriptedModel(lookup_calls(1), "done"), tools=[lookup], execution=MemoryEnv({}))
    agent.on(ToolGate, substitute)
    agent.on(ToolGate, policy, order=order)
    await agent.run("go")

    assert texts(agent.messages) == ["Blocked: not today"]


@pytest.mark.covers("SEC-09")
async def test_block_overrides_a_cached_result() -> None:
    blocked = False

    def policy(hook: ToolGate) -> None:
        if blocked:
            hook.block = "not any more"

    agent = Agent(
        ScriptedModel(lookup_calls(1), "done", lookup_calls(1), "done"),
        tools=[lookup],
        execution=MemoryEnv({}),
        behavior=RunOptions(dedup_tools={"lookup": lambda arguments: arguments["word"]}),
    )
    agent.on(ToolGate, policy)
    await agent.run("go")
    blocked = True
    await agent.run("again")

    assert texts(agent.messages) == ["found w0", "Blocked: not any more"]


@pytest.mark.covers("SEC-16")
async def test_permission_hooks_and_limits_can_be_plugins() -> None:
    class FakePlugin:
        """A plugin as an extension could register it."""

        def install(self, agent: object) -> None:
            assert isinstance(agent, Agent)
            agent.on(PermissionCheck, lambda hook: hook.deny("ask first") if hook.input["word"] == "w1" else None)

        def for_child(self) -> None:
            return None

    agent = Agent(
        ScriptedModel(lookup_calls(3), "done"),
        tools=[lookup],
        execution=MemoryEnv({}),
        plugs=[FakePlugin(), RateLimit({"*": 2})],
    )
    await agent.run("go")

    assert [b.is_error for b in results(agent.messages)] == [False, True, True]
