"""Branches: what is left is summed up and comes along, copies with and without branches, and the runs of all of them."""

from pathlib import Path
from typing import Any, cast

import pytest

from mainspring.errors import AgentBusyError, ModelError, SessionError
from mainspring.loop.hooks import MessagesAdded, RunPaused, SessionEnd, SessionStart
from mainspring.messages import Message, Usage
from mainspring.models import ModelRequest
from mainspring.sessions import (
    BranchEntry,
    JsonlStore,
    LabelEntry,
    MemorySessionStore,
    MessageEntry,
    Session,
    SessionStore,
    SqliteSessionStore,
    branch_and_summarize,
    list_session_runs,
)
from mainspring.testing.scripted_model import ScriptedModel
from tests.unit.sessions.harness import QUICK, agent, calling, check_paired, texts

SUMMARY = "A bridge of paper was tried; it did not hold."


@pytest.fixture(params=["jsonl", "memory", "sqlite"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    stores = {
        "jsonl": JsonlStore(tmp_path),
        "memory": MemorySessionStore(),
        "sqlite": SqliteSessionStore(tmp_path / "s.db"),
    }
    store: SessionStore = stores[request.param]
    return Session.create("/work", home=store, id="s1", options=QUICK)


def answers(session: Session) -> list[str]:
    return [e.id for e in session.entries() if isinstance(e, MessageEntry) and e.source == "assistant"]


@pytest.mark.covers("OPT-09", "SES-12")
async def test_a_branch_takes_a_summary_of_what_is_left_along(session: Session) -> None:
    one = agent(session, "a river", calling("c1"), "it broke", "on stone")
    await one.run("what is there?")
    start = answers(session)[0]
    await one.run("a bridge of paper?")
    asked: list[ModelRequest] = []

    def summing(request: ModelRequest) -> str:
        asked.append(request)
        return SUMMARY

    entry = await branch_and_summarize(session, start, ScriptedModel(summing), "paper")
    assert (entry.summary, entry.label) == (SUMMARY, "paper")
    sent = asked[0].messages[-1].text
    assert "a bridge of paper?" in sent
    assert "it broke" in sent
    assert "a river" not in sent
    said = texts(one.messages)
    assert said[:2] == ["user: what is there?", "assistant: a river"]
    assert SUMMARY in said[2]
    assert 'label="paper"' in said[2]
    await one.run("and of stone?")
    expected = texts(session.messages)
    assert texts(cast("Any", one.model).requests[-1].messages) == expected[:-1]
    session.close()
    again = Session.open("s1", home=session.store, options=QUICK)
    assert texts(again.messages) == expected
    again.branch(start)  # the old branches are there
    assert texts(again.messages) == ["user: what is there?", "assistant: a river"]


async def test_a_summary_of_a_branch_outlives_a_compaction(session: Session) -> None:
    one = agent(session, "x", "y", "z")
    await one.run("first")
    await one.run("second")
    await branch_and_summarize(session, answers(session)[0], ScriptedModel(SUMMARY))
    one.context.messages[:] = [Message.user("all in short"), *one.context.messages[-1:]]
    await one.run("third")
    session.close()
    again = Session.open("s1", home=session.store, options=QUICK)
    assert again.unread_entries > 0
    assert [SUMMARY in text for text in texts(again.messages)] == [False, True, False, False]


async def test_where_nothing_is_left_nobody_is_asked(session: Session) -> None:
    await agent(session, "x").run("first")
    entry = await branch_and_summarize(session, answers(session)[-1], ScriptedModel())
    assert entry.summary == ""
    assert len(session.messages) == 2


@pytest.mark.parametrize("answer", [ModelError("overloaded"), "", "short"])
async def test_a_summary_that_fails_does_not_keep_anybody_there(session: Session, answer: object) -> None:
    one = agent(session, "x", "y")
    await one.run("first")
    await one.run("second")
    entry = await branch_and_summarize(session, answers(session)[0], ScriptedModel(answer))  # pyright: ignore[reportArgumentType]
    assert entry.summary == ""
    assert texts(one.messages) == ["user: first", "assistant: x"]


async def test_to_begin_again_sums_up_everything(session: Session) -> None:
    one = agent(session, "x")
    await one.run("first")
    await branch_and_summarize(session, None, ScriptedModel(SUMMARY))
    assert len(one.messages) == 1
    assert SUMMARY in texts(one.messages)[0]


async def test_there_must_be_such_an_entry_and_nobody_running(session: Session) -> None:
    one = agent(session, "x", "y")
    await one.run("first")
    with pytest.raises(SessionError, match="no entry nowhere"):
        await branch_and_summarize(session, "nowhere", ScriptedModel())

    async def meanwhile(_: MessagesAdded) -> None:
        with pytest.raises(AgentBusyError):
            await branch_and_summarize(session, None, ScriptedModel())

    one.on(MessagesAdded, meanwhile)
    await one.run("second")


@pytest.mark.covers("SES-11", "SES-12")
async def test_labels_and_branches_leave_what_was_said_as_it_is(session: Session) -> None:
    one = agent(session, "x", "y", "z")
    await one.run("first")
    await one.run("second")
    before = [row.data for row in session.journal.log_with_pending().rows()]
    start = answers(session)[0]
    session.label("here", start)
    session.branch(start, "another try")
    await one.run("third")
    after = [row.data for row in session.journal.log_with_pending().rows()]
    assert after[: len(before)] == before
    assert texts(session.messages) == ["user: first", "assistant: x", "user: third", "assistant: z"]


async def test_a_whole_copy_has_all_branches_and_names(session: Session) -> None:
    one = agent(session, "x", calling("c1"), "y", "z")
    await one.run("first")
    await one.run("second")
    other = answers(session)[-1]
    session.label("the other", other)
    session.branch(answers(session)[0])
    await one.run("third")
    copy = session.fork(title="copy", whole=True)
    assert texts(copy.messages) == texts(session.messages)
    copy.branch(other)
    assert "assistant: y" in texts(copy.messages)
    check_paired(copy.messages)
    copy.save()
    assert copy.title == "copy"
    store = copy.store
    place, id = copy.location, copy.id
    copy.close()
    again = Session.open(place, home=store, write=False)
    assert again.id == id != session.id
    assert [e.label for e in entries_of(again) if isinstance(e, LabelEntry)] == ["the other"]
    part = session.fork()
    with pytest.raises(SessionError, match="no entry"):
        part.branch(other)


def entries_of(session: Session) -> list[object]:
    return [line.entry for line in session.journal.path(whole=True)]


@pytest.mark.covers("SES-13", "SES-17")
async def test_runs_are_started_completed_and_aborted(session: Session) -> None:
    one = agent(session, calling("c1"), "done", "other")
    await one.run("first")
    one.on(MessagesAdded, lambda _: one.abort(), order=200)
    await one.run("second", raise_errors=False)
    session.branch(answers(session)[0])  # runs of branches that were left are still runs
    await one.bus.emit(SessionStart("killed", "agent", True))
    await one.bus.emit(MessagesAdded("killed", (Message.user("third"),), "prompt"))
    session.close()
    again = Session.open("s1", home=session.store, options=QUICK, write=False)
    runs = list_session_runs(again)
    assert [(r.status, r.turns, bool(r.ended)) for r in runs] == [
        ("completed", 2, True), ("aborted", runs[1].turns, True), ("open", 0, False),
    ]  # fmt: skip
    assert again.was_interrupted
    ids = [line.entry.id for line in again.journal.path(whole=True) if line.entry is not None]
    assert ids.index(runs[0].first) < ids.index(runs[0].last) < ids.index(runs[1].first) <= ids.index(runs[1].last)
    assert runs[0].usage.total_tokens >= 0
    assert runs[0].agent == "agent"


async def test_a_paused_run_says_so(session: Session) -> None:
    one = agent(session)
    await one.bus.emit(SessionStart("r", "agent", False))
    await one.bus.emit(MessagesAdded("r", (Message.user("go"),), "prompt"))
    await one.bus.emit(RunPaused("r", Message.assistant("?"), {}, {}))
    await one.bus.emit(SessionEnd("r", "paused", 1, Usage(), None))
    assert [r.status for r in list_session_runs(session)] == ["paused"]


def test_a_branch_entry_without_a_summary_adds_nothing(session: Session) -> None:
    session.branch(None)
    assert session.messages == ()
    assert [type(e) for e in session.entries()] == [BranchEntry]
