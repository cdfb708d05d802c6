"""Sessions from the view of an application: create, find, branch, fork, and label."""

import asyncio
import json
import os
import pwd
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
from mainspring.loop import CoreAgent
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
from mainspring.run_options import RunOptions
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
from mainspring.sessions.paths import project_folder_name, resolve_session_folder
from mainspring.state_files import user_home
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool
from tests.unit.sessions.harness import (
    QUICK,
    check_paired,
    describe,
    encode_all,
    line_types,
    look,
    make_agent,
    make_calls,
    read_lines,
    read_text,
)


@pytest.mark.covers("SES-01", "SES-02", "SES-09")
def test_new_session_has_an_id_and_creates_its_file_on_the_first_message(home: Path) -> None:
    session = Session.create(options=QUICK)
    assert session.id
    assert Session.create(options=QUICK).id != session.id
    assert not any(home.rglob("*"))
    asyncio.run(make_agent(session, "hi").run("go"))
    path = Path(session.location)
    assert path == home / ".agent" / "sessions" / project_folder_name(os.path.realpath(".")) / f"{session.id}.jsonl"
    assert session.context_folder is not None
    assert session.context_folder.is_dir()
    header = read_lines(session)[0]
    assert {k: header[k] for k in ("type", "version", "id", "parent", "cwd")} == {
        "type": "session", "version": 1, "id": session.id, "parent": None, "cwd": os.path.realpath("."),
    }  # fmt: skip
    created = datetime.fromisoformat(header["timestamp"])
    assert created.tzinfo == UTC
    assert abs((datetime.now(UTC) - created).total_seconds()) < 60


def test_unused_session_creates_no_file(home: Path) -> None:
    with Session.create(title="unused") as session:
        session.label("still unused")
        session.add_custom("mine", 1)
    assert not any(home.rglob("*"))


def test_session_can_be_saved_before_its_first_message(home: Path) -> None:
    with Session.create(id="mine", title="A plan") as session:
        session.save()
    (info,) = list_sessions()
    assert (info.id, info.title, info.preview) == ("mine", "A plan", "")
    with pytest.raises(SessionError, match="already"):
        Session.create(id="mine")


@pytest.mark.covers("SES-16")
async def test_latest_session_is_found_under_every_spelling_of_its_folder(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    (tmp_path / "link").symlink_to(project)
    ids: list[str] = []
    for folder, age in ((project, 30), (project, 10), (other, 0)):
        session = Session.create(folder, options=QUICK)
        await make_agent(session, "hi").run(f"in {folder.name} {age}")
        session.close()
        os.utime(session.location, (1_700_000_000 - age, 1_700_000_000 - age))
        ids.append(session.id)
    with Session.latest(tmp_path / "link" / ".." / "project", options=QUICK) as session:
        assert session.id == ids[1]
    with Session.latest(tmp_path / "link", options=QUICK) as session:
        assert describe(session.messages)[0] == "user: in project 10"
    assert [s.id for s in list_sessions(project)] == [ids[1], ids[0]]
    assert {s.id for s in list_sessions(everywhere=True)} == set(ids)
    assert list_sessions(project)[0].preview == "in project 10"
    with Session.open(ids[0], options=QUICK) as session:  # from any working folder
        assert session.cwd == str(project)


def test_missing_session_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="No sessions in .* yet"):
        Session.latest(tmp_path)
    with pytest.raises(SessionError, match="Unknown session: nothing"):
        Session.open("nothing")


def test_invalid_session_file_is_skipped_and_reported() -> None:
    session = Session.create(options=QUICK)
    asyncio.run(make_agent(session, "hi").run("go"))
    session.close()
    Path(session.location).with_name("zzz.jsonl").write_text("hello")
    again = Session.latest(options=QUICK)
    assert again.id == session.id
    assert "not a session header" in str(again.problems[0])


@pytest.mark.covers("SES-02")
@pytest.mark.parametrize("other", ["HOME", "MAINSPRING_HOME"])
def test_user_folder_can_be_changed_by_environment_variables(other: str, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "h")} | {other: str(tmp_path / "x")}
    assert user_home(environ) == (tmp_path / "x" / ".agent" if other == "HOME" else tmp_path / "x")


def test_empty_home_is_the_home_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "")
    assert user_home({"HOME": ""}) == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".agent" != Path("/.agent")


async def test_session_without_a_home_folder_is_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAINSPRING_HOME")
    monkeypatch.setenv("HOME", "nowhere")
    session = Session.create(options=QUICK)
    assert [p.kind for p in session.problems] == ["memory"]
    await make_agent(session, "hi").run("go")
    assert describe(session.messages) == ["user: go", "assistant: hi"]
    assert list_sessions() == []


async def test_unusable_home_folder_is_reported_and_the_session_continues(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    session = Session.create(home=tmp_path / "file" / "home", options=QUICK)
    agent = make_agent(session, make_calls("a"), "hi")
    await agent.run("go")
    assert [p.kind for p in session.problems] == ["unsaved"]
    assert "continues in memory" in str(session.problems[0])
    assert len(agent.messages) == len(session.messages) == 4
    assert describe(session.messages)[2] == "user: a=value of a"
    session.close()
    assert "could not be saved" in str(session.problems[-1])


def test_project_folder_names_are_readable_and_unique(tmp_path: Path) -> None:
    names = [
        project_folder_name(p) for p in ("/", "/a b/ü", "/home/me/my-project", "/home/you/my-project", f"/{'x' * 300}")
    ]
    assert len(set(names)) == 5
    assert names[2].startswith("me-my-project-")
    assert all(len(n) < 70 and n.isascii() for n in names)


def test_deleted_working_folder_still_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted = tmp_path / "gone"
    deleted.mkdir()
    monkeypatch.chdir(deleted)
    monkeypatch.setenv("PWD", str(deleted))
    deleted.rmdir()
    assert resolve_session_folder() == str(deleted)
    assert resolve_session_folder(tmp_path / "a" / ".." / "b") == str(tmp_path.resolve() / "b")


# --- one writer ----------------------------------------------------------------------------------------------------------


async def test_session_open_elsewhere_is_read_only() -> None:
    first = Session.create(options=QUICK)
    await make_agent(first, "hi").run("go")
    second = Session.open(first.id, options=QUICK)
    assert not second.writable
    assert [p.kind for p in second.problems] == ["locked"]
    assert "is open in this process too: new messages are not saved" in str(second.problems[0])
    before = read_text(first)
    await make_agent(second, "not saved").run("more")
    second.close()
    assert read_text(first) == before
    assert describe(second.messages)[-1] == "assistant: not saved"


@pytest.mark.covers("SES-11")
async def test_session_open_elsewhere_can_be_continued_in_a_fork() -> None:
    first = Session.create(options=QUICK, title="Plan")
    await make_agent(first, make_calls("a"), "hi").run("go")
    before = read_text(first)
    second = Session.open(first.id, if_locked="fork", options=QUICK)
    assert second.id != first.id
    assert second.writable
    assert [p.kind for p in second.problems] == ["locked"]
    assert second.id in str(second.problems[0])
    await make_agent(second, "again").run("more")
    assert read_text(first) == before
    assert describe(second.messages) == [*describe(first.messages), "user: more", "assistant: again"]
    header = read_lines(second)[0]
    assert (header["forkedFrom"], header["title"]) == (first.id, "Plan")
    assert read_lines(second)[1:4] == read_lines(first)[1:4]
    second.close()
    with Session.open(second.id, options=QUICK) as again:
        assert encode_all(again.messages) == encode_all(second.messages)
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


@pytest.mark.covers("SES-10", "SES-11", "TST-03")
async def test_branch_continues_from_an_earlier_entry(store: SessionStore) -> None:
    session = Session.create(home=store, options=QUICK)
    agent = make_agent(session, "one", make_calls("a"), "two", "three")
    await agent.run("first")
    fork_at = next(e.id for e in session.entries() if getattr(e, "source", "") == "assistant")
    await agent.run("second")
    other_leaf = session.entries()[-1].id
    session.branch(fork_at, "another way")
    assert describe(agent.messages) == ["user: first", "assistant: one"]
    await agent.run("instead")
    assert describe(agent.messages) == ["user: first", "assistant: one", "user: instead", "assistant: three"]
    session.close()
    again = Session.open(session.id, home=store, options=QUICK)
    assert encode_all(again.messages) == encode_all(agent.messages)
    branch = next(e for e in again.entries() if isinstance(e, BranchEntry))
    assert (branch.parent, branch.label, branch.left) == (fork_at, "another way", other_leaf)
    again.branch(other_leaf)
    assert describe(again.messages)[-1] == "assistant: two"


async def test_branch_is_stored_with_the_next_entry() -> None:
    session = Session.create(options=QUICK)
    await make_agent(session, "one").run("first")
    before = read_text(session)
    session.branch(None)
    assert session.messages == ()
    assert read_text(session) == before
    session.close()  # close() stores the branch
    assert line_types(session)[-1] == "branch"


async def test_branch_cannot_separate_calls_from_their_results() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, make_calls("a"), "one")
    await agent.run("first")
    intent = next(line["id"] for line in read_lines(session) if line["type"] == "intent")
    with pytest.raises(SessionError, match="between tool calls"):
        session.branch(intent)
    with pytest.raises(SessionError, match="no entry nothing"):
        session.branch("nothing")
    assert describe(session.messages)[-1] == "assistant: one"


async def test_branch_is_rejected_during_a_run() -> None:
    session = Session.create(options=QUICK)
    caught: list[Exception] = []

    def answer(_request: Any) -> str:
        try:
            session.branch(None)
        except AgentBusyError as error:
            caught.append(error)
        return "hi"

    await make_agent(session, answer).run("go")
    assert len(caught) == 1


@pytest.mark.covers("OPT-09", "SES-10")
async def test_labels_models_and_custom_entries_are_stored(store: SessionStore) -> None:
    session = Session.create(home=store, options=QUICK)
    session.label("A title")
    session.record_model("openai:gpt-5-mini", thinking="low")
    await make_agent(session, "hi").run("go")
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
    assert describe(again.messages) == ["user: go", "assistant: hi"]
    assert next(iter(store.list())).title == "A title"


async def test_fork_is_saved_on_its_first_write(store: SessionStore) -> None:
    session = Session.create(home=store, options=QUICK)
    await make_agent(session, "hi").run("go")
    fork = session.fork(title="Copy")
    assert not store.exists(fork.id)
    assert describe(fork.messages) == describe(session.messages)
    fork.save()
    assert store.exists(fork.id)
    await make_agent(session, "one").run("in the first")
    await make_agent(fork, "two").run("in the copy")
    assert describe(session.messages)[2:] == ["user: in the first", "assistant: one"]
    assert describe(fork.messages)[2:] == ["user: in the copy", "assistant: two"]


def test_session_of_a_newer_version_cannot_be_forked() -> None:
    session = Session.create(options=QUICK)
    asyncio.run(make_agent(session, "hi").run("go"))
    session.close()
    newer = read_text(session).replace('"version":1', '"version":9')
    Path(session.location).write_text(newer)
    again = Session.open(session.id, options=QUICK)
    assert [p.kind for p in again.problems] == ["newer"]
    assert len(again.messages) == 2
    with pytest.raises(SessionError, match="newer version"):
        again.fork()
    asyncio.run(make_agent(again, "hi").run("more"))
    again.close()
    assert read_text(again) == newer


# --- turns -------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("MSG-18")
async def test_stored_turn_has_id_role_blocks_usage_and_time() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, Reply("hi", usage=Usage(3, 4)))
    await agent.run("go")
    session.close()
    user, assistant = Session.open(session.id, options=QUICK).turns
    assert (user.role, user.blocks, user.usage) == ("user", Message.user("go").content, None)
    assert (assistant.role, assistant.blocks, assistant.usage) == ("assistant", Message.user("hi").content, Usage(3, 4))
    assert [user.id, assistant.id] == [m.id for m in agent.messages]
    assert user.id != assistant.id
    assert user.created_at == agent.messages[0].timestamp
    assert user.created_at.tzinfo == UTC


@pytest.mark.covers("MSG-19")
async def test_turns_convert_back_to_the_same_messages() -> None:
    session = Session.create(options=QUICK)
    given = [Message.user([ImageBlock("image/png", "aGk=")]), CustomMessage("note"), Message.system("mind the gap")]
    agent = make_agent(session, make_calls("a", text="I look"), Reply("done", usage=Usage(3, 4)), messages=given)
    await agent.run("go")
    messages = turns_to_messages(session.turns)
    assert encode_all(messages)[2:] == encode_all(agent.messages)[3:]
    assert [m.content for m in messages] == [m.content for m in agent.messages if isinstance(m, Message)]
    assert all(m.id for m in messages)
    assert messages[-1].usage == Usage(3, 4)


def test_failed_turn_keeps_its_error() -> None:
    turn = SessionTurn(
        id="t", role="assistant", blocks=(ToolUseBlock("a", "look"),), created_at=datetime.now(UTC),
        stop_reason="error", error="gone", provider="p", model="m",
    )  # fmt: skip
    (message,) = turns_to_messages([turn])
    assert (message.stop_reason, message.error, message.provider, message.model) == ("error", "gone", "p", "m")


# --- secrets -------------------------------------------------------------------------------------------------------------


async def test_keys_are_redacted_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", 'my"secret"value')
    key = "sk-ant-a1b2c3d4e5f6g7h8i9j0k1l2"
    session = Session.create(options=SessionOptions(fsync="never"))
    agent = make_agent(session, make_calls(key, text='it is my"secret"value'), "done")
    await agent.run(f"use {key}")
    stored_text = read_text(session)
    assert key not in stored_text
    assert "secret" not in stored_text
    assert describe(agent.messages)[0] == f"user: use {key}"  # only the file is redacted
    session.close()
    again = Session.open(session.id)
    assert describe(again.messages)[0] == "user: use [redacted]"
    assert json.loads(stored_text.splitlines()[2])["message"]["content"][0]["text"] == "use [redacted]"


@pytest.mark.covers("OPT-05")
async def test_title_set_in_a_long_session_is_listed(store: SessionStore) -> None:
    session = Session.create("/work", home=store, options=QUICK)
    agent = make_agent(session, *["answer " + "x" * 30_000] * 6)
    for i in range(3):
        await agent.run(f"prompt {i}")
    session.label("the name")
    for i in range(3):
        await agent.run(f"more {i}")
    session.close()
    assert [info.title for info in store.list()] == ["the name"]
    again = Session.open(session.id, home=store, options=QUICK)
    await make_agent(again, "y" * 30_000).run("on")
    await make_agent(again, "short").run("again")
    again.close()
    assert [info.title for info in store.list()] == ["the name"]
    assert sum(b'"label"' in row.data for row in store.open(session.id, write=False).rows()) <= 6


async def test_run_in_a_closed_session_is_rejected_before_a_model_call(home: Path) -> None:
    with Session.create(options=QUICK) as session:
        first_agent = make_agent(session, "one", "two")
        await first_agent.run("first")
    for again in (first_agent, make_agent(session, "two")):
        with pytest.raises(SessionError, match=rf"session {session.id} is closed.*Session.open\('{session.id}'\)"):
            await again.run("second")
    assert describe(first_agent.messages) == ["user: first", "assistant: one"]
    async with first_agent.stream("second") as run:
        assert [event async for event in run] == []
    with pytest.raises(SessionError, match="is closed"):
        await run.result()
    with Session.open(session.id) as opened:
        assert describe(opened.messages) == ["user: first", "assistant: one"]


@pytest.mark.parametrize("store", [JsonlStore, SqliteSessionStore, MemorySessionStore])
def test_closed_session_is_readable_but_not_writable(store: Any, tmp_path: Path) -> None:
    with Session.create(home=store() if store is MemorySessionStore else store(tmp_path / "store")) as session:
        asyncio.run(make_agent(session, "one").run("first"))
    for change in (
        lambda: session.label("x"),
        lambda: session.add_custom("x"),
        session.save,
        lambda: session.branch(None),
    ):
        with pytest.raises(SessionError, match="closed"):
            change()
    assert describe(session.messages) == ["user: first", "assistant: one"]
    session.close()  # closing twice is allowed


async def test_closing_during_a_run_reports_unsaved_messages(home: Path) -> None:
    session = Session.create(options=QUICK)

    @tool
    async def close(key: str) -> str:
        """Close the session."""
        session.close()
        return "closed"

    await make_agent(session, make_calls("c1", tool="close"), "done", tools=[close]).run("go")
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
def test_locked_session_names_the_other_process(mine: bool, home: Path) -> None:
    command = [sys.executable, "-c", _HOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with Session.open("held", write=False) if mine else nullcontext():  # a read-only open takes no lock
            assert f"in another process (process {other.pid} on " in str(Session.open("held").problems[0])
        other.kill()


@pytest.mark.parametrize("store", [JsonlStore, SqliteSessionStore])
def test_session_opened_twice_in_one_process_is_reported(store: Any, tmp_path: Path) -> None:
    session_store = store(tmp_path / "store")
    with Session.create(home=session_store, options=QUICK) as first:
        asyncio.run(make_agent(first, "one").run("first"))
        with Session.open(first.id, home=session_store) as second:
            assert "is open in this process too: new messages are not saved" in str(second.problems[0])
        with Session.open(first.id, home=session_store, if_locked="fork") as third:
            assert f"is already open. Continuing in a copy: {third.id}." in str(third.problems[0])


def reopen(session: Session) -> Session:
    session.close()
    return Session.open(session.location, options=QUICK)


@pytest.mark.covers("SES-14", "SES-15")
async def test_run_is_stored_as_it_happens() -> None:
    session = Session.create(options=QUICK)
    result = await make_agent(session, make_calls("a", "b"), "done").run("go")

    assert line_types(session) == [
        "session", "run_start", "message", "intent", "call_started", "call_started", "result", "result", "pair", "message",
        "run_end",
    ]  # fmt: skip
    again = reopen(session)
    assert encode_all(again.messages) == encode_all(result.messages)
    check_paired(again.messages)
    assert again.problems == []


@pytest.mark.covers("SES-14")
async def test_prompt_is_stored_before_the_first_request() -> None:
    session = Session.create(options=QUICK)

    def answer(_request: Any) -> str:
        assert line_types(session) == ["session", "run_start", "message"]
        return "yes"

    await make_agent(session, answer).run("go")
    assert line_types(session)[-2:] == ["message", "run_end"]


@pytest.mark.covers("SES-15")
async def test_calls_are_stored_before_gates_and_starts_before_execution() -> None:
    session = Session.create(options=QUICK)
    seen: list[tuple[str, list[str]]] = []

    @tool
    async def act(key: str) -> str:
        """Act."""
        seen.append(("run", line_types(session)[3:]))
        return "done"

    agent = make_agent(session, make_calls("a", tool="act"), "end", tools=[act])
    agent.on(ToolGate, lambda _: seen.append(("gate", line_types(session)[3:])))
    await agent.run("go")
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
    agent = make_agent(session, script, "end")

    def gate(hook: ToolGate) -> None:
        if hook.call_id == "a":
            hook.block = "not today"

    agent.on(ToolGate, gate)
    await agent.run("go")
    entries = session.entries()
    assert [e.call for e in entries if isinstance(e, CallStartedEntry)] == ["d"]
    assert {e.call for e in entries if isinstance(e, ResultEntry)} == {"a", "b", "c", "d"}
    pair = next(e for e in entries if isinstance(e, PairEntry))
    order = {e.id: e.call for e in entries if isinstance(e, ResultEntry)}
    assert [order[ref] for ref in pair.results] == ["a", "b", "c", "d"]


async def test_result_is_stored_once() -> None:
    session = Session.create(options=QUICK)

    @tool
    async def big(key: str) -> str:
        """Return a large output."""
        return "x" * 50_000

    await make_agent(session, make_calls("a", tool="big"), "end", tools=[big]).run("go")
    assert len(read_text(session)) < 60_000
    assert "x" * 50_000 in describe(reopen(session).messages)[2]


async def test_changed_arguments_are_stored_with_the_start() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, make_calls("a"), make_calls("b"), "end")

    def change(hook: ToolBefore) -> None:
        if hook.call_id == "b":
            hook.input["key"] = "other"

    agent.on(ToolBefore, change)
    await agent.run("go")
    assert [e.input for e in session.entries() if isinstance(e, CallStartedEntry)] == [None, {"key": "other"}]


async def test_call_blocked_before_execution_has_no_start() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, make_calls("a"), "end")

    def refuse(hook: BeforeToolRun) -> None:
        hook.block = "no"

    agent.on(BeforeToolRun, refuse)
    await agent.run("go")
    assert "call_started" not in line_types(session)


@pytest.mark.covers("SES-16", "MEM-06", "SES-21")
async def test_session_is_resumed_with_and_without_a_prompt() -> None:
    session = Session.create(options=QUICK)
    with pytest.raises(AgentProviderError):
        await make_agent(session, ValueError("gone")).run("first")
    again = reopen(session)
    assert describe(again.messages) == ["user: first"]
    agent = make_agent(again, "second", "third")
    assert describe((await agent.run()).messages) == ["assistant: second"]
    await agent.run("more")
    last = reopen(again)
    assert describe(last.messages) == ["user: first", "assistant: second", "user: more", "assistant: third"]
    assert [e.status for e in last.entries() if isinstance(e, RunEndEntry)] == ["error", "completed", "completed"]
    assert not last.was_interrupted
    two = make_agent(last, "fourth")  # everything is loaded from the file
    await two.run("and?")
    assert describe(cast("Any", two.model).requests[0].messages) == [*describe(last.messages)[:-1]]


async def test_agent_has_the_session_id() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, "hi")
    await agent.run("go")
    assert agent.session_id == session.id
    assert SessionPlug(session).for_child() is None


@pytest.mark.covers("SES-17")
async def test_run_end_has_status_usage_and_entry_range() -> None:
    session = Session.create(options=QUICK)
    await make_agent(session, Reply("hi", usage=Usage(input_tokens=5, output_tokens=2))).run("go")
    end = session.entries()[-1]
    assert isinstance(end, RunEndEntry)
    messages = [line["id"] for line in read_lines(session) if line["type"] == "message"]
    assert (end.status, end.turns, end.usage.total_tokens, end.first, end.last) == (
        "completed", 1, 7, messages[0], messages[-1],
    )  # fmt: skip


@pytest.mark.covers("SES-17")
async def test_end_of_a_resumed_session_has_the_range_of_its_turns() -> None:
    session = Session.create(options=QUICK)
    await make_agent(session, "one").run("first")
    resumed = reopen(session)
    agent = make_agent(resumed, make_calls("a"), "two")
    ranges: list[Any] = []
    agent.on("session:end", lambda ctx: ranges.append(ctx.turn_range))

    result = await agent.run("second")

    [(first, last)] = ranges
    with reopen(resumed) as stored:
        turns = stored.turns
    assert [turn.id for turn in turns[first : last + 1]] == [cast("Message", m).id for m in result.messages]
    assert (first, last) == (2, len(turns) - 1)


async def test_run_without_turns_is_not_stored() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, "hi")
    await agent.run("go")
    before = line_types(session)
    result = await agent.run(behavior=RunOptions(max_turns=0))
    assert result.status == "max_turns"
    assert line_types(session) == before


@pytest.mark.covers("SES-14")
async def test_steering_and_follow_up_messages_are_stored() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, make_calls("a"), "one", "two")
    agent.on(ToolCallsReceived, lambda _: agent.steer("wait"))
    agent.follow_up("and then")
    await agent.run("go")
    sources = [line["source"] for line in read_lines(session) if line["type"] == "message"]
    assert sources == ["prompt", "steer", "assistant", "follow_up", "assistant"]
    assert encode_all(reopen(session).messages) == encode_all(agent.messages)


async def test_aborted_run_has_results_for_its_calls() -> None:
    session = Session.create(options=QUICK)

    @tool
    async def hang(key: str) -> str:
        """Hang."""
        agent.abort()
        await asyncio.sleep(60)
        return "never"

    agent = make_agent(session, make_calls("a", tool="hang"), tools=[hang])
    with pytest.raises(AgentAbortedError):
        await agent.run("go")
    again = reopen(session)
    check_paired(again.messages)
    assert encode_all(again.messages) == encode_all(agent.messages)
    assert line_types(again)[-1] == "run_end"


async def test_cancelled_run_has_results_for_its_calls() -> None:
    session = Session.create(options=QUICK)
    started = asyncio.Event()

    @tool
    async def hang(key: str) -> str:
        """Hang."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    agent = make_agent(session, make_calls("a", tool="hang"), tools=[hang])
    task = asyncio.create_task(agent.run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = reopen(session)
    check_paired(again.messages)
    assert encode_all(again.messages) == encode_all(agent.messages)


async def test_truncated_response_is_stored_with_results_for_its_calls() -> None:
    session = Session.create(options=QUICK)
    script = Reply(
        calls=[ScriptedCall("look", {"key": "a" * 50}, id="a"), ScriptedCall("look", {"key": "b" * 50}, id="b")],
        truncate_after=3,
        chunk_count=2,
    )
    agent = make_agent(session, script, behavior=RunOptions(retry=None))
    with pytest.raises(AgentProviderError):
        await agent.run("go")
    again = reopen(session)
    check_paired(again.messages)
    assert encode_all(again.messages) == encode_all(agent.messages)


# --- pauses ---------------------------------------------------------------------------------------------------------


def pause_calls(agent: CoreAgent, *ids: str) -> None:
    def permit(hook: PermissionCheck) -> None:
        if hook.call_id in ids:
            hook.pause("may I?")

    agent.on(PermissionCheck, permit)


@pytest.mark.covers("SES-15", "SES-16")
async def test_paused_calls_are_resumed_by_another_process() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, make_calls("a", "b", "c"), behavior=RunOptions(tool_execution="sequential"))
    pause_calls(agent, "b")
    result = await agent.run("go")
    assert result.status == "paused"

    again = reopen(session)
    assert again.pending is not None
    assert [c.id for c in again.pending.message.tool_uses] == ["a", "b", "c"]
    assert {i: r.text for i, r in again.pending.results.items()} == {"a": "value of a"}
    assert describe(again.messages) == ["user: go"]
    assert not again.was_interrupted
    two = make_agent(again, "done")
    await two.run()
    assert describe(two.messages) == [
        "user: go", "assistant: a? b? c?", "user: a=value of a b=value of b c=value of c", "assistant: done",
    ]  # fmt: skip
    last = reopen(again)
    assert last.pending is None
    assert encode_all(last.messages) == encode_all(two.messages)
    starts = [e.call for e in last.entries() if isinstance(e, CallStartedEntry)]
    assert starts == ["a", "b", "c"]


async def test_new_prompt_abandons_paused_calls() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, make_calls("a"))
    pause_calls(agent, "a")
    await agent.run("go")
    again = reopen(session)
    two = make_agent(again, "fine")
    await two.run("never mind")
    assert encode_all(reopen(again).messages) == encode_all(two.messages)
    check_paired(two.messages)


async def test_paused_calls_that_started_again_are_not_pending() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, make_calls("a", "b"))
    pause_calls(agent, "a")
    await agent.run("go")
    again = reopen(session)
    assert again.pending is not None
    journal = again.journal
    intent = next(iter(journal.history.open))
    journal.record(CallStartedEntry, intent=intent, call="a", tool="look", idempotent=False)
    again.save()
    last = reopen(again)
    assert last.pending is None
    assert describe(last.messages)[-1] == f"user: a={INTERRUPTED_TEXT} b={NOT_STARTED}"


async def test_run_paused_fires_once() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, make_calls("a"))
    pause_calls(agent, "a")
    pauses: list[RunPaused] = []
    agent.on(RunPaused, pauses.append)
    await agent.run("go")
    assert len(pauses) == 1
    assert line_types(session)[-2:] == ["pause", "run_end"]


# --- changed histories -------------------------------------------------------------------------------------------------


async def test_initial_history_is_stored() -> None:
    session = Session.create(options=QUICK)
    given = [
        Message.user("before"),
        Message.assistant([ToolUseBlock("x", "look", {})]),
        Message.user([ToolResultBlock("x", "look", "y")]),
        CustomMessage("note", {"a": 1}),
    ]
    agent = make_agent(session, "hi", messages=given)
    await agent.run("go")
    again = reopen(session)
    assert encode_all(again.messages) == encode_all(agent.messages)
    assert [line["source"] for line in read_lines(again) if line["type"] == "message"][:5] == [*["given"] * 4, "prompt"]


def test_history_and_a_session_with_messages_cannot_be_combined() -> None:
    session = Session.create(options=QUICK)
    asyncio.run(make_agent(session, "hi").run("go"))
    with pytest.raises(ConfigError, match="not both"):
        make_agent(reopen(session), messages=[Message.user("other")])


async def test_reset_starts_a_new_branch() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, "one", "two")
    await agent.run("first")
    agent.reset()
    await agent.run("second")
    again = reopen(session)
    assert describe(again.messages) == ["user: second", "assistant: two"]
    assert "first" in read_text(again)


async def test_edited_history_is_stored_as_a_compaction() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(session, "one", "two")
    await agent.run("first")
    agent.context.messages[:] = [Message.user("summary"), agent.context.messages[1]]
    await agent.run("second")
    again = reopen(session)
    assert describe(again.messages) == ["user: summary", "assistant: one", "user: second", "assistant: two"]
    entry = next(e for e in again.entries() if isinstance(e, CompactionEntry))
    assert entry.reason == "replaced"
    assert len(read_text(again).split('"one"')) == 2  # kept by reference


@pytest.mark.covers("SES-10", "SES-11")
async def test_compaction_is_stored_and_applied_after_loading() -> None:
    session = Session.create(options=QUICK)
    agent = make_agent(
        session, make_calls("a"), "one", ContextExceededError("too long"), "two", make_calls("b"), "three"
    )
    await agent.run("first")

    def compact(hook: ModelErrorHook) -> None:
        hook.retry([Message.user("summary"), *hook.messages[1:3], *hook.messages[-1:]])

    agent.on(ModelErrorHook, compact)
    await agent.run("second")
    await agent.run("third")
    again = reopen(session)
    assert describe(again.messages) == [
        "user: summary", "assistant: a?", "user: a=value of a", "user: second", "assistant: two",
        "user: third", "assistant: b?", "user: b=value of b", "assistant: three",
    ]  # fmt: skip
    assert encode_all(again.messages) == encode_all(agent.messages)
    assert again.problems == []
    two = make_agent(again, "four")
    await two.run("fourth")
    assert encode_all(reopen(again).messages) == encode_all(two.messages)


async def test_consecutive_agents_share_a_session() -> None:
    session = Session.create(options=QUICK)
    await make_agent(session, "one").run("first")
    two = make_agent(session, "two")
    assert describe(two.messages) == ["user: first", "assistant: one"]
    await two.run("second")
    assert len(reopen(session).messages) == 4


async def test_concurrent_sessions_do_not_mix() -> None:
    sessions = [Session.create(options=QUICK) for _ in range(50)]
    runs = [make_agent(s, make_calls(f"c{i}"), f"answer {i}").run(f"prompt {i}") for i, s in enumerate(sessions)]
    await asyncio.gather(*runs)
    for i, session in enumerate(sessions):
        assert describe(reopen(session).messages) == [
            f"user: prompt {i}", f"assistant: c{i}?", f"user: c{i}=value of c{i}", f"assistant: answer {i}",
        ]  # fmt: skip


async def test_parallel_results_are_stored_in_order_of_completion() -> None:
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

    agent = make_agent(session, make_calls("a", "b", tool="wait"), "end", tools=[wait])
    await agent.run("go")
    assert [line["call"] for line in read_lines(session) if line["type"] == "result"] == ["b", "a"]
    assert describe(reopen(session).messages)[2] == "user: a=a b=b"


@pytest.mark.parametrize("sync", ["calls", "always"])
async def test_parallel_calls_all_run_during_slow_syncs(sync: FsyncMode) -> None:
    session = Session.create(options=SessionOptions(fsync=sync))
    agent = make_agent(session, make_calls(*"abcdefgh"), "end")
    await agent.run("go")
    assert describe(agent.messages)[2] == "user: " + " ".join(f"{c}=value of {c}" for c in "abcdefgh")
    assert encode_all(reopen(session).messages) == encode_all(agent.messages)


@pytest.mark.covers("SES-19")
async def test_session_plugin_uses_only_the_event_bus() -> None:
    session = Session.create(options=QUICK)
    agent = CoreAgent(ScriptedModel("hi"), env=MemoryEnv(), tools=[look])
    assert not agent.bus.has(MessagesAdded)
    SessionPlug(session).install(agent)
    assert agent.bus.has(MessagesAdded)
    await agent.run("go")
    assert line_types(session) == ["session", "run_start", "message", "message", "run_end"]


@pytest.mark.usefixtures("no_blocking")
def test_storing_does_not_block_the_event_loop() -> None:
    session = Session.create(options=SessionOptions(fsync="always"))
    result = asyncio.run(make_agent(session, make_calls("a", "b"), "done").run("go"))
    assert result.status == "completed"
    assert session.problems == []
