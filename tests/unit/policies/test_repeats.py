"""The model gets a hint if its turns repeat without new results."""

import base64
from typing import Any

import pytest

from mainspring import Agent, RunOptions, tool
from mainspring.env.memory import MemoryEnv
from mainspring.messages import ImageBlock, Message
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import Tool, ToolResult


def hint_positions(agent: Agent) -> list[int]:
    """Return the positions of hints in the history."""
    return [
        i
        for i, m in enumerate(agent.messages)
        if isinstance(m, Message) and m.role == "user" and m.text.startswith("[The calls of the last")
    ]


async def run(script: list[Any], *tools: Tool, after: int | None = 3) -> Agent:
    agent = Agent(
        ScriptedModel(*script, "done"), tools=tools, execution=MemoryEnv(), behavior=RunOptions(repeat_hint=after)
    )
    assert (await agent.run("go")).status == "completed"
    return agent


@tool
async def look(key: str = "") -> str:
    """Look something up."""
    return f"value of {key}"


def make_counting_tool() -> Tool:
    times: list[None] = []

    @tool
    async def count(key: str = "") -> str:
        """Count."""
        times.append(None)
        return f"{len(times)} so far"

    return count


SAME = ScriptedCall("look", {"key": "a"})
A, B = ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "b"})


@pytest.mark.parametrize(
    ("script", "turns"),
    [
        ([SAME] * 4, [4]),
        ([SAME] * 7, [4, 7]),
        ([A, B, A, B, A], [5]),
        ([[A, B], [B, A], [A], [B]], [4]),
        ([ScriptedCall("nothing"), SAME, ScriptedCall("nothing"), ScriptedCall("nothing"), SAME], [5]),
    ],
    ids=["the same", "told again", "two by turns", "in any order", "mistakes too"],
)
async def test_repeated_turns_get_a_hint(script: list[Any], turns: list[int]) -> None:
    agent = await run(script, look)
    answers = [i for i, m in enumerate(agent.messages) if isinstance(m, Message) and m.role == "assistant"]
    assert hint_positions(agent) == [answers[turn - 1] + 2 for turn in turns]


@pytest.mark.parametrize(
    "script",
    [
        [SAME] * 3,
        [ScriptedCall("count")] * 20,
        [ScriptedCall("look", {"key": str(n)}) for n in range(20)],
        [[SAME, ScriptedCall("count")]] * 20,
        [x for n in range(10) for x in (SAME, SAME, ScriptedCall("look", {"key": str(n)}))],
    ],
    ids=["too few", "other results", "other arguments", "one of them is news", "news in between"],
)
async def test_legitimate_repetition_gets_no_hint(script: list[Any]) -> None:
    assert hint_positions(await run(script, look, make_counting_tool())) == []


async def test_duration_is_not_a_new_result_but_an_image_is() -> None:
    times: list[int] = []

    @tool
    async def slow() -> str:
        """Take time."""
        times.append(len(times))
        return f"failed\n(exit 1, {len(times) * 7}ms)"

    @tool
    async def picture() -> ToolResult:
        """Take a picture."""
        times.append(len(times))
        return ToolResult(output=(ImageBlock("image/png", base64.b64encode(bytes([len(times)])).decode()),))

    assert len(hint_positions(await run([ScriptedCall("slow")] * 4, slow))) == 1
    assert hint_positions(await run([ScriptedCall("picture")] * 8, picture)) == []


async def test_hints_are_off_by_default_and_count_per_run() -> None:
    assert hint_positions(await run([SAME] * 9, look, after=None)) == []
    agent = Agent(ScriptedModel(SAME, SAME, "done", SAME, SAME, "done"), tools=[look], execution=MemoryEnv())
    for _ in range(2):
        await agent.run("go", behavior=RunOptions(repeat_hint=2))
    assert hint_positions(agent) == []
