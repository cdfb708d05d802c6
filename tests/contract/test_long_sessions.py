"""The cost of a turn, a delta, and a compaction does not grow with the conversation. Measured in function calls, not in seconds."""

import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent, RunOptions, tool
from mainspring.env.memory import MemoryEnv
from mainspring.sessions import Session, SessionOptions
from mainspring.testing import Reply, ScriptedCall, ScriptedModel


class CallCounter:
    """Counts the calls of mainspring functions between marks."""

    def __init__(self) -> None:
        self.calls = 0
        self.marks: list[int] = []

    def mark(self, _: Any = None) -> None:
        self.marks.append(self.calls)

    def __enter__(self) -> "CallCounter":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: Any, event: str, arg: Any) -> None:
        if event == "call" and "mainspring" in frame.f_code.co_filename:
            self.calls += 1

    def between(self, first: int, last: int) -> int:
        return self.marks[last] - self.marks[first]


@tool
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}: " + "x" * 400


@pytest.mark.covers("TST-08")
@pytest.mark.parametrize("strategy", ["off", "tail"])
async def test_turn_300_costs_what_turn_20_costs(strategy: Any, tmp_path: Path) -> None:
    turns = 320
    script = [Reply(calls=[ScriptedCall("look", {"key": f"k{n}"}, f"c{n}")]) for n in range(turns)]
    with Session.create(tmp_path, home=tmp_path, options=SessionOptions(fsync="never")) as session:
        agent = Agent(
            ScriptedModel(*script, "done"),
            tools=[look],
            execution=MemoryEnv({}),
            session=session,
            behavior=RunOptions(compact_strategy=strategy, compact_threshold=20_000),
        )
        counter = CallCounter()
        agent.on("tool:intent", counter.mark)
        agent.subscribe(lambda event: None)
        with counter:
            await agent.run("go")
    assert len(counter.marks) == turns
    early, late = counter.between(10, 30), counter.between(295, 315)
    assert late <= early * 1.2, f"20 turns: {early} calls early on, {late} late"


@pytest.mark.covers("TST-08")
async def test_late_deltas_cost_the_same_as_early_ones() -> None:
    agent = Agent(ScriptedModel(Reply("word " * 4000, chunk_count=4000)), execution=MemoryEnv({}))
    counter = CallCounter()
    with counter:
        async with agent.stream("go") as run:
            async for event in run:
                if event.type == "text_delta":
                    counter.mark()
    early, late = counter.between(50, 250), counter.between(3700, 3900)
    assert late <= early * 1.2
