"""The event log: what it holds, what it never holds, and that it never stands in the way."""

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import NetworkError, ToolError
from mainspring.loop import RunOptions
from mainspring.loop.hooks import SessionClosed, SessionEnd, SessionStart
from mainspring.messages import Cost, Usage
from mainspring.models import RetryConfig
from mainspring.permissions import Permissions, RuleSet
from mainspring.redaction import Redactor
from mainspring.sessions import (
    LogEvent,
    MemorySessionStore,
    Session,
    SessionEventLog,
    SqliteSessionStore,
    iter_all_events,
    read_events,
)
from mainspring.sessions.event_log_file import EventLogFile
from mainspring.testing import Reply, ScriptedCall
from mainspring.tools import Access, tool
from tests.unit.sessions.harness import QUICK, agent, calling

KEY = "sk-proj-abcdefghijklmnopqrstuvwx0123456789"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.create("/work", home=tmp_path, id="s1", options=QUICK)


def talk(session: Session, *script: Any, **options: Any) -> Any:
    """An agent whose events are logged."""
    made = agent(session, *script, **options)
    SessionEventLog(session, redactor=Redactor()).install(made)
    return made


def named(session: Session, event: str) -> list[LogEvent]:
    return [e for e in read_events(session) if e.event == event]


@pytest.mark.covers("SES-03", "SES-04", "SES-05", "SES-20")
async def test_a_run_is_logged_from_its_start_to_the_end_of_the_session(session: Session, tmp_path: Path) -> None:
    usage = Usage(100, 20, cost=Cost(0.5, 0.25))
    reply = Reply("I look", calls=[ScriptedCall("look", {"key": "a"}, "c1")], usage=usage)
    await talk(session, reply, Reply("done", usage=usage)).run("secret plans")
    session.close()
    session.close()
    events = read_events("s1", home=tmp_path)
    assert [e.event for e in events] == ["run_start", "model_call", "tool_call", "model_call", "run_end", "shutdown"]
    assert {(e.session, e.project) for e in events} == {("s1", session.cwd)}
    start, model, call, _, end, shutdown = events
    assert start.run
    assert {e.run for e in events} == {start.run}
    assert (model.provider, model.model, model.turn, model.retries, model.status) == (
        "scripted",
        "scripted-1",
        1,
        0,
        "ok",
    )
    assert (model.usage, model.cost, model.reason) == (usage, 0.75, "tool_use")
    assert model.seconds is not None
    assert model.seconds >= 0
    assert (call.tool, call.call, call.args, call.status, call.error) == ("look", "c1", {"key": "a"}, "ok", "")
    assert call.seconds is not None
    assert (end.status, end.turn, end.cost) == ("completed", 2, 1.5)
    assert end.seconds is not None
    assert end.seconds >= model.seconds
    assert shutdown.reason == "exit"
    text = (tmp_path / "logs" / "s1.jsonl").read_text()
    assert "secret plans" not in text
    assert "value of a" not in text
    assert stat.S_IMODE((tmp_path / "logs" / "s1.jsonl").stat().st_mode) == 0o600
    assert list(iter_all_events(home=tmp_path)) == events


@pytest.mark.covers("SES-20")
async def test_the_shutdown_that_the_agent_tells_is_logged_once(session: Session) -> None:
    one = talk(session, "fine")
    await one.run("hi")
    await one.bus.emit(SessionClosed("s1", "reset"))
    session.close()
    assert [e.reason for e in named(session, "shutdown")] == ["reset"]


@pytest.mark.covers("SES-08")
async def test_a_session_that_goes_on_goes_on_in_its_log(session: Session, tmp_path: Path) -> None:
    await talk(session, "one").run("first")
    session.close()
    again = Session.open("s1", home=tmp_path, options=QUICK)
    await talk(again, "two").run("second")
    again.close()
    kinds = ["run_start", "model_call", "run_end", "shutdown"]
    assert [e.event for e in read_events(again)] == kinds * 2
    assert [e.reason for e in named(again, "run_start")] == ["", "resume"]


@pytest.mark.covers("SES-06", "SES-07")
async def test_errors_are_told_without_secrets_and_in_short(session: Session) -> None:
    @tool
    async def explode(why: str) -> str:
        """Fail."""
        raise ToolError(f"no: {KEY} {'x' * 1000}\nsecond line")

    script = [
        Reply(calls=[ScriptedCall("explode", {"why": f"token={KEY}", "password": "hunter2hunter2"}, "c1")]),
        NetworkError(f"refused, key {KEY}"),
    ]
    one = talk(session, *script, tools=[explode], behavior=RunOptions(retry=None))
    result = await one.run("go", raise_errors=False)
    assert result.status == "error"
    session.close()
    text = session_log(session)
    assert KEY not in text
    assert "hunter2" not in text
    assert "second line" not in text
    (call,) = named(session, "tool_call")
    assert call.status == "not_run"  # the extra argument is not one of the tool's
    (end,) = named(session, "run_end")
    assert (end.status, end.error) == ("error", "AgentProviderError: " + end.error.partition(": ")[2])
    assert "[redacted]" in end.error
    assert [e.status for e in named(session, "model_call")] == ["ok", "error"]


def session_log(session: Session) -> str:
    home = Path(session.place).parents[2]
    return (home / "logs" / f"{session.id}.jsonl").read_text()


async def test_what_a_tool_raises_is_an_error_of_its_call(session: Session) -> None:
    @tool
    async def explode() -> str:
        """Fail."""
        raise ToolError("the engine is cold")

    await talk(session, calling_nothing("explode"), "done", tools=[explode]).run("go")
    (call,) = named(session, "tool_call")
    assert (call.status, call.error) == ("error", "ToolError: the engine is cold")


def calling_nothing(name: str) -> Reply:
    return Reply(calls=[ScriptedCall(name, {}, "c1")])


async def test_tries_are_counted_and_told(session: Session) -> None:
    behavior = RunOptions(retry=RetryConfig(max_retries=2, base_delay_ms=1, max_delay_ms=1))
    await talk(session, NetworkError("lost"), NetworkError("lost again"), "done", behavior=behavior).run("go")
    assert [(e.count, "lost" in e.error) for e in named(session, "retry")] == [(1, True), (2, True)]
    (call,) = named(session, "model_call")
    assert call.retries == 2


async def test_denials_are_told_with_their_reason(session: Session) -> None:
    one = agent(session, calling("c1"), "done")
    Permissions(rules=RuleSet.build(deny=["look"]), root="/").install(one)
    SessionEventLog(session).install(one)
    await one.run("go")
    (call,) = named(session, "tool_call")
    assert call.status == "denied"
    assert "look" in call.error


@pytest.mark.covers("SES-07")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"path": ".env", "content": "DB=hunter2"}, {"path": ".env", "content": "(10 characters)"}),
        ({"path": "/root/.ssh/id_rsa", "content": "hunter2"}, {"path": "/root/.ssh/id_rsa", "content": "(7 characters)"}),
        ({"path": "notes.txt", "content": "hunter2"}, {"path": "notes.txt", "content": "hunter2"}),
        ({"path": "a", "content": "x" * 500}, {"path": "a", "content": "x" * 100 + "…"}),
    ],
)  # fmt: skip
async def test_what_goes_into_a_sensitive_file_is_not_logged(
    session: Session, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    @tool(access=lambda args: [Access("fs-write", args["path"])])
    async def put(path: str, content: str) -> str:
        """Write."""
        return f"wrote {content}"

    await talk(session, Reply(calls=[ScriptedCall("put", given, "c1")]), "done", tools=[put]).run("go")
    (call,) = named(session, "tool_call")
    assert call.args == expected


@pytest.mark.covers("SES-07")
@pytest.mark.parametrize(
    ("command", "is_shown"),
    [("echo hunter2 > .env", False), ("cat <<E >/home/me/.aws/credentials\nhunter2\nE", False), ("ls hunter2", True),
     ("echo hunter2 " + "word " * 3 + " ".join(f"w{i}" for i in range(500)), False)],
)  # fmt: skip
async def test_a_command_that_names_a_sensitive_file_is_not_logged(
    session: Session, command: str, is_shown: bool
) -> None:
    @tool(access=lambda args: [Access("shell-run", args["command"])])
    async def sh(command: str) -> str:
        """Run."""
        raise ToolError(f"printed hunter2 {len(command)}")

    await talk(session, Reply(calls=[ScriptedCall("sh", {"command": command}, "c1")]), "done", tools=[sh]).run("go")
    (call,) = named(session, "tool_call")
    assert ("hunter2" in json.dumps(call.args)) is is_shown
    assert ("hunter2" in call.error) is is_shown


async def test_a_run_that_comes_to_nothing_leaves_no_log(session: Session, tmp_path: Path) -> None:
    one = talk(session)
    await one.bus.emit(SessionStart("r", "agent", False))
    await one.bus.emit(SessionEnd("r", "aborted", 0, Usage(), None))
    session.close()
    assert read_events(session) == []
    assert not (tmp_path / "logs").exists()


@pytest.mark.usefixtures("no_blocking")
async def test_logging_does_not_block_the_event_loop(session: Session) -> None:
    one = agent(session, calling("c1", "c2"), "fine", *["fine"] * 5)
    SessionEventLog(session, limit=1000).install(one)
    for _ in range(6):
        await one.run("hi")


async def test_a_log_that_is_too_large_is_put_aside(session: Session, tmp_path: Path) -> None:
    one = agent(session, *["fine"] * 40)
    SessionEventLog(session, limit=2000).install(one)
    for i in range(40):
        await one.run(f"prompt {i}")
    sizes = {p.name: p.stat().st_size for p in (tmp_path / "logs").iterdir()}
    assert set(sizes) == {"s1.jsonl", "s1.1.jsonl"}
    assert max(sizes.values()) < 4000
    events = read_events(session)
    assert events[-1].event == "run_end"
    assert [e.time for e in events] == sorted(e.time for e in events)
    assert list(iter_all_events(home=tmp_path)) == events


class FullDisk:
    """A disk that takes so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.write = os.write

    def __call__(self, fd: int, data: bytes) -> int:
        if b'"session":"s1"' not in data:
            return self.write(fd, data)
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = self.write(fd, data[: self.room])
        self.room -= count
        return count


async def test_a_full_disk_does_not_touch_the_run(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(250)
    monkeypatch.setattr(os, "write", disk)
    one = talk(session, "one", "two")
    assert (await one.run("first")).text == "one"
    disk.room = 1 << 20
    assert (await one.run("second")).text == "two"
    session.close()
    events = read_events(session)
    assert [e.event for e in events] == ["run_start", "lost", "run_start", "model_call", "run_end", "shutdown"]
    assert events[1].count >= 2
    assert not any("cannot be saved" in str(p) for p in session.problems)


def hide(home: Path) -> None:
    (home / "logs").write_text("a file where the folder should be")


def forbid(home: Path) -> None:
    (home / "logs" / "s1.jsonl").mkdir(parents=True)


@pytest.mark.parametrize("spoil", [hide, forbid])
async def test_where_no_log_can_be_made_the_run_goes_on(
    session: Session, tmp_path: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    spoil(tmp_path)
    assert (await talk(session, calling("c1"), "fine").run("hi")).text == "fine"
    session.close()
    assert caplog.text.count("cannot log events") == 1


async def test_a_torn_line_costs_that_line(session: Session, tmp_path: Path) -> None:
    await talk(session, "one").run("first")
    session.close()
    path = tmp_path / "logs" / "s1.jsonl"
    path.write_bytes(path.read_bytes()[:-30] + b"\n\xff\xff\n{}\n" + b'{"event":"run_')
    again = Session.open("s1", home=tmp_path, options=QUICK)
    await talk(again, "two").run("second")
    assert [e.event for e in read_events(again)] == [
        "run_start",
        "model_call",
        "run_end",
        *["run_start", "model_call", "run_end"],
    ]


async def test_sessions_in_memory_have_no_log() -> None:
    session = Session.create("/work", home=MemorySessionStore(), options=QUICK)
    await talk(session, "one").run("first")
    assert read_events(session) == []
    assert SessionEventLog(session).path is None


async def test_a_log_goes_with_its_session(tmp_path: Path) -> None:
    for store, name in ((tmp_path / "files", "a"), (SqliteSessionStore(tmp_path / "base" / "s.db"), "b")):
        session = Session.create("/work", home=store, id=name, options=QUICK)
        await talk(session, "one").run("first")
        session.close()
        assert len(read_events(session)) == 4
        session.store.delete(name)
        assert read_events(session) == []


async def test_a_sub_agent_is_in_the_log_of_its_parent(session: Session) -> None:
    plug = SessionEventLog(session)
    parent = agent(session, "fine")
    plug.install(parent)
    await parent.run("hi")
    other = Session.create("/work", home=MemorySessionStore(), options=QUICK)
    child = agent(other, "found it", name="scout")
    plug.for_child().install(child)
    await child.run("look")
    assert [(e.event, e.agent) for e in read_events(session)] == [
        (event, name) for name in ("agent", "scout") for event in ("run_start", "model_call", "run_end")
    ]


async def test_lines_wait_while_the_file_is_put_aside(tmp_path: Path) -> None:
    file = EventLogFile(tmp_path / "x.jsonl", limit=10)
    for i in range(3):
        file.put(b"line %d" % i)
    await file.settle(make=True)
    settling = file.settle()
    file.put(b"meanwhile")
    await settling
    file.put(b"after")
    file.close()
    lines = [p.read_text().split("\n") for p in (tmp_path / "x.1.jsonl", tmp_path / "x.jsonl")]
    assert sum(lines, []) == ["line 0", "line 1", "line 2", "meanwhile", "", "after", ""]
    assert file.lost == 0
