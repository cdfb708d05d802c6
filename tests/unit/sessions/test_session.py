"""Sessions as an application uses them: new, found again, branched, forked, named."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from mainspring.errors import AgentBusyError, SessionError
from mainspring.messages import CustomMessage, ImageBlock, Message, ToolUseBlock, Usage
from mainspring.sessions import (
    BranchEntry,
    CustomEntry,
    JsonlStore,
    LabelEntry,
    MemorySessionStore,
    ModelChangeEntry,
    Session,
    SessionOptions,
    SessionStore,
    SessionTurn,
    SqliteSessionStore,
    list_sessions,
    turns_to_messages,
)
from mainspring.sessions.paths import project_folder_name, resolve_folder, user_home
from mainspring.testing.scripted_model import Reply
from mainspring.tools import tool
from tests.unit.sessions.harness import QUICK, agent, calling, encoded, stored, text_of, texts, types


@pytest.mark.covers("SES-01", "SES-02", "SES-09")
def test_a_new_session_has_its_id_at_once_and_its_file_with_the_first_message(home: Path) -> None:
    session = Session.create(options=QUICK)
    assert session.id
    assert not any(home.rglob("*"))
    asyncio.run(agent(session, "hi").run("go"))
    path = Path(session.place)
    assert path == home / ".agent" / "sessions" / project_folder_name(os.path.realpath(".")) / f"{session.id}.jsonl"
    assert session.context_folder is not None
    assert session.context_folder.is_dir()
    header = stored(session)[0]
    assert {k: header[k] for k in ("type", "version", "id", "parent", "cwd")} == {
        "type": "session", "version": 1, "id": session.id, "parent": None, "cwd": os.path.realpath("."),
    }  # fmt: skip
    made = datetime.fromisoformat(header["timestamp"])
    assert made.tzinfo == UTC
    assert abs((datetime.now(UTC) - made).total_seconds()) < 60


def test_a_session_that_is_not_used_leaves_nothing(home: Path) -> None:
    with Session.create(title="unused") as session:
        session.label("still unused")
        session.custom("mine", 1)
    assert not any(home.rglob("*"))


def test_a_session_can_be_stored_before_it_has_a_message(home: Path) -> None:
    with Session.create(id="mine", title="A plan") as session:
        session.save()
    (info,) = list_sessions()
    assert (info.id, info.title, info.preview) == ("mine", "A plan", "")
    with pytest.raises(SessionError, match="already"):
        Session.create(id="mine")


@pytest.mark.covers("SES-16")
async def test_the_last_used_session_of_a_folder_is_found_however_it_is_spelled(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    (tmp_path / "link").symlink_to(project)
    ids: list[str] = []
    for folder, age in ((project, 30), (project, 10), (other, 0)):
        session = Session.create(folder, options=QUICK)
        await agent(session, "hi").run(f"in {folder.name} {age}")
        session.close()
        os.utime(session.place, (1_700_000_000 - age, 1_700_000_000 - age))
        ids.append(session.id)
    with Session.latest(tmp_path / "link" / ".." / "project", options=QUICK) as session:
        assert session.id == ids[1]
    with Session.latest(tmp_path / "link", options=QUICK) as session:
        assert texts(session.messages)[0] == "user: in project 10"
    assert [s.id for s in list_sessions(project)] == [ids[1], ids[0]]
    assert {s.id for s in list_sessions(everywhere=True)} == set(ids)
    assert list_sessions(project)[0].preview == "in project 10"
    with Session.open(ids[0], options=QUICK) as session:  # from wherever we are
        assert session.cwd == str(project)


def test_without_a_session_it_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="No sessions in .* yet"):
        Session.latest(tmp_path)
    with pytest.raises(SessionError, match="Unknown session: nothing"):
        Session.open("nothing")


def test_a_file_that_is_no_session_is_passed_over_and_told() -> None:
    session = Session.create(options=QUICK)
    asyncio.run(agent(session, "hi").run("go"))
    session.close()
    Path(session.place).with_name("zzz.jsonl").write_text("")
    again = Session.latest(options=QUICK)
    assert again.id == session.id
    assert "empty" in str(again.problems[0])


@pytest.mark.parametrize("other", ["HOME", "MAINSPRING_HOME"])
def test_the_user_folder_can_be_moved(other: str, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "h")} | {other: str(tmp_path / "x")}
    assert user_home(environ) == (tmp_path / "x" / ".agent" if other == "HOME" else tmp_path / "x")


async def test_without_a_home_folder_it_is_kept_in_memory_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAINSPRING_HOME")
    monkeypatch.setenv("HOME", "nowhere")
    session = Session.create(options=QUICK)
    assert [p.kind for p in session.problems] == ["memory"]
    await agent(session, "hi").run("go")
    assert texts(session.messages) == ["user: go", "assistant: hi"]
    assert list_sessions() == []


async def test_a_home_folder_that_cannot_be_made_is_told_and_the_session_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    session = Session.create(home=tmp_path / "file" / "home", options=QUICK)
    one = agent(session, calling("a"), "hi")
    await one.run("go")
    assert [p.kind for p in session.problems] == ["unsaved"]
    assert "continues in memory" in str(session.problems[0])
    assert len(one.messages) == len(session.messages) == 4
    assert texts(session.messages)[2] == "user: a=value of a"
    session.close()
    assert "could not be saved" in str(session.problems[-1])


def test_names_of_projects_are_readable_and_different(tmp_path: Path) -> None:
    names = [
        project_folder_name(p) for p in ("/", "/a b/ü", "/home/me/my-project", "/home/you/my-project", f"/{'x' * 300}")
    ]
    assert len(set(names)) == 5
    assert names[2].startswith("me-my-project-")
    assert all(len(n) < 70 and n.isascii() for n in names)


def test_a_folder_that_is_gone_still_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setenv("PWD", str(gone))
    gone.rmdir()
    assert resolve_folder() == str(gone)
    assert resolve_folder(tmp_path / "a" / ".." / "b") == str(tmp_path.resolve() / "b")


# --- one writer ----------------------------------------------------------------------------------------------------------


async def test_a_second_opener_reads_and_is_told() -> None:
    first = Session.create(options=QUICK)
    await agent(first, "hi").run("go")
    second = Session.open(first.id, options=QUICK)
    assert not second.writable
    assert [p.kind for p in second.problems] == ["locked"]
    assert "is open in this process too: new messages are not saved" in str(second.problems[0])
    before = text_of(first)
    await agent(second, "not saved").run("more")
    second.close()
    assert text_of(first) == before
    assert texts(second.messages)[-1] == "assistant: not saved"


@pytest.mark.covers("SES-11")
async def test_a_second_opener_can_go_on_in_a_copy() -> None:
    first = Session.create(options=QUICK, title="Plan")
    await agent(first, calling("a"), "hi").run("go")
    before = text_of(first)
    second = Session.open(first.id, if_taken="fork", options=QUICK)
    assert second.id != first.id
    assert second.writable
    assert [p.kind for p in second.problems] == ["locked"]
    assert second.id in str(second.problems[0])
    await agent(second, "again").run("more")
    assert text_of(first) == before
    assert texts(second.messages) == [*texts(first.messages), "user: more", "assistant: again"]
    header = stored(second)[0]
    assert (header["forkedFrom"], header["title"]) == (first.id, "Plan")
    assert stored(second)[1:4] == stored(first)[1:4]
    second.close()
    with Session.open(second.id, options=QUICK) as again:
        assert encoded(again.messages) == encoded(second.messages)
        assert again.problems == []


# --- the tree ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["jsonl", "memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    match request.param:
        case "memory":
            return MemorySessionStore()
        case "sqlite":
            return SqliteSessionStore(tmp_path / "sessions.db")
        case _:
            return JsonlStore(tmp_path)


@pytest.mark.covers("SES-10", "SES-11")
async def test_a_branch_goes_on_from_an_earlier_entry(store: SessionStore) -> None:
    session = Session.create(home=store, options=QUICK)
    one = agent(session, "one", calling("a"), "two", "three")
    await one.run("first")
    fork_at = next(e.id for e in session.entries() if getattr(e, "source", "") == "assistant")
    await one.run("second")
    left = session.entries()[-1].id
    session.branch(fork_at, "another way")
    assert texts(one.messages) == ["user: first", "assistant: one"]
    await one.run("instead")
    assert texts(one.messages) == ["user: first", "assistant: one", "user: instead", "assistant: three"]
    session.close()
    again = Session.open(session.id, home=store, options=QUICK)
    assert encoded(again.messages) == encoded(one.messages)
    branch = next(e for e in again.entries() if isinstance(e, BranchEntry))
    assert (branch.parent, branch.label, branch.left) == (fork_at, "another way", left)
    again.branch(left)
    assert texts(again.messages)[-1] == "assistant: two"


async def test_a_branch_is_not_stored_until_something_follows() -> None:
    session = Session.create(options=QUICK)
    await agent(session, "one").run("first")
    before = text_of(session)
    session.branch(None)
    assert session.messages == ()
    assert text_of(session) == before
    session.close()  # but it is what was asked for
    assert types(session)[-1] == "branch"


async def test_a_branch_cannot_part_calls_from_their_results() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, calling("a"), "one")
    await one.run("first")
    intent = next(line["id"] for line in stored(session) if line["type"] == "intent")
    with pytest.raises(SessionError, match="between tool calls"):
        session.branch(intent)
    with pytest.raises(SessionError, match="no entry nothing"):
        session.branch("nothing")
    assert texts(session.messages)[-1] == "assistant: one"


async def test_a_branch_waits_for_the_run() -> None:
    session = Session.create(options=QUICK)
    caught: list[Exception] = []

    def answer(_request: Any) -> str:
        try:
            session.branch(None)
        except AgentBusyError as error:
            caught.append(error)
        return "hi"

    await agent(session, answer).run("go")
    assert len(caught) == 1


@pytest.mark.covers("SES-10")
async def test_names_models_and_an_applications_own_entries(store: SessionStore) -> None:
    session = Session.create(home=store, options=QUICK)
    session.label("A title")
    session.model_change("openai:gpt-5-mini", thinking="low")
    await agent(session, "hi").run("go")
    entry = session.entries()[-1].id
    session.label("here", entry)
    session.custom("mine", {"a": [1]})
    assert session.title == "A title"
    session.close()
    again = Session.open(session.id, home=store, options=QUICK)
    assert again.title == "A title"
    assert again.journal.history.model == "openai:gpt-5-mini"
    found = {type(e): e for e in again.entries()}
    assert cast("Any", found[LabelEntry]).target == entry
    assert cast("Any", found[ModelChangeEntry]).thinking == "low"
    assert cast("Any", found[CustomEntry]).data == {"a": [1]}
    assert texts(again.messages) == ["user: go", "assistant: hi"]
    assert next(iter(store.list())).title == "A title"


async def test_a_fork_has_its_own_file_before_it_is_written_to(store: SessionStore) -> None:
    session = Session.create(home=store, options=QUICK)
    await agent(session, "hi").run("go")
    fork = session.fork(title="Copy")
    assert not store.exists(fork.id)
    assert texts(fork.messages) == texts(session.messages)
    fork.save()
    assert store.exists(fork.id)
    await agent(session, "one").run("in the first")
    await agent(fork, "two").run("in the copy")
    assert texts(session.messages)[2:] == ["user: in the first", "assistant: one"]
    assert texts(fork.messages)[2:] == ["user: in the copy", "assistant: two"]


def test_a_session_of_a_newer_version_cannot_be_forked() -> None:
    session = Session.create(options=QUICK)
    asyncio.run(agent(session, "hi").run("go"))
    session.close()
    newer = text_of(session).replace('"version":1', '"version":9')
    Path(session.place).write_text(newer)
    again = Session.open(session.id, options=QUICK)
    assert [p.kind for p in again.problems] == ["newer"]
    assert len(again.messages) == 2
    with pytest.raises(SessionError, match="newer version"):
        again.fork()
    asyncio.run(agent(again, "hi").run("more"))
    again.close()
    assert text_of(again) == newer


# --- turns -------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("MSG-18")
async def test_a_stored_turn_has_id_role_blocks_usage_and_time() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, Reply("hi", usage=Usage(3, 4)))
    await one.run("go")
    session.close()
    user, assistant = Session.open(session.id, options=QUICK).turns
    assert (user.role, user.blocks, user.usage) == ("user", Message.user("go").content, None)
    assert (assistant.role, assistant.blocks, assistant.usage) == ("assistant", Message.user("hi").content, Usage(3, 4))
    assert [user.id, assistant.id] == [m.id for m in one.messages]
    assert user.id != assistant.id
    assert user.created_at == one.messages[0].timestamp
    assert user.created_at.tzinfo == UTC


@pytest.mark.covers("MSG-19")
async def test_turns_become_the_messages_they_were() -> None:
    session = Session.create(options=QUICK)
    given = [Message.user([ImageBlock("image/png", "aGk=")]), CustomMessage("note"), Message.system("mind the gap")]
    one = agent(session, calling("a", text="I look"), "done", messages=given)
    await one.run("go")
    messages = turns_to_messages(session.turns)
    assert encoded(messages)[2:] == encoded(one.messages)[3:]
    assert [m.content for m in messages] == [m.content for m in one.messages if isinstance(m, Message)]
    assert all(m.id for m in messages)


def test_a_turn_that_failed_says_so() -> None:
    turn = SessionTurn(
        id="t", role="assistant", blocks=(ToolUseBlock("a", "look"),), created_at=datetime.now(UTC),
        stop_reason="error", error="gone", provider="p", model="m",
    )  # fmt: skip
    (message,) = turns_to_messages([turn])
    assert (message.stop_reason, message.error, message.provider, message.model) == ("error", "gone", "p", "m")


# --- secrets -------------------------------------------------------------------------------------------------------------


async def test_keys_do_not_get_into_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", 'my"secret"value')
    key = "sk-ant-a1b2c3d4e5f6g7h8i9j0k1l2"
    session = Session.create(options=SessionOptions(sync="never"))
    one = agent(session, calling(key, text='it is my"secret"value'), "done")
    await one.run(f"use {key}")
    stored_text = text_of(session)
    assert key not in stored_text
    assert "secret" not in stored_text
    assert texts(one.messages)[0] == f"user: use {key}"  # only the file
    session.close()
    again = Session.open(session.id)
    assert texts(again.messages)[0] == "user: use [redacted]"
    assert json.loads(stored_text.splitlines()[2])["message"]["content"][0]["text"] == "use [redacted]"


@pytest.mark.covers("OPT-05")
async def test_a_name_given_in_the_middle_of_a_long_session_is_in_the_list(store: SessionStore) -> None:
    session = Session.create("/work", home=store, options=QUICK)
    one = agent(session, *["answer " + "x" * 30_000] * 6)
    for i in range(3):
        await one.run(f"prompt {i}")
    session.label("the name")
    for i in range(3):
        await one.run(f"more {i}")
    session.close()
    assert [info.title for info in store.list()] == ["the name"]
    again = Session.open(session.id, home=store, options=QUICK)
    await agent(again, "y" * 30_000).run("on")
    await agent(again, "short").run("again")
    again.close()
    assert [info.title for info in store.list()] == ["the name"]
    assert sum(b'"label"' in row.data for row in store.open(session.id, write=False).rows()) <= 6


async def test_a_run_in_a_session_that_was_closed_is_refused_before_the_model_is_asked(home: Path) -> None:
    with Session.create(options=QUICK) as session:
        talk = agent(session, "one", "two")
        await talk.run("first")
    for again in (talk, agent(session, "two")):
        with pytest.raises(SessionError, match=rf"session {session.id} is closed.*Session.open\('{session.id}'\)"):
            await again.run("second")
    assert texts(talk.messages) == ["user: first", "assistant: one"]
    async with talk.stream("second") as run:
        assert [event async for event in run] == []
    with pytest.raises(SessionError, match="is closed"):
        await run.result()
    with Session.open(session.id) as opened:
        assert texts(opened.messages) == ["user: first", "assistant: one"]


@pytest.mark.parametrize("store", [JsonlStore, SqliteSessionStore, MemorySessionStore])
def test_nothing_joins_a_closed_session_which_can_still_be_read(store: Any, tmp_path: Path) -> None:
    with Session.create(home=store() if store is MemorySessionStore else store(tmp_path / "store")) as session:
        asyncio.run(agent(session, "one").run("first"))
    for change in (lambda: session.label("x"), lambda: session.custom("x"), session.save, lambda: session.branch(None)):
        with pytest.raises(SessionError, match="closed"):
            change()
    assert texts(session.messages) == ["user: first", "assistant: one"]
    session.close()  # again does no harm


async def test_a_session_that_is_closed_under_a_run_says_that_the_rest_is_not_saved(home: Path) -> None:
    session = Session.create(options=QUICK)

    @tool
    async def close(key: str) -> str:
        """Close the session."""
        session.close()
        return "closed"

    await agent(session, calling("c1", tool="close"), "done", tools=[close]).run("go")
    assert [(p.kind, "is closed" in str(p)) for p in session.problems] == [("unsaved", True)]


_HOLDER = """
import asyncio, sys
from mainspring.loop import CoreAgent
from mainspring.sessions import Session
from mainspring.env.memory import MemoryEnv; from mainspring.testing.scripted_model import ScriptedModel
session = Session.create(id="held")
asyncio.run(CoreAgent(ScriptedModel("one"), env=MemoryEnv(), plugs=[session.plug()]).run("first"))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("mine", [False, True])
def test_a_session_that_another_process_holds_names_it(mine: bool, home: Path) -> None:
    command = [sys.executable, "-c", _HOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with Session.open("held", write=False) if mine else nullcontext():  # looking at it does not make it ours
            assert f"in another process (process {other.pid} on " in str(Session.open("held").problems[0])
        other.kill()


@pytest.mark.parametrize("store", [JsonlStore, SqliteSessionStore])
def test_a_session_that_is_open_twice_in_one_process_says_so(store: Any, tmp_path: Path) -> None:
    kept = store(tmp_path / "store")
    with Session.create(home=kept, options=QUICK) as first:
        asyncio.run(agent(first, "one").run("first"))
        with Session.open(first.id, home=kept) as second:
            assert "is open in this process too: new messages are not saved" in str(second.problems[0])
        with Session.open(first.id, home=kept, if_taken="fork") as third:
            assert f"is already open: continuing in a copy, {third.id}" in str(third.problems[0])
