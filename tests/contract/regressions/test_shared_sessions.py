"""Known problems of sessions that two processes use at the same time, each of which lost a conversation or mixed two of them."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mainspring.errors import SessionError
from mainspring.messages import Message
from mainspring.sessions import (
    JsonlStore,
    MemorySessionStore,
    MessageEntry,
    Session,
    SessionStore,
    SqliteSessionStore,
    list_sessions,
)
from mainspring.sessions.entries import RunStartEntry
from tests.unit.sessions.harness import QUICK, describe, make_agent, make_calls

ROUNDS = 12

CREATE = """
import asyncio, sys
from mainspring import Agent
from mainspring.errors import SessionError
from mainspring.sessions import Session, SqliteSessionStore
from mainspring.testing import ScriptedModel

home, kind, folder, name, rounds = sys.argv[1:]
store = SqliteSessionStore(f"{home}/sessions.db") if kind == "sqlite" else home
for number in range(int(rounds)):
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        with Session.create(folder, home=store, id=f"round{number}") as session:
            asyncio.run(Agent(ScriptedModel(f"answer to {name}"), session=session).run(f"prompt of {name}"))
            print("lost" if session.journal.problems else "saved", flush=True)
    except SessionError as error:
        print("refused" if "already exists" in str(error) else error, flush=True)
"""


def store_of(kind: str, home: Path) -> str | SessionStore:
    return SqliteSessionStore(home / "sessions.db") if kind == "sqlite" else str(home)


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_one_of_two_processes_creates_a_session_and_the_other_gets_an_error(kind: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    folders = [tmp_path / "one", tmp_path / "two"]  # With files, each folder has another path.
    names = ["a", "b", "c"]
    command = [sys.executable, "-c", CREATE, str(home), kind]
    started = [
        subprocess.Popen(
            [*command, str(folders[i % 2]), name, str(ROUNDS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
        )
        for i, name in enumerate(names)
    ]  # fmt: skip
    for number in range(ROUNDS):
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        results = [process.stdout.readline().strip() for process in started if process.stdout]
        # A process that starts after the end of another one finds its session.
        assert sorted(results) == ["refused", "refused", "saved"], results
        with Session.open(f"round{number}", home=store_of(kind, home)) as session:
            winner = names[results.index("saved")]
            assert describe(session.messages) == [f"user: prompt of {winner}", f"assistant: answer to {winner}"]
    for process in started:
        process.communicate()
    assert len(list_sessions(home=store_of(kind, home), everywhere=True)) == ROUNDS


@pytest.mark.parametrize("store", [pytest.param(JsonlStore, id="files"), SqliteSessionStore, MemorySessionStore])
def test_one_of_many_threads_creates_a_session(store: type, tmp_path: Path) -> None:
    place = store() if store is MemorySessionStore else store(tmp_path / "sessions.db")
    created: list[Session] = []
    refused: list[SessionError] = []
    barrier = threading.Barrier(8)

    def create() -> None:
        barrier.wait()
        try:
            created.append(Session.create(tmp_path, home=place, id="same", options=QUICK))
        except SessionError as error:
            refused.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(created), len(refused)) == (1, 7)
    created[0].close()
    assert list_sessions(home=place, everywhere=True) == []  # It was never used.
    with Session.create(tmp_path, home=place, id="same", options=QUICK):
        pass


@pytest.mark.anyio
@pytest.mark.parametrize("store", [pytest.param(JsonlStore, id="files"), SqliteSessionStore])
async def test_fork_of_a_busy_session_leaves_out_its_unfinished_run(store: type, tmp_path: Path) -> None:
    place = store(tmp_path / "sessions.db")
    forks: list[Session] = []

    def fork(_: object) -> str:
        forks.append(Session.open("busy", home=place, if_locked="fork", options=QUICK))
        return "done"

    with Session.create(tmp_path, home=place, id="busy", options=QUICK) as session:
        agent = make_agent(session, "hello", make_calls("c1"), fork)
        await agent.run("greet me")
        await agent.run("prompt of the other process")
        [copy] = forks
        assert copy.id != "busy"
        assert describe(copy.messages) == ["user: greet me", "assistant: hello"]
        assert "Continuing in a copy" in str(copy.problems[0])
        again = make_agent(copy, "hi again")
        await again.run("and me")
        assert describe(copy.messages)[2:] == ["user: and me", "assistant: hi again"]
        copy.close()
        assert [m.split(":")[0] for m in describe(session.messages)] == ["user", "assistant"] * 3


def test_fork_keeps_the_run_of_a_process_that_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    with Session.create(tmp_path, home=tmp_path, id="busy", options=QUICK) as session:
        run = session.journal.record(RunStartEntry, run="r1", agent="main", pid=ended.pid, host=socket.gethostname())
        session.journal.record(MessageEntry, message=Message.user("fix it"), source="prompt", run=run.run)
        session.save()
        fork = Session.open("busy", home=tmp_path, if_locked="fork", options=QUICK)
        assert describe(fork.messages) == ["user: fix it"]
        fork.close()
