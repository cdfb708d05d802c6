"""Kill a process repeatedly while an agent works in it, and check the stored session after each kill.

`Killer` starts one helper that has imported everything. For each kill, the helper forks; the child opens the session, works, and
logs in its own file what was reported as stored. After a random number of these reports, and a random time, it is killed with ``kill -9``.
"""

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainspring.env import LocalEnv
from mainspring.loop import CoreAgent
from mainspring.loop.hooks import TurnBefore
from mainspring.messages import Message
from mainspring.run_options import RunOptions
from mainspring.sessions import (
    IntentEntry,
    JsonlStore,
    MessageEntry,
    PairEntry,
    ResultEntry,
    RunEndEntry,
    Session,
    SessionOptions,
    SessionPlug,
    SessionStore,
    SqliteSessionStore,
)
from mainspring.sessions.history import INTERRUPTED_TEXT, NOT_STARTED
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Tool, tool

KILLS_PER_SESSION = 10
MAX_NOTES = 60  # until a kill; a run has about five
MAX_SECONDS = {"jsonl": 0.01, "sqlite": 0.03}  # between the last of these notes and the kill
RUNS = 400


def open_store(kind: str, folder: Path) -> SessionStore:
    return SqliteSessionStore(folder / "sessions.db") if kind == "sqlite" else JsonlStore(folder)


# --- the child ---------------------------------------------------------------------------------------------------------


class Notes:
    """What the child knows to be stored or done, in a file that survives any kill.

    Args:
        folder: The folder of the file.
        progress: A pipe that gets a byte for each note.
    """

    def __init__(self, folder: Path, progress: int) -> None:
        self._fd = os.open(folder / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._progress = progress

    def add(self, kind: str, *values: str) -> None:
        os.write(self._fd, b"".join([json.dumps([kind, value]).encode() + b"\n" for value in values]))
        os.write(self._progress, b"." * len(values))


def create_act_tool(notes: Notes, chance: random.Random) -> Tool:
    @tool
    async def act(key: str) -> str:
        """Act and return a long text."""
        notes.add("ran", key)
        return f"did {key}" + " at length" * chance.choice([0, 0, 0, 10, 5_000, 50_000])

    return act


async def run_agent(kind: str, folder: Path, seed: str, progress: int) -> None:
    """Run the agent with tools, one run after the other, until the kill."""
    chance, notes = random.Random(seed), Notes(folder, progress)
    store = open_store(kind, folder)
    options = SessionOptions(fsync=chance.choice(["never", "calls"]))
    if store.exists("s"):
        session = Session.open("s", home=store, options=options)
    else:
        session = Session.create(folder, home=store, id="s", options=options)
    assert session.writable, session.problems
    replies: list[Any] = []
    agent = CoreAgent(
        ScriptedModel(*[lambda _: replies.pop(0)] * (RUNS * 4)),
        env=LocalEnv(os.getcwd()),
        tools=[create_act_tool(notes, chance)],
        plugs=[SessionPlug(session)],
    )

    def note_stored_messages(hook: TurnBefore) -> None:
        """Note the messages of a request, which must be stored by now."""
        for message in hook.request.messages[-2:]:
            if message.role == "user" and message.text.startswith("prompt "):
                notes.add("prompt", message.text)
            notes.add("result", *[r.text.split(" at ")[0] for r in message.tool_results if not r.is_error])

    agent.on(TurnBefore, note_stored_messages, order=1000)
    for number in range(RUNS):
        name = f"{seed}.{number}"
        for step in range(chance.randrange(3)):
            keys = [f"{name}.{step}.{i}" for i in range(chance.randint(1, 3))]
            replies.append(Reply("I act", calls=[ScriptedCall("act", {"key": k}, id=f"call-{k}") for k in keys]))
        replies.append(f"answer {name}")
        mode: Any = chance.choice(["parallel", "sequential"])
        await agent.run(f"prompt {name}", behavior=RunOptions(tool_execution=mode))
        notes.add("answer", f"answer {name}")
        if chance.random() < 0.15:  # like a compaction
            agent.context.messages[:] = [Message.user(f"summary up to {name}"), *agent.context.messages[-1:]]


# --- the helper ------------------------------------------------------------------------------------------------------


def fork_children() -> None:
    """For each line of stdin, fork a child, kill it after some notes and a delay, and write how it ended."""
    for line in sys.stdin:
        job = json.loads(line)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try:
                asyncio.run(run_agent(job["kind"], Path(job["folder"]), job["seed"], writer))
            except BaseException:  # noqa: BLE001 - whatever it was, this process must not go on as its parent
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(writer)
        remaining = job["notes"]
        while remaining > 0 and (read := os.read(reader, remaining)):  # ends early if the child does
            remaining -= len(read)
        end = time.monotonic() + job["delay"]
        while (seconds := end - time.monotonic()) > 0 and select.select([reader], [], [], seconds)[0]:
            if not os.read(reader, 1 << 16):
                break
        os.kill(pid, signal.SIGKILL)
        os.close(reader)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


class Killer:
    """The test's side of the helper."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def kill(self, kind: str, folder: Path, seed: str, notes: int, delay: float) -> int:
        """Start a child, kill it after a number of notes and a delay in seconds, and return its exit code."""
        assert self._process.stdin
        assert self._process.stdout
        job = {"kind": kind, "folder": str(folder), "seed": seed, "notes": notes, "delay": delay}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def start_killer() -> Iterator[Killer]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.soak"],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Killer(process)
        assert process.stdin
        process.stdin.close()
        assert process.wait(120) == 0


# --- checks ------------------------------------------------------------------------------------------------------------


def read_notes(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"ran": [], "prompt": [], "result": [], "answer": []}
    file = folder / "notes"
    for line in file.read_bytes().splitlines() if file.exists() else ():
        kind, value = json.loads(line)
        found[kind].append(value)
    return found


def check_session(kind: str, folder: Path) -> Counter[str]:
    """Open the session like the next process, and check that nothing is missing, duplicated, or wrong.

    Returns:
        Counts of what was found, to prove that the kills hit something.
    """
    store, recorded = open_store(kind, folder), read_notes(folder)
    if not store.exists("s"):
        assert not any(recorded.values())
        return Counter(empty=1)
    with Session.open("s", home=store) as session:
        assert session.writable  # the lock of the killed process is released
        assert {p.kind for p in session.problems} <= {"torn", "damaged"}
        messages = [m for m in session.messages if isinstance(m, Message)]
        check_pairs(messages)
        entries = session.entries()
        journal = session.journal.history
        open_calls = len(journal.open)
    assert not open_calls
    texts = Counter(e.message.text for e in entries if isinstance(e, MessageEntry) and isinstance(e.message, Message))
    for text in (*recorded["prompt"], *recorded["answer"]):
        assert texts[text] == 1, text
    results = {e.call: e.result for e in entries if isinstance(e, ResultEntry)}
    request = {c.id for e in entries if isinstance(e, IntentEntry) for c in e.message.tool_uses}
    pairs = [e.intent for e in entries if isinstance(e, PairEntry)]
    assert len(pairs) == len(set(pairs))
    ran = Counter(recorded["ran"])
    assert not ran or max(ran.values()) == 1
    for key in ran:
        block = results[f"call-{key}"]
        assert block.text.startswith(f"did {key}") or block.text == INTERRUPTED_TEXT, block.text[:200]
    for text in recorded["result"]:
        assert results[f"call-{text.removeprefix('did ')}"].text.startswith(text)
    for call in request - {f"call-{key}" for key in ran}:
        assert results[call].text in {NOT_STARTED, INTERRUPTED_TEXT}
    counted = Counter(
        "interrupted" if b.text == INTERRUPTED_TEXT else "not started" if b.text == NOT_STARTED else "result"
        for b in results.values()
    )
    return counted + Counter(answers=len(recorded["answer"]), ended=sum(isinstance(e, RunEndEntry) for e in entries))


def check_pairs(messages: list[Message]) -> None:
    for message, following in zip(messages, [*messages[1:], Message("user")], strict=True):
        assert [r.tool_use_id for r in following.tool_results] == [c.id for c in message.tool_uses]


def soak(kind: str, folder: Path, kills: int) -> Counter[str]:
    """Kill the process repeatedly and check the session after each kill; finally resume each session."""
    chance, total = random.Random(), Counter[str]()
    with start_killer() as helper:
        for number in range(kills):
            place = folder / f"{kind}-{number // KILLS_PER_SESSION}"
            place.mkdir(exist_ok=True)
            code = helper.kill(
                kind, place, f"{number}", chance.randint(0, MAX_NOTES), chance.uniform(0, MAX_SECONDS[kind])
            )
            assert code == -signal.SIGKILL
            total["kills"] += 1
            found = check_session(kind, place)
            if (number + 1) % KILLS_PER_SESSION == 0 or number + 1 == kills:
                total += found
                check_resume(kind, place)
    return total


def check_resume(kind: str, folder: Path) -> None:
    store = open_store(kind, folder)
    if store.exists("s"):
        with Session.open("s", home=store) as session:
            agent = CoreAgent(ScriptedModel("on we go"), env=LocalEnv(os.getcwd()), plugs=[SessionPlug(session)])
            assert asyncio.run(agent.run("and now?")).text == "on we go"
        with Session.open("s", home=store) as session:
            assert not session.was_interrupted
            assert [m.text for m in session.messages[-2:] if isinstance(m, Message)] == ["and now?", "on we go"]


if __name__ == "__main__":
    fork_children()
