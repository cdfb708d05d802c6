"""A process that is killed again and again while an agent works in it, and what must hold whenever it is.

`Killer` starts one helper that has everything imported. For each kill it forks; the child opens the session, works, and notes in a
file of its own what it was told is stored; after a random time it is killed with ``kill -9``.
"""

import asyncio
import json
import os
import random
import select
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainspring.env import LocalEnv
from mainspring.loop import CoreAgent, RunOptions
from mainspring.loop.hooks import TurnBefore
from mainspring.messages import Message
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

KILLS_A_SESSION = 10
LONGEST = {"jsonl": 0.12, "sqlite": 0.3}  # seconds until a kill: it falls into one of many runs
RUNS = 400


def store_of(kind: str, folder: Path) -> SessionStore:
    return SqliteSessionStore(folder / "sessions.db") if kind == "sqlite" else JsonlStore(folder)


# --- the child ---------------------------------------------------------------------------------------------------------


class Notes:
    """What the child knows to be stored, or to have been done; in a file that any kill leaves as it is."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, kind: str, *values: str) -> None:
        os.write(self._fd, b"".join([json.dumps([kind, value]).encode() + b"\n" for value in values]))


def acting(notes: Notes, chance: random.Random) -> Tool:
    @tool
    async def act(key: str) -> str:
        """Act, and say so at some length."""
        notes.add("ran", key)
        return f"did {key}" + " at length" * chance.choice([0, 0, 0, 10, 5_000, 50_000])

    return act


async def work(kind: str, folder: Path, seed: str) -> None:
    """Runs with tools, one after the other, until the kill."""
    chance, notes = random.Random(seed), Notes(folder)
    store = store_of(kind, folder)
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
        tools=[acting(notes, chance)],
        plugs=[SessionPlug(session)],
    )

    def stored(hook: TurnBefore) -> None:
        """Whatever a request is made of is stored by then."""
        for message in hook.request.messages[-2:]:
            if message.role == "user" and message.text.startswith("prompt "):
                notes.add("prompt", message.text)
            notes.add("result", *[r.text.split(" at ")[0] for r in message.tool_results if not r.is_error])

    agent.on(TurnBefore, stored, order=1000)
    for number in range(RUNS):
        name = f"{seed}.{number}"
        for step in range(chance.randrange(3)):
            keys = [f"{name}.{step}.{i}" for i in range(chance.randint(1, 3))]
            replies.append(Reply("I act", calls=[ScriptedCall("act", {"key": k}, id=f"call-{k}") for k in keys]))
        replies.append(f"answer {name}")
        mode: Any = chance.choice(["parallel", "sequential"])
        await agent.run(f"prompt {name}", behavior=RunOptions(tool_execution=mode))
        notes.add("answer", f"answer {name}")
        if chance.random() < 0.15:  # as a compaction does
            agent.context.messages[:] = [Message.user(f"summary up to {name}"), *agent.context.messages[-1:]]


# --- the helper ------------------------------------------------------------------------------------------------------


def serve() -> None:
    """For each line of stdin: fork a child, kill it in time, say how it ended."""
    for line in sys.stdin:
        job = json.loads(line)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try:
                asyncio.run(work(job["kind"], Path(job["folder"]), job["seed"]))
            except BaseException:  # noqa: BLE001 - whatever it was, this process must not go on as its parent
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(writer)
        select.select([reader], [], [], job["delay"])  # ends early where the child does
        os.kill(pid, signal.SIGKILL)
        os.close(reader)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


class Killer:
    """The helper, seen from a test."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def kill(self, kind: str, folder: Path, seed: str, delay: float) -> int:
        """One child, killed after a while; how it ended."""
        assert self._process.stdin
        assert self._process.stdout
        job = {"kind": kind, "folder": str(folder), "seed": seed, "delay": delay}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def killer() -> Iterator[Killer]:
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
        assert process.wait(20) == 0


# --- what must hold --------------------------------------------------------------------------------------------------


def noted(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"ran": [], "prompt": [], "result": [], "answer": []}
    file = folder / "notes"
    for line in file.read_bytes().splitlines() if file.exists() else ():
        kind, value = json.loads(line)
        found[kind].append(value)
    return found


def check(kind: str, folder: Path) -> Counter[str]:
    """Open the session as the next process does, and see that nothing is missing, doubled, or said to be what it was not.

    Returns:
        What was found, to see that the kills did hit something.
    """
    store, known = store_of(kind, folder), noted(folder)
    if not store.exists("s"):
        assert not any(known.values())
        return Counter(empty=1)
    with Session.open("s", home=store) as session:
        assert session.writable  # the lock of the dead is free
        assert {p.kind for p in session.problems} <= {"torn", "damaged"}
        messages = [m for m in session.messages if isinstance(m, Message)]
        check_pairs(messages)
        entries = session.entries()
        journal = session.journal.history
        open_calls = len(journal.open)
    assert not open_calls
    said = Counter(e.message.text for e in entries if isinstance(e, MessageEntry) and isinstance(e.message, Message))
    for text in (*known["prompt"], *known["answer"]):
        assert said[text] == 1, text
    results = {e.call: e.result for e in entries if isinstance(e, ResultEntry)}
    request = {c.id for e in entries if isinstance(e, IntentEntry) for c in e.message.tool_uses}
    pairs = [e.intent for e in entries if isinstance(e, PairEntry)]
    assert len(pairs) == len(set(pairs))
    ran = Counter(known["ran"])
    assert not ran or max(ran.values()) == 1
    for key in ran:
        block = results[f"call-{key}"]
        assert block.text.startswith(f"did {key}") or block.text == INTERRUPTED_TEXT, block.text[:200]
    for text in known["result"]:
        assert results[f"call-{text.removeprefix('did ')}"].text.startswith(text)
    for call in request - {f"call-{key}" for key in ran}:
        assert results[call].text in {NOT_STARTED, INTERRUPTED_TEXT}
    counted = Counter(
        "interrupted" if b.text == INTERRUPTED_TEXT else "not started" if b.text == NOT_STARTED else "result"
        for b in results.values()
    )
    return counted + Counter(answers=len(known["answer"]), ended=sum(isinstance(e, RunEndEntry) for e in entries))


def check_pairs(messages: list[Message]) -> None:
    for message, following in zip(messages, [*messages[1:], Message("user")], strict=True):
        assert [r.tool_use_id for r in following.tool_results] == [c.id for c in message.tool_uses]


def soak(kind: str, folder: Path, kills: int) -> Counter[str]:
    """Kill so often, and look after each time; at last the conversation of each session goes on."""
    chance, total = random.Random(), Counter[str]()
    with killer() as helper:
        for number in range(kills):
            place = folder / f"{kind}-{number // KILLS_A_SESSION}"
            place.mkdir(exist_ok=True)
            code = helper.kill(kind, place, f"{number}", chance.uniform(0, LONGEST[kind]))
            assert code == -signal.SIGKILL
            total["kills"] += 1
            found = check(kind, place)
            if (number + 1) % KILLS_A_SESSION == 0 or number + 1 == kills:
                total += found
                goes_on(kind, place)
    return total


def goes_on(kind: str, folder: Path) -> None:
    store = store_of(kind, folder)
    if store.exists("s"):
        with Session.open("s", home=store) as session:
            agent = CoreAgent(ScriptedModel("on we go"), env=LocalEnv(os.getcwd()), plugs=[SessionPlug(session)])
            assert asyncio.run(agent.run("and now?")).text == "on we go"
        with Session.open("s", home=store) as session:
            assert not session.was_interrupted
            assert [m.text for m in session.messages[-2:] if isinstance(m, Message)] == ["and now?", "on we go"]


if __name__ == "__main__":
    serve()
