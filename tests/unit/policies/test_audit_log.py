"""The audit log."""

import json
import logging
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent
from mainspring.env.memory import MemoryEnv
from mainspring.permissions import Permissions
from mainspring.policies.audit_log import AuditLog
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from mainspring.tools.builtin import builtin_tools
from tests.unit.policies.harness import results

KEY = "sk-ant-api03-" + "a1B2" * 8


async def run_logged(audit: AuditLog, *calls: ScriptedCall, permissions: Permissions | None = None) -> Agent:
    env = MemoryEnv({"a.txt": f"key {KEY}"}, run=lambda command: "ran")
    agent = Agent(
        ScriptedModel(list(calls), "done"), tools=builtin_tools(), execution=env, plugs=[audit], permissions=permissions
    )
    await agent.run("go")
    return agent


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_events(path: Path, kind: str) -> list[dict[str, Any]]:
    return [line["event"] for line in read_lines(path) if line["event"]["type"] == kind]


CALLS = (
    ScriptedCall("read_file", {"path": "a.txt"}, id="r"),
    ScriptedCall("shell", {"command": f"echo {KEY}"}, id="s"),
    ScriptedCall("nothing", {}, id="n"),
)


@pytest.mark.covers("SEC-07")
async def test_each_call_has_a_decision_and_a_result(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "deep" / "audit.jsonl", now=lambda: datetime(2026, 1, 2, tzinfo=UTC))
    permissions = Permissions(deny=["shell(echo *)"], on_decision=audit.record_decision)

    await run_logged(audit, *CALLS, permissions=permissions)

    lines = read_lines(audit.path)
    start = lines[0]["event"]
    assert start["type"] == "agent_start"
    decisions = {e["call_id"]: e for e in read_events(audit.path, "tool_decision")}
    outcomes = {e["call"]["id"]: e for e in read_events(audit.path, "tool_execution_end")}
    assert {call: d["outcome"] for call, d in decisions.items()} == {"r": "allow", "s": "deny", "n": "allow"}
    assert "shell(echo *)" in decisions["s"]["rule"]
    codes = {call: (r["result"].get("details") or {}).get("code", "") for call, r in outcomes.items()}
    assert codes == {"r": "", "s": "PERMISSION_DENIED", "n": "NOT_FOUND"}
    assert outcomes["s"]["status"] == "denied"
    assert outcomes["r"]["call"]["input"] == {"path": "a.txt"}
    assert "key " in outcomes["r"]["result"]["content"]
    assert {line["time"] for line in lines} == {"2026-01-02T00:00:00Z"}
    assert [line["seq"] for line in lines] == [*range(1, 8)]
    assert {line["run_id"] for line in lines if line["event"]["type"] != "tool_decision"} == {start["run_id"]}


@pytest.mark.covers("SEC-07", "BYD-19")
async def test_secrets_are_redacted_and_the_file_is_private(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")

    await run_logged(audit, *CALLS)

    assert KEY not in audit.path.read_text()
    assert "[redacted]" in audit.path.read_text()
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600
    assert len(read_events(audit.path, "tool_decision")) == 3


@pytest.mark.covers("SEC-07")
async def test_denial_by_the_user_is_recorded(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    permissions = Permissions(on_permission_request=lambda request: False, on_decision=audit.record_decision)

    await run_logged(audit, ScriptedCall("shell", {"command": "make"}, id="s"), permissions=permissions)

    assert [e["outcome"] for e in read_events(audit.path, "tool_decision")] == ["deny"]


async def test_log_is_rotated_at_its_maximum_size(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl", max_bytes=2000)

    for _ in range(10):
        await run_logged(audit, CALLS[0])

    sizes = {entry.name: entry.stat().st_size for entry in os.scandir(tmp_path)}
    assert sorted(sizes) == ["audit.jsonl", "audit.jsonl.1"]
    assert max(sizes.values()) <= 2000


@pytest.mark.covers("SEC-07")
async def test_unwritable_log_does_not_stop_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = AuditLog(Path("/dev/full"))
    blocked = AuditLog(tmp_path)

    with caplog.at_level(logging.WARNING, "mainspring"):
        for log in (audit, blocked):
            agent = await run_logged(log, CALLS[0])
            assert not results(agent.messages)[0].is_error

    assert len([r for r in caplog.records if "audit log" in r.getMessage()]) == 2
