"""What is counted and measured."""

from typing import Any

import pytest

from mainspring import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import NetworkError
from mainspring.loop import RunOptions
from mainspring.messages import Cost, Usage
from mainspring.telemetry import Tracing
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool
from tests.unit.telemetry.recorder import Recorder

pytestmark = pytest.mark.usefixtures("no_blocking")

USAGE = Usage(100, 20, cache_read=50, cost=Cost(0.01, 0.02))


@tool
async def look(key: str) -> str:
    """Look."""
    if key == "bad":
        raise ValueError("bad")
    return key


def point(points: list[Any], **wanted: Any) -> Any:
    found = [p for p in points if all(p.attributes.get(k.replace("__", ".")) == v for k, v in wanted.items())]
    assert len(found) == 1, points
    return found[0]


@pytest.mark.covers("BYD-30", "TEL-13")
async def test_tokens_time_and_money_are_measured() -> None:
    recorder = Recorder()
    calls = [ScriptedCall("look", {"key": "a"}), ScriptedCall("look", {"key": "bad"})]
    model = ScriptedModel(Reply(calls=calls, usage=USAGE, pieces=3), Reply("done, all of it", usage=USAGE, pieces=4))
    agent = Agent(model, execution=MemoryEnv(), tools=[look], plugs=[Tracing(recorder.telemetry)])

    await agent.run("go")

    metrics = recorder.metrics
    common = {
        "gen_ai__operation__name": "chat",
        "gen_ai__provider__name": "scripted",
        "gen_ai__request__model": "scripted-1",
    }
    tokens = metrics["gen_ai.client.token.usage"]
    assert point(tokens, gen_ai__token__type="input", **common).sum == 300
    assert point(tokens, gen_ai__token__type="output", **common).sum == 40
    durations = metrics["gen_ai.client.operation.duration"]
    assert point(durations, **common).count == 2
    assert point(durations, gen_ai__operation__name="invoke_agent").count == 1
    assert point(metrics["gen_ai.client.operation.time_to_first_chunk"], **common).count == 2
    assert point(metrics["gen_ai.client.operation.time_per_output_chunk"], **common).count == 2
    assert point(metrics["mainspring.usage.cost"], **common).value == pytest.approx(0.06)
    tools = metrics["mainspring.tool.duration"]
    assert {p.attributes.get("error.type"): p.count for p in tools} == {None: 1, "ValueError": 1}


async def test_failed_calls_are_measured_by_their_error() -> None:
    recorder = Recorder()
    agent = Agent(ScriptedModel(NetworkError("cut")), plugs=[Tracing(recorder.telemetry)], execution=MemoryEnv())

    await agent.run("go", behavior=RunOptions(retry=None), raise_errors=False)

    durations = recorder.metrics["gen_ai.client.operation.duration"]
    assert {p.attributes["gen_ai.operation.name"]: p.attributes["error.type"] for p in durations} == {
        "chat": "NETWORK_ERROR",
        "invoke_agent": "NETWORK_ERROR",
    }


async def test_an_unknown_price_is_no_cost() -> None:
    recorder = Recorder()
    model = ScriptedModel(Reply("done", usage=Usage(10, 2)))
    agent = Agent(model, plugs=[Tracing(recorder.telemetry)], execution=MemoryEnv())

    await agent.run("go")

    assert "mainspring.usage.cost" not in recorder.metrics
    assert "mainspring.usage.cost" not in (recorder.span("chat scripted-1").attributes or {})
