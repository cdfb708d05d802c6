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

from mainspring.env.memory import MemoryEnv
from mainspring.errors import (
    AgentAbortedError,
    AgentBusyError,
    AgentProviderError,
    ConfigError,
    ContextExceededError,
    SessionError,
)
from mainspring.loop import CoreAgent, RunOptions
from mainspring.loop.hooks import (
    BeforeToolRun,
    MessagesAdded,
    ModelErrorHook,
    PermissionCheck,
    RunPaused,
    ToolBefore,
    ToolCallsReceived,
    ToolGate,
)
from mainspring.messages import CustomMessage, ImageBlock, Message, ToolResultBlock, ToolUseBlock, Usage
from mainspring.sessions import (
    BranchEntry,
    CallStartedEntry,
    CompactionEntry,
    CustomEntry,
    JsonlStore,
    LabelEntry,
    MemorySessionStore,
    ModelChangeEntry,
    PairEntry,
    ResultEntry,
    RunEndEntry,
    Session,
    SessionOptions,
    SessionPlug,
    SessionStore,
    SessionTurn,
    SqliteSessionStore,
    list_sessions,
    turns_to_messages,
)
from mainspring.sessions.history import INTERRUPTED_TEXT, NOT_STARTED
from mainspring.sessions.journal import FsyncMode
from mainspring.sessions.paths import project_folder_name, resolve_session_folder, user_home
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool
from tests.unit.sessions.harness import (
    QUICK,
    agent,
    calling,
    check_paired,
    encoded,
    look,
    stored,
    text_of,
    texts,
    types,
)


@pytest.mark.covers("SES-01", "SES-02", "SES-09")
def test_a_new_session_has_its_id_at_once_and_its_file_with_the_first_message(home: Path) -> None:
    session = Session.create(options=QUICK)
    assert session.id
    assert not any(home.rglob("*"))
    asyncio.run(agent(session, "hi").run("go"))
    path = Path(session.location)
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
        session.add_custom("mine", 1)
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
        os.utime(session.location, (1_700_000_000 - age, 1_700_000_000 - age))
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
    Path(session.location).with_name("zzz.jsonl").write_text("")
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
    assert resolve_session_folder() == str(gone)
    assert resolve_session_folder(tmp_path / "a" / ".." / "b") == str(tmp_path.resolve() / "b")


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
    second = Session.open(first.id, if_locked="fork", options=QUICK)
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
    session.record_model("openai:gpt-5-mini", thinking="low")
    await agent(session, "hi").run("go")
    entry = session.entries()[-1].id
    session.label("here", entry)
    session.add_custom("mine", {"a": [1]})
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
    Path(session.location).write_text(newer)
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
    session = Session.create(options=SessionOptions(fsync="never"))
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
    for change in (
        lambda: session.label("x"),
        lambda: session.add_custom("x"),
        session.save,
        lambda: session.branch(None),
    ):
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
        with Session.open(first.id, home=kept, if_locked="fork") as third:
            assert f"is already open: continuing in a copy, {third.id}" in str(third.problems[0])


def reopened(session: Session) -> Session:
    session.close()
    return Session.open(session.location, options=QUICK)


@pytest.mark.covers("SES-14", "SES-15")
async def test_a_run_is_stored_as_it_happens() -> None:
    session = Session.create(options=QUICK)
    result = await agent(session, calling("a", "b"), "done").run("go")

    assert types(session) == [
        "session", "run_start", "message", "intent", "call_started", "call_started", "result", "result", "pair", "message",
        "run_end",
    ]  # fmt: skip
    again = reopened(session)
    assert encoded(again.messages) == encoded(result.messages)
    check_paired(again.messages)
    assert again.problems == []


@pytest.mark.covers("SES-14")
async def test_a_prompt_is_stored_before_the_first_request() -> None:
    session = Session.create(options=QUICK)

    def answer(_request: Any) -> str:
        assert types(session) == ["session", "run_start", "message"]
        return "yes"

    await agent(session, answer).run("go")
    assert types(session)[-2:] == ["message", "run_end"]


@pytest.mark.covers("SES-15")
async def test_calls_are_stored_before_they_are_looked_at_and_their_start_before_they_run() -> None:
    session = Session.create(options=QUICK)
    seen: list[tuple[str, list[str]]] = []

    @tool
    async def act(key: str) -> str:
        """Act."""
        seen.append(("run", types(session)[3:]))
        return "done"

    one = agent(session, calling("a", tool="act"), "end", tools=[act])
    one.on(ToolGate, lambda _: seen.append(("gate", types(session)[3:])))
    await one.run("go")
    assert seen == [("gate", ["intent"]), ("run", ["intent", "call_started"])]


@pytest.mark.covers("SES-15")
async def test_calls_that_do_not_run_have_a_result_and_no_start() -> None:
    session = Session.create(options=QUICK)
    calls = [
        ScriptedCall("look", {"key": "x"}, id="a"),
        ScriptedCall("none", {}, id="b"),
        ScriptedCall("look", raw="[1]", id="c"),
    ]
    script = Reply(calls=[*calls, ScriptedCall("look", {"key": "y"}, id="d")])
    one = agent(session, script, "end")

    def gate(hook: ToolGate) -> None:
        if hook.call_id == "a":
            hook.block = "not today"

    one.on(ToolGate, gate)
    await one.run("go")
    entries = session.entries()
    assert [e.call for e in entries if isinstance(e, CallStartedEntry)] == ["d"]
    assert {e.call for e in entries if isinstance(e, ResultEntry)} == {"a", "b", "c", "d"}
    pair = next(e for e in entries if isinstance(e, PairEntry))
    order = {e.id: e.call for e in entries if isinstance(e, ResultEntry)}
    assert [order[ref] for ref in pair.results] == ["a", "b", "c", "d"]


async def test_a_result_is_stored_once() -> None:
    session = Session.create(options=QUICK)

    @tool
    async def big(key: str) -> str:
        """Give much."""
        return "x" * 50_000

    await agent(session, calling("a", tool="big"), "end", tools=[big]).run("go")
    assert len(text_of(session)) < 60_000
    assert "x" * 50_000 in texts(reopened(session).messages)[2]


async def test_arguments_that_were_changed_are_noted_with_the_start() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, calling("a"), calling("b"), "end")

    def change(hook: ToolBefore) -> None:
        if hook.call_id == "b":
            hook.input["key"] = "other"

    one.on(ToolBefore, change)
    await one.run("go")
    assert [e.input for e in session.entries() if isinstance(e, CallStartedEntry)] == [None, {"key": "other"}]


async def test_a_refusal_by_a_later_gate_leaves_no_start() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, calling("a"), "end")

    def refuse(hook: BeforeToolRun) -> None:
        hook.block = "no"

    one.on(BeforeToolRun, refuse)
    await one.run("go")
    assert "call_started" not in types(session)


@pytest.mark.covers("SES-16", "MEM-06", "SES-21")
async def test_a_session_goes_on_with_a_prompt_and_without() -> None:
    session = Session.create(options=QUICK)
    with pytest.raises(AgentProviderError):
        await agent(session, ValueError("gone")).run("first")
    again = reopened(session)
    assert texts(again.messages) == ["user: first"]
    one = agent(again, "second", "third")
    assert texts((await one.run()).messages) == ["assistant: second"]
    await one.run("more")
    last = reopened(again)
    assert texts(last.messages) == ["user: first", "assistant: second", "user: more", "assistant: third"]
    assert [e.status for e in last.entries() if isinstance(e, RunEndEntry)] == ["error", "completed", "completed"]
    assert not last.was_interrupted
    two = agent(last, "fourth")  # nothing but the file was there in between
    await two.run("and?")
    assert texts(cast("Any", two.model).requests[0].messages) == [*texts(last.messages)[:-1]]


async def test_the_agent_knows_its_session() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, "hi")
    await one.run("go")
    assert one.session_id == session.id
    assert SessionPlug(session).for_child() is None


@pytest.mark.covers("SES-17")
async def test_the_end_of_a_run_tells_status_usage_and_range() -> None:
    session = Session.create(options=QUICK)
    await agent(session, Reply("hi", usage=Usage(input_tokens=5, output_tokens=2))).run("go")
    end = session.entries()[-1]
    assert isinstance(end, RunEndEntry)
    messages = [line["id"] for line in stored(session) if line["type"] == "message"]
    assert (end.status, end.turns, end.usage.total_tokens, end.first, end.last) == (
        "completed", 1, 7, messages[0], messages[-1],
    )  # fmt: skip


async def test_a_run_that_comes_to_nothing_leaves_no_trace() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, "hi")
    await one.run("go")
    before = types(session)
    result = await one.run(behavior=RunOptions(max_turns=0))
    assert result.status == "max_turns"
    assert types(session) == before


@pytest.mark.covers("SES-14")
async def test_steering_and_follow_ups_are_stored() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, calling("a"), "one", "two")
    one.on(ToolCallsReceived, lambda _: one.steer("wait"))
    one.follow_up("and then")
    await one.run("go")
    sources = [line["source"] for line in stored(session) if line["type"] == "message"]
    assert sources == ["prompt", "steer", "assistant", "follow_up", "assistant"]
    assert encoded(reopened(session).messages) == encoded(one.messages)


async def test_an_aborted_run_has_its_results() -> None:
    session = Session.create(options=QUICK)

    @tool
    async def hang(key: str) -> str:
        """Hang."""
        one.abort()
        await asyncio.sleep(60)
        return "never"

    one = agent(session, calling("a", tool="hang"), tools=[hang])
    with pytest.raises(AgentAbortedError):
        await one.run("go")
    again = reopened(session)
    check_paired(again.messages)
    assert encoded(again.messages) == encoded(one.messages)
    assert types(again)[-1] == "run_end"


async def test_a_cancelled_run_has_its_results() -> None:
    session = Session.create(options=QUICK)
    started = asyncio.Event()

    @tool
    async def hang(key: str) -> str:
        """Hang."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    one = agent(session, calling("a", tool="hang"), tools=[hang])
    task = asyncio.create_task(one.run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = reopened(session)
    check_paired(again.messages)
    assert encoded(again.messages) == encoded(one.messages)


async def test_an_answer_that_broke_off_is_stored_with_results_for_its_calls() -> None:
    session = Session.create(options=QUICK)
    script = Reply(
        calls=[ScriptedCall("look", {"key": "a" * 50}, id="a"), ScriptedCall("look", {"key": "b" * 50}, id="b")],
        truncate_after=3,
        chunk_count=2,
    )
    one = agent(session, script, behavior=RunOptions(retry=None))
    with pytest.raises(AgentProviderError):
        await one.run("go")
    again = reopened(session)
    check_paired(again.messages)
    assert encoded(again.messages) == encoded(one.messages)


# --- pauses ---------------------------------------------------------------------------------------------------------


def pausing(one: CoreAgent, *ids: str) -> None:
    def permit(hook: PermissionCheck) -> None:
        if hook.call_id in ids:
            hook.pause("may I?")

    one.on(PermissionCheck, permit)


@pytest.mark.covers("SES-15", "SES-16")
async def test_calls_that_wait_for_an_answer_are_taken_up_by_another_process() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, calling("a", "b", "c"), behavior=RunOptions(tool_execution="sequential"))
    pausing(one, "b")
    result = await one.run("go")
    assert result.status == "paused"

    again = reopened(session)
    assert again.pending is not None
    assert [c.id for c in again.pending.message.tool_uses] == ["a", "b", "c"]
    assert {i: r.text for i, r in again.pending.results.items()} == {"a": "value of a"}
    assert texts(again.messages) == ["user: go"]
    assert not again.was_interrupted
    two = agent(again, "done")
    await two.run()
    assert texts(two.messages) == [
        "user: go", "assistant: a? b? c?", "user: a=value of a b=value of b c=value of c", "assistant: done",
    ]  # fmt: skip
    last = reopened(again)
    assert last.pending is None
    assert encoded(last.messages) == encoded(two.messages)
    starts = [e.call for e in last.entries() if isinstance(e, CallStartedEntry)]
    assert starts == ["a", "b", "c"]


async def test_a_new_prompt_leaves_paused_calls_undone() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, calling("a"))
    pausing(one, "a")
    await one.run("go")
    again = reopened(session)
    two = agent(again, "fine")
    await two.run("never mind")
    assert encoded(reopened(again).messages) == encoded(two.messages)
    check_paired(two.messages)


async def test_paused_calls_that_were_taken_up_and_killed_are_not_pending_any_more() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, calling("a", "b"))
    pausing(one, "a")
    await one.run("go")
    again = reopened(session)
    assert again.pending is not None
    journal = again.journal
    intent = next(iter(journal.history.open))
    journal.record(CallStartedEntry, intent=intent, call="a", tool="look", idempotent=False)
    again.save()
    last = reopened(again)
    assert last.pending is None
    assert texts(last.messages)[-1] == f"user: a={INTERRUPTED_TEXT} b={NOT_STARTED}"


async def test_a_pause_is_told_to_nobody_else() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, calling("a"))
    pausing(one, "a")
    told: list[RunPaused] = []
    one.on(RunPaused, told.append)
    await one.run("go")
    assert len(told) == 1
    assert types(session)[-2:] == ["pause", "run_end"]


# --- a history that was changed ----------------------------------------------------------------------------------------


async def test_a_history_the_agent_was_given_is_stored_too() -> None:
    session = Session.create(options=QUICK)
    given = [
        Message.user("before"),
        Message.assistant([ToolUseBlock("x", "look", {})]),
        Message.user([ToolResultBlock("x", "look", "y")]),
        CustomMessage("note", {"a": 1}),
    ]
    one = agent(session, "hi", messages=given)
    await one.run("go")
    again = reopened(session)
    assert encoded(again.messages) == encoded(one.messages)
    assert [line["source"] for line in stored(again) if line["type"] == "message"][:5] == [*["given"] * 4, "prompt"]


def test_a_history_and_a_session_that_has_one_do_not_go_together() -> None:
    session = Session.create(options=QUICK)
    asyncio.run(agent(session, "hi").run("go"))
    with pytest.raises(ConfigError, match="not both"):
        agent(reopened(session), messages=[Message.user("other")])


async def test_a_reset_starts_a_new_branch() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, "one", "two")
    await one.run("first")
    one.reset()
    await one.run("second")
    again = reopened(session)
    assert texts(again.messages) == ["user: second", "assistant: two"]
    assert "first" in text_of(again)


async def test_a_history_that_was_edited_is_stored_as_it_is() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, "one", "two")
    await one.run("first")
    one.context.messages[:] = [Message.user("summary"), one.context.messages[1]]
    await one.run("second")
    again = reopened(session)
    assert texts(again.messages) == ["user: summary", "assistant: one", "user: second", "assistant: two"]
    entry = next(e for e in again.entries() if isinstance(e, CompactionEntry))
    assert entry.reason == "replaced"
    assert len(text_of(again).split('"one"')) == 2  # kept by reference


@pytest.mark.covers("SES-10", "SES-11")
async def test_a_compaction_is_an_entry_and_holds_after_loading() -> None:
    session = Session.create(options=QUICK)
    one = agent(session, calling("a"), "one", ContextExceededError("too long"), "two", calling("b"), "three")
    await one.run("first")

    def compact(hook: ModelErrorHook) -> None:
        hook.retry([Message.user("summary"), *hook.messages[1:3], *hook.messages[-1:]])

    one.on(ModelErrorHook, compact)
    await one.run("second")
    await one.run("third")
    again = reopened(session)
    assert texts(again.messages) == [
        "user: summary", "assistant: a?", "user: a=value of a", "user: second", "assistant: two",
        "user: third", "assistant: b?", "user: b=value of b", "assistant: three",
    ]  # fmt: skip
    assert encoded(again.messages) == encoded(one.messages)
    assert again.problems == []
    two = agent(again, "four")
    await two.run("fourth")
    assert encoded(reopened(again).messages) == encoded(two.messages)


async def test_two_agents_one_after_the_other_share_a_session() -> None:
    session = Session.create(options=QUICK)
    await agent(session, "one").run("first")
    two = agent(session, "two")
    assert texts(two.messages) == ["user: first", "assistant: one"]
    await two.run("second")
    assert len(reopened(session).messages) == 4


async def test_fifty_sessions_at_once_do_not_mix() -> None:
    sessions = [Session.create(options=QUICK) for _ in range(50)]
    runs = [agent(s, calling(f"c{i}"), f"answer {i}").run(f"prompt {i}") for i, s in enumerate(sessions)]
    await asyncio.gather(*runs)
    for i, session in enumerate(sessions):
        assert texts(reopened(session).messages) == [
            f"user: prompt {i}", f"assistant: c{i}?", f"user: c{i}=value of c{i}", f"assistant: answer {i}",
        ]  # fmt: skip


async def test_parallel_results_are_stored_as_they_come() -> None:
    session = Session.create(options=QUICK)
    fast = asyncio.Event()

    @tool
    async def wait(key: str) -> str:
        """Wait."""
        if key == "a":
            await fast.wait()
        else:
            asyncio.get_running_loop().call_soon(fast.set)
        return key

    one = agent(session, calling("a", "b", tool="wait"), "end", tools=[wait])
    await one.run("go")
    assert [line["call"] for line in stored(session) if line["type"] == "result"] == ["b", "a"]
    assert texts(reopened(session).messages)[2] == "user: a=a b=b"


@pytest.mark.parametrize("sync", ["calls", "always"])
async def test_parallel_calls_all_run_while_the_disk_is_waited_for(sync: FsyncMode) -> None:
    session = Session.create(options=SessionOptions(fsync=sync))
    one = agent(session, calling(*"abcdefgh"), "end")
    await one.run("go")
    assert texts(one.messages)[2] == "user: " + " ".join(f"{c}=value of {c}" for c in "abcdefgh")
    assert encoded(reopened(session).messages) == encoded(one.messages)


@pytest.mark.covers("SES-19")
async def test_only_the_public_bus_is_used() -> None:
    session = Session.create(options=QUICK)
    one = CoreAgent(ScriptedModel("hi"), env=MemoryEnv(), tools=[look])
    assert not one.bus.has(MessagesAdded)
    SessionPlug(session).install(one)
    assert one.bus.has(MessagesAdded)
    await one.run("go")
    assert types(session) == ["session", "run_start", "message", "message", "run_end"]


@pytest.mark.usefixtures("no_blocking")
def test_nothing_blocks_the_event_loop() -> None:
    session = Session.create(options=SessionOptions(fsync="always"))
    result = asyncio.run(agent(session, calling("a", "b"), "done").run("go"))
    assert result.status == "completed"
    assert session.problems == []
