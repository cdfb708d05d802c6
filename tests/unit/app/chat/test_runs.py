"""Runs of a chat: events, approvals, and messages typed while the agent works."""

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mainspring.app.chat import ChatOptions
from mainspring.app.chat.commands import (
    Abort,
    Approve,
    Attachment,
    EditQueued,
    Prompt,
    Queue,
    RemoveQueued,
    SendQueued,
    Steer,
)
from mainspring.app.chat.events import CommandRejected, QueueChange, SessionChange, StatusChange, WorkingChange
from mainspring.errors import NetworkError
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    ApprovalResult,
    Notice,
    TextDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from mainspring.messages import Cost, ImageBlock, Usage
from mainspring.models import ModelInfo
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.helpers.waiting_model import Gate, WaitingModel
from tests.unit.app.chat import event_builders as make
from tests.unit.app.chat.harness import chatting

YES = Approve("", "once")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    return tmp_path


def write_call(content: str = "new\n", path: str = "b.txt") -> ScriptedCall:
    return ScriptedCall("write_file", {"path": path, "content": content})


@pytest.mark.covers("CLI-06", "CLI-08", "CLI-10", "CLI-16")
async def test_run_publishes_events_in_order(folder: Path, home: Path) -> None:
    read = Reply("I look.", thinking="hm", calls=[ScriptedCall("read_file", {"path": "a.txt"})])
    async with chatting(folder, home, read, Reply("Three lines.", chunk_count=3)) as chat:
        end = await chat.run("what is in a.txt?")

    assert end.status == "completed"
    assert (end.text, end.stats.turns) == ("Three lines.", 2)
    published = [kind for kind in chat.kinds() if kind not in ("StatusChange", "WorkingChange")]
    start = published.index("MessageEnd")
    assert published[start:] == [
        *("MessageEnd", "AgentStart", "ThinkingDelta", "TextDelta", "MessageEnd"),
        *("ToolExecutionStart", "ToolExecutionEnd", "TextDelta", "MessageEnd", "AgentEnd"),
    ]
    [begun] = chat.of(ToolExecutionStart)
    assert (make.shown(begun).name, make.shown(begun).summary) == ("Read", "a.txt")
    [done] = chat.of(ToolExecutionEnd)
    assert "two" in done.result.text


@pytest.mark.covers("HOK-04")
async def test_working_status_follows_the_run(folder: Path, home: Path) -> None:
    async with chatting(folder, home, ScriptedCall("read_file", {"path": "a.txt"}), "done") as chat:
        await chat.run("go")

    published = [w.message for w in chat.of(WorkingChange)]
    assert "Waiting for the model" in published
    assert "Running Read" in published
    assert published[-1] == ""


@pytest.mark.covers("HOK-05")
async def test_response_is_streamed_and_then_published_whole(folder: Path, home: Path) -> None:
    async with chatting(folder, home, Reply("a long answer", chunk_count=4)) as chat:
        await chat.run("go")

    assert "".join(piece.text for piece in chat.of(TextDelta)) == "a long answer"
    assert chat.responses() == ["a long answer"]


@pytest.mark.covers("CLI-20")
@pytest.mark.parametrize("call", [write_call(), ScriptedCall("shell", {"command": "touch b.txt"})])
async def test_writes_and_shell_commands_need_approval(folder: Path, home: Path, call: ScriptedCall) -> None:
    async with chatting(folder, home, call, "done") as chat:
        await chat.send(Prompt("go"))
        request = await chat.until(ApprovalRequest)
        assert not (folder / "b.txt").exists()
        await chat.send(Approve(request.id, "once"))
        await chat.until(AgentEnd)

    assert (folder / "b.txt").exists()
    assert request.call.name == call.name


@pytest.mark.covers("HOK-08")
async def test_approval_never_blocks_the_event_loop(folder: Path, home: Path) -> None:
    ticks = 0
    async with chatting(folder, home, write_call(), "done") as chat:
        await chat.send(Prompt("go"))
        request = await chat.until(ApprovalRequest)
        for _ in range(100):
            await asyncio.sleep(0)
            ticks += 1
        assert (request.scope, request.resource, request.action) == ("fs-write", "b.txt", "write")
        await chat.send(Approve(request.id, "deny", "not now"))
        end = await chat.until(AgentEnd)

    assert ticks == 100
    assert len(end.denied) == 1
    assert not (folder / "b.txt").exists()
    [done] = chat.of(ToolExecutionEnd)
    assert "not now" in done.result.text
    assert done.status == "denied"


async def test_denial_can_stop_the_run(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call()) as chat:
        end = await chat.run("go", Approve("", "deny", "no", stop=True))

    assert end.status == "denied"


async def test_unattended_chat_denies_calls_that_need_approval(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write_call(), "done", attended=False) as chat:
        end = await chat.run("go")

    assert end.status == "completed"
    assert len(end.denied) == 1
    assert chat.of(ApprovalRequest) == []


async def test_chat_continues_after_a_failed_model_call(folder: Path, home: Path) -> None:
    bad = NetworkError("no route to host", retryable=False)
    async with chatting(folder, home, Reply(error=bad), "better") as chat:
        failed = await chat.run("one")
        well = await chat.run("two")

    assert failed.status == "error"
    assert "no route to host" in str(failed.error)
    assert (well.status, well.text) == ("completed", "better")


async def test_abort_settles_approvals_and_finishes_every_call(folder: Path, home: Path) -> None:
    async with chatting(folder, home, Reply(calls=[write_call(), write_call(path="c.txt")]), "again") as chat:
        await chat.send(Prompt("go"))
        await chat.until(ApprovalRequest)
        await chat.send(Abort())
        end = await chat.until(AgentEnd)
        assert [s.decision for s in chat.of(ApprovalResult)] == ["aborted"]
        assert end.status == "aborted"
        assert {t.call.id for t in chat.of(ToolExecutionStart)} == {t.call.id for t in chat.of(ToolExecutionEnd)}
        well = await chat.run("once more")

    assert well.status == "completed"
    assert sorted(p.name for p in folder.iterdir()) == ["a.txt"]


@pytest.mark.covers("CLI-20", "CLI-10")
@pytest.mark.parametrize("decision", ["once", "always", "never", "edit"])
@pytest.mark.parametrize("order", ["abort first", "answer first", "answer first, a little later", "closed"])
async def test_approval_and_abort_at_the_same_time(folder: Path, home: Path, decision: Any, order: str) -> None:
    changed = {"path": "b.txt", "content": "changed"} if decision == "edit" else None
    gate = Gate()  # the run cannot end before it is aborted
    async with chatting(folder, home, WaitingModel(write_call(), "done", "more", gates={1: gate})) as chat:
        await chat.send(Prompt("go"))
        request = await chat.until(ApprovalRequest)
        await chat.send(Queue("do not lose this"))
        if order == "abort first":
            await chat.send(Abort())
        await chat.send(Approve(request.id, decision, input=changed))
        if order == "answer first, a little later":
            for _ in range(3):
                await asyncio.sleep(0)
        if order != "closed":
            await chat.send(Abort())
            assert (await chat.until(AgentEnd)).status == "aborted"
            assert [e.call.id for e in chat.of(ToolExecutionStart)] == [e.call.id for e in chat.of(ToolExecutionEnd)]
            written = (folder / "b.txt").exists()
            assert not (order == "abort first" and written)
            await chat.send(RemoveQueued(chat.of(QueueChange)[-1].items[0].id))
            gate.open.set()
            await chat.run("what I want now")
            assert (folder / "b.txt").exists() == written  # a later run does not repeat the call
        session = chat.chat.status.session_id
    chat.seen += [event async for event in chat.chat.events()]

    assert [e.id for e in chat.of(ApprovalRequest)] == [e.id for e in chat.of(ApprovalResult)]
    assert [e.call.id for e in chat.of(ToolExecutionStart)] == [e.call.id for e in chat.of(ToolExecutionEnd)]
    if order == "closed":
        assert [q.text for q in chat.of(QueueChange)[-1].items] == ["do not lose this"]
    async with chatting(folder, home, "fine", ask={"session": session}) as again:
        assert (await again.run("and now?")).status == "completed"


async def test_approval_with_an_unknown_id_is_rejected(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        receipt = await chat.send(Approve("q99", "once"))
        rejected = await chat.until(CommandRejected)

    assert not receipt.accepted
    assert rejected.reason == receipt.refused


@pytest.mark.covers("CLI-02")
async def test_empty_prompt_is_rejected(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        assert not (await chat.send(Prompt("  \n"))).accepted


# --- messages during a run ----------------------------------------------------------------------------------------------


@pytest.mark.covers("CLI-02", "BYD-04")
async def test_steering_joins_the_next_turn_and_queued_text_the_next_run(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel(
        ScriptedCall("read_file", {"path": "a.txt"}), "with steering", "then the queue", gates={0: gate}
    )
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(Queue("afterwards"))
        await chat.send(Steer("use Celsius"))
        gate.open.set()
        first = await chat.until(AgentEnd)
        second = await chat.until(AgentEnd)

    assert (first.text, second.text) == ("with steering", "then the queue")
    assert [(u.message.text, u.source) for u in chat.users()] == [
        ("go", "prompt"),
        ("use Celsius", "steer"),
        ("afterwards", "queue"),
    ]
    assert "use Celsius" in str(model.requests[1].messages)
    assert "afterwards" not in str(model.requests[1].messages)
    assert chat.of(QueueChange)[-1].items == ()


@pytest.mark.covers("BYD-04")
@pytest.mark.parametrize("kind", [Steer, Queue])
async def test_queued_messages_can_be_edited_and_removed(
    folder: Path, home: Path, kind: type[Steer] | type[Queue]
) -> None:
    gate = Gate()
    model = WaitingModel("one", "two", "three", gates={0: gate})
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        keep = await chat.send(kind("first thuoght"))
        drop = await chat.send(kind("never mind"))
        await chat.send(EditQueued(keep.id, "first thought"))
        await chat.send(RemoveQueued(drop.id))
        assert not (await chat.send(EditQueued(drop.id, "x"))).accepted
        gate.open.set()
        await chat.until_user("first thought")
        await chat.until(AgentEnd)

    sent_messages = str([seen.messages for seen in model.requests])
    assert "first thought" in sent_messages
    assert "thuoght" not in sent_messages
    assert "never mind" not in sent_messages


@pytest.mark.covers("BYD-04")
async def test_queued_messages_survive_an_abort_until_they_are_sent(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel("sooner", "later", gates={0: gate})
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(Queue("later"))
        await chat.send(Steer("sooner"))
        await chat.send(Abort())
        await chat.until(AgentEnd)
        queue = chat.of(QueueChange)[-1]
        assert queue.held
        assert {(q.text, q.kind) for q in queue.items} == {("later", "queue"), ("sooner", "queue")}
        gate.open.set()
        await chat.send(SendQueued())
        await chat.until(AgentEnd)
        await chat.until(AgentEnd)  # sent in order, one run each

    assert [u.message.text for u in chat.users()] == ["go", "later", "sooner"]


@pytest.mark.covers("BYD-04")
async def test_prompt_aborted_before_its_run_starts_is_queued_again(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "said now") as chat:
        await chat.send(Prompt("do not lose this"))
        await chat.send(Abort())  # before the run has done anything
        assert (await chat.until(AgentEnd)).status == "aborted"
        queue = chat.of(QueueChange)[-1]
        assert ([q.text for q in queue.items], queue.held) == (["do not lose this"], True)
        assert not chat.model.requests
        await chat.send(SendQueued())
        assert (await chat.until(AgentEnd)).text == "said now"

    assert "do not lose this" in str(chat.model.requests[0].messages)


@pytest.mark.covers("BYD-04")
async def test_queued_messages_are_restored_with_the_session(folder: Path, home: Path) -> None:
    gate = Gate()
    async with chatting(folder, home, WaitingModel("never", gates={0: gate})) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(Queue("do not lose this"))

    async with chatting(folder, home, "found", ask={"continued": True}) as again:
        queue = await again.until(QueueChange)
        assert queue.held
        assert [q.text for q in queue.items] == ["do not lose this"]
        await again.send(SendQueued(queue.items[0].id))
        await again.until(AgentEnd)
        assert [u.message.text for u in again.users() if u.source == "queue"] == ["do not lose this"]


@pytest.mark.covers("BYD-04")
async def test_prompt_during_a_run_is_queued(folder: Path, home: Path) -> None:
    gate = Gate()
    async with chatting(folder, home, WaitingModel("one", "two", gates={0: gate})) as chat:
        await chat.send(Prompt("first"))
        await gate.reached_limit.wait()
        receipt = await chat.send(Prompt("second"))
        changed = await chat.until(QueueChange, lambda q: bool(q.items))
        gate.open.set()
        await chat.until(AgentEnd)
        await chat.until(AgentEnd)

    assert changed.items[0].id == receipt.id


async def test_queued_message_can_be_sent_as_steering(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel(ScriptedCall("read_file", {"path": "a.txt"}), "done", gates={0: gate})
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        queued = await chat.send(Queue("now please"))
        await chat.send(SendQueued(queued.id))
        gate.open.set()
        await chat.until(AgentEnd)

    assert ("now please", "steer") in [(u.message.text, u.source) for u in chat.users()]


async def test_images_and_text_files_are_attached(folder: Path, home: Path) -> None:
    model = ScriptedModel("seen")
    Image.new("RGB", (3000, 20), "red").save(picture := io.BytesIO(), "PNG")
    image = Attachment(media_type="image/png", data=picture.getvalue())
    note = Attachment(media_type="text/plain", text="notes", name="n.txt")
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("look @a.txt", (image, note)))
        await chat.until(AgentEnd)

    message = model.requests[0].messages[-1]
    assert "three" in message.text
    assert '<file path="n.txt">' in message.text
    [sent] = [block for block in message.content if isinstance(block, ImageBlock)]
    assert sent.media_type == "image/png"
    assert Image.open(io.BytesIO(base64.b64decode(sent.data))).width == 1568


async def test_pasted_data_that_is_not_an_image_stops_the_message(folder: Path, home: Path) -> None:
    model = ScriptedModel("never")
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("look", (Attachment(media_type="image/png", data=b"\x89PNG"),)))
        end = await chat.until(AgentEnd)

    assert end.error is not None
    assert end.error.message.startswith("The message was not sent. The pasted image cannot be attached: ")
    assert model.requests == []


@pytest.mark.parametrize("mention", ["@nothing.txt", "@data.bin", "@huge.png", "@a.txt @nothing.txt"])
async def test_file_that_cannot_be_attached_stops_the_message(folder: Path, home: Path, mention: str) -> None:
    (folder / "data.bin").write_bytes(b"\0\1\2")
    (folder / "huge.png").write_bytes(b"\x89PNG\r\n\x1a\n damaged")
    model = ScriptedModel("ok")
    async with chatting(folder, home, model) as chat:
        end = await chat.run(f"mail me@example and look at {mention}")
        await chat.run("hello")

    assert end.status == "error"
    assert end.error is not None
    assert end.error.type == "MessageNotSentError"
    assert end.error.message.startswith("The message was not sent. ")
    assert mention.split("@")[-1] in end.error.message
    assert [request.messages[0].text for request in model.requests] == ["hello"]


async def test_steering_message_with_a_bad_file_is_not_sent_without_it(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel("one", "two", "three", gates={0: gate})
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(Steer("also @nothing.txt"))
        gate.open.set()
        await chat.until(AgentEnd)
        end = await chat.until(AgentEnd)

    assert end.error is not None
    assert end.error.type == "MessageNotSentError"
    assert not any("nothing.txt" in message.text for request in model.requests for message in request.messages)


async def test_mentioned_image_is_attached(folder: Path, home: Path) -> None:
    Image.new("RGB", (3000, 20), "red").save(folder / "wide one.png")
    model = ScriptedModel("seen")
    async with chatting(folder, home, model) as chat:
        await chat.run('look at @"wide one.png"')

    [sent] = [block for block in model.requests[0].messages[-1].content if isinstance(block, ImageBlock)]
    assert sent.media_type == "image/png"
    assert Image.open(io.BytesIO(base64.b64decode(sent.data))).width == 1568


async def test_image_is_not_sent_to_a_model_that_accepts_none(folder: Path, home: Path) -> None:
    Image.new("RGB", (20, 20), "red").save(folder / "red.png")
    model = ScriptedModel("never", info=ModelInfo("blind", "script", vision=False))
    async with chatting(folder, home, model) as chat:
        mentioned = await chat.run("look at @red.png")
        await chat.send(Prompt("look", (Attachment(media_type="image/png", data=b"\x89PNG"),)))
        pasted = await chat.until(AgentEnd)
        assert chat.chat.messages == ()

    for end in (mentioned, pasted):
        assert end.error is not None
        assert end.error.type == "MessageNotSentError"
        assert "does not accept images" in end.error.message
    assert model.requests == []


@pytest.mark.parametrize("decision", ["once", "session", "deny"])
async def test_mention_of_a_secret_file_needs_approval(folder: Path, home: Path, decision: Any) -> None:
    (folder / ".env").write_text("COLOR=teal", encoding="utf-8")
    model = ScriptedModel("ok", "ok")
    async with chatting(folder, home, model) as chat:
        end = await chat.run("read @.env", Approve("", decision))
        again = await chat.run("read @.env", Approve("", decision))

    requests = chat.of(ApprovalRequest)
    assert {(request.action, request.resource.endswith(".env")) for request in requests} == {("read", True)}
    assert len(requests) == (1 if decision == "session" else 2)
    assert ("teal" in str(model.requests)) == (decision != "deny")
    assert {end.status, again.status} == {"error" if decision == "deny" else "completed"}


async def test_prompt_option_is_sent_at_start(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "hello", ask={"prompt": "hi"}) as chat:
        end = await chat.until(AgentEnd)

    assert end.text == "hello"


# --- status --------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-20")
async def test_status_shows_cost_limits_and_branch(folder: Path, home: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n", encoding="utf-8")
    usage = Usage(1000, 50, cost=Cost(input=0.25, output=0.25))
    async with chatting(folder, home, Reply("ok", usage=usage), ask={"agent": {"maxCost": 2.0, "maxTurns": 9}}) as chat:
        end = await chat.run("go")
        status = chat.chat.status

    assert make.cost(end) == pytest.approx(0.5)
    assert status.max_cost == 2.0
    assert status.max_turns == 9
    assert status.context_used == 1050
    assert status.branch == "feature/x"
    assert any(s.status.running for s in chat.of(StatusChange))
    assert not chat.of(StatusChange)[-1].status.running


@pytest.mark.covers("BYD-20")
async def test_warning_appears_near_the_cost_limit(folder: Path, home: Path) -> None:
    usage = Usage(1000, 0, cost=Cost(input=0.9))
    read = Reply(calls=[ScriptedCall("read_file", {"path": "a.txt"})], usage=usage)
    async with chatting(folder, home, read, "done", ask={"agent": {"maxCost": 1.0}}) as chat:
        await chat.run("go")

    assert any("$0.90 of $1.00" in n.text and n.level == "warn" for n in chat.of(Notice))


async def test_steering_of_an_aborted_run_does_not_affect_the_next_run(folder: Path, home: Path) -> None:
    gate = Gate()
    two = Reply(
        calls=[ScriptedCall("todo_write", {"todos": []}, id="t1"), ScriptedCall("todo_write", {"todos": []}, id="t2")]
    )
    async with chatting(folder, home, WaitingModel(two, "done", gates={0: gate})) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        steered = await chat.send(Steer("too late"))
        await chat.send(Abort())
        await chat.until(AgentEnd)
        await chat.send(RemoveQueued(steered.id))
        gate.open.set()
        await chat.run("go on")

    assert len(chat.of(ToolExecutionEnd)) == 2
    assert not any("kipped" in t.result.text for t in chat.of(ToolExecutionEnd))


async def test_run_stops_at_a_limit_and_keeps_the_queue(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel(ScriptedCall("read_file", {"path": "a.txt"}), gates={0: gate})
    async with chatting(folder, home, model, ask={"agent": {"maxTurns": 1}}) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(Queue("not lost at the limit"))
        gate.open.set()
        end = await chat.until(AgentEnd)
        queue = chat.chat.status.queued

    assert end.status == "max_turns"
    assert queue == 1


@pytest.mark.parametrize("queued", [(), ("not lost",)])
async def test_chat_closes_even_if_its_task_is_cancelled_twice(
    folder: Path, home: Path, queued: tuple[str, ...]
) -> None:
    """The chat closes and keeps its queue when a second cancellation arrives while it is closing."""
    model = WaitingModel("never said", gates={0: (gate := Gate())})
    prompt_sent, chat_left = asyncio.Event(), asyncio.Event()

    async def run_chat() -> None:
        async with chatting(folder, home, model) as chat:
            try:
                await chat.send(Prompt("go"))
                await gate.reached_limit.wait()
                for text in queued:
                    await chat.send(Queue(text))
                await chat.until(StatusChange, lambda event: event.status.queued == len(queued))
                prompt_sent.set()
                await asyncio.Event().wait()
            finally:
                chat_left.set()

    task = asyncio.create_task(run_chat())
    await prompt_sent.wait()
    task.cancel()
    await chat_left.wait()
    task.cancel()
    closed, _ = await asyncio.wait((task,), timeout=120)
    task.cancel()
    assert closed
    async with chatting(folder, home, "ok", ask={"continued": True}) as chat:
        assert chat.chat.status.queued == len(queued)


async def test_unsaved_chat_stores_no_session(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "ok", ask={"save": False}) as chat:
        await chat.run("go")
        [opened] = chat.of(SessionChange)

    assert opened.id == ""
    assert not (home / ".agent" / "sessions").exists()


def test_chat_options_have_defaults() -> None:
    assert ChatOptions().attended
