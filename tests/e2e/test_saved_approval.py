"""A stored approval: one process pauses and ends; others read it, answer it, and resume the run. Nothing runs twice.

Each step is a separate process on the same session file. The tool counts its calls on disk, and every process counts the requests
to its model.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring import Agent, Approve, Deny, RunOptions
from mainspring.loop.hooks import BeforeToolRun, PermissionCheck, ToolFinished
from mainspring.sessions import Session
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Tool, tool

pytestmark = pytest.mark.slow

CALLS = [ScriptedCall("act", {"key": key}, id=f"call-{key}") for key in ("free", "ask", "other", "edit")]
ANSWERS = {"call-ask": Approve(), "call-other": Deny("not that one"), "call-edit": Approve({"key": "edited"})}


def counting_tool(folder: Path) -> Tool:
    """Create a tool that logs its calls on disk, where a kill cannot remove them."""

    @tool
    async def act(key: str) -> str:
        """Act."""
        with (folder / "ran").open("a") as file:
            file.write(f"{key}\n")
            file.flush()
            os.fsync(file.fileno())
        return f"did {key}"

    return act


def check_permission(ctx: PermissionCheck) -> None:
    if ctx.input["key"] != "free":
        ctx.pause(f"may it act on {ctx.input['key']}?")


def kill_self(ctx: Any) -> None:
    if ctx.input["key"] == "ask":
        os.kill(os.getpid(), signal.SIGKILL)


async def run_step(folder: Path, what: str, mode: Any) -> None:
    """Run the step of one process; its last output line is the state."""
    if what == "begin":
        session = Session.create(folder, home=folder / "home", id="paused")
        model = ScriptedModel(Reply("I act", calls=CALLS))
    else:
        session = Session.open("paused", home=folder / "home")
        model = ScriptedModel("all done")
    with session:
        agent = Agent(
            model,
            tools=[counting_tool(folder)],
            session=session,
            execution=str(folder),
            behavior=RunOptions(tool_execution=mode),
            hooks={PermissionCheck: check_permission},
        )
        status = ""
        if what == "begin":
            status = (await agent.run("act")).status
        elif what != "look":
            if what.startswith("die"):
                agent.on(BeforeToolRun if what == "die before" else ToolFinished, kill_self, order=200)
            while agent.pending is not None:
                agent.answer({c.id: ANSWERS[c.id] for c in agent.pending.calls})
                status = (await agent.run()).status
        pending = agent.pending
        waiting = {c.id: pending.reasons[c.id] for c in pending.calls} if pending else {}
        results = [r.text for m in agent.messages for r in getattr(m, "tool_results", ())]
        sys.stdout.write(
            json.dumps({"status": status, "waiting": waiting, "results": results, "requests": len(model.requests)})
            + "\n"
        )


def run_process(folder: Path, what: str, mode: str, *, killed: bool = False) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.e2e.test_saved_approval", str(folder), what, mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == (-signal.SIGKILL if killed else 0), done.stdout + done.stderr
    return {} if killed else json.loads(done.stdout.splitlines()[-1])


def read_calls(folder: Path) -> list[str]:
    file = folder / "ran"
    return file.read_text().split() if file.exists() else []


QUESTIONS = {f"call-{key}": f"may it act on {key}?" for key in ("ask", "other", "edit")}


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_paused_run_is_answered_by_another_process(tmp_path: Path, mode: str) -> None:
    begun = run_process(tmp_path, "begin", mode)
    first = {"call-ask": QUESTIONS["call-ask"]}
    assert (begun["status"], begun["waiting"]) == ("paused", first if mode == "sequential" else QUESTIONS)
    assert (begun["requests"], begun["results"]) == (1, [])
    assert read_calls(tmp_path) == (["free"] if mode == "sequential" else []), "parallel calls wait for each other"

    looked = run_process(tmp_path, "look", mode)
    assert looked["waiting"] == begun["waiting"], "reading changes nothing"

    ended = run_process(tmp_path, "answer", mode)
    assert (ended["status"], ended["waiting"]) == ("completed", {})
    assert ended["requests"] == 1, "one more request with the results; the calls are not requested again"
    assert ended["results"] == ["did free", "did ask", "Permission denied: not that one", "did edited"]
    assert sorted(read_calls(tmp_path)) == ["ask", "edited", "free"]


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("moment", ["die before", "die after"])
def test_kill_after_an_approval_repeats_no_tool_call(tmp_path: Path, moment: str, mode: str) -> None:
    run_process(tmp_path, "begin", mode)
    run_process(tmp_path, moment, mode, killed=True)
    before = sorted(read_calls(tmp_path))
    after = run_process(tmp_path, "answer", mode)
    assert after["waiting"] == {}
    assert sorted(read_calls(tmp_path)) == before, "calls that may have run do not run again"
    texts = dict(zip([c.id for c in CALLS], after["results"], strict=True))
    if moment == "die before":
        assert "Interrupted, outcome unknown" in texts["call-ask"]
    else:
        assert texts["call-ask"] == "did ask"


if __name__ == "__main__":
    asyncio.run(run_step(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
