"""The event log: its contents, redaction, rotation, and errors."""

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mainspring.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.errors import NetworkError, ToolError
from mainspring.events import AgentEnd, AgentStart, MessageEnd, ToolExecutionEnd, UsageUpdate, encode
from mainspring.loop.hooks import BeforeToolRun, SessionClosed
from mainspring.messages import Cost, ToolResultBlock, ToolUseBlock, Usage
from mainspring.models import RetryConfig
from mainspring.permissions import Permissions, RuleSet
from mainspring.redaction import Redactor
from mainspring.run_options import RunOptions
from mainspring.sessions import (
    LogLine,
    MemorySessionStore,
    Session,
    SessionEventLog,
    SqliteSessionStore,
    iter_all_events,
    read_events,
)
from mainspring.sessions.event_log import EventLogFile, redact_call_arguments
from mainspring.sessions.log_lines import SessionShutdown
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import Access, ToolErrorCode, ToolResult, tool
from mainspring.tools.builtin import read_file
from mainspring.tools.response import ErrorResponse, error_response
from tests.unit.sessions.harness import QUICK, make_agent, make_calls

KEY = "sk-proj-abcdefghijklmnopqrstuvwx0123456789"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.create("/work", home=tmp_path, id="s1", options=QUICK)


def make_logged_agent(session: Session, *script: Any, **options: Any) -> Any:
    """Create an agent with an event log."""
    agent = make_agent(session, *script, **options)
    SessionEventLog(session, redactor=Redactor()).install(agent)
    return agent


def read_named(session: Session, kind: str) -> list[Any]:
    return [line.event for line in read_events(session) if line.event.type == kind]


def read_types(session: Session) -> list[str]:
    return [line.event.type for line in read_events(session)]


@pytest.mark.covers("SES-03", "SES-04", "SES-05", "SES-20")
async def test_run_is_logged_from_start_to_shutdown(session: Session, tmp_path: Path) -> None:
    usage = Usage(100, 20, cost=Cost(0.5, 0.25))
    reply = Reply("I look", calls=[ScriptedCall("look", {"key": "a"}, "c1")], usage=usage)
    await make_logged_agent(session, reply, Reply("done", usage=usage)).run("secret plans")
    session.close()
    session.close()
    lines = read_events("s1", home=tmp_path)
    start, model, call, _, end, shutdown = (line.event for line in lines)
    assert [type(line.event) for line in lines] == [
        *[AgentStart, MessageEnd, ToolExecutionEnd, MessageEnd, AgentEnd, SessionShutdown]
    ]
    assert [line.seq for line in lines] == [1, 2, 3, 4, 5, 6]
    assert isinstance(start, AgentStart)
    assert (start.session_id, start.cwd, start.agent, start.version) == ("s1", session.cwd, "agent", 2)
    assert {(line.session_id, line.run_id) for line in lines} == {("s1", start.run_id)}
    assert isinstance(model, MessageEnd)
    message: Any = model.message
    assert (message.provider, message.model, message.stop_reason) == ("scripted", "scripted-1", "tool_use")
    assert (message.usage, message.content, model.error) == (usage, (), None)
    assert model.seconds > 0
    assert isinstance(call, ToolExecutionEnd)
    assert (call.call, call.status) == (ToolUseBlock("c1", "look", {"key": "a"}), "ok")
    assert call.seconds > 0
    assert call.result == ToolResultBlock("c1", "look")
    assert isinstance(end, AgentEnd)
    assert (end.status, end.stats.turns, end.messages, end.text) == ("completed", 2, (), "")
    assert end.stats.usage.cost is not None
    assert end.stats.usage.cost.total == 1.5
    assert end.stats.seconds >= model.seconds + call.seconds
    assert isinstance(shutdown, SessionShutdown)
    assert shutdown.reason == "exit"
    text = (tmp_path / "logs" / "s1.jsonl").read_text()
    assert "secret plans" not in text
    assert "value of a" not in text
    assert stat.S_IMODE((tmp_path / "logs" / "s1.jsonl").stat().st_mode) == 0o600
    assert encode_all(iter_all_events(home=tmp_path)) == encode_all(lines)


def encode_all(lines: Iterable[LogLine]) -> list[bytes]:
    return [encode(line) for line in lines]


@pytest.mark.covers("SES-20")
async def test_shutdown_of_the_agent_is_logged_once(session: Session) -> None:
    agent = make_logged_agent(session, "fine")
    await agent.run("hi")
    await agent.bus.emit(SessionClosed("s1", "reset"))
    session.close()
    assert [e.reason for e in read_named(session, "session_shutdown")] == ["reset"]


@pytest.mark.covers("SES-08")
async def test_resumed_session_appends_to_its_log(session: Session, tmp_path: Path) -> None:
    await make_logged_agent(session, "one").run("first")
    session.close()
    again = Session.open("s1", home=tmp_path, options=QUICK)
    await make_logged_agent(again, "two").run("second")
    again.close()
    assert read_types(again) == ["agent_start", "message_end", "agent_end", "session_shutdown"] * 2
    assert [bool(e.resumed) for e in read_named(again, "agent_start")] == [False, True]


@pytest.mark.covers("SES-06", "SES-07")
async def test_errors_are_logged_redacted_and_shortened(session: Session) -> None:
    @tool
    async def explode(why: str) -> str:
        """Fail."""
        raise ToolError(f"no: {KEY} {'x' * 1000}\nsecond line")

    script = [
        Reply(calls=[ScriptedCall("explode", {"why": f"token={KEY}", "password": "hunter2hunter2"}, "c1")]),
        Reply(calls=[ScriptedCall("explode", {"why": "x"}, "c2")]),
        NetworkError(f"refused, key {KEY}\nsecond line"),
    ]
    agent = make_logged_agent(session, *script, tools=[explode], behavior=RunOptions(retry=None))
    result = await agent.run("go", raise_errors=False)
    assert result.status == "error"
    session.close()
    text = read_log_text(session)
    assert KEY not in text
    assert "hunter2" not in text
    assert "second line" not in text
    rejected, raised = read_named(session, "tool_execution_end")
    assert (rejected.status, raised.status) == ("error", "error")
    assert rejected.result.content.startswith("Validation error")  # the tool has no such argument
    assert raised.result.content.startswith("ToolError: no: [redacted]")
    assert len(raised.result.content) <= 301
    (end,) = read_named(session, "agent_end")
    assert (end.status, end.error.type) == ("error", "NetworkError")
    assert "[redacted]" in end.error.message
    assert [bool(e.error) for e in read_named(session, "message_end")] == [False, False, True]


def read_log_text(session: Session) -> str:
    home = Path(session.location).parents[2]
    return (home / "logs" / f"{session.id}.jsonl").read_text()


async def test_tool_exception_is_logged_as_the_error_of_its_call(session: Session) -> None:
    @tool
    async def explode() -> str:
        """Fail."""
        raise ToolError("the engine is cold")

    await make_logged_agent(session, call_without_arguments("explode"), "done", tools=[explode]).run("go")
    (call,) = read_named(session, "tool_execution_end")
    assert (call.status, call.result.content) == ("error", "ToolError: the engine is cold")


async def test_error_that_a_tool_returns_is_logged_with_code_and_message(session: Session) -> None:
    @tool
    async def explode() -> ErrorResponse:
        """Fail."""
        return error_response(
            "NOT_FOUND", "No engine with the key sk-proj-0123456789abcdef0123456789abcdef\nsecond line"
        )

    await make_logged_agent(session, call_without_arguments("explode"), "done", tools=[explode]).run("go")
    (call,) = read_named(session, "tool_execution_end")
    assert (call.status, call.result.details) == ("error", {"code": "NOT_FOUND"})
    assert call.result.content == "No engine with the key [redacted]"


async def test_output_of_a_failed_call_is_not_logged(session: Session) -> None:
    @tool
    async def explode() -> ToolResult:
        """Fail."""
        return ToolResult(output="hunter2", is_error=True, title="hunter2", code=ToolErrorCode.TIMEOUT)

    await make_logged_agent(session, call_without_arguments("explode"), "done", tools=[explode]).run("go")
    (call,) = read_named(session, "tool_execution_end")
    assert (call.status, call.result.details, call.result.content) == ("error", {"code": "TIMEOUT"}, "")
    assert "hunter2" not in read_log_text(session)


async def test_duration_of_a_session_is_logged(session: Session) -> None:
    times = iter(datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC) for second in range(60))
    log = SessionEventLog(session, clock=lambda: next(times))
    await Agent(ScriptedModel("done"), session=session, execution=MemoryEnv({}), plugs=[log]).run("go")
    session.close()
    lines = read_events(session)
    opened, closed = lines[0], lines[-1]
    assert isinstance(closed.event, SessionShutdown)
    assert closed.event.seconds > 0
    assert closed.event.seconds == (closed.time - opened.time).total_seconds()


async def test_error_that_a_tool_returns_without_a_code_is_not_logged(session: Session) -> None:
    @tool
    async def explode() -> ToolResult:
        """Fail."""
        return ToolResult(output="hunter2 is wrong", is_error=True, title="hunter2", metadata={"given": "hunter2"})

    await make_logged_agent(session, call_without_arguments("explode"), "done", tools=[explode]).run("go")
    (call,) = read_named(session, "tool_execution_end")
    assert (call.status, call.result.content) == ("error", "")
    assert "hunter2" not in read_log_text(session)


def call_without_arguments(name: str) -> Reply:
    return Reply(calls=[ScriptedCall(name, {}, "c1")])


async def test_retries_are_counted_and_logged(session: Session) -> None:
    behavior = RunOptions(retry=RetryConfig(max_retries=2, base_delay_seconds=0.001, max_delay_seconds=0.001))
    await make_logged_agent(session, NetworkError("lost"), NetworkError("lost again"), "done", behavior=behavior).run(
        "go"
    )
    assert [(e.attempt, "lost" in e.error.message) for e in read_named(session, "model_retry")] == [
        (1, True),
        (2, True),
    ]
    assert len(read_named(session, "message_end")) == 1


async def test_denials_are_logged_with_their_reason(session: Session) -> None:
    agent = make_agent(session, make_calls("c1"), "done")
    Permissions(rules=RuleSet.build(deny=["look"]), root="/").install(agent)
    SessionEventLog(session).install(agent)
    await agent.run("go")
    (call,) = read_named(session, "tool_execution_end")
    assert call.status == "denied"
    assert "look" in call.result.content


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
async def test_content_for_a_sensitive_file_is_not_logged(
    session: Session, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    @tool(access=lambda args: [Access("fs-write", args["path"])])
    async def put(path: str, content: str) -> str:
        """Write."""
        return f"wrote {content}"

    await make_logged_agent(session, Reply(calls=[ScriptedCall("put", given, "c1")]), "done", tools=[put]).run("go")
    (call,) = read_named(session, "tool_execution_end")
    assert call.call.input == expected


@pytest.mark.covers("SES-07")
@pytest.mark.parametrize(
    ("command", "is_logged"),
    [("echo hunter2 > .env", False), ("cat <<E >/home/me/.aws/credentials\nhunter2\nE", False), ("ls hunter2", True),
     ("echo hunter2 " + "word " * 3 + " ".join(f"w{i}" for i in range(500)), False)],
)  # fmt: skip
async def test_command_with_a_sensitive_file_is_not_logged(session: Session, command: str, is_logged: bool) -> None:
    @tool(access=lambda args: [Access("shell-run", args["command"])])
    async def sh(command: str) -> str:
        """Run."""
        raise ToolError(f"printed hunter2 {len(command)}")

    await make_logged_agent(
        session, Reply(calls=[ScriptedCall("sh", {"command": command}, "c1")]), "done", tools=[sh]
    ).run("go")
    (call,) = read_named(session, "tool_execution_end")
    assert ("hunter2" in json.dumps(call.call.input)) is is_logged
    assert ("hunter2" in call.result.content) is is_logged


async def test_run_without_turns_leaves_no_log(session: Session, tmp_path: Path) -> None:
    agent = make_logged_agent(session)
    await agent.bus.notify(AgentStart("r", "agent"))
    await agent.bus.notify(AgentEnd("r", (), "aborted"))
    session.close()
    assert read_events(session) == []
    assert not (tmp_path / "logs").exists()


@pytest.mark.usefixtures("no_blocking")
async def test_logging_does_not_block_the_event_loop(session: Session) -> None:
    agent = make_agent(session, make_calls("c1", "c2"), "fine", *["fine"] * 5)
    SessionEventLog(session, limit=1000).install(agent)
    for _ in range(6):
        await agent.run("hi")


async def test_large_log_is_rotated(session: Session, tmp_path: Path) -> None:
    agent = make_agent(session, *["fine"] * 40)
    SessionEventLog(session, limit=2000).install(agent)
    for i in range(40):
        await agent.run(f"prompt {i}")
    sizes = {p.name: p.stat().st_size for p in (tmp_path / "logs").iterdir()}
    assert set(sizes) == {"s1.jsonl", "s1.1.jsonl"}
    assert max(sizes.values()) < 4000
    lines = read_events(session)
    assert isinstance(lines[-1].event, AgentEnd)
    assert [line.seq for line in lines] == [*range(lines[0].seq, 121)]
    assert encode_all(iter_all_events(home=tmp_path)) == encode_all(lines)


class FullDisk:
    """A disk with a limited number of free bytes."""

    def __init__(self, free_bytes: int) -> None:
        self.free_bytes = free_bytes
        self.write = os.write

    def __call__(self, fd: int, data: bytes) -> int:
        if b'"session_id":"s1"' not in data:
            return self.write(fd, data)
        if not self.free_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = self.write(fd, data[: self.free_bytes])
        self.free_bytes -= count
        return count


async def test_full_disk_does_not_affect_the_run(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(300)
    monkeypatch.setattr(os, "write", disk)
    agent = make_logged_agent(session, "one", "two")
    assert (await agent.run("first")).text == "one"
    disk.free_bytes = 1 << 20
    assert (await agent.run("second")).text == "two"
    session.close()
    kinds = ["agent_start", "agent_start", "message_end", "agent_end", "session_shutdown"]
    assert read_types(session) == kinds
    assert [line.seq for line in read_events(session)] == [1, 4, 5, 6, 7]
    assert not any("cannot be saved" in str(p) for p in session.problems)


def block_log_folder(home: Path) -> None:
    (home / "logs").write_text("a file where the folder should be")


def block_log_file(home: Path) -> None:
    (home / "logs" / "s1.jsonl").mkdir(parents=True)


@pytest.mark.parametrize("block_log", [block_log_folder, block_log_file])
async def test_run_continues_if_no_log_can_be_created(
    session: Session, tmp_path: Path, block_log: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    block_log(tmp_path)
    assert (await make_logged_agent(session, make_calls("c1"), "fine").run("hi")).text == "fine"
    session.close()
    assert caplog.text.count("cannot log events") == 1


async def test_incomplete_line_is_skipped(session: Session, tmp_path: Path) -> None:
    await make_logged_agent(session, "one").run("first")
    session.close()
    path = tmp_path / "logs" / "s1.jsonl"
    path.write_bytes(path.read_bytes()[:-30] + b"\n\xff\xff\n{}\n" + b'{"seq":1,"event":{"type":"run_')
    again = Session.open("s1", home=tmp_path, options=QUICK)
    await make_logged_agent(again, "two").run("second")
    assert read_types(again) == ["agent_start", "message_end", "agent_end"] * 2


async def test_in_memory_session_has_no_log() -> None:
    session = Session.create("/work", home=MemorySessionStore(), options=QUICK)
    await make_logged_agent(session, "one").run("first")
    assert read_events(session) == []
    assert SessionEventLog(session).path is None


async def test_log_is_deleted_with_its_session(tmp_path: Path) -> None:
    for store, name in ((tmp_path / "files", "a"), (SqliteSessionStore(tmp_path / "base" / "s.db"), "b")):
        session = Session.create("/work", home=store, id=name, options=QUICK)
        await make_logged_agent(session, "one").run("first")
        session.close()
        assert len(read_events(session)) == 4
        session.store.delete(name)
        assert read_events(session) == []


async def test_subagent_events_are_in_the_log_of_its_parent(session: Session) -> None:
    plug = SessionEventLog(session)
    parent = make_agent(session, "fine")
    plug.install(parent)
    await parent.run("hi")
    other = Session.create("/work", home=MemorySessionStore(), options=QUICK)
    child = make_agent(other, "found it", name="scout")
    plug.for_child().install(child)
    await child.run("look")
    lines = read_events(session)
    assert [line.event.type for line in lines] == ["agent_start", "message_end", "agent_end"] * 2
    assert [e.agent for e in read_named(session, "agent_start")] == ["agent", "scout"]
    assert [line.seq for line in lines] == [1, 2, 3, 4, 5, 6]
    assert len({line.run_id for line in lines[3:]} | {lines[0].run_id}) == 2


async def test_lines_are_buffered_during_rotation(tmp_path: Path) -> None:
    file = EventLogFile(tmp_path / "x.jsonl", limit=10)
    for i in range(3):
        file.append(b"line %d" % i)
    await file.rotate(make=True)
    settling = file.rotate()
    file.append(b"meanwhile")
    await settling
    file.append(b"after")
    file.close()
    lines = [p.read_text().split("\n") for p in (tmp_path / "x.1.jsonl", tmp_path / "x.jsonl")]
    assert sum(lines, []) == ["line 0", "line 1", "line 2", "meanwhile", "", "after", ""]


async def test_lines_for_a_slow_disk_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.sessions.event_log._MAX_QUEUED", 2)
    file = EventLogFile(tmp_path / "x.jsonl")
    for line in (b"1", b"2", b"3"):
        file.append(line)
    await file.rotate(make=True)
    file.close()
    assert (tmp_path / "x.jsonl").read_bytes() == b"1\n2\n"


async def test_pauses_and_side_calls_are_logged(session: Session) -> None:
    usage = Usage(10, 2)
    agent = make_logged_agent(session, make_calls("a"))
    Permissions(ask=["look"], unattended="pause").install(agent)
    await agent.run("go")
    await agent.bus.notify(UsageUpdate(1, usage, usage, purpose="compaction"))
    assert [e.status for e in read_named(session, "agent_end")] == ["paused"]
    assert [(e.purpose, e.usage) for e in read_named(session, "usage_update")] == [("compaction", usage)]


async def test_call_that_a_handler_blocks_at_its_start_is_logged_as_skipped(session: Session) -> None:
    agent = make_logged_agent(session, make_calls("a"), "done")

    def block(hook: BeforeToolRun) -> None:
        hook.block = "not now"

    agent.on(BeforeToolRun, block, order=-1000)
    await agent.run("go")
    assert [e.status for e in read_named(session, "tool_execution_end")] == ["skipped"]


def test_store_in_memory_has_no_events() -> None:
    assert list(iter_all_events(home=MemorySessionStore())) == []


def test_arguments_of_a_tool_that_cannot_declare_its_access_are_not_logged() -> None:
    def access(arguments: dict[str, Any]) -> tuple[Access, ...]:
        raise KeyError("path")

    look = structs.replace(read_file, access=access)
    assert redact_call_arguments(look, {"key": KEY}, "/work") == ({"key": f"({len(KEY)} characters)"}, True)
