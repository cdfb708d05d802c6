"""Runs of saved sessions in the viewer."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent
from mainspring.app.dashboard.session_runs import SavedRuns
from mainspring.app.servers.viewer.model import RunDetail
from mainspring.env import MemoryEnv
from mainspring.errors import NetworkError
from mainspring.messages import Cost, Usage
from mainspring.models import ModelRequest, RetryConfig
from mainspring.run_options import RunOptions
from mainspring.sessions import Session, SqliteSessionStore, import_session
from mainspring.sessions.event_log import SessionEventLog
from mainspring.subagents import AgentDefinition
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool

KEY = "sk-ant-api03-" + "a1B2c3D4e5" * 4
USAGE = Usage(100, 20, cache_read=50, cost=Cost(0.01, 0.02))
QUICK = RunOptions(retry=RetryConfig(max_retries=2, base_delay_seconds=0.001, jitter=0.0))


@tool
async def look(key: str) -> str:
    """Look something up."""
    if key == "bad":
        raise FileNotFoundError("no bad")
    return f"value of {key}"


def respond_as_child(request: ModelRequest) -> Any:
    return (
        Reply(calls=[ScriptedCall("look", {"key": "x"})], usage=USAGE)
        if len(request.messages) == 1
        else Reply("found", usage=USAGE)
    )


async def converse(home: Path, *script: Any, prompt: str = f"Find it {KEY}", name: str = "main") -> Session:
    session = Session.create(str(home), home=home)
    agent = Agent(
        ScriptedModel(*script, model="gpt-5-mini", provider="openai"),
        name=name,
        execution=MemoryEnv(),
        tools=[look],
        session=session,
        plugs=[SessionEventLog(session)],
        subagents=[AgentDefinition(name="scout", description="x", model=ScriptedModel(respond_as_child, loop=True))],
        behavior=QUICK,
    )
    await agent.run(prompt, raise_errors=False)
    await agent.shutdown()
    session.close()
    return session


def get_only_run(saved: SavedRuns) -> RunDetail:
    (summary,) = saved.runs()
    detail = saved.run(summary.id)
    assert detail is not None
    return detail


@pytest.mark.covers("CLI-17")
def test_saved_run_is_a_tree_of_spans(tmp_path: Path) -> None:
    calls = [
        ScriptedCall("look", {"key": "a"}, "c1"),
        ScriptedCall("look", {"key": "bad"}, "c2"),
        ScriptedCall("spawn", {"task": "t", "agent": "scout"}, "c3"),
    ]
    script = NetworkError("cut"), Reply("Looking.", calls=calls, usage=USAGE), Reply(f"Done {KEY}", usage=USAGE)
    session = asyncio.run(converse(tmp_path, *script))

    detail = get_only_run(SavedRuns(tmp_path, {}))

    summary = detail.summary
    assert (summary.status, summary.session, summary.place) == ("completed", session.id, str(tmp_path))
    assert summary.title == "Find it [redacted]"
    assert (summary.models, summary.tools, summary.errors) == (4, 4, 1)
    assert (summary.input_tokens, summary.output_tokens) == (600, 80)
    assert summary.cost == pytest.approx(0.12)
    by_id = {s.id: s for s in detail.spans}
    tree = [(s.name, by_id[s.parent].name if s.parent else "") for s in detail.spans]
    assert tree[0] == ("agent main", "")
    scout = next(s for s in detail.spans if s.kind == "agent" and s.parent)
    assert by_id[scout.parent].name == "spawn"
    assert [s.kind for s in detail.spans if s.parent == scout.id] == ["model", "tool", "model"]
    assert [e.name for e in detail.spans[0].events] == ["model_retry"]
    results = {s.call: (s.output, s.error) for s in detail.spans if s.call}
    assert results["c1"] == ("value of a", "")
    assert results["c2"][1].startswith("FileNotFoundError")
    assert "Done [redacted]" in [s.output for s in detail.spans if s.kind == "model"]
    assert [m["kind"] for m in detail.messages] == ["user", "assistant", "assistant"]
    assert KEY not in repr(detail)


def test_saved_runs_of_a_database_have_titles_and_messages(tmp_path: Path) -> None:
    asyncio.run(converse(tmp_path, Reply("one", usage=USAGE)))
    store = SqliteSessionStore(tmp_path / "sessions.db")
    [file] = (tmp_path / "sessions").glob("*/*.jsonl")
    import_session(file, tmp_path, home=store)
    file.unlink()

    detail = get_only_run(SavedRuns(tmp_path, {}, store))

    assert detail.summary.title == "Find it [redacted]"
    assert [m["kind"] for m in detail.messages] == ["user", "assistant"]


def test_open_run_is_running_and_an_old_one_is_unfinished(tmp_path: Path) -> None:
    session = asyncio.run(converse(tmp_path, Reply("one", usage=USAGE)))
    log = tmp_path / "logs" / f"{session.id}.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    saved = SavedRuns(tmp_path, {})
    assert get_only_run(saved).summary.status == "completed"

    log.write_bytes(
        b"".join(line for line in lines if b'"agent_end"' not in line and b'"session_shutdown"' not in line)
    )
    assert get_only_run(saved).summary.status == "running"
    assert get_only_run(saved).summary.end is None

    old = b"".join(line.replace(b'"time":"20', b'"time":"19') for line in lines if b'"agent_end"' not in line)
    log.write_bytes(old)
    os.utime(log, (time.time(), time.time() + 5))
    assert get_only_run(saved).summary.status == "unfinished"


def test_unchanged_log_is_not_read_again(tmp_path: Path) -> None:
    asyncio.run(converse(tmp_path, "one"))
    asyncio.run(converse(tmp_path, "two"))
    saved = SavedRuns(tmp_path, {})

    first = [g for groups in saved._groups() for g in groups]
    again = [g for groups in saved._groups() for g in groups]

    assert len(first) == 2
    assert all(a is b for a, b in zip(first, again, strict=True))


def test_missing_folder_has_no_runs(tmp_path: Path) -> None:
    assert SavedRuns(tmp_path / "nowhere", {}).runs() == []
    assert SavedRuns(tmp_path / "nowhere", {}).run("session-x") is None
