"""Costs of runs, computed from their event logs."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from mainspring import Agent
from mainspring.app.commands.cost import CostReport, cost_report, iter_spending, parse_since
from mainspring.app.run.options import WorkspaceOptions
from mainspring.env import MemoryEnv
from mainspring.errors import ConfigError, NetworkError
from mainspring.events import AgentEnd, AgentStart, AgentStats, MessageEnd, RunEvent, UsageUpdate
from mainspring.loop.hooks import ModelErrorHook
from mainspring.messages import Cost, Message, Usage
from mainspring.models import ModelRequest
from mainspring.run_options import RunOptions
from mainspring.sessions import LogLine, Session
from mainspring.sessions.event_log import SessionEventLog
from mainspring.testing import Reply, ScriptedCall, ScriptedModel

KNOWN = Usage(100, 20, cache_read=50, cache_write=5, reasoning_tokens=4, cost=Cost(0.01, 0.02, 0.001, 0.0))
UNKNOWN = Usage(300, 30)
NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def converse(
    home: Path,
    *script: Any,
    folder: str = "a",
    prompt: str = "go",
    register: Callable[[Agent], Any] | None = None,
    **options: Any,
) -> None:
    project = home.parent / folder
    project.mkdir(exist_ok=True)

    async def run() -> None:
        session = Session.create(str(project), home=home)
        agent = Agent(
            ScriptedModel(*script, **{"provider": "openai", "model": "gpt-5-mini", **options}),
            execution=MemoryEnv(),
            session=session,
            plugs=[SessionEventLog(session)],
            subagents=True,
            behavior=RunOptions(retry=None),
        )
        if register is not None:
            register(agent)
        await agent.run(prompt, raise_errors=False)
        await agent.shutdown()
        session.close()

    asyncio.run(run())


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"MAINSPRING_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}


def load_report(environ: dict[str, str], tmp_path: Path, **options: Any) -> CostReport:
    return cost_report(WorkspaceOptions(cwd=str(tmp_path)), environ=environ, **options)


def report_rows(report: CostReport) -> list[tuple[str, int, float, int]]:
    return [(r.key, r.calls, round(r.cost, 6), r.unpriced_calls) for r in report.rows]


def test_cost_is_grouped_by_day_project_model_and_session(environ: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    converse(home, Reply("x", usage=KNOWN))
    converse(home, Reply("x", usage=KNOWN), folder="b")
    converse(home, Reply("x", usage=UNKNOWN), folder="b", model="mystery")

    today = f"{datetime.now().astimezone():%Y-%m-%d}"
    by_day = load_report(environ, tmp_path)
    assert report_rows(by_day) == [(today, 3, 0.062, 1)]
    assert by_day.total.unpriced_tokens == 330
    assert (by_day.total.input_tokens, by_day.total.cache_read, by_day.total.output_tokens) == (500, 100, 70)
    assert report_rows(load_report(environ, tmp_path, by="project")) == [
        (str(tmp_path / "b"), 2, 0.031, 1),
        (str(tmp_path / "a"), 1, 0.031, 0),
    ]
    assert report_rows(load_report(environ, tmp_path, by="model")) == [
        ("openai:gpt-5-mini", 2, 0.062, 0),
        ("openai:mystery", 1, 0.0, 1),
    ]
    assert len(load_report(environ, tmp_path, by="session").rows) == 3
    here = cost_report(WorkspaceOptions(cwd=str(tmp_path / "a")), environ=environ, here=True, by="project")
    assert report_rows(here) == [(str(tmp_path / "a"), 1, 0.031, 0)]


def test_report_includes_subagents_side_calls_and_failed_attempts(environ: dict[str, str], tmp_path: Path) -> None:
    """CO-06: the report contains all usage that the run reports, and nothing twice."""
    used: list[Usage] = []
    request = False

    def register(agent: Agent) -> None:
        async def make_side_call(event: UsageUpdate) -> None:
            nonlocal request
            used[:] = [event.total]
            if not request:
                request = True
                await agent.side_call("title", ModelRequest([Message.user("name it")]))

        agent.on(UsageUpdate, make_side_call)

    script = (
        Reply("a", calls=[ScriptedCall("spawn", {"task": "t"})], usage=KNOWN),  # the parent
        Reply("title", usage=KNOWN),  # a side call
        Reply("child", usage=KNOWN),  # the subagent
        Reply("done", usage=KNOWN),
    )
    converse(tmp_path / "home", *script, register=register)

    cost = load_report(environ, tmp_path, by="model")

    assert sum(r.calls for r in cost.rows) == 4
    assert cost.total.input_tokens == 400
    assert cost.total.cost == pytest.approx(4 * 0.031)
    assert cost.total.by_children == pytest.approx(0.031)
    assert used[0].cost is not None
    assert cost.total.cost == pytest.approx(used[0].cost.total)


def test_report_includes_tokens_of_a_failed_attempt(environ: dict[str, str], tmp_path: Path) -> None:
    cut = Reply("a b c", chunk_count=3, truncate_after=2, usage=KNOWN, error=NetworkError("cut"))
    converse(
        tmp_path / "home",
        cut,
        Reply("done", usage=KNOWN),
        register=lambda agent: agent.on(ModelErrorHook, lambda hook: hook.retry()),
    )

    cost = load_report(environ, tmp_path, by="model")

    assert report_rows(cost) == [("openai:gpt-5-mini", 1, 0.062, 0)]
    assert cost.total.output_tokens == 40


def make_line(event: RunEvent, run: str) -> LogLine:
    return LogLine(1, NOW, event, run, "s")


def make_start(run: str, agent: str = "main") -> LogLine:
    return make_line(AgentStart(run, agent, session_id="s", cwd="/p"), run)


def make_call(run: str, usage: Usage) -> LogLine:
    return make_line(MessageEnd(Message("assistant", usage=usage, provider="openai", model="m")), run)


def make_end(run: str, usage: Usage) -> LogLine:
    return make_line(AgentEnd(run, (), "completed", stats=AgentStats(usage=usage)), run)


def test_killed_run_counts_its_recorded_model_calls() -> None:
    lines = [make_start("1"), make_call("1", KNOWN), make_start("2"), make_call("2", KNOWN), make_end("2", KNOWN)]

    spent = list(iter_spending(lines))

    assert [(s.usage, s.model, s.project, s.session) for s in spent] == [(KNOWN, "openai:m", "/p", "s")] * 2


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.booleans()), max_size=6), st.integers(0, 500))
def test_spending_adds_up_to_the_run_total(calls: list[tuple[int, int, bool]], lost: int) -> None:
    whole, lines = Usage.zero(), [make_start("1")]
    for tokens, out, child in calls:
        usage = Usage(tokens, out, cost=Cost(tokens / 1e6))
        if child:
            lines += [make_start("2", "child"), make_call("2", usage), make_end("2", usage)]
        else:
            lines.append(make_call("1", usage))
        whole += usage
    whole += Usage(lost, lost, cost=Cost(lost / 1e6))
    lines.append(make_end("1", whole))

    spent = [s.usage for s in iter_spending(lines)]

    total = Usage.zero()
    for usage in spent:
        total += usage
    assert (total.input_tokens, total.output_tokens) == (whole.input_tokens, whole.output_tokens)
    assert total.cost is not None
    assert whole.cost is not None
    assert total.cost.total == pytest.approx(whole.cost.total)


FIRST_VERSION = """\
{"event":"run_start","time":"2026-01-01T00:00:00Z","session":"s","project":"/p","run":"1","agent":"main"}
{"event":"model_call","time":"2026-01-01T00:00:01Z","session":"s","project":"/p","run":"1","agent":"main","turn":1,\
"provider":"openai","model":"m","usage":{"input_tokens":100,"cost":{"input":0.5}},"cost":0.5,"status":"ok","reason":"end_turn"}
{"event":"side_call","time":"2026-01-01T00:00:01Z","session":"s","project":"/p","run":"1","agent":"main","turn":1,\
"usage":{"input_tokens":10,"cost":{"input":0.25}},"cost":0.25,"reason":"title"}
{"event":"pause","time":"2026-01-01T00:00:01Z","session":"s","project":"/p","run":"1","agent":"main","count":1}
{"event":"run_end","time":"2026-01-01T00:00:02Z","session":"s","project":"/p","run":"1","agent":"main","turn":1,\
"usage":{"input_tokens":120,"cost":{"input":1.0}},"cost":1.0,"status":"paused","seconds":2.0}
"""


def test_report_includes_logs_of_the_first_version(environ: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "home" / "logs"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text(FIRST_VERSION)

    report = load_report(environ, tmp_path, by="model")

    assert report_rows(report) == [("openai:m", 1, 0.75, 0), ("(unknown)", 1, 0.25, 0)]
    assert [r.key for r in load_report(environ, tmp_path, by="project").rows] == ["/p"]


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("24h", NOW - timedelta(days=1)),
        ("7d", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(days=14)),
        ("2026-11-01T10:00:00+00:00", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("2026-11-01", datetime(2026, 11, 1).astimezone()),
        ("today", NOW.astimezone().replace(hour=0)),
    ],
)
def test_parse_since_accepts_durations_and_dates(text: str, when: datetime) -> None:
    assert parse_since(text, NOW) == when


@pytest.mark.parametrize("text", ["yesterday-ish", "7", "-3d", "2026-13-01"])
def test_parse_since_rejects_an_invalid_time(text: str) -> None:
    with pytest.raises(ConfigError, match="Invalid --since"):
        parse_since(text, NOW)


def test_since_limits_the_report(environ: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    converse(home, Reply("x", usage=KNOWN))
    log = next((home / "logs").glob("*.jsonl"))
    lines = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]
    old = [{**line, "time": "2020-01-01T00:00:00Z"} for line in lines]
    log.with_name("older.jsonl").write_bytes(b"\n".join(msgspec.json.encode(line) for line in old) + b"\n")

    assert load_report(environ, tmp_path).total.calls == 2
    assert load_report(environ, tmp_path, since="7d").total.calls == 1
    assert [r.key for r in load_report(environ, tmp_path).rows][0].startswith("20")
