"""Calls that repeat the one before."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mainspring import RunOptions, ToolResult, define_tool
from mainspring.loop.hooks import ToolFinished, ToolGate, ToolTransform
from mainspring.testing import ScriptedCall
from tests.unit.policies.harness import agent, results, texts


class Counter:
    """A tool that says how often it really ran."""

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


def look(q: str, **more: Any) -> ScriptedCall:
    return ScriptedCall("look", {"q": q, **more})


def by_all(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True)


@pytest.mark.covers("GRD-05")
async def test_the_same_call_again_is_not_made_and_gives_the_same_word_for_word() -> None:
    tool = Counter()
    made = agent(look("a"), look("a"), look("b"), look("a"), "done", tools=[tool.tool()], dedup_tools={"look": by_all})

    await made.run("go")

    first, second, other, again = texts(made.messages)
    assert first == second
    assert tool.runs == 3  # only the latest is remembered
    assert other != first
    assert again == "run 3 of {'q': 'a'}"


@pytest.mark.covers("GRD-05")
async def test_the_hasher_decides_what_is_the_same_and_without_one_nothing_is() -> None:
    tool, plain = Counter(), Counter()
    hashers = {"look": lambda args: args["q"].lower()}
    made = agent(look("a"), look("A"), "done", tools=[tool.tool()], dedup_tools=hashers)
    other = agent(look("a"), look("a"), "done", tools=[plain.tool()])

    await made.run("go")
    await other.run("go")

    assert tool.runs == 1
    assert plain.runs == 2


@pytest.mark.covers("GRD-06")
async def test_a_hit_fires_transform_and_after_and_counts() -> None:
    tool = Counter()
    made = agent(look("a"), look("a"), "done", tools=[tool.tool()], dedup_tools={"look": by_all})
    outputs: list[Any] = []
    after: list[Any] = []

    def mark(hook: ToolTransform) -> None:
        outputs.append(hook.result.output)
        hook.result.output = f"{hook.result.output} (checked)"
        hook.result.metadata["checked"] = True

    made.on(ToolTransform, mark)
    made.on(ToolFinished, lambda hook: after.append(hook.result.text))
    result = await made.run("go")

    assert outputs == ["run 1 of {'q': 'a'}"] * 2  # as the tool gave it, not as it was changed
    assert after == ["run 1 of {'q': 'a'} (checked)"] * 2
    assert result.stats.tool_counts == {"look": 2}
    assert tool.runs == 1


@pytest.mark.covers("HOK-40")
async def test_a_gate_that_refuses_beats_what_is_remembered() -> None:
    tool = Counter()
    made = agent(look("a"), "done", look("a"), "done", tools=[tool.tool()], dedup_tools={"look": by_all})
    await made.run("go")

    await made.run("go", hooks={ToolGate: lambda hook: {"block": "not now"}})

    assert texts(made.messages)[-1] == "Blocked: not now"


async def test_another_run_looks_anew() -> None:
    tool = Counter()
    made = agent(look("a"), "done", look("a"), "done", tools=[tool.tool()], dedup_tools={"look": by_all})

    await made.run("go")
    await made.run("and now?")

    assert tool.runs == 2


async def test_failures_are_not_remembered() -> None:
    tool = Counter(fails=1)
    made = agent(look("a"), look("a"), look("a"), "done", tools=[tool.tool()], dedup_tools={"look": by_all})

    await made.run("go")

    assert [r.is_error for r in results(made.messages)] == [True, False, False]
    assert tool.runs == 2


async def test_arguments_that_must_be_repaired_are_like_no_others() -> None:
    tool = Counter()
    calls = [ScriptedCall("look", raw='{"q": "a",}'), ScriptedCall("look", raw='{"q": "b",}')]
    made = agent(*calls, "done", tools=[tool.tool()], dedup_tools={"look": by_all})

    await made.run("go")

    assert texts(made.messages) == ["run 1 of {'q': 'a'}", "run 2 of {'q': 'b'}"]


async def test_a_hasher_that_fails_makes_no_call_fail(caplog: pytest.LogCaptureFixture) -> None:
    tool = Counter()
    made = agent(look("a"), look("a"), "done", tools=[tool.tool()], dedup_tools={"look": lambda args: args["no such"]})

    await made.run("go")

    assert tool.runs == 2
    assert "The dedup_tools hasher for look failed" in caplog.text


async def test_calls_of_one_answer_run_beside_each_other() -> None:
    tool = Counter()
    made = agent([look("a"), look("a")], look("a"), "done", tools=[tool.tool()], dedup_tools={"look": by_all})

    await made.run("go")

    assert tool.runs == 2


@pytest.mark.covers("GRD-13")
def test_the_docs_say_what_not_to_list() -> None:
    page = (Path(__file__).parents[3] / "docs" / "run-options.md").read_text(encoding="utf-8")

    assert "**Never list a tool with side effects**" in page
    assert "Never a tool with side effects." in (RunOptions.__doc__ or "")
