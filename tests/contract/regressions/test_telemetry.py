"""Known problems of telemetry and cost accounting (TL-01 to TL-04, CO-01 to CO-06) that concern spans and reports.

tests/e2e/test_command_telemetry.py checks with the real command that nothing is sent unasked (TL-01) and that a missing collector
slows nothing (TL-02); tests/contract/test_model_parity.py checks the usage of each host (CO-01, CO-03).
"""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from mainspring import Agent
from mainspring.app.commands.cost import cost_report
from mainspring.app.run.options import WorkspaceOptions
from mainspring.env import MemoryEnv
from mainspring.errors import AgentAbortedError, NetworkError
from mainspring.loop import RunHandle
from mainspring.messages import Cost, Usage
from mainspring.models import ModelRequest
from mainspring.policies.budgets import Budget
from mainspring.run_options import RunOptions
from mainspring.sessions import Session
from mainspring.sessions.event_log import SessionEventLog
from mainspring.telemetry import Tracing
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool
from tests.unit.telemetry.recorder import Recorder

USAGE = Usage(100, 20, cache_read=50, cache_write=10, reasoning_tokens=5, cost=Cost(0.01, 0.02, 0.005, 0.001))
TOTAL = 180  # the total of the host: prompt 160 with cached tokens, response 20 with reasoning


@tool
async def look(key: str) -> str:
    """Look."""
    return key


async def _read(run: RunHandle) -> None:
    async for _ in run:
        pass


async def test_tl_03_spans_end_cleanly_in_any_task(caplog: pytest.LogCaptureFixture) -> None:
    """A run that is read, left, and cancelled from different tasks leaves no context and logs nothing."""
    recorder = Recorder()

    def agent(*script: Any) -> Agent:
        return Agent(ScriptedModel(*script), execution=MemoryEnv(), tools=[look], plugs=[Tracing(recorder.telemetry)])

    with caplog.at_level(logging.DEBUG):
        async with agent(ScriptedCall("look", {"key": "a"}), "done").stream("go") as run:
            reader = asyncio.ensure_future(_read(run))
            await reader
        one = agent(Reply("slow", delay=20))
        cancelled = asyncio.ensure_future(one.run("go"))

        def cancel(event: Any) -> None:
            if event.type == "turn_start":
                cancelled.cancel()

        one.subscribe(cancel)
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        other = agent(Reply("slow", delay=20))
        other.subscribe(lambda event: other.abort() if event.type == "turn_start" else None)
        with pytest.raises(AgentAbortedError):
            await other.run("go")
        await agent("first").run("go")

    assert trace.get_current_span() is trace.INVALID_SPAN
    assert [r for r in caplog.records if r.name.startswith(("opentelemetry", "mainspring.telemetry"))] == []
    roots = [s for s in recorder.spans if s.parent is None]
    assert [s.name for s in roots] == ["invoke_agent agent"] * 4


def test_tl_04_telemetry_prints_nothing_and_configures_no_logger(tmp_path: Path) -> None:
    code = """
import asyncio, logging
from mainspring import Agent
from mainspring.env.memory import MemoryEnv; from mainspring.testing import ScriptedModel
from mainspring.telemetry import Telemetry, Tracing
telemetry = Telemetry(endpoint="http://127.0.0.1:9", close_seconds=0.2)
telemetry.signals.instruments = None  # whatever is asked of it raises
asyncio.run(Agent(ScriptedModel("x"), execution=MemoryEnv(), plugs=[Tracing(telemetry)]).run("go"))
telemetry.close()
root = logging.getLogger()
assert not root.handlers and root.level == logging.WARNING, root.handlers
assert [type(h).__name__ for h in logging.getLogger("mainspring.telemetry").handlers] == ["NullHandler"]
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def run_and_save(home: Path, *script: Any, plugs: list[Any] | None = None, **behavior: Any) -> Agent:
    project = home.parent / "project"
    project.mkdir(exist_ok=True)
    session = Session.create(str(project), home=home)
    agent = Agent(
        ScriptedModel(*script),
        execution=MemoryEnv(),
        tools=[look],
        session=session,
        plugs=[SessionEventLog(session), *(plugs or [])],
        subagents=True,
        behavior=RunOptions(retry=None, **behavior),
    )

    async def run() -> None:
        await agent.run("go", raise_errors=False)
        await agent.shutdown()
        session.close()

    asyncio.run(run())
    return agent


def load_cost_total(tmp_path: Path) -> Any:
    return cost_report(
        WorkspaceOptions(cwd=str(tmp_path)), environ={"MAINSPRING_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    ).total


@pytest.mark.covers("TEL-03")
def test_co_01_and_co_02_cached_and_reasoning_tokens_count_once(tmp_path: Path) -> None:
    recorder = Recorder()
    run_and_save(tmp_path / "home", Reply("done", usage=USAGE), plugs=[Tracing(recorder.telemetry)])

    facts = recorder.span("chat scripted-1").attributes or {}
    assert int(str(facts["gen_ai.usage.input_tokens"])) + int(str(facts["gen_ai.usage.output_tokens"])) == TOTAL
    assert sum(p.sum for p in recorder.metrics["gen_ai.client.token.usage"]) == TOTAL
    total = load_cost_total(tmp_path)
    assert total.input_tokens + total.cache_read + total.cache_write + total.output_tokens == TOTAL
    assert total.cost == pytest.approx(0.036)


def test_co_03_usage_of_a_broken_response_is_kept(tmp_path: Path) -> None:
    recorder = Recorder()
    cut = Reply("a b c", chunk_count=3, truncate_after=2, usage=USAGE, error=NetworkError("cut"))

    run_and_save(tmp_path / "home", cut, plugs=[Tracing(recorder.telemetry)])

    assert (recorder.span("chat scripted-1").attributes or {})["gen_ai.usage.input_tokens"] == 160
    assert (recorder.span("invoke_agent agent").attributes or {})["gen_ai.usage.input_tokens"] == 160
    assert load_cost_total(tmp_path).cost == pytest.approx(0.036)


def test_co_04_unknown_price_is_reported_as_unpriced(tmp_path: Path) -> None:
    recorder = Recorder()
    run_and_save(tmp_path / "home", Reply("done", usage=Usage(100, 20)), plugs=[Tracing(recorder.telemetry)])

    total = load_cost_total(tmp_path)
    assert (total.cost, total.unpriced_calls, total.unpriced_tokens, total.input_tokens) == (0.0, 1, 120, 100)
    assert "mainspring.usage.cost" not in (recorder.span("invoke_agent agent").attributes or {})


def test_co_05_cost_budget_stops_the_agent_and_its_subagents(tmp_path: Path) -> None:
    """The limit of the parent stops its subagent; the report shows the limit plus the response that exceeded it."""

    def ask(request: ModelRequest) -> Reply:
        tools = [t.name for t in request.tools]
        call = ScriptedCall("spawn", {"task": "spend"}) if "spawn" in tools else ScriptedCall("look", {"key": "more"})
        return Reply(calls=[call], usage=Usage(10, 10, cost=Cost(1.0)))

    agent = run_and_save(tmp_path / "home", *[ask] * 50, session_budget=Budget(max_cost=5.0))

    assert load_cost_total(tmp_path).cost == pytest.approx(5.0)
    assert agent.ledger.cost == pytest.approx(5.0)


def test_co_06_usage_is_per_run_and_metrics_add_up(tmp_path: Path) -> None:
    recorder = Recorder()
    agent = Agent(
        ScriptedModel(Reply("one", usage=USAGE), Reply("two", usage=USAGE)),
        execution=MemoryEnv(),
        plugs=[Tracing(recorder.telemetry)],
    )
    asyncio.run(agent.run("go"))
    asyncio.run(agent.run("go"))

    runs = [s.attributes or {} for s in recorder.spans if s.name.startswith("invoke_agent")]
    assert [r["gen_ai.usage.input_tokens"] for r in runs] == [160, 160]
    assert sum(p.sum for p in recorder.metrics["gen_ai.client.token.usage"]) == 2 * TOTAL
