"""Runs of a chat: what is told, what is asked, what is typed meanwhile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

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
from mainspring.app.chat.events import (
    AnswerEnd,
    AnswerText,
    ApprovalAsked,
    ApprovalSettled,
    Notice,
    QueueChanged,
    Refused,
    RunFinished,
    SessionChanged,
    StatusChanged,
    ToolFinished,
    ToolStarted,
    UserText,
    Working,
)
from mainspring.errors import NetworkError
from mainspring.messages import Cost, ImageBlock, Usage
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from tests.unit.app.chat.harness import Gate, WaitingModel, chatting

YES = Approve("", "once")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    return tmp_path


def write(content: str = "new\n", path: str = "b.txt") -> ScriptedCall:
    return ScriptedCall("write_file", {"path": path, "content": content})


@pytest.mark.covers("CLI-06", "CLI-08", "CLI-10", "CLI-16")
async def test_a_run_is_told_by_events_in_order(folder: Path, home: Path) -> None:
    read = Reply("I look.", thinking="hm", calls=[ScriptedCall("read_file", {"path": "a.txt"})])
    async with chatting(folder, home, read, Reply("Three lines.", pieces=3)) as chat:
        end = await chat.run("what is in a.txt?")

    assert end.status == "completed"
    assert (end.text, end.turns) == ("Three lines.", 2)
    told = [kind for kind in chat.kinds() if kind not in ("StatusChanged", "Working")]
    start = told.index("UserText")
    assert told[start:] == [
        *("UserText", "RunStarted", "ThinkingText", "ThinkingEnd", "AnswerText", "AnswerEnd"),
        *("ToolStarted", "ToolFinished", "AnswerText", "AnswerEnd", "RunFinished"),
    ]
    [begun] = chat.of(ToolStarted)
    assert (begun.display, begun.summary) == ("Read", "a.txt")
    [done] = chat.of(ToolFinished)
    assert "two" in done.output


@pytest.mark.covers("HOK-04")
async def test_what_is_waited_for_is_told_until_nothing_is(folder: Path, home: Path) -> None:
    async with chatting(folder, home, ScriptedCall("read_file", {"path": "a.txt"}), "done") as chat:
        await chat.run("go")

    told = [w.message for w in chat.of(Working)]
    assert "Waiting for the model" in told
    assert "Running Read" in told
    assert told[-1] == ""


@pytest.mark.covers("HOK-05")
async def test_an_answer_comes_in_pieces_and_then_as_a_whole(folder: Path, home: Path) -> None:
    async with chatting(folder, home, Reply("a long answer", pieces=4)) as chat:
        await chat.run("go")

    assert "".join(piece.text for piece in chat.of(AnswerText)) == "a long answer"
    assert [whole.text for whole in chat.of(AnswerEnd)] == ["a long answer"]


@pytest.mark.covers("CLI-20")
@pytest.mark.parametrize("call", [write(), ScriptedCall("shell", {"command": "touch b.txt"})])
async def test_writes_and_shell_ask_first(folder: Path, home: Path, call: ScriptedCall) -> None:
    async with chatting(folder, home, call, "done") as chat:
        await chat.send(Prompt("go"))
        asked = await chat.until(ApprovalAsked)
        assert not (folder / "b.txt").exists()
        await chat.send(Approve(asked.id, "once"))
        await chat.until(RunFinished)

    assert (folder / "b.txt").exists()
    assert asked.tool == call.name


@pytest.mark.covers("HOK-08")
async def test_a_question_never_blocks_the_event_loop(folder: Path, home: Path) -> None:
    ticks = 0
    async with chatting(folder, home, write(), "done") as chat:
        await chat.send(Prompt("go"))
        asked = await chat.until(ApprovalAsked)
        for _ in range(100):
            await asyncio.sleep(0)
            ticks += 1
        assert (asked.scope, asked.resource, asked.action) == ("fs-write", "b.txt", "write")
        await chat.send(Approve(asked.id, "deny", "not now"))
        end = await chat.until(RunFinished)

    assert ticks == 100
    assert end.denied == 1
    assert not (folder / "b.txt").exists()
    [done] = chat.of(ToolFinished)
    assert "not now" in done.output
    assert done.denied


async def test_a_denial_may_end_the_run(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write()) as chat:
        end = await chat.run("go", Approve("", "deny", "no", stop=True))

    assert end.status == "denied"


async def test_with_nobody_there_what_would_ask_is_denied(folder: Path, home: Path) -> None:
    async with chatting(folder, home, write(), "done", attended=False) as chat:
        end = await chat.run("go")

    assert end.status == "completed"
    assert end.denied == 1
    assert chat.of(ApprovalAsked) == []


async def test_a_failed_model_is_told_and_the_chat_goes_on(folder: Path, home: Path) -> None:
    bad = NetworkError("no route to host", retryable=False)
    async with chatting(folder, home, Reply(error=bad), "better") as chat:
        failed = await chat.run("one")
        well = await chat.run("two")

    assert failed.status == "error"
    assert "no route to host" in failed.error
    assert (well.status, well.text) == ("completed", "better")


async def test_an_abort_settles_questions_and_gives_every_call_a_result(folder: Path, home: Path) -> None:
    async with chatting(folder, home, Reply(calls=[write(), write(path="c.txt")]), "again") as chat:
        await chat.send(Prompt("go"))
        await chat.until(ApprovalAsked)
        await chat.send(Abort())
        end = await chat.until(RunFinished)
        assert [s.decision for s in chat.of(ApprovalSettled)] == ["aborted"]
        assert end.status == "aborted"
        assert {t.id for t in chat.of(ToolStarted)} == {t.id for t in chat.of(ToolFinished)}
        well = await chat.run("once more")

    assert well.status == "completed"
    assert sorted(p.name for p in folder.iterdir()) == ["a.txt"]


@pytest.mark.covers("CLI-20", "CLI-10")
@pytest.mark.parametrize("decision", ["once", "always", "never", "edit"])
@pytest.mark.parametrize("order", ["abort first", "answer first", "answer first, a little later", "closed"])
async def test_an_answer_and_an_abort_at_the_same_time(folder: Path, home: Path, decision: Any, order: str) -> None:
    changed = {"path": "b.txt", "content": "changed"} if decision == "edit" else None
    async with chatting(folder, home, write(), "done", "more") as chat:
        await chat.send(Prompt("go"))
        asked = await chat.until(ApprovalAsked)
        await chat.send(Queue("do not lose this"))
        if order == "abort first":
            await chat.send(Abort())
        await chat.send(Approve(asked.id, decision, input=changed))
        if order == "answer first, a little later":
            for _ in range(3):
                await asyncio.sleep(0)
        if order != "closed":
            await chat.send(Abort())
            assert (await chat.until(RunFinished)).status == "aborted"
            assert [e.id for e in chat.of(ToolStarted)] == [e.id for e in chat.of(ToolFinished)]
            written = (folder / "b.txt").exists()
            assert not (order == "abort first" and written)
            await chat.send(RemoveQueued(chat.of(QueueChanged)[-1].items[0].id))
            await chat.run("what I want now")
            assert (folder / "b.txt").exists() == written  # the call is not made by a later run
        session = chat.chat.status.session_id
    chat.seen += [event async for event in chat.chat.events()]

    assert [e.id for e in chat.of(ApprovalAsked)] == [e.id for e in chat.of(ApprovalSettled)]
    assert [e.id for e in chat.of(ToolStarted)] == [e.id for e in chat.of(ToolFinished)]
    if order == "closed":
        assert [q.text for q in chat.of(QueueChanged)[-1].items] == ["do not lose this"]
    async with chatting(folder, home, "fine", ask={"session": session}) as again:
        assert (await again.run("and now?")).status == "completed"


async def test_an_answer_to_no_question_is_refused(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        receipt = await chat.send(Approve("q99", "once"))
        refused = await chat.until(Refused)

    assert not receipt.accepted
    assert refused.reason == receipt.refused


@pytest.mark.covers("CLI-02")
async def test_an_empty_prompt_is_refused(folder: Path, home: Path) -> None:
    async with chatting(folder, home) as chat:
        assert not (await chat.send(Prompt("  \n"))).accepted


# --- what is typed meanwhile --------------------------------------------------------------------------------------------


@pytest.mark.covers("CLI-02", "BYD-04")
async def test_steering_is_seen_at_the_next_step_and_queued_text_afterwards(folder: Path, home: Path) -> None:
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
        first = await chat.until(RunFinished)
        second = await chat.until(RunFinished)

    assert (first.text, second.text) == ("with steering", "then the queue")
    assert [(u.text, u.source) for u in chat.of(UserText)] == [
        ("go", "prompt"),
        ("use Celsius", "steer"),
        ("afterwards", "queue"),
    ]
    assert "use Celsius" in str(model.requests[1].messages)
    assert "afterwards" not in str(model.requests[1].messages)
    assert chat.of(QueueChanged)[-1].items == ()


@pytest.mark.covers("BYD-04")
@pytest.mark.parametrize("kind", [Steer, Queue])
async def test_what_waits_can_be_changed_and_taken_back(
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
        await chat.until(UserText, lambda u: u.text == "first thought")
        await chat.until(RunFinished)

    everything = str([seen.messages for seen in model.requests])
    assert "first thought" in everything
    assert "thuoght" not in everything
    assert "never mind" not in everything


@pytest.mark.covers("BYD-04")
async def test_queued_text_survives_an_abort_and_is_said_when_asked_for(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel("sooner", "later", gates={0: gate})
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(Queue("later"))
        await chat.send(Steer("sooner"))
        await chat.send(Abort())
        await chat.until(RunFinished)
        held = chat.of(QueueChanged)[-1]
        assert held.held
        assert {(q.text, q.kind) for q in held.items} == {("later", "queue"), ("sooner", "queue")}
        gate.open.set()
        await chat.send(SendQueued())
        await chat.until(RunFinished)
        await chat.until(RunFinished)  # said in their order, one run after the other

    assert [u.text for u in chat.of(UserText)] == ["go", "later", "sooner"]


@pytest.mark.covers("BYD-04")
async def test_what_was_said_to_a_run_that_could_not_begin_waits_again(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "said now") as chat:
        await chat.send(Prompt("do not lose this"))
        await chat.send(Abort())  # before the run has done anything
        assert (await chat.until(RunFinished)).status == "aborted"
        held = chat.of(QueueChanged)[-1]
        assert ([q.text for q in held.items], held.held) == (["do not lose this"], True)
        assert not chat.model.requests
        await chat.send(SendQueued())
        assert (await chat.until(RunFinished)).text == "said now"

    assert "do not lose this" in str(chat.model.requests[0].messages)


@pytest.mark.covers("BYD-04")
async def test_queued_text_is_there_again_when_the_session_is_resumed(folder: Path, home: Path) -> None:
    gate = Gate()
    async with chatting(folder, home, WaitingModel("never", gates={0: gate})) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(Queue("do not lose this"))

    async with chatting(folder, home, "found", ask={"continued": True}) as again:
        held = await again.until(QueueChanged)
        assert held.held
        assert [q.text for q in held.items] == ["do not lose this"]
        await again.send(SendQueued(held.items[0].id))
        await again.until(RunFinished)
        assert [u.text for u in again.of(UserText) if u.source == "queue"] == ["do not lose this"]


@pytest.mark.covers("BYD-04")
async def test_a_prompt_while_a_run_goes_on_is_queued(folder: Path, home: Path) -> None:
    gate = Gate()
    async with chatting(folder, home, WaitingModel("one", "two", gates={0: gate})) as chat:
        await chat.send(Prompt("first"))
        await gate.reached_limit.wait()
        receipt = await chat.send(Prompt("second"))
        changed = await chat.until(QueueChanged, lambda q: bool(q.items))
        gate.open.set()
        await chat.until(RunFinished)
        await chat.until(RunFinished)

    assert changed.items[0].id == receipt.id


async def test_a_text_that_waits_can_be_said_now(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel(ScriptedCall("read_file", {"path": "a.txt"}), "done", gates={0: gate})
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        queued = await chat.send(Queue("now please"))
        await chat.send(SendQueued(queued.id))
        gate.open.set()
        await chat.until(RunFinished)

    assert ("now please", "steer") in [(u.text, u.source) for u in chat.of(UserText)]


async def test_images_and_texts_go_along(folder: Path, home: Path) -> None:
    model = ScriptedModel("seen")
    image = Attachment(media_type="image/png", data=b"\x89PNG")
    note = Attachment(media_type="text/plain", text="notes", name="n.txt")
    async with chatting(folder, home, model) as chat:
        await chat.send(Prompt("look @a.txt", (image, note)))
        await chat.until(RunFinished)

    message = model.requests[0].messages[-1]
    assert "three" in message.text
    assert '<file path="n.txt">' in message.text
    [sent] = [block for block in message.content if isinstance(block, ImageBlock)]
    assert sent.media_type == "image/png"


async def test_a_file_that_is_not_there_is_told_and_the_text_is_said(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "ok") as chat:
        end = await chat.run("mail me@example and look at @nothing.txt")

    assert end.status == "completed"
    assert any("No file was attached" in n.text for n in chat.of(Notice))


async def test_a_prompt_of_the_options_is_said_at_once(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "hello", ask={"prompt": "hi"}) as chat:
        end = await chat.until(RunFinished)

    assert end.text == "hello"


# --- how it stands -------------------------------------------------------------------------------------------------------


@pytest.mark.covers("BYD-20")
async def test_the_status_tells_costs_limits_and_branch(folder: Path, home: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n", encoding="utf-8")
    usage = Usage(1000, 50, cost=Cost(input=0.25, output=0.25))
    async with chatting(folder, home, Reply("ok", usage=usage), ask={"max_cost": 2.0, "max_turns": 9}) as chat:
        end = await chat.run("go")
        status = chat.chat.status

    assert end.cost == pytest.approx(0.5)
    assert status.max_cost == 2.0
    assert status.max_turns == 9
    assert status.context_used == 1050
    assert status.branch == "feature/x"
    assert any(s.status.running for s in chat.of(StatusChanged))
    assert not chat.of(StatusChanged)[-1].status.running


@pytest.mark.covers("BYD-20")
async def test_people_are_told_when_a_limit_is_near(folder: Path, home: Path) -> None:
    usage = Usage(1000, 0, cost=Cost(input=0.9))
    read = Reply(calls=[ScriptedCall("read_file", {"path": "a.txt"})], usage=usage)
    async with chatting(folder, home, read, "done", ask={"max_cost": 1.0}) as chat:
        await chat.run("go")

    assert any("$0.90 of $1.00" in n.text and n.level == "warn" for n in chat.of(Notice))


async def test_what_steered_a_run_that_is_over_does_not_hold_up_the_next_one(folder: Path, home: Path) -> None:
    gate = Gate()
    two = Reply(
        calls=[ScriptedCall("todo_write", {"todos": []}, id="t1"), ScriptedCall("todo_write", {"todos": []}, id="t2")]
    )
    async with chatting(folder, home, WaitingModel(two, "done", gates={0: gate})) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        steered = await chat.send(Steer("too late"))
        await chat.send(Abort())
        await chat.until(RunFinished)
        await chat.send(RemoveQueued(steered.id))
        gate.open.set()
        await chat.run("go on")

    assert len(chat.of(ToolFinished)) == 2
    assert not any("kipped" in t.output for t in chat.of(ToolFinished))


async def test_a_limit_ends_the_run_and_the_queue_waits(folder: Path, home: Path) -> None:
    gate = Gate()
    model = WaitingModel(ScriptedCall("read_file", {"path": "a.txt"}), gates={0: gate})
    async with chatting(folder, home, model, ask={"max_turns": 1}) as chat:
        await chat.send(Prompt("go"))
        await gate.reached_limit.wait()
        await chat.send(Queue("not lost at the limit"))
        gate.open.set()
        end = await chat.until(RunFinished)
        held = chat.chat.status.queued

    assert end.status == "max_turns"
    assert held == 1


@pytest.mark.parametrize("queued", [(), ("not lost",)])
async def test_a_chat_is_closed_though_its_task_is_cancelled_again(
    folder: Path, home: Path, queued: tuple[str, ...]
) -> None:
    """A first cancellation leaves the block, a second one comes while the chat is being closed: it closes, and keeps what is queued."""
    model = WaitingModel("never said", gates={0: (gate := Gate())})
    said, left = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with chatting(folder, home, model) as chat:
            try:
                await chat.send(Prompt("go"))
                await gate.reached_limit.wait()
                for text in queued:
                    await chat.send(Queue(text))
                await chat.until(StatusChanged, lambda event: event.status.queued == len(queued))
                said.set()
                await asyncio.Event().wait()
            finally:
                left.set()

    task = asyncio.create_task(live())
    await said.wait()
    task.cancel()
    await left.wait()
    task.cancel()
    closed, _ = await asyncio.wait((task,), timeout=10)
    task.cancel()
    assert closed
    async with chatting(folder, home, "ok", ask={"continued": True}) as chat:
        assert chat.chat.status.queued == len(queued)


async def test_nothing_is_kept_where_nothing_is_to_be(folder: Path, home: Path) -> None:
    async with chatting(folder, home, "ok", ask={"save": False}) as chat:
        await chat.run("go")
        [opened] = chat.of(SessionChanged)

    assert opened.id == ""
    assert not (home / ".agent" / "sessions").exists()


def test_options_need_nothing() -> None:
    assert ChatOptions().attended
