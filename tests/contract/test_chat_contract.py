"""The contract with front ends: every command can be sent, every event is published, and each is one JSON object."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec
import pytest

from mainspring import events as run_events
from mainspring.app.chat import events as chat_events
from mainspring.app.chat.commands import (
    Abort,
    Answer,
    Approve,
    Attachment,
    Background,
    ChatCommand,
    Compact,
    EditQueued,
    ExecutePlan,
    Fork,
    NewSession,
    Prompt,
    Queue,
    RemoveQueued,
    Rename,
    Resume,
    Rewind,
    SendQueued,
    SetMode,
    SetModel,
    SetThinking,
    Shell,
    Shortcut,
    Slash,
    Steer,
    decode_command,
)
from mainspring.errors import ModelError, NetworkError
from mainspring.events import decode, encode, schema
from mainspring.models import ModelInfo
from mainspring.testing.scripted_model import Reply, ScriptedCall, ScriptedModel
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.unit.app.chat.harness import Reader, chatting

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A PNG image of one pixel."""

RUN_EVENTS = {
    run_events.AgentStart,
    run_events.MessageEnd,
    run_events.TextDelta,
    run_events.ThinkingDelta,
    run_events.ToolExecutionStart,
    run_events.ToolExecutionUpdate,
    run_events.ToolExecutionEnd,
    run_events.ApprovalRequest,
    run_events.ApprovalResult,
    run_events.SubagentStart,
    run_events.SubagentEvent,
    run_events.SubagentEnd,
    run_events.ModelCallRetry,
    run_events.ContextCompacted,
    run_events.Notice,
    run_events.AgentEnd,
}
"""The events of a run that a chat publishes."""

CHAT_EVENTS = set(get_args(chat_events.ChatEvent)) - set(get_args(run_events.RunEvent))

KINDS = {kind.__struct_config__.tag: kind for kind in get_args(chat_events.ChatEvent)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    return tmp_path


def write(content: str = "x") -> ScriptedCall:
    return ScriptedCall("write_file", {"path": "b.txt", "content": content})


class JsonReader(Reader):
    """Sends commands as JSON."""

    sent: ClassVar[set[type]] = set()

    async def send(self, command: ChatCommand) -> Any:
        type(self).sent.add(type(command))
        return await super().send(decode_command(msgspec.json.encode(command)))


@pytest.mark.covers("CLI-10")
async def test_chat_covers_every_command_and_every_event(folder: Path, home: Path) -> None:
    JsonReader.sent = set()
    seen: list[Any] = []
    for part in (_run_turns, _run_plan, _run_session_commands, _run_rejected_commands):
        seen += await part(folder, home)

    assert {type(event) for event in seen} == RUN_EVENTS | CHAT_EVENTS
    assert JsonReader.sent == set(get_args(ChatCommand))
    for event in seen:
        line = encode(event)
        assert json.loads(line)["type"] == event.type
        assert encode(decode(line, chat_events.ChatEvent)) == line


async def _run_turns(folder: Path, home: Path) -> list[Any]:
    gate = Gate()
    long = "word " * 30_000
    model = WaitingModel(
        Reply("I write.", thinking="hm", calls=[write()]),
        ScriptedCall("shell", {"command": "echo out"}),
        Reply(calls=[ScriptedCall("spawn", {"task": "look"})]),
        "child",
        "parent",
        "queued answer",
        ScriptedCall("ask_user", {"question": "Why?"}),
        long,
        "## Summary\n\nwords",
        gates={0: gate},
    )
    async with chatting(folder, home, model) as opened:
        chat = JsonReader(opened.chat, model)
        await chat.send(Prompt("go", (Attachment(media_type="image/png", data=PIXEL),)))
        await gate.reached_limit.wait()
        first = await chat.send(Queue("later"))
        dropped = await chat.send(Queue("never"))
        steered = await chat.send(Queue("now"))
        await chat.send(EditQueued(first.id, "a little later"))
        await chat.send(RemoveQueued(dropped.id))
        await chat.send(SendQueued(steered.id))
        await chat.send(Steer("and this"))
        gate.open.set()
        await _answer_until_finished(chat, 2)
        await chat.send(Prompt("again"))
        await _answer_until_finished(chat, 1)
        await chat.send(Compact("words"))
        await chat.until(run_events.ContextCompacted)
        await chat.send(Slash("/cost"))
        await chat.until(chat_events.CommandEnd, lambda done: done.name == "cost")
        await chat.send(Shell("echo mine"))
        await chat.until(chat_events.ShellEnd)
        await chat.send(Abort())
        return chat.seen


async def _answer_until_finished(chat: Reader, runs: int) -> None:
    """Read until the end of some runs, and answer all requests."""
    while runs:
        event = await chat.next()
        runs -= isinstance(event, run_events.AgentEnd)
        if isinstance(event, run_events.ApprovalRequest):
            await chat.send(Approve(event.id, "once"))
        if isinstance(event, chat_events.QuestionRequest):
            await chat.send(Answer(event.id, text="because"))


async def _run_plan(folder: Path, home: Path) -> list[Any]:
    model = ScriptedModel("# A plan", "done")
    async with chatting(folder, home, model) as opened:
        chat = JsonReader(opened.chat, model)
        await chat.send(SetMode("plan"))
        await chat.send(SetThinking("low"))
        await chat.until(chat_events.CommandEnd, lambda done: done.name == "set_thinking")
        await chat.run("plan")
        await chat.send(ExecutePlan())
        await chat.until(run_events.AgentEnd)
        return chat.seen


async def _run_session_commands(folder: Path, home: Path) -> list[Any]:
    model = ScriptedModel("one", "two")
    async with chatting(folder, home, model, make_model=lambda _: model) as opened:
        chat = JsonReader(opened.chat, model)
        await chat.run("first")
        session_id = chat.chat.status.session_id
        for command in (
            Rename("named"),
            Fork(),
            NewSession(),
            Resume(session_id),
            Rewind(preview=True),
            SetModel("x:y"),
        ):
            receipt = await chat.send(command)
            done = await chat.until(chat_events.CommandEnd, lambda done, id=receipt.id: done.id == id)
            assert done.error == "", (command, done)
        return chat.seen


async def _run_rejected_commands(folder: Path, home: Path) -> list[Any]:
    again = NetworkError("busy", retryable=True, retry_after=0.01)
    async with chatting(folder, home, Reply(error=again), "well") as opened:
        chat = JsonReader(opened.chat, opened.model)
        for command in (Shortcut("ctrl+k"), Background()):
            await chat.send(command)
            await chat.until(chat_events.CommandRejected)
        await chat.run("go @nowhere.txt")  # not sent
        await chat.run("go")
        return chat.seen


def test_unknown_or_incomplete_commands_are_rejected() -> None:
    assert len(KINDS) == len(get_args(chat_events.ChatEvent))
    assert "tool_execution_start" in KINDS
    for bad in (b'{"type": "nonsense"}', b'{"type": "prompt"}', b'{"type": "prompt", "text": 1}', b"[]"):
        with pytest.raises(msgspec.ValidationError):
            decode_command(bad)
    with pytest.raises(msgspec.DecodeError):
        decode_command(b"{")


def test_chat_contract_has_a_json_schema() -> None:
    commands = msgspec.json.schema_components((ChatCommand,))[1]
    events = json.loads(schema(chat_events.ChatEvent, "Events"))["$defs"]

    assert {"Prompt", "Approve"} <= set(commands)
    assert {"ToolExecutionStart", "ApprovalRequest", "QuestionRequest"} <= set(events)


def test_chat_package_does_not_print_or_use_globals() -> None:
    import mainspring.app.chat.engine as engine

    folder = Path(engine.__file__).parent
    for file in _source_files(folder):
        text = file.read_text(encoding="utf-8")
        assert "print(" not in text, file
        assert "sys.stdout" not in text, file
        assert not any(name in text for name in ("import rich", "prompt_toolkit", "global ")), file
    assert ModelInfo("m", "p").id == "m"
    assert issubclass(NetworkError, ModelError)


def _source_files(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("*.py"))


async def test_two_chats_share_no_state(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "I am one") as one, chatting(folder, home, "I am two") as two:
        first, second = await one.run("a"), await two.run("b")

    assert (first.text, second.text) == ("I am one", "I am two")
    assert one.of(chat_events.SessionChange)[0].id != two.of(chat_events.SessionChange)[0].id
