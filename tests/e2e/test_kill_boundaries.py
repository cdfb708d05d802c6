"""`kill -9` at each boundary of a turn with tool calls; a second process resumes the run.

The child kills itself: in a hook before or after the one of the session, in the tool, or between two writes. The tool counts its
calls on disk.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from mainspring.env import LocalEnv
from mainspring.loop import CoreAgent
from mainspring.loop.hooks import (
    BeforeToolRun,
    MessagesAdded,
    PermissionCheck,
    SessionEnd,
    ToolCallsReceived,
    ToolFinished,
    ToolResultsAfter,
)
from mainspring.messages import Message
from mainspring.run_options import RunOptions
from mainspring.sessions import PairEntry, Session, SessionPlug
from mainspring.sessions.history import INTERRUPTED_TEXT, NOT_STARTED
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Tool, tool

pytestmark = pytest.mark.slow

BEFORE, AFTER = 50, 150  # the handlers of the session have order 100

Boundary = tuple[type[Any], int, str]
BOUNDARIES: dict[str, Boundary | None] = {
    "before the prompt": (MessagesAdded, BEFORE, ""),
    "after the prompt": (MessagesAdded, AFTER, ""),
    "before the intent": (ToolCallsReceived, BEFORE, ""),
    "after the intent": (ToolCallsReceived, AFTER, ""),
    "while calls are judged": (PermissionCheck, 0, "b"),
    "before the start": (BeforeToolRun, BEFORE, "b"),
    "after the start": (BeforeToolRun, AFTER, "b"),
    "in mid-tool": None,
    "before the result": (ToolFinished, BEFORE, "b"),
    "after the result": (ToolFinished, AFTER, "b"),
    "before the pair": (ToolResultsAfter, BEFORE, ""),
    "after the pair": (ToolResultsAfter, AFTER, ""),
    "before the end": (SessionEnd, BEFORE, ""),
    "after the end": (SessionEnd, AFTER, ""),
}
MODES = {"one after the other": "sequential", "together": "parallel"}


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def counting_tool(folder: Path, dying: str = "") -> Tool:
    """Create a tool that logs its calls on disk, where a kill cannot remove them."""

    @tool
    async def act(key: str) -> str:
        """Act."""
        with (folder / "ran").open("a") as file:
            file.write(f"{key}\n")
            file.flush()
            os.fsync(file.fileno())
        if key == dying:
            kill_self()
        return f"did {key}"

    return act


def create_agent(session: Session, act: Tool, *script: Any) -> CoreAgent:
    return CoreAgent(ScriptedModel(*script), env=LocalEnv(os.getcwd()), tools=[act], plugs=[SessionPlug(session)])


async def run_child(folder: Path, boundary: str, mode: str) -> None:
    """Run one normal turn, then one that is killed at the boundary."""
    where = BOUNDARIES[boundary]
    session = Session.create(folder, home=folder / "home", id="killed")
    act = counting_tool(folder, "b" if where is None else "")
    calls = [ScriptedCall("act", {"key": key}, id=f"call-{key}") for key in "abc"]
    script = [
        Reply(calls=[ScriptedCall("act", {"key": "x"}, id="call-x")]),
        "fine",
        Reply("I act", calls=calls),
        "done",
    ]
    agent = create_agent(session, act, *script)
    await agent.run("first", behavior=RunOptions(tool_execution=cast("Any", mode)))
    if where is not None:
        hook, order, key = where

        def kill(context: Any) -> None:
            if not key or context.input.get("key") == key:
                kill_self()

        agent.on(hook, kill, order=order)
    await agent.run("second", behavior=RunOptions(tool_execution=cast("Any", mode)))


def run_killed_child(folder: Path, boundary: str, mode: str) -> None:
    command = [sys.executable, "-m", "tests.e2e.test_kill_boundaries", str(folder), boundary, mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


def count_calls(folder: Path) -> Counter[str]:
    file = folder / "ran"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def tool_results(session: Session) -> dict[str, str]:
    """Return the result of each call; every call has exactly one, right after it."""
    found: dict[str, str] = {}
    messages = [m for m in session.messages if isinstance(m, Message)]
    for message, following in zip(messages, [*messages[1:], Message("user")], strict=True):
        ids = [c.id for c in message.tool_uses]
        assert [r.tool_use_id for r in following.tool_results] == ids
        for result in following.tool_results:
            assert result.tool_use_id not in found
            found[result.tool_use_id] = result.text
    return found


def expected_results(boundary: str, mode: str, did: Counter[str]) -> dict[str, str]:
    """Return the expected result of each call of the second turn, by the boundary of the kill."""
    order = list(BOUNDARIES)
    at = order.index(boundary)
    if at < order.index("after the intent"):
        return {}
    owed: dict[str, str] = {}
    for key in "abc":
        if at >= order.index("before the pair"):
            owed[key] = f"did {key}"
        elif key == "b" and order.index("after the start") <= at < order.index("after the result"):
            owed[key] = INTERRUPTED_TEXT
        elif not did[key]:
            owed[key] = NOT_STARTED
        else:
            owed[key] = f"did {key}"
    if mode == "parallel" and order.index("before the start") <= at < order.index("before the pair"):
        del owed["a"], owed["c"]  # they run in parallel, so their results vary; see below
    return {f"call-{key}": text for key, text in owed.items()}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_killed_run_resumes_with_a_new_prompt(boundary: str, mode: str, tmp_path: Path) -> None:
    run_killed_child(tmp_path, boundary, mode)
    did = count_calls(tmp_path)
    assert did["x"] == 1
    assert max(did.values()) == 1

    session = Session.latest(tmp_path, home=tmp_path / "home")
    assert session.writable  # the lock of the killed process is released
    assert session.problems == []
    texts = [m.text for m in session.messages if isinstance(m, Message) and m.text]
    prompt_is_there = boundary != "before the prompt"
    assert texts[:3] == ["first", "fine", "second"][: 2 + prompt_is_there]
    found = tool_results(session)
    for call, text in expected_results(boundary, mode, did).items():
        assert found[call] == text
    for call, text in found.items():  # a call that ran is never reported as not started, and the other way around
        key = call.removeprefix("call-")
        assert text in ({f"did {key}", INTERRUPTED_TEXT} if did[key] else {NOT_STARTED, INTERRUPTED_TEXT})
        if text == INTERRUPTED_TEXT:
            assert boundary not in {"after the intent", "while calls are judged", "after the pair"}
    assert session.was_interrupted == (boundary not in {"after the end", "before the prompt"})

    again = counting_tool(tmp_path)
    agent = create_agent(session, again, Reply(calls=[ScriptedCall("act", {"key": "y"}, id="call-y")]), "on we go")
    result = asyncio.run(agent.run("third"))
    assert result.text == "on we go"
    assert count_calls(tmp_path) == did + Counter("y")  # nothing ran twice
    session.close()
    last = Session.open("killed", home=tmp_path / "home")
    assert last.problems == []
    assert not last.was_interrupted
    assert tool_results(last) == {**found, "call-y": "did y"}
    pairs = [e.intent for e in last.entries() if isinstance(e, PairEntry)]
    assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize("boundary", ["after the prompt", "after the intent", "in mid-tool", "before the pair"])
def test_killed_run_resumes_without_a_prompt(boundary: str, tmp_path: Path) -> None:
    run_killed_child(tmp_path, boundary, "sequential")
    did = count_calls(tmp_path)
    session = Session.latest(tmp_path, home=tmp_path / "home")
    before = len(session.messages)
    agent = create_agent(session, counting_tool(tmp_path), "finished")
    assert asyncio.run(agent.run()).text == "finished"
    assert count_calls(tmp_path) == did
    assert len(session.messages) == before + 1


def test_reader_changes_nothing_after_a_kill(tmp_path: Path) -> None:
    """A reader takes no lock and writes nothing, even after a kill."""
    run_killed_child(tmp_path, "in mid-tool", "sequential")
    path = next((tmp_path / "home").rglob("*.jsonl"))
    before = path.read_bytes()
    with Session.open(path, write=False) as reader:
        assert INTERRUPTED_TEXT in tool_results(reader).values()
        with Session.open(path) as writer:
            assert writer.writable
    assert path.read_bytes() == before
    assert [json.loads(line)["type"] for line in before.splitlines()][-1] == "call_started"


if __name__ == "__main__":
    asyncio.run(run_child(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
    sys.exit("it was not killed")
