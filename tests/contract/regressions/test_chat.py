"""Known problems of terminal agents that concern the chat engine and that no other test covers."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from mainspring.app.chat import parse_line
from mainspring.app.chat.commands import Abort, Approve, Attachment, Prompt, Queue, Shell
from mainspring.app.chat.events import QueueChange, ShellEnd
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    MessageEnd,
    Notice,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.requires import on_posix
from tests.unit.app.chat.harness import chatting


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    return tmp_path


def write(path: str = "b.txt") -> ScriptedCall:
    return ScriptedCall("write_file", {"path": path, "content": "x"}, id=path)


@pytest.mark.parametrize(
    "state", ["waiting for the model", "a tool runs", "a question waits", "nothing goes on", "a command"]
)
async def test_t07_abort_works_in_every_state(state: str, folder: Path, home: Path) -> None:
    """T-07: an abort ends the step, and the conversation continues normally."""
    gate = Gate()
    sleeping = ScriptedCall("shell", {"command": "echo started; sleep 60"})
    script = {"a tool runs": sleeping, "a question waits": write()}.get(state, "never")
    gates = {0: gate} if state == "waiting for the model" else {}
    async with chatting(folder, home, WaitingModel(script, "well", "well", gates=gates)) as chat:
        if state == "a command":
            await chat.send(Shell("sleep 60"))
        elif state != "nothing goes on":
            await chat.send(Prompt("go"))
        if state == "waiting for the model":
            await gate.reached_limit.wait()
            gate.open.set()
        elif state == "a question waits":
            await chat.until(ApprovalRequest)
        elif state == "a tool runs":
            await chat.until(ToolExecutionUpdate, lambda event: "started" in event.output)
        await chat.send(Abort())
        if state == "a command":
            await chat.until(ShellEnd)
        elif state != "nothing goes on":
            assert (await chat.until(AgentEnd)).status in ("aborted", "completed")
        end = await chat.run("and now?")

    assert end.status == "completed"
    assert {t.call.id for t in chat.of(ToolExecutionStart)} == {t.call.id for t in chat.of(ToolExecutionEnd)}


async def test_t10_pasted_text_is_sent_in_full(folder: Path, home: Path) -> None:
    """T-10: the model gets the full text of a paste placeholder, also from the queue."""
    gate = Gate()
    model = WaitingModel("one", "two", gates={0: gate})
    paste = "".join(f"line {i}\n" for i in range(5000))
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(Queue("see [paste #1]", (Attachment(media_type="text/plain", text=paste, name="paste #1"),)))
        gate.open.set()
        await chat.until(AgentEnd)
        await chat.until(AgentEnd)

    assert "line 4999" in model.requests[1].messages[-1].text


async def test_t16_paths_and_percent_signs_are_not_commands() -> None:
    """T-16: the typed text is sent unchanged."""
    for line in ("/home/me/file is odd", "//comment", "/ x", "100% sure", "./run"):
        assert parse_line(line) == Prompt(line)


async def test_t20_queue_survives_a_failure(folder: Path, home: Path) -> None:
    """T-20: the queue is shown, editable, and not lost."""
    gate = Gate()
    async with chatting(folder, home, WaitingModel(ValueError("odd"), "said", gates={0: gate})) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(Queue("after the failure"))
        gate.open.set()
        failed = await chat.until(AgentEnd)
        queue = chat.of(QueueChange)[-1]

    assert failed.status == "error"
    assert queue.held
    assert [q.text for q in queue.items] == ["after the failure"]


async def test_p19_session_approval_covers_a_batch(folder: Path, home: Path) -> None:
    """P-19: one approval for the session covers the whole batch."""
    calls = [ScriptedCall("write_file", {"path": "b.txt", "content": str(i)}, id=f"w{i}") for i in range(4)]
    read = ScriptedCall("read_file", {"path": "b.txt"})
    async with chatting(folder, home, Reply(calls=[calls[0]]), read, Reply(calls=calls[1:]), "done") as chat:
        await chat.run("go", Approve("", "session"))

    assert len(chat.of(ApprovalRequest)) == 1


async def test_p14_approval_shows_invisible_characters(folder: Path, home: Path) -> None:
    """P-14: the approval request escapes control and invisible characters and contains the full command."""
    command = "echo ok" + " " * 300 + "\x1b[8m; rm -rf \u202ex\u202c" + "y" * 2000
    async with chatting(folder, home, ScriptedCall("shell", {"command": command}), "done") as chat:
        await chat.run("go", Approve("", "deny"))

    [request] = chat.of(ApprovalRequest)
    assert "\x1b" not in request.resource
    assert "\u202e" not in request.resource
    assert request.resource.endswith("y" * 2000)
    assert request.call.input == {"command": command}


async def test_cf06_changed_settings_do_not_affect_a_running_chat(folder: Path, home: Path) -> None:
    """CF-06: a chat keeps its settings until it is asked to reload them."""
    (home / ".agent").mkdir()
    async with chatting(folder, home, write(), "done") as chat:
        (home / ".agent" / "settings.json").write_text('{"permissions": {"allow": ["*"]}}', encoding="utf-8")
        await chat.run("go", Approve("", "deny"))

    assert len(chat.of(ApprovalRequest)) == 1


async def test_cf08_opening_a_chat_writes_nothing(folder: Path, home: Path) -> None:
    """CF-08: only messages are stored."""
    async with chatting(folder, home) as chat:
        await chat.slash("/help")

    assert sorted(p.name for p in folder.iterdir()) == ["a.txt"]
    assert not (home / ".agent").exists()


async def test_cf07_chat_works_without_a_writable_home(folder: Path, home: Path) -> None:
    """CF-07: the user gets a warning if nothing can be stored."""
    (home / ".agent").write_text("a file in the way", encoding="utf-8")
    async with chatting(folder, home, "works") as chat:
        end = await chat.run("go")

    assert end.text == "works"
    assert any(n.level == "warn" for n in chat.of(Notice))


_CHAT = """
import asyncio, os, sys
from pathlib import Path
from mainspring.app.chat.commands import Prompt, Queue
from tests.requires import on_posix
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.unit.app.chat.harness import chatting

async def main():
    gate = Gate()
    async with chatting(Path(sys.argv[1]), Path(sys.argv[2]), WaitingModel("never", gates={0: gate})) as chat:
        await chat.send(Prompt("being answered"))
        await gate.reached_limit.wait()
        await chat.send(Queue("typed before the kill"))
        while not any(b"typed before the kill" in p.read_bytes() for p in Path(sys.argv[2]).rglob("*.jsonl")):
            await asyncio.sleep(0.01)
        print("queued", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.covers("BYD-04")
@on_posix
async def test_t20_queued_messages_survive_a_kill(folder: Path, home: Path) -> None:
    """T-20: queued messages are stored immediately, so that even a kill cannot lose them."""
    root = Path(__file__).resolve().parents[3]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _CHAT, str(folder), str(home)), cwd=root, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert (await process.stdout.readline()).strip() == b"queued"
    process.send_signal(signal.SIGKILL)
    await process.wait()

    async with chatting(folder, home, ScriptedModel("x"), ask={"continued": True}) as again:
        queue = await again.until(QueueChange)
        user_texts = again.of(MessageEnd)

    assert [q.text for q in queue.items] == ["typed before the kill"]
    assert [u.message.text for u in user_texts] == ["being answered"]
