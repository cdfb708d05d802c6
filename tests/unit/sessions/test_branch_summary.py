"""Branches: summaries of the abandoned branch, forks with and without branches, and lists of runs."""

from pathlib import Path
from typing import Any, cast

import pytest

from mainspring.errors import AgentBusyError, ModelError, SessionError
from mainspring.loop.hooks import ContextTransform, MessagesAdded, RunPaused, SessionEnd, SessionStart
from mainspring.messages import CustomMessage, Message, Usage
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
from tests.unit.sessions.harness import QUICK, check_paired, describe, make_agent, make_calls

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


def response_ids(session: Session) -> list[str]:
    return [e.id for e in session.entries() if isinstance(e, MessageEntry) and e.source == "assistant"]


@pytest.mark.covers("OPT-09", "SES-12")
async def test_branch_summary_is_part_of_the_new_branch(session: Session) -> None:
    agent = make_agent(session, "a river", make_calls("c1"), "it broke", "on stone")
    await agent.run("what is there?")
    start = response_ids(session)[0]
    await agent.run("a bridge of paper?")
    summary_requests: list[ModelRequest] = []

    def summarize(request: ModelRequest) -> str:
        summary_requests.append(request)
        return SUMMARY

    entry = await branch_and_summarize(session, start, ScriptedModel(summarize), "paper")
    assert (entry.summary, entry.label) == (SUMMARY, "paper")
    sent = summary_requests[0].messages[-1].text
    assert "a bridge of paper?" in sent
    assert "it broke" in sent
    assert "a river" not in sent
    lines = describe(agent.messages)
    assert lines[:2] == ["user: what is there?", "assistant: a river"]
    assert SUMMARY in lines[2]
    assert 'label="paper"' in lines[2]
    await agent.run("and of stone?")
    expected = describe(session.messages)
    assert describe(cast("Any", agent.model).requests[-1].messages) == expected[:-1]
    session.close()
    again = Session.open("s1", home=session.store, options=QUICK)
    assert describe(again.messages) == expected
    again.branch(start)  # the old branches still exist
    assert describe(again.messages) == ["user: what is there?", "assistant: a river"]


async def test_branch_summary_survives_compaction(session: Session) -> None:
    agent = make_agent(session, "x", "y", "z")
    await agent.run("first")
    await agent.run("second")
    await branch_and_summarize(session, response_ids(session)[0], ScriptedModel(SUMMARY))
    agent.context.messages[:] = [Message.user("all in short"), *agent.context.messages[-1:]]
    await agent.run("third")
    session.close()
    again = Session.open("s1", home=session.store, options=QUICK)
    assert again.unread_entries > 0
    assert [SUMMARY in text for text in describe(again.messages)] == [False, True, False, False]


async def test_no_summary_is_requested_if_nothing_is_left(session: Session) -> None:
    await make_agent(session, "x").run("first")
    entry = await branch_and_summarize(session, response_ids(session)[-1], ScriptedModel())
    assert entry.summary == ""
    assert len(session.messages) == 2


@pytest.mark.parametrize("answer", [ModelError("overloaded"), "", "short"])
async def test_failed_summary_does_not_prevent_the_branch(session: Session, answer: object) -> None:
    agent = make_agent(session, "x", "y")
    await agent.run("first")
    await agent.run("second")
    entry = await branch_and_summarize(session, response_ids(session)[0], ScriptedModel(answer))  # pyright: ignore[reportArgumentType]
    assert entry.summary == ""
    assert describe(agent.messages) == ["user: first", "assistant: x"]


async def test_branch_from_the_start_summarizes_everything(session: Session) -> None:
    agent = make_agent(session, "x")
    await agent.run("first")
    await branch_and_summarize(session, None, ScriptedModel(SUMMARY))
    assert len(agent.messages) == 1
    assert SUMMARY in describe(agent.messages)[0]


async def test_branch_rejects_unknown_entries_and_running_agents(session: Session) -> None:
    agent = make_agent(session, "x", "y")
    await agent.run("first")
    with pytest.raises(SessionError, match="no entry nowhere"):
        await branch_and_summarize(session, "nowhere", ScriptedModel())

    async def branch_during_run(_: MessagesAdded) -> None:
        with pytest.raises(AgentBusyError):
            await branch_and_summarize(session, None, ScriptedModel())

    agent.on(MessagesAdded, branch_during_run)
    await agent.run("second")


@pytest.mark.covers("SES-11", "SES-12")
async def test_labels_and_branches_do_not_change_stored_lines(session: Session) -> None:
    agent = make_agent(session, "x", "y", "z")
    await agent.run("first")
    await agent.run("second")
    before = [row.data for row in session.journal.log_with_pending().rows()]
    start = response_ids(session)[0]
    session.label("here", start)
    session.branch(start, "another try")
    await agent.run("third")
    after = [row.data for row in session.journal.log_with_pending().rows()]
    assert after[: len(before)] == before
    assert describe(session.messages) == ["user: first", "assistant: x", "user: third", "assistant: z"]


async def test_whole_fork_has_all_branches_and_labels(session: Session) -> None:
    agent = make_agent(session, "x", make_calls("c1"), "y", "z")
    await agent.run("first")
    await agent.run("second")
    other = response_ids(session)[-1]
    session.label("the other", other)
    session.branch(response_ids(session)[0])
    await agent.run("third")
    copy = session.fork(title="copy", whole=True)
    assert describe(copy.messages) == describe(session.messages)
    copy.branch(other)
    assert "assistant: y" in describe(copy.messages)
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


@pytest.mark.covers("SES-13", "SES-17", "AGT-15")
async def test_runs_are_listed_with_their_status(session: Session) -> None:
    agent = make_agent(session, make_calls("c1"), "done", "other")
    await agent.run("first")
    agent.on(MessagesAdded, lambda _: agent.abort(), order=200)
    await agent.run("second", raise_errors=False)
    session.branch(response_ids(session)[0])  # runs of abandoned branches are listed too
    await agent.bus.emit(SessionStart("killed", "agent", True))
    await agent.bus.emit(MessagesAdded("killed", (Message.user("third"),), "prompt"))
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


@pytest.mark.covers("SES-17")
async def test_range_of_turns_counts_a_compacted_history_and_no_application_messages(session: Session) -> None:
    agent = make_agent(session, "one", "two", make_calls("a"), "three")
    await agent.run([CustomMessage("note", {}), Message.user("first")])
    await agent.run("second")
    seen: list[Any] = []
    agent.on("agent:done", lambda ctx: seen.extend((ctx.turn_range, session.turns)))
    agent.on(
        ContextTransform,
        lambda hook: hook.compact([Message.user("sum"), hook.messages[-1]], "size") if hook.turn == 1 else None,
    )

    result = await agent.run("third")

    (first, last), turns = seen
    assert (first, last) == (1, 4)
    assert [turn.id for turn in turns[first : last + 1]] == [cast("Message", m).id for m in result.messages]


async def test_paused_run_is_listed_as_paused(session: Session) -> None:
    agent = make_agent(session)
    await agent.bus.emit(SessionStart("r", "agent", False))
    await agent.bus.emit(MessagesAdded("r", (Message.user("go"),), "prompt"))
    await agent.bus.emit(RunPaused("r", Message.assistant("?"), {}, {}))
    await agent.bus.emit(SessionEnd("r", "paused", 1, Usage(), None))
    assert [r.status for r in list_session_runs(session)] == ["paused"]


def test_branch_without_a_summary_adds_no_message(session: Session) -> None:
    session.branch(None)
    assert session.messages == ()
    assert [type(e) for e in session.entries()] == [BranchEntry]
