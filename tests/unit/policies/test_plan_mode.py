"""Plan mode blocks tool calls that change something."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import Agent, tool
from mainspring.env.memory import MemoryEnv
from mainspring.permissions import Permissions
from mainspring.policies.plan_mode import PlanMode
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import Tool
from mainspring.tools.builtin import builtin_tools
from mainspring.tools.interaction import INTERACTION_KEY, PlanReview, ProposedPlan, Reply, UserQuestion
from tests.unit.policies.harness import results

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


class FakeReviewer:
    """Reviews plans with fixed decisions."""

    def __init__(self, *decisions: Any) -> None:
        self.decisions = list(decisions)

    async def ask(self, question: UserQuestion) -> Reply | None:
        return None

    async def review_plan(self, plan: ProposedPlan) -> PlanReview | None:
        return PlanReview(self.decisions.pop(0))


@tool
def lookup(word: str) -> str:
    """Look a word up.

    Args:
        word: The word.
    """
    return word


def planning_agent(
    *script: Any, mode: PlanMode | None = None, reviewer: FakeReviewer | None = None, **options: Any
) -> Agent:
    mode = mode or PlanMode(now=lambda: NOW)
    tools: list[Tool] = [t for t in builtin_tools() if t.name != "present_plan"] + [lookup]
    env = options.pop("env", None) or MemoryEnv({"a.txt": "one"}, run=lambda command: "ran")
    extra = {INTERACTION_KEY: reviewer} if reviewer else {}
    return Agent(ScriptedModel(*script, "done"), tools=tools, execution=env, plugs=[mode], extra=extra, **options)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write_file", {"path": "b.txt", "content": "x"}),
        ("edit", {"path": "a.txt", "old_string": "one", "new_string": "two"}),
        ("shell", {"command": "touch b.txt"}),
        ("shell", {"command": "ls > b.txt"}),
        ("shell", {"command": "git status; rm a.txt"}),
        ("shell", {"command": "python a.py"}),
        ("shell", {"command": "x='a[$(touch b.txt)]'; z=([x]=1)"}),
        ("lookup", {"word": "x"}),
        ("jobs", {"action": "kill", "id": "1"}),
    ],
)
@pytest.mark.covers("BYD-05")
async def test_changing_call_is_blocked_despite_permissions(name: str, arguments: dict[str, Any]) -> None:
    env = MemoryEnv({"a.txt": "one"}, run=lambda command: "ran")
    agent = planning_agent(ScriptedCall(name, arguments), env=env, permissions=Permissions(mode="allow"))

    await agent.run("go")

    [block] = results(agent.messages)
    assert block.is_error
    assert "plan mode" in block.text
    assert env.files == {"a.txt": b"one"}
    assert env.commands == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "a.txt"}),
        ("grep", {"pattern": "one"}),
        ("shell", {"command": "cat a.txt | wc -l"}),
        ("todo_write", {"todos": [{"content": "x", "status": "pending"}]}),
    ],
)
@pytest.mark.covers("BYD-05")
async def test_read_only_call_runs(name: str, arguments: dict[str, Any]) -> None:
    agent = planning_agent(ScriptedCall(name, arguments))

    await agent.run("go")

    [block] = results(agent.messages)
    assert "plan mode" not in block.text


async def test_tool_configured_as_read_only_runs() -> None:
    agent = planning_agent(ScriptedCall("lookup", {"word": "x"}), mode=PlanMode(read_only=["look*"]))

    await agent.run("go")

    assert results(agent.messages)[0].text == "x"


@pytest.mark.covers("BYD-05")
async def test_approved_plan_is_saved_and_ends_plan_mode() -> None:
    mode = PlanMode(now=lambda: NOW)
    plan, write = (
        ScriptedCall("present_plan", {"plan": "# Add b\n\nWrite b.txt.", "title": ""}),
        ScriptedCall("write_file", {"path": "b.txt", "content": "x"}),
    )
    env = MemoryEnv({"a.txt": "one"})
    agent = planning_agent(plan, write, plan, write, mode=mode, reviewer=FakeReviewer("revise", "approve"), env=env)

    await agent.run("go")

    assert [b.is_error for b in results(agent.messages)] == [False, True, False, False]
    assert env.files[".agent/plans/20260504-030201-add-b.md"] == b"# Add b\n\nWrite b.txt.\n"
    assert env.files["b.txt"] == b"x"
    assert not mode.state.active
    assert mode.state.approved.startswith("# Add b")


@pytest.mark.covers("BYD-05")
async def test_subagents_are_in_plan_mode_too() -> None:
    write = ScriptedCall("write_file", {"path": "b.txt", "content": "x"})
    env = MemoryEnv({})
    agent = planning_agent([ScriptedCall("spawn", {"task": "write"})], [write], "child done", env=env, subagents=True)

    await agent.run("go")

    assert "b.txt" not in env.files


async def test_system_prompt_mentions_plan_mode() -> None:
    mode = PlanMode()
    agent = planning_agent(mode=mode)
    await agent.run("go")
    assert isinstance(agent.model, ScriptedModel)
    assert "Plan mode" in agent.model.requests[0].request.system


async def test_plan_folder_outside_the_project_is_rejected() -> None:
    mode = PlanMode()
    planning_agent(mode=mode, env=MemoryEnv({}, links={".agent": "/etc"}))

    with pytest.raises(PermissionError):
        await mode.save_plan("plan")
