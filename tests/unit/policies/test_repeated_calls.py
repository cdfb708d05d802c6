"""Repeated tool calls."""

import gc
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mainspring import RunOptions, ToolResult, define_tool
from mainspring.loop import LiveSteps
from mainspring.loop.hooks import ToolFinished, ToolGate, ToolTransform
from mainspring.sessions import JsonlStore, MemorySessionStore, Session
from mainspring.testing import ScriptedCall
from tests.unit.policies.harness import make_agent, results, texts


class CountingTool:
    """Creates a tool that counts its executions."""

    def __init__(self, *, fails: int = 0) -> None:
        self.runs = 0
        self.fails = fails

    def tool(self) -> Any:
        async def execute(args: dict[str, Any], ctx: Any) -> ToolResult:
            self.runs += 1
            return ToolResult(
                output=f"run {self.runs} of {args}", metadata={"n": self.runs}, is_error=self.runs <= self.fails
            )

        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        return define_tool("look", {"description": "Look.", "parameters": schema, "execute": execute})


def look_call(q: str, **more: Any) -> ScriptedCall:
    return ScriptedCall("look", {"q": q, **more})


def hash_all_arguments(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True)


@pytest.mark.covers("GRD-05")
async def test_repeated_call_returns_the_earlier_result() -> None:
    tool = CountingTool()
    agent = make_agent(
        look_call("a"),
        look_call("a"),
        look_call("b"),
        look_call("a"),
        "done",
        tools=[tool.tool()],
        dedup_tools={"look": hash_all_arguments},
    )

    await agent.run("go")

    first, second, other, again = texts(agent.messages)
    assert first == second
    assert tool.runs == 3  # only the latest call is cached
    assert other != first
    assert again == "run 3 of {'q': 'a'}"


@pytest.mark.covers("GRD-05")
async def test_hasher_decides_which_calls_are_equal() -> None:
    tool, plain = CountingTool(), CountingTool()
    hashers = {"look": lambda args: args["q"].lower()}
    agent = make_agent(look_call("a"), look_call("A"), "done", tools=[tool.tool()], dedup_tools=hashers)
    other = make_agent(look_call("a"), look_call("a"), "done", tools=[plain.tool()])

    await agent.run("go")
    await other.run("go")

    assert tool.runs == 1
    assert plain.runs == 2


@pytest.mark.covers("GRD-06")
async def test_cached_result_fires_hooks_and_is_counted() -> None:
    tool = CountingTool()
    agent = make_agent(
        look_call("a"), look_call("a"), "done", tools=[tool.tool()], dedup_tools={"look": hash_all_arguments}
    )
    outputs: list[Any] = []
    after: list[Any] = []

    def mark_result(hook: ToolTransform) -> None:
        outputs.append(hook.result.output)
        hook.result.output = f"{hook.result.output} (checked)"
        hook.result.metadata["checked"] = True

    agent.on(ToolTransform, mark_result)
    agent.on(ToolFinished, lambda hook: after.append(hook.result.text))
    result = await agent.run("go")

    assert outputs == ["run 1 of {'q': 'a'}"] * 2  # the output of the tool, without changes by hooks
    assert after == ["run 1 of {'q': 'a'} (checked)"] * 2
    assert result.stats.tool_counts == {"look": 2}
    assert tool.runs == 1


@pytest.mark.covers("HOK-40")
async def test_gate_overrides_a_cached_result() -> None:
    tool = CountingTool()
    agent = make_agent(
        look_call("a"), "done", look_call("a"), "done", tools=[tool.tool()], dedup_tools={"look": hash_all_arguments}
    )
    await agent.run("go")

    await agent.run("go", hooks={ToolGate: lambda hook: {"block": "not now"}})

    assert texts(agent.messages)[-1] == "Blocked: not now"


@pytest.mark.covers("GRD-05")
async def test_later_run_uses_cached_results_until_a_reset() -> None:
    tool = CountingTool()
    script = (look_call("a"), "done") * 3
    agent = make_agent(*script, tools=[tool.tool()], dedup_tools={"look": hash_all_arguments})

    await agent.run("go")
    await agent.run("and now?")
    assert texts(agent.messages) == ["run 1 of {'q': 'a'}"] * 2
    agent.reset()
    await agent.run("again")

    assert tool.runs == 2


@pytest.mark.covers("GRD-05")
@pytest.mark.parametrize("store", [JsonlStore, MemorySessionStore])
async def test_resumed_session_uses_cached_results(tmp_path: Path, store: Any) -> None:
    tool = CountingTool()
    home = store(tmp_path) if store is JsonlStore else store()

    async def run_agent(session: Session) -> None:
        agent = make_agent(
            look_call("a"), "done", tools=[tool.tool()], dedup_tools={"look": hash_all_arguments}, session=session
        )
        await agent.run("go")

    session = Session.create(home=home)
    await run_agent(session)
    session.close()
    resumed = Session.open(session.id, home=home)
    await run_agent(resumed)
    resumed.close()
    assert tool.runs == 1, "as long as a session is referenced"
    with Session.create(home=home) as other:
        await run_agent(other)
    assert tool.runs == 2, "another session"

    name = session.id
    del session, resumed
    gc.collect()
    with Session.open(name, home=home) as later:
        await run_agent(later)
    assert tool.runs == 3, "the results do not outlive the session objects"


async def test_run_that_can_be_replayed_uses_only_its_own_results() -> None:
    class RecordedSteps(LiveSteps):
        """Steps of a durable engine or of a tape."""

    tool = CountingTool()
    script = (look_call("a"), look_call("a"), "done") * 2
    agent = make_agent(*script, tools=[tool.tool()], dedup_tools={"look": hash_all_arguments}, steps=RecordedSteps())
    await agent.run("go")
    await agent.run("go")
    assert tool.runs == 2


@pytest.mark.covers("GRD-05")
async def test_sessions_with_the_same_id_in_two_stores_share_nothing() -> None:
    tool = CountingTool()
    stores = MemorySessionStore(), MemorySessionStore()
    sessions = [Session.create(home=store, id="same") for store in stores]
    for session in sessions:
        agent = make_agent(
            look_call("a"), "done", tools=[tool.tool()], dedup_tools={"look": hash_all_arguments}, session=session
        )
        await agent.run("go")
    assert tool.runs == 2


async def test_failures_are_not_cached() -> None:
    tool = CountingTool(fails=1)
    agent = make_agent(
        look_call("a"),
        look_call("a"),
        look_call("a"),
        "done",
        tools=[tool.tool()],
        dedup_tools={"look": hash_all_arguments},
    )

    await agent.run("go")

    assert [r.is_error for r in results(agent.messages)] == [True, False, False]
    assert tool.runs == 2


async def test_calls_with_repaired_arguments_are_never_equal() -> None:
    tool = CountingTool()
    calls = [ScriptedCall("look", raw='{"q": "a",}'), ScriptedCall("look", raw='{"q": "b",}')]
    agent = make_agent(*calls, "done", tools=[tool.tool()], dedup_tools={"look": hash_all_arguments})

    await agent.run("go")

    assert texts(agent.messages) == ["run 1 of {'q': 'a'}", "run 2 of {'q': 'b'}"]


async def test_failing_hasher_does_not_fail_the_call(caplog: pytest.LogCaptureFixture) -> None:
    tool = CountingTool()
    agent = make_agent(
        look_call("a"), look_call("a"), "done", tools=[tool.tool()], dedup_tools={"look": lambda args: args["no such"]}
    )

    await agent.run("go")

    assert tool.runs == 2
    assert "The dedup_tools hasher for look failed" in caplog.text


async def test_equal_calls_in_one_turn_both_run() -> None:
    tool = CountingTool()
    agent = make_agent(
        [look_call("a"), look_call("a")],
        look_call("a"),
        "done",
        tools=[tool.tool()],
        dedup_tools={"look": hash_all_arguments},
    )

    await agent.run("go")

    assert tool.runs == 2


@pytest.mark.covers("GRD-13")
def test_docs_warn_about_tools_with_side_effects() -> None:
    page = (Path(__file__).parents[3] / "docs" / "run-options.md").read_text(encoding="utf-8")

    assert "**Never list a tool with side effects**" in page
    assert "Never a tool with side effects." in (RunOptions.__doc__ or "")
