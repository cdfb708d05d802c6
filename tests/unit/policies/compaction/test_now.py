from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mainspring import Agent, RunOptions, Session
from mainspring.app.compose.conversation import build_compaction
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentBusyError, RateLimitedError
from mainspring.events import ContextCompacted, StreamEvent, UsageUpdate
from mainspring.loop.hooks import TurnBefore
from mainspring.messages import Message, Usage
from mainspring.models import ModelRequest
from mainspring.policies.budgets import Budget, Ledger
from mainspring.policies.compaction import Compaction, compact_history, is_summary
from mainspring.sessions import CompactionEntry, MemorySessionStore
from mainspring.testing.scripted_model import Reply, ScriptedModel
from tests.unit.policies.compaction.test_summary import GOOD, make_conversation


@pytest.mark.covers("BYD-26")
async def test_compact_shortens_the_history_and_the_session_stores_it() -> None:
    store = MemorySessionStore()
    session = Session.create("/", home=store)
    model = ScriptedModel(Reply("hello"), Reply(GOOD), Reply("still here"))
    agent = Agent(model, messages=make_conversation(40), session=session, execution=MemoryEnv())
    await agent.run("hi")

    report = await agent.compact("Mind the colours.")

    assert report is not None
    assert report.tokens_after < report.tokens_before
    assert is_summary(agent.messages[0])
    assert "Mind the colours." in model.requests[1].messages[0].text
    await agent.run("and now?")
    session.close()
    with Session.open(session.id, home=store) as again:
        assert is_summary(again.messages[0])
        assert isinstance(again.messages[-1], Message)
        assert again.messages[-1].text == "still here"
        assert [e.reason for e in again.entries() if isinstance(e, CompactionEntry)] == ["asked"]


async def test_compact_returns_none_for_a_short_history() -> None:
    agent = Agent(ScriptedModel(Reply("hello")), execution=MemoryEnv())
    await agent.run("hi")

    assert await agent.compact() is None
    assert len(agent.messages) == 2


async def test_compact_is_rejected_during_a_run() -> None:
    agent = Agent(ScriptedModel(Reply("hello")), execution=MemoryEnv())
    rejected: list[BaseException] = []

    @agent.on(TurnBefore)
    async def compact_during_run(hook: TurnBefore) -> None:
        with pytest.raises(AgentBusyError, match="when the run has ended") as caught:
            await agent.compact()
        rejected.append(caught.value)

    await agent.run("hi")

    assert len(rejected) == 1


@pytest.mark.covers("BYD-25", "BYD-26", "CMP-08")
async def test_compact_can_use_another_model() -> None:
    cheap = ScriptedModel(Reply(GOOD), model="cheap")
    model = ScriptedModel(Reply("hello"))
    agent = Agent(
        model,
        messages=make_conversation(40),
        execution=MemoryEnv(),
        behavior=RunOptions(compaction=Compaction(model=cheap)),
    )

    assert await agent.compact() is not None

    assert len(cheap.requests) == 1
    assert model.requests == []


@pytest.mark.covers("CMP-03", "CFG-14")
def test_compaction_settings_of_the_command_line(tmp_path: Path) -> None:
    environ = {"MAINSPRING_HOME": str(tmp_path / "home")}
    place = WorkspaceOptions(cwd=str(tmp_path))

    assert build_compaction(load_rules(place, {}, environ)[1]) == Compaction()

    (tmp_path / "home").mkdir()
    file = tmp_path / "home" / "settings.json"
    file.write_text(
        '{"compaction": {"reserveTokens": 1000, "keepRecentTokens": 500, "threshold": 0.5, "prompt": "short"}}'
    )
    assert build_compaction(load_rules(place, {}, environ)[1]) == Compaction(
        reserve=1000, keep_recent=500, threshold=0.5, prompt="short"
    )

    file.write_text('{"compaction": {"enabled": false}}')
    assert build_compaction(load_rules(place, {}, environ)[1]) is None

    file.write_text(
        '{"compaction": {"model": "compatible:tiny"}, "providers": {"compatible": {"baseUrl": "http://127.0.0.1:9"}}}'
    )
    options = build_compaction(load_rules(place, {}, environ)[1])
    assert options is not None
    assert options.model is not None
    assert options.model.model == "tiny"


USAGE = Usage(1000, 100)


async def test_compact_is_retried_and_counted_for_the_conversation() -> None:
    model = ScriptedModel(
        Reply("hello", usage=USAGE), RateLimitedError("slow down", retry_after=0.0), Reply(GOOD, usage=USAGE)
    )
    behavior = RunOptions(session_budget=Budget(max_total_tokens=2200))
    customer = Ledger()
    agent = Agent(model, messages=make_conversation(40), execution=MemoryEnv(), behavior=behavior, ledger=customer)
    events: list[UsageUpdate | ContextCompacted] = []
    agent.subscribe(lambda e: events.append(e) if isinstance(e, UsageUpdate | ContextCompacted) else None)
    await agent.run("hi")

    assert await agent.compact() is not None

    assert (agent.ledger.tokens, agent.ledger.turns, customer.tokens) == (2200, 1, 2200)
    assert [e.purpose if isinstance(e, UsageUpdate) else e.reason for e in events] == ["", "summary", "asked"]
    assert isinstance(events[1], UsageUpdate)
    assert events[1].usage.total_tokens == 1100

    # The budget is used up: the conversation stays, and the reason is reported.
    problems: list[str] = []
    options = Compaction(keep_recent=1)
    agent.context.messages.extend(make_conversation(10))
    before = agent.messages
    assert await agent.compact(options=options, on_problem=problems.append) is None
    assert "the conversation has reached its limit (max_total_tokens)" in problems[0]
    assert agent.messages == before
    assert len(model.requests) == 3


async def test_run_that_starts_during_a_compaction_loses_no_message() -> None:
    class ModelThatStartsARun(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
            if "<conversation>" in request.messages[-1].text:
                await agent.run("hi")
            async for event in super().stream(request):
                yield event

    agent = Agent(ModelThatStartsARun("hello", GOOD), messages=make_conversation(40), execution=MemoryEnv())
    before = agent.messages

    with pytest.raises(AgentBusyError, match="was not compacted"):
        await agent.compact()

    assert agent.messages[: len(before)] == before
    assert [m.text for m in agent.messages[len(before) :] if isinstance(m, Message)] == ["hi", "hello"]


async def test_history_without_an_agent_is_compacted_with_retries() -> None:
    model = ScriptedModel(RateLimitedError("slow down", retry_after=0.0), Reply(GOOD))
    assert await compact_history(make_conversation(40), model) is not None
