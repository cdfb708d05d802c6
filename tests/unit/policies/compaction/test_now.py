from pathlib import Path

import pytest

from mainspring import Agent, RunOptions, Session
from mainspring.app.compose.conversation import build_compaction
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.env.memory import MemoryEnv
from mainspring.errors import AgentBusyError
from mainspring.loop.hooks import TurnBefore
from mainspring.messages import Message
from mainspring.policies.compaction import Compaction, is_summary
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
