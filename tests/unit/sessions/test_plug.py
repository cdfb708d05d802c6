"""A run with a session: what is stored, when, and what another process gets of it."""

import asyncio
from typing import Any, cast

import pytest

from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentAbortedError, AgentProviderError, ConfigError, ContextExceededError
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
from mainspring.messages import CustomMessage, Message, ToolResultBlock, ToolUseBlock, Usage
from mainspring.sessions import (
    CallStartedEntry,
    CompactionEntry,
    PairEntry,
    ResultEntry,
    RunEndEntry,
    Session,
    SessionOptions,
    SessionPlug,
)
from mainspring.sessions.history import INTERRUPTED, NOT_STARTED
from mainspring.sessions.journal import FsyncMode
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


def reopened(session: Session) -> Session:
    session.close()
    return Session.open(session.place, options=QUICK)


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
    assert not last.interrupted
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
        cut_after=3,
        pieces=2,
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
    assert not again.interrupted
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
    assert texts(last.messages)[-1] == f"user: a={INTERRUPTED} b={NOT_STARTED}"


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
    session = Session.create(options=SessionOptions(sync=sync))
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
    session = Session.create(options=SessionOptions(sync="always"))
    result = asyncio.run(agent(session, calling("a", "b"), "done").run("go"))
    assert result.status == "completed"
    assert session.problems == []
